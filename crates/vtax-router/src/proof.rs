//! Whether the routers agree, stage by stage, and how long each took.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use vtax_topology::Prefix;
use vtax_topology::expect::{Expectation, Stage};
use vtax_topology::frr::Daemon;
use vtax_topology::state;
use vtax_units::Nanos;

use crate::echo::{self, FrameListener};
use crate::error::{Result, RouterError, While};
use crate::frr;
use crate::lab::RouterLab;
use crate::vty::Vty;

/// Time between two looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Time an echo may take on its way.
const ECHO_WITHIN: Duration = Duration::from_millis(500);
/// Most missing expectations that an error names.
const MOST_TOLD: usize = 12;

/// What was found where the ends reach each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Reached {
    /// Time to live of the far end's answer.
    pub(crate) ttl: Option<u8>,
    /// The label stack that was captured, the outermost first.
    pub(crate) labels: Vec<u32>,
}

/// What is asked of a daemon, and what it answered in this round.
#[derive(Default)]
struct Answers(BTreeMap<(String, Daemon, String), Option<String>>);

impl Answers {
    /// The answer, asked for once a round. A daemon that doesn't answer yet has none.
    fn of(&mut self, router: &str, daemon: Daemon, command: String) -> Option<&str> {
        let ask = |router: &str, daemon: Daemon, command: &str| {
            let mut vty = Vty::connect(&frr::socket(router, daemon)).ok()?;
            vty.ask(command).ok()
        };
        let key = (router.to_owned(), daemon, command);
        let answer = self.0.entry(key);
        answer.or_insert_with_key(|(router, daemon, command)| ask(router, *daemon, command)).as_deref()
    }
}

/// ` vrf NAME`, or nothing for the main table.
fn inside(vrf: Option<&str>) -> String {
    vrf.map_or(String::new(), |vrf| format!(" vrf {vrf}"))
}

/// Whether a daemon says that it holds; of what no daemon knows, nothing is said.
fn holds(expectation: &Expectation, answers: &mut Answers) -> bool {
    match expectation {
        Expectation::Adjacency { router, vrf, neighbour } => {
            let command = format!("show ip ospf{} neighbor json", inside(vrf.as_deref()));
            answers.of(router, Daemon::Ospfd, command).is_some_and(|a| state::is_adjacent(a, *neighbour))
        }
        Expectation::LabelSession { router, neighbour } => {
            let command = "show mpls ldp neighbor json".to_owned();
            answers.of(router, Daemon::Ldpd, command).is_some_and(|a| state::has_label_session(a, *neighbour))
        }
        Expectation::Peering { router, neighbour } => {
            let command = "show bgp summary json".to_owned();
            answers.of(router, Daemon::Bgpd, command).is_some_and(|a| state::has_peering(a, *neighbour))
        }
        Expectation::Route { router, vrf, destination, labels } => {
            let found = route(answers, router, vrf.as_deref(), *destination);
            found.is_some_and(|found| found >= *labels)
        }
        Expectation::Reach { .. } | Expectation::Stack { .. } => false,
    }
}

fn route(answers: &mut Answers, router: &str, vrf: Option<&str>, destination: Prefix) -> Option<u32> {
    let command = format!("show ip route{} {destination} json", inside(vrf));
    answers.of(router, Daemon::Zebra, command).and_then(|answer| state::labels_of_route(answer, destination))
}

/// Waits until everything holds that is expected, and tells when each stage was reached, from `started`.
pub(crate) fn prove(
    lab: &RouterLab,
    expectations: &[Expectation],
    started: Instant,
    until: Instant,
) -> Result<(Vec<(Stage, Nanos)>, Reached)> {
    let mut stages: Vec<(Stage, Nanos)> = Vec::new();
    let mut missing: Vec<&Expectation> = expectations.iter().collect();
    let stages_of_daemons = [Stage::Adjacencies, Stage::LabelSessions, Stage::Peerings, Stage::Routes];
    while missing.iter().any(|e| stages_of_daemons.contains(&e.stage())) {
        let mut answers = Answers::default();
        missing.retain(|expectation| !holds(expectation, &mut answers));
        for stage in stages_of_daemons {
            let expected = expectations.iter().any(|e| e.stage() == stage);
            let open = missing.iter().any(|e| e.stage() == stage);
            let told = stages.iter().any(|(told, _)| *told == stage);
            if expected && !open && !told {
                stages.push((stage, started.elapsed().into()));
            }
        }
        wait(lab, &missing, until)?;
    }
    let reached = loop {
        let found = reach(lab, &missing)?;
        if let Some(reached) = found {
            break reached;
        }
        wait(lab, &missing, until)?;
    };
    if !missing.is_empty() {
        stages.push((Stage::Reach, started.elapsed().into()));
    }
    Ok((stages, reached))
}

/// Waits for the next look; an error once the time is over, or where a daemon has ended.
fn wait(lab: &RouterLab, missing: &[&Expectation], until: Instant) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    if let Some(dead) = lab.dead() {
        return Err(dead);
    }
    let now = Instant::now();
    if now >= until {
        let told: Vec<String> = missing.iter().take(MOST_TOLD).map(ToString::to_string).collect();
        let more = missing.len().saturating_sub(MOST_TOLD);
        let more = if more > 0 { format!("; {more} more") } else { String::new() };
        let missing = format!("{}{more}", told.join("; "));
        return Err(RouterError::NotReady { seconds: lab.patience().as_secs(), missing });
    }
    std::thread::sleep(LOOK_EVERY.min(until - now));
    Ok(())
}

/// Asks the far end for an echo while frames are listened to; `None` where not all is as expected yet.
fn reach(lab: &RouterLab, expected: &[&Expectation]) -> Result<Option<Reached>> {
    let mut found = Reached::default();
    let what = || "ask the far end for an echo".to_owned();
    for expectation in expected {
        let Expectation::Reach { router, vrf, source, address, least, most } = expectation else { continue };
        let mut listeners = Vec::new();
        for stack in expected {
            let Expectation::Stack { router, interface, labels } = stack else { continue };
            listeners.push((FrameListener::open(lab.space(router)?, interface).during(what)?, *labels));
        }
        let ttl = ask(lab, router, vrf.as_deref(), [*source, *address])?;
        let Some(ttl) = ttl.filter(|ttl| (*least..=*most).contains(ttl)) else { return Ok(None) };
        found.ttl = Some(ttl);
        for (mut listener, labels) in listeners {
            let heard = listener.deepest();
            if u32::try_from(heard.len()).unwrap_or(u32::MAX) < labels {
                return Ok(None);
            }
            found.labels = heard;
        }
    }
    Ok(Some(found))
}

fn ask(lab: &RouterLab, router: &str, vrf: Option<&str>, way: [Ipv4Addr; 2]) -> Result<Option<u8>> {
    let what = || format!("ask {} for an echo from {router}", way[1]);
    echo::once(lab.space(router)?, vrf, way, ECHO_WITHIN).during(what)
}
