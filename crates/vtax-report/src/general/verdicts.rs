//! Every verdict: the taxes in one picture, each in words, all figures behind them.

use vtax_store::summary::{Better, Doubt};

use super::glossary::WORDS;
use super::why::why;
use crate::chapter::{Chapter, Page, Rank};
use crate::context::Context;
use crate::families::metrics;
use crate::format::{digits, range, tax, typical};
use crate::html::parts::{close_table, figure, open_table, scrolling};
use crate::markup::Markup;
use crate::plot::{self, forest};
use crate::rows::{MOST_ROWS, Row, first_and_rest};
use crate::table::{Table, number, number_or_none, text, text_or_none, yes_no};
use crate::words::{name, word};

/// The chapter about verdicts.
#[derive(Debug)]
pub(crate) struct Verdicts;

impl Chapter for Verdicts {
    fn page(&self, context: &Context) -> Page {
        let mut page = Page::default();
        page.put(Rank::Taxes, "taxes", "Taxes", taxes(context));
        page.put(Rank::Reasons, "why", "Why these verdicts", why(context));
        page.put(Rank::Figures, "figures", "All figures", all_figures(context));
        page.words.extend(WORDS);
        page
    }

    fn tables(&self, context: &Context) -> Vec<Table> {
        vec![comparisons(context), figures(context)]
    }
}

fn comparisons(context: &Context) -> Table {
    let columns = "cell,baseline,measure,metric,tax,interval_low,interval_high,at_least,at_most,detectable,verdict,reason,\
                   corrected_low,corrected_high,family,doubt";
    let mut table = Table::new("comparisons", "Comparisons", columns);
    for c in &context.summary.comparisons {
        let (low, high) = c.interval.unzip();
        let [corrected_low, corrected_high] = telling_ends(c.corrected, c.at_least, c.at_most);
        table.push([
            text(&c.cell),
            text(&c.baseline),
            text(&c.measure),
            text(&c.metric),
            number_or_none(c.tax),
            number_or_none(low),
            number_or_none(high),
            number_or_none(c.at_least),
            number_or_none(c.at_most),
            number_or_none(c.detectable),
            text(name(c.verdict)),
            text(&c.reason),
            number_or_none(corrected_low),
            number_or_none(corrected_high),
            number_or_none(c.family.map(f64::from)),
            text_or_none(c.doubt.map(doubt_name)),
        ]);
    }
    table
}

/// The ends that mean something of an interval that a verdict was read off: of a bound the other end says nothing.
pub(crate) fn telling_ends(
    corrected: Option<(f64, f64)>,
    at_least: Option<f64>,
    at_most: Option<f64>,
) -> [Option<f64>; 2] {
    let (low, high) = corrected.unzip();
    [low.filter(|_| at_most.is_none()), high.filter(|_| at_least.is_none())]
}

/// The name of a doubt in files, as `summary.json` has it.
pub(crate) fn doubt_name(doubt: Doubt) -> &'static str {
    match doubt {
        Doubt::TooFew => "too-few",
        Doubt::TooWide => "too-wide",
        Doubt::ManyComparisons => "many-comparisons",
        Doubt::GeneratorLimited => "generator-limited",
        Doubt::NoSteadyState => "no-steady-state",
        Doubt::Overloaded => "overloaded",
        Doubt::Disturbed => "disturbed",
        Doubt::Drifted => "drifted",
        Doubt::BelowDetectable => "below-detectable",
        Doubt::NotAtLimit => "not-at-limit",
        Doubt::NoRatio => "no-ratio",
    }
}

fn figures(context: &Context) -> Table {
    let columns = "cell,environment,accelerator,measure,metric,unit,better,trials,typical,at_least,interval_low,interval_high,\
                   median,mean,sd,label";
    let mut table = Table::new("metrics", "Metrics", columns);
    for cell in &context.summary.cells {
        let label = context.data.cell(&cell.cell).map(|c| context.data.environment_label(c));
        for (metric, m) in &cell.metrics {
            let (low, high) = m.interval.unzip();
            table.push([
                text(&cell.cell),
                text(&cell.environment),
                text_or_none(cell.accelerator.as_deref()),
                text(&cell.measure),
                text(metric),
                text(&m.unit),
                text(if m.better == Better::Higher { "higher" } else { "lower" }),
                number(m.n),
                number(m.center),
                yes_no(m.at_least),
                number_or_none(low),
                number_or_none(high),
                number(m.median),
                number(m.mean),
                number_or_none(m.sd),
                text_or_none(label.as_deref()),
            ]);
        }
    }
    table
}

/// The forest plot of the primary metrics.
fn taxes(context: &Context) -> Markup {
    let primary: Vec<&Row> = context.rows().iter().filter(|r| r.primary && r.comparison.is_some()).collect();
    if primary.is_empty() {
        return Markup::new();
    }
    pictures(&primary, context.data.plan.margin.0)
}

