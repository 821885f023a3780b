//! The controller's end of the stream.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use vtax_load::net::{NetFailure, NetResult, NetSpec};
use vtax_load::sip::{SipProfile, SipResult, SipSpec};
use vtax_load::{LoadResult, LoadSpec};
use vtax_plan::model::Service;
use vtax_probe::Snapshot;
use vtax_units::Nanos;

use crate::error::AgentError;
use crate::frame::{Decoder, Frame, Kind};
use crate::message::{
    Event, InterfaceSetup, NodeFacts, PROTOCOL_VERSION, Provisioning, Reply, Request, ServiceReady,
    samples_from_bytes,
};
use crate::node::lock;

/// Called with each event, on the client's reader thread: must be quick.
pub type EventHandler = Box<dyn Fn(Event) + Send>;

/// Time a request that does no lasting work may take, also on a guest under software emulation.
const PROMPT: Duration = Duration::from_secs(20);
/// Time a service with subscribers has for its files: their database is copied from the host.
const PROVISIONED: Duration = Duration::from_secs(120);
/// Time a network test may take beyond its own: each step of either end has a limit of ten seconds, and
/// no test has more than five of them.
const NET_STEPS: Duration = Duration::from_secs(50);

/// The controller's end of one agent's stream. Requests may come from several threads.
pub struct Client {
    node: String,
    writer: Mutex<File>,
    pending: Arc<Mutex<Pending>>,
    next_id: AtomicU32,
}

#[derive(Default)]
struct Pending {
    /// Set once the stream has ended; nothing is answered any more.
    gone: bool,
    calls: HashMap<u32, Call>,
}

struct Call {
    answer: Sender<(Reply, Vec<u8>)>,
    data: Vec<u8>,
}

/// What a load found.
#[derive(Debug)]
pub struct LoadAnswer {
    /// What the generator recorded, with its samples where they were asked for.
    pub result: LoadResult,
    /// Successful answers since the load's start, warm-up included.
    pub answered: u64,
}

impl Client {
    /// Starts talking to the agent of `node`; `read` and `write` may be duplicates of one descriptor.
    pub fn start(
        node: &str,
        read: OwnedFd,
        write: OwnedFd,
        on_event: EventHandler,
    ) -> Result<Self, AgentError> {
        let pending = Arc::new(Mutex::new(Pending::default()));
        let reader = Reader { stream: File::from(read), pending: Arc::clone(&pending), on_event };
        std::thread::Builder::new()
            .name(format!("agent {node}"))
            .spawn(move || reader.run())
            .map_err(|source| AgentError::Stream { node: node.to_owned(), source })?;
        Ok(Self {
            node: node.to_owned(),
            writer: Mutex::new(File::from(write)),
            pending,
            next_id: AtomicU32::new(1),
        })
    }

    /// Waits until the agent answers, at most `within`, and checks that it speaks the same version.
    pub fn hello(&self, within: Duration) -> Result<NodeFacts, AgentError> {
        let request = Request::Hello { version: PROTOCOL_VERSION };
        match self.call(&request, within)?.0 {
            Reply::Hello(facts) if facts.version == PROTOCOL_VERSION => Ok(facts),
            Reply::Hello(facts) => Err(AgentError::Version {
                node: self.node.clone(),
                theirs: facts.version,
                ours: PROTOCOL_VERSION,
            }),
            _ => Err(self.confused(&request)),
        }
    }

    /// Brings the node's interfaces up.
    pub fn configure_network(&self, interfaces: Vec<InterfaceSetup>) -> Result<(), AgentError> {
        self.done(&Request::ConfigureNetwork { interfaces }, PROMPT)
    }

    /// Starts a service and waits until it is ready.
    pub fn start_service(
        &self,
        service: &Service,
        address: std::net::IpAddr,
        provisioning: &Provisioning,
    ) -> Result<ServiceReady, AgentError> {
        // Files are put in place before the service's own time begins.
        let files = if provisioning.subscribers.is_some() { PROVISIONED } else { PROMPT };
        let within = Duration::from(service.ready_timeout) + files;
        let provisioning = provisioning.clone();
        let request = Request::StartService { service: service.clone(), address, provisioning };
        match self.call(&request, within)?.0 {
            Reply::ServiceReady(ready) => Ok(ready),
            _ => Err(self.confused(&request)),
        }
    }

    /// Stops the service; `stop_timeout` is the service's own.
    pub fn stop_service(&self, stop_timeout: Nanos) -> Result<(), AgentError> {
        self.done(&Request::StopService, Duration::from(stop_timeout) + PROMPT)
    }

    /// Starts sampling.
    pub fn start_probes(&self, interval: Nanos) -> Result<(), AgentError> {
        self.done(&Request::StartProbes { interval }, PROMPT)
    }

    /// Stops sampling; the samples in order of time.
    pub fn stop_probes(&self) -> Result<Vec<Snapshot>, AgentError> {
        let request = Request::StopProbes;
        match self.call(&request, PROMPT)?.0 {
            Reply::Snapshots { snapshots } => Ok(snapshots),
            _ => Err(self.confused(&request)),
        }
    }

    /// One snapshot now.
    pub fn snapshot(&self) -> Result<Snapshot, AgentError> {
        let request = Request::Snapshot;
        match self.call(&request, PROMPT)?.0 {
            Reply::Snapshots { mut snapshots } if snapshots.len() == 1 => Ok(snapshots.remove(0)),
            _ => Err(self.confused(&request)),
        }
    }

