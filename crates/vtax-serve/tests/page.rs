//! What the pages show: runs, a run that goes on, comparisons, histories, metrics.

use std::path::Path;

use vtax_store::record::JournalEntry;
use vtax_store::{LiveComparison, LiveState, LiveTrial, LiveWriter, RunDir};

use crate::support::{Site, copy, half, make, summarised};

#[test]
fn a_run_is_followed_to_its_end_and_over_a_lost_connection() {
    let mut more: Option<Box<dyn FnMut() -> bool>> = None;
    let site = Site::new(|root| more = Some(Box::new(half(root))));
    let mut more = more.expect("a run that goes on");
    let id = site.first_run();
    let mut live = LiveWriter::create(&site.root().join("going")).expect("a live file");
    let page = site.get(&format!("/run/{id}")).body;
    assert!(page.contains("data-state=\"running\""), "its writer holds the lock: {page}");
    let (_, rest) = page.split_once("data-events=\"").expect("where events come from");
    let place = rest.split('"').next().expect("a place").to_owned();
    let mut events = site.events(&place, None);
    let comparison = LiveComparison {
        cell: "vm".into(),
        measure: "latency".into(),
        rounds: 3,
        further: Some(2),
        ..LiveComparison::default()
    };
    let trial = LiveTrial { index: 18, cell: "vm".into(), measure: "latency".into(), repetition: 2 };
    let state = LiveState {
        at_unix_ms: 5,
        trial: Some(trial),
        phase: "measuring".into(),
        comparisons: vec![comparison],
        ..LiveState::default()
    };
    live.append(&state).expect("written");
    let (_, _, data) = events.until("state");
    assert!(data.contains("\"written\":true") && data.contains("\"further\":2"), "{data}");
    assert!(more());
    let (last, _, data) = events.until("trial");
    assert!(data.contains("\"index\":18") && data.contains("\"valid\":true"), "{data}");
    // The connection is lost, the run goes on, and the client comes back with the id that it has.
    drop(events);
    assert!(more() && more());
    let mut events = site.events(&place, Some(&last));
    let indexes: Vec<bool> = ["\"index\":19", "\"index\":20"]
        .iter()
        .map(|index| events.until("trial").2.contains(index))
        .collect();
    assert_eq!(indexes, [true, true], "what came meanwhile comes once, in order");
    let drawn = site.get(&format!("/run/{id}/progress")).body;
    assert!(drawn.contains("Verdicts so far"), "{drawn}");
    while more() {}
    events.until("completed");
    let drawn = site.get(&format!("/run/{id}/progress")).body;
    assert!(drawn.contains("<h2>Verdicts</h2>") && drawn.contains("<svg"), "{drawn}");
}

#[test]
fn a_list_is_chosen_from_and_two_runs_are_compared() {
    let site = Site::new(|root| {
        let model = make(&root.join("model"));
        copy(&model, &root.join("slower"), 1_795_100_000_000, 0.5);
        let mut plan = model.plan().expect("a plan");
        plan.budget.sut_cpus = Some(7);
        let other = RunDir::create(root.join("other"), &plan, &model.provenance().expect("provenance"))
            .expect("a run");
        drop(other);
        std::fs::remove_dir_all(root.join("model")).expect("removed");
        copy(&root_of(root, "slower"), &root.join("faster"), 1_795_200_000_000, 2.0);
    });
    site.list(3);
    let page = site.get("/?plan=quick&from=2026-01-01&to=2026-12-31").body;
    let id = |name: &str| {
        let (before, _) =
            page.split_once(&format!("\">{name}</a>")).unwrap_or_else(|| panic!("{name} is not in {page}"));
        before.rsplit("/run/").next().expect("an id").to_owned()
    };
    let (slower, faster, other) = (id("slower"), id("faster"), id("other"));
    let compared = site.get(&format!("/compare?a={faster}&b={slower}"));
    assert!(compared.status == 200 && compared.body.contains("badge worse"), "{}", compared.status);
    let refused = site.get(&format!("/compare?a={faster}&b={other}"));
    assert_eq!(refused.status, 409);
    assert!(
        refused.body.contains("budget.sut_cpus") && refused.body.contains("To compare them"),
        "{}",
        refused.body
    );
    assert_eq!(site.get(&format!("/compare?a={faster}")).status, 400);
    assert!(!site.get("/?verdict=better&from=2030-01-01").body.contains("data-href"));
}

