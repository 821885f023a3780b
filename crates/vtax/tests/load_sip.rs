//! `vtax load sip` alone, against vtax's own servers.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

/// A server of the command line, ended with this.
struct Server {
    child: Child,
    address: String,
}

impl Server {
    /// Starts it; its first line ends with its address.
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(VTAX).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit("sip:").next().unwrap_or_default().to_owned();
        Self { child, address }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load(arguments: &[&str]) -> Output {
    Command::new(VTAX).args(["load", "sip"]).args(arguments).stdin(Stdio::null()).output().unwrap()
}

fn json(output: &Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text)
        .unwrap_or_else(|e| panic!("{e}: {text}{}", String::from_utf8_lossy(&output.stderr)))
}

/// A sum over the scenarios of a phase.
fn sum(result: &Value, phase: usize, key: &str) -> u64 {
    let scenarios = result["result"]["phases"][phase]["scenarios"].as_array().expect("scenarios");
    scenarios.iter().map(|s| s[key].as_u64().expect("a count")).sum()
}

#[test]
fn a_mix_through_the_embedded_server() {
    let server = Server::start(&["service", "sip", "--listen", "127.0.0.1:0", "--subscribers", "400"]);
    // Nothing is sent again because a busy machine is slow.
    let common = [&server.address[..], "--subscribers", "400", "--registered", "50%", "--t1", "5s"];
    let short =
        ["--registration-rate", "400/s", "--rate", "60/s:1s,90/s:1s", "--ring", "10ms", "--hold", "50ms"];
    let output = load(&[&common[..], &short, &["--drain", "30s", "--json", "--quiet"]].concat());
    // 3 where the machine was too busy for the generator.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
    let result = json(&output);
    let names: Vec<&str> =
        result["phases"].as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(names, ["pre-registration", "step 1", "step 2"]);
    assert_eq!((sum(&result, 0, "attempts"), sum(&result, 0, "succeeded")), (200, 200));
    for step in [1, 2] {
        let (attempts, succeeded) = (sum(&result, step, "attempts"), sum(&result, step, "succeeded"));
        assert!(attempts > 20 && succeeded == attempts, "{succeeded} of {attempts}: {result}");
    }
    assert_eq!(result["result"]["stray"], serde_json::json!({}));
    let table = load(&[&common[..], &["--rate", "20/s", "--duration", "300ms", "--quiet"]].concat());
    let text = String::from_utf8_lossy(&table.stdout);
    assert!(matches!(table.status.code(), Some(0 | 3)) && text.contains("PX_TRT-REG1"), "{text}");
}

#[test]
fn calls_without_a_registrar() {
    let uas = Server::start(&["load", "sip", "--uas", "127.0.0.1:0"]);
    let arguments =
        [&uas.address[..], "--unregistered", "--rate", "200/s", "--duration", "1s", "--json", "-q"];
    let result = json(&load(&arguments));
    let (attempts, succeeded) = (sum(&result, 0, "attempts"), sum(&result, 0, "succeeded"));
    assert!(attempts > 100 && succeeded == attempts, "{succeeded} of {attempts}");
    // INVITE, ACK and BYE; 180 and two times 200.
    let traffic = &result["traffic"];
    assert!(traffic["requests_sent"].as_u64() >= Some(3 * attempts), "{traffic}");
    assert!(traffic["responses_received"].as_u64() >= Some(3 * attempts), "{traffic}");
}

#[test]
fn a_search_ends_below_what_it_may_not_exceed() {
    let uas = Server::start(&["load", "sip", "--uas", "127.0.0.1:0"]);
    let search = ["--search", "--max", "80/s", "--rate", "40/s", "--duration", "300ms"];
    let output = load(&[&[&uas.address[..], "--unregistered", "--json", "-q"][..], &search].concat());
    // On a machine that is busy with other things the generator may be late: then it says so.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(json(&output).is_object());
}

