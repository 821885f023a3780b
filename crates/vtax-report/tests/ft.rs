//! Made-up failovers, from the store to every form of the report.

use std::fs;
use std::path::Path;

use vtax_fixture::ft::{Options, create};
use vtax_report::{Report, write_all};
use vtax_store::RunDir;

fn make(dir: &Path, options: &Options) -> (RunDir, Report, String) {
    let run = create(&dir.join("run"), options).unwrap();
    let report = write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    crate::support::balanced(&page);
    (run, report, page)
}

/// The section about failovers alone.
fn section(page: &str) -> &str {
    let start = page.find("<section id=\"ft\"").unwrap();
    &page[start..start + page[start..].find("</section>").unwrap()]
}

fn csv(run: &RunDir, file: &str) -> Vec<Vec<String>> {
    let text = fs::read_to_string(run.path().join("csv").join(file)).unwrap();
    text.lines().map(|l| l.split(',').map(str::to_owned).collect()).collect()
}

fn column(rows: &[Vec<String>], name: &str) -> usize {
    rows[0].iter().position(|h| h == name).unwrap_or_else(|| panic!("{name}: {:?}", rows[0]))
}

#[test]
fn everything_has_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let (run, report, page) = make(dir.path(), &Options::default());
    for part in
        ["failovers", "around", "around-2-1", "around-3-1", "protects", "costs", "unprotected", "left-out"]
    {
        assert_eq!(page.matches(&format!(" id=\"ft-{part}\"")).count(), 1, "{part}");
    }
    for outside in ["http://", "https://", "@import", "url(", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("<desc>").count());
    for file in ["failovers", "failover_figures", "failover_courses", "ft_checkpoints", "ft_unprotected"] {
        assert!(csv(&run, &format!("{file}.csv")).len() > 1, "{file}");
    }
    let table = report.table();
    let failovers = &table[table.find("\nfailovers\n").unwrap()..];
    assert!(failovers.contains("vm-kemari (TCG)") && failovers.contains("6 of 6"), "{failovers}");
    assert!(failovers.lines().all(|l| l.chars().count() <= 100), "{failovers}");
}

/// The number was the place in a list, and no trial's.
#[test]
fn what_protection_costs_is_told_with_its_trial() {
    let dir = tempfile::tempdir().unwrap();
    let (run, ..) = make(dir.path(), &Options { repetitions: 3, ..Options::default() });
    let rows = csv(&run, "ft_checkpoints.csv");
    let (cell, quantity) = (column(&rows, "cell"), column(&rows, "quantity"));
    let (trial, value) = (column(&rows, "trial_or_all"), column(&rows, "value"));
    let records = run.trials().unwrap();
    let mut armed = 0;
    for row in rows[1..].iter().filter(|row| row[trial] != "all") {
        let record = records.iter().find(|r| r.index.to_string() == row[trial]).unwrap();
        assert_eq!(record.cell, row[cell], "{row:?}");
        let protection = record.protection.as_ref().unwrap_or_else(|| panic!("{row:?}"));
        if row[quantity] == "armed_in" {
            armed += 1;
            assert!(protection.armed_in.iter().any(|t| (t.0 as f64).to_string() == row[value]), "{row:?}");
        }
    }
    assert!(armed > 0, "{rows:?}");
}

