//! How far the comparisons of a run are, as a table that fills in place.

use vtax_report::pages::tax_range;
use vtax_stats::{Margin, Verdict, verdict_of};
use vtax_store::LiveComparison;
use vtax_units::shortened;

/// Fewest rows of comparisons, however low the terminal is.
const LEAST: usize = 3;
/// Widest column of names.
const NAMES: usize = 60;

/// The table for a terminal of so many rows and columns, of which it takes no more than half the rows; empty where there is
/// nothing to compare yet. `margin` is the plan's: a tax within 1 ± margin counts as equal.
///
/// Where there is no room for all, those that still take rounds come first, in the plan's order.
pub(super) fn table(comparisons: &[LiveComparison], margin: f64, (rows, columns): (usize, usize)) -> String {
    if comparisons.is_empty() {
        return String::new();
    }
    let room = (rows / 2).saturating_sub(3).max(LEAST);
    let mut shown: Vec<&LiveComparison> = comparisons.iter().collect();
    if shown.len() > room {
        // Stable: the plan's order stays within both.
        shown.sort_by_key(|comparison| comparison.decided);
        shown.truncate(room);
    }
    let mut cells =
        vec![["comparison", "rounds", "tax so far", "verdict so far", "still takes"].map(str::to_owned)];
    cells.extend(shown.iter().map(|comparison| row(comparison, margin)));
    let wide = |i: usize| cells.iter().map(|row| row[i].chars().count()).max().unwrap_or(0);
    let others: usize = (1..5).map(|i| wide(i) + 2).sum();
    let names = wide(0).min(NAMES).min(columns.saturating_sub(others + 1)).max(10);
    let mut lines: Vec<String> = cells.iter().map(|cells| line(cells, names, &wide, columns)).collect();
    let decided = comparisons.iter().filter(|comparison| comparison.decided).count();
    let hidden = comparisons.len() - shown.len();
    let more = if hidden > 0 { format!("; {hidden} more aren't shown") } else { String::new() };
    lines.push(shortened(
        &format!("{decided} of {} need no more rounds{more}", comparisons.len()),
        columns.saturating_sub(1),
    ));
    lines.join("\n")
}

fn line(cells: &[String; 5], names: usize, wide: &impl Fn(usize) -> usize, columns: usize) -> String {
    let mut line = format!("{:<names$}", shortened(&cells[0], names));
    for (i, cell) in cells.iter().enumerate().skip(1) {
        let width = wide(i);
        // Numbers to the right.
        line += &if i == 1 { format!("  {cell:>width$}") } else { format!("  {cell:<width$}") };
    }
    shortened(line.trim_end(), columns.saturating_sub(1))
}

fn row(comparison: &LiveComparison, margin: f64) -> [String; 5] {
    let measure = if comparison.test.is_empty() {
        comparison.measure.clone()
    } else {
        format!("{}/{}", comparison.measure, comparison.test)
    };
    let still = match (comparison.decided, comparison.further) {
        (true, _) => "no more rounds".to_owned(),
        (false, Some(1)) => "1 round".to_owned(),
        (false, Some(further)) => format!("{further} rounds"),
        (false, None) => "not in sight".to_owned(),
    };
    [
        format!("{} · {measure}", comparison.cell),
        comparison.rounds.to_string(),
        comparison.interval.map(tax_range).unwrap_or_default(),
        so_far(comparison.interval, margin).to_owned(),
        still,
    ]
}

/// What the interval says by itself, as in docs/methodology.md; the report also corrects it for comparisons that are read together.
fn so_far(interval: Option<(f64, f64)>, margin: f64) -> &'static str {
    let Some(interval) = interval else { return "too few rounds" };
    match verdict_of(interval, Margin::new(margin)) {
        Verdict::Equivalent => "equivalent",
        Verdict::Worse => "worse",
        Verdict::Better => "better",
        Verdict::Inconclusive => "can't tell yet",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison(cell: &str, interval: Option<(f64, f64)>, further: Option<u32>) -> LiveComparison {
        LiveComparison {
            cell: cell.into(),
            measure: "latency".into(),
            interval,
            rounds: 3,
            further,
            decided: further == Some(0),
            ..LiveComparison::default()
        }
    }

    #[test]
    fn each_comparison_has_its_rounds_interval_and_verdict() {
        let comparisons = [
            comparison("vm.bridge.http", Some((1.5, 1.7)), Some(0)),
            comparison("container.bridge.http", Some((0.97, 1.2)), Some(4)),
            comparison("other", None, None),
        ];
        let text = table(&comparisons, 0.05, (40, 120));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[1].starts_with("vm.bridge.http · latency "), "{text}");
        assert!(lines[1].contains("worse") && lines[1].ends_with("no more rounds"), "{text}");
        assert!(lines[2].contains("can't tell yet") && lines[2].ends_with("4 rounds"), "{text}");
        assert!(lines[3].contains("too few rounds") && lines[3].ends_with("not in sight"), "{text}");
        assert_eq!(lines[4], "1 of 3 need no more rounds");
        // Columns stand below their heads; names have letters of more than one byte.
        let column = |line: &str, word: &str| line.split_once(word).map(|(before, _)| before.chars().count());
        assert_eq!(column(lines[0], "verdict"), column(lines[1], "worse"), "{text}");
        assert_eq!(table(&[], 0.05, (40, 120)), "");
    }

    #[test]
    fn verdicts_are_those_of_the_interval_and_the_margin() {
        let so_far = |low, high| so_far(Some((low, high)), 0.05);
        assert_eq!(
            [so_far(0.96, 1.04), so_far(1.01, 1.2), so_far(0.8, 0.99), so_far(0.9, 1.1), so_far(1.01, 1.04)],
            ["equivalent", "worse", "better", "can't tell yet", "equivalent"]
        );
    }

    #[test]
    fn it_fits_terminals_of_any_size() {
        let mut comparisons: Vec<LiveComparison> =
            (0..50).map(|i| comparison(&format!("cell-{i}"), None, Some(0))).collect();
        comparisons.push(comparison(&"long".repeat(100), Some((1.0, 1e9)), Some(7)));
        for size in [(0, 0), (5, 20), (24, 80), (60, 300)] {
            let text = table(&comparisons, 0.05, size);
            assert!(text.lines().count() <= (size.0 / 2).max(LEAST + 2), "{size:?}: {text}");
            assert!(text.lines().all(|line| line.chars().count() <= size.1.max(1)), "{size:?}: {text}");
        }
        let small = table(&comparisons, 0.05, (24, 80));
        assert!(small.contains("longlong") && small.contains("42 more aren't shown"), "{small}");
    }
}
