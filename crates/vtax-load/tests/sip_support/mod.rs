//! What tests of SIP sessions share.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use vtax_load::sip::*;
use vtax_load::{
    ArrivalProcess, ConnectionPool, Control, LoadResult, Model, Part, RequestStep, Segment, Verify,
};
use vtax_plan::model::{MixPart, Scenario, SipTls, SipTransport, SipWorkload, Spread, Subscribers};
use vtax_service::Certificate;
use vtax_service::embedded::ServerCertificate;
use vtax_service::embedded::sip::{NONCE_LIFE, Options, serve};
use vtax_sys::require::again_until;
use vtax_units::{Bytes, CpuSet, Nanos, Rate, Share};

pub(crate) fn subscribers(count: u32) -> Subscribers {
    Subscribers {
        count,
        public: "subs%06d".to_owned(),
        private: "private%06d".to_owned(),
        password: "secret%d".to_owned(),
        realm: "test.example".to_owned(),
        domain: "test.example".to_owned(),
    }
}

pub(crate) fn part(scenario: Scenario, share: f64) -> MixPart {
    MixPart { scenario, share: Share(share), ihs_limit: Share(0.1) }
}

/// Short ring and hold times, so that tests are short.
pub(crate) fn spec(target: SocketAddr, count: u32) -> SipSpec {
    SipSpec {
        target,
        workload: SipWorkload {
            transport: SipTransport::Udp,
            tls: SipTls::default(),
            subscribers: subscribers(count),
            registered: Share(0.8),
            mix: vec![part(Scenario::Calling, 1.0)],
            ring_time: Spread::Exponential(Nanos::from_millis(50)),
            hold_time: Spread::Exponential(Nanos::from_millis(100)),
            message_bytes: (Bytes(50), Bytes(230)),
            expires: Nanos::from_secs(3_600),
            addresses: 1,
            // Nothing is sent again because a busy machine is slow.
            t1: Nanos::from_secs(5),
            limits: BTreeMap::new(),
        },
        local: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        cpus: CpuSet::default(),
        seed: 1,
        moments: false,
        verify: Verify::Nothing,
    }
}

pub(crate) fn registration(rate: f64) -> SipPhase {
    SipPhase {
        name: "pre-registration".to_owned(),
        kind: PhaseKind::PreRegistration,
        rate: Rate(rate),
        transient: Nanos::ZERO,
        ihs_limit: Some(Share(0.01)),
        scenario_limits: false,
    }
}

pub(crate) fn mix(name: &str, rate: f64, millis: u64) -> SipPhase {
    SipPhase {
        name: name.to_owned(),
        kind: PhaseKind::Mix { duration: Nanos::from_millis(millis) },
        rate: Rate(rate),
        transient: Nanos::ZERO,
        ihs_limit: Some(Share(0.1)),
        scenario_limits: false,
    }
}

pub(crate) fn profile(phases: Vec<SipPhase>) -> SipProfile {
    SipProfile { phases, arrivals: ArrivalProcess::Poisson, drain: Nanos::from_secs(30) }
}

/// Runs a profile and checks what must hold for every result.
pub(crate) fn run(session: &mut SipSession, profile: &SipProfile) -> SipResult {
    let control = Control::new();
    let result = session.run_profile(profile, &control).unwrap();
    let mut attempts = 0;
    for phase in &result.phases {
        for scenario in &phase.scenarios {
            let ended = scenario.succeeded + scenario.inadequate_total() + scenario.unfinished;
            assert_eq!(scenario.attempts, ended, "{}: {scenario:?}", phase.name);
        }
        attempts += phase.seconds.iter().flat_map(|s| &s.attempts).map(|n| u64::from(*n)).sum::<u64>();
        check_metrics(phase);
    }
    assert_eq!(control.progress().sent, attempts);
    result
}

/// Figures that contradict each other can't be.
fn check_metrics(phase: &PhaseResult) {
    for (i, m) in phase.metrics.iter().enumerate() {
        let quantiles = [0.0, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0].map(|q| m.histogram.quantile(q).0 as f64);
        assert!(quantiles.is_sorted(), "{:?}: {quantiles:?}", m.metric);
        assert!(m.min.0 > 0 && m.min.0 as f64 <= m.mean_ns && m.mean_ns <= m.max.0 as f64, "{:?}", m.metric);
        // Three significant digits.
        assert!(
            quantiles[0] <= 1.001 * m.min.0 as f64 + 1.0 && quantiles[6] >= 0.999 * m.max.0 as f64,
            "{:?}: {quantiles:?}, {} to {}",
            m.metric,
            m.min,
            m.max
        );
        let spread = (m.max.0 - m.min.0) as f64;
        assert!(m.variance_ns2 >= 0.0 && m.variance_ns2 <= spread * spread + 1.0, "{:?}", m.metric);
        if phase.transient == Nanos::ZERO {
            let by_second: u64 = phase.seconds.iter().map(|s| u64::from(s.metrics[i].count)).sum();
            assert_eq!(by_second, m.histogram.len());
        }
    }
}

