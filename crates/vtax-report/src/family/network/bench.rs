//! Network tests over paths: what their section of the context, its sheets and its CSV files show.

use std::collections::{BTreeMap, BTreeSet};

use vtax_load::network::{NetworkResult, PingResult, RrResult, TcpFlow, UdpResult, VoiceResult};
use vtax_plan::model::{Cell, Measure, MeasureKind, NetworkMeasure, NetworkTest, NetworkTestKind, Workload};
use vtax_store::record::{Observation, TrialRecord, Validity};
use vtax_units::{Nanos, fact};

use super::study::{self, Study};
use super::trial::{flow, result};
use crate::data::{Group, RunData};
use crate::metric::measure_of_test;

/// Every set of network tests of a run: one per group of compared cells and measure.
#[derive(Debug)]
pub(crate) struct Links<'a> {
    pub(crate) benches: Vec<Bench<'a>>,
}

/// One measure in the cells that are compared with each other.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    /// What the addresses of its parts begin with.
    pub(crate) prefix: String,
    /// What tells it from others; empty where there is one only.
    pub(crate) label: String,
    pub(crate) measure: &'a Measure,
    pub(crate) timing: &'a NetworkMeasure,
    /// The study that the plan repeats.
    pub(crate) study: Option<&'static Study>,
    /// Every test of any of its cells, in the plan's order.
    pub(crate) tests: Vec<Test<'a>>,
    /// Baseline first; those with a trial.
    pub(crate) links: Vec<Link<'a>>,
}

/// A test, with what the tables ask of it.
#[derive(Debug)]
pub(crate) struct Test<'a> {
    pub(crate) test: &'a NetworkTest,
    /// Name of its measure in the summary: `network/tcp.window-4K`.
    pub(crate) measure: String,
    /// Of bulk TCP.
    pub(crate) window: Option<Window>,
    /// What else varies, in words: `congestion cubic`; empty where nothing does.
    pub(crate) variant: String,
}

/// A window that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Window {
    /// In bytes.
    Bytes(u64),
    /// The kernel's own sizing.
    Auto,
}

impl Window {
    /// `4K`, `1M`, `auto`.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Auto => "auto".to_owned(),
            Self::Bytes(b) if b >= 1 << 20 && b.is_multiple_of(1 << 20) => format!("{}M", b >> 20),
            Self::Bytes(b) if b >= 1 << 10 && b.is_multiple_of(1 << 10) => format!("{}K", b >> 10),
            Self::Bytes(b) => format!("{b} B"),
        }
    }

    /// Its row in the tables of a study.
    pub(crate) fn row(self, study: &Study) -> Option<usize> {
        match self {
            Self::Bytes(bytes) => study.row(bytes),
            Self::Auto => None,
        }
    }
}

/// One cell: an environment over a path.
#[derive(Debug)]
pub(crate) struct Link<'a> {
    pub(crate) cell: &'a Cell,
    pub(crate) label: String,
    /// Position in its group; 0 is the baseline.
    pub(crate) position: usize,
    pub(crate) accelerator: Option<String>,
    /// In the order of time, those that don't count included.
    pub(crate) trials: Vec<&'a TrialRecord>,
}

impl<'a> Link<'a> {
    /// Whether interfaces could leave segmentation to others: what was built may not allow it although the plan does.
    pub(crate) fn has_offloads(&self) -> bool {
        let refused =
            |t: &&TrialRecord| t.facts.get(fact::PATH_OFFLOADS).is_some_and(|value| value == "false");
        self.cell.path.offloads && !self.trials.iter().any(refused)
    }

    /// What was observed of a test, whether it counts or not.
    pub(crate) fn all(&self, test: &str) -> impl Iterator<Item = (&'a TrialRecord, &'a Observation)> {
        let test = test.to_owned();
        self.trials.iter().flat_map(move |trial| {
            let made = trial.observations.iter().filter(|o| o.name == test);
            made.map(|o| (*trial, o)).collect::<Vec<_>>()
        })
    }

    /// What counts of it.
    pub(crate) fn valid(&self, test: &str) -> impl Iterator<Item = (&'a TrialRecord, &'a Observation)> {
        self.all(test).filter(|(t, o)| t.validity == Validity::Valid && o.validity == Validity::Valid)
    }

    /// The transfers that count.
    pub(crate) fn flows(&self, test: &str) -> impl Iterator<Item = &'a TcpFlow> {
        self.valid(test).filter_map(|(_, o)| flow(o))
    }

    /// Payload bits per second of the transfers that count, both directions together.
    pub(crate) fn goodputs(&self, test: &str) -> Vec<f64> {
        let of = |o: &Observation| match result(o) {
            Some(NetworkResult::Tcp(tcp)) => {
                Some([&tcp.up, &tcp.down].into_iter().flatten().map(TcpFlow::goodput).sum())
            }
            _ => None,
        };
        self.valid(test).filter_map(|(_, o)| of(o)).filter(|v: &f64| v.is_finite()).collect()
    }

    pub(crate) fn udp(&self, test: &str) -> Vec<&'a UdpResult> {
        let of = |o: &'a Observation| match result(o) {
            Some(NetworkResult::Udp(udp)) => Some(udp),
            _ => None,
        };
        self.valid(test).filter_map(|(_, o)| of(o)).collect()
    }

    pub(crate) fn ping(&self, test: &str) -> Vec<&'a PingResult> {
        let of = |o: &'a Observation| match result(o) {
            Some(NetworkResult::Ping(ping)) => Some(ping),
            _ => None,
        };
        self.valid(test).filter_map(|(_, o)| of(o)).collect()
    }

    pub(crate) fn voice(&self, test: &str) -> Vec<&'a VoiceResult> {
        let of = |o: &'a Observation| match result(o) {
            Some(NetworkResult::Voice(voice)) => Some(&**voice),
            _ => None,
        };
        self.valid(test).filter_map(|(_, o)| of(o)).collect()
    }

    pub(crate) fn rr(&self, test: &str) -> Vec<&'a RrResult> {
        let of = |o: &'a Observation| match result(o) {
            Some(NetworkResult::Rr(rr)) => Some(rr),
            _ => None,
        };
        self.valid(test).filter_map(|(_, o)| of(o)).collect()
    }
}

