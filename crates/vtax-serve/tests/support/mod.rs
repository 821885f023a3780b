//! A server on a free port, and requests as bytes.
#![allow(dead_code, reason = "each test program uses its own part")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use vtax_fixture::{Options as Made, create};
use vtax_report::{Format, Report};
use vtax_serve::{Options, Server, StartOptions, Token};
use vtax_store::RunDir;

/// How long anything may take before a test fails: tests of other crates may have the machine meanwhile.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// A server of the runs in a directory that is its own.
pub(crate) struct Site {
    directory: tempfile::TempDir,
    pub(crate) address: SocketAddr,
    pub(crate) link: String,
    pub(crate) token: String,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Answer {
    /// The value of a header.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }
}

/// Options of a server of these runs on a free port.
pub(crate) fn options(root: &Path, cache: &Path) -> Options {
    Options {
        root: root.to_owned(),
        listen: "127.0.0.1:0".parse().expect("an address"),
        names: Vec::new(),
        token: Token::draw().expect("a token"),
        tls: None,
        plain_text: false,
        start: None,
        cpus: None,
        cache: cache.to_owned(),
    }
}

impl Site {
    /// A server of what `fill` puts into its directory of runs.
    pub(crate) fn new(fill: impl FnOnce(&Path)) -> Self {
        Self::with(fill, None)
    }

    /// The same; runs can be started where `start` says how.
    pub(crate) fn with(fill: impl FnOnce(&Path), start: Option<StartOptions>) -> Self {
        Self::named(fill, start, Vec::new())
    }

    /// The same, which answers to these names besides.
    pub(crate) fn named(fill: impl FnOnce(&Path), start: Option<StartOptions>, names: Vec<String>) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let root = directory.path().join("runs");
        std::fs::create_dir(&root).expect("a directory of runs");
        fill(&root);
        let mut options = options(&root, &directory.path().join("cache"));
        (options.start, options.names) = (start, names);
        let token = options.token.text().to_owned();
        let server = Server::bind(options).expect("a server");
        let (address, link) = (server.address(), server.link());
        // It ends with the test program.
        std::thread::spawn(move || server.run());
        Self { directory, address, link, token }
    }

    /// The directory of runs.
    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("runs")
    }

    /// The answer to these bytes, until the connection is closed.
    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        // A server that has refused already may have closed.
        let _ = stream.write_all(request);
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        let text = String::from_utf8_lossy(&all).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok()).unwrap_or(0);
        let body = if head.to_lowercase().contains("transfer-encoding: chunked") {
            joined(body)
        } else {
            body.to_owned()
        };
        Answer { status, head: head.to_owned(), body }
    }

    /// The answer to a GET with the token.
    pub(crate) fn get(&self, path: &str) -> Answer {
        self.raw(self.request("GET", path, "", "").as_bytes())
    }

    /// A request with the token.
    pub(crate) fn request(&self, method: &str, path: &str, headers: &str, body: &str) -> String {
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nConnection: close\r\n{headers}\
             Content-Length: {}\r\n\r\n{body}",
            self.address,
            self.token,
            body.len()
        )
    }

    /// The first run on the page of all runs, as it stands in addresses.
    pub(crate) fn first_run(&self) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let page = self.get("/").body;
            if let Some((_, rest)) = page.split_once("href=\"/run/") {
                return rest.split('"').next().unwrap_or_default().to_owned();
            }
            assert!(Instant::now() < deadline, "no run is listed: {page}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The page of all runs, once so many were read.
    pub(crate) fn list(&self, count: usize) -> String {
        let deadline = Instant::now() + 4 * PATIENCE;
        loop {
            let page = self.get("/").body;
            if page.contains(&format!("{count} of {count} runs.")) && !page.contains("being read") {
                return page;
            }
            let beginning: String = page.chars().take(3000).collect();
            assert!(Instant::now() < deadline, "{beginning}");
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Follows a run: a reader of events.
    pub(crate) fn events(&self, path: &str, last: Option<&str>) -> Events {
        let mut stream = TcpStream::connect(self.address).expect("a connection");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let last = last.map_or_else(String::new, |id| format!("Last-Event-ID: {id}\r\n"));
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n{last}\r\n",
            self.address, self.token
        );
        stream.write_all(request.as_bytes()).expect("sent");
        Events { reader: BufReader::new(stream) }
    }
}

/// The chunks of a body joined.
fn joined(body: &str) -> String {
    let (mut rest, mut all) = (body, String::new());
    while let Some((length, after)) = rest.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        if length == 0 || after.len() < length || !after.is_char_boundary(length) {
            break;
        }
        all.push_str(&after[..length]);
        rest = after[length..].trim_start_matches("\r\n");
    }
    all
}

