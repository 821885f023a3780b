//! A guest, from QEMU's start to its agent's answers. This program is also the guest's `/init`, so
//! it has no test harness: it runs its cases one after the other and ends with the first failure.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a test without a harness reports by itself")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use vtax_agent::Client;
use vtax_agent::message::{Provisioning, ServiceId};
use vtax_plan::model::{CommandService, Ready, Service, ServiceKind};
use vtax_sys::require::{Need, need};
use vtax_units::{Bytes, CpuSet, Nanos};
use vtax_vm::{GuestTemplate, GuestTemplateOptions, ThreadRole, Vm, VmConfig};

/// No case may take longer, whatever the host is busy with: one that does hangs.
const LIMIT: Duration = Duration::from_secs(300);

/// One case: panics where it fails.
type Case = fn(&GuestTemplate);

fn main() {
    if vtax_agent::guest::is_init() {
        vtax_agent::guest::run();
    }
    if !need(&[Need::Vm]) {
        return;
    }
    let template =
        GuestTemplate::prepare(&GuestTemplateOptions::of_user()).expect("this host can prepare guests");
    println!("{}", template.proof().line());
    let cases: [(&str, Case); 3] = [
        ("a guest becomes a node with the host's files", becomes_a_node),
        ("a machine that QEMU refuses is told in QEMU's words", refused_by_qemu),
        ("a guest that is killed leaves its evidence", killed),
    ];
    for (name, case) in cases {
        let started = Instant::now();
        case(&template);
        println!("test {name} ... ok ({:.1} s)", started.elapsed().as_secs_f64());
        assert!(started.elapsed() < LIMIT, "{name}: too slow");
    }
}

fn config(template: &GuestTemplate) -> VmConfig {
    VmConfig {
        name: "sut".to_owned(),
        memory: template.least_memory(),
        vcpus: 1,
        nics: Vec::new(),
        cpus: CpuSet::default(),
        control_groups: Vec::new(),
        root: PathBuf::from("/"),
        disk: None,
        memory_file: None,
        balloon: false,
    }
}

fn client(vm: &Vm) -> Client {
    let stream = vm.agent_stream().unwrap();
    let read = stream.try_clone().unwrap();
    Client::start(vm.name(), read.into(), stream.into(), Box::new(|_| {})).unwrap()
}

/// A service that gets ready only where the guest is what it should be.
fn witness() -> Service {
    // As on the host, and in containers.
    let files = format!("test \"$(ulimit -Hn)\" -eq {}", vtax_sys::launch::most_files());
    let conditions = [
        "test -x /run/vtax/vtax",                 // vtax is reachable by name
        "test \"$(uname -n)\" = sut",             // host name
        "test -e /dev/stdout",                    // links that logs are written to
        "touch /usr/vtax-was-here /tmp/x /run/x", // a layer of its own over the host's files
        "test -w /sys/fs/cgroup",
        "test ! -e /modules",
        files.as_str(),
        "cat /proc/self/cgroup",
        "test -n \"$PATH\"",
    ];
    Service {
        name: "witness".to_owned(),
        kind: ServiceKind::Command(CommandService {
            command: vec!["/bin/sleep".to_owned(), "600".to_owned()],
            port: 1,
            ready: Ready::Command(vec!["/bin/sh".to_owned(), "-ec".to_owned(), conditions.join("\n")]),
            env: BTreeMap::new(),
            files: BTreeMap::new(),
        }),
        ready_timeout: LIMIT.into(),
        stop_timeout: Nanos::from_secs(5),
    }
}

fn becomes_a_node(template: &GuestTemplate) {
    let vm = Vm::start(template, config(template)).unwrap();
    let client = client(&vm);
    let facts = client.hello(LIMIT).unwrap_or_else(|e| panic!("{e}\n{}", vm.failure("no answer")));
    println!("the agent answered after {:.2} s", vm.started().elapsed().as_secs_f64());
    assert_eq!(facts.kernel, template.kernel().release);
    assert_eq!(facts.cpus, 1);
    // Also where the host sends by an algorithm that the guest's kernel has a module for.
    let sockets = client.configure_network(Vec::new()).unwrap().sockets;
    for (setting, value) in vtax_sys::sysctl::sockets() {
        assert_eq!(
            sockets.get(&setting),
            Some(&value),
            "{setting}, which was {:?}",
            facts.sockets.get(&setting)
        );
    }
    vm.wait_ready(Instant::now() + LIMIT).unwrap();
    let threads = vm.threads().unwrap();
    assert_eq!(threads.iter().filter(|(_, role)| *role == ThreadRole::Vcpu(0)).count(), 1);
    assert!(threads.contains(&(vm.pid(), ThreadRole::Io)), "{threads:?}");
    if let Err(e) = client.start_service(
        ServiceId::ONLY,
        &witness(),
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        &Provisioning::default(),
    ) {
        panic!("{e}\n{}", vm.failure("the witness failed"));
    }
    client.stop_service(ServiceId::ONLY, Nanos::from_secs(5)).unwrap();
    assert!(!std::path::Path::new("/usr/vtax-was-here").exists(), "the host's files are never written");
    assert_eq!(vm.console().trim(), "", "nothing to complain about");
    let pid = vm.pid();
    vm.quit();
    assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
}

fn refused_by_qemu(template: &GuestTemplate) {
    let error = Vm::start(template, VmConfig { root: PathBuf::from("/no/such/dir"), ..config(template) })
        .unwrap_err();
    let text = error.to_string();
    assert!(text.contains("virtual machine `sut`: did not start"), "{text}");
    assert!(text.contains("/no/such/dir") && text.contains("exit status: 1"), "{text}");
    let error =
        Vm::start(template, VmConfig { memory: Bytes::from_mib(64), ..config(template) }).unwrap_err();
    let least = template.least_memory();
    let expected = format!("virtual machine `sut`: a guest needs at least {least} of memory, not 64MiB: ");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

fn killed(template: &GuestTemplate) {
    // A busy machine may come so late that the guest is up before it is killed: then it kills another.
    let killed = (0..10).find_map(|_| {
        let vm = Vm::start(template, config(template)).unwrap();
        assert!(vm.ended().is_none());
        let pid = rustix::process::Pid::from_raw(i32::try_from(vm.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
        vm.wait_ready(Instant::now() + LIMIT).err().map(|error| (vm, error.to_string()))
    });
    let (vm, error) = killed.expect("one that is killed before its agent answers");
    assert!(error.contains("ended before its agent answered (QEMU: signal: 9"), "{error}");
    assert!(client(&vm).hello(LIMIT).is_err());
    assert!(vm.ended().is_some());
}