fn root_of(root: &Path, name: &str) -> RunDir {
    RunDir::open(root.join(name)).expect("a run")
}

#[test]
fn a_history_shows_where_a_figure_changed() {
    let day = 86_400_000;
    let site = Site::new(|root| {
        let model = make(&root.join("../model"));
        for i in 0..16_u64 {
            let factor = if i < 8 { 1.0 } else { 0.6 } * (1.0 + 0.002 * ((i * 7) % 5) as f64);
            copy(&model, &root.join(format!("r{i:02}")), 1_795_000_000_000 + i * day, factor);
        }
        let mut other = model.provenance().expect("provenance");
        (other.host.cpu_model, other.run_id) = ("Another".to_owned(), String::new());
        let mut run =
            RunDir::create(root.join("elsewhere"), &model.plan().expect("a plan"), &other).expect("a run");
        for record in model.trials().expect("trials") {
            let trial = run.begin_trial(&record.cell, &record.measure, record.repetition).expect("begun");
            run.finish_trial(trial, record).expect("finished");
        }
        summarised(run.run());
    });
    site.list(17);
    let page = site.get("/?state=complete").body;
    assert!(page.contains("16 of 17 runs."), "{page}");
    let newest = page.split("href=\"/run/").nth(1).and_then(|r| r.split('"').next()).expect("a run");
    let cell = site.get(&format!("/run/{newest}/summary.json"));
    assert!(cell.body.contains("container.bridge.http"));
    let asked =
        format!("/history?run={newest}&cell=container.bridge.http&figure=capacity%2Fcapacity&of=value");
    let history = site.get(&asked).body;
    assert!(history.contains("16 runs can be compared. Their level changed once."), "{history}");
    assert!(history.contains("for the worse") && history.contains("Compare them"), "{history}");
    assert!(history.contains("a small one is told as larger than it is"), "{history}");
    assert!(history.contains("other machine: CPU is"), "{history}");
    let (_, link) = history.split_once("href=\"/compare?a=").expect("the way to both sides");
    let both = link.split('"').next().expect("a link").replace("&amp;", "&");
    assert_eq!(site.get(&format!("/compare?a={both}")).status, 200);
    let tax = site.get(&asked.replace("of=value", "of=tax")).body;
    assert!(tax.contains("16 runs can be compared, and chance explains how they differ."), "{tax}");
    let none = site.get(&asked.replace("capacity%2Fcapacity", "capacity%2Fnothing")).body;
    assert!(none.contains("No run has this figure."), "{none}");
    assert_eq!(site.get(&asked.replace("of=value", "of=ratio")).status, 400);
}

/// A directory that was copied is no second run: a history would take it for one more that says the same.
#[test]
fn a_history_counts_a_run_and_its_copies_once() {
    let site = Site::new(|root| {
        let model = make(&root.join("../model"));
        copy(&model, &root.join("first"), 1_795_000_000_000, 1.0);
        let second = copy(&model, &root.join("second"), 1_795_100_000_000, 1.1);
        for name in ["a", "z"] {
            let again = root.join(name);
            std::fs::create_dir(&again).expect("a directory");
            for file in ["journal.jsonl", "plan.yaml", "provenance.json", "summary.json"] {
                // One of the copies was made before there was a summary.
                if (name, file) != ("a", "summary.json") {
                    std::fs::copy(second.path().join(file), again.join(file)).expect("copied");
                }
            }
        }
    });
    let list = site.list(4);
    for name in ["first", "second", "a", "z"] {
        let (before, _) = list.split_once(&format!("\">{name}</a>")).expect("it is listed");
        let id = before.rsplit("/run/").next().expect("an id");
        let asked =
            format!("/history?run={id}&cell=container.bridge.http&figure=capacity%2Fcapacity&of=value");
        let history = site.get(&asked);
        if name == "a" {
            assert_ne!(history.status, 200, "it has no summary");
            continue;
        }
        assert!(history.body.contains("2 runs can be compared."), "{name}: {}", history.body);
        assert!(!history.body.contains("left out"), "{name}: {}", history.body);
    }
}

