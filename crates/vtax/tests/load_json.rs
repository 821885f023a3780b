//! What `vtax load --json` prints, against its schema; and what an interrupted load prints.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use vtax_sys::require::installed;
use vtax_testkit::programs::Killed;

#[path = "../../vtax-plan/tests/validate.rs"]
mod validate;
use validate::validate;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");
const SHORT: [&str; 5] = ["--warmup", "0s", "--duration", "300ms", "--json"];
/// Longer than the test, which ends it.
const LONG: [&str; 3] = ["--duration", "60s", "--json"];

/// A server, ended with this.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts vtax; its first line ends with its address.
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(VTAX).args(arguments).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let word = line.trim().rsplit(' ').next().unwrap_or_default();
        let address = word.trim_start_matches("sip:").trim_start_matches("ftp://").to_owned();
        Self { child, address }
    }

    /// Starts Redis where it is installed.
    fn redis() -> Option<Self> {
        if !installed(&["redis-server"]) {
            return None;
        }
        let port = vtax_sys::free_port().to_string();
        let mut command = Command::new("redis-server");
        command.args(["--port", &port, "--bind", "127.0.0.1", "--save", ""]).stdout(Stdio::piped());
        let mut child = command.spawn().ok()?;
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        assert!(lines.map_while(Result::ok).any(|line| line.contains("Ready to accept")));
        Some(Self { child, address: format!("127.0.0.1:{port}") })
    }
}

/// nginx with HTTP/2 in the clear, where it is installed; its files are in the directory.
fn http2(directory: &Path) -> Option<Server> {
    if !installed(&["nginx"]) {
        return None;
    }
    let address = format!("127.0.0.1:{}", vtax_sys::free_port());
    let root = directory.display();
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("{kind}_temp_path {root}/{kind};"))
        .collect();
    let configuration = directory.join("nginx.conf");
    let text = format!(
        "daemon off; master_process off; pid {root}/pid; error_log {root}/error.log; events {{}} \
         http {{ access_log off; {temporary} server {{ listen {address} http2; return 200 found; }} }}"
    );
    std::fs::write(&configuration, text).expect("a file");
    let mut command = Command::new("nginx");
    let child = command.arg("-c").arg(&configuration).stderr(Stdio::null()).spawn().ok()?;
    let server = Server { child, address };
    let mut tries = 0..500;
    while TcpStream::connect(&server.address).is_err() {
        assert!(tries.next().is_some(), "nginx doesn't listen");
        thread::sleep(Duration::from_millis(10));
    }
    Some(server)
}

/// A desktop where TigerVNC is installed: its server, and what shows something on it.
fn desktop() -> Option<[Server; 2]> {
    if !installed(&["Xvnc"]) {
        return None;
    }
    let port = vtax_sys::free_port().to_string();
    let mut command = Command::new("Xvnc");
    command.args([&format!(":{port}"), "-rfbport", &port, "-geometry", "640x480", "-depth", "24"]);
    command.args(["-SecurityTypes", "None", "-interface", "127.0.0.1", "-nolisten", "tcp"]);
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().ok()?;
    let server = Server { child, address: format!("127.0.0.1:{port}") };
    // It waits for the display.
    Some([server, Server::start(&["service", "desktop", "--display", &port])])
}

