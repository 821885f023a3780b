//! The node's service: at most one at a time.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use vtax_plan::model::Service;
use vtax_service::{Notice, Place, RunningService};
use vtax_sys::chain;

use crate::message::{Event, Provisioning, ServiceReady};
use crate::node::lock;
use crate::serve::{Role, Writer};

pub(crate) struct Services {
    role: Role,
    writer: Writer,
    running: Mutex<Option<RunningService>>,
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
        service: &Service,
        address: IpAddr,
        provisioning: &Provisioning,
    ) -> Result<ServiceReady, String> {
        let mut running = lock(&self.running);
        if let Some(other) = running.as_ref() {
            return Err(format!("service `{}` still runs: stop it first", other.name()));
        }
        // A directory of its own for each start: what one start left must not help the next.
        let count = self.started.fetch_add(1, Ordering::Relaxed);
        let place = Place {
            address,
            directory: self.role.directory.join(format!("{}-{count}", service.name)),
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u32),
            vtax: PathBuf::from("/proc/self/exe"),
            die_with_starter: !self.role.init,
            prepared: provisioning.prepared.clone(),
            call_off: Some(Arc::clone(&self.call_off)),
        };
        let subscribers = provisioning.subscribers.as_ref();
        let started = RunningService::start(service, subscribers, &place, self.listener(&service.name))
            .map_err(|e| chain(&e))?;
        let ready = ServiceReady {
            startup: started.startup(),
            address: started.address(),
            version: started.version().to_owned(),
            command: started.command().to_vec(),
        };
        *running = Some(started);
        Ok(ready)
    }

    fn listener(&self, name: &str) -> impl FnMut(Notice) + Send + 'static {
        let (writer, service) = (self.writer.clone(), name.to_owned());
        move |notice| {
            let service = service.clone();
            writer.event(&match notice {
                Notice::Output { stream, line } => {
                    Event::ServiceOutput { service, stream: stream.to_owned(), line }
                }
                Notice::Died { process, status } => {
                    let which = process.map_or_else(String::new, |name| format!("{name}: "));
                    Event::ServiceDied { service, status: format!("{which}{status}") }
                }
            });
        }
    }

    /// Stops the service; that none runs is no error.
    pub(crate) fn stop(&self) -> Result<(), String> {
        match lock(&self.running).take() {
            Some(service) => service.stop().map(drop).map_err(|e| chain(&e)),
            None => Ok(()),
        }
    }

    /// Gives up whatever is starting, then stops what runs.
    pub(crate) fn end(&self) {
        self.call_off.store(true, Ordering::Relaxed);
        // A service that won't stop dies with the node.
        let _ = self.stop();
    }

    /// Process ids of what was started.
    pub(crate) fn pids(&self) -> Vec<u32> {
        lock(&self.running).iter().flat_map(RunningService::pids).collect()
    }
}
