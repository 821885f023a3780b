//! Studies reproduced: from made-up runs to every form of the report.

use std::collections::BTreeMap;
use std::path::Path;

use vtax_fixture::sip::{Options, create};
use vtax_report::Report;
use vtax_report::study::{StudyReport, StudyRun, experiment, host, is_metric, products};
use vtax_study::{Loaded, Mode, Reproduction, Word, names, open, reproduce};

const MADE: u64 = 1_764_000_000_000;

/// A study whose experiment `capacity` is a made-up benchmark with those capacities natively and in a virtual machine.
fn reproduced(directory: &Path, loaded: &Loaded, capacities: [f64; 2]) -> (Reproduction, Vec<StudyRun>) {
    let options = Options { repetitions: 3, step: 10, steps: 14, capacities, ..Options::default() };
    let run = create(&directory.join("capacity"), &options).unwrap();
    let report = Report::read(&run).unwrap();
    let runs = vec![StudyRun {
        experiment: "capacity".to_owned(),
        as_published: false,
        directory: "capacity".to_owned(),
        notes: report.summary().notes.clone(),
        products: products(&report),
    }];
    let proper = BTreeMap::from([("capacity".to_owned(), experiment(&report))]);
    let found = reproduce(&loaded.study, Mode::Quick, &proper, &BTreeMap::new(), vec![host(&report)]);
    (found, runs)
}

fn report<'a>(loaded: &'a Loaded, found: &'a Reproduction, runs: &'a [StudyRun]) -> StudyReport<'a> {
    StudyReport { study: &loaded.study, found, runs, made_unix_ms: MADE, vtax: "0.0.0" }
}

#[test]
fn every_metric_of_a_claim_is_one_of_the_reports() {
    for name in names() {
        let loaded = open(name).unwrap();
        for plan in &loaded.study.experiments {
            for mode in [Mode::Quick, Mode::Full] {
                let text = loaded.plan(plan.plan(mode)).unwrap();
                let parsed = vtax_plan::parse(plan.plan(mode), text.as_bytes(), &[] as &[&str]).unwrap();
                let wrong = vtax_study::misfits(&loaded.study, &plan.id, mode, &parsed, &is_metric);
                assert!(wrong.is_empty(), "{name}, {}: {wrong:#?}", plan.id);
            }
        }
    }
    assert!(!is_metric("no-such-metric"));
}

#[test]
fn a_made_up_benchmark_tells_what_a_machine_costs() {
    let directory = tempfile::tempdir().unwrap();
    let loaded = open("virtualized-ims").unwrap();
    let (found, _) = reproduced(directory.path(), &loaded, [139.0, 80.0]);
    let word = |id: &str| found.claims.iter().find(|claim| claim.id == id).unwrap().properly.word;
    assert_eq!(word("machine-costs"), Word::Held);
    // The made-up run has no protected machine, and experiment `delays` wasn't run.
    assert_eq!(word("order-of-capacities"), Word::CantRun);
    assert_eq!(word("delay-knee"), Word::CantRun);
}

#[test]
fn figures_are_those_of_the_summary() {
    let directory = tempfile::tempdir().unwrap();
    let run = create(&directory.path().join("run"), &Options { step: 10, ..Options::default() }).unwrap();
    let report = Report::read(&run).unwrap();
    let read = experiment(&report);
    let mut compared = 0;
    for summed in &report.summary().cells {
        let cell = read.cells.iter().find(|cell| cell.id == summed.cell).unwrap();
        for (metric, found) in &summed.metrics {
            let figure = &cell.figures[&(summed.measure.clone(), metric.clone())];
            assert_eq!((&figure.values, figure.at_least), (&found.values, found.at_least), "{metric}");
            assert_eq!((figure.rounds.len(), &figure.unit), (figure.values.len(), &found.unit), "{metric}");
            // Ratios are of the middles of brackets, and only a `doc` is the lower end of one.
            assert_eq!(figure.for_ratios.len(), figure.values.len(), "{metric}");
            let middles = figure.for_ratios.iter().zip(&figure.values).any(|(middle, value)| middle > value);
            assert_eq!(middles, metric == "doc", "{metric}");
            compared += 1;
        }
    }
    assert!(compared >= 2);
}

