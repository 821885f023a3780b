//! Several systems under test, as written.

use vtax_units::{Nanos, Rate};

use super::{EnvironmentRaw, ServiceRaw, WorkloadRaw};
use crate::decode::{Decode, Many, scalar};
use crate::diagnose::{Report, nearest};
use crate::model;
use crate::source::Spanned;
use crate::tree::Node;

raw! {
    /// What several systems under test share, and how they start.
    struct ConsolidationRaw = "`consolidation`" {
        /// Whether `budget` is for all systems together (`total`) or for each (`each`).
        default budget: SplitRaw = "total",
        /// Whether rates and connections are of all systems together (`total`) or of each (`each`).
        default load: SplitRaw = "total",
        /// Whether virtual machines get all memory they are promised (`promised`), are held to `budget` together (`limited`), or are each
        /// left with their part of it by a balloon (`ballooned`).
        default memory: MemoryHoldRaw = "promised",
        /// In which order systems and services start: `together`, `one-by-one`, or a time from one start to the next.
        default start: StartRaw = "together",
    }

    /// A set of systems that stand beside the service's own.
    struct SystemsRaw = "a set of `systems`" {
        /// Its name.
        required name: String,
        /// The systems.
        required beside: Many<BesideRaw>,
    }

    /// A system beside the service's own.
    struct BesideRaw = "a system in `beside`" {
        /// Name in reports; without it, the service's.
        optional name: String,
        /// Its software; options are single values.
        required service: ServiceRaw,
        /// What the generator asks of it: `http`, `redis`, `ftp`, `desktop`, or `sip` with a
        /// `scenario_file`; options are single values.
        required workload: WorkloadRaw,
        /// How much: `idle`, `closed` (as much as it answers), or a rate.
        required load: BesideLoadRaw,
        /// `measured` (its figures are of interest) or `neighbour` (it only disturbs).
        default role: RoleRaw = "neighbour",
        /// How it is hosted; without it, as the service's own systems.
        optional environment: EnvironmentRaw,
    }
}

words! {
    /// Whether something is for all systems together, or for each.
    SplitRaw(model::Split) = "choice", "choices" {
        "total": Total, "For all systems together.";
        "each": Each, "For each system.";
    }
    /// What becomes of memory that virtual machines were promised and the budget doesn't have.
    MemoryHoldRaw(model::MemoryHold) = "choice", "choices" {
        "promised": Promised, "They get it.";
        "limited": Limited, "All together are held to the budget: what there is no room for goes to a disk.";
        "ballooned": Ballooned, "A balloon in each takes what was promised beyond its part of the budget.";
    }
    /// What a system beside others is there for.
    RoleRaw(model::Role) = "role", "roles" {
        "measured": Measured, "Its figures are of interest.";
        "neighbour": Neighbour, "It only disturbs; its figures prove that it did.";
    }
}

/// In which order systems start.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StartRaw(pub(crate) model::StartOrder);

/// What a start looks like, for messages and the schema.
const START: &str = "`together`, `one-by-one`, or a time from one start to the next such as `2s`";

impl Decode for StartRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        match scalar(node, START, report)? {
            "together" => Some(Self(model::StartOrder::Together)),
            "one-by-one" => Some(Self(model::StartOrder::OneByOne)),
            text => {
                let gap = text.parse::<Nanos>().ok();
                if gap.is_none() {
                    refuse(node, text, START, &["together", "one-by-one"], report);
                }
                gap.map(|gap| Self(model::StartOrder::Gap(gap)))
            }
        }
    }
}

scalar_schema! { StartRaw: "Start", "string", START, ["together", "one-by-one", "2s"] }

/// Load of a system beside others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BesideLoadRaw(pub(crate) model::BesideLoad);

/// What such a load looks like.
const BESIDE_LOAD: &str = "`idle`, `closed`, or a rate such as `100/s`";

impl Decode for BesideLoadRaw {
    fn decode(node: &Node, report: &mut Report) -> Option<Self> {
        match scalar(node, BESIDE_LOAD, report)? {
            "idle" => Some(Self(model::BesideLoad::Idle)),
            "closed" => Some(Self(model::BesideLoad::Closed)),
            text => {
                let rate = text.parse::<Rate>().ok();
                if rate.is_none() {
                    refuse(node, text, BESIDE_LOAD, &["idle", "closed"], report);
                }
                rate.map(|rate| Self(model::BesideLoad::Rate(rate)))
            }
        }
    }
}

scalar_schema! { BesideLoadRaw: "BesideLoad", ["string", "number"], BESIDE_LOAD, ["idle", "closed", "100/s"] }

/// Reports a word that is none of these.
fn refuse(node: &Node, text: &str, what: &str, known: &[&str], report: &mut Report) {
    let entry = report.error(node.span, format!("{} is not {what}", node.describe()));
    if let Some(word) = nearest(text, known.iter().copied()) {
        entry.help(format!("did you mean `{word}`?"));
    }
}
