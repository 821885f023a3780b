//! The controller's end of the stream.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vtax_load::{LoadSpec, Progress, Step, StepResult};
use vtax_plan::model::Service;
use vtax_probe::Snapshot;
use vtax_router::{CommandOutcome, ProbeStreamResult, Raised};
use vtax_sys::clock::unix_time;
use vtax_sys::sync::lock;
use vtax_sys::sysctl;
use vtax_topology::Blueprint;
use vtax_topology::event::Event as TopologyEvent;
use vtax_topology::hops::Hops;
use vtax_topology::timeline::Entry;
use vtax_units::Nanos;

use crate::clock::ClockOffset;
use crate::error::AgentError;
use crate::frame::{Decoder, Frame, Kind, MAX_PAYLOAD};
use crate::lease::BEAT;
use crate::message::{
    Configured, DoorSetup, Event, InterfaceSetup, NodeFacts, PROTOCOL_VERSION, Provisioning, Reply, Request,
    ServiceId, ServiceReady,
};
use crate::network;

/// Called with each event but [`Event::Progress`], which goes to the caller of
/// [`run_step`](Client::run_step); on the client's reader thread: must be quick.
pub type EventHandler = Box<dyn Fn(Event) + Send>;

/// Time a request that does no lasting work may take, also on a guest under software emulation.
const PROMPT: Duration = Duration::from_secs(20);
/// Time a service with subscribers has for its files: their database is copied from the host.
const PROVISIONED: Duration = Duration::from_secs(120);
/// Time files may take to be durable before they are dropped from the cache.
const SYNCED: Duration = Duration::from_secs(120);
/// Time that routers' daemons have to start and to take their configuration, and that a command in a node may take.
const STARTED: Duration = Duration::from_secs(120);
/// Messages there and back, of which the fastest tells a clock best.
const EXCHANGES: u32 = 8;
/// The controller's end of one agent's stream. Requests may come from several threads.
pub struct Client {
    node: String,
    writer: Arc<Mutex<File>>,
    pending: Arc<Mutex<Pending>>,
    next_id: Arc<AtomicU32>,
    /// Its end is the end of the thread that renews the agent's lease.
    beating: Option<Sender<()>>,
}

#[derive(Default)]
struct Pending {
    /// Set once the stream has ended; nothing is answered any more.
    gone: bool,
    calls: HashMap<u32, Call>,
}

struct Call {
    answer: Sender<Answer>,
    data: Vec<u8>,
}

/// What comes for a call: any number of reports, then one reply with the data that came before it.
enum Answer {
    Progress(Progress),
    Reply(Reply, Vec<u8>),
}