impl Drop for Server {
    fn drop(&mut self) {
        // An X server removes what it has in /tmp.
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        for _ in 0..500 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load(arguments: &[&str]) -> Output {
    Command::new(VTAX).arg("load").args(arguments).stdin(Stdio::null()).output().expect("vtax starts")
}

/// The output of a load that Ctrl-C ends once it has printed so many lines of progress.
fn interrupted(arguments: &[&str], lines: usize) -> Output {
    let mut command = Command::new(VTAX);
    command.arg("load").args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map(Killed::new).expect("vtax starts");
    let mut progress = BufReader::new(child.stderr.take().expect("piped")).lines();
    assert_eq!(progress.by_ref().take(lines).count(), lines, "{arguments:?} ended by itself");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    child.output().expect("it ends")
}

/// The JSON of a server for calls that Ctrl-C ended.
fn answered_calls() -> Output {
    let arguments = ["load", "sip", "--uas", "127.0.0.1:0", "--json"];
    let child = Command::new(VTAX).args(arguments).stdout(Stdio::piped()).spawn();
    let mut child = child.map(Killed::new).expect("vtax starts");
    let mut printed = BufReader::new(child.stdout.take().expect("piped"));
    // It says where it listens first.
    printed.read_line(&mut String::new()).expect("a line");
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let mut stdout = Vec::new();
    printed.read_to_end(&mut stdout).expect("JSON");
    Output { stdout, ..child.output().expect("it ends") }
}

/// The schema, with every key refused that it doesn't describe.
fn schema() -> Value {
    fn close(schema: &mut Value) {
        match schema {
            Value::Object(object) => {
                object.values_mut().for_each(close);
                if object.get("type") == Some(&json!("object")) && object.contains_key("properties") {
                    object.entry("additionalProperties").or_insert(json!(false));
                }
            }
            Value::Array(items) => items.iter_mut().for_each(close),
            _ => {}
        }
    }
    let output = Command::new(VTAX).args(["schema", "load"]).output().expect("vtax starts");
    let mut schema = serde_json::from_slice(&output.stdout).expect("JSON");
    close(&mut schema);
    schema
}

/// What was printed, which must be as the schema has it.
fn valid(definition: &str, output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    let schema = schema();
    for part in [&schema["$defs"][definition], &schema] {
        if let Err(error) = validate(&schema, part, &printed) {
            panic!("{definition}: {error}");
        }
    }
    printed
}

fn complete(definition: &str, arguments: &[&str]) {
    let output = load(&[arguments, &SHORT].concat());
    // 3 where the machine was too busy for a generator; 1 for a step in which by chance nothing was due.
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{output:?}");
    assert_eq!(valid(definition, &output)["ended"], "complete", "{arguments:?}");
}

#[test]
fn the_schema_file_is_what_is_printed() {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../schema/load.schema.json");
    let printed = Command::new(VTAX).args(["schema", "load"]).output().expect("vtax starts").stdout;
    assert_eq!(std::fs::read(path).expect("the file"), printed);
}

#[test]
fn requests_are_as_the_schema_has_them() {
    let server = Server::start(&["service", "http", "--listen", "127.0.0.1:0"]);
    let page = format!("{}/page/1", server.address);
    let missing = format!("{}/missing", server.address);
    complete("requests", &["http", &page, "--rate", "100/s"]);
    complete("requests", &["http", &page, "--connections", "2"]);
    complete("requests", &["http", &missing, "--rate", "100/s"]);
    complete("requests", &["http", &page, "--connections", "2", "--expect-text", "table", "-H", "X-A: b"]);
    let echo = format!("{}/echo", server.address);
    complete("requests", &["http", &echo, "--connections", "2", "--websocket", "5", "--data-size", "1KB"]);
    complete("search", &["http", &page, "--search", "--rate", "50/s", "--max", "60/s"]);
    if let Some(redis) = Server::redis() {
        complete("requests", &["redis", &redis.address, "--rate", "100/s", "--keys", "10"]);
    }
}

#[test]
fn http2_is_as_the_schema_has_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let Some(server) = http2(directory.path()) else { return };
    let url = format!("http://{}/", server.address);
    let arguments = ["http", &url, "--http2", "--streams", "4", "--connections", "2"];
    // In a closed loop nothing begins after this time, however late threads start.
    let long = ["--warmup", "0s", "--duration", "3s", "--json"];
    let output = load(&[&arguments[..], &long].concat());
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    let printed = valid("requests", &output);
    let found = &printed["result"]["details"]["http"]["http2"];
    assert_eq!(found["by"], "prior knowledge", "{printed}");
    assert!(found["streams"].as_u64() > Some(0), "{found}");
}

#[test]
fn https_is_as_the_schema_has_it_and_httperf_has_its_form() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = vtax_service::Certificate::new([127, 0, 0, 1].into()).expect("a certificate");
    let paths = ["certificate.pem", "key.pem"].map(|name| directory.path().join(name));
    for (path, text) in paths.iter().zip(&made.pem) {
        std::fs::write(path, text).expect("written");
    }
    let [certificate, key] = paths.each_ref().map(|path| path.to_str().expect("text"));
    let files = ["--certificate", certificate, "--key", key];
    let server = Server::start(&[&["service", "http", "--listen", "127.0.0.1:0"][..], &files].concat());
    let page = format!("{}/page/1", server.address);
    assert!(page.starts_with("https://"), "{page}");
    for more in [
        &["--connections", "2"][..],
        &["--connections", "2", "--requests-per-connection", "1", "--tls-version", "1.2", "--no-resume"],
        &["--rate", "50/s", "--cipher", "TLS_AES_128_GCM_SHA256", "--group", "x25519", "--sni", "a.example"],
    ] {
        complete("requests", &[&["http", &page][..], more].concat());
    }
    let short = ["--connections", "2", "--warmup", "0s", "--duration", "300ms", "--format", "httperf"];
    let printed = load(&[&["http", &page][..], &short].concat()).stdout;
    let printed = String::from_utf8(printed).expect("text");
    for line in ["Total: connections ", "Reply time [ms]: response ", "Errors: fd-unavail 0 addrunavail 0 "] {
        assert!(printed.lines().any(|own| own.starts_with(line)), "`{line}` is not in {printed}");
    }
}

