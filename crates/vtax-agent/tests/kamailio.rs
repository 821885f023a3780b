//! Kamailio with MariaDB in a guest, from a database that was made on the host.
//!
//! Its binary is also the guest's `/init`.
#![allow(clippy::print_stdout, reason = "a test's report")]

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vtax_agent::Client;
use vtax_agent::message::{Event, Provisioning, ServiceId};
use vtax_plan::model::{KamailioOptions, LocationMode, Service, ServiceKind, Subscribers};
use vtax_sys::require::{Need, need};
use vtax_units::{Bytes, CpuSet, Nanos};
use vtax_vm::{GuestTemplate, GuestTemplateOptions, Vm, VmConfig};

const LIMIT: Duration = Duration::from_secs(300);

fn main() {
    if vtax_agent::guest::is_init() {
        vtax_agent::guest::run();
    }
    if !need(&[Need::Vm]) {
        return;
    }
    let service = Service {
        name: "sip".into(),
        kind: ServiceKind::Kamailio(KamailioOptions {
            port: 5060,
            children: Some(4),
            shared_memory: Bytes::from_mib(64),
            t1: Nanos::from_millis(500),
            location: LocationMode::WriteBack,
            media_relay: None,
            tls: false,
        }),
        ready_timeout: LIMIT.into(),
        stop_timeout: Nanos::from_secs(20),
    };
    if !vtax_sys::require::complete(vtax_service::missing(&service)) {
        return;
    }
    let subscribers = Subscribers {
        count: 100_000,
        public: "subs%06d".into(),
        private: "subs%06d".into(),
        password: "abcdefgh".into(),
        realm: "open-ims.test".into(),
        domain: "open-ims.test".into(),
    };
    // Not below /tmp or /run, of which the guest has its own.
    let cache = tempfile::tempdir_in("/var/tmp").expect("a directory that guests see");
    let made = vtax_service::prepare(&service, Some(&subscribers), cache.path()).expect("it can be made");
    let made = made.expect("Kamailio has a database");
    let template =
        GuestTemplate::prepare(&GuestTemplateOptions::of_user()).expect("this host can prepare guests");
    let provisioning =
        Provisioning { subscribers: Some(subscribers), prepared: Some(made.path.clone()), disk: None };
    starts_in_a_guest(&template, &service, &provisioning);
}

fn starts_in_a_guest(template: &GuestTemplate, service: &Service, provisioning: &Provisioning) {
    let config = VmConfig {
        name: "sut".to_owned(),
        memory: Bytes::from_mib(768),
        vcpus: 1,
        nics: Vec::new(),
        cpus: CpuSet::default(),
        control_groups: Vec::new(),
        root: PathBuf::from("/"),
        disk: None,
        memory_file: None,
        balloon: false,
    };
    let vm = Vm::start(template, config).unwrap();
    let stream = vm.agent_stream().unwrap();
    let deaths = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&deaths);
    let listen = move |event| {
        if let Event::ServiceDied { status, .. } = event {
            told.lock().unwrap().push(status);
        }
    };
    let client =
        Client::start("sut", stream.try_clone().unwrap().into(), stream.into(), Box::new(listen)).unwrap();
    client.hello(LIMIT).unwrap_or_else(|e| panic!("{e}\n{}", vm.failure("no answer")));
    // For loopback, over which the service is asked whether it is ready.
    client.configure_network(Vec::new()).unwrap();
    let begun = Instant::now();
    let address = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let ready = client
        .start_service(ServiceId::ONLY, service, address, provisioning)
        .unwrap_or_else(|e| panic!("{e}\n{}", vm.failure("the service failed")));
    let taken = begun.elapsed();
    let startup = Duration::from(ready.startup);
    println!(
        "{}: {} ready after {startup:?}, {taken:?} with its database in place",
        template.proof().line(),
        ready.version
    );
    assert!(
        ready.version.starts_with("kamailio/") && ready.version.contains("MariaDB/"),
        "{}",
        ready.version
    );
    let stopping = Instant::now();
    client.stop_service(ServiceId::ONLY, service.stop_timeout).unwrap();
    println!("stopped after {:?}", stopping.elapsed());
    assert_eq!(*deaths.lock().unwrap(), Vec::<String>::new());
    vm.quit();
}