/// The picture of these rows; of many those that the headline is about, and the others on demand.
fn pictures(primary: &[&Row], margin: f64) -> Markup {
    let draw = |rows: &[&Row]| plot::responsive(|width| forest::forest(rows, margin, width));
    let caption = format!(
        "What each environment costs over the baseline. The shaded zone, 1 ± {}, counts as equal.",
        crate::format::tick(margin, "1")
    );
    if primary.len() <= 2 * MOST_ROWS {
        return figure(&caption, &[], &draw(primary));
    }
    let (first, rest) = first_and_rest(primary);
    let mut m = figure(&caption, &[], &draw(&first));
    // Where all are of one metric, the headline is about all.
    if !rest.is_empty() {
        m.open("details", &[])
            .element("summary", &[], "The other metrics")
            .add(&draw(&rest))
            .close("details");
    }
    m
}

/// Every metric of every cell, sortable.
fn all_figures(context: &Context) -> Markup {
    let mut m = Markup::new();
    m.open("details", &[]).element("summary", &[], "Every metric of every environment");
    let mut table = open_table(
        "sortable",
        &[
            ("Cell", false),
            ("Measure", false),
            ("Metric", false),
            ("Trials", true),
            ("Typical", true),
            ("95 % interval", true),
            ("Mean", true),
            ("SD", true),
            ("Tax", true),
            ("Verdict", false),
        ],
    );
    for cell in &context.summary.cells {
        for info in metrics() {
            let Some(v) = cell.metrics.get(info.name) else { continue };
            let comparison = context
                .summary
                .comparisons
                .iter()
                .find(|c| c.cell == cell.cell && c.measure == cell.measure && c.metric == info.name);
            table.open("tr", &[]);
            table.element("th", &[("scope", "row")], &cell.cell);
            table.element("td", &[], &cell.measure).element("td", &[], info.label);
            // What is missing has no number to be sorted by.
            let mut number = |value: Option<f64>, text: &str| {
                let key = value.map_or_else(String::new, |value| value.to_string());
                table.element("td", &[("class", "n"), ("data-v", &key)], text);
            };
            number(Some(v.n.into()), &v.n.to_string());
            number(Some(v.center), &typical(v.center, &v.unit, v.at_least));
            let interval = v.interval.map_or_else(String::new, |i| range(v.center, i, &v.unit));
            number(v.interval.map(|i| i.0), &interval);
            number(Some(v.mean), &typical(v.mean, &v.unit, v.at_least));
            // How far bounds scatter says nothing of what they are bounds of.
            let sd = v.sd.filter(|_| !v.at_least);
            number(sd, &sd.map_or_else(String::new, |sd| relative(sd, v.mean)));
            let t = comparison.and_then(|c| c.tax);
            number(t, &t.map_or_else(String::new, tax));
            table.element("td", &[], comparison.map_or("", |c| word(c.verdict))).close("tr");
        }
    }
    close_table(&mut table);
    m.add(&scrolling(&table)).close("details");
    if context.rows().is_empty() { Markup::new() } else { m }
}

/// A standard deviation as a share of its mean.
fn relative(sd: f64, mean: f64) -> String {
    if mean > 0.0 { format!("{} %", digits(sd / mean * 100.0)) } else { digits(sd) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A picture of no row had an axis and nothing on it.
    #[test]
    fn many_rows_of_one_metric_have_one_picture() {
        let dir = tempfile::tempdir().unwrap();
        let options = vtax_fixture::Options {
            repetitions: 4,
            seconds: 1,
            rate: 100,
            ..vtax_fixture::Options::default()
        };
        let run = vtax_fixture::create(&dir.path().join("run"), &options).unwrap();
        let context = crate::Report::read(&run).unwrap().context;
        let of = |metric: &str| -> Vec<&Row> {
            let compared = |r: &&Row| r.primary && r.comparison.is_some() && r.metric == metric;
            let own: Vec<&Row> = context.rows().iter().filter(compared).collect();
            own.repeat(2 * MOST_ROWS)
        };
        let one = pictures(&of("capacity"), 0.05).into_string();
        assert!(one.contains("<svg") && !one.contains("<details>"));
        let two = pictures(&[of("capacity"), of("latency_p50")].concat(), 0.05).into_string();
        assert!(two.contains("The other metrics"));
    }

    #[test]
    fn of_a_bound_one_end_means_something() {
        let both = Some((1.2, 3.0));
        assert_eq!(telling_ends(both, None, None), [Some(1.2), Some(3.0)]);
        assert_eq!(telling_ends(both, Some(1.3), None), [Some(1.2), None]);
        assert_eq!(telling_ends(both, None, Some(2.8)), [None, Some(3.0)]);
        assert_eq!(telling_ends(None, Some(1.3), None), [None, None]);
    }

    #[test]
    fn doubts_have_the_names_of_the_summary() {
        let all = [
            Doubt::TooFew,
            Doubt::TooWide,
            Doubt::ManyComparisons,
            Doubt::GeneratorLimited,
            Doubt::NoSteadyState,
            Doubt::Overloaded,
            Doubt::Disturbed,
            Doubt::Drifted,
            Doubt::BelowDetectable,
            Doubt::NotAtLimit,
            Doubt::NoRatio,
        ];
        for doubt in all {
            assert_eq!(serde_json::to_value(doubt).unwrap(), doubt_name(doubt));
        }
    }
}
