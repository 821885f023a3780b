//! Failovers in sentences for people who know neither statistics nor hypervisors, and the terminal's table.

use vtax_units::{counted, shortened};

use super::failover::{End, Failover};
use super::failovers::{Environment, Ft, Series};
use super::figures::{Figure, Quantity};
use super::writes;
use crate::format::{duration, tick};
use crate::text::{first_column, wrap};

fn figure(series: &Series<'_>, name: &str) -> Option<Figure> {
    let figure = series.figure(Quantity::named(name)?);
    figure.median.is_some().then_some(figure)
}

fn median<'a>(
    failovers: impl Iterator<Item = &'a Failover>,
    of: impl Fn(&Failover) -> Option<f64>,
) -> Option<f64> {
    let values: Vec<f64> = failovers.filter_map(of).filter(|value| value.is_finite()).collect();
    vtax_stats::quantile(&values, 0.5)
}

/// What the failovers of a kind came to.
pub(crate) fn sentence(series: &Series<'_>) -> String {
    let (n, survived) = (series.count(), series.survived());
    let times = if n == 1 { "once".to_owned() } else { format!("{n} times") };
    let happened = series.failovers.first().map_or("", |f| f.happened.as_str());
    let mut said = vec![format!("{}: {happened} {times}.", series.environment.label)];
    said.extend(how_often_survived(n, survived, series.restored().count() as u64));
    said.extend(restored(series));
    said.extend(calm(series));
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
    if survived == n {
        let lost: Vec<u64> = series.failovers.iter().filter_map(|f| f.counts.failed).collect();
        said.extend(lost_requests(&lost));
    }
    said.join(" ")
}

/// How many of so many failovers were survived; `None` where what had to be restored says it.
fn how_often_survived(n: u64, survived: u64, restored: u64) -> Option<String> {
    Some(match survived {
        s if s == n && n == 1 => "The service survived.".to_owned(),
        s if s == n => "The service survived every time.".to_owned(),
        0 if restored == n => return None,
        0 if n == 1 => "The service did not survive.".to_owned(),
        0 => "The service survived none of them.".to_owned(),
        s => format!("The service survived {s} of them."),
    })
}

/// That nobody was answered before the plan restored something.
fn restored(series: &Series<'_>) -> Option<String> {
    let (_, what) = series.restored().next()?;
    let failovers = || series.restored().map(|(f, _)| f);
    let at = median(failovers(), |f| f.times.restored)? * 1e9;
    let rest = median(failovers(), Failover::after_restore_ns)?;
    let (times, typically) = match failovers().count() as u64 {
        1 if series.count() == 1 => ("It did not recover".to_owned(), ""),
        all if all == series.count() => ("It never recovered".to_owned(), "typically "),
        1 => ("Once it did not recover".to_owned(), ""),
        some => (format!("{some} times it did not recover"), "typically "),
    };
    let (at, rest) = (duration(at), duration(rest));
    Some(format!("{times} by itself: no answer until {what} after {at}; {typically}{rest} more from then."))
}

/// That nobody had to wait for an answer.
fn calm(series: &Series<'_>) -> Option<String> {
    let calm = series.calm().count() as u64;
    let asked = median(series.calm(), |f| f.spacing_ns)
        .map_or_else(String::new, |ns| format!(" (a request came every {} on average)", tick(ns, "ns")));
    match calm {
        0 => None,
        all if all == series.count() => Some(format!("No outage was seen{asked}.")),
        some => Some(format!("No outage was seen after {some} of them{asked}.")),
    }
}

/// How many requests were lost in each of several faults. Of how many is not said: the longer latency differs from what is usual, the
/// more requests are around a fault.
fn lost_requests(lost: &[u64]) -> Option<String> {
    let all = lost.iter().copied().fold(0, u64::saturating_add);
    let (least, most) = (lost.iter().min()?, lost.iter().max()?);
    let each = if least == most { format!("{least} each") } else { format!("{least} to {most} each") };
    let (requests, were) = (counted(all, "request"), if all == 1 { "was" } else { "were" });
    Some(match (all, lost.len()) {
        (0, _) => "No request was lost.".to_owned(),
        (_, 1) => format!("{requests} {were} lost."),
        (1, faults) => format!("{requests} {were} lost in {faults} faults."),
        (_, faults) => format!("{requests} {were} lost in {faults} faults ({each})."),
    })
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
    let [low, high] = [low, high].map(duration);
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
            let why = series.failovers.iter().find_map(|f| match &f.end {
                End::Lost(reason) => Some(format!("service lost: {reason}")),
                End::Restored(what) => Some(format!("not by itself: no answer until {what}")),
                End::Survived | End::Unknown => None,
            });
            if let Some(why) = why {
                let label = series.label(series.environment.series().len() > 1);
                out.push_str(&wrap(&format!("    {label}: {why}"), "    "));
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
    let value = f.median.map_or_else(String::new, duration);
    if f.unknown() { format!("~{value}") } else { value }
}

fn line(series: &Series<'_>) -> String {
    let short = |name: &str| figure(series, name).map_or_else(|| "—".to_owned(), |f| seen(&f));
    let none = if series.calm().next().is_some() { "no outage" } else { "—" };
    let answer = figure(series, "first_answer").map_or_else(
        || none.to_owned(),
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
    fn lost_requests_are_told_by_fault_and_not_by_how_long_was_counted() {
        let lost: [&[u64]; 7] = [&[], &[0, 0], &[5], &[1], &[1, 0, 0], &[4, 4, 4], &[3, 6, 3]];
        let said = lost.map(lost_requests);
        assert_eq!(
            said.each_ref().map(Option::as_deref),
            [
                None,
                Some("No request was lost."),
                Some("5 requests were lost."),
                Some("1 request was lost."),
                Some("1 request was lost in 3 faults."),
                Some("12 requests were lost in 3 faults (4 each)."),
                Some("12 requests were lost in 3 faults (3 to 6 each)."),
            ]
        );
    }

    #[test]
    fn what_had_to_be_restored_is_not_told_as_survived() {
        assert_eq!(how_often_survived(3, 0, 3), None);
        assert_eq!(how_often_survived(3, 0, 1).as_deref(), Some("The service survived none of them."));
        assert_eq!(how_often_survived(3, 2, 1).as_deref(), Some("The service survived 2 of them."));
        assert_eq!(how_often_survived(1, 1, 0).as_deref(), Some("The service survived."));
    }
}
