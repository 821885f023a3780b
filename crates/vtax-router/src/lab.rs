//! A router lab: everything of a blueprint, built and running.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vtax_sys::sync::joined;
use vtax_sys::{NetNs, chain};
use vtax_topology::Blueprint;
use vtax_topology::blueprint::{Node, NodeKind};
use vtax_topology::convergence::Convergence;
use vtax_topology::expect::Stage;
use vtax_topology::hops::Hops;
use vtax_topology::timeline::{self, Entry};
use vtax_units::Nanos;

use crate::build::{self, Spaces};
use crate::error::{Result, RouterError, While};
use crate::events::SwitchedOff;
use crate::frr::{self, Router};
use crate::hops::Watched;
use crate::proof;
use crate::stream::{Streamed, Streams};
use crate::watch::Watch;
use crate::{machine, proof::Reached};

/// Time a node's command may take; the help of `vtax lab exec` says so.
const COMMAND_WITHIN: Duration = Duration::from_secs(30);
/// Routers that are started at the same time.
const AT_ONCE: usize = 8;
/// Lines of a log that are looked at for a timeline.
const MOST_LINES: usize = 200_000;

/// Where a door's interface is before it is moved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DoorPlace {
    /// The door's name.
    pub door: String,
    /// The interface's present name in this process's network namespace.
    pub interface: String,
}

/// What there is to say about a lab that was brought up.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Raised {
    /// When each stage was reached, from the start of the bring-up.
    pub stages: Vec<(Stage, Nanos)>,
    /// Time to live of the far end's answer, where one was expected.
    pub ttl: Option<u8>,
    /// The label stack that a capture saw on the first cable of the core, the outermost first.
    pub labels: Vec<u32>,
    /// What FRR says of its version.
    pub version: String,
}

/// What a command in a node came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandOutcome {
    /// Whether it ended well.
    #[serde(rename = "well")]
    pub success: bool,
    /// How it ended: `exit code 1`.
    #[serde(rename = "how")]
    pub status: String,
    /// What it printed, both streams.
    pub output: String,
}

/// What streams of probes found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProbeStreamResult {
    /// Time between two probes.
    pub interval: Nanos,
    /// How late a probe was sent at most.
    pub late: Nanos,
    /// Of each time that was asked about: from the client's edge to the service's, and back.
    pub convergence: Vec<[Convergence; 2]>,
}

/// Where the program of a command is.
fn program_of(words: &[String]) -> Result<PathBuf> {
    let program = words.first().map(String::as_str).unwrap_or_default();
    if program.starts_with('/') {
        return Ok(program.into());
    }
    let places = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    let found = places.iter().map(|place| Path::new(place).join(program)).find(|path| path.is_file());
    found.ok_or_else(|| RouterError::Unknown(format!("there is no program `{program}`")))
}

/// The commands of routers, or of all other nodes, in the nodes' order.
fn commands(blueprint: &Blueprint, of_routers: bool) -> impl Iterator<Item = (&Node, &Vec<String>)> {
    let meant = move |node: &&Node| matches!(node.kind, NodeKind::Router(_)) == of_routers;
    let nodes = blueprint.nodes.iter().filter(meant);
    nodes.flat_map(|node| node.commands.iter().map(move |words| (node, words)))
}

/// Runs a command in this process's own network namespace.
///
/// # Errors
///
/// Where there is no such program, or it can't be started.
pub fn run_here(words: &[String]) -> Result<CommandOutcome> {
    run_in(&NetNs::current().during(|| "run a command".to_owned())?, words)
}

/// Runs a command in a network namespace.
///
/// # Errors
///
/// Where there is no such program, or it can't be started.
pub fn run_in(space: &NetNs, words: &[String]) -> Result<CommandOutcome> {
    frr::run(space, &program_of(words)?, words, COMMAND_WITHIN)
}

/// The routers of a blueprint, built and running; taken down when dropped.
#[derive(Debug)]
pub struct RouterLab {
    blueprint: Blueprint,
    routers: BTreeMap<String, Router>,
    /// What was switched off with its router.
    pub(crate) switched_off: SwitchedOff,
    watch: Option<Watch>,
    streams: Option<Streams>,
    watched: Option<Watched>,
    notes: Vec<Entry>,
    patience: Duration,
    // Last: what runs in namespaces ends before they do.
    spaces: Spaces,
}

