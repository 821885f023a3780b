//! Desktops on the page: what their users felt, what it took, and what was on them.

use vtax_load::desktop::Kind;
use vtax_store::record::Validity;

use super::found::{Compared, Found};
use super::trial::{figures, median_of};
use crate::context::Context;
use crate::format::quantity;
use crate::html::parts::{details, figure, titled, wide};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::metric::Value;
use crate::plot::scale::Scale;
use crate::plot::xy::{Axis, Series, Stroke, xy};
use crate::plot::{responsive, series};

/// Longest picture that is shown, in characters of base64. A generator's own has 640 pixels in a row at most.
const LONGEST_PICTURE: usize = 4 << 20;
/// Most pictures on a page.
const MOST_PICTURES: usize = 12;

/// What users felt and what it took, by environment and measure.
pub(super) fn users(all: &[Compared<'_>]) -> Markup {
    let columns = [
        ("Environment", false),
        ("Load", false),
        ("Users", true),
        ("p50", true),
        ("p95", true),
        ("p99", true),
        ("Merged", true),
        ("CPU per session", true),
        ("Updates", true),
        ("Pixels", true),
        ("Bytes per pixel", true),
        ("First picture", true),
    ];
    let mut m = Markup::new();
    for compared in all {
        let mut table = PlainTable::new("", &columns);
        for found in &compared.found {
            let value = |metric: &str, unit: &str| {
                found.value(metric).map(|value| quantity(value, unit)).unwrap_or_default()
            };
            let cells = [
                found.measure.to_owned(),
                found.users.to_string(),
                found.percentile_words(0.5),
                found.percentile_words(0.95),
                found.percentile_words(0.99),
                value("desktop_merged", "1"),
                value("desktop_cpu_per_session", "1"),
                value("desktop_updates", "/s"),
                value("desktop_pixels", "px/s"),
                value("desktop_bytes_per_pixel", "B"),
                value("desktop_opening", "ns"),
            ];
            table.push(&found.label, cells);
        }
        let caption =
            titled("From the intended time of an input to its answer on the decoded screen", &compared.label);
        m.element("p", &[], &caption).add(&wide(&table.finish(), columns.len()));
        m.add(&details("By kind of action: medians", &by_kind(&compared.found)));
    }
    if !m.is_empty() {
        let note = "Percentiles are of all trials together, other figures medians over trials. What had no answer counts as slower than \
                    every answer; of which kind it was isn't known, so each kind has its share. CPU per session is the share of one CPU \
                    that the whole side under test spent for each user. The first picture is the longest wait of a user for it, from \
                    when that user was to connect. Without `stay` all connect at once at the start. With it one connects after the other, \
                    as the users before leave, and the waits are of those who were due in the recorded time.";
        m.element("p", &[("class", "small-print")], note);
    }
    m
}

fn by_kind(found: &[Found<'_>]) -> Markup {
    let mut columns = vec![("Environment", false), ("Load", false)];
    columns.extend(Kind::ALL.map(|kind| (kind.word(), true)));
    let mut table = PlainTable::new("", &columns);
    for found in found {
        let medians = Kind::ALL.map(|kind| found.time(median_of(kind)));
        table.push(&found.label, [found.measure.to_owned()].into_iter().chain(medians));
    }
    table.finish()
}

/// Latency against users, where loads of several numbers of users were offered.
pub(super) fn over_users(all: &[Compared<'_>]) -> Markup {
    let mut m = Markup::new();
    for compared in all {
        // Users of a closed loop act as fast as they are answered: that is another load for each.
        let open: Vec<&Found<'_>> =
            compared.found.iter().filter(|found| found.value("offered").is_some()).collect();
        let mut positions: Vec<usize> = open.iter().map(|found| found.position).collect();
        positions.sort_unstable();
        positions.dedup();
        let (mut drawn, mut keys, mut has_bound) = (Vec::new(), Vec::new(), false);
        for position in positions {
            let own: Vec<&Found<'_>> = open.iter().copied().filter(|f| f.position == position).collect();
            let lines = [(0.5, "median"), (0.95, "p95")];
            let before = drawn.len();
            for (line, bound) in lines.into_iter().filter_map(|(quantile, name)| line(&own, quantile, name)) {
                drawn.push(line);
                has_bound |= bound;
            }
            if let Some(first) = own.first().filter(|_| drawn.len() > before) {
                keys.push((series(position), first.label.clone()));
            }
        }
        if !drawn.is_empty() {
            m.add(&picture(&titled("Latency against users", &compared.label), &keys, &drawn));
        }
        if has_bound {
            let note = "Where so many actions had no answer that a percentile lies among them, its point is at the time for which an \
                        answer was waited: it is that or more.";
            m.element("p", &[("class", "small-print")], note);
        }
    }
    m
}

/// A percentile in milliseconds by users, and whether one of them is a bound; `None` where that is a single point.
fn line(own: &[&Found<'_>], quantile: f64, name: &str) -> Option<(Series, bool)> {
    let first = own.first()?;
    let of = |found: &&Found<'_>| Some((f64::from(found.users), found.percentile(quantile)?));
    let mut found: Vec<(f64, Value)> = own.iter().filter_map(of).collect();
    found.sort_by(|a, b| a.0.total_cmp(&b.0));
    found.dedup_by_key(|point| point.0);
    if found.len() < 2 {
        return None;
    }
    let line = Series {
        class: format!("{} curve", series(first.position)),
        label: format!("{}, {name}", first.label),
        stroke: Stroke::Marked(first.position),
        points: found.iter().map(|(users, value)| (*users, value.value / 1e6)).collect(),
    };
    Some((line, found.iter().any(|(_, value)| value.censored)))
}

fn picture(caption: &str, keys: &[(&'static str, String)], drawn: &[Series]) -> Markup {
    let points = || drawn.iter().flat_map(|line| &line.points);
    let mut ticks: Vec<f64> = points().map(|point| point.0).collect();
    ticks.sort_by(f64::total_cmp);
    ticks.dedup();
    let scale = Scale::from_zero(ticks.last().copied().unwrap_or(1.0));
    let x = Axis { name: "users", unit: "", scale, ticks: &ticks };
    let most = points().map(|point| point.1).fold(0.0, f64::max);
    let y = Axis {
        name: "latency: median, and above it p95",
        unit: "ms",
        scale: Scale::from_zero(most),
        ticks: &[],
    };
    let description = format!("{caption}: two lines for each environment");
    figure("", keys, &responsive(|width| xy(caption, &description, (width, 300.0), x, y, drawn)))
}

/// What was on the first desktop of each environment at the end of a trial.
pub(super) fn screens(context: &Context) -> Markup {
    let data = &context.data;
    let mut m = Markup::new();
    let found = data.plan.cells.iter().filter_map(|cell| {
        let mut own = data.trials.iter().filter(|t| t.cell == cell.id && t.validity == Validity::Valid);
        own.find_map(|t| Some((cell, t, figures(t)?.picture.as_deref().filter(|text| is_base64(text))?)))
    });
    for (cell, trial, picture) in found.take(MOST_PICTURES) {
        let label = data.environment_label(cell);
        let caption = format!("{label} ({}), trial {:03}, as the generator decoded it", cell.id, trial.index);
        m.open("figure", &[]).element("figcaption", &[], &caption);
        let source = format!("data:image/png;base64,{picture}");
        let words = format!("The first desktop of {label}");
        m.empty("img", &[("class", "desktop"), ("src", &source), ("alt", &words)]).close("figure");
    }
    m
}

/// Whether a text is base64 of a length that a page can hold: a run's files come from anywhere.
fn is_base64(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    !text.is_empty() && text.len() <= LONGEST_PICTURE && text.bytes().all(known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_base64_or_none() {
        assert!(is_base64("iVBORw0KGgo="));
        assert!(!is_base64("") && !is_base64("a\"onload") && !is_base64("a b"));
        assert!(!is_base64(&"a".repeat(LONGEST_PICTURE + 1)));
    }
}
