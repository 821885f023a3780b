//! What an agent does for its node: network, service, probes, load.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use vtax_load::net::{NetFailure, NetSpec};
use vtax_load::sip::SipProfile;
use vtax_load::{Control, LoadResult, LoadSpec};
use vtax_probe::{Probe, Sampler, Scope, Snapshot};
use vtax_sys::chain;

use crate::message::{Event, NodeFacts, PROTOCOL_VERSION, Reply, Request};
use crate::network;
use crate::serve::{Role, Writer, fit};
use crate::services::Services;
use crate::sip::SipSessions;

/// Time between two reports of a load's progress.
const PROGRESS_EVERY: Duration = Duration::from_millis(500);

pub(crate) struct Node {
    role: Role,
    writer: Writer,
    services: Services,
    sampler: Mutex<Option<Sampler>>,
    loads: Mutex<Vec<Arc<Control>>>,
    sip: SipSessions,
}

impl Node {
    pub(crate) fn new(role: Role, writer: Writer) -> Self {
        let services = Services::new(role.clone(), writer.clone());
        let (sampler, loads, sip) = Default::default();
        Self { role, writer, services, sampler, loads, sip }
    }

    /// Service operations, one at a time on the operator's thread.
    pub(crate) fn operate(&self, request: &Request) -> Reply {
        let result = match request {
            Request::StartService { service, address, provisioning } => {
                self.services.start(service, *address, provisioning).map(Reply::ServiceReady)
            }
            _ => self.services.stop().map(|()| Reply::Done),
        };
        result.unwrap_or_else(|error| Reply::Failed { error })
    }

    /// Everything that is answered at once.
    pub(crate) fn answer(&self, request: &Request) -> Reply {
        let result = match request {
            Request::Hello { .. } => Ok(Reply::Hello(facts())),
            Request::ConfigureNetwork { interfaces } => {
                network::configure(interfaces).map(|()| Reply::Done).map_err(|e| chain(&e))
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
            Request::OpenSip { spec } => self.sip.open(spec).map(|()| Reply::Done),
            Request::CloseSip => {
                self.sip.close();
                Ok(Reply::Done)
            }
            other => Err(format!("`{}` is not answered here", other.name())),
        };
        result.unwrap_or_else(|error| Reply::Failed { error })
    }

    fn probe(&self) -> Result<Probe, String> {
        let scope = if self.role.init {
            Scope::Node { except: vec![std::process::id()] }
        } else {
            // Without a PID namespace of its own, the node is what the agent has started.
            Scope::Processes(self.services.pids())
        };
        Probe::new(scope).map_err(|e| chain(&e))
    }

    fn snapshot(&self) -> Result<Snapshot, String> {
        self.probe()?.snapshot().map_err(|e| chain(&e))
    }

    /// Runs a load; what it recorded, and the successful answers since its start.
    pub(crate) fn run_load(&self, spec: &LoadSpec) -> Result<(LoadResult, u64), String> {
        let control = Arc::new(Control::new());
        lock(&self.loads).push(Arc::clone(&control));
        let ended = AtomicBool::new(false);
        let result = std::thread::scope(|scope| {
            let reporter = scope.spawn(|| self.report_progress(&control, &ended));
            let result = vtax_load::run(spec, &control).map_err(|e| chain(&e));
            ended.store(true, Ordering::Relaxed);
            reporter.thread().unpark();
            result
        });
        lock(&self.loads).retain(|c| !Arc::ptr_eq(c, &control));
        result.map(|r| (r, control.progress().ok))
    }

    /// Runs a SIP profile; the JSON of its result.
    pub(crate) fn run_sip(&self, profile: &SipProfile) -> Result<Vec<u8>, String> {
        let result = self.sip.run(profile, &self.writer)?;
        serde_json::to_vec(&result).map_err(|e| format!("the result can't be sent: {e}"))
    }

    /// Makes a network test; the JSON of what came of it.
    pub(crate) fn run_net(&self, spec: &NetSpec) -> Result<Vec<u8>, String> {
        let control = Arc::new(Control::new());
        lock(&self.loads).push(Arc::clone(&control));
        let watch = |live: &_| self.writer.event(&Event::NetProgress { live: *live });
        let result = vtax_load::net::run(spec, &control, &watch).map_err(|error| NetFailure::from(&error));
        lock(&self.loads).retain(|c| !Arc::ptr_eq(c, &control));
        serde_json::to_vec(&result).map_err(|e| format!("the result can't be sent: {e}"))
    }

    fn report_progress(&self, control: &Control, ended: &AtomicBool) {
        loop {
            std::thread::park_timeout(PROGRESS_EVERY);
            if ended.load(Ordering::Relaxed) {
                return;
            }
            let progress = control.progress();
            self.writer.event(&Event::LoadProgress { elapsed: progress.elapsed, answered: progress.ok });
        }
    }

    /// Ends loads, probes and services; whatever fails here ends with the node.
    pub(crate) fn stop_everything(&self) {
        for load in lock(&self.loads).drain(..) {
            load.cancel();
        }
        self.sip.cancel();
        drop(lock(&self.sampler).take());
        self.services.end();
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
        cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
        memory_bytes,
    }
}

/// A panic of another thread while it held the lock leaves nothing half-done in these structures.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