impl RouterLab {
    /// Builds a blueprint, starts its routers and waits until they agree, at most for `patience`. `scratch` is an empty
    /// directory of this node's own.
    ///
    /// # Errors
    ///
    /// [`RouterError::Machine`] where this machine lacks something, [`RouterError::Configuration`] where FRR refuses a
    /// line, [`RouterError::NotReady`] with what is missing, and where something is refused; what was built until then
    /// is taken down.
    pub fn raise(
        blueprint: Blueprint,
        doors: &[DoorPlace],
        scratch: &Path,
        patience: Duration,
    ) -> Result<(Self, Raised)> {
        let started = Instant::now();
        if let Some(obstacle) = machine::obstacle(blueprint.needs()) {
            return Err(RouterError::Machine(obstacle));
        }
        let mut stages: Vec<(Stage, Nanos)> = Vec::new();
        let spaces = build::build(&blueprint, doors)?;
        let watch = Some(Watch::start(&spaces)?);
        let mut lab = Self {
            blueprint,
            routers: BTreeMap::new(),
            switched_off: SwitchedOff::default(),
            watch,
            streams: None,
            watched: None,
            notes: Vec::new(),
            patience,
            spaces,
        };
        lab.run_commands(false)?;
        stages.push((Stage::Interfaces, started.elapsed().into()));
        if lab.blueprint.needs().routers {
            frr::prepare(scratch)?;
            lab.start_routers()?;
            stages.push((Stage::Daemons, started.elapsed().into()));
            lab.run_commands(true)?;
        }
        let (more, Reached { ttl, labels }) =
            proof::prove(&lab, &lab.blueprint.expectations, started, started + patience)?;
        stages.extend(more);
        let version = lab.version();
        lab.forget();
        Ok((lab, Raised { stages, ttl, labels, version }))
    }

    /// Forgets what kernels said until now: ten thousand routes of a bring-up leave no room for what comes.
    fn forget(&self) {
        self.watch.iter().for_each(Watch::forget);
    }

    /// Runs the commands of all routers, whose daemons have to run by then, or of all other nodes.
    fn run_commands(&self, of_routers: bool) -> Result<()> {
        for (node, words) in commands(&self.blueprint, of_routers) {
            let words = self.words_at(&node.name, words);
            let CommandOutcome { success, status, output } = run_in(self.space(&node.name)?, &words)?;
            if !success {
                let (node, command) = (node.name.clone(), words.join(" "));
                return Err(RouterError::Command { node, command, how: status, output });
            }
        }
        Ok(())
    }

    /// Starts all routers, several at a time; the first error ends it.
    fn start_routers(&mut self) -> Result<()> {
        let mut all = Vec::new();
        for node in &self.blueprint.nodes {
            if let NodeKind::Router(daemons) = &node.kind {
                all.push((node, daemons, self.spaces.of(&node.name)?));
            }
        }
        let share = all.len().div_ceil(AT_ONCE).max(1);
        let parts: Vec<Result<Vec<Router>>> = std::thread::scope(|scope| {
            let start = |part: &[(&Node, &Vec<_>, &NetNs)]| {
                part.iter()
                    .map(|(node, daemons, space)| Router::start(node, daemons, space))
                    .collect::<Result<Vec<_>>>()
            };
            let running: Vec<_> = all.chunks(share).map(|part| scope.spawn(move || start(part))).collect();
            running.into_iter().map(joined).collect()
        });
        let mut routers = Vec::new();
        for part in parts {
            routers.extend(part?);
        }
        let names = all.iter().map(|(node, ..)| node.name.clone());
        self.routers = names.zip(routers).collect();
        Ok(())
    }

    /// What is built.
    #[must_use]
    pub const fn blueprint(&self) -> &Blueprint {
        &self.blueprint
    }

    /// A command's words as they are meant at a node: `vtysh` asks the node's own daemons, of the several of this machine.
    #[must_use]
    pub fn words_at(&self, node: &str, words: &[String]) -> Vec<String> {
        let mut words = words.to_vec();
        let is_tool = words.first().is_some_and(|word| word.rsplit('/').next() == Some("vtysh"));
        let told = |word: &String| word.starts_with("-N") || word.starts_with("--pathspace");
        if is_tool && self.routers.contains_key(node) && !words.iter().any(told) {
            words.splice(1..1, ["-N".to_owned(), node.to_owned()]);
        }
        words
    }

    /// The network namespace of a node.
    ///
    /// # Errors
    ///
    /// Where there is no such node.
    pub fn space(&self, node: &str) -> Result<&NetNs> {
        self.spaces.of(node)
    }

    /// How long its routers had to agree.
    pub(crate) const fn patience(&self) -> Duration {
        self.patience
    }

    pub(crate) fn router_mut(&mut self, name: &str) -> Result<&mut Router> {
        self.routers.get_mut(name).ok_or_else(|| RouterError::Unknown(format!("`{name}` is no router")))
    }

