//! Network tests as one table for a terminal: a line for each environment over a path.

use vtax_store::summary::{Comparison, Summary, Verdict};
use vtax_units::shortened;

use super::bench::{Bench, Link, Test};
use super::headline::tests;
use crate::context::Context;
use crate::data::RunData;
use crate::families::{named, telling};
use crate::format::{digits, duration, known_tax, quantity};
use crate::rows;
use crate::text::{WIDTH, first_column, printable, wrap};
use crate::words::{sign, word};

/// Widths that the first column has: at least, and at most where the others need the room.
const LABEL: (usize, usize) = (18, 28);
/// Between columns.
const GAP: usize = 2;

/// A column: its head, and a text for each link.
struct Column {
    head: String,
    cells: Vec<String>,
    /// Texts begin below each other, rather than end.
    left: bool,
}

impl Column {
    fn width(&self) -> usize {
        self.cells.iter().chain([&self.head]).map(|t| t.chars().count()).max().unwrap_or(0)
    }
}

/// Every test of a bench, and the verdict on the most telling one; at most [`WIDTH`] columns wide.
pub(super) fn render(context: &Context, bench: &Bench<'_>) -> String {
    let (data, summary) = (&context.data, &context.summary);
    let mut columns: Vec<Column> = bench.tests.iter().map(|test| column(summary, bench, test)).collect();
    let verdicts = leading(data, summary, bench);
    if let Some((test, found)) = &verdicts {
        columns.push(taxes(bench, &test.test.short_name(), found));
    }
    let mut out = String::new();
    if !bench.label.is_empty() {
        out.push('\n');
        out.push_str(&wrap(&bench.label, ""));
    }
    out.push_str(&wrap(&legend(bench), ""));
    out.push_str(&blocks(bench, &columns));
    if let Some((_, found)) = verdicts {
        out.push_str(&doubts(&found));
    }
    out
}

/// What the columns hold.
fn legend(bench: &Bench<'_>) -> String {
    let has = |kind| bench.of_kind(kind).next().is_some();
    let kinds = [
        ("tcp", "TCP goodput in Mbit/s by test"),
        ("udp", "loss of udp"),
        ("ping", "round trip of ping"),
        ("rr", "transactions of rr per second"),
        ("voice", "estimated MOS of voice"),
    ];
    let parts: Vec<&str> = kinds.iter().filter(|(kind, _)| has(kind)).map(|(_, text)| *text).collect();
    format!("{} (medians) [{}]", parts.join(", "), bench.measure.name)
}

/// The metric that stands for a test.
fn metric(test: &Test<'_>) -> &'static str {
    match test.test.kind.name() {
        "tcp" => "tcp_goodput",
        "udp" => "udp_loss",
        "ping" => "rtt_p50",
        "voice" => "voice_mos",
        _ => "rr_rate",
    }
}

fn column(summary: &Summary, bench: &Bench<'_>, test: &Test<'_>) -> Column {
    let metric = metric(test);
    let text = |link: &Link<'_>| {
        let found = summary.cells.iter().find(|s| s.cell == link.cell.id && s.measure == test.measure);
        let Some(found) = found.and_then(|s| s.metrics.get(metric)) else { return "-".to_owned() };
        let value = match metric {
            "tcp_goodput" => digits(found.center / 1e6),
            "udp_loss" => quantity(found.center, "1"),
            "rtt_p50" => duration(found.center),
            _ => digits(found.center),
        };
        if found.at_least { format!("≥ {value}") } else { value }
    };
    Column { head: test.test.short_name(), cells: bench.links.iter().map(text).collect(), left: false }
}

/// The test whose verdicts are shown, which is the one of the headline, with them.
fn leading<'a, 'b>(
    data: &RunData,
    summary: &'b Summary,
    bench: &'a Bench<'a>,
) -> Option<(&'a Test<'a>, Vec<&'b Comparison>)> {
    let of_bench = |c: &&Comparison| {
        let of_test = bench.tests.iter().any(|t| t.measure == c.measure);
        of_test && bench.links.iter().any(|l| l.cell.id == c.cell)
    };
    let all: Vec<&Comparison> = summary.comparisons.iter().filter(of_bench).collect();
    let is_primary = |c: &&Comparison| named(&c.metric).is_some_and(|m| m.primary);
    let lead = rows::leading(all.iter().copied().filter(is_primary))?;
    let own: Vec<&Comparison> = all.iter().copied().filter(|c| c.metric == lead.metric).collect();
    let measure = telling(&lead.metric, &tests(data, &own)).unwrap_or(&lead.measure);
    let test = bench.tests.iter().find(|t| t.measure == measure)?;
    Some((test, own.into_iter().filter(|c| c.measure == measure).collect()))
}

fn taxes(bench: &Bench<'_>, test: &str, found: &[&Comparison]) -> Column {
    let tax = |c: &Comparison| known_tax(c.tax, c.at_least, c.at_most);
    // Those that are bounds have a sign before them.
    let wide = found.iter().map(|c| tax(c).chars().count()).fold(7, usize::max);
    let text = |link: &Link<'_>| match found.iter().find(|c| c.cell == link.cell.id) {
        None if link.position == 0 => "baseline".to_owned(),
        None => String::new(),
        Some(c) => format!("{:>wide$} {} {}", tax(c), sign(c.verdict), word(c.verdict)),
    };
    Column { head: format!("tax of {test}"), cells: bench.links.iter().map(text).collect(), left: true }
}

