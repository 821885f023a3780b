//! What an agent does for its node: network, services, probes, load.

use std::sync::Mutex;
use std::time::Duration;

use vtax_load::Step;
use vtax_probe::{Probe, Sampler, Scope, Snapshot};
use vtax_sys::clock::unix_time;
use vtax_sys::sched::allowed_cpu_count;
use vtax_sys::sync::lock;
use vtax_sys::{chain, sysctl};
use vtax_units::Nanos;

use crate::array::Array;
use crate::frame::MAX_PAYLOAD;
use crate::guest;
use crate::loads::Loads;
use crate::message::{Configured, NodeFacts, PROTOCOL_VERSION, Reply, Request};
use crate::network;
use crate::page_cache;
use crate::services::{Role, Services};
use crate::topologies::Topologies;
use crate::writer::Writer;

pub(crate) struct Node {
    role: Role,
    services: Services,
    sampler: Mutex<Option<Sampler>>,
    loads: Loads,
    array: Array,
    topologies: Topologies,
}

impl Node {
    pub(crate) fn new(role: Role, writer: Writer) -> Self {
        let services = Services::new(role.clone(), writer.clone());
        let topologies = Topologies::new(role.directory.join("topology"));
        let (sampler, loads) = (Mutex::default(), Loads::new(writer));
        Self { role, services, sampler, loads, array: Array::default(), topologies }
    }

    /// Operations on services and topologies, one at a time on the operator's thread.
    pub(crate) fn operate(&self, request: &Request) -> Reply {
        let result = match request {
            request if Topologies::is_meant(request) => self.topologies.operate(request),
            Request::StartService { id, service, address, provisioning } => {
                self.services.start(*id, service, *address, provisioning).map(Reply::ServiceReady)
            }
            Request::StopService { id } => self.services.stop(*id).map(|()| Reply::Done),
            other => Err(format!("`{}` is no operation on services", other.name())),
        };
        result.unwrap_or_else(|error| Reply::Failed { error })
    }

    /// Everything that is answered at once.
    pub(crate) fn answer(&self, request: &Request) -> Reply {
        let result = match request {
            Request::Hello { .. } => Ok(Reply::Hello(facts())),
            Request::Clock => Ok(Reply::Clock { unix: unix_time() }),
            Request::ConfigureNetwork { interfaces, sockets } => {
                // Nodes on a host have its settings, and a host that is measured keeps its own.
                if guest::is_first() {
                    sysctl::take_over(sockets);
                }
                let configured = |cards| Reply::Configured(Configured { cards, sockets: sysctl::sockets() });
                network::configure(interfaces).map(configured).map_err(|e| chain(&e))
            }
            Request::StartProbes { interval } => self
                .probe()
                .and_then(|probe| Sampler::start(probe, *interval).map_err(|e| chain(&e)))
                .map(|sampler| {
                    *lock(&self.sampler) = Some(sampler);
                    Reply::Done
                }),
            Request::StopProbes => Ok(Reply::Snapshots {
                snapshots: lock(&self.sampler).take().map_or_else(Vec::new, |s| fit(s.stop().snapshots)),
            }),
            Request::Snapshot => self.snapshot().map(|s| Reply::Snapshots { snapshots: vec![s] }),
            Request::OpenLoad { spec } => self.loads.open(spec).map(|()| Reply::Done),
            Request::CloseLoad => self.loads.close().map(|()| Reply::Done),
            Request::DropFiles { directory } => page_cache::drop_files(directory)
                .map(|(bytes, of)| Reply::Held { bytes, of })
                .map_err(|e| e.to_string()),
            Request::FailDisk => self.array.fail().map(|()| Reply::Done),
            Request::ReplaceDisk => self.array.replace().map(|()| Reply::Done),
            Request::Rebuilds => Ok(Reply::Rebuilds { took: self.array.rebuilds() }),
            other => Err(format!("`{}` is not answered here", other.name())),
        };
        result.unwrap_or_else(|error| Reply::Failed { error })
    }

    fn probe(&self) -> Result<Probe, String> {
        let scope = if self.role.init {
            Scope::Node { except: vec![std::process::id()] }
        } else {
            // Without a PID namespace of its own, the node is what the agent has started.
            Scope::Started { roots: self.services.pids(), by: std::process::id() }
        };
        Probe::new(scope).map_err(|e| chain(&e))
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        self.probe()?.snapshot().map_err(|e| chain(&e))
    }

