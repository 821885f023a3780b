//! Failovers in sentences for people who know neither statistics nor hypervisors, and the terminal's table.

use vtax_units::shortened;

use super::failover::{Counts, End};
use super::failovers::{Environment, Ft, Series};
use super::figures::{Figure, QUANTITIES, Quantity};
use super::writes;
use crate::text::{first_column, wrap};

fn quantity(name: &str) -> Option<&'static Quantity> {
    QUANTITIES.iter().find(|q| q.name == name)
}

fn figure(series: &Series<'_>, name: &str) -> Option<Figure> {
    let figure = series.figure(quantity(name)?);
    figure.median.is_some().then_some(figure)
}

fn total(series: &Series<'_>, of: impl Fn(&Counts) -> Option<u64>) -> Option<u64> {
    series.failovers.iter().filter_map(|f| of(&f.counts)).reduce(u64::saturating_add)
}

/// What the failovers of a kind came to.
pub(crate) fn sentence(series: &Series<'_>) -> String {
    let (n, survived) = (series.count(), series.survived());
    let times = if n == 1 { "once".to_owned() } else { format!("{n} times") };
    let happened = series.failovers.first().map_or("", |f| f.happened.as_str());
    let mut said = vec![format!("{}: {happened} {times}.", series.environment.label)];
    said.push(match survived {
        s if s == n && n == 1 => "The service survived.".to_owned(),
        s if s == n => "The service survived every time.".to_owned(),
        0 if n == 1 => "The service did not survive.".to_owned(),
        0 => "The service survived none of them.".to_owned(),
        s => format!("The service survived {s} of them."),
    });
    said.extend(figure(series, "first_answer").map(|f| waited(&f, "for the first answer")));
    said.extend(figure(series, "silence").map(|f| waited(&f, "between two answers")));
    said.extend(figure(series, "rebuild").map(|f| rebuilt(&f)));
    if let Some(c) = series.connections() {
        said.push(match c.open - c.kept {
            0 if c.open == 1 => "The one connection that was open was kept.".to_owned(),
            0 => format!("All {} connections that were open were kept.", c.open),
            lost => format!("{lost} of {} open connections were lost.", c.open),
        });
    }
    // Where the service never answered again, the number of lost requests only says how long was counted.
    if let Some(failed) = total(series, |c| c.failed).filter(|_| survived == n) {
        said.push(lost_around(failed, total(series, |c| c.attempted)));
    }
    said.join(" ")
}

/// How many requests around the faults were lost, of how many where that is known.
fn lost_around(lost: u64, of: Option<u64>) -> String {
    match (lost, of) {
        (0, Some(1)) => "The one request around the faults was not lost.".to_owned(),
        (0, Some(all)) => format!("None of the {all} requests around the faults was lost."),
        (0, None) => "No request around the faults was lost.".to_owned(),
        (1, Some(1)) => "The one request around the faults was lost.".to_owned(),
        (lost, Some(all)) => format!("{lost} of {all} requests around the faults were lost."),
        (lost, None) => format!("{lost} requests around the faults were lost."),
    }
}

/// How long a RAID was rebuilt.
fn rebuilt(f: &Figure) -> String {
    match f.unknown() {
        true => format!(
            "The RAID was rebuilt within {}.",
            f.detail("ns").split(" seen").next().unwrap_or_default()
        ),
        false => format!("The RAID was typically rebuilt within {}.", f.text("ns")),
    }
}

/// How long callers waited.
fn waited(f: &Figure, what: &str) -> String {
    if f.unknown() {
        let detail = f.detail("ns");
        let seen = detail.split(" seen").next().unwrap_or_default();
        return format!("Callers waited {seen} {what}: too few failovers to say what is usual.");
    }
    let (low, high) = f.extremes.unwrap_or_default();
    let [low, high] = [low, high].map(crate::format::duration);
    format!("Callers typically waited {} {what}, between {low} and {high}.", f.text("ns"))
}

/// The terminal's table of failovers; empty where there were none.
pub(crate) fn terminal(ft: &Ft) -> String {
    let mut out = String::new();
    for group in &ft.groups {
        let all: Vec<Series<'_>> = group.environments.iter().flat_map(Environment::series).collect();
        if all.is_empty() {
            continue;
        }
        let label = if group.label.is_empty() { String::new() } else { format!(", {}", group.label) };
        out.push_str(&format!("\nfailovers{label}\n"));
        let mut faults: Vec<&str> = all.iter().map(|s| s.fault).collect();
        faults.sort_unstable();
        faults.dedup();
        for fault in faults {
            out.push_str(&format!(
                "  {:<28} {:>8} {:>9} {:>9} {:>24} {:>13}\n",
                shortened(fault, 28),
                "survived",
                "noticed",
                "took over",
                "first answer",
                "conns. kept"
            ));
            all.iter().filter(|s| s.fault == fault).for_each(|s| out.push_str(&line(s)));
        }
        for series in all.iter().filter(|s| s.survived() < s.count()) {
            let lost = series.failovers.iter().find_map(|f| match &f.end {
                End::Lost(reason) => Some(reason),
                End::Survived | End::Unknown => None,
            });
            if let Some(reason) = lost {
                let label = series.label(series.environment.series().len() > 1);
                out.push_str(&wrap(&format!("    {label}: service lost: {reason}"), "    "));
            }
        }
        if all.iter().any(|s| s.survived() > 0 && s.survived() < vtax_stats::MIN_TRIALS as u64) {
            out.push_str("    ~ seen in fewer than three failovers: what is usual can't be told\n");
        }
        let excluded =
            group.environments.iter().flat_map(|e| &e.failovers).filter(|f| f.excluded.is_some()).count();
        if excluded > 0 {
            out.push_str(&format!("    {excluded} more don't count; the report says why\n"));
        }
        out.push_str(&writes::terminal(group));
    }
    out
}

/// What was seen, marked where that is too little to be usual.
fn seen(f: &Figure) -> String {
    let value = f.median.map_or_else(String::new, crate::format::duration);
    if f.unknown() { format!("~{value}") } else { value }
}

fn line(series: &Series<'_>) -> String {
    let short = |name: &str| figure(series, name).map_or_else(|| "—".to_owned(), |f| seen(&f));
    let answer = figure(series, "first_answer").map_or_else(
        || "—".to_owned(),
        |f| match (f.median, f.interval) {
            (Some(center), Some(interval)) => {
                format!("{} ({})", seen(&f), crate::format::range(center, interval, "ns"))
            }
            _ => seen(&f),
        },
    );
    let kept = series.connections().map_or_else(|| "—".to_owned(), |c| format!("{} of {}", c.kept, c.open));
    let name = first_column("    ", &series.environment.label, 26);
    let survived = format!("{} of {}", series.survived(), series.count());
    let line = format!(
        "{name} {survived:>8} {:>9} {:>9} {answer:>24} {kept:>13}",
        short("detection"),
        short("takeover")
    );
    format!("{}\n", line.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_is_not_told_as_many() {
        let said = [(0, Some(1)), (1, Some(1)), (0, Some(20)), (3, Some(20)), (2, None)]
            .map(|(lost, of)| lost_around(lost, of));
        assert_eq!(
            said,
            [
                "The one request around the faults was not lost.",
                "The one request around the faults was lost.",
                "None of the 20 requests around the faults was lost.",
                "3 of 20 requests around the faults were lost.",
                "2 requests around the faults were lost."
            ]
        );
    }
}
