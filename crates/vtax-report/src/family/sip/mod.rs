//! SIP: the IMS benchmark.

pub(crate) mod bench;
pub(crate) mod connections;
mod detail;
mod failures;
mod measurements;
mod page;
mod parameters;
mod stats;
mod steps;
pub(crate) mod study;
mod tables;
pub(crate) mod trial;
mod usage;
mod what;
mod workbook;

use std::sync::OnceLock;

use rust_xlsxwriter::{Workbook, XlsxError};
use vtax_plan::model::{ArrivalProcess, MeasureKind};

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::RunData;
use crate::table::Table;
use bench::{Bench, Benches};

/// The chapter about the IMS benchmark.
#[derive(Debug, Default)]
pub(crate) struct Sip {
    /// Read when first asked for.
    benches: OnceLock<Benches>,
}

impl Sip {
    fn benches(&self, context: &Context) -> &Benches {
        self.benches.get_or_init(|| bench::read(&context.run, &context.data))
    }
}

impl Chapter for Sip {
    fn page(&self, context: &Context) -> Page {
        let found = self.benches(context);
        let mut page = Page { damage: found.damage.clone(), ..Page::default() };
        if found.benches.is_empty() {
            return page;
        }
        page.styles.push(include_str!("style.css"));
        page.scripts.push(include_str!("script.js"));
        page.put(Rank::Findings, "ims", "IMS benchmark", page::summary(context, found));
        let arrivals = |bench: &Bench| arrivals(&context.data, bench);
        let measurements = measurements::metrics(found, arrivals);
        page.put(Rank::Details, "ims-measurements", "IMS measurements", measurements);
        page.put(Rank::Details, "ims-failures", "IMS failures and generator", failures::failures(found));
        let appendix = failures::appendix(context, found);
        page.put(Rank::Details, "ims-appendix", "IMS parameters and command lines", appendix);
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        tables::tables(context, self.benches(context))
    }

    fn sheets(&self, context: &Context, book: &mut Workbook) -> Result<(), XlsxError> {
        workbook::sheets(context, self.benches(context), book)
    }
}

/// How a benchmark's attempts followed each other.
fn arrivals(data: &RunData, bench: &Bench) -> Option<ArrivalProcess> {
    let measure = data.plan.measures.iter().find(|m| m.name == bench.measure)?;
    match &measure.kind {
        MeasureKind::Ims(ims) => Some(ims.arrivals),
        MeasureKind::Latency(latency) => Some(latency.arrivals),
        _ => None,
    }
}