#[test]
fn every_form_has_every_claim() {
    let directory = tempfile::tempdir().unwrap();
    let loaded = open("virtualized-ims").unwrap();
    let (found, runs) = reproduced(directory.path(), &loaded, [139.0, 80.0]);
    let report = report(&loaded, &found, &runs);
    let written = report.write(directory.path()).unwrap();
    let files: Vec<String> =
        written.iter().map(|path| path.file_name().unwrap().to_string_lossy().into_owned()).collect();
    assert_eq!(files, ["report.html", "report.md", "claims.json", "CITATION.cff"]);
    let page = std::fs::read_to_string(&written[0]).unwrap();
    let json: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(&written[2]).unwrap()).unwrap();
    for claim in &loaded.study.claims {
        assert!(page.contains(&format!(">{}</p>", claim.id)), "{}", claim.id);
        let has = json["claims"].as_array().unwrap().iter().any(|c| c["claim"] == claim.id.as_str());
        assert!(has, "{}", claim.id);
    }
    for id in ["claims", "defects", "deviations", "runs", "items"] {
        assert!(page.contains(&format!("<section id=\"{id}\">")), "{id}");
    }
    assert!(page.contains("href=\"capacity/report.html\""));
    assert!(!page.contains("http://") && !page.contains("https://"), "nothing is fetched");
    let citation = std::fs::read_to_string(&written[3]).unwrap();
    let read: serde_json::Value = serde_saphyr::from_str(&citation).unwrap();
    assert_eq!(read["cff-version"], "1.2.0");
    assert_eq!(read["references"][0]["title"], loaded.study.source.title.as_str());
    let terminal = report.table();
    assert!(terminal.lines().all(|line| line.chars().count() <= 100), "{terminal}");
}

/// The form of the Markdown, pinned without its figures, whose last digits may depend on the machine's mathematics.
#[test]
fn the_form_is_as_before() {
    let directory = tempfile::tempdir().unwrap();
    let loaded = open("virtualized-ims").unwrap();
    let (found, runs) = reproduced(directory.path(), &loaded, [139.0, 80.0]);
    let markdown = report(&loaded, &found, &runs).markdown();
    let form: String = markdown
        .lines()
        .map(|line| match line.starts_with("| ") {
            // Of a table's line all but the column of our figures.
            true => {
                let cells: Vec<&str> = line.split(" | ").collect();
                let kept = cells.iter().enumerate().filter(|(at, _)| *at != 4).map(|(_, cell)| *cell);
                kept.collect::<Vec<&str>>().join(" | ") + "\n"
            }
            false => format!("{line}\n"),
        })
        .collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/study.txt");
    if std::env::var_os("VTAX_BLESS").is_some() {
        std::fs::write(&path, &form).unwrap();
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(form == before, "run this test with VTAX_BLESS=1 if that is meant\n{form}");
}

/// Notes and texts from elsewhere are text wherever they are shown.
#[test]
fn hostile_texts_stay_texts() {
    let directory = tempfile::tempdir().unwrap();
    let mut loaded = open("virtualized-ims").unwrap();
    loaded.study.claims[0].text = "<script>alert(1)</script> | a\nb".to_owned();
    loaded.study.source.title = "a\"b: {c".to_owned();
    let (found, mut runs) = reproduced(directory.path(), &loaded, [139.0, 80.0]);
    runs[0].notes.push("</ul><img src=x>".to_owned());
    let report = report(&loaded, &found, &runs);
    let page = report.html();
    assert!(!page.contains("<script") && !page.contains("<img"), "{page}");
    let markdown = report.markdown();
    assert!(!markdown.contains("<script"));
    assert!(markdown.lines().any(|line| line.contains("&lt;script&gt;") && line.contains("\\|")));
    let read: serde_json::Value = serde_saphyr::from_str(&report.citation()).unwrap();
    assert_eq!(read["references"][0]["title"], "a\"b: {c");
}
