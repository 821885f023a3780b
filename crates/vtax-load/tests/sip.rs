//! SIP sessions against the embedded server on loopback.

#[path = "sip_support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use support::*;
use vtax_load::sip::*;
use vtax_load::{Control, LoadError, Verify};
use vtax_plan::model::{Scenario, SipMetric, SipTransport, TlsVersion};
use vtax_units::{Bytes, Nanos};

#[test]
fn every_scenario_succeeds() {
    let server = Embedded::start(false);
    let mut spec = spec(server.address, 400);
    spec.workload.mix = Scenario::ALL.map(|scenario| part(scenario, 0.1)).to_vec();
    let mut session = SipSession::open(&spec).unwrap();
    let profile = profile(vec![registration(400.0), mix("step 1", 200.0, 3_000)]);
    let result = run(&mut session, &profile);
    assert_eq!((result.stopped, result.stray), (None, BTreeMap::new()));
    let (registered, step) = (&result.phases[0], &result.phases[1]);
    assert_eq!(registered.scenarios.len(), 1);
    assert_eq!((registered.scenarios[0].attempts, registered.scenarios[0].succeeded), (320, 320));
    for scenario in &step.scenarios {
        assert_eq!(scenario.inadequate_total(), 0, "{scenario:?}");
        assert_eq!(scenario.unfinished, 0, "{scenario:?}");
        assert!(scenario.succeeded > 20, "{scenario:?}");
    }
    let metrics: Vec<_> = step.metrics.iter().map(|m| (m.metric, m.scenario)).collect();
    for expected in [
        (SipMetric::Reg1, Scenario::Registration),
        (SipMetric::Reg2, Scenario::Registration),
        (SipMetric::Reg4, Scenario::ReRegistration),
        (SipMetric::Ses1, Scenario::Calling),
        (SipMetric::Ses2, Scenario::Calling),
        (SipMetric::Ses3, Scenario::ReInvite),
        (SipMetric::Rel1, Scenario::Calling),
        (SipMetric::Pmm1, Scenario::Messaging),
        (SipMetric::Pmm2, Scenario::MessageUnregistered),
    ] {
        assert!(metrics.contains(&expected), "{expected:?} is not in {metrics:?}");
    }
    assert_eq!(result.pools.busy, 0);
    assert_eq!(result.pools.registered + result.pools.unregistered, 400);
}

#[test]
fn every_scenario_succeeds_over_tcp() {
    let server = Embedded::start(false);
    let mut spec = spec(server.address, 400);
    spec.workload.transport = SipTransport::Tcp;
    spec.workload.mix = Scenario::ALL.map(|scenario| part(scenario, 0.1)).to_vec();
    let mut session = SipSession::open(&spec).unwrap();
    let result = run(&mut session, &profile(vec![registration(400.0), mix("step 1", 200.0, 2_000)]));
    assert_eq!((result.stopped, result.stray), (None, BTreeMap::new()));
    for scenario in result.phases.iter().flat_map(|p| &p.scenarios) {
        assert_eq!(scenario.attempts, scenario.succeeded, "{scenario:?}");
        assert_eq!(scenario.retransmissions, 0);
        assert!(scenario.succeeded > 10, "{scenario:?}");
    }
}

/// Connections that a session makes: one for each worker and source address, over which everything goes and comes.
fn stays_connected(result: &SipResult, addresses: usize) {
    let connections = result.connections.as_ref().unwrap();
    let workers = result.phases[0].generator.workers as usize;
    assert_eq!(connections.connect.len() as usize, workers * addresses, "{connections:?}");
    let Some(tls) = &connections.tls else { return };
    assert_eq!((tls.done(), tls.failed), (connections.connect.len(), 0), "{tls:?}");
    assert!(tls.agreed.as_ref().is_some_and(|agreed| agreed.starts_with("TLS 1.3 ")), "{tls:?}");
}

