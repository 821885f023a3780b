//! SIP: services, subscribers, the mix, the IMS benchmark.

use std::collections::BTreeMap;

use vtax_units::{Bytes, Nanos, Share};

use super::identity::SubscribersError;
use super::model::{
    ImsMeasure, KamailioOptions, LocationMode, MixPart, Ramp, Scenario, SipMetric, SipOptions, SipTls,
    SipTransport, SipWorkload, Spread, Subscribers,
};
use super::raw::{
    ImsRaw, KamailioRaw, MixRaw, RampRaw, SearchRaw, SipLimitsRaw, SipServiceRaw, SipTlsRaw, SipWorkloadRaw,
    StepsRaw, SubscribersRaw, TransportRaw,
};
use crate::decode::Many;
use crate::diagnose::{Report, listed};
use crate::model::{Measure, MeasureKind, Service, ServiceKind, Workload};
use crate::resolve::check::{
    LONGEST, SHORTEST_STEP, Shares, check_name, check_port, count_in, counts_in, duration_in, highest_in,
    memory_in, rate_in, share_in,
};
use crate::resolve::variants::{Variants, service};
use crate::source::Spanned;
use crate::tls;

/// Calls longer than this are taken for a slip.
const LONGEST_CALL: Nanos = Nanos::from_secs(3600);
/// A page-mode message (RFC 3428 section 8).
const LONGEST_MESSAGE: Bytes = Bytes(1_300);
/// Source addresses of one generator: they share a subnet with the service.
pub(super) const MOST_ADDRESSES: u32 = 100;
/// The mix of the study that the IMS benchmark follows (docs/ims.md).
const STUDY_MIX: [(Scenario, f64); 5] = [
    (Scenario::Calling, 0.5),
    (Scenario::Messaging, 0.3),
    (Scenario::ReRegistration, 0.15),
    (Scenario::Registration, 0.025),
    (Scenario::DeRegistration, 0.025),
];
const STUDY_IHS_LIMIT: Share = Share(0.1);

/// The embedded registrar and proxy.
pub(crate) fn embedded(raw: &SipServiceRaw, report: &mut Report) -> Variants<Service> {
    if let Some(workers) = &raw.workers {
        counts_in(&workers.value, "a server needs a worker", 1024, report);
    }
    let port = check_port(&raw.port, report);
    let options = |workers| ServiceKind::Sip(SipOptions { port, workers, tls: false });
    let times = (&raw.ready_timeout, &raw.stop_timeout);
    Variants::of(service(options(None), raw.name.as_ref(), times, report)).vary_if(
        "workers",
        raw.workers.as_ref(),
        report,
        |service, workers| service.kind = options(Some(workers)),
    )
}

/// Kamailio with MariaDB.
pub(crate) fn kamailio(raw: &KamailioRaw, report: &mut Report) -> Variants<Service> {
    if let Some(children) = &raw.children {
        counts_in(&children.value, "a server needs a worker", 1024, report);
    }
    for item in &raw.shared_memory.value.items {
        memory_in(&item.value, item.span, Bytes::from_mib(16), report);
    }
    let kind = ServiceKind::Kamailio(KamailioOptions {
        port: check_port(&raw.port, report),
        children: None,
        shared_memory: Bytes(0),
        t1: t1_in(&raw.t1, report),
        location: LocationMode::WriteBack,
        media_relay: raw.media_relay.as_ref().map(|relay| relay.value.0),
        tls: false,
    });
    let set = |service: &mut Service, change: &dyn Fn(&mut KamailioOptions)| {
        if let ServiceKind::Kamailio(options) = &mut service.kind {
            change(options);
        }
    };
    Variants::of(service(kind, raw.name.as_ref(), (&raw.ready_timeout, &raw.stop_timeout), report))
        .vary_if("children", raw.children.as_ref(), report, |s, n| set(s, &|o| o.children = Some(n)))
        .vary("shared_memory", &raw.shared_memory.value, report, |s, m| set(s, &|o| o.shared_memory = m))
        .vary("location", &raw.location.value, report, |s, mode| set(s, &|o| o.location = mode.0))
}

fn t1_in(raw: &Spanned<Nanos>, report: &mut Report) -> Nanos {
    duration_in(raw, "t1", Nanos::from_millis(1), Nanos::from_secs(10), report)
}

