//! Fault tolerance: the chapter about failovers and what protection costs.
//!
//! `read.rs` takes what a run stored about faults, protection and checkpoints; everything else here is made of that.
//! What each quantity is: `docs/failover-report.md`.

mod around;
mod costs;
mod course;
mod facts;
mod failover;
mod failovers;
mod figures;
mod found;
pub(crate) mod headline;
mod overview;
mod page;
mod plot;
mod protects;
mod read;
mod sip;
mod tables;
pub(crate) mod trial;
mod words;
mod writes;

use std::sync::OnceLock;

use crate::chapter::{Chapter, Page, Rank, Terminal};
use crate::context::Context;
use crate::table::Table;
use failovers::Ft;

/// The chapter about fault tolerance.
#[derive(Debug, Default)]
pub(crate) struct FaultTolerance {
    /// Read when first asked for.
    found: OnceLock<Ft>,
}

impl FaultTolerance {
    fn found(&self, context: &Context) -> &Ft {
        self.found.get_or_init(|| read::read(&context.run, &context.data))
    }
}

impl Chapter for FaultTolerance {
    fn page(&self, context: &Context) -> Page {
        let found = self.found(context);
        let mut page = Page { damage: found.damage.clone(), ..Page::default() };
        if found.is_empty() {
            return page;
        }
        page.styles.push(include_str!("style.css"));
        page.put(Rank::Faults, "ft", "Fault tolerance", page::failovers(context, found));
        page.words.extend(WORDS);
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        tables::tables(self.found(context))
    }

    fn terminal(&self, context: &Context) -> Terminal {
        Terminal { end: words::terminal(self.found(context)), ..Terminal::default() }
    }
}

/// Words of the section about faults.
const WORDS: [(&str, &str); 8] = [
    ("fault", "Something broken on purpose while a load is held: a host killed or frozen, a link cut."),
    (
        "survived",
        "Somebody was answered after a fault without the plan having restored anything before: the service recovered by itself.",
    ),
    (
        "failover",
        "Another host takes over: the time from the failure until somebody answers again, and what gets lost in it.",
    ),
    (
        "primary, secondary",
        "The host that runs the guest, and the one that keeps a copy of it in the same state and could go on.",
    ),
    (
        "checkpoint",
        "The moment at which the copy is brought up to date: the guest is stopped, what it changed is copied, it goes on.",
    ),
    (
        "dirty page",
        "A page of memory, 4 KiB, that was changed since the last checkpoint and has to be copied.",
    ),
    (
        "fencing",
        "Making sure that a host that is believed dead is, before another takes over: one that only hung would wake up and answer too.",
    ),
    ("split brain", "Two guests that both believe to be the one: what fencing prevents."),
];
