//! SIP sessions and sipp call each other, and Wireshark's dissector reads what they say.

#[path = "sip_support/mod.rs"]
mod support;

#[path = "sip_support/peer.rs"]
mod peer;

#[path = "sip_support/sipp.rs"]
mod sipp;

use std::collections::HashSet;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use peer::*;
use support::*;
use vtax_load::sip::*;
use vtax_plan::model::{Scenario, SipTransport, Spread};
use vtax_sys::free_port;
use vtax_sys::require::{Need, installed, need};
use vtax_units::Nanos;

/// sipp with one of its built-in scenarios; it ends by itself after 30 s at the latest.
fn sipp(directory: &Path, arguments: &[&str]) -> Child {
    Command::new("sipp")
        .args(arguments)
        .args(["-i", "127.0.0.1", "-nostdin", "-timeout", "30s"])
        .current_dir(directory)
        .env("TERM", "dumb")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn sipp_answers_our_calls() {
    if !installed(&["sipp"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let port = free_port();
    let mut uas = sipp(directory.path(), &["-sn", "uas", "-p", &port.to_string()]);
    sipp::until_there(port, SipTransport::Udp);
    let mut spec = spec(SocketAddr::from(([127, 0, 0, 1], port)), 500);
    spec.workload.hold_time = Spread::Constant(Nanos::from_millis(20));
    // As sipp has it: what it loses is sent again soon.
    spec.workload.t1 = Nanos::from_millis(500);
    let mut session = SipSession::open_direct(&spec).unwrap();
    let result = run(&mut session, &profile(vec![mix("step 1", 200.0, 1_500)]));
    uas.kill().unwrap();
    uas.wait().unwrap();
    let calls = &result.phases[0].scenarios[0];
    assert!(calls.attempts > 150, "{calls:?}");
    assert_eq!(calls.succeeded, calls.attempts, "{calls:?} {:?}", result.stray);
    assert_eq!(result.phases[0].metrics.len(), 1);
}

#[test]
fn sipp_calls_us() {
    if !installed(&["sipp"]) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let (stop, (sender, receiver)) = (AtomicBool::new(false), mpsc::channel());
    let traffic = thread::scope(|scope| {
        let stop = &stop;
        let uas = scope.spawn(move || {
            answer_calls(([127, 0, 0, 1], 0).into(), stop, |address| sender.send(address).unwrap())
        });
        let target = receiver.recv_timeout(Duration::from_secs(30)).unwrap().to_string();
        let port = free_port().to_string();
        let arguments = ["-sn", "uac", &target, "-p", &port, "-m", "300", "-r", "200", "-d", "10"];
        let ended = sipp(directory.path(), &arguments).wait().unwrap();
        stop.store(true, Relaxed);
        // It ends with 0 where every call was successful.
        assert!(ended.success(), "{ended}");
        uas.join().unwrap().unwrap()
    });
    assert!(traffic.requests_received >= 900 && traffic.responses_sent >= 900, "{traffic:?}");
}

/// What Wireshark made of the messages of one run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Dissected {
    traffic: Traffic,
    malformed: u64,
    /// Sent by the session and marked as sent again.
    marked: u64,
}

/// A capture of the UDP traffic of a port on loopback, as long as it lives.
struct Capture {
    child: Child,
    directory: tempfile::TempDir,
    port: u16,
}

impl Capture {
    fn start(port: u16) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut child = Command::new("dumpcap")
            .args(["-i", "lo", "-B", "16", "-f", &format!("udp port {port}"), "-w"])
            .arg(directory.path().join("capture"))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        // `File:` comes once it captures.
        assert!(lines.any(|line| line.unwrap().starts_with("File:")), "dumpcap did not begin");
        thread::spawn(move || lines.for_each(drop));
        Self { child, directory, port }
    }

    /// Ends the capture and reads it; `own` says which messages the session has sent.
    fn dissect(mut self) -> Dissected {
        let capture = self.directory.path().join("capture");
        until_it_grows_no_more(&capture);
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let limit = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().unwrap().is_none() {
            assert!(Instant::now() < limit, "dumpcap did not end");
            thread::sleep(Duration::from_millis(20));
        }
        let fields = [
            "udp.srcport",
            "sip.Method",
            "sip.Status-Code",
            "sip.resend",
            "_ws.malformed",
            "sip.Via.branch",
            "sip.Call-ID",
            "sip.CSeq",
        ];
        let output = Command::new("tshark")
            .arg("-r")
            .arg(&capture)
            .args(["-d", &format!("udp.port=={},sip", self.port), "-T", "fields", "-E", "separator=/t"])
            .args(fields.iter().flat_map(|field| ["-e", field]))
            .stderr(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success());
        let (mut found, mut seen) = (Dissected::default(), HashSet::new());
        for line in String::from_utf8(output.stdout).unwrap().lines() {
            let values: Vec<&str> = line.splitn(6, '\t').collect();
            let [source, method, status, resend, malformed, names] = values[..] else { panic!("{line}") };
            let own = source != self.port.to_string();
            let traffic = &mut found.traffic;
            let count = match (own, status.is_empty()) {
                (true, true) => &mut traffic.requests_sent,
                (true, false) => &mut traffic.responses_sent,
                (false, true) => &mut traffic.requests_received,
                (false, false) => &mut traffic.responses_received,
            };
            *count += 1;
            // What is sent again has the same names as before; Wireshark's own mark knows less, as it
            // looks at one direction of a Call-ID.
            let again = own && !seen.insert(format!("{method} {status} {names}"));
            traffic.retransmissions += u64::from(again);
            found.marked += u64::from(own && matches!(resend, "1" | "True"));
            found.malformed += u64::from(!malformed.is_empty() || (method.is_empty() && status.is_empty()));
        }
        found
    }
}

/// Waits until all that was sent is in a file that is captured to.
fn until_it_grows_no_more(file: &Path) {
    let length = || std::fs::metadata(file).map_or(0, |file| file.len());
    let (mut last, mut since) = (length(), Instant::now());
    while since.elapsed() < Duration::from_secs(1) {
        thread::sleep(Duration::from_millis(20));
        let now = length();
        if now != last {
            (last, since) = (now, Instant::now());
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn can_capture() -> bool {
    installed(&["tshark"]) && need(&[Need::Root])
}

#[test]
fn wireshark_counts_the_same_messages() {
    if !can_capture() {
        return;
    }
    let server = Embedded::start(true);
    let capture = Capture::start(server.address.port());
    let mut spec = spec(server.address, 300);
    spec.workload.mix = Scenario::ALL.map(|scenario| part(scenario, 0.1)).to_vec();
    let mut session = SipSession::open(&spec).unwrap();
    let result = run(&mut session, &profile(vec![registration(300.0), mix("step 1", 100.0, 2_000)]));
    let failed: u64 = result.phases.iter().flat_map(|p| &p.scenarios).map(|s| s.inadequate_total()).sum();
    assert_eq!(failed, 0, "{result:?}");
    let found = capture.dissect();
    assert_eq!(
        found,
        Dissected { traffic: session.traffic(), malformed: 0, marked: session.traffic().retransmissions }
    );
    assert!(found.traffic.requests_sent > 1_000, "{found:?}");
}

#[test]
fn wireshark_counts_the_same_retransmissions() {
    if !can_capture() {
        return;
    }
    let mut number = 0_u64;
    let mut proxy = Proxy::new(false, move |_| {
        number += 1;
        if number.is_multiple_of(9) { Fate::Lose } else { Fate::Pass }
    });
    let peer = Peer::start(move |socket, bytes, from| proxy.act(socket, bytes, from));
    let capture = Capture::start(peer.address.port());
    let mut spec = spec(peer.address, 200);
    spec.workload.t1 = Nanos::from_millis(100);
    spec.workload.mix = vec![part(Scenario::Messaging, 0.5), part(Scenario::Registration, 0.5)];
    let mut session = SipSession::open(&spec).unwrap();
    let mut first = registration(200.0);
    first.ihs_limit = None;
    let result = run(&mut session, &profile(vec![first, mix("step 1", 50.0, 1_500)]));
    let again: u64 = result.phases.iter().flat_map(|p| &p.scenarios).map(|s| s.retransmissions).sum();
    let (found, own) = (capture.dissect(), session.traffic());
    assert!(again > 10 && own.retransmissions >= again, "{again} {own:?}");
    assert_eq!((found.traffic, found.malformed), (own, 0));
    assert!(found.marked > 0 && found.marked <= own.retransmissions, "{found:?}");
}