#[test]
fn transfers_are_as_the_schema_has_them() {
    let files = tempfile::tempdir().expect("a directory");
    let directory = files.path().to_str().expect("text");
    let server = Server::start(&["service", "ftp", "--listen", "127.0.0.1:0", "--directory", directory]);
    let common = ["ftp", &server.address, "--files", "3", "--size", "1KiB"];
    for more in [
        &["--rate", "50/s", "--sessions", "--transfers", "2"][..],
        &["--connections", "2", "--stor", "1", "--list", "1", "--rest"],
        &["--connections", "2", "--large", "8KiB", "--data", "pasv"],
    ] {
        complete("requests", &[&common[..], more].concat());
    }
}

#[test]
fn users_of_desktops_are_as_the_schema_has_them() {
    let Some([server, _shown]) = desktop() else { return };
    let common = ["desktop", &server.address];
    complete("requests", &[&common[..], &["--connections", "1", "--encoding", "zrle"]].concat());
    complete(
        "requests",
        &[&common[..], &["--rate", "20/s", "--user-rate", "20/s", "--slow-motion"]].concat(),
    );
    let directory = tempfile::tempdir().expect("a directory");
    let picture = directory.path().join("picture.png");
    let more = ["--connections", "1", "--duration", "2s", "--json", "--picture"];
    let output = load(&[&common[..], &more, &[picture.to_str().expect("text")]].concat());
    let found = &valid("requests", &output)["result"]["details"]["desktop"];
    assert_eq!((&found["connected"], &found["size"]), (&json!(1), &json!([640, 480])), "{found}");
    assert!(std::fs::read(picture).expect("written").starts_with(b"\x89PNG"));
}

#[test]
fn calls_are_as_the_schema_has_them() {
    let server = Server::start(&["service", "sip", "--listen", "127.0.0.1:0", "--subscribers", "100"]);
    let quick = ["--registration-rate", "1000/s", "--ring", "10ms", "--hold", "10ms", "--drain", "5s"];
    let common = ["sip", &server.address, "--subscribers", "100", "--duration", "500ms", "--json"];
    for (definition, more) in
        [("sip", &["--rate", "50/s"][..]), ("sip_search", &["--search", "--rate", "20/s", "--max", "25/s"])]
    {
        let output = load(&[&common[..], &quick, more].concat());
        assert_eq!(valid(definition, &output)["ended"], "complete");
    }
    assert_eq!(valid("calls", &answered_calls())["ended"], "complete");
}

/// A call with sound.
const CALL: &str = include_str!("../../../plans/voice-calls-quick.xml");

