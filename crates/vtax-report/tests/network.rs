//! Made-up network tests over paths, from the store to every form of the report.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use vtax_fixture::network::{Options, create};
use vtax_report::{Report, write_all};
use vtax_store::RunDir;
use vtax_store::summary::{Comparison, Doubt, Verdict};

fn make(dir: &Path, options: &Options) -> (RunDir, Report, String) {
    let run = create(&dir.join("run"), options).unwrap();
    let report = write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    (run, report, page)
}

fn stacks() -> Options {
    Options {
        congestion: ["cubic", "reno"].map(str::to_owned).into(),
        paths: ["gigabit", "bridged"].map(str::to_owned).into(),
        ..Options::default()
    }
}

/// The part of the page under a heading, up to the next heading.
fn part<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page.find(&format!("<h3 id=\"{id}\"")).unwrap_or_else(|| panic!("no {id}"));
    let rest = &page[start + 4..];
    &rest[..rest.find("<h3").unwrap_or(rest.len())]
}

/// Where the study's tables and figures stand: docs/links.md has the list.
const PLACES: [&str; 17] = [
    "links-table-ii",
    "links-table-iii",
    "links-table-iv",
    "links-table-v",
    "links-table-vi",
    "links-figure-5",
    "links-taxes",
    "links-transfers",
    "links-not-repeated",
    "links-udp",
    "links-voice",
    "links-latency",
    "links-validation",
    "links-sockets",
    "links-proofs",
    "links-paths",
    "links-trust",
];

const FILES: [&str; 8] = ["study", "transfers", "udp", "voice", "latency", "counts", "sockets", "paths"];

#[test]
fn everything_has_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options::default());
    crate::support::balanced(&page);
    for id in PLACES {
        assert_eq!(page.matches(&format!(" id=\"{id}\"")).count(), 1, "{id}");
    }
    for outside in ["http://", "https://", "@import", "url(", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    for file in FILES {
        let csv = fs::read_to_string(run.path().join(format!("csv/links_{file}.csv"))).unwrap();
        let columns = csv.lines().next().unwrap().split(',').count();
        assert!(csv.lines().count() > 1 && columns > 4, "{file}");
    }
    assert!(fs::metadata(run.path().join("report.xlsx")).unwrap().len() > 20_000);
}

#[test]
fn the_studys_figures_stand_beside_ours() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options::default());
    let ii = part(&page, "links-table-ii");
    for printed in [">772.6<small> (16.85)<", ">2793<small> (9)<", "Juniper", "D Link", "native over gigabit"]
    {
        assert!(ii.contains(printed), "{printed}: {ii}");
    }
    let iii = part(&page, "links-table-iii");
    for text in [">10980<small> (218.2)<", "WinXP 2GB", "vm-1g (TCG) over vm-vm", "vm-2g (TCG) over vm-vm"] {
        assert!(iii.contains(text), "{text}");
    }
    assert!(part(&page, "links-table-iv").contains("native over sdn<"));
    assert!(!part(&page, "links-table-iv").contains("sdn-packet"), "the study's controller sets up flows");
    assert!(part(&page, "links-table-vi").contains(">7250.3<"));
    for row in ["Windows XP", "Cisco (3560)", "ESXi"] {
        assert!(part(&page, "links-not-repeated").contains(row), "{row}");
    }
    // Amounts are of 30 s, whatever was measured, and both forms say the same.
    let csv = fs::read_to_string(run.path().join("csv/links_study.csv")).unwrap();
    let ours = csv.lines().find(|l| l.starts_with("network,II,here,native over gigabit,")).unwrap();
    let mean: f64 = ours.split(',').nth(6).unwrap().parse().unwrap();
    assert!(ii.contains(&format!(">{mean:.0}<")), "{ours}");
    assert!(page.contains("of 2 s, and its amount is scaled to the study&#39;s 30 s"));
}

