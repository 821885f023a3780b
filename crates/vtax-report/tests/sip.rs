//! Made-up IMS benchmarks, from the store to every form of the report.

use std::fs;
use std::path::Path;

use vtax_fixture::sip::{Options, create};
use vtax_report::{Report, write_all};
use vtax_store::RunDir;

fn small() -> Options {
    Options { repetitions: 2, step: 10, steps: 5, load: (60.0, 25.0), ..Options::default() }
}

fn make(dir: &Path, options: &Options) -> (RunDir, Report, String) {
    let run = create(&dir.join("run"), options).unwrap();
    let report = write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    (run, report, page)
}

/// Everything that the reference report has, by its place on the page: docs/ims.md has the list.
const PLACES: [&str; 38] = [
    "ims-doc",
    "ims-systems",
    "ims-steps-0",
    "ims-steps-1",
    "ims-saps",
    "ims-sut-cpu",
    "ims-sut-memory",
    "ims-sut-memory-used",
    "ims-generator-cpu",
    "ims-generator-memory",
    "ims-ihs",
    "ims-ihs-calling",
    "ims-ihs-registration",
    "ims-retransmissions",
    "ims-retransmissions-calling",
    "ims-retransmissions-registration",
    "ims-ses1-calling",
    "ims-ses2",
    "ims-ses2-calling",
    "ims-ses3-re-invite",
    "ims-rel1",
    "ims-rel1-calling",
    "ims-pmm1-messaging",
    "ims-pmm2-message-unregistered",
    "ims-reg1",
    "ims-reg1-registration",
    "ims-reg1-de-registration",
    "ims-reg2",
    "ims-reg2-registration",
    "ims-reg4-re-registration",
    "ims-causes",
    "ims-stray",
    "ims-generator",
    "ims-parameters",
    "ims-commands",
    "ims-calls",
    "ims-messages",
    "ims-registrations",
];

#[test]
fn everything_has_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options { every_scenario: true, ..small() });
    crate::support::balanced(&page);
    for id in PLACES {
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    for outside in ["http://", "https://", "@import", "url(", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("<desc>").count());
    for file in ["steps", "scenarios", "measurements", "causes", "stray", "parameters"] {
        let csv = fs::read_to_string(run.path().join(format!("csv/ims_{file}.csv"))).unwrap();
        assert!(csv.lines().count() > 1, "{file}");
        assert!(!csv.contains("abcdefgh"), "the subscribers' password");
    }
    assert!(page.contains("(not shown)") && !page.contains("abcdefgh"), "the subscribers' password");
    assert!(fs::metadata(run.path().join("report.xlsx")).unwrap().len() > 20_000);
}

#[test]
fn the_summary_says_what_the_study_says() {
    let dir = tempfile::tempdir().unwrap();
    let (_, report, page) = make(dir.path(), &small());
    assert!(report.summary().headline.contains("design objective capacity"), "{}", report.summary().headline);
    let start = page.find("<section id=\"ims\"").unwrap();
    let section = &page[start..start + page[start..].find("</section>").unwrap()];
    // The study's figures stand beside its own experiment.
    assert!(section.contains(">139<") && section.contains(">100<") && section.contains(">1.39x<"));
    for class in ["n passed", "n failed", "n prepared"] {
        assert!(section.contains(&format!("class=\"{class}\"")), "{class}");
    }
    for row in ["Requested load", "Effective load", "Ratio calling", "CPU SUT", "IHS calling", "global IHS"] {
        assert!(section.contains(row), "{row}");
    }
    for name in ["ims_uac", "ims_msgc", "ims_rereg", "ims_reg", "ims_dereg"] {
        assert!(section.contains(name), "{name}");
    }
    for line in section.split('<').filter(|l| l.contains(">vm")) {
        assert!(line.contains("TCG"), "{line}");
    }
    for old in ["RingTime", "HoldTime", "StirTime", "StepTransientTime", "TotalProvisionedSubscribers"] {
        assert!(page.contains(old), "{old}");
    }
}

#[test]
fn other_mixes_are_not_the_study() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { repetitions: 1, every_scenario: true, ..small() };
    assert!(!make(dir.path(), &options).2.contains("Study, SAPS"));
}

/// Percentiles of the reference report fell, and means stood beside percentiles of nothing.
#[test]
fn every_row_of_every_measurement_is_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (run, ..) = make(dir.path(), &small());
    let csv = fs::read_to_string(run.path().join("csv/ims_measurements.csv")).unwrap();
    let head: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let column = |name: &str| head.iter().position(|h| *h == name).unwrap();
    let order: Vec<usize> = ["min", "p50", "p90", "p95", "p99", "p99.9", "max"].map(column).into();
    let mut seen = 0;
    for line in csv.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let value = |i: usize| cells[i].parse::<f64>().unwrap();
        assert!(order.windows(2).all(|w| value(w[0]) <= value(w[1])), "{line}");
        assert!((value(order[0])..=value(order[6])).contains(&value(column("mean"))), "{line}");
        let variance = value(column("variance"));
        assert!((value(column("sd")).powi(2) - variance).abs() <= 1e-9 * variance.max(1.0), "{line}");
        if cells[column("unit")] == "ms" {
            assert!(value(order[0]) > 0.0, "a response takes time: {line}");
        }
        seen += 1;
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn the_same_run_gives_the_same_page() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options { repetitions: 1, ..small() });
    write_all(&run).unwrap();
    assert!(page == fs::read_to_string(run.path().join("report.html")).unwrap());
}

#[test]
fn hostile_causes_stay_text() {
    let dir = tempfile::tempdir().unwrap();
    let (run, ..) = make(dir.path(), &Options { repetitions: 1, ..small() });
    let replaced = [("\"timeout\"", "\"<img src=x>\""), ("\"malformed\"", "\"</script>=1+1\"")];
    crate::support::stays_text(&run, &replaced);
}

#[test]
fn a_damaged_trial_keeps_its_table() {
    let dir = tempfile::tempdir().unwrap();
    let (run, ..) = make(dir.path(), &Options { repetitions: 1, ..small() });
    let cut = run.trial(0).path().join("phases.jsonl");
    let text = fs::read_to_string(&cut).unwrap();
    fs::write(&cut, &text[..text.len() / 3]).unwrap();
    fs::remove_dir_all(run.trial(1).path()).unwrap();
    write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("phases.jsonl: damaged"));
    assert!(page.contains("global IHS") && page.contains("id=\"ims-steps-1\""));
    crate::support::balanced(&page);
}

#[test]
fn nothing_kept_to_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { repetitions: 1, capacities: [20.0, 20.0], ..small() };
    let (_, report, page) = make(dir.path(), &options);
    assert!(
        page.contains("no step kept to the limits") || page.contains("beyond its preparation"),
        "{}",
        report.table()
    );
    crate::support::balanced(&page);
}