/// The embedded server, for as long as the test lasts.
pub(crate) struct Embedded {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
}

impl Embedded {
    pub(crate) fn start(authenticate_calls: bool) -> Self {
        Self::with(subscribers(100_000), authenticate_calls)
    }

    pub(crate) fn with(subscribers: Subscribers, authenticate_calls: bool) -> Self {
        Self::serving(subscribers, authenticate_calls, None)
    }

    /// Whose connections speak TLS; and its certificate.
    pub(crate) fn secure() -> (Self, Vec<u8>) {
        let Certificate { certificate, key, .. } = Certificate::new(Ipv4Addr::LOCALHOST.into()).unwrap();
        let own = ServerCertificate { certificate: certificate.clone(), key };
        (Self::serving(subscribers(100_000), false, Some(own)), certificate)
    }

    fn serving(
        subscribers: Subscribers,
        authenticate_calls: bool,
        certificate: Option<ServerCertificate>,
    ) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let flag = Arc::clone(&stop);
        let listen = (Ipv4Addr::LOCALHOST, 0).into();
        let nonce_life = NONCE_LIFE;
        let options =
            Options { listen, workers: 1, subscribers, authenticate_calls, nonce_life, certificate };
        thread::spawn(move || serve(&options, &flag, |a| sender.send(a).unwrap()).unwrap());
        Self { address: receiver.recv_timeout(Duration::from_secs(30)).unwrap(), stop }
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
    }
}

/// A client's scenario that asks what the server can do.
pub(crate) const ASKS: &str = r#"<?xml version="1.0"?>
<scenario name="asks">
  <send retrans="500" start_rtd="1"><![CDATA[

OPTIONS sip:[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:a@[local_ip]:[local_port]>;tag=[call_number]
To: <sip:[remote_ip]:[remote_port]>
Call-ID: [call_id]
CSeq: 1 OPTIONS
Max-Forwards: 70
Content-Length: 0

  ]]></send>
  <recv response="200" rtd="1"/>
</scenario>
"#;

/// So many calls after a scenario, over connections of their own where that is said.
pub(crate) fn asking(target: SocketAddr, transport: SipTransport, connection_per_call: bool) -> ScriptSpec {
    ScriptSpec {
        pool: ConnectionPool {
            target,
            connections: 500,
            timeout: Nanos::from_secs(10),
            cpus: CpuSet::default(),
        },
        settings: ScriptSettings::default(),
        scenario: ASKS.to_owned(),
        password: ScriptSpec::PASSWORD.to_owned(),
        injections: Vec::new(),
        local: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        transport,
        tls: SipTls::default(),
        verify: Verify::Nothing,
        connection_per_call,
        seed: 1,
        part: Part::default(),
    }
}

/// Calls at this rate for so long, all of them recorded.
pub(crate) fn steady(rate: f64, duration: Nanos) -> RequestStep {
    let rate = Rate(rate);
    let profile = vec![Segment { from: rate, to: rate, duration }];
    let model = Model::Open { arrivals: ArrivalProcess::Constant, profile };
    let (interval, drain) = (duration, Nanos::ZERO);
    RequestStep { model, warmup: Nanos::ZERO, duration, seed: 1, samples: false, interval, drain }
}

/// Carries a scenario out for a second.
pub(crate) fn attempt(spec: &ScriptSpec) -> LoadResult {
    let step = steady(60.0, Nanos::from_secs(1));
    ScriptSession::open(spec).unwrap().run_step(&step, &Control::new()).unwrap()
}

/// The same; all calls must succeed. A machine that is busy with something else is given time to begin as many as are due.
pub(crate) fn ask(spec: &ScriptSpec) -> ScriptFigures {
    let result = again_until(|| attempt(spec), |result| result.counts.sent >= 55);
    let figures = result.details.and_then(|details| details.script).unwrap();
    let calls = figures.calls;
    assert_eq!((result.counts.ok, figures.succeeded), (calls, calls), "{:?}", result.counts);
    assert!(calls >= 55, "{:?}", result.counts);
    *figures
}