    /// Runs a step of the load that is open, not before a time of this node's clock; the bytes of what it found. `id` is the
    /// request's.
    pub(crate) fn run_step(&self, id: u32, step: &Step, at: Option<Nanos>) -> Result<Vec<u8>, String> {
        self.loads.run(id, step, at)
    }

    /// Runs a command in a node of the topology, or in this one.
    pub(crate) fn execute(&self, node: &str, command: &[String]) -> Reply {
        self.topologies.execute(node, command).unwrap_or_else(|error| Reply::Failed { error })
    }

    /// Captures packets at an interface of the topology; the bytes of the file.
    pub(crate) fn capture(&self, node: &str, interface: &str, duration: Duration) -> Result<Vec<u8>, String> {
        self.topologies.capture(node, interface, duration)
    }

    /// Ends loads, probes and services; whatever fails here ends with the node.
    pub(crate) fn stop_everything(&self) {
        self.loads.cancel();
        drop(lock(&self.sampler).take());
        self.services.end();
        self.topologies.end();
    }
}

fn facts() -> NodeFacts {
    let memory_bytes = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text.lines().find(|l| l.starts_with("MemTotal:"))?.to_owned();
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(0, |kib| kib * 1024);
    NodeFacts {
        version: PROTOCOL_VERSION,
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpus: allowed_cpu_count(),
        memory_bytes,
        machine: machine(),
        sockets: sysctl::sockets(),
    }
}

/// Host name, processor, microcode and clock source, as far as the kernel tells.
fn machine() -> String {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let of = |key: &str| {
        let mut lines = cpus.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(name, _)| name.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = std::fs::read_to_string(source).ok().map(|name| format!("clock source {}", name.trim()));
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let microcode = of("microcode").map(|version| format!("microcode {version}"));
    let words = [Some(name), of("model name"), microcode, source];
    words.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Snapshots are answered as one reply; a long series is thinned rather than lost.
fn fit(mut snapshots: Vec<Snapshot>) -> Vec<Snapshot> {
    while snapshots.len() > 1
        && serde_json::to_vec(&snapshots).map_or(0, |bytes| bytes.len()) > MAX_PAYLOAD - (64 << 10)
    {
        let mut odd = false;
        snapshots.retain(|_| {
            odd = !odd;
            odd
        });
    }
    snapshots
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use vtax_probe::delta::Interval;
    use vtax_probe::layers::{Hosting, Layer, break_down};
    use vtax_sys::cpu_clock::process_cpu;
    use vtax_units::CpuSet;

    use super::*;

    /// A quota of CPU time is seen natively alone: an agent that took it for CPUs would give a native service fewer workers than
    /// the same one in a guest.
    #[test]
    fn a_node_has_the_cpus_that_it_may_run_on() {
        let allowed = vtax_sys::sched::allowed_cpus().expect("the kernel tells");
        assert_eq!(facts().cpus as usize, allowed.len());
    }

    /// What an agent does itself, as tests of its own disk, is part of what its node used, whether it has a PID namespace or not.
    #[test]
    fn the_agents_own_time_is_counted() {
        let own = || process_cpu(std::process::id()).unwrap_or_default();
        for init in [false, true] {
            let nobody = File::options().write(true).open("/dev/null").expect("it is there");
            let directory = tempfile::tempdir().expect("a directory");
            let role = Role { init, directory: directory.path().to_owned() };
            let node = Node::new(role, Writer::new(nobody));
            let start = node.snapshot().expect("/proc");
            let (from, mut sum) = (own(), 0u64);
            while own().saturating_sub(from) < Nanos::from_millis(30) {
                sum = std::hint::black_box(sum.wrapping_add(1));
            }
            let used = own().saturating_sub(from);
            let end = node.snapshot().expect("/proc");
            let hosting = Hosting::Processes { node: Interval { start: &start, end: &end }, runtime: None };
            let found = break_down(&hosting, &CpuSet::default(), 1);
            assert!(found.time(Layer::Supervisor) >= used, "{init}: {used}, {found:?}");
        }
    }
}