/// The table, in as many pieces side by side as fit.
fn blocks(bench: &Bench<'_>, columns: &[Column]) -> String {
    let longest = bench.links.iter().map(|l| l.label.chars().count()).max().unwrap_or(0);
    let label = label_width(longest, columns);
    let mut out = String::new();
    let mut rest = columns;
    while !rest.is_empty() {
        let mut wide = GAP + label;
        let fits = |column: &&Column| {
            wide += GAP + column.width();
            wide <= WIDTH
        };
        // A column that is too wide by itself is cut short below.
        let (piece, others) = rest.split_at(rest.iter().take_while(fits).count().max(1));
        rest = others;
        out.push_str(&line("", label, piece, |c| &c.head));
        for (place, link) in bench.links.iter().enumerate() {
            out.push_str(&line(&link.label, label, piece, |c| &c.cells[place]));
        }
    }
    out
}

/// The width of the first column: what the others leave free, or [`LABEL`] where that is more.
fn label_width(longest: usize, columns: &[Column]) -> usize {
    let others: usize = columns.iter().map(|column| GAP + column.width()).sum();
    let free = WIDTH.saturating_sub(GAP + others);
    longest.clamp(LABEL.0, free.max(LABEL.1))
}

fn line<'a>(first: &str, label: usize, piece: &'a [Column], text: impl Fn(&'a Column) -> &'a str) -> String {
    let most = WIDTH.saturating_sub(2 * GAP + label).max(1);
    let mut line = String::new();
    for column in piece {
        let wide = column.width().min(most);
        let text = shortened(text(column), wide);
        line.push_str(&match column.left {
            true => format!("  {text:<wide$}"),
            false => format!("  {text:>wide$}"),
        });
    }
    let line = first_column("  ", first, label) + &printable(&line);
    format!("{}\n", line.trim_end())
}

/// Why what can't be told can't, each reason once.
fn doubts(found: &[&Comparison]) -> String {
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for c in found.iter().filter(|c| c.verdict == Verdict::Inconclusive) {
        match reasons.iter_mut().find(|(reason, _)| *reason == c.reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((&c.reason, 1)),
        }
    }
    let sign = sign(Verdict::Inconclusive);
    let line = |(reason, count): &(&str, usize)| match count {
        1 => wrap(&format!("  {sign} {reason}"), "    "),
        n => wrap(&format!("  {sign} {n} times: {reason}"), "    "),
    };
    reasons.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use vtax_fixture::network::{Options, create};

    use super::super::bench;
    use super::*;
    use crate::Report;

    /// A value that is at least this had no sign, and a tax that is a bound was a blank beside its verdict.
    #[test]
    fn bounds_have_their_sign() {
        let dir = tempfile::tempdir().unwrap();
        let run = create(&dir.path().join("run"), &Options { repetitions: 3, ..Options::default() }).unwrap();
        let mut context = Report::read(&run).unwrap().context;
        for c in &mut context.summary.comparisons {
            let (tax, better) = (c.tax.take(), c.verdict == Verdict::Better);
            (c.at_least, c.at_most) = if better { (None, tax) } else { (tax, None) };
        }
        let mut rates = Vec::new();
        for metrics in context.summary.cells.iter_mut().map(|cell| &mut cell.metrics) {
            if let Some(rate) = metrics.get_mut("rr_rate") {
                rate.at_least = true;
                rates.push(format!("≥ {}", digits(rate.center)));
            }
        }
        let links = bench::of(&context.data);
        let text = render(&context, &links.benches[0]);
        assert!(rates.len() > 1 && rates.iter().all(|rate| text.contains(rate)), "{text}");
        let lines = |word: &str| text.lines().filter(|l| l.ends_with(word)).collect::<Vec<_>>();
        for (word, sign) in [(" worse", "≥ "), (" better", "≤ ")] {
            let lines = lines(word);
            assert!(!lines.is_empty() && lines.iter().all(|line| line.contains(sign)), "{text}");
            // Verdicts stand below each other all the same.
            let place = |line: &&str| line.find(['▲', '▼']).map(|at| line[..at].chars().count());
            assert!(lines.iter().all(|line| place(line) == place(&lines[0])), "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
    }

    #[test]
    fn environments_that_begin_alike_are_told_apart() {
        let column = |texts: [&str; 2]| Column {
            head: "rr".to_owned(),
            cells: texts.map(str::to_owned).to_vec(),
            left: false,
        };
        let name = "native (path in TCG) over customers 8";
        let few = [column(["15827", "1822"])];
        assert_eq!(label_width(name.len(), &few), name.len());
        assert_eq!(line(name, name.len(), &few, |c| &c.cells[1]), format!("  {name}   1822\n"));
        // Where others need the room, a long name stands above its figures.
        let many: Vec<Column> = (0..12).map(|_| column(["15827", "1822"])).collect();
        let width = label_width(name.len(), &many);
        assert_eq!(width, LABEL.1);
        let text = line(name, width, &many[..1], |c| &c.cells[1]);
        assert_eq!(text, format!("  {name}\n  {:28}   1822\n", ""));
    }
}