#[test]
fn voice_is_told_for_each_way_and_judged_by_how_it_sounds() {
    let dir = tempfile::tempdir().unwrap();
    // Of fewer trials that agree to the digit there is no interval.
    let (run, report, page) = make(dir.path(), &Options { repetitions: 6, ..Options::default() });
    let table = part(&page, "links-voice");
    assert!(table.contains("to the SUT") && table.contains("from the SUT"), "{table}");
    assert!(table.contains(">4.41<") && table.contains("estimate after ITU-T G.107"), "{table}");
    let csv = fs::read_to_string(run.path().join("csv/links_voice.csv")).unwrap();
    let columns: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    let lost = columns.iter().position(|name| *name == "lost").unwrap();
    for row in csv.lines().skip(1) {
        let fields: Vec<&str> = row.split(',').collect();
        assert_eq!(fields.len(), columns.len(), "{row}");
        // Only one of the paths loses packets.
        assert_eq!(fields[lost] != "0", row.starts_with("native.sdn-packet."), "{row}");
    }
    // Where no packet is lost it sounds the same in every trial.
    let mos = |cell: &str| {
        let found = &report.summary().comparisons;
        found.iter().find(|c| c.metric == "voice_mos" && c.cell == cell).map(|c| c.verdict)
    };
    assert_eq!(mos("native.direct.peer"), Some(Verdict::Equivalent));
    assert_eq!(mos("native.sdn-packet.peer"), Some(Verdict::Worse));
    let judged = |metric: &str| report.summary().comparisons.iter().filter(|c| c.metric == metric).count();
    assert_eq!((judged("voice_mos"), judged("voice_jitter"), judged("voice_loss")), (10, 10, 0));
}

#[test]
fn paths_without_offloads_are_named_and_trials_say_what_they_found() {
    let dir = tempfile::tempdir().unwrap();
    let (_, _, page) = make(dir.path(), &Options::default());
    let told = "Without segmentation offloads, unlike the rest: native over sdn;";
    assert!(page.contains(told));
    assert_eq!(part(&page, "links-paths").matches("no\u{a0}offloads").count(), 1);
    let trials = page.split("<section id=\"trials\"").nth(1).unwrap();
    assert!(trials.contains(" Mbit/s, ") && trials.contains(" % lost"), "{trials}");
    assert!(!trials.contains(" 0 ns"), "{trials}");
    // A run whose every path is alike has nothing to say.
    let alike = Options { paths: ["gigabit", "bridge"].map(str::to_owned).into(), ..Options::default() };
    let (_, _, page) = make(&dir.path().join("alike"), &alike);
    assert!(!page.contains("Without segmentation offloads"));
}

