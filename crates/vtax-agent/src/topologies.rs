//! The node's topology: routers in namespaces of their own inside it.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use vtax_router::{Capture, DoorPlace, Raised, RouterLab};
use vtax_sys::sync::lock;
use vtax_sys::{NetNs, chain, sched};
use vtax_topology::Blueprint;

use crate::guest;
use crate::message::{DoorSetup, Reply, Request};
use crate::network;

/// The longest that routers may take to agree.
const LONGEST: Duration = Duration::from_secs(600);

/// What requests are told that need one.
const NONE: &str = "the node has no topology";

/// Turns all CPUs of a guest off but the first so many.
fn keep_cpus(count: u32) -> Result<(), String> {
    if !guest::is_first() {
        return Err("only a guest's CPUs are turned off".to_owned());
    }
    sched::keep_first_cpus(count as usize).map_err(|e| chain(&e))
}

/// At most one topology.
pub(crate) struct Topologies {
    directory: PathBuf,
    lab: Mutex<Option<RouterLab>>,
}

impl Topologies {
    /// With a directory of the agent's own.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, lab: Mutex::default() }
    }

    /// Whether a request is about topologies.
    pub(crate) const fn is_meant(request: &Request) -> bool {
        matches!(
            request,
            Request::RaiseTopology { .. }
                | Request::InjectEvent { .. }
                | Request::Timeline { .. }
                | Request::StartStreams { .. }
                | Request::StopStreams { .. }
                | Request::WatchHops
                | Request::Hops
        )
    }

    /// Answers such a request; on the thread on which all of them come.
    pub(crate) fn operate(&self, request: &Request) -> Result<Reply, String> {
        match request {
            Request::RaiseTopology { blueprint, doors, patience, cpus } => {
                let patience = Duration::from(*patience).min(LONGEST);
                let raised = self.raise(blueprint, doors, patience)?;
                cpus.map_or(Ok(()), keep_cpus)?;
                Ok(Reply::Raised(raised))
            }
            Request::InjectEvent { event } => self.with(|lab| {
                let at = lab.inject(event).map_err(|e| chain(&e))?;
                Ok(Reply::Injected { at })
            }),
            Request::Timeline { from, to } => {
                self.with(|lab| Ok(Reply::Timeline { entries: lab.timeline(*from, *to) }))
            }
            Request::StartStreams { interval } => {
                self.with(|lab| lab.start_streams(*interval).map(|()| Reply::Done).map_err(|e| chain(&e)))
            }
            Request::StopStreams { times } => {
                self.with(|lab| lab.stop_streams(times).map(Reply::Streamed).map_err(|e| chain(&e)))
            }
            Request::WatchHops => {
                self.with(|lab| lab.watch_hops().map(|()| Reply::Done).map_err(|e| chain(&e)))
            }
            Request::Hops => self.with(|lab| lab.hops().map(Reply::Hops).map_err(|e| chain(&e))),
            other => Err(format!("`{}` is not about a topology", other.name())),
        }
    }

    fn raise(
        &self,
        blueprint: &Blueprint,
        doors: &[DoorSetup],
        patience: Duration,
    ) -> Result<Raised, String> {
        let mut present = lock(&self.lab);
        if present.is_some() {
            return Err("the node has a topology already".to_owned());
        }
        let place = |setup: &DoorSetup| -> Result<DoorPlace, String> {
            let interface = network::present_name(&setup.find).map_err(|e| chain(&e))?;
            Ok(DoorPlace { door: setup.door.clone(), interface })
        };
        let doors = doors.iter().map(place).collect::<Result<Vec<_>, String>>()?;
        std::fs::create_dir_all(&self.directory)
            .map_err(|e| format!("make {}: {e}", self.directory.display()))?;
        let (lab, raised) =
            RouterLab::raise(blueprint.clone(), &doors, &self.directory, patience).map_err(|e| chain(&e))?;
        *present = Some(lab);
        Ok(raised)
    }

    fn with(&self, then: impl FnOnce(&mut RouterLab) -> Result<Reply, String>) -> Result<Reply, String> {
        match &mut *lock(&self.lab) {
            Some(lab) => then(lab),
            None => Err(NONE.to_owned()),
        }
    }

    /// Captures packets at an interface of a node, or of this one where `node` is empty; the bytes of the file. Other
    /// requests are answered meanwhile.
    pub(crate) fn capture(&self, node: &str, interface: &str, duration: Duration) -> Result<Vec<u8>, String> {
        let begun = if node.is_empty() {
            let own = NetNs::current().map_err(|e| chain(&e))?;
            Capture::begin(&own, interface)
        } else {
            match &*lock(&self.lab) {
                Some(lab) => lab.space(node).and_then(|space| Capture::begin(space, interface)),
                None => return Err(NONE.to_owned()),
            }
        };
        begun.and_then(|capture| capture.run(duration)).map_err(|e| chain(&e))
    }

    /// Runs a command in a node, or in this one where `node` is empty. Other requests are answered meanwhile.
    pub(crate) fn execute(&self, node: &str, command: &[String]) -> Result<Reply, String> {
        let done = if node.is_empty() {
            vtax_router::run_here(command)
        } else {
            let (space, words) = match &*lock(&self.lab) {
                Some(lab) => (
                    lab.space(node).map(NetNs::try_clone).map_err(|e| chain(&e))?,
                    lab.words_at(node, command),
                ),
                None => return Err(NONE.to_owned()),
            };
            vtax_router::run_in(&space.map_err(|e| chain(&e))?, &words)
        };
        done.map(Reply::Executed).map_err(|e| chain(&e))
    }

    /// Takes it down.
    pub(crate) fn end(&self) {
        // While routers are being brought up, the node's own end takes them down.
        if let Ok(mut lab) = self.lab.try_lock() {
            drop(lab.take());
        }
    }
}
