//! Calls after SIPp's scenarios: response times, failures, what each command did.

mod connections;
mod page;
mod sound;
mod tables;
pub(crate) mod trial;

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::table::Table;

/// The chapter about calls after SIPp's scenarios.
#[derive(Debug)]
pub(crate) struct Script;

impl Chapter for Script {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        let data = &context.data;
        if data.calls.is_empty() {
            return page;
        }
        page.put(Rank::Findings, "calls", "Calls after a scenario", page::calls(data));
        page.put(Rank::Findings, "calls-times", "Response times", page::times(data));
        page.put(Rank::Findings, "calls-sound", "Sound", sound::section(data));
        page.put(Rank::Findings, "calls-connections", "Connections", connections::section(data));
        page.put(Rank::Details, "calls-failed", "Failed calls", page::failures(data));
        page.put(Rank::Details, "calls-commands", "The scenario's commands", page::commands(data));
        page.words.push((
            "response time",
            "What a scenario times itself: from its start_rtd, or from the intended start of the call, to its rtd.",
        ));
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        tables::tables(&context.data)
    }
}
