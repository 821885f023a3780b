//! Network tests over paths.

mod bench;
mod checks;
mod facts;
mod headline;
pub(crate) mod line;
mod page;
mod plot;
mod study;
mod tables;
mod terminal;
mod transfers;
pub(crate) mod trial;
mod workbook;

use rust_xlsxwriter::{Workbook, XlsxError};
use vtax_store::summary::Comparison;

use crate::chapter::{Chapter, Page, Rank, Terminal};
use crate::context::Context;
use crate::data::RunData;
use crate::table::Table;

/// The chapter about network tests.
#[derive(Debug)]
pub(crate) struct Network;

impl Chapter for Network {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        let links = bench::of(&context.data);
        if links.benches.is_empty() {
            return page;
        }
        page.styles.push(include_str!("style.css"));
        page.put(Rank::Findings, "links", "Paths", page::section(context, &links));
        let datagrams = facts::datagrams(&context.data, &links);
        page.put(Rank::Findings, "links-datagrams", "Datagrams and round trips", datagrams);
        let title = "Whether the network figures can be trusted";
        page.put(Rank::Details, "links-trust", title, facts::trust(&links));
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        tables::tables(context)
    }

    fn sheets(&self, context: &Context, book: &mut Workbook) -> Result<(), XlsxError> {
        workbook::sheets(context, book)
    }

    /// Network tests are many, and have a table of their own.
    fn terminal(&self, context: &Context) -> Terminal {
        let mut terminal = Terminal::default();
        for bench in &bench::of(&context.data).benches {
            terminal.measures.extend(bench.tests.iter().map(|t| t.measure.clone()));
            terminal.table.push_str(&terminal::render(context, bench));
        }
        terminal
    }

    fn headline(&self, data: &RunData, metric: &str, found: &[&Comparison]) -> Option<String> {
        (metric == "tcp_goodput").then(|| headline::paths(data, found))
    }
}
