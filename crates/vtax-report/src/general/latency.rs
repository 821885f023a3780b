//! Latency by percentile.

use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::data::RunData;
use crate::format::{duration, quantile_name};
use crate::html::parts::{close_table, details, figure, open_table, titled};
use crate::markup::Markup;
use crate::metric::enough;
use crate::plot::curves::{Curve, LATENCY, percentiles};
use crate::plot::{responsive, series};

/// The chapter about latency.
#[derive(Debug)]
pub(crate) struct Latency;

impl Chapter for Latency {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        page.put(Rank::Pictures, "latency", "Latency", section(&context.data));
        page
    }
}

fn section(data: &RunData) -> Markup {
    let mut m = Markup::new();
    for group in data.groups() {
        for measure in data.measures() {
            let curves: Vec<Curve<'_>> = group
                .cells
                .iter()
                .enumerate()
                .filter_map(|(position, cell)| {
                    let histogram = data.latency.get(&(cell.id.clone(), measure.to_owned()))?;
                    let label = data.environment_label(cell);
                    (!histogram.is_empty()).then_some(Curve { label, position, histogram })
                })
                .collect();
            if curves.is_empty() {
                continue;
            }
            let caption = titled(
                &format!("Latency by percentile, {measure}; answers of all valid trials together"),
                &group.label,
            );
            let keys: Vec<_> = curves.iter().map(|c| (series(c.position), c.label.clone())).collect();
            let picture = responsive(|w| percentiles(&curves, &caption, LATENCY, w));
            m.add(&figure(&caption, &keys, &picture)).add(&percentile_table(&curves));
        }
    }
    m
}

fn percentile_table(curves: &[Curve<'_>]) -> Markup {
    let quantiles = [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999];
    let names: Vec<String> = quantiles.iter().map(|q| quantile_name(*q)).collect();
    let mut columns = vec![("Environment", false), ("Answers", true), ("Mean", true)];
    columns.extend(names.iter().map(|n| (n.as_str(), true)));
    columns.push(("Maximum", true));
    let mut table = open_table("", &columns);
    for c in curves {
        let h = c.histogram;
        table.open("tr", &[]).element("th", &[("scope", "row")], &c.label);
        table.element("td", &[("class", "n")], &h.len().to_string());
        table.element("td", &[("class", "n")], &duration(h.mean()));
        for q in quantiles {
            // The same rule as for the curve: no percentile from a handful of answers.
            let known = enough(h.len(), q);
            let text = if known { duration(h.value_at_quantile(q) as f64) } else { "too few".to_owned() };
            table.element("td", &[("class", if known { "n" } else { "n quiet" })], &text);
        }
        table.element("td", &[("class", "n")], &duration(h.max() as f64)).close("tr");
    }
    close_table(&mut table);
    details("As a table", &table)
}