/// The workload, one variant for each combination of its lists.
pub(crate) fn workload(raw: &SipWorkloadRaw, report: &mut Report) -> Variants<Workload> {
    for item in &raw.registered.value.items {
        let share = Spanned { value: item.value, span: item.span };
        share_in(&share, "registered", Shares::UpToAll, report);
    }
    for item in raw.ring_time.value.items.iter().chain(&raw.hold_time.value.items) {
        let (Spread::Exponential(mean) | Spread::Constant(mean)) = item.value.0;
        let mean = Spanned { value: mean, span: item.span };
        duration_in(&mean, "ring_time and hold_time", Nanos::ZERO, LONGEST_CALL, report);
    }
    for item in &raw.message_bytes.value.items {
        let (low, high) = (item.value.0, item.value.1);
        if low > high || high > LONGEST_MESSAGE {
            report
                .error(item.span, format!("a message has at most {LONGEST_MESSAGE}, the smaller size first"));
        }
    }
    counts_in(&raw.addresses.value, "requests come from somewhere", MOST_ADDRESSES, report);
    let tls = tls(&raw.transport, &raw.tls_version, raw.cipher.as_ref(), report);
    let sip = SipWorkload {
        transport: SipTransport::Udp,
        tls,
        subscribers: subscribers(&raw.subscribers, report),
        registered: Share(0.0),
        mix: mix(&raw.mix, report),
        ring_time: Spread::Constant(Nanos::ZERO),
        hold_time: Spread::Constant(Nanos::ZERO),
        message_bytes: (Bytes(0), Bytes(0)),
        expires: duration_in(&raw.expires, "expires", Nanos::from_secs(1), Nanos::from_secs(1 << 31), report),
        addresses: 1,
        t1: t1_in(&raw.t1, report),
        limits: limits(&raw.limits.value, report),
    };
    Variants::of(sip)
        .vary("subscribers", &raw.subscribers.value.count.value, report, |w, n| w.subscribers.count = n)
        .vary("transport", &raw.transport.value, report, |w, transport| w.transport = transport.0)
        .vary("registered", &raw.registered.value, report, |w, share| w.registered = share)
        .vary("ring_time", &raw.ring_time.value, report, |w, time| w.ring_time = time.0)
        .vary("hold_time", &raw.hold_time.value, report, |w, time| w.hold_time = time.0)
        .vary("message_bytes", &raw.message_bytes.value, report, |w, b| w.message_bytes = (b.0, b.1))
        .vary("addresses", &raw.addresses.value, report, |w, addresses| w.addresses = addresses)
        .map(|w| Workload::Sip(Box::new(w)))
}

/// TLS, where one of the transports is that.
pub(super) fn tls(
    transport: &Spanned<Many<TransportRaw>>,
    version: &Spanned<SipTlsRaw>,
    cipher: Option<&Spanned<String>>,
    report: &mut Report,
) -> SipTls {
    let is_there = transport.value.items.iter().any(|item| item.value.0 == SipTransport::Tls);
    let asked = version.value.0.version();
    let given = [("tls_version", asked.map(|_| version.span)), ("cipher", cipher.map(|cipher| cipher.span))];
    if !is_there {
        tls::refuse(&given, "write `transport: tls`, or leave it out", report);
    }
    if let Some(cipher) = cipher {
        tls::check(&cipher.value, cipher.span, &[asked], report);
    }
    let cipher = cipher.map(|cipher| cipher.value.clone());
    SipTls { version: asked, cipher, ..SipTls::default() }
}

/// The subscribers, with the largest count that the plan has; every count is checked.
pub(super) fn subscribers(raw: &Spanned<SubscribersRaw>, report: &mut Report) -> Subscribers {
    let text = |part: &Spanned<String>| part.value.clone();
    let SubscribersRaw { count, public, private, password, realm, domain } = &raw.value;
    let mut all = Subscribers {
        count: 0,
        public: text(public),
        private: text(private),
        password: text(password),
        realm: text(realm),
        domain: text(domain),
    };
    for item in &count.value.items {
        all.count = item.value;
        let Err(error) = all.formats() else { continue };
        let span = match &error {
            SubscribersError::Count(_) => item.span,
            SubscribersError::Format { what, .. } | SubscribersError::Shared { what, .. } => match *what {
                "public identity" => public.span,
                "private identity" => private.span,
                "password" => password.span,
                "realm" => realm.span,
                _ => domain.span,
            },
        };
        report.error(span, chained(&error));
    }
    all
}

/// An error with its causes in one line.
fn chained(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.contains(&inner_text) {
            text.push_str(&format!(": {inner_text}"));
        }
        cause = inner.source();
    }
    text
}

fn mix(raw: &Spanned<MixRaw>, report: &mut Report) -> Vec<MixPart> {
    let parts = &raw.value.0;
    if parts.is_empty() {
        let part = |(scenario, share)| MixPart { scenario, share: Share(share), ihs_limit: STUDY_IHS_LIMIT };
        return STUDY_MIX.map(part).into();
    }
    let mut mix = Vec::with_capacity(parts.len());
    for (key, scenario, part) in parts {
        let Some(share) = &part.value.share else { continue };
        let share = Spanned { value: share.value, span: key.span };
        let share = share_in(&share, &key.value, Shares::UpToAll, report);
        let ihs_limit = share_in(&part.value.ihs_limit, "ihs_limit", Shares::FromNothing, report);
        mix.push(MixPart { scenario: *scenario, share, ihs_limit });
    }
    let sum: f64 = mix.iter().map(|p| p.share.0).sum();
    // Of a share that couldn't be read, which was told, nobody knows what it adds.
    if mix.len() == parts.len() && (sum - 1.0).abs() > 1e-6 {
        let names = listed(mix.iter().map(|p| p.scenario.name()));
        report.error(raw.span, format!("the shares of {names} add up to {}, not 100%", Share(sum)));
    }
    // Reports and results name scenarios in one order, however a plan lists them.
    mix.sort_by_key(|p| Scenario::ALL.iter().position(|s| *s == p.scenario));
    mix
}