#[test]
fn every_scenario_succeeds_over_tls_and_its_connections_stay() {
    let (server, authority) = Embedded::secure();
    let mut spec = spec(server.address, 400);
    spec.workload.transport = SipTransport::Tls;
    spec.verify = Verify::Authorities { name: "127.0.0.1".to_owned(), roots: vec![authority] };
    spec.local = vec![[127, 0, 0, 2].into(), [127, 0, 0, 3].into()];
    spec.workload.mix = Scenario::ALL.map(|scenario| part(scenario, 0.1)).to_vec();
    let mut session = SipSession::open(&spec).unwrap();
    let result = run(&mut session, &profile(vec![registration(400.0), mix("step 1", 200.0, 2_000)]));
    assert_eq!((&result.stopped, &result.stray), (&None, &BTreeMap::new()));
    for scenario in result.phases.iter().flat_map(|p| &p.scenarios) {
        assert_eq!(scenario.attempts, scenario.succeeded, "{scenario:?}");
        assert!(scenario.succeeded > 10, "{scenario:?}");
    }
    stays_connected(&result, 2);
}

#[test]
fn a_service_that_is_not_the_one_is_not_spoken_to() {
    let (server, _) = Embedded::secure();
    let other = vtax_service::Certificate::new([127, 0, 0, 1].into()).unwrap();
    let mut spec = asking(server.address, SipTransport::Tls, false);
    spec.verify = Verify::Authorities { name: "127.0.0.1".to_owned(), roots: vec![other.certificate] };
    spec.pool.timeout = Nanos::from_millis(300);
    let result = attempt(&spec);
    let figures = result.details.and_then(|details| details.script).unwrap();
    assert_eq!(figures.succeeded, 0, "{figures:?}");
    let connections = figures.connections.unwrap();
    let tls = connections.tls.unwrap();
    assert!(tls.failed > 0 && tls.done() == 0, "{tls:?}");
    assert!(connections.first_failure.unwrap().contains("certificate"), "it says why");
    assert!(figures.stray.contains_key("handshake-failed"), "{:?}", figures.stray);
}

#[test]
fn calls_have_connections_of_their_own_where_that_is_wanted() {
    let (server, _) = Embedded::secure();
    let shared = ask(&asking(server.address, SipTransport::Tls, false)).connections.unwrap();
    assert!(shared.connect.len() < 10, "{shared:?}");
    let mut spec = asking(server.address, SipTransport::Tls, true);
    let figures = ask(&spec);
    let connections = figures.connections.unwrap();
    let tls = connections.tls.unwrap();
    assert_eq!((connections.connect.len(), tls.done(), tls.failed), (figures.calls, figures.calls, 0));
    // Each worker's first has nothing to resume.
    assert!(!tls.full.is_empty() && !tls.resumed.is_empty(), "{tls:?}");
    assert_eq!(figures.stray, BTreeMap::new());
    spec.tls.resume = false;
    spec.tls.version = Some(TlsVersion::V12);
    let figures = ask(&spec);
    let tls = figures.connections.unwrap().tls.unwrap();
    assert_eq!((tls.full.len(), tls.resumed.len()), (figures.calls, 0));
    assert!(tls.agreed.unwrap().starts_with("TLS 1.2 "));
}

#[test]
fn calls_are_authenticated_where_the_service_asks() {
    let server = Embedded::start(true);
    let mut spec = spec(server.address, 200);
    spec.workload.mix = vec![part(Scenario::Calling, 0.5), part(Scenario::Messaging, 0.5)];
    spec.local = vec![[127, 0, 0, 2].into(), [127, 0, 0, 3].into()];
    let mut session = SipSession::open(&spec).unwrap();
    let result = run(&mut session, &profile(vec![registration(400.0), mix("step 1", 100.0, 1_000)]));
    for scenario in &result.phases[1].scenarios {
        assert_eq!(scenario.attempts, scenario.succeeded, "{scenario:?}");
        assert!(scenario.succeeded > 10, "{scenario:?}");
    }
    // Who is registered is remembered: the second profile registers nobody.
    let result = run(&mut session, &profile(vec![registration(400.0), mix("step 2", 100.0, 500)]));
    assert_eq!(result.phases[0].scenarios[0].attempts, 0);
    assert_eq!(result.phases[1].scenarios[0].inadequate_total(), 0);
    assert_eq!((session.pools().busy, session.pools().registered), (0, 160));
}