#[test]
fn every_path_has_its_tax() {
    let dir = tempfile::tempdir().unwrap();
    let (_, report, page) = make(dir.path(), &Options::default());
    let summary = report.summary();
    let taxes: Vec<_> = summary.comparisons.iter().filter(|c| c.metric == "tcp_goodput").collect();
    assert_eq!(taxes.len(), 10 * 7, "ten paths and seven windows");
    assert!(taxes.iter().all(|c| c.tax.is_some() && c.interval.is_some()));
    assert!(taxes.iter().all(|c| c.measure.starts_with("network/tcp.window-")));
    let direct = taxes.iter().find(|c| c.cell == "native.direct.peer" && c.measure.ends_with("64K")).unwrap();
    assert!(direct.tax.unwrap() < 0.2, "{direct:?}");
    assert!(
        summary.headline.starts_with("Against native over gigabit, with a window of 64K"),
        "{}",
        summary.headline
    );
    assert_eq!(part(&page, "links-taxes").matches("class=\"badge").count(), 70);
    for line in part(&page, "links-taxes").split("<tr").filter(|l| l.contains(">vm-")) {
        assert!(line.contains("TCG"), "{line}");
    }
    for metric in ["rtt_p50", "udp_jitter", "rr_rate", "cpu_per_byte"] {
        assert!(summary.comparisons.iter().any(|c| c.metric == metric), "{metric}");
    }
    for line in report.table().lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn a_terminal_shows_one_line_for_each_link() {
    let dir = tempfile::tempdir().unwrap();
    let studied = ["4K", "8K", "16K", "64K"];
    let windows = [4 << 10, 8 << 10, 16 << 10, 64 << 10].map(Some).into();
    let (_, report, _) = make(dir.path(), &Options { windows, ..Options::default() });
    let table = report.table();
    assert!(table.lines().all(|l| l.chars().count() <= 100), "{table}");
    let head = table.lines().find(|l| l.trim_start().starts_with("4K")).unwrap();
    assert!(studied.iter().all(|w| head.contains(w)) && head.contains("ping"), "{table}");
    let native: Vec<&str> = table.lines().filter(|l| l.starts_with("  native over gigabit ")).collect();
    assert!(table.contains("tax of 64K") && table.contains("baseline"), "{table}");
    // One line, or two where the verdict has no room beside the tests.
    assert!((1..=2).contains(&native.len()), "{table}");
    assert!(table.lines().count() < 40, "{table}");
    // Many tests are in pieces below each other, with every one in them.
    let (_, report, _) = make(&dir.path().join("more"), &stacks());
    let table = report.table();
    assert!(table.lines().all(|l| l.chars().count() <= 100), "{table}");
    assert!(table.contains("cubic 4K") && table.contains("reno 64K") && table.contains(" rr"), "{table}");
}

#[test]
fn stacks_are_figure_6() {
    let dir = tempfile::tempdir().unwrap();
    let (_, _, page) = make(dir.path(), &stacks());
    crate::support::balanced(&page);
    let figure = part(&page, "links-figure-6");
    for line in ["native over gigabit, congestion cubic", "vm-1g (TCG) over bridged, congestion reno"] {
        assert!(figure.contains(line), "{line}");
    }
    // The picture of all paths has one congestion control, and says so.
    let figure = part(&page, "links-figure-5");
    assert!(figure.contains("Figure 5: transfers by scenario and window: congestion cubic"), "{figure}");
    assert!(figure.contains("Only transfers with congestion cubic; all are in"), "{figure}");
    // Scenarios that the plan leaves out are rows that say so.
    assert!(part(&page, "links-not-repeated").contains("Name the path in the plan: mininet"));
    assert!(!page.contains("id=\"links-table-iii\""));
}

#[test]
fn the_first_table_is_about_what_the_headline_says() {
    let dir = tempfile::tempdir().unwrap();
    let (_, report, page) = make(dir.path(), &Options::default());
    let top = page.split_once("<h1>").expect("a headline").1;
    let first = top.split_once("<details>").expect("other metrics").0;
    assert!(first.contains("with a window of 64K, in TCP goodput"), "{first}");
    assert!(first.contains("network/tcp.window-64K") && !first.contains("network/tcp.window-4K"), "{first}");
    let all = report.summary().comparisons.iter().filter(|c| c.metric == "tcp_goodput").count();
    assert!(first.contains(&format!("Of all {all} comparisons in 7 tests: ")), "{first}");
    // Of several congestion controls it is the plan's first.
    let dir = tempfile::tempdir().unwrap();
    let (_, report, _) = make(dir.path(), &stacks());
    assert!(
        report.summary().headline.contains("in the test tcp.window-64K.congestion-cubic, in"),
        "{}",
        report.summary().headline
    );
}

#[test]
fn tests_without_a_figure_in_trials_that_count_are_named_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let (_, report, page) = make(dir.path(), &Options { repetitions: 2, ..Options::default() });
    let why = "Without a figure in trials that count, once: tcp.window-4K: ";
    assert!(report.summary().notes.iter().any(|note| note.starts_with(why)), "{:?}", report.summary().notes);
    assert!(page.contains(why));
}

#[test]
fn counts_that_disagree_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options { repetitions: 2, ..Options::default() });
    let validation = part(&page, "links-validation");
    assert!(validation.contains("packet capture") && validation.contains("0.010 %"));
    let csv = fs::read_to_string(run.path().join("csv/links_transfers.csv")).unwrap();
    let refused: Vec<&str> = csv.lines().filter(|l| l.contains("counts disagree")).collect();
    assert_eq!(refused.len(), 1);
    assert!(refused[0].contains(",no,"), "{}", refused[0]);
    // Proofs of emulated wires, and what the kernel gave where 4 KiB were asked for.
    assert!(part(&page, "links-proofs").contains("941.8 Mbit/s<small> (0.03 % off)"));
    assert!(part(&page, "links-sockets").contains(">8.00 KiB<"));
}