#[test]
fn calls_after_a_scenario_are_as_the_schema_has_them() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("call.xml");
    std::fs::write(&file, CALL).expect("written");
    let file = file.to_str().expect("text");
    let arguments = ["load", "sip", "--uas", "127.0.0.1:0", "--media", "--json"];
    let answering = Command::new(VTAX).args(arguments).stdout(Stdio::piped()).spawn().expect("vtax starts");
    let mut answering = Killed::new(answering);
    let mut printed = BufReader::new(answering.stdout.take().expect("piped"));
    let mut line = String::new();
    printed.read_line(&mut line).expect("a line");
    let address = line.trim_end().rsplit_once("sip:").expect("an address").1;
    let calls = ["--rate", "20/s", "--duration", "500ms", "--pause", "300ms", "--json"];
    let output = load(&[&["sip", address, "--scenario-file", file, "--media"][..], &calls].concat());
    let found = valid("requests", &output);
    assert!(found["result"]["details"]["script"]["sound"]["calls"].as_u64() > Some(0), "{found}");
    kill_process(Pid::from_child(&answering), Signal::INT).expect("it runs");
    let mut stdout = Vec::new();
    printed.read_to_end(&mut stdout).expect("JSON");
    let status = answering.wait().expect("it ends");
    let answered = Output { stdout, status, stderr: Vec::new() };
    assert!(valid("script_figures", &answered)["sound"]["calls"].as_u64() > Some(0));
}

#[test]
fn sip_over_tls_is_as_the_schema_has_it() {
    let directory = tempfile::tempdir().expect("a directory");
    let made = vtax_service::Certificate::new([127, 0, 0, 1].into()).expect("a certificate");
    let [certificate, key, authority, scenario] =
        ["certificate.pem", "key.pem", "authority.der", "options.xml"]
            .map(|name| directory.path().join(name));
    for (path, text) in [(&certificate, &made.pem[0][..]), (&key, &made.pem[1]), (&scenario, OPTIONS)] {
        std::fs::write(path, text).expect("written");
    }
    std::fs::write(&authority, &made.certificate).expect("written");
    let [certificate, key, authority, scenario] =
        [&certificate, &key, &authority, &scenario].map(|path| path.to_str().expect("text"));
    let common = ["service", "sip", "--listen", "127.0.0.1:0", "--subscribers", "100"];
    let server = Server::start(&[&common[..], &["--certificate", certificate, "--key", key]].concat());
    let secure = [
        "--transport",
        "tls",
        "--authority",
        authority,
        "--tls-version",
        "1.3",
        "--duration",
        "500ms",
        "--json",
    ];
    let quick = ["--subscribers", "100", "--registration-rate", "1000/s", "--ring", "10ms", "--hold", "10ms"];
    let output = load(&[&["sip", &server.address, "--rate", "50/s"][..], &secure, &quick].concat());
    let found = valid("sip", &output);
    assert_eq!(found["result"]["connections"]["tls"]["failed"], 0, "{found}");
    let calls =
        ["sip", &server.address, "--scenario-file", scenario, "--connection-per-call", "--rate", "50/s"];
    let output = load(&[&calls[..], &secure].concat());
    let found = &valid("requests", &output)["result"]["details"]["script"];
    assert!(found["succeeded"].as_u64() > Some(0) && found["succeeded"] == found["calls"], "{found}");
}