#[test]
fn a_limit_ends_the_profile() {
    let server = Embedded::start(false);
    let mut spec = spec(server.address, 100);
    spec.workload.mix = vec![part(Scenario::Messaging, 1.0)];
    spec.workload.limits = BTreeMap::from([(SipMetric::Pmm1, Nanos(1))]);
    let mut session = SipSession::open(&spec).unwrap();
    let phases = vec![registration(400.0), mix("step 1", 50.0, 500), mix("step 2", 50.0, 500)];
    let result = run(&mut session, &profile(phases));
    assert_eq!(result.phases.len(), 2);
    let scenario = &result.phases[1].scenarios[0];
    assert_eq!(scenario.inadequate.get("over-limit PX_TRT-PMM1"), Some(&scenario.attempts));
    assert_eq!(result.stopped.unwrap(), "step 1: 100.00 % of all scenarios inadequately handled, limit 10 %");
}

#[test]
fn a_wrong_password_and_empty_pools_have_names() {
    let server = Embedded::start(false);
    let mut spec = spec(server.address, 50);
    spec.workload.subscribers.password = "guess%d".to_owned();
    let mut session = SipSession::open(&spec).unwrap();
    let mut open = registration(400.0);
    open.ihs_limit = None;
    let result = run(&mut session, &profile(vec![open, mix("step 1", 50.0, 500)]));
    let registered = &result.phases[0].scenarios[0];
    assert_eq!((registered.attempts, registered.inadequate.get("status 401")), (40, Some(&40)));
    let calls = &result.phases[1].scenarios[0];
    assert_eq!(calls.inadequate.get("no-free-subscriber"), Some(&calls.attempts));
    assert_eq!(result.pools, Pools { unregistered: 50, registered: 0, busy: 0 });
}

#[test]
fn a_caller_without_a_callee_is_free_again() {
    let server = Embedded::start(false);
    let mut spec = spec(server.address, 10);
    // One of each worker's: who calls has nobody to call.
    spec.workload.registered = vtax_units::Share(0.1);
    spec.workload.mix.retain(|part| part.scenario == Scenario::Calling);
    let mut session = SipSession::open(&spec).unwrap();
    let result = run(&mut session, &profile(vec![registration(100.0), mix("step 1", 100.0, 300)]));
    let calls = &result.phases[1].scenarios[0];
    assert!(calls.attempts > 10, "{calls:?}");
    assert_eq!(calls.inadequate.get("no-free-subscriber"), Some(&calls.attempts));
    let Pools { unregistered, registered, busy } = result.pools;
    assert!(busy == 0 && registered >= 1 && unregistered + registered == 10, "{:?}", result.pools);
}

#[test]
fn cancelling_ends_a_profile() {
    let server = Embedded::start(false);
    let mut session = SipSession::open(&spec(server.address, 100)).unwrap();
    let control = Control::new();
    let profile = profile(vec![registration(200.0), mix("step 1", 50.0, 600_000)]);
    let result = thread::scope(|scope| {
        let running = scope.spawn(|| session.run_profile(&profile, &control));
        // 80 registrations, and calls.
        while control.progress().sent < 100 && !running.is_finished() {
            thread::sleep(Duration::from_millis(5));
        }
        control.cancel();
        running.join().unwrap().unwrap()
    });
    assert_eq!(result.phases.len(), 2);
    assert!(result.phases[1].duration < Nanos::from_secs(600), "{:?}", result.phases[1].duration);
    assert_eq!(session.pools().busy, 0);
}

#[test]
fn specifications_that_make_no_sense_are_refused() {
    let good = spec(([127, 0, 0, 1], 5060).into(), 10);
    let refused = |change: fn(&mut SipSpec)| {
        let mut bad = good.clone();
        change(&mut bad);
        matches!(SipSession::open(&bad), Err(LoadError::Spec { .. }))
    };
    assert!(refused(|s| s.local.clear()));
    assert!(refused(|s| s.local = vec![std::net::Ipv6Addr::LOCALHOST.into()]));
    assert!(refused(|s| s.workload.mix.clear()));
    assert!(refused(|s| s.workload.t1 = Nanos::ZERO));
    assert!(refused(|s| s.workload.subscribers.count = 0));
    assert!(refused(|s| s.workload.message_bytes = (Bytes(0), Bytes(5_000))));
    let mut session = SipSession::open(&good).unwrap();
    for phases in [vec![], vec![mix("", 0.0, 1)], vec![mix("", f64::NAN, 1)], vec![mix("", 1.0, 0)]] {
        assert!(session.run_profile(&profile(phases), &Control::new()).is_err());
    }
}
