//! Storage: tests of files, by size and record.

mod access;
mod answered;
mod cpu;
mod heat;
mod lines;
mod page;
pub(crate) mod path;
mod steady;
mod sweep;
mod tables;
mod throughput;
pub(crate) mod trial;
mod workbook;

use rust_xlsxwriter::{Workbook, XlsxError};

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::table::Table;

/// Who answered reads, in a sentence for each.
pub(crate) fn who_answered(context: &Context) -> Vec<String> {
    answered::sentences(context, &sweep::of(context))
}

/// The chapter about storage.
#[derive(Debug)]
pub(crate) struct Storage;

impl Chapter for Storage {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        page.put(Rank::Details, "storage-access", "Who may use which volume", access::section(&context.data));
        let sweeps = sweep::of(context);
        let steady = steady::section(context);
        if sweeps.is_empty() && steady.is_empty() {
            return page;
        }
        page.styles.push(include_str!("style.css"));
        page.put(Rank::Findings, "storage", "Files by size and record", heat::heat(&sweeps));
        page.put(Rank::Findings, "storage-steady", "Steady state", steady);
        page.put(
            Rank::Pictures,
            "storage-lines",
            "Throughput by file and record size",
            lines::lines(&sweeps),
        );
        page.put(Rank::Pictures, "storage-cpu", "CPU time per GiB", cpu::section(context, &sweeps));
        page.put(Rank::Details, "storage-tests", "Every test of storage", page::tests(context, &sweeps));
        page.words.push((
            "children, parent",
            "iozone's words: the sum of what each process had for itself, and all bytes over the time until the last one had ended and synced.",
        ));
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        let mut tables = tables::tables(&context.data);
        tables.extend(steady::rounds(&context.data));
        tables
    }

    fn sheets(&self, context: &Context, book: &mut Workbook) -> Result<(), XlsxError> {
        workbook::sheets(&context.data, &sweep::of(context), book)
    }
}
