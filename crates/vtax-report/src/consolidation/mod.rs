//! Several systems on one host: what each got, how fair that was, where it ended and what it ended for.

mod curve;
mod page;
mod pressure;
mod study;
mod tables;
pub(crate) mod trial;

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::table::Table;

/// The chapter about several systems on one host.
#[derive(Debug)]
pub(crate) struct Consolidation;

impl Chapter for Consolidation {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        if context.data.plan.cells.iter().all(|cell| !cell.is_several()) {
            return page;
        }
        page.put(Rank::Findings, "consolidation", "Several systems on one host", page::curves(context));
        page.put(Rank::Taxes, "neighbours", "What neighbours cost", page::neighbours(context));
        page.put(Rank::Details, "consolidation-study", "Beside the study", study::section(context));
        page.put(Rank::Details, "systems", "Each system", page::systems(context));
        page.words.extend(WORDS);
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        tables::tables(context)
    }
}

/// Words that only this chapter has.
const WORDS: [(&str, &str); 3] = [
    (
        "fairness",
        "Jain's index of the systems' rates: 1 where all are equal, 1/N where one of N has everything (Jain, Chiu and Hawe, 1984).",
    ),
    ("knee", "The number of systems from which on each pays more than the margin, as its interval shows."),
    ("overcommitted", "Systems are promised more memory, or virtual CPUs, than the budget has."),
];