    /// Why a daemon that should run doesn't; `None` where all do.
    pub(crate) fn dead(&self) -> Option<RouterError> {
        self.routers.values().find_map(Router::dead)
    }

    /// Keeps an entry of vtax's own for the timeline.
    pub(crate) fn note(&mut self, entry: Entry) {
        self.notes.push(entry);
    }

    /// What happened at the routers in a time, in nanoseconds since 1970: what was done on purpose, what their kernels
    /// changed, what their daemons said.
    #[must_use]
    pub fn timeline(&self, from: Nanos, to: Nanos) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.notes.clone();
        entries.extend(self.watch.iter().flat_map(|watch| watch.between(from, to)));
        for (name, router) in &self.routers {
            for daemon in router.daemons() {
                // One that was never started has no log.
                let Ok(file) = File::open(frr::log(name, daemon)) else { continue };
                let lines = BufReader::new(file).lines().take(MOST_LINES).map_while(std::result::Result::ok);
                let read = lines.filter_map(|line| timeline::of_log(name, daemon.program(), &line));
                entries.extend(read.filter(|entry| (from..=to).contains(&entry.at)));
            }
        }
        timeline::between(entries, from, to)
    }

    /// Begins to send probes between the edges, one each way every `interval`, in place of those before.
    ///
    /// # Errors
    ///
    /// Where the topology has no edges, the interval is none, or something is refused.
    pub fn start_streams(&mut self, interval: Nanos) -> Result<()> {
        // The sockets of those before have the same addresses.
        drop(self.streams.take().map(Streams::finish));
        self.forget();
        self.streams = Some(Streams::start(self, interval)?);
        Ok(())
    }

    /// Ends them; what happened to them between each of these pairs of times, in nanoseconds since 1970.
    ///
    /// # Errors
    ///
    /// Where none are under way.
    pub fn stop_streams(&mut self, times: &[(Nanos, Nanos)]) -> Result<ProbeStreamResult> {
        let none = || RouterError::Unknown("no probes are under way".to_owned());
        let Streamed { streams, late } = self.streams.take().ok_or_else(none)?.finish();
        let interval = streams[0].interval;
        let convergence =
            times.iter().map(|(from, to)| streams.each_ref().map(|stream| stream.after(*from, *to)));
        Ok(ProbeStreamResult { interval, late, convergence: convergence.collect() })
    }

    /// Begins to capture packets between client and service at both ends of every hop, for ten seconds at most.
    ///
    /// # Errors
    ///
    /// Where the topology has no edges, or packets may not be captured.
    pub fn watch_hops(&mut self) -> Result<()> {
        self.watched = None;
        self.watched = Some(Watched::start(self)?);
        Ok(())
    }

    /// Ends it, where it isn't over yet; where packets spent their time.
    ///
    /// # Errors
    ///
    /// Where it wasn't begun.
    pub fn hops(&mut self) -> Result<Hops> {
        let none = || RouterError::Unknown("the hops are not being watched".to_owned());
        Ok(self.watched.take().ok_or_else(none)?.finish())
    }

    /// FRR's own line about its version.
    fn version(&self) -> String {
        let Some(name) = self.routers.keys().next() else { return String::new() };
        let words = ["zebra", "--version"].map(str::to_owned);
        let program = Path::new(machine::DAEMONS).join("zebra");
        let said = self.space(name).and_then(|space| frr::run(space, &program, &words, COMMAND_WITHIN));
        match said {
            Ok(done) => done.output.lines().next().unwrap_or_default().to_owned(),
            Err(error) => chain(&error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routers_run_their_commands_apart_from_other_nodes() {
        let node = |name: &str, kind| Node {
            name: name.to_owned(),
            kind,
            loopback: Vec::new(),
            vrfs: Vec::new(),
            tunnels: Vec::new(),
            labels: false,
            files: Vec::new(),
            commands: vec![vec!["first".to_owned()], vec!["second".to_owned(), name.to_owned()]],
        };
        let nodes = vec![
            node("r1", NodeKind::Router(Vec::new())),
            node("pc", NodeKind::Host),
            node("s", NodeKind::Bridge),
        ];
        let blueprint = Blueprint { nodes, ..Blueprint::default() };
        let of =
            |routers| commands(&blueprint, routers).map(|(node, words)| (node.name.as_str(), words.len()));
        assert_eq!(of(true).collect::<Vec<_>>(), [("r1", 1), ("r1", 2)]);
        assert_eq!(of(false).collect::<Vec<_>>(), [("pc", 1), ("pc", 2), ("s", 1), ("s", 2)]);
    }
}
