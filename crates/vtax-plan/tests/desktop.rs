//! Plans of the family `desktop`: what their keys mean, and what is refused.

use vtax_plan::model::{
    DesktopActions, DesktopEncoding, DesktopPace, DesktopSecurity, Plan, ServiceKind, Workload,
};
use vtax_plan::{PlanErrors, parse};
use vtax_units::{Nanos, Rate};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native, container]
services: tigervnc
workload: {desktop: {}}
measure: [{latency: {load: 8/s}}, throughput]
";

fn plan(overrides: &[&str]) -> Plan {
    parse("p", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(overrides: &[&str]) -> String {
    match parse("p", PLAN.as_bytes(), overrides) {
        Err(errors @ PlanErrors::Invalid(_)) => errors.to_string(),
        other => panic!("{overrides:?} is refused: {other:?}"),
    }
}

#[test]
fn defaults_are_what_the_documentation_says() {
    let plan = plan(&[]);
    assert_eq!(plan.cells.len(), 2);
    let ServiceKind::Tigervnc(desktop) = &plan.cells[0].service.kind else { panic!("{:?}", plan.cells[0]) };
    assert_eq!((desktop.port, desktop.sessions, desktop.width, desktop.height), (5901, 2, 1024, 768));
    assert_eq!((desktop.security, desktop.tunnel), (DesktopSecurity::None, false));
    let Workload::Desktop(workload) = &plan.cells[0].workload else { panic!("{:?}", plan.cells[0]) };
    let users = &workload.users;
    assert_eq!(users.actions, DesktopActions { typing: 6, scroll: 2, drag: 1, film: 1 });
    assert_eq!((users.rate, users.think, users.pace), (Rate(4.0), Nanos::ZERO, DesktopPace::RealTime));
    assert_eq!((users.encoding, users.copies, users.continuous), (DesktopEncoding::Tight, true, true));
    assert_eq!((workload.timeout, users.stay), (Nanos::from_secs(2), Nanos::ZERO));
}

#[test]
fn lists_make_cells() {
    let plan = plan(&[
        "workload.desktop.encoding=[zrle, tight, hextile]",
        "services={x11vnc: {sessions: [2, 10], security: password, tunnel: [true, false]}}",
    ]);
    assert_eq!(plan.cells.len(), 2 * 3 * 2 * 2);
    let ServiceKind::X11vnc(desktop) = &plan.cells[0].service.kind else { panic!("{:?}", plan.cells[0]) };
    assert_eq!((desktop.security, desktop.tunnel), (DesktopSecurity::Password, true));
    let facts = plan.cells[0].service.kind.facts();
    assert_eq!(facts.packages, ["x11vnc", "xvfb", "stunnel4"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (overrides, words) in [
        ("services={tigervnc: {sessions: 0}}", "a user needs a desktop"),
        ("services={tigervnc: {sessions: 100, port: 65500}}", "100 desktops have no ports from 65500 on"),
        ("services={tigervnc: {width: 100}}", "a desktop is 400 to 3840 pixels wide"),
        ("services={tigervnc: {height: 9000}}", "a desktop is 300 to 2160 pixels high"),
        ("services={x11vnc: {security: x509}}", "x11vnc is served without TLS; `tunnel` puts it into some"),
        ("services={tigervnc: {security: x509, tunnel: [false, true]}}", "TLS within TLS"),
        ("services=redis", "does not speak what the workload `desktop` speaks"),
        ("workload.desktop.rate=0/s", "a user takes"),
        ("workload.desktop.stay=1ms", "a user stays 100ms to 3600s, or with `0s` to the end"),
        ("workload.desktop.timeout=0s", "`timeout` must be more than 0s and at most 600s"),
        ("workload.desktop.think=20m", "`think` must be at most 600s"),
        ("workload.desktop.encoding=jpeg", "jpeg"),
        ("workload.desktop.actions=dance", "dance"),
    ] {
        let told = refused(&[overrides]);
        assert!(told.contains(words), "{overrides}: {told}");
    }
}

#[test]
fn a_network_in_user_space_publishes_one_desktop() {
    let told = refused(&["paths=[bridge, pasta]"]);
    assert!(told.contains("publishes one port alone, where each desktop has its own"), "{told}");
    plan(&["paths=[bridge, pasta]", "services={tigervnc: {sessions: 1}}"]);
}
