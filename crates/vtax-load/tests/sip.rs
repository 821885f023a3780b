//! SIP sessions against the embedded server on loopback.

#[path = "sip_support/mod.rs"]
mod support;

use support::*;
use vtax_load::sip::*;
use vtax_plan::model::{Scenario, SipMetric};


#[test]
fn every_scenario_succeeds() {
    let server = Embedded::start(false);
    let mut spec = spec(server.address, 400);
    spec.workload.mix = Scenario::ALL.map(|scenario| part(scenario, 0.1)).to_vec();
    let mut session = SipSession::open(&spec).unwrap();
    let profile = profile(vec![registration(400.0), mix("step 1", 200.0, 3_000)]);
    let result = run(&mut session, &profile);
    eprintln!("{:#?}", result.stray);
    assert_eq!(result.stopped, None);
    let (registered, step) = (&result.phases[0], &result.phases[1]);
    assert_eq!(registered.scenarios.len(), 1);
    assert_eq!((registered.scenarios[0].attempts, registered.scenarios[0].succeeded), (320, 320));
    for scenario in &step.scenarios {
        eprintln!("{scenario:?}");
    }
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