    /// Runs a load to its end.
    pub fn run_load(&self, spec: &LoadSpec) -> Result<LoadAnswer, AgentError> {
        let load = Duration::from(spec.warmup) + Duration::from(spec.duration);
        // Connecting, draining and shipping samples come on top of the load itself.
        let within = load + Duration::from(spec.timeout) + PROMPT;
        let request = Request::RunLoad { spec: spec.clone() };
        match self.call(&request, within)? {
            (Reply::Load { mut result, answered }, data) => {
                result.samples = samples_from_bytes(&data);
                Ok(LoadAnswer { result: *result, answered })
            }
            _ => Err(self.confused(&request)),
        }
    }

    /// Makes a network test; why it came to nothing is a finding too.
    pub fn run_net(&self, spec: &NetSpec) -> Result<Result<NetResult, NetFailure>, AgentError> {
        let within = Duration::from(spec.warmup) + Duration::from(spec.duration) + NET_STEPS + PROMPT;
        let request = Request::RunNet { spec: spec.clone() };
        match self.call(&request, within)? {
            (Reply::NetRan, data) => serde_json::from_slice(&data).map_err(|_| self.confused(&request)),
            _ => Err(self.confused(&request)),
        }
    }

    /// Opens a SIP session in place of the one before.
    pub fn open_sip(&self, spec: &SipSpec) -> Result<(), AgentError> {
        self.done(&Request::OpenSip { spec: Box::new(spec.clone()) }, PROMPT)
    }

    /// Drives the SIP session through a profile, which takes at most `within`.
    pub fn run_sip(&self, profile: &SipProfile, within: Duration) -> Result<SipResult, AgentError> {
        let request = Request::RunSip { profile: profile.clone() };
        match self.call(&request, within)? {
            (Reply::SipRan, data) => serde_json::from_slice(&data).map_err(|_| self.confused(&request)),
            _ => Err(self.confused(&request)),
        }
    }

    /// Closes the SIP session.
    pub fn close_sip(&self) -> Result<(), AgentError> {
        self.done(&Request::CloseSip, PROMPT)
    }

    /// Asks the agent to stop everything and exit. An agent that is gone already is no error.
    pub fn shutdown(&self) -> Result<(), AgentError> {
        match self.done(&Request::Shutdown, PROMPT) {
            Err(AgentError::Gone { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Samples don't fit the JSON of a reply; they arrive as data before it.
    fn call(&self, request: &Request, within: Duration) -> Result<(Reply, Vec<u8>), AgentError> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, receiver) = channel();
        {
            let mut pending = lock(&self.pending);
            if pending.gone {
                return Err(self.gone());
            }
            pending.calls.insert(id, Call { answer, data: Vec::new() });
        }
        let payload = serde_json::to_vec(request)
            .map_err(|e| AgentError::Stream { node: self.node.clone(), source: e.into() })?;
        let bytes = Frame { kind: Kind::Request, id, payload }.encode();
        if lock(&self.writer).write_all(&bytes).is_err() {
            lock(&self.pending).calls.remove(&id);
            return Err(self.gone());
        }
        match receiver.recv_timeout(within) {
            Ok((Reply::Failed { error }, _)) => Err(AgentError::Refused { node: self.node.clone(), error }),
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Disconnected) => Err(self.gone()),
            Err(RecvTimeoutError::Timeout) => {
                lock(&self.pending).calls.remove(&id);
                Err(AgentError::Silent { node: self.node.clone(), request: request.name(), waited: within })
            }
        }
    }

    fn done(&self, request: &Request, within: Duration) -> Result<(), AgentError> {
        match self.call(request, within)?.0 {
            Reply::Done => Ok(()),
            _ => Err(self.confused(request)),
        }
    }

    fn gone(&self) -> AgentError {
        AgentError::Gone { node: self.node.clone() }
    }

    fn confused(&self, request: &Request) -> AgentError {
        AgentError::Confused { node: self.node.clone(), request: request.name() }
    }
}

impl Drop for Client {
    /// The reader thread holds a copy of the stream, so closing this one would not end it.
    fn drop(&mut self) {
        // A stream that is no socket ends with the agent.
        let _ = rustix::net::shutdown(&*lock(&self.writer), rustix::net::Shutdown::Both);
    }
}

struct Reader {
    stream: File,
    pending: Arc<Mutex<Pending>>,
    on_event: EventHandler,
}

impl Reader {
    fn run(mut self) {
        let mut decoder = Decoder::default();
        let mut buffer = vec![0; 64 << 10];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => decoder.push(&buffer[..n]),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            }
            while let Some(frame) = decoder.next_frame() {
                self.take(frame);
            }
        }
        let mut pending = lock(&self.pending);
        pending.gone = true;
        // Dropping the senders wakes whoever waits.
        pending.calls.clear();
    }

    /// A frame that nobody waits for, or that doesn't parse, is dropped: a late answer to a call
    /// that timed out is the usual reason.
    fn take(&self, frame: Frame) {
        match frame.kind {
            Kind::Event => {
                if let Ok(event) = serde_json::from_slice(&frame.payload) {
                    (self.on_event)(event);
                }
            }
            Kind::Data => {
                if let Some(call) = lock(&self.pending).calls.get_mut(&frame.id) {
                    call.data.extend_from_slice(&frame.payload);
                }
            }
            Kind::Reply => {
                let Some(call) = lock(&self.pending).calls.remove(&frame.id) else { return };
                let reply = serde_json::from_slice(&frame.payload)
                    .unwrap_or_else(|e| Reply::Failed { error: format!("its answer is not readable: {e}") });
                // The caller may have stopped waiting; that is its own affair.
                let _ = call.answer.send((reply, call.data));
            }
            Kind::Request => {}
        }
    }
}
