//! Kept runs of journal version 2: they can be opened, reported in every format and compared, for good.

use std::fs;
use std::path::{Path, PathBuf};

use vtax_report::compare::{Options, compare};
use vtax_report::{Format, Report};
use vtax_store::RunDir;
use vtax_store::summary::{MetricSummary, Summary};

const RUNS: [&str; 3] = ["web", "network", "sip"];

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../vtax-store/tests/journal2").join(name)
}

fn read(name: &str) -> (RunDir, Report) {
    let run = RunDir::open(kept(name)).unwrap();
    let report = Report::read(&run).unwrap();
    (run, report)
}

/// Equal but for the last digits: another order of additions is no change.
fn same(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

fn same_metric(old: &MetricSummary, new: &MetricSummary) -> bool {
    let values = old.values.iter().zip(&new.values).all(|(a, b)| same(*a, *b));
    // These runs have too few answers for the last ones, which were told nevertheless.
    let gone = ["99.9", "99.99"];
    let percentiles = old.percentiles.iter().all(|(name, before)| match new.percentiles.get(name) {
        Some(now) => same(*before, *now),
        None => gone.contains(&name.as_str()),
    });
    let exact = (old.n, &old.unit, old.better, old.values.len(), old.at_least)
        == (new.n, &new.unit, new.better, new.values.len(), new.at_least);
    exact && values && percentiles && same(old.center, new.center)
}

/// Every figure of the old summary is in the new one; the new one may have more.
fn same_figures(old: &Summary, new: &Summary) {
    assert_eq!((old.complete, &old.plan, old.trials.len()), (new.complete, &new.plan, new.trials.len()));
    for (a, b) in old.trials.iter().zip(&new.trials) {
        assert_eq!((a.index, &a.cell, &a.measure, a.valid), (b.index, &b.cell, &b.measure, b.valid));
    }
    for cell in &old.cells {
        let of = |c: &&vtax_store::summary::CellSummary| (&c.cell, &c.measure) == (&cell.cell, &cell.measure);
        let found = new.cells.iter().find(of).unwrap_or_else(|| panic!("{} {}", cell.cell, cell.measure));
        for (name, metric) in &cell.metrics {
            // Those answered only after the plan restored the network: they count as not survived now, with a time of their own.
            if ["survived", "first_answer"].contains(&name.as_str())
                && found.metrics.contains_key("after_restore")
            {
                continue;
            }
            let Some(again) = found.metrics.get(name) else { panic!("{} {name}: gone", cell.cell) };
            assert!(same_metric(metric, again), "{} {name}: {metric:?} became {again:?}", cell.cell);
        }
    }
    for row in &old.comparisons {
        let found = new.comparisons.iter().find(|c| {
            (&c.cell, &c.baseline, &c.measure, &c.metric)
                == (&row.cell, &row.baseline, &row.measure, &row.metric)
        });
        let Some(found) = found else { panic!("{} {}: gone", row.cell, row.metric) };
        let taxes = (row.tax, found.tax);
        assert!(matches!(taxes, (None, None)) || taxes.0.zip(taxes.1).is_some_and(|(a, b)| same(a, b)));
    }
}

#[test]
fn figures_are_those_of_the_vtax_that_made_them() {
    for name in RUNS {
        let (run, report) = read(name);
        let old = run.summary().unwrap();
        assert!(old.cells.len() >= 2 && !old.comparisons.is_empty(), "{name}");
        same_figures(&old, report.summary());
    }
}

#[test]
fn every_format_is_written() {
    for name in RUNS {
        let (_, report) = read(name);
        let out = tempfile::tempdir().unwrap();
        for format in Format::ALL {
            let written = report.write(format, out.path()).unwrap();
            assert!(!written.is_empty(), "{name} {format:?}");
            for path in written {
                assert!(fs::metadata(&path).unwrap().len() > 20, "{}", path.display());
            }
        }
        let page = fs::read_to_string(out.path().join("report.html")).unwrap();
        let word = match name {
            "web" => "throughput",
            "network" => "tcp.window-64K",
            _ => "design objective capacity",
        };
        assert!(page.contains(word), "{name}: {word} is not in its page");
        assert!(report.table().contains("native"), "{name}");
    }
}

#[test]
fn a_run_can_be_compared_with_itself() {
    for name in ["web", "network"] {
        let (_, report) = read(name);
        let options = Options { metrics: vec!["all".to_owned()], ..Options::default() };
        let compared = compare(&report, &report, &options).unwrap();
        assert!(!compared.rows.is_empty() && compared.only.is_empty(), "{name}");
        for text in [compared.table(), compared.json(), compared.junit(), compared.markdown()] {
            assert!(text.len() > 100, "{name}: {text}");
        }
    }
}
