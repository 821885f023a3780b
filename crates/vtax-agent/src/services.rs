//! The node's services, each under the id that the controller gave it.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use vtax_plan::model::Service;
use vtax_service::{Notice, RunningService, StartContext};
use vtax_sys::chain;
use vtax_sys::sched::allowed_cpu_count;
use vtax_sys::sync::lock;

use crate::message::{Event, Provisioning, ServiceId, ServiceReady};
use crate::writer::Writer;

/// What the agent is to its node.
#[derive(Debug, Clone)]
pub struct Role {
    /// True where the agent is the first process of a PID namespace or a guest: it reaps orphans,
    /// and the kernel ends everything with it.
    pub init: bool,
    /// An empty directory for the services' private files.
    pub directory: PathBuf,
}

pub(crate) struct Services {
    role: Role,
    writer: Writer,
    running: Mutex<BTreeMap<ServiceId, RunningService>>,
    /// Set when the agent ends, so that a service that is still starting is given up.
    call_off: Arc<AtomicBool>,
    started: AtomicU32,
}

impl Services {
    pub(crate) fn new(role: Role, writer: Writer) -> Self {
        Self { role, writer, running: Mutex::default(), call_off: Arc::default(), started: AtomicU32::new(0) }
    }

    /// Starts a service and returns once it is ready.
    pub(crate) fn start(
        &self,
        id: ServiceId,
        service: &Service,
        address: IpAddr,
        provisioning: &Provisioning,
    ) -> Result<ServiceReady, String> {
        let mut running = lock(&self.running);
        if let Some(other) = running.get(&id) {
            return Err(format!("service {id}, `{}`, still runs: stop it first", other.name()));
        }
        // A directory of its own for each start: what one start left must not help the next.
        let count = self.started.fetch_add(1, Ordering::Relaxed);
        let context = StartContext {
            address,
            directory: self.role.directory.join(format!("{}-{count}", service.name)),
            cpus: allowed_cpu_count(),
            vtax: PathBuf::from("/proc/self/exe"),
            die_with_starter: !self.role.init,
            prepared: provisioning.prepared.clone(),
            disk: provisioning.disk.clone(),
            call_off: Some(Arc::clone(&self.call_off)),
        };
        let subscribers = provisioning.subscribers.as_ref();
        let started = RunningService::start(service, subscribers, &context, self.listener(id, &service.name))
            .map_err(|e| chain(&e))?;
        let ready = ServiceReady {
            startup: started.startup(),
            address: started.address(),
            version: started.version().to_owned(),
            command: started.command().to_vec(),
        };
        running.insert(id, started);
        Ok(ready)
    }

    fn listener(&self, id: ServiceId, name: &str) -> impl FnMut(Notice) + Send + 'static {
        let (writer, service) = (self.writer.clone(), name.to_owned());
        let guest = Guest::of_this_node();
        move |notice| {
            let service = service.clone();
            writer.event(&match notice {
                Notice::Output { stream, line } => {
                    Event::ServiceOutput { id, service, stream: stream.to_owned(), line }
                }
                Notice::Died { process, status } => {
                    let which = process.map_or_else(String::new, |name| format!("{name}: "));
                    let short = if guest.ran_out_of_memory() { OUT_OF_MEMORY } else { "" };
                    Event::ServiceDied { id, service, status: format!("{which}{status}{short}") }
                }
            });
        }
    }

    /// Stops a service; that it doesn't run is no error.
    pub(crate) fn stop(&self, id: ServiceId) -> Result<(), String> {
        // Not under the lock: stopping may take long, and probes ask for process ids.
        let service = lock(&self.running).remove(&id);
        service.map_or(Ok(()), |service| service.stop().map(drop).map_err(|e| chain(&e)))
    }

    /// Gives up a service that is starting, then stops all that run.
    pub(crate) fn end(&self) {
        self.call_off.store(true, Ordering::Relaxed);
        for service in std::mem::take(&mut *lock(&self.running)).into_values() {
            // A service that won't stop dies with the node.
            let _ = service.stop();
        }
    }

    /// Process ids of all services.
    pub(crate) fn pids(&self) -> Vec<u32> {
        lock(&self.running).values().flat_map(RunningService::pids).collect()
    }
}

/// What is added to how a service ended.
const OUT_OF_MEMORY: &str = ", after its guest's kernel had killed a process as memory ran out";

/// The guest that this node is, if it is one. Elsewhere the kernel is the host's, and kills processes of others.
struct Guest {
    killed_before: Option<u64>,
}

impl Guest {
    fn of_this_node() -> Self {
        Self { killed_before: crate::guest::is_first().then(killed_for_memory).flatten() }
    }

    fn ran_out_of_memory(&self) -> bool {
        self.killed_before.is_some_and(|before| killed_for_memory() > Some(before))
    }
}

/// How many processes this kernel has killed because memory ran out (`oom_kill`, proc_vmstat(5), Linux 4.13).
fn killed_for_memory() -> Option<u64> {
    killed_in(&std::fs::read_to_string("/proc/vmstat").ok()?)
}

fn killed_in(vmstat: &str) -> Option<u64> {
    vmstat.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_for_memory_are_counted() {
        assert_eq!(killed_in("nr_free_pages 7\noom_kill 3\noom_kill_x 9\n"), Some(3));
        assert_eq!(killed_in("nr_free_pages 7\noom_killed 3\noom_kill \n"), None);
        assert!(killed_for_memory().is_some());
        assert!(!Guest::of_this_node().ran_out_of_memory(), "this is no guest");
    }
}
