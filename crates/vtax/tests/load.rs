//! `vtax load` where nothing works: it says so, gives no figures, and doesn't end as if all was well.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

use vtax_sys::require::{Need, installed, need};

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");
/// Short, and at a rate that a busy machine can carry.
const SHORT: [&str; 5] = ["--warmup", "0s", "--duration", "300ms", "-q"];
/// Of a closed loop, in which nothing begins after this time, however late threads start.
const CLOSED: [&str; 5] = ["--warmup", "0s", "--duration", "3s", "-q"];

fn vtax(arguments: &[&str]) -> Output {
    Command::new(VTAX).args(arguments).stdin(Stdio::null()).output().expect("vtax starts")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn expect(output: &Output, code: i32, words: &[&str]) {
    let text = text(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in:\n{text}");
    }
}

/// No figure is made of nothing: latencies are dashes.
fn without_figures(output: &Output) {
    let text = text(output);
    let of_answers = |line: &&str| ["latency", "  round trip", "  from"].iter().any(|l| line.starts_with(l));
    let mut lines = text.lines().filter(of_answers).peekable();
    assert!(lines.peek().is_some(), "{text}");
    assert!(lines.all(|line| line.contains('-') && !line.contains(|c: char| c.is_ascii_digit())), "{text}");
}

/// The embedded HTTP server, ended with this.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    fn start() -> Self {
        let arguments = ["service", "http", "--listen", "127.0.0.1:0"];
        let mut child = Command::new(VTAX).args(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let url = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        Self { child, url }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_server_that_is_not_there_is_no_success() {
    let nobody = format!("127.0.0.1:{}", vtax_sys::free_port());
    let url = format!("http://{nobody}/");
    let load = |rest: &[&str]| vtax(&[&["load", "http", &url][..], rest, &SHORT].concat());
    let closed = vtax(&[&["load", "http", &url, "--connections", "2"][..], &CLOSED].concat());
    for output in [load(&["--rate", "50/s"]), closed] {
        expect(&output, 1, &["connections were refused: does a server listen there?"]);
        without_figures(&output);
    }
    expect(&load(&["--search"]), 1, &["nothing to search", "refused"]);
    expect(&load(&["--search", "--rate", "50/s"]), 1, &["even", "was too much"]);
    expect(&load(&["--search", "--max", "0.3/s"]), 2, &["--max", "a search tries no rate below 0.5/s"]);
    let unreached = format!("cannot reach the server {nobody}: connection refused; is it running there?");
    expect(&vtax(&["load", "redis", &nobody, "--rate", "50/s"]), 1, &[&unreached]);
    for test in ["tcp", "udp", "rr", "voice"] {
        expect(&vtax(&["load", test, &nobody]), 1, &[&nobody, "--server` running there?"]);
    }
    let families = [
        ("http", "http://no.such.host.invalid/"),
        ("redis", "no.such.host.invalid"),
        ("ftp", "no.such.host.invalid:2121"),
        ("desktop", "no.such.host.invalid"),
    ];
    for (family, target) in families {
        let output = vtax(&["load", family, target, "--rate", "1/s"]);
        expect(&output, 2, &["looking up `no.such.host.invalid"]);
    }
}

/// Whoever asks for a certificate to be checked must not believe that it was.
#[test]
fn what_would_have_no_effect_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let there = directory.path().join("there");
    std::fs::write(&there, "").expect("written");
    let there = there.to_str().expect("UTF-8");
    let authority = ["--authority", there];
    let offers: [&[&str]; 3] = [&authority, &["--tls-version", "1.3"], &["--cipher", "any"]];
    let of_https: [&[&str]; 4] = [&["--group", "x25519"], &["--no-resume"], &["--sni", "a"], &["--no-alpn"]];
    let of_plans: [&[&str]; 7] = [
        &["--chunked"],
        &["--expect-continue"],
        &["--compression", "none"],
        &["--expect-status", "200"],
        &["--expect-length", "1B"],
        &["--expect-text", "a"],
        &["--expect-header", "a: b"],
    ];
    let refused = |load: &[&str], more: &[&str], words: &str| {
        expect(&vtax(&[&["load"][..], load, more].concat()), 2, &[words, more[0]]);
    };
    for more in offers.iter().chain(&of_https) {
        refused(&["http", "http://127.0.0.1:1/", "--rate", "1/s"], more, "need an https:// URL");
    }
    for more in offers.iter().chain(&[&["--clear-data"][..], &["--no-resume"]]) {
        refused(&["ftp", "127.0.0.1:1", "--rate", "1/s"], more, "need --tls explicit or implicit");
    }
    for more in of_plans {
        refused(
            &["http", "http://127.0.0.1:1/", "--rate", "1/s", "--plan", there],
            more,
            "cannot be used with",
        );
    }
    for more in offers {
        refused(&["sip", "127.0.0.1:1"], more, "need --transport tls");
        refused(&["sip", "127.0.0.1:0", "--uas"], more, "need --transport tls");
    }
    for transport in ["tcp", "tls"] {
        refused(&["sip", "127.0.0.1:0", "--uas"], &["--transport", transport], "over UDP alone");
    }
    let all = vtax(&["load", "sip", "--uas", "0.0.0.0:0"]);
    expect(&all, 2, &["0.0.0.0:0", "give the one address that peers reach it at"]);
    let direct = vtax(&["load", "storage", "file:/nowhere", "--cache", "warm", "--direct"]);
    expect(&direct, 2, &["cache", "direct operations pass the page cache by"]);
    let list = ["--operations", "list", "--size", "4KiB", "--cache", "cold"];
    let names = vtax(&[&["load", "storage", "file:/nowhere"][..], &list].concat());
    expect(&names, 2, &["cache", "it can't be cold for `list`"]);
}

/// Its errors were shown within an error.
#[test]
fn a_plan_that_is_wrong_is_told_of_as_by_check() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = directory.path().join("plan.yaml");
    std::fs::write(&plan, "vtax: 1\nnmae: t\n").expect("written");
    let plan = plan.to_str().expect("UTF-8");
    let said = |arguments: &[&str]| {
        let output = vtax(arguments);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        text(&output)
    };
    let told = said(&["load", "http", "http://127.0.0.1:1/", "--rate", "1/s", "--plan", plan]);
    assert!(told.contains("did you mean `name`?"), "{told}");
    assert_eq!(told, said(&["check", plan]));
}

