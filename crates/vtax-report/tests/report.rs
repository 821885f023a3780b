//! Made-up runs, from the store to every form of the report.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use vtax_fixture::{Options, create};
use vtax_report::{Report, write_all};
use vtax_store::record::{TrialRecord, Validity};
use vtax_store::summary::{MetricSummary, Summary, Verdict};
use vtax_store::{RunDir, RunWriter, StoreError};

fn small() -> Options {
    Options { repetitions: 4, seconds: 3, rate: 400, ..Options::default() }
}

fn make(dir: &Path, options: &Options) -> RunDir {
    create(&dir.join("run"), options).unwrap()
}

/// Goes on with a run. What other tests start has its lock too until it is another program.
fn resume(run: &RunDir) -> RunWriter {
    let begun = Instant::now();
    loop {
        match RunDir::resume(run.path()) {
            Err(StoreError::Locked { .. }) if begun.elapsed() < Duration::from_secs(30) => {
                std::thread::sleep(Duration::from_millis(20));
            }
            resumed => return resumed.unwrap(),
        }
    }
}

#[test]
fn every_form_is_written_and_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    let report = write_all(&run).unwrap();
    for file in ["summary.json", "report.html", "report.xlsx", "csv/comparisons.csv", "csv/trials.csv"] {
        assert!(fs::metadata(run.path().join(file)).unwrap().len() > 100, "{file}");
    }
    let stored: Summary = run.summary().unwrap();
    assert_eq!(serde_json::from_str::<Summary>(&report.json()).unwrap(), stored);
    assert_eq!(stored.headline, report.summary().headline);
    assert_eq!(stored.comparisons.len(), report.summary().comparisons.len());
    assert!(stored.complete);
    assert_eq!(stored.trials.len(), 36);
    assert!(stored.trials.iter().any(|t| !t.valid));

    let find = |cell: &str, metric: &str| {
        let cell = format!("{cell}.bridge.http");
        let mut found = stored.comparisons.iter().filter(|c| c.cell == cell && c.metric == metric);
        found.next().unwrap().clone()
    };
    let vm = find("vm", "capacity");
    assert_eq!(vm.verdict, Verdict::Worse);
    let (low, high) = vm.interval.unwrap();
    assert!(low < vm.tax.unwrap() && vm.tax.unwrap() < high);
    assert!((15.0..20.0).contains(&vm.tax.unwrap()), "{vm:?}");
    // The tax is taken within rounds, so it needn't be the ratio of typical values, but it must be near.
    let center = |cell: &str| {
        let cells = stored.cells.iter().find(|c| c.environment == cell && c.measure == "capacity");
        cells.unwrap().metrics["capacity"].center
    };
    assert!((center("native") / center("vm") / vm.tax.unwrap() - 1.0).abs() < 0.03);
    assert!(vm.rounds.is_some() && vm.family.is_some_and(|n| n > 1) && !vm.explanation.is_empty());
    let (low, high) = vm.corrected.unwrap();
    assert!(low < vm.interval.unwrap().0 && high > vm.interval.unwrap().1);
    let csv = fs::read_to_string(run.path().join("csv/comparisons.csv")).unwrap();
    assert_eq!(csv.lines().count(), stored.comparisons.len() + 1);
}

#[test]
fn the_same_run_gives_the_same_report() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    let first = write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let second = write_all(&run).unwrap();
    assert_eq!(first.summary(), second.summary());
    assert_eq!(page, fs::read_to_string(run.path().join("report.html")).unwrap());
}

#[test]
fn emulation_is_named_beside_every_vm() {
    let dir = tempfile::tempdir().unwrap();
    let report = write_all(&make(dir.path(), &small())).unwrap();
    assert!(report.summary().headline.contains("TCG, software emulation"), "{}", report.summary().headline);
    for line in report.table().lines().filter(|l| l.starts_with("  vm")) {
        assert!(line.contains("TCG"), "{line}");
    }
}

#[test]
fn the_terminal_table_fits() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { targets: vec!["100".to_owned(), "1MB".to_owned()], ..small() };
    let table = write_all(&make(dir.path(), &options)).unwrap().table();
    for line in table.lines() {
        assert!(line.chars().count() <= 100, "{}: {line}", line.chars().count());
    }
    assert!(table.contains("target 1MB"));
}

#[test]
fn hostile_names_stay_text() {
    let dir = tempfile::tempdir().unwrap();
    let evil = "</script><img src=x onerror=alert(1)>\"'&\u{1b}[31m";
    let options =
        Options { service: evil.to_owned(), targets: vec!["=1+1".to_owned(), evil.to_owned()], ..small() };
    let run = make(dir.path(), &options);
    let report = write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(!page.contains("<img") && !page.contains('\u{1b}'));
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(page.contains("&lt;img src=x"));
    assert!(!report.table().contains('\u{1b}'));
}