impl<'a> Bench<'a> {
    /// What 1,048,576 bytes are called: a megabyte beside the study, which calls them so.
    pub(crate) fn megabyte(&self) -> &'static str {
        if self.study.is_some() { "MB" } else { "MiB" }
    }

    /// The tests of bulk TCP.
    pub(crate) fn transfers(&self) -> impl Iterator<Item = &Test<'a>> {
        self.tests.iter().filter(|t| t.window.is_some())
    }

    /// The tests of that kind.
    pub(crate) fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = &Test<'a>> {
        self.tests.iter().filter(move |t| t.test.kind.name() == kind)
    }

    /// Windows in rising order, each once.
    pub(crate) fn windows(&self) -> Vec<Window> {
        let mut windows: Vec<Window> = self.transfers().filter_map(|t| t.window).collect();
        windows.sort();
        windows.dedup();
        windows
    }

    /// What besides the window tells transfers apart, in the plan's order; `[""]` where nothing does.
    pub(crate) fn variants(&self) -> Vec<&str> {
        let mut variants: Vec<&str> = Vec::new();
        for test in self.transfers() {
            if !variants.contains(&test.variant.as_str()) {
                variants.push(&test.variant);
            }
        }
        variants
    }

    /// The transfer with that window in that variant.
    pub(crate) fn transfer(&self, window: Window, variant: &str) -> Option<&Test<'a>> {
        self.transfers().find(|t| t.window == Some(window) && t.variant == variant)
    }

    /// Warm-up and counted time of the transfers; `None` where they differ in them.
    pub(crate) fn times(&self) -> Option<(Nanos, Nanos)> {
        let mut times = self.transfers().map(|t| self.timing.of(t.test)).map(|m| (m.warmup, m.duration));
        let first = times.next().unwrap_or((self.timing.warmup, self.timing.duration));
        times.all(|other| other == first).then_some(first)
    }

    /// Congestion controls of a transfer's senders, each with the environments whose kernels chose it.
    pub(crate) fn congestions(&self, test: &str) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
        let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for link in &self.links {
            for connection in link.flows(test).flat_map(|f| &f.sender.connections) {
                let environment = link.cell.environment.name.as_str();
                found.entry(connection.congestion.as_str()).or_default().insert(environment);
            }
        }
        found
    }

    /// True where a figure of one of its links is of a VM under software emulation.
    pub(crate) fn has_tcg(&self) -> bool {
        self.links.iter().any(|l| l.accelerator.as_deref() == Some("tcg"))
    }
}

/// What a run has of network tests.
pub(crate) fn of(data: &RunData) -> Links<'_> {
    let mut benches = Vec::new();
    for group in data.groups() {
        for measure in &data.plan.measures {
            let MeasureKind::Network(timing) = &measure.kind else { continue };
            let links = links(data, &group, &measure.name);
            if links.is_empty() {
                continue;
            }
            let prefix = match benches.len() {
                0 => "links".to_owned(),
                n => format!("links{}", n + 1),
            };
            let tests = tests(&group, &measure.name);
            let study = study::of(&data.plan);
            benches.push(Bench { prefix, label: group.label.clone(), measure, timing, study, tests, links });
        }
    }
    Links { benches }
}

fn links<'a>(data: &'a RunData, group: &Group<'a>, measure: &str) -> Vec<Link<'a>> {
    let link = |(position, cell): (usize, &&'a Cell)| {
        let of_cell = data.trials.iter().filter(|t| t.cell == cell.id && t.measure == measure);
        let trials: Vec<&TrialRecord> = of_cell.collect();
        let accelerator = data.accelerator(cell);
        let label = data.environment_label(cell);
        (!trials.is_empty()).then_some(Link { cell, label, position, accelerator, trials })
    };
    group.cells.iter().enumerate().filter_map(link).collect()
}

fn tests<'a>(group: &Group<'a>, measure: &str) -> Vec<Test<'a>> {
    let mut tests: Vec<Test<'a>> = Vec::new();
    for cell in &group.cells {
        let Workload::Network(workload) = &cell.workload else { continue };
        for test in &workload.tests {
            if tests.iter().any(|t| t.test.name == test.name) {
                continue;
            }
            let window = match &test.kind {
                NetworkTestKind::Tcp(tcp) => {
                    Some(tcp.socket.window.map_or(Window::Auto, |w| Window::Bytes(w.0)))
                }
                _ => None,
            };
            let others = test.parameters.iter().filter(|(name, _)| *name != "window");
            let variant: Vec<String> = others.map(|(name, value)| format!("{name} {value}")).collect();
            let measure = measure_of_test(measure, &test.name);
            tests.push(Test { test, measure, window, variant: variant.join(", ") });
        }
    }
    tests
}
