//! Control groups on another kernel: cgroup v2 as a distribution sets it up, inside a guest.
//!
//! A host has cgroup v1 or v2, and tests see only what it has; a guest always has v2. This program
//! is the guest's `/init` and, in there, also the service that does the checking.
#![allow(clippy::print_stdout, reason = "a test's report")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vtax_agent::Client;
use vtax_agent::message::{Event, Provisioning, ServiceId};
use vtax_lab::{Isolation, Lab, LabOptions};
use vtax_plan::model::{CommandService, Ready, Service, ServiceKind};
use vtax_sys::cgroup::{Limits, RunGroups, sweep};
use vtax_sys::controller::ControllerOptions;
use vtax_sys::require::{Need, need};
use vtax_sys::spawn::Spawn;
use vtax_sys::{Namespaces, ProcessExit};
use vtax_units::{Bytes, CpuSet, Nanos};
use vtax_vm::{GuestTemplate, GuestTemplateOptions, Vm, VmConfig};

const LIMIT: Duration = Duration::from_secs(120);
const DONE: &str = "all groups are as they should be";

fn main() {
    if vtax_agent::guest::is_init() {
        vtax_agent::guest::run();
    }
    if std::env::args().nth(1).as_deref() == Some("inside") {
        groups_hold_and_go();
        println!("{DONE}");
        std::thread::sleep(Duration::from_secs(600));
        return;
    }
    if !need(&[Need::Vm]) {
        return;
    }
    let template =
        GuestTemplate::prepare(&GuestTemplateOptions::of_user()).expect("this host can prepare guests");
    in_guest(&template, "root of the hierarchy", "exec {program} inside");
    // A group of its own, as a delegated one or a container's: its root has a process in it.
    let delegated = "echo +cpuset +memory > /sys/fs/cgroup/cgroup.subtree_control\n\
                     mkdir /sys/fs/cgroup/given\n\
                     echo $$ > /sys/fs/cgroup/given/cgroup.procs\n\
                     exec unshare -C -m sh -ec 'umount /sys/fs/cgroup\nmount -t cgroup2 none /sys/fs/cgroup\nexec {program} inside'";
    in_guest(&template, "delegated group", delegated);
    println!("ok");
}

fn in_guest(template: &GuestTemplate, name: &str, script: &str) {
    let start = Instant::now();
    let config = VmConfig {
        name: "groups".to_owned(),
        memory: Bytes::from_mib(512),
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
    let print = |event: Event| {
        if let Event::ServiceOutput { line, .. } = event {
            println!("  {line}");
        }
    };
    let read = stream.try_clone().unwrap();
    let client = Client::start("groups", read.into(), stream.into(), Box::new(print)).unwrap();
    client.hello(LIMIT).unwrap_or_else(|e| panic!("{e}\n{}", vm.failure("no answer")));
    // This program is the guest's /init too; its own path may lie in /tmp, where the guest has its own.
    let program = vtax_vm::contract::BINARY_IN_GUEST;
    let service = Service {
        name: "groups".to_owned(),
        kind: ServiceKind::Command(CommandService {
            command: vec!["/bin/sh".into(), "-ec".into(), script.replace("{program}", program)],
            port: 1,
            ready: Ready::Log(DONE.to_owned()),
            env: BTreeMap::new(),
            files: BTreeMap::new(),
        }),
        ready_timeout: LIMIT.into(),
        stop_timeout: Nanos::from_secs(5),
    };
    let started = client.start_service(
        ServiceId::ONLY,
        &service,
        IpAddr::V4(Ipv4Addr::LOCALHOST),
        &Provisioning::default(),
    );
    if let Err(e) = started {
        panic!("{name}: {e}\n{}", vm.console());
    }
    vm.quit();
    println!("cgroup v2, {name}: ok after {:?}", start.elapsed());
}

/// Which OCI runtime works on cgroup v2; where none is installed, that is said.
fn containers(groups: &RunGroups) -> String {
    let mut options = LabOptions::new(Isolation::Namespaces);
    options.groups = Some(groups.clone());
    let mut lab = Lab::new(options).unwrap();
    lab.container_runtime().unwrap_or_else(|e| {
        let text = e.to_string();
        assert!(!text.contains("exit code"), "{text}");
        text
    })
}

/// The whole life of a run's groups, with a controller and a greedy program.
fn groups_hold_and_go() {
    sweep().unwrap();
    let mut groups = RunGroups::of_this_process();
    let keeper = groups.make().unwrap();
    println!("{} {:?}", groups.describe(), groups.notes());
    assert_eq!(groups.describe(), "cpuset and memory (cgroup v2)");
    let name = groups.name().to_owned();
    assert!(groups.oci_path("sut").is_some_and(|p| p.starts_with('/') && p.ends_with("/sut")));
    let inside = groups.clone();
    let ended = keeper.start_controller(ControllerOptions::for_this_process(), move |_| {
        let limits = Limits { cpus: Some(CpuSet::of([0])), memory: Some(Bytes::from_mib(32)) };
        let node = inside.node("sut", &limits).unwrap();
        let enforced = node.enforced().unwrap();
        assert_eq!((&enforced.cpus, enforced.memory), (&limits.cpus, limits.memory));
        let script = "dd if=/dev/zero of=/dev/null bs=100M count=1 2>/dev/null";
        let greedy = Spawn::new(Path::new("/bin/sh"), ["sh", "-c", script])
            .namespaces(Namespaces::NODE)
            .start(|pid| node.attach(pid))
            .unwrap();
        assert!(!greedy.wait().unwrap().success(), "100 MB fitted into 32 MiB");
        let usage = node.usage();
        assert!(usage.killed.is_some_and(|k| k > 0) && usage.memory_peak.is_some(), "{usage:?}");
        println!("containers: {}", containers(&inside));
        // For the keeper: a group with a process in it.
        let left = Spawn::new(Path::new("/bin/sleep"), ["sleep", "1000"]);
        left.start(|pid| node.attach(pid)).unwrap();
        0
    });
    assert_eq!(ended.unwrap().wait().unwrap(), ProcessExit::Exited(0));
    groups.finish(keeper).unwrap();
    let left: Vec<_> = std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten().collect();
    assert!(left.iter().all(|e| e.file_name().to_string_lossy() != name), "{name} was left behind");
}
