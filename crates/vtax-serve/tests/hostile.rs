//! Run directories that come from others: what can't be read is told in its place, and the rest goes on.

use std::fs;
use std::path::Path;

use crate::support::{Site, make};

/// A text that would do something if it reached a page as it is.
const EVIL: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";

fn damaged(root: &Path) {
    make(&root.join("good"));
    let run = |name: &str, files: &[(&str, &[u8])]| {
        let path = root.join(name);
        fs::create_dir_all(&path).expect("a directory");
        for (file, bytes) in files {
            fs::write(path.join(file), bytes).expect("written");
        }
    };
    run("empty", &[("journal.jsonl", b"")]);
    run(
        "binary",
        &[("journal.jsonl", &[0xff; 4096]), ("provenance.json", &[0; 100]), ("plan.yaml", &[0xfe; 100])],
    );
    run(
        "array",
        &[
            ("journal.jsonl", b"[]\n"),
            ("provenance.json", b"[]"),
            ("plan.yaml", b"[]"),
            ("summary.json", b"7"),
        ],
    );
    run(
        "newer",
        &[
            ("journal.jsonl", b"{\"event\":\"opened\",\"version\":99}\n"),
            ("provenance.json", b"{\"version\":99}"),
        ],
    );
    let nested = "[".repeat(200_000);
    run("deep", &[("journal.jsonl", nested.as_bytes()), ("provenance.json", nested.as_bytes())]);
    fs::create_dir_all(root.join("pipe")).expect("a directory");
    // Nobody writes into them: who opened one to read would wait for ever.
    for pipe in ["pipe/provenance.json", "good/live.jsonl"] {
        let status = std::process::Command::new("mkfifo").arg(root.join(pipe)).status().expect("mkfifo");
        assert!(status.success());
    }
    fs::write(root.join("pipe/journal.jsonl"), "{\"event\":\"opened\",\"version\":3}\n").expect("written");
}

#[test]
fn damaged_runs_are_listed_and_told() {
    let site = Site::new(damaged);
    let good = site.first_run();
    let list = site.list(7);
    for name in ["empty", "binary", "array", "newer", "deep", "pipe", "good"] {
        assert!(list.contains(&format!(">{name}</a>")), "{name}");
    }
    assert_eq!(list.matches("data-state=\"unreadable\"").count(), 6, "{list}");
    let ids: Vec<&str> =
        list.split("href=\"/run/").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    for id in ids {
        for path in ["", "/progress", "/report", "/summary.json"] {
            let status = site.get(&format!("/run/{id}{path}")).status;
            assert!(status == 200 || (400..500).contains(&status), "{id}{path}: {status}");
        }
        let compared = site.get(&format!("/compare?a={good}&b={id}")).status;
        assert!(compared == 200 || (400..500).contains(&compared), "{compared}");
    }
    assert_eq!(site.get(&format!("/run/{good}")).status, 200, "the good one is still shown");
    assert!(site.get("/metrics").body.contains("vtax_runs{state=\"unreadable\"} 6\n"));
}

#[test]
fn texts_of_others_stay_texts() {
    let site = Site::new(|root| {
        let run = make(&root.join("a <b> & 'c'"));
        let path = run.path();
        for file in ["provenance.json", "plan.yaml", "journal.jsonl"] {
            let text = fs::read_to_string(path.join(file)).expect("text");
            let evil = match file {
                "plan.yaml" => {
                    text.replacen("description:", &format!("description: {}\nold_description:", quoted()), 1)
                }
                _ => text.replace("CPU sets by affinity", &EVIL.replace('"', "\\\"")),
            };
            let evil = evil.replace("\"name\": \"", &format!("\"name\": \"{}", EVIL.replace('"', "\\\"")));
            fs::write(path.join(file), evil).expect("written");
        }
    });
    let id = site.first_run();
    for path in
        ["/".to_owned(), format!("/run/{id}"), format!("/run/{id}/progress"), format!("/run/{id}/report")]
    {
        let body = site.get(&path).body;
        assert!(!body.contains("<script>alert") && !body.contains("<img src=x"), "{path}");
    }
    let progress = site.get(&format!("/run/{id}/progress")).body;
    assert!(progress.contains("&lt;script&gt;alert(1)"), "{progress}");
}

/// The text as YAML has it.
fn quoted() -> String {
    format!("'{}'", EVIL.replace('\'', "''"))
}

#[test]
fn files_of_a_run_are_never_sent_as_they_are() {
    let site = Site::new(|root| {
        let run = make(&root.join("a"));
        fs::write(run.path().join("report.html"), EVIL).expect("written");
        let _ = fs::remove_file(run.path().join("summary.json"));
        std::os::unix::fs::symlink("/etc/passwd", run.path().join("summary.json")).expect("a link");
    });
    let id = site.first_run();
    let report = site.get(&format!("/run/{id}/report"));
    assert!(report.status == 200 && !report.body.contains("<img src=x"), "{}", report.status);
    let summary = site.get(&format!("/run/{id}/summary.json"));
    assert!(summary.status == 200 && !summary.body.contains("root:"));
    assert!(!site.get("/").body.contains("root:"));
}