/// Nothing on the page may point outside it.
#[test]
fn the_page_stands_alone_and_is_well_formed() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    for outside in ["http://", "https://", "@import", "url(", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    for id in
        ["taxes", "latency", "capacity", "cpu", "time", "probes", "trials", "figures", "repeat", "words"]
    {
        assert!(page.contains(&format!("<section id=\"{id}\"")), "{id}");
        assert!(page.contains(&format!("href=\"#{id}\"")), "{id}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert_eq!(page.matches("<svg").count(), page.matches("<desc>").count());
    let shown = page.split("<script>").next().unwrap();
    let code = shown.find('`').map(|at| &shown[at.saturating_sub(200)..at + 100]);
    assert_eq!(code, None, "what a terminal shows so is code here");
    crate::support::balanced(&page);
}

/// Whoever goes from heading to heading misses none, and what a keyboard can reach says what it is.
#[test]
fn headings_skip_no_level_and_what_scrolls_has_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let shown = page.split("<script>").next().unwrap();
    let level = |rest: &str| {
        let (number, end) = rest.split_at_checked(1)?;
        end.starts_with([' ', '>']).then(|| number.parse::<u32>().ok())?
    };
    let levels: Vec<u32> = shown.split("<h").skip(1).filter_map(level).collect();
    assert!(levels.first() == Some(&1) && levels.contains(&3), "{levels:?}");
    assert!(levels.windows(2).all(|w| w[1] <= w[0] + 1), "{levels:?}");
    let scrolled: Vec<&str> = shown.split("<div class=\"scroll").skip(1).collect();
    assert!(scrolled.len() > 3, "{}", scrolled.len());
    for part in scrolled {
        let tag = part.split('>').next().unwrap();
        assert!(tag.contains("role=\"region\" aria-label=\"Table: "), "{tag}");
    }
    assert!(!shown.contains("role=\"status\""), "tips are no news");
}

#[test]
fn a_damaged_trial_costs_only_its_own_pictures() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    let trial = run.trial(3);
    fs::write(trial.path().join("samples.parquet"), "PAR1 no").unwrap();
    fs::write(trial.path().join("intervals.jsonl"), "{}\n").unwrap();
    fs::remove_dir_all(run.trial(4).path()).unwrap();
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("samples.parquet: damaged") && page.contains("intervals.jsonl: damaged"));
    assert!(page.contains("<section id=\"latency\""));
}

#[test]
fn an_empty_run_has_a_report() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &Options { repetitions: 0, ..small() });
    let report = write_all(&run).unwrap();
    assert_eq!(report.summary().headline, "Nothing was measured yet.");
}

#[test]
fn two_trials_are_not_enough_for_a_verdict() {
    let dir = tempfile::tempdir().unwrap();
    let report = Report::read(&make(dir.path(), &Options { repetitions: 2, ..small() })).unwrap();
    for c in &report.summary().comparisons {
        // What every trial tells is pooled over measures, so there are more than two of those.
        if c.measure != "lifecycle" {
            assert_eq!(c.verdict, Verdict::Inconclusive, "{c:?}");
            assert!(c.reason.contains("too few trials"), "{}", c.reason);
        }
    }
}

/// A run of two rounds had "without figures" as its headline, above a table of taxes "each with its 95 % interval".
#[test]
fn a_page_of_two_rounds_promises_no_intervals() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &Options { repetitions: 2, ..small() });
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let top = page.split("<section id=\"verdict\">").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(
        top.contains("<h1>No verdict on capacity: ") && top.contains("<li>Seen against native: "),
        "{top}"
    );
    assert!(top.contains("too few trials for intervals") && !top.contains("its 95&nbsp;%"), "{top}");
    assert_eq!(top.matches("run it again with <code>--set repeat=3</code>").count(), 1, "{top}");
}

/// The metrics of native's trials of latency.
fn latency_of_native(summary: &Summary) -> &BTreeMap<String, MetricSummary> {
    &summary.cells.iter().find(|c| c.environment == "native" && c.measure == "latency").unwrap().metrics
}

