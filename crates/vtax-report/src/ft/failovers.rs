//! What the report's section about failovers shows: groups of environments with their failovers.

use vtax_load::LatencyHistogram;

use super::course::{Course, Kind, Window};
use super::failover::{End, Failover};
use super::figures::{AFTER_RESTORE, Figure, Quantity};
use super::protects::Mode;
use super::writes::Writes;
use crate::family::sip::study::Study;

/// What a run has about fault tolerance: one part per group of compared cells.
#[derive(Debug, Default)]
pub(crate) struct Ft {
    pub(crate) groups: Vec<Group>,
    /// What couldn't be read.
    pub(crate) damage: Vec<String>,
}

/// The cells that are compared with each other.
#[derive(Debug)]
pub(crate) struct Group {
    /// What the addresses of its parts begin with.
    pub(crate) prefix: String,
    /// What tells it from others; empty where there is one only.
    pub(crate) label: String,
    /// Baseline first.
    pub(crate) environments: Vec<Environment>,
    /// The study that the plan repeats.
    pub(crate) study: Option<&'static Study>,
    /// The measure whose trials say what protection costs.
    pub(crate) costs_of: Option<String>,
}

/// One cell with its failovers and checkpoints.
#[derive(Debug)]
pub(crate) struct Environment {
    pub(crate) cell: String,
    pub(crate) label: String,
    /// Position in its group; 0 is the baseline.
    pub(crate) position: usize,
    pub(crate) mode: Mode,
    /// Time between checkpoints, in nanoseconds, where the mode has one.
    pub(crate) interval_ns: Option<f64>,
    /// Whether it has a disk that is replicated.
    pub(crate) has_disk: bool,
    /// In the order of time.
    pub(crate) failovers: Vec<Failover>,
    /// Times without protection, and without service, of its trials with faults.
    pub(crate) spans: Vec<Span>,
    /// What went wrong with its protection without being asked to, by trial.
    pub(crate) problems: Vec<(u32, String)>,
    /// Seconds of load with faults, all trials.
    pub(crate) loaded: f64,
    pub(crate) costs: Costs,
    pub(crate) overlays: Vec<Overlay>,
    /// What became of acknowledged writes, by trial, where the load was one of storage.
    pub(crate) writes: Vec<Writes>,
}

/// A time without protection or without anybody who runs the service, in seconds since the load of its trial began.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Span {
    pub(crate) trial: u32,
    pub(crate) from: f64,
    /// At most the end of the load.
    pub(crate) to: f64,
    /// Whether it ended before the load did.
    pub(crate) ended: bool,
    pub(crate) reason: String,
    /// Nobody ran the service.
    pub(crate) down: bool,
}

impl Span {
    /// In seconds.
    pub(crate) fn length(&self) -> f64 {
        (self.to - self.from).max(0.0)
    }
}

/// Values, each with the index of its trial.
pub(crate) type OfTrials = Vec<(u32, f64)>;

/// What protection costs, over the trials of a cell. Where a trial has several protected systems, its rate over the link and what the
/// hosts and the supervision took are those of all of them together; the rest is their mean.
#[derive(Debug, Default)]
pub(crate) struct Costs {
    /// One value per trial, as of all but the last two: checkpoints a second.
    pub(crate) checkpoint_rate: OfTrials,
    /// Share of the time in which the guest stood still.
    pub(crate) stopped_share: OfTrials,
    /// Bytes over the link in a second.
    pub(crate) link_rate: OfTrials,
    /// Bytes over the link for a checkpoint.
    pub(crate) bytes: OfTrials,
    /// Dirty pages of a checkpoint, at most.
    pub(crate) pages: OfTrials,
    /// Share of a core that the hosts' virtual machines took, all together.
    pub(crate) host_cpu: OfTrials,
    /// Share of a core that watching over them took.
    pub(crate) supervision: OfTrials,
    /// Nanoseconds from the decision to protect a running guest to its first checkpoint, each time.
    pub(crate) armed_ns: OfTrials,
    /// All pauses.
    pub(crate) pauses: LatencyHistogram,
}

/// What is drawn around a fault.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct What {
    /// Part of its address: `failed`, `failed-calling`, `ses1`.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    /// What the vertical axis is.
    pub(crate) axis: &'static str,
    /// Empty for counts in a second, else `ms`.
    pub(crate) unit: &'static str,
}