#[test]
fn subscribers_are_written_for_other_servers() {
    let directory = tempfile::tempdir().unwrap();
    for (name, part) in [("users.csv", "u007,"), ("users.sql", "'u007'"), ("users.conf", "[u007]")] {
        let file = directory.path().join(name);
        let path = file.to_str().unwrap();
        let output = load(&["--provision", path, "--subscribers", "8", "--public-format", "u%03d"]);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains(part) && !text.contains("u008"), "{name}: {text}");
    }
}

#[test]
fn what_cannot_be_is_said() {
    let refused = |arguments: &[&str], code: i32, words: &str| {
        let output = load(arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(words), "{arguments:?}: {text}");
    };
    refused(&[], 2, "which service");
    refused(&["127.0.0.1", "--mix", "calling=50%,dancing=50%"], 2, "dancing");
    refused(&["127.0.0.1", "--rate", "10/s..20/s:1s"], 2, "one rate");
    refused(&["--provision", "users.txt"], 2, ".csv, .sql or .conf");
    refused(&["127.0.0.1", "--public-format", "same"], 2, "%06d");
    refused(&["127.0.0.1:x"], 2, "127.0.0.1:x");
}

#[test]
fn nobody_there_is_a_result_with_its_cause() {
    let nobody = format!("127.0.0.1:{}", vtax_sys::free_port());
    let quick = ["--unregistered", "--t1", "5ms", "--rate", "50/s", "--duration", "200ms", "--json", "-q"];
    let output = load(&[&[&nobody[..]][..], &quick].concat());
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let result = json(&output);
    assert!(result["invalid"].as_str().is_some_and(|why| why.contains("calling timeout")), "{result}");
    let attempts = sum(&result, 0, "attempts");
    let causes = &result["result"]["phases"][0]["scenarios"][0]["inadequate"];
    assert_eq!(causes["timeout"].as_u64(), Some(attempts), "{result}");
    assert!(result["result"]["stray"]["refused"].as_u64() > Some(0), "{result}");
}

const UAC: &str = r#"<?xml version="1.0" encoding="ISO-8859-1" ?>
<scenario name="a call">
  <send retrans="500" start_rtd="invite"><![CDATA[
    INVITE sip:[field0]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:[service]@[local_ip]:[local_port]>;tag=[pid]-[call_number]
    To: <sip:[field0]@[remote_ip]:[remote_port]>
    Call-ID: [call_id]
    CSeq: [cseq] INVITE
    Contact: <sip:[local_ip]:[local_port]>
    Content-Length: [len]

    v=0
  ]]></send>
  <recv response="180" optional="true"/>
  <recv response="200" rtd="invite"><action>
    <ereg regexp="tag=([0-9]+)" search_in="hdr" header="To:" check_it="true" assign_to="all,tag"/>
  </action></recv>
  <send><![CDATA[
    ACK sip:[field0]@[remote_ip]:[remote_port] SIP/2.0
    Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
    From: <sip:[service]@[local_ip]:[local_port]>;tag=[pid]-[call_number]
    To: <sip:[field0]@[remote_ip]:[remote_port]>;tag=[$tag]
    Call-ID: [call_id]
    CSeq: [cseq] ACK
    Content-Length: 0
  ]]></send>
</scenario>
"#;

const UAS: &str = r#"<scenario name="an answer">
  <recv request="INVITE"/>
  <send><![CDATA[
    SIP/2.0 180 Ringing
    [last_Via:]
    [last_From:]
    [last_To:];tag=[call_number]
    [last_Call-ID:]
    [last_CSeq:]
    Content-Length: 0
  ]]></send>
  <pause distribution="uniform" min="1" max="3"/>
  <send retrans="500"><![CDATA[
    SIP/2.0 200 OK
    [last_Via:]
    [last_From:]
    [last_To:];tag=[call_number]
    [last_Call-ID:]
    [last_CSeq:]
    Contact: <sip:[local_ip]:[local_port]>
    Content-Length: 0
  ]]></send>
  <recv request="ACK"/>
</scenario>
"#;

