//! Transfers as the study's tables have them: windows down, scenarios across.

use vtax_stats::describe;

use super::bench::{Bench, Link, Window};
use super::study::{self, Study};
use crate::format::{digits, quantity};

/// Seconds that amounts are scaled to.
pub(crate) const SECONDS: f64 = 30.0;
/// Bytes of what the study calls a megabyte (section III.E).
pub(crate) const MEGABYTE: f64 = 1_048_576.0;

/// A mean of transfers in megabytes of 30 s, as the study counts them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Amount {
    pub(crate) mean: f64,
    pub(crate) sd: Option<f64>,
    /// Transfers; `None` of the study's.
    pub(crate) count: Option<usize>,
}

impl Amount {
    /// Mean and standard deviation: the study's as it prints them.
    pub(crate) fn texts(&self) -> (String, Option<String>) {
        match self.count {
            None => (self.mean.to_string(), self.sd.map(|sd| sd.to_string())),
            Some(_) => (megabytes(self.mean), self.sd.map(digits)),
        }
    }

    /// The same as a table of a bench has them: without the study in three digits, with the unit that fits them.
    pub(crate) fn texts_of(&self, bench: &Bench<'_>) -> (String, Option<String>) {
        let told = |amount: f64| quantity(amount * MEGABYTE, "B");
        match bench.study {
            Some(_) => self.texts(),
            None => (told(self.mean), self.sd.map(told)),
        }
    }

    /// `2793 MB (9)`; without the study `2.73 GiB (9.00 MiB)`.
    pub(crate) fn text_of(&self, bench: &Bench<'_>) -> String {
        let (mean, sd) = self.texts_of(bench);
        let unit = if bench.study.is_some() { " MB" } else { "" };
        let sd = sd.map_or_else(String::new, |sd| format!(" ({sd})"));
        format!("{mean}{unit}{sd}")
    }

    /// `2793 (9)`.
    pub(crate) fn text(&self) -> String {
        match self.texts() {
            (mean, Some(sd)) => format!("{mean} ({sd})"),
            (mean, None) => mean,
        }
    }
}

/// Four digits as the study prints them, and all of a larger whole number.
fn megabytes(value: f64) -> String {
    if value >= 999.95 { format!("{value:.0}") } else { digits_4(value) }
}

fn digits_4(value: f64) -> String {
    match value {
        v if v >= 99.995 => format!("{v:.1}"),
        v if v >= 9.9995 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// Megabytes that a goodput in bit/s carries in 30 s.
pub(crate) fn in_30_s(goodput: f64) -> f64 {
    goodput / 8.0 * SECONDS / MEGABYTE
}

/// Of the links together: a mean over all of their transfers.
pub(crate) fn amount<'a>(
    bench: &Bench<'_>,
    links: impl IntoIterator<Item = &'a Link<'a>>,
    window: Window,
    variant: &str,
) -> Option<Amount> {
    let test = bench.transfer(window, variant)?;
    let of = |link: &Link<'_>| link.goodputs(&test.test.name).into_iter().map(in_30_s).collect::<Vec<_>>();
    let values: Vec<f64> = links.into_iter().flat_map(of).collect();
    let found = describe(&values)?;
    Some(Amount { mean: found.mean, sd: found.sd, count: Some(found.n) })
}

/// The variant that the study's tables and the picture of all paths show of several; `None` where there is one only.
pub(crate) fn one_of_several(bench: &Bench<'_>) -> Option<String> {
    match bench.variants().as_slice() {
        ["", _, ..] => Some("no other option".to_owned()),
        [first, _, ..] => Some((*first).to_owned()),
        _ => None,
    }
}

/// What stands below figures of that variant.
pub(crate) fn only(variant: &str) -> String {
    format!("Only transfers with {variant}; all are in \"Every path, every transfer\".")
}

/// A table with a block of columns from the study and one of columns from here.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) blocks: [Block; 2],
    /// By window, its name first.
    pub(crate) windows: Vec<String>,
}

/// Columns that belong together.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) name: &'static str,
    pub(crate) columns: Vec<Column>,
}

/// One column.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Cell, of the columns from here that are of one.
    pub(crate) cell: Option<String>,
    /// By window.
    pub(crate) amounts: Vec<Option<Amount>>,
}

/// A table of the study, with what was found here beside it; `None` where the run repeats none of its
/// scenarios.
pub(crate) fn grid(bench: &Bench<'_>, study: &Study, table: &study::Table) -> Option<Grid> {
    let windows = bench.windows();
    let here = here(bench, study, table, &windows)?;
    let printed = |c: &study::Column| {
        let rows = windows.iter().map(|w| w.row(study).map(|row| c.value(row)));
        let amounts = rows.map(|v| v.map(|(mean, sd)| Amount { mean, sd, count: None })).collect();
        Column { name: c.name.clone(), cell: None, amounts }
    };
    let of_study = table.columns.iter().map(printed).collect();
    Some(Grid {
        blocks: [Block { name: "The study", columns: of_study }, Block { name: "Here", columns: here }],
        windows: windows.iter().map(|w| w.name()).collect(),
    })
}

/// Columns of what was found here; `None` where there are none.
fn here(bench: &Bench<'_>, study: &Study, table: &study::Table, windows: &[Window]) -> Option<Vec<Column>> {
    let variant = bench.variants().first().copied()?;
    let column = |name: &str, links: &[&Link<'_>], cell: Option<String>| {
        let of = |window: &Window| amount(bench, links.iter().copied(), *window, variant);
        Column { name: name.to_owned(), cell, amounts: windows.iter().map(of).collect() }
    };
    let mut here = Vec::new();
    for scenario in &table.scenarios {
        let repeats = |l: &&Link<'_>| study.scenario(l.cell).is_some_and(|s| s.name == *scenario);
        let links: Vec<&Link<'_>> = bench.links.iter().filter(repeats).collect();
        if !table.together {
            here.extend(links.iter().map(|l| column(&l.label, &[l], Some(l.cell.id.clone()))));
        } else if !links.is_empty() {
            let mut column = column(scenario, &links, None);
            column.amounts.iter_mut().flatten().for_each(|a| a.sd = None);
            here.push(column);
        }
    }
    (!here.is_empty()).then_some(here)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_the_studys() {
        // Its sample calculation of section III.E: 48.6 MB in 30 s are 13.589 Mbit/s.
        assert!((in_30_s(13.589e6) - 48.6).abs() < 0.01);
        let amount = |mean, sd, count| Amount { mean, sd, count }.text();
        assert_eq!(amount(772.6, Some(16.85), None), "772.6 (16.85)");
        assert_eq!(amount(1498.2, None, None), "1498.2");
        assert_eq!(amount(1835.04, Some(5.0), Some(10)), "1835 (5.00)");
        assert_eq!(amount(48.6, None, Some(1)), "48.60");
    }
}
