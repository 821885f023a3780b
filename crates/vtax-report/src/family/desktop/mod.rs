//! Remote desktops: what their users felt, beside a study where the plan names it.

mod found;
mod page;
mod study;
mod tables;
pub(crate) mod trial;

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::table::Table;

/// The chapter about remote desktops.
#[derive(Debug)]
pub(crate) struct Desktop;

impl Chapter for Desktop {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        let all = found::of(context);
        if all.is_empty() {
            return page;
        }
        page.styles.push(include_str!("style.css"));
        page.put(Rank::Findings, "desktops", "Remote desktops", page::users(&all));
        page.put(
            Rank::Findings,
            "desktops-study",
            "Beside the study",
            study::section(&context.data.plan, &all),
        );
        page.put(Rank::Pictures, "desktops-users", "Latency against users", page::over_users(&all));
        page.put(Rank::Details, "desktops-screens", "What was on the screens", page::screens(context));
        page.words.push((
            "merged",
            "An answer that came in one update of the screen with a later one's: the server was slower than its user.",
        ));
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        tables::tables(&context.data)
    }
}