#[test]
fn the_same_run_gives_the_same_page() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options { repetitions: 2, ..stacks() });
    write_all(&run).unwrap();
    assert!(page == fs::read_to_string(run.path().join("report.html")).unwrap());
}

#[test]
fn hostile_facts_stay_text() {
    let dir = tempfile::tempdir().unwrap();
    let (run, ..) = make(dir.path(), &Options { repetitions: 1, ..Options::default() });
    let replaced = [
        ("\"Linux bridge\"", "\"<img src=x>\""),
        ("\"941778842\"", "\"1e999 </script>=1+1\""),
        ("\"congestion\":\"cubic\"", "\"congestion\":\"<b>\""),
    ];
    crate::support::stays_text(&run, &replaced);
}

#[test]
fn one_trial_and_one_path_are_enough() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { repetitions: 1, paths: vec!["bridge".to_owned()], ..Options::default() };
    let (_, _, page) = make(dir.path(), &options);
    crate::support::balanced(&page);
    assert!(page.contains("id=\"links-transfers\"") && !page.contains("id=\"links-table-ii\""));
}

#[test]
fn a_study_is_shown_where_the_plan_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options { repetitions: 2, ..Options::default() });
    assert!(page.contains(">The study<"));
    let plan = run.path().join("plan.yaml");
    let text = fs::read_to_string(&plan).unwrap();
    fs::write(&plan, text.replace("study: virtual-links\n", "")).unwrap();
    let report = write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    crate::support::balanced(&page);
    assert!(!page.to_lowercase().contains("study"), "no study was named");
    assert!(page.contains("id=\"links-figure-5\"") && report.table().contains("tax of 64K"));
    // Its megabyte is its own.
    let transfers = part(&page, "links-transfers");
    assert!(transfers.contains(" GiB") && !transfers.contains(" MB"), "{transfers}");
    assert!(page.contains(">MiB in 30 s<") && !page.contains("MB is 1,048,576"));
    let headline = &report.summary().headline;
    let begin = "No verdict on TCP goodput in tcp.window-64K: 2 trials each, 3 are needed. Seen against native over \
                 gigabit: 10 others";
    assert!(headline.starts_with(begin), "{headline}");
    let rows = fs::read_to_string(run.path().join("csv/links_study.csv")).unwrap();
    assert_eq!(rows.lines().count(), 1);
}

/// A test is lost with its trial, or alone; either way the reason is told.
#[test]
fn what_kept_a_test_away_is_its_doubt() {
    let dir = tempfile::tempdir().unwrap();
    let run = create(&dir.path().join("run"), &Options::default()).unwrap();
    let before = Report::read(&run).unwrap();
    let told = |c: &&Comparison| c.metric == "tcp_goodput" && c.verdict != Verdict::Inconclusive;
    let whole = before.summary().comparisons.iter().find(told).unwrap();
    let (_, test) = whole.measure.split_once('/').unwrap();
    let path = run.path().join("journal.jsonl");
    let journal = fs::read_to_string(&path).unwrap();
    let after = |bend: &dyn Fn(&mut Value)| {
        let lines = journal.lines().map(|line| {
            let mut entry: Value = serde_json::from_str(line).unwrap();
            if entry["event"] == "trial-ended" && entry["cell"] == *whole.cell {
                bend(&mut entry);
            }
            entry.to_string() + "\n"
        });
        fs::write(&path, lines.collect::<String>()).unwrap();
        let report = Report::read(&RunDir::open(run.path()).unwrap()).unwrap();
        let same = |c: &&Comparison| {
            (&c.cell, &c.measure, &c.metric) == (&whole.cell, &whole.measure, &whole.metric)
        };
        report.summary().comparisons.iter().find(same).unwrap().doubt
    };
    let lost = |reason: &str| json!({"validity": "invalid", "reason": reason, "detail": "made up"});
    let trial = after(&|entry| entry["validity"] = lost("disturbed"));
    assert_eq!(trial, Some(Doubt::Disturbed));
    let alone = after(&|entry| {
        for observation in entry["observations"].as_array_mut().unwrap() {
            if observation["name"] == test {
                observation["validity"] = lost("no-steady-state");
            }
        }
    });
    assert_eq!(alone, Some(Doubt::NoSteadyState));
}
