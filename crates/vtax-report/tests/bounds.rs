//! A search that ended at the highest rate asked for knows a lower bound, and every form of the report says so.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use vtax_fixture::{Options, create};
use vtax_report::write_all;
use vtax_store::RunDir;
use vtax_store::record::{Finding, JournalEntry};

use crate::support::part_of_workbook;

/// The report of a run whose baseline's searches ended at the highest rate asked for.
fn bounded(dir: &Path) -> RunDir {
    let options = Options { repetitions: 3, seconds: 1, rate: 100, ..Options::default() };
    let run = create(&dir.join("run"), &options).unwrap();
    let path = run.path().join("journal.jsonl");
    let mut lines = String::new();
    for line in fs::read_to_string(&path).unwrap().lines() {
        let mut entry: JournalEntry = serde_json::from_str(line).unwrap();
        if let JournalEntry::TrialEnded(record) = &mut entry
            && record.cell.starts_with("native")
            && let Some(Finding::Capacity(found)) = record.finding_mut()
        {
            (found.lower.0, found.upper) = (8000.0, None);
        }
        lines.push_str(&(serde_json::to_string(&entry).unwrap() + "\n"));
    }
    fs::write(&path, lines).unwrap();
    write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    run
}

/// The other end of the interval is a number that says nothing; the workbook and reports of several hosts left it out, this file didn't.
#[test]
fn of_a_bound_a_file_has_the_end_that_means_something() {
    let dir = tempfile::tempdir().unwrap();
    let run = bounded(dir.path());
    let mut reader = csv::Reader::from_path(run.path().join("csv/comparisons.csv")).unwrap();
    let rows: Vec<BTreeMap<String, String>> = reader.deserialize().map(Result::unwrap).collect();
    let bounds: Vec<_> = rows.iter().filter(|row| !row["at_least"].is_empty()).collect();
    assert!(bounds.iter().any(|row| !row["corrected_low"].is_empty()), "{rows:?}");
    for row in bounds {
        assert!(row["corrected_high"].is_empty() && row["tax"].is_empty(), "{row:?}");
    }
    let mut exact = rows.iter().filter(|row| !row["tax"].is_empty() && !row["corrected_low"].is_empty());
    assert!(exact.all(|row| !row["corrected_high"].is_empty()), "{rows:?}");
}

#[test]
fn bounds_are_told_as_such_in_every_form() {
    let dir = tempfile::tempdir().unwrap();
    let run = bounded(dir.path());
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let section = |id: &str| {
        let section =
            page.split(&format!("<section id=\"{id}\"")).nth(1).unwrap_or_else(|| panic!("no {id}"));
        section.split("</section>").next().unwrap().to_owned()
    };
    let (why, figures) = (section("why"), section("figures"));
    for told in [">≥ 8000 req/s<", "native, trial 1 of 3: ≥ 8000 req/s", "A ≥ is a lower bound"] {
        assert!(why.contains(told), "no {told}");
    }
    assert!(!why.contains(">8000 req/s<") && !why.contains(": 8000 req/s"));
    // The typical value and the mean.
    assert_eq!(figures.matches(">≥ 8000 req/s<").count(), 2);
    assert!(!figures.contains(">8000 req/s<"));
    let styles = part_of_workbook(&run, "xl/styles.xml");
    assert!(styles.contains("formatCode=\"&quot;≥ &quot;General\""), "{styles}");
    // The bounds are numbers in that style, no others are: one environment has them.
    let sheet = part_of_workbook(&run, "xl/worksheets/sheet1.xml");
    let style = |cell: &str| cell.split("s=\"").nth(1).and_then(|s| s.split('"').next()).map(str::to_owned);
    let values: Vec<&str> = sheet.split("<c r=\"E").skip(2).filter(|cell| cell.contains("<v>")).collect();
    let bound = values.iter().find(|cell| cell.contains("<v>8000</v>")).and_then(|cell| style(cell));
    assert!(bound.is_some() && values.len() > 2, "{values:?}");
    assert_eq!(values.iter().filter(|cell| style(cell) == bound).count(), 1, "{values:?}");
}