fn limits(raw: &SipLimitsRaw, report: &mut Report) -> BTreeMap<SipMetric, Nanos> {
    let all = [
        (SipMetric::Reg1, "reg1", &raw.reg1),
        (SipMetric::Reg2, "reg2", &raw.reg2),
        (SipMetric::Reg4, "reg4", &raw.reg4),
        (SipMetric::Ses1, "ses1", &raw.ses1),
        (SipMetric::Ses2, "ses2", &raw.ses2),
        (SipMetric::Ses3, "ses3", &raw.ses3),
        (SipMetric::Rel1, "rel1", &raw.rel1),
        (SipMetric::Pmm1, "pmm1", &raw.pmm1),
        (SipMetric::Pmm2, "pmm2", &raw.pmm2),
    ];
    all.map(|(metric, key, limit)| (metric, duration_in(limit, key, Nanos(1), LONGEST, report)))
        .into_iter()
        .collect()
}

/// The IMS benchmark.
pub(crate) fn ims(raw: &ImsRaw, report: &mut Report) -> Measure {
    let by_steps = matches!(raw.ramp.value, RampRaw::Steps(_));
    let default = |steps: u64, search: u64| Nanos::from_secs(if by_steps { steps } else { search });
    let given = |value: &Option<Spanned<Nanos>>, default| value.as_ref().map_or(default, |v| v.value);
    let step = given(&raw.step, default(1800, 120));
    let transient = given(&raw.transient, default(30, 10));
    let stir = given(&raw.stir, default(300, 0));
    for (key, value) in [("step", &raw.step), ("transient", &raw.transient), ("stir", &raw.stir)] {
        if let Some(value) = value {
            duration_in(value, key, Nanos::ZERO, LONGEST, report);
        }
    }
    let span = |value: &Option<Spanned<Nanos>>| value.as_ref().map_or(raw.ramp.span, |v| v.span);
    if step.saturating_sub(transient) < SHORTEST_STEP {
        let message = format!("a step of {step} leaves nothing to count after its transient of {transient}");
        report.error(span(if raw.step.is_some() { &raw.step } else { &raw.transient }), message);
    }
    rate_in(&raw.registration_rate, report);
    let ramp = ramp(&raw.ramp.value, transient, report);
    let share = |share: &Spanned<Share>, key: &str, report: &mut Report| {
        share_in(share, key, Shares::FromNothing, report)
    };
    let measure = ImsMeasure {
        registration_rate: raw.registration_rate.value,
        registration_ihs_limit: share(&raw.registration_ihs_limit, "registration_ihs_limit", report),
        stir,
        stir_steps: count_in(&raw.stir_steps, "a rise has a step", 100, report),
        stir_ihs_limit: share(&raw.stir_ihs_limit, "stir_ihs_limit", report),
        ramp,
        step,
        transient,
        arrivals: raw.arrivals.value.0,
        ihs_limit: share(&raw.ihs_limit, "ihs_limit", report),
    };
    let name = raw.name.as_ref().map_or_else(|| "ims".into(), |n| check_name(n, report));
    Measure { name, kind: MeasureKind::Ims(measure) }
}

fn ramp(raw: &RampRaw, transient: Nanos, report: &mut Report) -> Ramp {
    match raw {
        RampRaw::Steps(StepsRaw { initial, increase, count }) => {
            rate_in(initial, report);
            rate_in(increase, report);
            let count = count_in(count, "there is a first step", 10_000, report);
            Ramp::Steps { initial: initial.value, increase: increase.value, count }
        }
        RampRaw::Search(SearchRaw { start, max, precision, step }) => {
            rate_in(start, report);
            highest_in(max, report);
            if start.value > max.value {
                let (low, high) = (start.value, max.value);
                report.error(start.span, format!("the search starts at {low}, above its `max` of {high}"));
            }
            if step.value.saturating_sub(transient) < SHORTEST_STEP {
                let message = format!("nothing is left to count after the transient of {transient}");
                report.error(step.span, message);
            }
            Ramp::Search {
                start: start.value,
                max: max.value,
                precision: share_in(precision, "precision", Shares::Part, report),
                step: duration_in(step, "step", SHORTEST_STEP, LONGEST, report),
            }
        }
    }
}
