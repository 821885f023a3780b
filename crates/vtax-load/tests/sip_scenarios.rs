//! SIPp's own scenarios against SIPp as the other side, both ways, and what is refused in them.

#[path = "sip_support/sipp.rs"]
mod sipp;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use vtax_load::sip::{ScriptFigures, ScriptSession, ScriptSettings, ScriptSpec, answer_script};
use vtax_load::{
    ArrivalProcess, ConnectionPool, Control, LoadError, LoadResult, Model, Part, RequestStep, Segment, Verify,
};
use vtax_plan::model::{SipTls, SipTransport};
use vtax_sys::free_port;
use vtax_units::{CpuSet, Nanos, Rate};

/// A scenario that SIPp has built in, as it prints it; `None` where SIPp isn't installed.
fn stock(name: &str) -> Option<String> {
    if !vtax_sys::require::installed(&["sipp"]) {
        return None;
    }
    let output = Command::new("sipp").args(["-sd", name]).stdin(Stdio::null()).output().expect("it starts");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// SIPp; it ends by itself after 30 s at the latest.
fn sipp(directory: &Path, arguments: &[&str]) -> Child {
    Command::new("sipp")
        .args(arguments)
        .args(["-i", "127.0.0.1", "-nostdin", "-timeout", "30s", "-trace_err"])
        .current_dir(directory)
        .env("TERM", "dumb")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// What SIPp wrote of its errors in its directory, but not all of many.
fn errors_of(directory: &Path) -> String {
    let logs = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let logs = logs.filter(|path| path.to_string_lossy().ends_with("_errors.log"));
    logs.flat_map(|path| std::fs::read_to_string(path).unwrap().chars().take(2_000).collect::<Vec<_>>())
        .collect()
}

fn spec(target: SocketAddr, scenario: &str, transport: SipTransport) -> ScriptSpec {
    ScriptSpec {
        pool: ConnectionPool {
            target,
            connections: 500,
            // SIPp's branching client pauses for 5 s before its BYE.
            timeout: Nanos::from_secs(20),
            cpus: CpuSet::default(),
        },
        settings: ScriptSettings { drain: Nanos::from_secs(8), ..ScriptSettings::default() },
        scenario: scenario.to_owned(),
        password: ScriptSpec::PASSWORD.to_owned(),
        injections: Vec::new(),
        local: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        transport,
        tls: SipTls::default(),
        verify: Verify::Nothing,
        connection_per_call: false,
        seed: 1,
        part: Part::default(),
    }
}

fn run(spec: &ScriptSpec, rate: f64) -> (LoadResult, ScriptFigures) {
    let duration = Nanos::from_millis(1_500);
    let step = RequestStep {
        model: Model::Open {
            arrivals: ArrivalProcess::Poisson,
            profile: vec![Segment { from: Rate(rate), to: Rate(rate), duration }],
        },
        warmup: Nanos::ZERO,
        duration,
        seed: 1,
        samples: false,
        interval: Nanos::from_millis(500),
        drain: Nanos::ZERO,
    };
    let result = ScriptSession::open(spec).unwrap().run_step(&step, &Control::new()).unwrap();
    let figures = result.details.as_ref().and_then(|details| details.script.as_deref()).unwrap().clone();
    (result, figures)
}

/// Calls SIPp's server scenario with SIPp's client scenario.
fn call_sipp(client: &str, server: &str, transport: SipTransport) -> Option<(LoadResult, ScriptFigures)> {
    let scenario = stock(client)?;
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let mode = if transport == SipTransport::Tcp { "t1" } else { "u1" };
    let mut uas = sipp(directory.path(), &["-sn", server, "-p", &port.to_string(), "-t", mode]);
    sipp::until_there(port, transport);
    let found = run(&spec(([127, 0, 0, 1], port).into(), &scenario, transport), 100.0);
    uas.kill().unwrap();
    uas.wait().unwrap();
    Some(found)
}

/// All calls that were begun; a busy machine may have kept the last of them from that.
fn expect_all_answered(result: &LoadResult, figures: &ScriptFigures) {
    let counts = &result.counts;
    assert!(counts.ok > 80, "{counts:?} {figures:?}");
    assert_eq!(counts.ok, counts.intended - counts.missed, "{counts:?} {figures:?}");
}

#[test]
fn its_client_calls_its_server() {
    for transport in [SipTransport::Udp, SipTransport::Tcp] {
        let Some((result, figures)) = call_sipp("uac", "uas", transport) else { return };
        expect_all_answered(&result, &figures);
        assert_eq!(figures.timers[0].times.len(), figures.calls);
        assert!(figures.failed.is_empty() && result.latency.len() == result.counts.ok, "{figures:?}");
    }
}

#[test]
fn its_regular_expressions_find_what_sipp_says() {
    let Some((result, figures)) = call_sipp("regexp", "uas", SipTransport::Udp) else { return };
    expect_all_answered(&result, &figures);
}

#[test]
fn its_branches_are_taken() {
    let Some((result, figures)) = call_sipp("branchc", "branchs", SipTransport::Udp) else { return };
    assert!(result.counts.intended > 80, "{figures:?}");
    // The pauses of calls that began last may be longer than the drain; none has failed.
    assert!(figures.failed.is_empty(), "{figures:?}");
}

/// SIPp's client scenario calls its server scenario as vtax carries it out.
fn sipp_calls(client: &str, server: &str, pause: &str) -> Option<ScriptFigures> {
    let scenario = stock(server)?;
    let directory = tempfile::tempdir().unwrap();
    let (stop, (sender, receiver)) = (AtomicBool::new(false), mpsc::channel());
    let spec = spec(([127, 0, 0, 1], 0).into(), &scenario, SipTransport::Udp);
    Some(thread::scope(|scope| {
        let (stop, spec) = (&stop, &spec);
        let server = scope.spawn(move || answer_script(spec, stop, |address| sender.send(address).unwrap()));
        let target = receiver.recv_timeout(Duration::from_secs(30)).unwrap().to_string();
        let port = free_port().to_string();
        let arguments = ["-sn", client, &target, "-p", &port, "-m", "100", "-r", "100", "-d", pause];
        let ended = sipp(directory.path(), &arguments).wait().unwrap();
        stop.store(true, Relaxed);
        let figures = server.join().unwrap().unwrap();
        // It ends with 0 where every call was successful.
        assert!(ended.success(), "{ended}: {} {figures:?}", errors_of(directory.path()));
        figures
    }))
}

#[test]
fn its_server_answers_its_client() {
    let Some(figures) = sipp_calls("uac", "uas", "10") else { return };
    assert_eq!((figures.calls, figures.succeeded), (100, 100), "{figures:?}");
    assert!(figures.traffic.requests_received >= 300, "{figures:?}");
}

#[test]
fn its_branching_server_answers_its_client() {
    let Some(figures) = sipp_calls("branchc", "branchs", "10") else { return };
    assert_eq!(figures.calls, 100, "{figures:?}");
    assert!(figures.failed.is_empty(), "{figures:?}");
}

#[test]
fn what_is_not_supported_is_named_with_its_line_before_anything_is_sent() {
    let Some(scenario) = stock("uac_pcap") else { return };
    let error =
        ScriptSession::open(&spec(([127, 0, 0, 1], 9).into(), &scenario, SipTransport::Udp)).unwrap_err();
    let LoadError::Spec { field: "scenario", reason } = error else { panic!("{error}") };
    let line = scenario.lines().position(|line| line.contains("play_pcap_audio")).unwrap() + 1;
    assert!(reason.contains(&format!("line {line}: <exec play_pcap_audio> isn't supported")), "{reason}");
    // The two others of third parties' calls answer calls as any server does.
    for name in ["3pcc-C-A", "3pcc-C-B"] {
        let scenario = stock(name).unwrap();
        let error =
            ScriptSession::open(&spec(([127, 0, 0, 1], 9).into(), &scenario, SipTransport::Udp)).unwrap_err();
        assert!(error.to_string().contains("3PCC"), "{name}: {error}");
    }
}

#[test]
fn a_server_s_scenario_makes_no_calls() {
    let Some(scenario) = stock("uas") else { return };
    let error =
        ScriptSession::open(&spec(([127, 0, 0, 1], 9).into(), &scenario, SipTransport::Udp)).unwrap_err();
    assert!(error.to_string().contains("makes none"), "{error}");
}