#[test]
fn a_path_through_routers_has_its_picture_and_its_times() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options { routed: true, ..Options::default() });
    for part in ["convergence", "timeline", "hops", "topologies", "bring-up"] {
        assert_eq!(page.matches(&format!(" id=\"routed-{part}\"")).count(), 1, "{part}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("<desc>").count());
    assert!(page.contains(">pe1</text>") && page.contains("17 80") && page.contains("interface pe2: down"));
    assert!(page.contains("router pe1") && page.contains("cable p1-pe2"));
    let hops = csv(&run, "hops.csv");
    let (way, hop, least) = (column(&hops, "way"), column(&hops, "hop"), column(&hops, "least_ns"));
    // Of each trial four routers, three cables and the whole, both ways.
    assert!(hops.len() > 16 && (hops.len() - 1).is_multiple_of(16), "{}", hops.len());
    assert!(hops[1..].iter().all(|row| row[least].parse::<f64>().is_ok_and(|ns| ns > 0.0)));
    let back = hops[1..].iter().find(|row| row[way] == "down").unwrap();
    assert_eq!(back[hop], "router pe2", "the way back begins at the service");
    assert!(page.contains("native (path in TCG)"), "routers under emulation are no routers of hardware");
    let rows = csv(&run, "convergence.csv");
    let (event, loss, rate) =
        (column(&rows, "event"), column(&rows, "by_loss_ns"), column(&rows, "by_rate_ns"));
    // Of each trial two cuts and two ends of them, both ways.
    assert!(rows.len() > 8 && (rows.len() - 1).is_multiple_of(8), "{}", rows.len());
    for row in &rows[1..] {
        assert_eq!(row[loss], row[rate]);
        assert_eq!(row[loss] == "0", row[event].starts_with("restore: "), "{row:?}");
    }
    assert_eq!(csv(&run, "timeline.csv").len() - 1, (rows.len() - 1) / 8 * 12);
    for part in ["protects", "costs"] {
        assert!(
            !page.contains(&format!(" id=\"ft-{part}\"")),
            "{part}: no guest is protected, no host failed"
        );
    }
    // Names of columns are broken, so that the last ones are on the page too.
    assert!(page.contains("<table class=\"figures\">") && page.contains("FRR: "), "tables of many columns");
    let other = tempfile::tempdir().unwrap();
    assert!(!make(other.path(), &Options::default()).2.contains("routed-convergence"));
}

/// A figure of a virtual machine without its accelerator would be taken for what hardware costs.
#[test]
fn every_guest_names_its_accelerator() {
    let dir = tempfile::tempdir().unwrap();
    let (_, report, page) =
        make(dir.path(), &Options { every_mode: true, repetitions: 1, ..Options::default() });
    for text in section(&page).split('<').filter(|t| t.contains(">vm")) {
        assert!(text.contains("TCG"), "{text}");
    }
    let table = report.table();
    let failovers = &table[table.find("\nfailovers\n").unwrap()..];
    for line in failovers.lines().filter(|l| l.trim_start().starts_with("vm")) {
        assert!(line.contains("TCG"), "{line}");
    }
}

#[test]
fn sip_has_the_studys_graphs_and_figures() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options { sip: true, ..Options::default() });
    let section = section(&page);
    for graph in 4..=10 {
        assert!(section.contains(&format!("(study: graph 4-{graph})")), "4-{graph}");
    }
    for theirs in [">139<", ">100<", ">34<", "10 to 100 ms, in 0.004 to 0.006", "less than 0.02"] {
        assert!(section.contains(theirs), "{theirs}");
    }
    // Requests wait through the outage, so the course has its peak at the fault and nowhere else.
    let rows = csv(&run, "failover_courses.csv");
    let (quantity, at, median) =
        (column(&rows, "quantity"), column(&rows, "since_fault_s"), column(&rows, "median"));
    let own = rows[1..].iter().filter(|r| r[quantity] == "pmm1" && r[0].contains("kemari"));
    let course: Vec<(f64, f64)> = own.map(|r| (r[at].parse().unwrap(), r[median].parse().unwrap())).collect();
    let peak = course.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)).unwrap();
    assert!((0.0..0.25).contains(&peak.0) && peak.1 > 60.0, "{peak:?}");
    let before: Vec<f64> = course.iter().filter(|c| c.0 < -0.15).map(|c| c.1).collect();
    assert!(before.len() > 4 && before.iter().all(|v| *v < 20.0), "{before:?}");
}

#[test]
fn what_does_not_survive_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { every_mode: true, ..Options::default() };
    let (run, report, page) = make(dir.path(), &options);
    let section = section(&page);
    assert!(section.contains("The service survived none of them."));
    assert!(section.contains("vm (TCG): until the end of 3 trials nobody ran the service."));
    assert!(section.contains("Forgotten") && section.contains("1.30 s"));
    assert!(report.table().contains("service lost: its host failed while it was not protected"));
    assert!(section.contains("0 of 3") && section.contains("tag failed"));
    // A fault that ended the service has no time to the first answer.
    let rows = csv(&run, "failovers.csv");
    let (survived, answer) = (column(&rows, "survived"), column(&rows, "first_answer_ns"));
    assert!(rows[1..].iter().all(|r| (r[survived] == "yes") != r[answer].is_empty()));
}