/// Events as they come.
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
}

impl Events {
    /// The next event: id, name, data.
    pub(crate) fn next(&mut self) -> (String, String, String) {
        let (mut id, mut name, mut data) = (String::new(), String::new(), String::new());
        loop {
            let mut line = String::new();
            assert!(self.reader.read_line(&mut line).expect("in time") > 0, "the stream ended");
            let line = line.trim_end();
            match line.split_once(':') {
                Some(("id", value)) => value.trim().clone_into(&mut id),
                Some(("event", value)) => value.trim().clone_into(&mut name),
                Some(("data", value)) => value.trim().clone_into(&mut data),
                _ if line.is_empty() && !name.is_empty() => return (id, name, data),
                _ => {}
            }
        }
    }

    /// The next event of this name.
    pub(crate) fn until(&mut self, wanted: &str) -> (String, String, String) {
        loop {
            let event = self.next();
            if event.1 == wanted {
                return event;
            }
        }
    }
}

/// A small made-up run.
pub(crate) fn make(path: &Path) -> RunDir {
    let options = Made { repetitions: 4, seconds: 1, rate: 200, ..Made::default() };
    create(path, &options).expect("a made-up run")
}

/// A run in `root` of which half the trials are made, and what makes one more of them each time; false once it has made
/// the run complete.
pub(crate) fn half(root: &Path) -> impl FnMut() -> bool + Send + use<> {
    let model = make(&root.join("../model"));
    let mut records = model.trials().expect("trials").into_iter();
    let (plan, provenance) = (model.plan().expect("a plan"), model.provenance().expect("provenance"));
    let provenance = vtax_store::Provenance { run_id: String::new(), ended_unix_ms: None, ..provenance };
    let mut run = RunDir::create(root.join("going"), &plan, &provenance).expect("a run");
    let mut one = move || {
        let Some(record) = records.next() else {
            run.completed().expect("completed");
            return false;
        };
        let trial = run.begin_trial(&record.cell, &record.measure, record.repetition).expect("begun");
        run.finish_trial(trial, record).expect("finished");
        true
    };
    (0..18).for_each(|_| assert!(one()));
    one
}

/// Writes its summary, as `vtax run` does at its end with all forms of a report.
pub(crate) fn summarised(run: &RunDir) {
    let report = Report::read(run).expect("a report");
    report.write(Format::Json, run.path()).expect("a summary");
}

/// Runs made from one: its trials, of which the capacity of each is changed by a factor, and when it began.
pub(crate) fn copy(from: &RunDir, to: &Path, started_unix_ms: u64, factor: f64) -> RunDir {
    use vtax_store::record::Finding;
    let mut provenance = from.provenance().expect("provenance");
    (provenance.run_id, provenance.started_unix_ms) = (String::new(), started_unix_ms);
    let plan = from.plan().expect("a plan");
    let mut run = RunDir::create(to, &plan, &provenance).expect("another run");
    for mut record in from.trials().expect("trials") {
        if let Some(Finding::Capacity(found)) = record.finding_mut() {
            found.lower.0 *= factor;
            found.upper.iter_mut().for_each(|upper| upper.0 *= factor);
        }
        let trial = run.begin_trial(&record.cell, &record.measure, record.repetition).expect("begun");
        run.finish_trial(trial, record).expect("finished");
    }
    run.completed().expect("completed");
    summarised(run.run());
    run.run().clone()
}

const PLAN: &str = "vtax: 1\nname: t\nbaseline: native\nenvironments: [native, vm]\nservices: http\n\
                    workload: {http: {target: /page/1}}\nmeasure: [capacity]\nrepeat: {min: 2, max: 5}\n";

/// What is checked is told with its changes.
fn check(plan: &Path, changes: &[String]) -> Result<String, String> {
    match changes {
        [wrong] if wrong.contains("nonsense") => Err("t.yaml: <b>nonsense</b>".to_owned()),
        _ => Ok(format!("would run {} with {changes:?}", plan.display())),
    }
}

/// What starts runs of one plan, `t.yaml`, by a script in place of vtax.
pub(crate) fn starter(directory: &Path) -> StartOptions {
    let plans = directory.join("plans");
    std::fs::create_dir(&plans).expect("a directory");
    std::fs::write(plans.join("t.yaml"), PLAN).expect("a plan");
    let program = directory.join("program");
    let script = "#!/bin/sh\ntrap 'exit 130' TERM\necho \"<b>$*</b>\"\ni=0; while [ $i -lt 3000 ]; do sleep 0.1; i=$((i+1)); done\n";
    vtax_testkit::programs::make(&program, script);
    StartOptions { plans, program, check }
}
