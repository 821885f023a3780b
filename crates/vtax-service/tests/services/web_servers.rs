//! Real nginx and Apache, each of its MPMs, and PHP behind them: started, asked, stopped, gone.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::{Bench, get, get_whole, service};
use vtax_plan::model::{Mpm, ServiceKind, WebOptions};
use vtax_service::{DOCUMENTS, RunningService, ServiceError, embedded, missing};
use vtax_sys::free_port;
use vtax_sys::require::{Need, complete, installed, need};

type Kind = fn(WebOptions) -> ServiceKind;
const SERVERS: [(&str, Kind, Mpm); 4] = [
    ("nginx", ServiceKind::Nginx, Mpm::Event),
    ("apache", ServiceKind::Apache, Mpm::Event),
    ("apache", ServiceKind::Apache, Mpm::Worker),
    ("apache", ServiceKind::Apache, Mpm::Prefork),
];

/// Runs `test` for each server that is installed, with PHP or without.
fn each_server(php: bool, test: impl Fn(&str, &Bench, ServiceKind, u16)) {
    for (name, kind, mpm) in SERVERS {
        let port = if in_namespace() { 80 } else { free_port() };
        let kind = kind(WebOptions { mpm, php, ..WebOptions::on(port) });
        if complete(missing(&service(name, kind.clone()))) {
            test(name, &Bench::new(), kind, port);
        }
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
    if in_namespace() || !need(&[Need::Ns]) || !installed(&["ip"]) {
        return;
    }
    let program = std::env::current_exe().expect("this program");
    let output = Command::new("unshare")
        .args(["-Urnmp", "--fork", "--mount-proc", "--kill-child", "sh", "-c"])
        .arg("ip link set lo up && exec timeout 600 \"$0\" web_servers:: --test-threads 1")
        .arg(program)
        .env(INSIDE, "1")
        .output()
        .expect("unshare is there");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("5 passed"), "{text}");
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
    each_server(false, |name, bench, kind, port| {
        let running = bench.start(&service(name, kind)).expect("it starts");
        assert!(running.version().to_lowercase().starts_with(name), "{}", running.version());
        assert!(running.startup().0 > 0);
        check_documents(&running);
        let pid = running.pids().next().expect("one process");
        let workers = children_once(pid, |workers| workers >= 2);
        assert!(workers >= 2, "{name} has {workers} workers on 2 CPUs");
        let stopped = running.stop().expect("it stops");
        assert!(!stopped.killed, "{name} had to be killed");
        assert!(stopped.status.is_some_and(vtax_sys::ProcessExit::success), "{stopped:?}");
        bench.assert_gone(port);
    });
}

/// The length of a page of the embedded server.
fn page_of_our_own(path: &str) -> usize {
    let (stop, (tell, told)) = (AtomicBool::new(false), mpsc::channel());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            embedded::http::serve(any, 1, &stop, |address| tell.send(address).expect("it is waited for"))
        });
        let body = get(told.recv().expect("it listens"), path).1;
        stop.store(true, Ordering::Relaxed);
        body.len()
    })
}

/// Pages come from PHP, and what lies in files doesn't.
#[test]
fn php_renders_pages_behind_a_web_server() {
    let length = page_of_our_own("/page/7");
    each_server(true, |name, bench, kind, port| {
        let running = bench.start(&service(name, kind)).expect("it starts");
        assert!(running.version().to_lowercase().starts_with(name), "{}", running.version());
        assert!(running.version().contains(", PHP/"), "{}", running.version());
        let address = running.address();
        let (head, page) = get_whole(address, "/page/7?x=1");
        let text = String::from_utf8_lossy(&page).into_owned();
        assert!(head.starts_with("HTTP/1.1 200 ") && head.contains("X-Powered-By: PHP/"), "{head}");
        // In chunks, where the server has them.
        for part in ["</title></head><body><table>\n<tr><td>", "</td></tr>\n</table></body></html>\n"] {
            assert!(text.contains(part), "{text}");
        }
        if !head.to_lowercase().contains("chunked") {
            assert_eq!(page.len(), length, "{text}");
        }
        check_documents(&running);
        for (file, ..) in DOCUMENTS {
            assert!(!get_whole(address, &format!("/{file}")).0.contains("X-Powered-By"), "{file}");
        }
        for path in ["/page/100001", "/page/", "/page/7x", "/page.php", "/page.php/7"] {
            let (status, body) = get(address, path);
            assert!(status.contains(" 404 "), "{path}: {status}");
            assert!(!String::from_utf8_lossy(&body).contains("<?php"), "{path}");
        }
        let pids: Vec<u32> = running.pids().collect();
        assert_eq!(pids.len(), 2, "PHP and {name}");
        assert_eq!(children_once(pids[0], |children| children == 8), 8, "PHP's processes on 2 CPUs");
        let stopped = running.stop().expect("it stops");
        assert!(!stopped.killed, "{name} had to be killed");
        bench.assert_gone(port);
    });
}

#[test]
fn a_web_server_that_is_dropped_goes_too() {
    each_server(false, |name, bench, kind, port| {
        drop(bench.start(&service(name, kind)).expect("it starts"));
        bench.assert_gone(port);
    });
}

#[test]
fn a_taken_port_is_told() {
    each_server(false, |name, bench, kind, port| {
        let taken = std::net::TcpListener::bind(("127.0.0.1", port)).expect("free a moment ago");
        let error = bench.start(&service(name, kind)).expect_err("the port is taken");
        assert!(matches!(&error, ServiceError::PortInUse { by: Some(_), .. }), "{error}");
        drop(taken);
        bench.assert_gone(port);
    });
}

/// How many children a process has once they are as many as they should be, or else after a while: some servers accept before they
/// have started all.
fn children_once(pid: u32, enough: impl Fn(usize) -> bool) -> usize {
    let until = Instant::now() + Duration::from_secs(20);
    loop {
        let children = children_of(pid).len();
        if enough(children) || Instant::now() > until {
            return children;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn children_of(pid: u32) -> Vec<u32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().filter_map(|p| p.parse().ok()).collect()
}