#[test]
fn the_95th_percentile_is_each_trials_own_and_compared() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    let report = write_all(&run).unwrap();
    let trials = run.trials().unwrap();
    let counted = |t: &&TrialRecord| {
        t.measure == "latency" && t.cell.starts_with("native.") && t.validity == Validity::Valid
    };
    let loads = trials.iter().filter(counted).map(|t| t.finding().unwrap().load().unwrap());
    let mut expected: Vec<f64> = loads.map(|l| l.latency.quantile(0.95).0 as f64).collect();
    let mut found = latency_of_native(report.summary())["latency_p95"].values.clone();
    expected.sort_by(f64::total_cmp);
    found.sort_by(f64::total_cmp);
    assert!(!found.is_empty() && found == expected, "{found:?} {expected:?}");

    let mut compared = report.summary().comparisons.iter().filter(|c| c.metric == "latency_p95");
    assert!(compared.any(|c| c.cell.starts_with("vm.") && c.tax.is_some_and(|tax| tax > 1.0)));
    for file in ["metrics.csv", "comparisons.csv"] {
        let csv = fs::read_to_string(run.path().join("csv").join(file)).unwrap();
        assert!(csv.contains(",latency_p95,"), "{file}");
    }
}

/// 150 requests: fifteen lie beyond p90, seven beyond p95.
#[test]
fn too_few_requests_have_no_95th_percentile() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { rate: 150, seconds: 1, ..small() };
    let report = Report::read(&make(dir.path(), &options)).unwrap();
    let metrics = latency_of_native(report.summary());
    assert!(metrics.contains_key("latency_p90") && !metrics.contains_key("latency_p95"));
}

#[test]
fn the_page_shows_the_command_line_of_qemu_once() {
    let directory = tempfile::tempdir().unwrap();
    let run = make(directory.path(), &small());
    let facts = run.provenance().unwrap().facts;
    assert!(facts.contains_key("vm.command"), "a run has it twice: {facts:?}");
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let command = page.matches("thread=multi -cpu max").count();
    assert_eq!((command, page.matches("QEMU emulator version").count()), (1, 1));
}

/// The first table has a 99th percentile: where it is missing, every form says why.
#[test]
fn a_missing_99th_percentile_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &Options { rate: 150, seconds: 1, ..small() });
    let report = write_all(&run).unwrap();
    let notes = report.summary().notes.join(" ");
    assert!(notes.contains("latency, p99 (latency) is missing for native.bridge.http, container"), "{notes}");
    assert!(notes.contains("this percentile takes 1000"), "{notes}");
    let of_p99 = report.table().lines().filter(|l| l.contains("too few answers")).count();
    assert_eq!(of_p99, 3, "{}", report.table());
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("fewer than ten answers of a trial are beyond it"));
}

/// The rows of a CSV file, by the names of its columns.
fn rows(run: &RunDir, name: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(run.path().join("csv").join(name)).unwrap();
    reader.deserialize().map(Result::unwrap).collect()
}

/// What a verdict was read off is in files and in the workbook as well, not on the page alone.
#[test]
fn every_form_has_the_interval_a_verdict_was_read_off() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    let report = write_all(&run).unwrap();
    let found = rows(&run, "comparisons.csv");
    assert_eq!(found.len(), report.summary().comparisons.len());
    for (row, c) in found.iter().zip(&report.summary().comparisons) {
        let (low, high) = c.corrected.unzip();
        // Of a bound one end means something.
        let told = [low.filter(|_| c.at_most.is_none()), high.filter(|_| c.at_least.is_none())];
        let ends = ["corrected_low", "corrected_high"].map(|end| row[end].parse::<f64>().ok());
        assert_eq!(ends, told, "{row:?}");
        assert_eq!(row["family"].parse().ok(), c.family, "{row:?}");
        assert_eq!(row["doubt"].is_empty(), c.doubt.is_none(), "{row:?}");
    }
    let texts = crate::support::part_of_workbook(&run, "xl/sharedStrings.xml");
    for head in ["Judged by, low", "Judged by, high", "Read together", "Doubt"] {
        assert!(texts.contains(&format!(">{head}<")), "{head}");
    }
    let labels = rows(&run, "metrics.csv");
    assert!(labels.iter().any(|row| row["environment"] == "vm" && row["label"] == "vm (TCG)"));
}

