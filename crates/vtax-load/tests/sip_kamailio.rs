//! SIP sessions against real Kamailio with real MariaDB.

#[path = "sip_support/mod.rs"]
mod support;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use support::*;
use vtax_load::sip::*;
use vtax_plan::model::{
    KamailioOptions, LocationMode, Scenario, Service, ServiceKind, SipMetric, SipTransport,
};
use vtax_service::{Place, RunningService, missing};
use vtax_units::{Bytes, Nanos};

const SUBSCRIBERS: u32 = 400;

/// Kamailio with its private directory, for as long as a test lasts; `None`, with the reason, where
/// it isn't installed.
#[allow(clippy::print_stderr, reason = "a skipped test must say why on the test's own output")]
fn kamailio() -> Option<(RunningService, tempfile::TempDir)> {
    let service = Service {
        name: "kamailio".to_owned(),
        kind: ServiceKind::Kamailio(KamailioOptions {
            port: vtax_sys::free_port(),
            children: Some(4),
            shared_memory: Bytes::from_mib(64),
            t1: Nanos::from_millis(500),
            location: LocationMode::WriteBack,
            media_relay: None,
        }),
        ready_timeout: Nanos::from_secs(60),
        stop_timeout: Nanos::from_secs(20),
    };
    if let Some(missing) = missing(&service) {
        eprintln!("skipped: {missing}");
        return None;
    }
    let directory = tempfile::tempdir().unwrap();
    let place = Place {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        directory: directory.path().join("kamailio"),
        cpus: 1,
        vtax: PathBuf::from("/proc/self/exe"),
        die_with_starter: false,
        prepared: None,
        disk: None,
        call_off: None,
    };
    let running = RunningService::start(&service, Some(&subscribers(SUBSCRIBERS)), &place, |_| ()).unwrap();
    Some((running, directory))
}

fn every_scenario(transport: SipTransport) {
    let Some((server, _directory)) = kamailio() else { return };
    let mut spec = spec(server.address(), SUBSCRIBERS);
    spec.workload.transport = transport;
    spec.workload.mix = Scenario::ALL.map(|scenario| part(scenario, 0.1)).to_vec();
    let mut session = SipSession::open(&spec).unwrap();
    let result = run(&mut session, &profile(vec![registration(200.0), mix("step 1", 100.0, 3_000)]));
    assert_eq!(result.stopped, None, "{result:?}");
    for scenario in result.phases.iter().flat_map(|p| &p.scenarios) {
        assert_eq!(scenario.attempts, scenario.succeeded, "{scenario:?}");
        assert!(scenario.succeeded > 5, "{scenario:?}");
    }
    // A nonce is good for more than one request: nobody who registers again is challenged again.
    let again = (SipMetric::Reg1, Scenario::ReRegistration);
    assert!(!result.phases[1].metrics.iter().any(|m| (m.metric, m.scenario) == again));
    assert_eq!(result.pools.busy, 0);
    server.stop().unwrap();
}

#[test]
fn every_scenario_succeeds_with_kamailio() {
    every_scenario(SipTransport::Udp);
}

#[test]
fn every_scenario_succeeds_with_kamailio_over_tcp() {
    every_scenario(SipTransport::Tcp);
}

/// What is wrong on the generator's side has the same names as with the embedded server.
#[test]
fn kamailio_refuses_a_wrong_password() {
    let Some((server, _directory)) = kamailio() else { return };
    let mut spec = spec(server.address(), SUBSCRIBERS);
    spec.workload.subscribers.password = "guess%d".to_owned();
    let mut session = SipSession::open(&spec).unwrap();
    let mut open = registration(400.0);
    open.ihs_limit = None;
    let result = run(&mut session, &profile(vec![open]));
    let registered = &result.phases[0].scenarios[0];
    assert_eq!((registered.succeeded, registered.attempts), (0, 320), "{registered:?}");
    assert_eq!(registered.inadequate.get("status 401"), Some(&320), "{registered:?}");
    server.stop().unwrap();
}