#[test]
fn metrics_are_in_prometheus_text() {
    let site = Site::new(|root| {
        summarised(&make(&root.join("a")));
    });
    site.first_run();
    let answer = site.get("/metrics");
    assert_eq!(answer.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let mut known = std::collections::BTreeSet::new();
    for line in answer.body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').expect("a name and a type");
            assert!(known.insert(name.to_owned()), "{name} is told twice");
            assert!(["gauge", "counter"].contains(&kind), "{line}");
        } else if !line.starts_with('#') {
            let name = line.split(['{', ' ']).next().expect("a name");
            assert!(known.contains(name), "{line} has no type");
            line.rsplit(' ').next().and_then(|v| v.parse::<f64>().ok()).expect("a number");
        }
    }
    for name in ["vtax_runs", "vtax_run_trials", "vtax_tax", "vtax_serve_resident_bytes"] {
        assert!(answer.body.lines().any(|l| l.starts_with(name)), "{name} is missing in\n{}", answer.body);
    }
}

/// A run that was killed before its report was written has nothing to tell, and others have.
#[test]
fn a_run_without_a_summary_hides_no_older_one() {
    let site = Site::new(|root| {
        let older = make(&root.join("older"));
        summarised(&older);
        let newer = copy(&older, &root.join("newer"), 1_795_900_000_000, 1.0);
        std::fs::remove_file(newer.path().join("summary.json")).expect("removed");
    });
    let list = site.list(2);
    let (before, _) = list.split_once("\">older</a>").expect("the older one");
    let id = before.rsplit("/run/").next().expect("an id");
    let metrics = site.get("/metrics").body;
    assert!(metrics.contains("vtax_runs{state=\"complete\"} 2\n"), "{metrics}");
    assert!(metrics.contains(&format!("vtax_tax{{run=\"{id}\"")), "{metrics}");
}

/// The journal of a made-up run is complete: what tests rely on.
#[test]
fn made_up_runs_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let last = make(&dir.path().join("a")).journal().expect("a journal").last();
    assert!(matches!(last, Some(Ok(JournalEntry::Completed { .. }))));
}

/// Prometheus' own client library reads `/metrics`, where Python has it.
#[test]
fn prometheus_client_reads_the_metrics() {
    use std::process::{Command, Stdio};
    let python = std::env::var_os("VTAX_PYTHON").unwrap_or_else(|| "python3".into());
    let has = Command::new(&python).args(["-c", "import prometheus_client.parser"]).output();
    let lacks = !has.is_ok_and(|output| output.status.success());
    let reason = lacks.then_some("Python has no prometheus_client (VTAX_PYTHON names an interpreter)");
    if !vtax_sys::require::possible(reason) {
        return;
    }
    let site = Site::new(|root| summarised(&make(&root.join("a"))));
    site.list(1);
    let script = "import sys\nfrom prometheus_client.parser import text_string_to_metric_families as read\n\
                  print(sum(len(f.samples) for f in read(sys.stdin.read())))";
    let mut child = Command::new(&python)
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("Python starts");
    let text = site.get("/metrics").body;
    let series = text.lines().filter(|line| !line.starts_with('#')).count();
    std::io::Write::write_all(&mut child.stdin.take().expect("its input"), text.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), series.to_string());
}