#[test]
fn every_figure_names_its_trial() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    let report = write_all(&run).unwrap();
    let (by_trial, values) = (rows(&run, "trials.csv"), rows(&run, "values.csv"));
    let row = |index: u32| by_trial.iter().find(|r| r["trial"] == index.to_string()).unwrap();
    for t in run.trials().unwrap() {
        let (row, valid) = (row(t.index), t.validity == Validity::Valid);
        assert_eq!(row["valid"], if valid { "yes" } else { "no" });
        assert_eq!(row["capacity_per_s"].is_empty(), !(valid && t.measure == "capacity"), "{row:?}");
        if t.measure != "latency" || !valid {
            assert!(row["latency_p50_ns"].is_empty() || t.measure == "throughput", "{row:?}");
            continue;
        }
        let load = t.finding().unwrap().load().unwrap();
        for (metric, q) in [("latency_p50", 0.5), ("latency_p99", 0.99)] {
            // What had no answer was slower than every answer.
            let expected = load.latency.quantile(q / (1.0 - load.unanswered())).0 as f64;
            let of = |r: &&BTreeMap<String, String>| {
                r["trial"] == t.index.to_string() && r["metric"] == metric && r["measure"] == "latency"
            };
            let long = values.iter().find(of).unwrap();
            assert_eq!((&long["unit"], &long["cell"]), (&"ns".to_owned(), &t.cell));
            assert_eq!(long["value"].parse::<f64>().unwrap(), expected);
            assert_eq!(row[&format!("{metric}_ns")].parse::<f64>().unwrap(), expected);
        }
    }
    for (metric, m) in report.summary().cells.iter().flat_map(|c| &c.metrics) {
        assert_eq!(m.trials.len(), m.values.len(), "{metric}");
    }
    let p99 = &latency_of_native(report.summary())["latency_p99"];
    for (index, value) in p99.trials.iter().zip(&p99.values) {
        assert_eq!(row(*index)["latency_p99_ns"].parse::<f64>().unwrap(), *value);
    }
}

/// docs/formats.md says which values are a pair: of the lifecycle those of one round and of trials of one measure.
#[test]
fn a_tax_of_the_lifecycle_can_be_computed_from_the_tables() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    let report = write_all(&run).unwrap();
    let measures: BTreeMap<String, String> =
        rows(&run, "trials.csv").into_iter().map(|r| (r["trial"].clone(), r["measure"].clone())).collect();
    let values = rows(&run, "values.csv");
    let of = |cell: &str| -> BTreeMap<(String, String), f64> {
        let own = values.iter().filter(|r| r["cell"] == cell && r["measure"] == "lifecycle");
        let own = own.filter(|r| r["metric"] == "startup");
        own.map(|r| ((r["round"].clone(), measures[&r["trial"]].clone()), r["value"].parse().unwrap()))
            .collect()
    };
    let mut all = report.summary().comparisons.iter();
    let found = all.find(|c| c.metric == "startup" && c.cell.starts_with("container")).unwrap();
    let (ours, theirs) = (of(&found.cell), of(&found.baseline));
    let logs: Vec<f64> = ours.iter().filter_map(|(pair, v)| Some((v / theirs.get(pair)?).ln())).collect();
    // Rounds alone would give four pairs; there are three measures.
    assert_eq!(found.rounds, Some(logs.len() as u32));
    assert!(logs.len() > 4, "{logs:?}");
    let tax = (logs.iter().sum::<f64>() / logs.len() as f64).exp();
    assert!((tax / found.tax.unwrap() - 1.0).abs() < 1e-9, "{tax} {found:?}");
}

/// Of 4,800 answers five lie beyond the 99.9th percentile: chance.
#[test]
fn a_percentile_of_all_trials_has_ten_answers_beyond_it() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    let report = write_all(&run).unwrap();
    let found = &latency_of_native(report.summary())["latency_mean"].percentiles;
    let names: Vec<&str> = found.keys().map(String::as_str).collect();
    assert_eq!(names, ["100", "50", "75", "90", "95", "99"]);
    assert!(found["99"] <= found["100"]);
}

/// Going on with a run that lacks nothing is no interruption.
#[test]
fn a_run_that_was_resumed_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    resume(&run).completed().unwrap();
    let said = |run: &RunDir| {
        write_all(run).unwrap();
        let page = fs::read_to_string(run.path().join("report.html")).unwrap();
        (run.summary().unwrap().notes.concat().contains("interrupted"), page.contains("<dt>interrupted</dt>"))
    };
    assert_eq!(said(&run), (false, false));
    let mut writer = resume(&run);
    let record = run.trials().unwrap().remove(0);
    let files = writer.begin_trial(&record.cell, &record.measure, 9).unwrap();
    writer.finish_trial(files, record).unwrap();
    writer.completed().unwrap();
    assert_eq!(said(&run), (true, true));
    assert!(run.summary().unwrap().notes.concat().contains("resumed once"));
}

#[test]
fn what_a_run_foretold_is_told_until_it_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let run = make(dir.path(), &small());
    let mut writer = resume(&run);
    writer.forecast("capacity", "capacity, after 2 rounds: so").unwrap();
    writer.note(None, "something else").unwrap();
    let said = |text: &str| {
        write_all(&run).unwrap();
        run.summary().unwrap().notes.iter().any(|note| note == text)
    };
    assert!(said("capacity, after 2 rounds: so") && said("something else"));
    writer.completed().unwrap();
    assert!(!said("capacity, after 2 rounds: so") && said("something else"));
}