#[test]
fn a_scenario_calls_another() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let (uac, uas, users) =
        (file("uac.xml", UAC), file("uas.xml", UAS), file("users.csv", "RANDOM\nanna\nbert\n"));
    let server = Server::start(&["load", "sip", "127.0.0.1:0", "--uas", "--scenario-file", &uas, "--quiet"]);
    let common = [&server.address[..], "--scenario-file", &uac, "--inf", &users];
    let output = load(&[&common[..], &["--rate", "50/s", "--duration", "1s", "--json", "--quiet"]].concat());
    // 3 where the machine was too busy for the generator.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&output.stderr));
    let result = json(&output);
    let (counts, script) = (&result["result"]["counts"], &result["result"]["details"]["script"]);
    assert!(counts["ok"].as_u64().unwrap() > 20, "{counts} {script}");
    // Starts that a busy machine made too late are missed.
    assert_eq!(counts["ok"], counts["sent"], "{script}");
    assert_eq!((&script["failed"], &script["timers"][0]["name"]), (&serde_json::json!({}), &"invite".into()));
    assert_eq!(script["commands"][1]["done"], script["calls"], "each call rang");
    assert_eq!(result["spec"]["protocol"]["user"], "service");
    // The answer takes 1 ms at least.
    assert!(result["latency_ns"]["p50"].as_u64().unwrap() >= 1_000_000, "{}", result["latency_ns"]);
}

/// Passwords are used and told nobody, however they are given.
#[test]
fn passwords_are_not_printed() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.into_os_string().into_string().unwrap()
    };
    let secret = "hush-42";
    let (uac, uas, word) = (file("uac.xml", UAC), file("uas.xml", UAS), file("word", "hush-42\n"));
    let server = Server::start(&["load", "sip", "127.0.0.1:0", "--uas", "--scenario-file", &uas, "--quiet"]);
    let users = file("users.csv", "SEQUENTIAL\nanna\n");
    let calls = [
        &server.address[..],
        "--scenario-file",
        &uac,
        "--inf",
        &users,
        "--rate",
        "20/s",
        "--duration",
        "300ms",
    ];
    let registrar = Server::start(&[
        "service",
        "sip",
        "--listen",
        "127.0.0.1:0",
        "--subscribers",
        "20",
        "--password-file",
        &word,
    ]);
    let subscribers = [
        &registrar.address[..],
        "--subscribers",
        "20",
        "--scenario",
        "messaging",
        "--rate",
        "20/s",
        "--duration",
        "300ms",
    ];
    for (load_of, option) in [
        (&calls[..], ["--auth-password", secret]),
        (&calls[..], ["--auth-password-file", &word]),
        (&subscribers[..], ["--password", secret]),
        (&subscribers[..], ["--password-file", &word]),
    ] {
        for form in [&["--json"][..], &[]] {
            let output = load(&[load_of, &option, form].concat());
            let told = [&output.stdout[..], &output.stderr].concat();
            let told = String::from_utf8_lossy(&told);
            assert!(matches!(output.status.code(), Some(0 | 3)), "{option:?}: {told}");
            assert!(!told.contains(secret), "{option:?}: {told}");
        }
    }
    let output = load(&[&calls[..], &["--auth-password-file", "/nowhere"]].concat());
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot read it"));
}

#[test]
fn what_a_scenario_has_that_is_not_supported_is_named_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.xml");
    std::fs::write(
        &path,
        UAC.replace("<recv response=\"180\"", "<recvCmd/><rtp_echo/>\n<recv response=\"180\""),
    )
    .unwrap();
    let output = load(&["127.0.0.1:9", "--scenario-file", path.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && output.stdout.is_empty(), "{told}");
    let line = UAC.lines().position(|line| line.contains("\"180\"")).unwrap() + 1;
    for what in ["<recvCmd> (3PCC) isn't supported", "<rtp_echo> isn't supported"] {
        assert!(told.contains(&format!("x.xml, line {line}: {what}")), "{told}");
    }
    let output = load(&["127.0.0.1:9", "--scenario-file", path.to_str().unwrap(), "--mix", "calling"]);
    assert!(!output.status.success(), "a scenario and a mix exclude each other");
}
