//! Real nginx and Apache: started, asked, stopped, gone.

use std::process::Command;

use crate::common::{Bench, get, service};
use vtax_plan::model::{ServiceKind, WebOptions};
use vtax_service::{DOCUMENTS, RunningService, ServiceError, missing};
use vtax_sys::free_port;
use vtax_sys::require::{Need, need};

type Kind = fn(WebOptions) -> ServiceKind;
const SERVERS: [(&str, Kind); 2] = [("nginx", ServiceKind::Nginx), ("apache", ServiceKind::Apache)];

/// Runs `test` for each server that is installed.
#[allow(clippy::print_stderr, reason = "a skipped test must say why on the test's own output")]
fn each_server(test: impl Fn(&str, &Bench, ServiceKind, u16)) {
    for (name, kind) in SERVERS {
        let port = if in_namespace() { 80 } else { free_port() };
        let kind = kind(WebOptions { port, workers: None, tls: false, http2: false });
        if let Some(missing) = missing(&service(name, kind.clone())) {
            eprintln!("skipped for {name}: {missing}");
            continue;
        }
        test(name, &Bench::new(), kind, port);
    }
}

const INSIDE: &str = "VTAX_TEST_INSIDE";

/// True in the copy of this program that [`web_servers_serve_where_there_is_one_user_only`] runs.
fn in_namespace() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// In a user namespace with uid 0 only there is no web user to drop to, Apache refuses to serve as
/// uid 0, and only root may use port 80: the tests above must pass all the same.
#[test]
fn web_servers_serve_where_there_is_one_user_only() {
    if in_namespace() || !need(&[Need::Ns]) {
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("unshare")
        .args(["-Urnmp", "--fork", "--mount-proc", "--kill-child", "sh", "-c"])
        .arg("ip link set lo up && exec timeout 60 \"$0\" web_servers:: --test-threads 1")
        .arg(program)
        .env(INSIDE, "1")
        .output()
        .expect("unshare is there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("4 passed"), "{text}");
}

fn check_documents(running: &RunningService) {
    for (first, second, size) in DOCUMENTS {
        for path in [first, second] {
            let (status, body) = get(running.address(), &format!("/{path}"));
            assert!(status.contains(" 200 "), "{path}: {status}");
            assert_eq!(body.len(), *size, "{path}");
        }
    }
    assert!(get(running.address(), "/missing").0.contains(" 404 "));
}

#[test]
fn a_web_server_serves_and_goes() {
    each_server(|name, bench, kind, port| {
        let running = bench.start(&service(name, kind)).expect("it starts");
        assert!(running.version().to_lowercase().starts_with(name), "{}", running.version());
        assert!(running.startup().0 > 0);
        check_documents(&running);
        let pid = running.pids().next().expect("one process");
        let children = children_of(pid);
        assert!(children.len() >= 2, "{name} has {} workers on 2 CPUs", children.len());
        let stopped = running.stop().expect("it stops");
        assert!(!stopped.killed, "{name} had to be killed");
        assert!(stopped.status.is_some_and(vtax_sys::Ended::success), "{stopped:?}");
        bench.assert_gone(port);
    });
}

#[test]
fn a_web_server_that_is_dropped_goes_too() {
    each_server(|name, bench, kind, port| {
        drop(bench.start(&service(name, kind)).expect("it starts"));
        bench.assert_gone(port);
    });
}

#[test]
fn a_taken_port_is_told() {
    each_server(|name, bench, kind, port| {
        let taken = std::net::TcpListener::bind(("127.0.0.1", port)).expect("free a moment ago");
        let error = bench.start(&service(name, kind)).expect_err("the port is taken");
        assert!(matches!(&error, ServiceError::PortInUse { by: Some(_), .. }), "{error}");
        drop(taken);
        bench.assert_gone(port);
    });
}

fn children_of(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|p| p.parse().ok()).collect()
}