#[test]
fn too_few_failovers_cannot_tell() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { repetitions: 1, faults: 2, ..Options::default() };
    let (run, report, page) = make(dir.path(), &options);
    assert!(section(&page).contains("can&#39;t tell") || section(&page).contains("can't tell"));
    assert!(section(&page).contains("too few failovers to say what is usual"));
    assert!(report.table().contains("~ seen in fewer than three failovers"));
    let rows = csv(&run, "failover_figures.csv");
    let (n, low, tell) = (column(&rows, "n"), column(&rows, "interval_low"), column(&rows, "can_tell"));
    for row in &rows[1..] {
        assert!(row[n].parse::<u32>().unwrap() <= 2 && row[low].is_empty() && row[tell] == "no", "{row:?}");
    }
}

#[test]
fn figures_are_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let (run, report, _) = make(dir.path(), &Options { repetitions: 4, faults: 3, ..Options::default() });
    let rows = csv(&run, "failover_figures.csv");
    let of: Vec<usize> =
        ["lowest", "interval_low", "median", "interval_high", "highest"].map(|c| column(&rows, c)).into();
    let quantity = column(&rows, "quantity");
    let mut seen = 0;
    for row in rows[1..].iter().filter(|r| !r[of[2]].is_empty()) {
        let value = |i: usize| row[of[i]].parse::<f64>().unwrap();
        assert!(
            value(1) <= value(2) && value(2) <= value(3) && value(0) <= value(2) && value(2) <= value(4),
            "{row:?}"
        );
        assert!(value(1) >= 0.0, "{row:?}");
        seen += 1;
        if row[quantity] == "first_answer" {
            assert!((190e6..280e6).contains(&value(2)), "{row:?}");
        }
    }
    assert!(seen > 15, "{seen}");
    // Scripts find the same in the summary, trial by trial.
    let cells = &report.summary().cells;
    let kemari = cells.iter().find(|c| c.environment == "vm-kemari" && c.measure == "failover").unwrap();
    assert_eq!(kemari.metrics["first_answer"].n, 4);
    assert!((kemari.metrics["survived"].center - 1.0).abs() < 1e-9);
}

#[test]
fn intervals_are_drawn_against_what_they_cost() {
    let dir = tempfile::tempdir().unwrap();
    let options =
        Options { intervals_ms: vec![25, 100, 400], failovers: false, repetitions: 3, ..Options::default() };
    let (_, report, page) = make(dir.path(), &options);
    let section = section(&page);
    assert!(section.contains(" id=\"ft-interval\"") && section.contains("checkpoint interval"));
    assert!(section.contains("remus, 400 ms") && section.contains("and 2 more of its mode"));
    assert!(!section.contains(" id=\"ft-failovers\"") && !report.table().contains("\nfailovers"));
}

#[test]
fn the_same_run_gives_the_same_page() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options { repetitions: 1, sip: true, ..Options::default() });
    write_all(&run).unwrap();
    assert!(page == fs::read_to_string(run.path().join("report.html")).unwrap());
}

/// Rewrites the journal of a small run and makes its report.
fn rewritten(change: impl Fn(&mut serde_json::Value)) -> (String, String) {
    rewritten_of(1, change)
}

/// The same of a run with so many trials of each kind.
fn rewritten_of(repetitions: u32, change: impl Fn(&mut serde_json::Value)) -> (String, String) {
    let dir = tempfile::tempdir().unwrap();
    let (_, page, table) = rewritten_in(dir.path(), &Options { repetitions, ..Options::default() }, change);
    (page, table)
}

/// The same of any made-up run, in a directory that is there.
fn rewritten_in(
    dir: &Path,
    options: &Options,
    change: impl Fn(&mut serde_json::Value),
) -> (RunDir, String, String) {
    let (run, ..) = make(dir, options);
    let journal = run.path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let lines = text.lines().map(|line| {
        let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
        change(&mut value);
        value.to_string() + "\n"
    });
    fs::write(&journal, lines.collect::<String>()).unwrap();
    let report = write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    crate::support::balanced(&page);
    (run, page, report.table())
}

fn faults(entry: &mut serde_json::Value) -> Option<&mut Vec<serde_json::Value>> {
    entry.pointer_mut("/observations/0/result/faults")?.as_array_mut()
}