impl Client {
    /// Starts talking to the agent of `node`; `read` and `write` may be duplicates of one descriptor.
    ///
    /// # Errors
    /// [`AgentError::Stream`] where the kernel refuses the thread that reads.
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
            writer: Arc::new(Mutex::new(File::from(write))),
            pending,
            next_id: Arc::new(AtomicU32::new(1)),
            beating: None,
        })
    }

    /// Renews the lease of an agent on another host ([`LEASE`](crate::LEASE)) from now on, as long as this lives.
    ///
    /// # Errors
    /// [`AgentError::Stream`] where the kernel refuses a thread.
    pub fn renew_lease(&mut self) -> Result<(), AgentError> {
        let failed = |source| AgentError::Stream { node: self.node.clone(), source };
        let payload = serde_json::to_vec(&Request::Clock).map_err(|e| failed(e.into()))?;
        let (writer, next_id) = (Arc::clone(&self.writer), Arc::clone(&self.next_id));
        let (beating, over) = channel();
        let beat = move || {
            // Nobody waits for the answers.
            while over.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                let id = next_id.fetch_add(1, Ordering::Relaxed);
                let frame = Frame { kind: Kind::Request, id, payload: payload.clone() }.encode();
                if lock(&writer).write_all(&frame).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name(format!("lease {}", self.node)).spawn(beat).map_err(failed)?;
        self.beating = Some(beating);
        Ok(())
    }

    /// The node's clock against this one, by the narrowest of several exchanges.
    ///
    /// # Errors
    /// [`AgentError`] where the agent is gone or doesn't answer in time, or where a clock was set back meanwhile.
    pub fn clock(&self) -> Result<ClockOffset, AgentError> {
        let request = Request::Clock;
        let mut best: Option<ClockOffset> = None;
        for _ in 0..EXCHANGES {
            let sent = unix_time().0;
            let Reply::Clock { unix } = self.call(&request, PROMPT)?.0 else {
                return Err(self.confused(&request));
            };
            let seen = ClockOffset::from_round_trip(sent, unix.0, unix_time().0);
            best = best.into_iter().chain(seen).min_by_key(|clock| clock.uncertainty_ns);
        }
        best.ok_or_else(|| self.confused(&request))
    }

    /// Waits until the agent answers, at most `within`, and checks that it speaks the same version.
    ///
    /// # Errors
    /// [`AgentError::Version`] where the two differ, and as of any other request.
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

    /// Brings the node's interfaces up; what its kernel says of each. A guest takes over what sockets begin with on this host.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn configure_network(&self, interfaces: Vec<InterfaceSetup>) -> Result<Configured, AgentError> {
        let within = network::longest(&interfaces) + PROMPT;
        let request = Request::ConfigureNetwork { interfaces, sockets: sysctl::of_host() };
        match self.call(&request, within)?.0 {
            Reply::Configured(mut configured) => {
                // A node with this host's kernel may not see what it has in common with the host. One with a lease is on another
                // host.
                if self.beating.is_none() {
                    sysctl::add_common(&mut configured.sockets);
                }
                Ok(configured)
            }
            _ => Err(self.confused(&request)),
        }
    }

    /// Starts a service and waits until it is ready.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn start_service(
        &self,
        id: ServiceId,
        service: &Service,
        address: std::net::IpAddr,
        provisioning: &Provisioning,
    ) -> Result<ServiceReady, AgentError> {
        // Files are put in place before the service's own time begins.
        let files = if provisioning.subscribers.is_some() { PROVISIONED } else { PROMPT };
        let within = Duration::from(service.ready_timeout) + files;
        let provisioning = provisioning.clone();
        let request = Request::StartService { id, service: service.clone(), address, provisioning };
        match self.call(&request, within)?.0 {
            Reply::ServiceReady(ready) => Ok(ready),
            _ => Err(self.confused(&request)),
        }
    }

    /// Stops a service; `stop_timeout` is the service's own.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn stop_service(&self, id: ServiceId, stop_timeout: Nanos) -> Result<(), AgentError> {
        self.done(&Request::StopService { id }, Duration::from(stop_timeout) + PROMPT)
    }

    /// Starts sampling.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn start_probes(&self, interval: Nanos) -> Result<(), AgentError> {
        self.done(&Request::StartProbes { interval }, PROMPT)
    }

    /// Stops sampling; the samples in order of time.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn stop_probes(&self) -> Result<Vec<Snapshot>, AgentError> {
        let request = Request::StopProbes;
        match self.call(&request, PROMPT)?.0 {
            Reply::Snapshots { snapshots } => Ok(snapshots),
            _ => Err(self.confused(&request)),
        }
    }

    /// One snapshot now.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn snapshot(&self) -> Result<Snapshot, AgentError> {
        let request = Request::Snapshot;
        match self.call(&request, PROMPT)?.0 {
            Reply::Snapshots { mut snapshots } if snapshots.len() == 1 => Ok(snapshots.remove(0)),
            _ => Err(self.confused(&request)),
        }
    }

    /// Opens a load in place of the one before.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn open_load(&self, spec: &LoadSpec) -> Result<(), AgentError> {
        self.done(&Request::OpenLoad { spec: spec.clone() }, PROMPT + spec.opening())
    }

    /// Runs a step of the load that is open, which takes at most `within`, and reads what it found as the
    /// type that its family gives. `on_progress` is called about once a second, on this thread, with what
    /// was done since the step's start.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, doesn't answer in time, or found something else than `R`.
    pub fn run_step<R: StepResult>(
        &self,
        step: Step,
        within: Duration,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<R, AgentError> {
        self.run_step_at(step, None, within, on_progress)
    }

    /// Runs a step as [`run_step`](Self::run_step) does, not before a time since 1970 on the node's clock, some seconds ahead at
    /// most; `within` counts from now.
    ///
    /// # Errors
    /// As [`run_step`](Self::run_step).
    pub fn run_step_at<R: StepResult>(
        &self,
        step: Step,
        at: Option<Nanos>,
        within: Duration,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<R, AgentError> {
        let request = Request::RunStep { step, at };
        match self.call_with(&request, within + PROMPT, on_progress)? {
            (Reply::Ran, data) => R::from_bytes(&data).ok_or_else(|| self.confused(&request)),
            _ => Err(self.confused(&request)),
        }
    }

    /// Closes the load.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn close_load(&self) -> Result<(), AgentError> {
        self.done(&Request::CloseLoad, PROMPT)
    }

    /// Brings routers up inside the node and waits until they agree, at most for `patience`. A guest then keeps so many
    /// `cpus` and turns the others off.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses (with everything that is missing), is gone, or doesn't answer in time.
    pub fn raise_topology(
        &self,
        blueprint: Blueprint,
        doors: Vec<DoorSetup>,
        patience: Nanos,
        cpus: Option<u32>,
    ) -> Result<Raised, AgentError> {
        let request = Request::RaiseTopology { blueprint, doors, patience, cpus };
        // Daemons have a time of their own to start.
        match self.call(&request, Duration::from(patience) + STARTED)?.0 {
            Reply::Raised(raised) => Ok(raised),
            _ => Err(self.confused(&request)),
        }
    }

    /// Does something to the node's topology; when, in nanoseconds since 1970 on the node's clock.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn inject_event(&self, event: TopologyEvent) -> Result<Nanos, AgentError> {
        let request = Request::InjectEvent { event };
        match self.call(&request, STARTED)?.0 {
            Reply::Injected { at } => Ok(at),
            _ => Err(self.confused(&request)),
        }
    }

    /// Begins to send probes between the edges of the node's topology, one each way every `interval`.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn start_streams(&self, interval: Nanos) -> Result<(), AgentError> {
        self.done(&Request::StartStreams { interval }, PROMPT)
    }

    /// Ends them; what happened to them between each of these pairs of times, in nanoseconds since 1970 on the node's
    /// clock.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn stop_streams(&self, times: Vec<(Nanos, Nanos)>) -> Result<ProbeStreamResult, AgentError> {
        let request = Request::StopStreams { times };
        match self.call(&request, STARTED)?.0 {
            Reply::Streamed(found) => Ok(found),
            _ => Err(self.confused(&request)),
        }
    }

    /// What happened at the routers of the node's topology in a time, in nanoseconds since 1970 on its clock.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn timeline(&self, from: Nanos, to: Nanos) -> Result<Vec<Entry>, AgentError> {
        let request = Request::Timeline { from, to };
        match self.call(&request, PROMPT)?.0 {
            Reply::Timeline { entries } => Ok(entries),
            _ => Err(self.confused(&request)),
        }
    }

    /// Begins to capture packets between client and service at both ends of every hop of the node's topology.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn watch_hops(&self) -> Result<(), AgentError> {
        self.done(&Request::WatchHops, PROMPT)
    }

    /// Ends it; where packets spent their time.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn hops(&self) -> Result<Hops, AgentError> {
        match self.call(&Request::Hops, STARTED)?.0 {
            Reply::Hops(hops) => Ok(hops),
            _ => Err(self.confused(&Request::Hops)),
        }
    }

    /// Captures packets at an interface of a node of the topology, or of this node where `node` is empty; the bytes
    /// of a file of libpcap's.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn capture(&self, node: &str, interface: &str, duration: Nanos) -> Result<Vec<u8>, AgentError> {
        let (node, interface) = (node.to_owned(), interface.to_owned());
        let request = Request::Capture { node, interface, duration };
        match self.call(&request, Duration::from(duration) + PROMPT)? {
            (Reply::Ran, data) => Ok(data),
            _ => Err(self.confused(&request)),
        }
    }

    /// Runs a command in a node of the topology.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn execute(&self, node: &str, command: &[String]) -> Result<CommandOutcome, AgentError> {
        let request = Request::Execute { node: node.to_owned(), command: command.to_vec() };
        match self.call(&request, STARTED)?.0 {
            Reply::Executed(outcome) => Ok(outcome),
            _ => Err(self.confused(&request)),
        }
    }

    /// Asks the agent to stop everything and exit. An agent that is gone already is no error.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses or doesn't answer in time.
    pub fn shutdown(&self) -> Result<(), AgentError> {
        match self.done(&Request::Shutdown, PROMPT) {
            Err(AgentError::Gone { .. }) | Ok(()) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn call(&self, request: &Request, within: Duration) -> Result<(Reply, Vec<u8>), AgentError> {
        self.call_with(request, within, &mut |_| {})
    }

    /// Sends a request and waits for its reply, and for the data that comes before it.
    fn call_with(
        &self,
        request: &Request,
        within: Duration,
        on_progress: &mut dyn FnMut(&Progress),
    ) -> Result<(Reply, Vec<u8>), AgentError> {
        let (id, answers) = self.send(request)?;
        let deadline = Instant::now() + within;
        loop {
            match answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Answer::Progress(progress)) => on_progress(&progress),
                Ok(Answer::Reply(Reply::Failed { error }, _)) => {
                    return Err(AgentError::Refused { node: self.node.clone(), error });
                }
                Ok(Answer::Reply(reply, data)) => return Ok((reply, data)),
                Err(RecvTimeoutError::Disconnected) => return Err(self.gone()),
                Err(RecvTimeoutError::Timeout) => {
                    lock(&self.pending).calls.remove(&id);
                    let (node, request) = (self.node.clone(), request.name());
                    return Err(AgentError::Silent { node, request, waited: within });
                }
            }
        }
    }

    /// Sends a request; its id, and where its answers come.
    fn send(&self, request: &Request) -> Result<(u32, Receiver<Answer>), AgentError> {
        let payload = serde_json::to_vec(request)
            .map_err(|e| AgentError::Stream { node: self.node.clone(), source: e.into() })?;
        if payload.len() > MAX_PAYLOAD {
            let (node, bytes) = (self.node.clone(), payload.len());
            return Err(AgentError::TooLarge { node, request: request.name(), bytes });
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let (answer, answers) = channel();
        {
            let mut pending = lock(&self.pending);
            if pending.gone {
                return Err(self.gone());
            }
            pending.calls.insert(id, Call { answer, data: Vec::new() });
        }
        let bytes = Frame { kind: Kind::Request, id, payload }.encode();
        if lock(&self.writer).write_all(&bytes).is_err() {
            lock(&self.pending).calls.remove(&id);
            return Err(self.gone());
        }
        Ok((id, answers))
    }

    /// Has the node's page cache forget the files below a directory, which are made durable first; the bytes that it still
    /// holds of them, and the bytes of all.
    ///
    /// # Errors
    /// [`AgentError`] where the agent refuses, is gone, or doesn't answer in time.
    pub fn drop_files(&self, directory: std::path::PathBuf) -> Result<(u64, u64), AgentError> {
        let request = Request::DropFiles { directory };
        match self.call(&request, SYNCED)?.0 {
            Reply::Held { bytes, of } => Ok((bytes, of)),
            _ => Err(self.confused(&request)),
        }
    }

    /// Has one disk of the RAID fail that is the node's own disk.
    ///
    /// # Errors
    /// [`AgentError`] where there is no RAID, or the agent refuses, is gone, or doesn't answer in time.
    pub fn fail_disk(&self) -> Result<(), AgentError> {
        self.done(&Request::FailDisk, PROMPT)
    }

    /// Puts a new disk in the place of the one that has failed. The kernel then rebuilds the RAID.
    ///
    /// # Errors
    /// As [`fail_disk`](Self::fail_disk).
    pub fn replace_disk(&self) -> Result<(), AgentError> {
        self.done(&Request::ReplaceDisk, PROMPT)
    }

    /// How long each rebuild of the RAID took, in the order in which disks were replaced; `None` where it isn't over.
    ///
    /// # Errors
    /// [`AgentError`] where the agent is gone or doesn't answer in time.
    pub fn rebuilds(&self) -> Result<Vec<Option<Nanos>>, AgentError> {
        match self.call(&Request::Rebuilds, PROMPT)?.0 {
            Reply::Rebuilds { took } => Ok(took),
            _ => Err(self.confused(&Request::Rebuilds)),
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
        // Dropping the senders wakes the callers.
        pending.calls.clear();
    }

    /// A frame without a call that waits for it, or that doesn't parse, is dropped: a late answer to a call
    /// that timed out is the usual reason.
    fn take(&self, frame: Frame) {
        match frame.kind {
            Kind::Event => {
                let Ok(event) = serde_json::from_slice(&frame.payload) else { return };
                match event {
                    Event::Progress { progress } => {
                        if let Some(call) = lock(&self.pending).calls.get(&frame.id) {
                            // The caller may have stopped waiting; that is its own affair.
                            let _ = call.answer.send(Answer::Progress(progress));
                        }
                    }
                    event => (self.on_event)(event),
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
                let _ = call.answer.send(Answer::Reply(reply, call.data));
            }
            Kind::Request => {}
        }
    }
}