impl What {
    /// Counts have no unit of their own.
    pub(crate) fn kind(&self) -> Kind {
        if self.unit.is_empty() { Kind::Rate } else { Kind::Mean }
    }
}

/// One quantity around the faults of an environment.
#[derive(Debug)]
pub(crate) struct Overlay {
    /// The kind of fault.
    pub(crate) fault: String,
    pub(crate) what: What,
    pub(crate) window: Window,
    pub(crate) courses: Vec<Course>,
}

impl Environment {
    /// Failovers that count: something failed, and it was measured.
    pub(crate) fn counted(&self) -> impl Iterator<Item = &Failover> {
        self.failovers.iter().filter(|f| f.excluded.is_none())
    }
}

impl Ft {
    /// True where the run has nothing to show here.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// Failovers of one kind of fault in one environment: what statistics are made of.
#[derive(Debug)]
pub(crate) struct Series<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) fault: &'a str,
    /// Failovers that count, in the order of time.
    pub(crate) failovers: Vec<&'a Failover>,
}

impl Environment {
    /// Its failovers by kind of fault, those first that came first.
    pub(crate) fn series(&self) -> Vec<Series<'_>> {
        let mut all: Vec<Series<'_>> = Vec::new();
        for f in self.counted() {
            match all.iter_mut().find(|s| s.fault == f.fault) {
                Some(series) => series.failovers.push(f),
                None => all.push(Series { environment: self, fault: &f.fault, failovers: vec![f] }),
            }
        }
        all
    }
}

impl Series<'_> {
    /// `vm-kemari (TCG), kill primary-host`; the fault only where the environment has several.
    pub(crate) fn label(&self, several: bool) -> String {
        match several {
            true => format!("{}, {}", self.environment.label, self.fault),
            false => self.environment.label.clone(),
        }
    }

    pub(crate) fn survived(&self) -> u64 {
        self.failovers.iter().filter(|f| f.end == End::Survived).count() as u64
    }

    pub(crate) fn count(&self) -> u64 {
        self.failovers.len() as u64
    }

    /// Those in which nobody answered before the plan restored something, and what that was.
    pub(crate) fn restored(&self) -> impl Iterator<Item = (&Failover, &str)> {
        self.failovers.iter().filter_map(|f| match &f.end {
            End::Restored(what) => Some((*f, what.as_str())),
            End::Survived | End::Lost(_) | End::Unknown => None,
        })
    }

    /// Those that were survived without anybody having had to wait for an answer.
    pub(crate) fn calm(&self) -> impl Iterator<Item = &Failover> {
        self.failovers.iter().copied().filter(|f| f.end == End::Survived && f.outage == Some(false))
    }

    /// What is known of a quantity. Failovers that ended the service have none. Where something had to be restored, times only say
    /// when the plan did that: then what was lost is told, and the time after the restore.
    pub(crate) fn figure(&self, quantity: &Quantity) -> Figure {
        let of = |f: &&Failover| {
            let is_told = match f.end {
                End::Survived => true,
                End::Restored(_) => quantity.name == AFTER_RESTORE || quantity.unit.is_empty(),
                End::Lost(_) | End::Unknown => false,
            };
            (quantity.of)(f).filter(|_| is_told)
        };
        let most = self.failovers.iter().map(|f| (quantity.most)(f).unwrap_or(f64::INFINITY));
        Figure::of_failovers(quantity.unit, self.failovers.iter().map(of), most.fold(0.0, f64::max))
    }

    /// Connections kept and open, and in how many failovers all of them were kept; `None` where none were open.
    pub(crate) fn connections(&self) -> Option<Connections> {
        let mut sum = Connections::default();
        for counts in self.failovers.iter().map(|f| f.counts) {
            let (Some(open), Some(kept)) = (counts.open, counts.kept) else { continue };
            let Some(kept_all) = counts.kept_all() else { continue };
            sum.open = sum.open.saturating_add(open);
            sum.kept = sum.kept.saturating_add(kept.min(open));
            sum.failovers += 1;
            sum.unharmed += u64::from(kept_all);
        }
        (sum.open > 0).then_some(sum)
    }
}

/// Connections over failovers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Connections {
    pub(crate) open: u64,
    pub(crate) kept: u64,
    /// Failovers that had any.
    pub(crate) failovers: u64,
    /// Failovers that kept all of theirs.
    pub(crate) unharmed: u64,
}