/// Has each link that was cut restored after two seconds, and the first answer come a second later.
fn restored_by_the_plan(entry: &mut serde_json::Value) {
    let Some(faults) = faults(entry) else { return };
    let mut mends = Vec::new();
    for (fault, at) in faults.iter_mut().zip([8, 16]) {
        let moment = |after: u64| serde_json::json!(format!("{}s", at + after));
        fault["injected"] = moment(0);
        for first in ["first_answer", "normal_again", "until"] {
            fault["seen"][first] = moment(3);
        }
        let mut mend = fault.clone();
        mend["fault"]["kind"]["target"] = serde_json::json!({"restore-link": "p1-pe2"});
        mend["injected"] = moment(2);
        mend["seen"] = serde_json::Value::Null;
        mends.push(mend);
    }
    faults.extend(mends);
}

/// How long a service is silent that nothing but the plan brings back is the plan's choice.
#[test]
fn what_the_plan_restored_was_not_survived() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { routed: true, ..Options::default() };
    let (run, page, table) = rewritten_in(dir.path(), &options, restored_by_the_plan);
    let section = section(&page);
    let said = "It never recovered by itself: no answer until link p1-pe2 was restored after 2.00 s; typically 1.00 s \
                more from then.";
    assert!(section.contains(said), "{section}");
    assert!(!section.contains("The service survived") && !section.contains("Callers"), "{section}");
    for row in ["No answer before the restore", "First answer after the restore"] {
        assert!(section.contains(row), "{row}");
    }
    assert!(section.contains("<b>2</b>restored 2.00 s"), "it is an event of the courses");
    assert!(table.contains("not by itself"), "{table}");
    let rows = csv(&run, "failovers.csv");
    let of = ["counts", "survived", "reason", "restored_ns"].map(|name| column(&rows, name));
    let counted: Vec<_> = rows[1..].iter().filter(|row| row[of[0]] == "yes").collect();
    assert!(counted.len() >= 3);
    for row in counted {
        let told = [row[of[1]].as_str(), row[of[2]].as_str()];
        assert_eq!(told, ["no", "no answer until link p1-pe2 was restored"]);
        assert_eq!(row[of[3]].parse::<f64>().unwrap(), 2e9);
    }
    // What no fault of the run has is neither a column nor explained.
    assert!(!section.contains("Fencing took") && !section.contains("Rebuild of the RAID"), "{section}");
}

/// Gaps between requests look like times to a first answer where nobody had to wait.
#[test]
fn what_kept_nobody_waiting_is_no_outage() {
    let of = |outage: Option<bool>| {
        rewritten_of(2, |entry| {
            for fault in faults(entry).into_iter().flatten() {
                let seen = fault["seen"].as_object_mut().unwrap();
                match outage {
                    Some(outage) => seen.insert("outage".to_owned(), outage.into()),
                    None => seen.remove("outage"),
                };
            }
        })
    };
    let (calm, table) = of(Some(false));
    assert!(section(&calm).contains("No outage was seen (a request came every 16.7 ms on average)."));
    assert!(!section(&calm).contains("Callers typically waited") && table.contains("no outage"), "{table}");
    // Runs that were made before it was noted are read as they were.
    let (older, table) = of(None);
    assert!(section(&older).contains("Callers typically waited") && !table.contains("no outage"), "{table}");
}

/// With a connection for each request hardly any is open at the fault: what there wasn't is neither kept nor lost.
#[test]
fn failovers_without_an_open_connection_kept_none() {
    let of = |open: [u64; 2]| {
        let (page, _) = rewritten(|entry| {
            for (fault, open) in faults(entry).into_iter().flatten().zip(open) {
                fault["seen"]["connections"] = serde_json::json!({"open": open, "kept": open, "lost": 0});
            }
        });
        section(&page).to_owned()
    };
    let none = of([0, 0]);
    assert!(!none.contains("kept every connection"), "{none}");
    // Of both failovers of a guest one had any.
    let some = of([0, 7]);
    assert!(some.contains("<b>1 of 1</b> kept every connection"), "{some}");
    assert!(!some.contains("2 of 2</b> kept every connection"), "{some}");
    assert!(some.contains("All 7 connections that were open were kept."), "{some}");
}