/// A client's scenario that asks what the server can do.
const OPTIONS: &str = r#"<?xml version="1.0"?>
<scenario name="asks">
  <send><![CDATA[

OPTIONS sip:[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:a@[local_ip]:[local_port]>;tag=[call_number]
To: <sip:[remote_ip]:[remote_port]>
Call-ID: [call_id]
CSeq: 1 OPTIONS
Max-Forwards: 70
Content-Length: 0

  ]]></send>
  <recv response="200"/>
</scenario>
"#;

#[test]
fn network_tests_are_as_the_schema_has_them() {
    let server = Server::start(&["load", "tcp", "--server", "--listen", "127.0.0.1:0"]);
    let host = &server.address[..];
    complete("network", &["tcp", host, "--direction", "both", "--window", "64KiB"]);
    complete("network", &["udp", host, "--rate", "1Mbit"]);
    complete("network", &["udp", host, "--rate", "max"]);
    complete("network", &["rr", host]);
    complete("network", &["ping", host, "--probe", "udp"]);
    complete("network", &["voice", host, "--streams", "5"]);
}

#[test]
fn an_interrupted_load_says_so_and_what_it_measured() {
    let http = Server::start(&["service", "http", "--listen", "127.0.0.1:0"]);
    let page = format!("{}/page/1", http.address);
    let network = Server::start(&["load", "tcp", "--server", "--listen", "127.0.0.1:0"]);
    let sip = Server::start(&["service", "sip", "--listen", "127.0.0.1:0", "--subscribers", "100"]);
    let host = &network.address[..];
    let cases: [(&str, &[&str], &str); 7] = [
        ("requests", &["http", &page, "--rate", "100/s", "--warmup", "0s"], "/result/counts/ok"),
        ("network", &["tcp", host, "--warmup", "0s"], "/result/up/receiver/counted_bytes"),
        ("network", &["udp", host, "--rate", "1Mbit", "--warmup", "0s"], "/result/receiver/received"),
        ("network", &["rr", host, "--warmup", "0s"], "/result/transactions"),
        ("network", &["ping", host, "--probe", "udp", "--warmup", "0s"], "/result/answered"),
        ("network", &["voice", host, "--streams", "5", "--warmup", "0s"], "/result/down/packets/received"),
        (
            "sip",
            &["sip", &sip.address, "--subscribers", "100", "--scenario", "messaging", "--rate", "50/s"],
            "/result/phases/1/scenarios/0/succeeded",
        ),
    ];
    for (definition, arguments, measured) in cases {
        let output = interrupted(&[arguments, &LONG].concat(), 4);
        assert_eq!(output.status.code(), Some(130), "{arguments:?}: {output:?}");
        let printed = valid(definition, &output);
        assert_eq!(printed["ended"], "interrupted", "{arguments:?}");
        let count = printed.pointer(measured).and_then(Value::as_u64);
        assert!(count.is_some_and(|count| count > 0), "{arguments:?}: {measured} is {count:?} in {printed}");
    }
}

#[test]
fn a_load_that_is_interrupted_before_it_measured_anything_has_no_figures() {
    let server = Server::start(&["service", "http", "--listen", "127.0.0.1:0"]);
    let page = format!("{}/page/1", server.address);
    let arguments = [&["http", &page, "--rate", "100/s", "--warmup", "60s"][..], &LONG].concat();
    let printed = valid("requests", &interrupted(&arguments, 1));
    assert!(printed["ended"] == "interrupted" && printed["result"].is_null(), "{printed}");
    assert!(printed["rate"].is_null() && printed["invalid"].is_string(), "{printed}");
    let search = ["http", &page, "--search", "--json"];
    let printed = valid("search", &interrupted(&search, 1));
    assert!(printed["ended"] == "interrupted" && printed["capacity"]["steps"] == json!([]), "{printed}");
}

/// What is written to the server beforehand may take minutes, during which nothing heard Ctrl-C.
#[test]
fn a_load_that_is_interrupted_while_it_is_opened_ends() {
    for family in ["redis", "ftp"] {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = silent.local_addr().expect("an address").to_string();
        let mut command = Command::new(VTAX);
        command.args(["load", family, &address, "--rate", "50/s", "--timeout", "600s"]).args(LONG);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map(Killed::new).expect("vtax starts");
        let _connection = silent.accept().expect("it connects");
        kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
        let output = child.output().expect("it ends");
        assert_eq!(output.status.code(), Some(130), "{family}: {output:?}");
        let printed = valid("requests", &output);
        assert!(printed["ended"] == "interrupted" && printed["result"].is_null(), "{printed}");
        assert_eq!(printed["invalid"], "cancelled before the load had begun", "{printed}");
    }
}

/// A server that is named by mistake may be somebody's.
#[test]
fn values_of_others_are_not_written_over_unasked() {
    let Some(redis) = Server::redis() else { return };
    let common = ["redis", &redis.address, "--rate", "100/s", "--keys", "10"];
    complete("requests", &common);
    // Its own of before are no hindrance.
    complete("requests", &[&common[..], &["--seed", "7", "--value", "200B"]].concat());
    let mut stream = TcpStream::connect(&redis.address).expect("a connection");
    stream.write_all(b"SET key:000000000003 precious\r\n").expect("sent");
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(&answer, b"+OK\r\n");
    let refused = load(&[&common[..], &SHORT].concat());
    let said = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("`key:000000000003`") && said.contains("--overwrite"), "{said}");
    complete("requests", &[&common[..], &["--overwrite"]].concat());
}