#[test]
fn answers_that_are_errors_are_named() {
    let server = Server::start();
    let url = format!("{}/nothing/here", server.url);
    let arguments = [&["load", "http", &url, "--rate", "50/s"][..], &SHORT].concat();
    let output = vtax(&arguments);
    expect(&output, 1, &["answers were 404: is the target right?"]);
    without_figures(&output);
    let output = vtax(&[&arguments[..], &["--json"]].concat());
    expect(&output, 1, &[]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(json["invalid"].as_str().is_some_and(|why| why.contains("404")), "{json}");
    assert!(json["latency_ns"].is_null() && json["result"]["counts"]["failed_status"] == 404, "{json}");
}

#[test]
fn an_echo_that_nobody_answers_is_no_success() {
    if !need(&[Need::Ns]) || !installed(&["ip"]) {
        return;
    }
    let silent = "ip link set lo up; echo 1 > /proc/sys/net/ipv4/icmp_echo_ignore_all; exec \"$@\"";
    let output = Command::new("unshare")
        .args(["-Urn", "sh", "-c", silent, "sh", VTAX, "load", "ping", "127.0.0.1"])
        .args(["--rate", "50/s", "--timeout", "100ms"])
        .args(SHORT)
        .output()
        .expect("unshare runs");
    expect(&output, 1, &["100.000 % lost", "invalid: none of", "probes was answered"]);
    without_figures(&output);
}

/// As `vtax schema | head` does: nobody reads what is printed.
#[test]
fn a_reader_that_has_seen_enough_is_no_bug() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = directory.path().join("plan.yaml");
    let text = "vtax: 1\nname: t\nbaseline: native\nenvironments: [native]\nservices: http\n\
                workload: {http: {target: /page/1}}\nmeasure: [capacity]\n";
    std::fs::write(&plan, text).expect("written");
    let plan = plan.to_str().expect("UTF-8");
    let server = Server::start();
    let url = format!("{}/page/1", server.url);
    let load = [&["load", "http", &url, "--connections", "2"][..], &CLOSED].concat();
    let json = [&load[..], &["--json"]].concat();
    for arguments in [&["schema"][..], &["check", plan], &["check", plan, "--json"], &load, &json] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let output = Command::new(VTAX).args(arguments).stdout(writer).output().expect("vtax starts");
        // 3 where the machine was too busy for a generator.
        assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}: {}", self::text(&output));
        assert!(!self::text(&output).contains("bug"), "{arguments:?}: {}", self::text(&output));
    }
}