/// Four guests and two kinds of faults: eight sentences one after the other, and a table for each kind, were no overview.
#[test]
fn many_kinds_of_faults_have_a_table_of_them_all() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { repetitions: 1, intervals_ms: vec![20, 40, 80], ..Options::default() };
    let (_, page, _) = rewritten_in(dir.path(), &options, |entry| {
        let Some(faults) = faults(entry) else { return };
        faults[1]["fault"]["kind"]["action"] = "hang".into();
    });
    let section = section(&page);
    let tables = "<summary>kill: primary-host, in words and with all figures</summary>";
    let (overview, rest) = section.split_once(tables).expect("figures of the kills");
    let (_, overview) = overview.split_once(">first answer after, median</th>").unwrap();
    // After one fault the guest wasn't protected yet again.
    assert_eq!(overview.matches("1 of 1 survived").count(), 7, "{overview}");
    assert_eq!(overview.matches(" ms seen, n = 1").count(), 7, "{overview}");
    assert_eq!(overview.matches("<tr>").count(), 2, "{overview}");
    let (of_kills, _) = rest.split_once("<summary>hang: primary-host,").expect("figures of the others");
    assert_eq!(of_kills.matches("The service survived.").count(), 4, "{of_kills}");
    // Where all met the same, their figures stand side by side already.
    let (_, _, page) = make(&dir.path().join("same"), &options);
    assert!(!page.contains("in words and with all figures"));
}

/// An interval of four failovers that differ much holds what can't be.
#[test]
fn few_failovers_are_told_as_they_were_seen() {
    let dir = tempfile::tempdir().unwrap();
    let (run, _, page) = make(dir.path(), &Options { repetitions: 2, ..Options::default() });
    assert!(section(&page).contains(" seen, n = 4"), "{}", section(&page));
    let rows = csv(&run, "failover_figures.csv");
    let (n, low, tell) = (column(&rows, "n"), column(&rows, "interval_low"), column(&rows, "can_tell"));
    let four: Vec<_> = rows[1..].iter().filter(|row| row[n] == "4").collect();
    assert!(!four.is_empty() && four.iter().all(|row| row[low].is_empty() && row[tell] == "yes"), "{four:?}");
}

/// A guest that ends by itself, or can't be protected, is no fault of the plan: it is told all the same, and a trial that
/// doesn't count for it has its reason.
#[test]
fn what_went_wrong_with_the_protection_is_told() {
    let why = "the guest was not protected for 6.00 s of the measurement, from 4.00 s on: QEMU on host-a ended by itself";
    let (page, _) = rewritten(|entry| {
        if let Some(protection) = entry.get_mut("protection").filter(|p| p.is_object()) {
            protection["problems"] = serde_json::json!(["the guest could not be protected: no host is free"]);
        }
        if entry.pointer("/observations/0/result/kind").is_some_and(|kind| kind == "latency") {
            entry["validity"] =
                serde_json::json!({"validity": "invalid", "reason": "protection-lost", "detail": why});
        }
    });
    assert!(page.contains(" id=\"ft-problems\"") && page.contains("What went wrong with the protection"));
    assert!(section(&page).contains("the guest could not be protected: no host is free"));
    assert!(page.contains(why), "a trial's reason is told");
}

/// No guest stands still for longer than there is time, however its trials scatter.
#[test]
fn a_guest_stands_still_for_all_the_time_at_most() {
    let (page, _) = rewritten_of(4, |entry| {
        let trial = entry["repetition"].as_u64().unwrap_or_default() as usize % 4;
        let checkpoints =
            entry.pointer_mut("/protection/checkpoints").and_then(serde_json::Value::as_array_mut);
        for checkpoint in checkpoints.into_iter().flatten() {
            checkpoint["stopped_share"] = [0.99, 0.98, 0.3, 0.97][trial].into();
        }
    });
    let row = page.split(">Standing still</th>").nth(1).unwrap().split("</tr>").next().unwrap();
    let intervals = row.matches('–').count();
    assert!(intervals >= 1 && row.matches("–100 %").count() == intervals, "{row}");
}

#[test]
fn hostile_words_stay_words() {
    let (page, table) = rewritten(|entry| {
        for fault in faults(entry).into_iter().flatten() {
            fault["discounted"] = "<img src=x>\u{1b}[2J</script>".into();
        }
        for kind in ["unprotected", "down"] {
            if let Some(outcome) =
                entry.pointer_mut("/observations/0/result").filter(|o| o["kind"] == "failover")
            {
                outcome[kind] =
                    serde_json::json!([{"from": "1ms", "to": null, "reason": "<b onclick=1>\u{7}"}]);
            }
        }
    });
    assert!(page.contains("&lt;img src=x&gt;") && !page.contains("<img") && !page.contains("<b onclick"));
    assert_eq!(page.matches("</script>").count(), 1);
    assert!(!table.contains('\u{1b}'));
}

#[test]
fn times_out_of_order_are_left_out() {
    let (page, _) = rewritten(|entry| {
        for fault in faults(entry).into_iter().flatten() {
            fault["detected"] = "0ns".into();
            fault["fenced"] = "18446744073709551615ns".into();
            fault["armed"] = "1ns".into();
            if !fault["recovered"].is_null() {
                fault["recovered"]["at"] = "2ns".into();
            }
        }
    });
    for nonsense in ["NaN", ">inf", ">-"] {
        assert!(!section(&page).contains(nonsense), "{nonsense}");
    }
    // Promoted before fenced is the one thing that must never be called fenced.
    assert!(!section(&page).contains(" fenced first"));
}

#[test]
fn long_lists_stay_bounded() {
    let (page, _) = rewritten(|entry| {
        if let Some(faults) = faults(entry) {
            let one = faults.iter().find(|f| f["fault"]["kind"]["action"] == "kill").cloned();
            *faults = std::iter::repeat_n(one.unwrap_or_default(), 20_000).collect();
        }
    });
    assert!(section(&page).len() < 4 << 20, "{}", section(&page).len());
}

#[test]
fn a_damaged_trial_keeps_its_figures() {
    let dir = tempfile::tempdir().unwrap();
    let (run, ..) = make(dir.path(), &Options { repetitions: 1, sip: true, ..Options::default() });
    let mut damaged = 0;
    for index in 0..40 {
        let file = run.trial(index).path().join("phases.jsonl");
        if let Ok(text) = fs::read_to_string(&file) {
            fs::write(&file, &text[..text.len() / 2]).unwrap();
            damaged += 1;
        }
    }
    assert!(damaged > 0);
    write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("phases.jsonl: damaged") && section(&page).contains("First answer after"));
    crate::support::balanced(&page);
}

/// Makes every load of requests one of storage, of which so many records are lost.
fn of_storage(lost: u64) -> (String, String) {
    rewritten(|entry| {
        let Some(outcome) = entry.pointer_mut("/observations/0/result").filter(|o| o["kind"] == "failover")
        else {
            return;
        };
        let mut load = outcome["load"].take();
        load.as_object_mut().unwrap().remove("of");
        let verified = |lost: u64| {
            serde_json::json!({
                "records": 512, "lost": lost, "stale": 0, "torn": 0, "misplaced": 0, "corrupt": 0, "uncertain": 3
            })
        };
        outcome["load"] = serde_json::json!({
            "of": "storage", "load": load, "record": 4096, "processes": [], "verified": verified(0),
            "failures": [], "first_failure": null,
            "cache": {"of": 0, "dropped": null, "before": null, "after": null},
            "io": {"fetched": null, "device": null},
            "facts": {"what": "", "block": 512, "capacity": null, "write_cache": null, "counters": []},
            "read_back": {
                "acknowledged": 170, "unacknowledged": 4, "verified": verified(lost), "unread": 0, "took": "1s"
            },
        });
    })
}

#[test]
fn every_acknowledged_write_is_accounted_for() {
    let (page, table) = of_storage(0);
    let section = section(&page);
    assert_eq!(section.matches(" id=\"ft-writes\"").count(), 1);
    assert!(section.contains("every one of 170 acknowledged writes is there"), "{section}");
    assert!(section.contains(">passed<") && !section.contains(">failed<"));
    assert!(table.contains("acknowledged writes") && table.contains("passed"), "{table}");
    // It is a load like any other: the courses around the fault are drawn.
    assert!(section.contains(" id=\"ft-around\""));
}

#[test]
fn a_lost_write_fails_and_is_said() {
    let (page, table) = of_storage(2);
    let section = section(&page);
    assert!(section.contains("of 512 records read back after 170 acknowledged writes, 2 lost."), "{section}");
    assert!(section.contains(">failed<"));
    assert!(table.contains("of 512 records read back: 2 lost"), "{table}");
}
