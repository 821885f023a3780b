//! All parameters of a benchmark, ours beside those of the study's test tool.

use vtax_plan::model::{
    Cell, ImsMeasure, MeasureKind, Plan, Ramp, ServiceKind, SipMetric, SipTransport, SipWorkload, Spread,
    TlsVersion, Workload,
};

use super::what::old_scenario;

/// One parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    /// As a plan writes it.
    pub(crate) name: String,
    /// Its name in the test tool of the study; empty where it had none.
    pub(crate) old: &'static str,
    pub(crate) value: String,
    pub(crate) meaning: String,
}

fn parameter(name: &str, old: &'static str, value: impl Into<String>, meaning: &str) -> Parameter {
    Parameter { name: name.to_owned(), old, value: value.into(), meaning: meaning.to_owned() }
}

/// The few that stand at the top of a report.
pub(crate) const FIRST: [&str; 5] = ["ring_time", "hold_time", "expires", "transient", "subscribers.count"];

/// Every parameter of one cell and measure.
pub(crate) fn all(plan: &Plan, cell: &Cell, measure: &str) -> Vec<Parameter> {
    let mut list = Vec::new();
    match plan.measures.iter().find(|m| m.name == measure).map(|m| &m.kind) {
        Some(MeasureKind::Ims(ims)) => of_measure(ims, &mut list),
        Some(MeasureKind::Latency(l)) => {
            list.push(parameter(
                "duration",
                "StepTime",
                l.duration.to_string(),
                "Length of the measured step",
            ));
            list.push(parameter(
                "warmup",
                "StepTransientTime",
                l.warmup.to_string(),
                "Time at its start for which data is ignored",
            ));
        }
        _ => {}
    }
    if let Workload::Sip(workload) = &cell.workload {
        of_workload(workload, &mut list);
        of_subscribers(workload, &mut list);
        of_mix(workload, &mut list);
    }
    of_service(&cell.service.kind, &mut list);
    list.push(parameter("seed", "rand_seed", plan.seed.to_string(), "Seed of every random choice"));
    list
}

fn of_measure(m: &ImsMeasure, list: &mut Vec<Parameter>) {
    let mut put = |name: &str, old, value: String, meaning: &str| {
        list.push(parameter(name, old, value, meaning));
    };
    put(
        "transient",
        "StepTransientTime",
        m.transient.to_string(),
        "Time after the start of a step for which data is ignored",
    );
    put("step", "StepTime", m.step.to_string(), "Length of each step of the run");
    put(
        "ihs_limit",
        "",
        m.ihs_limit.to_string(),
        "Share of a step's scenarios that may be inadequately handled",
    );
    match m.ramp {
        Ramp::Steps { initial, increase, count } => {
            put("ramp.steps.initial", "InitialSAPS", initial.to_string(), "Load of the first step");
            put("ramp.steps.increase", "SAPSIncreaseAmount", increase.to_string(), "What each step adds");
            put("ramp.steps.count", "StepNumber", count.to_string(), "Most steps");
        }
        Ramp::Search { start, max, precision, step } => {
            put("ramp.search.step", "", step.to_string(), "Length of a step of the search");
            put("ramp.search.start", "InitialSAPS", start.to_string(), "Load of a first trial's first step");
            put("ramp.search.max", "", max.to_string(), "No step goes above this rate");
            put(
                "ramp.search.precision",
                "",
                precision.to_string(),
                "Width of the bracket the search ends with",
            );
        }
    }
    put(
        "registration_rate",
        "PreRegistrationRate",
        m.registration_rate.to_string(),
        "Registration rate before the load",
    );
    put(
        "registration_ihs_limit",
        "PreRegistrationMaxIHS",
        m.registration_ihs_limit.to_string(),
        "Accepted share of inadequately handled registrations before the load",
    );
    put("stir", "StirTime", m.stir.to_string(), "Time over which the load rises to the first step's");
    put("stir_steps", "StirSteps", m.stir_steps.to_string(), "Steps of that rise");
    put(
        "stir_ihs_limit",
        "StirMaxIHS",
        m.stir_ihs_limit.to_string(),
        "Accepted share of inadequately handled scenarios while it rises",
    );
    put("arrivals", "", format!("{:?}", m.arrivals).to_lowercase(), "How attempts follow each other");
}

fn of_workload(w: &SipWorkload, list: &mut Vec<Parameter>) {
    let mut put = |name: &str, old, value: String, meaning: &str| {
        list.push(parameter(name, old, value, meaning));
    };
    put("ring_time", "RingTime, RingTimeDistr", spread(w.ring_time), "From the callee's 180 to its 200");
    put("hold_time", "HoldTime, HoldTimeDistr", spread(w.hold_time), "From the caller's ACK to its BYE");
    put("expires", "RegistrationExpire", w.expires.to_string(), "Registration time asked for");
    put(
        "message_bytes",
        "PMMDataSize, PMMDataSizeDistr",
        format!("{} to {}, uniform", w.message_bytes.0, w.message_bytes.1),
        "Length of page-mode messages",
    );
    let transport = w.transport.word().to_owned();
    put("transport", "TransportTCP", transport, "Between generator and service");
    if w.transport == SipTransport::Tls {
        let version = match w.tls.version {
            None => "any",
            Some(TlsVersion::V12) => "tls12",
            Some(TlsVersion::V13) => "tls13",
        };
        put("tls_version", "", version.to_owned(), "The version of TLS that is offered");
        let cipher = w.tls.cipher.clone().unwrap_or_else(|| "any".to_owned());
        put("cipher", "", cipher, "The cipher suite that is offered");
    }
    put("addresses", "Test systems", w.addresses.to_string(), "Source addresses of the generator");
    put("t1", "", w.t1.to_string(), "T1 of RFC 3261, from which all timers follow");
    for metric in SipMetric::ALL {
        if let Some(limit) = w.limits.get(&metric) {
            let name = metric.name().trim_start_matches("PX_TRT-").to_lowercase();
            let meaning = format!("Longest {} before a scenario is inadequately handled", metric.name());
            put(&format!("limits.{name}"), "", limit.to_string(), &meaning);
        }
    }
}

fn of_subscribers(w: &SipWorkload, list: &mut Vec<Parameter>) {
    let s = &w.subscribers;
    let mut put = |name: &str, old, value: String, meaning: &str| {
        list.push(parameter(&format!("subscribers.{name}"), old, value, meaning));
    };
    put("count", "TotalProvisionedSubscribers", s.count.to_string(), "Provisioned subscribers");
    put("public", "PublicIdentityFormat", s.public.clone(), "Format of public identities");
    put("private", "PrivateIdentityFormat", s.private.clone(), "Format of private identities");
    put("password", "UserPasswordFormat", "(not shown)".to_owned(), "Format of passwords");
    put("realm", "UserRealm", s.realm.clone(), "Realm of digest authentication");
    put("domain", "UserDomain", s.domain.clone(), "Domain of the subscribers");
    list.push(parameter(
        "registered",
        "PercentRegisteredSubscribers",
        w.registered.to_string(),
        "Share of the subscribers that is registered before the load",
    ));
}

fn of_mix(w: &SipWorkload, list: &mut Vec<Parameter>) {
    for part in &w.mix {
        let name = part.scenario.name();
        let old = old_scenario(part.scenario).unwrap_or_default();
        let value = format!("{}, at most {} inadequate", part.share, part.ihs_limit);
        list.push(parameter(&format!("mix.{name}"), old, value, "Share of all attempts"));
    }
}

fn of_service(kind: &ServiceKind, list: &mut Vec<Parameter>) {
    let mut put = |name: &str, value: String, meaning: &str| {
        list.push(parameter(&format!("service.{name}"), "", value, meaning));
    };
    match kind {
        ServiceKind::Sip(o) => {
            put("kind", "sip".to_owned(), "vtax's own registrar and proxy");
            put("port", o.port.to_string(), "UDP and TCP port");
            let workers = o.workers.map_or_else(|| "one per CPU".to_owned(), |n| n.to_string());
            put("workers", workers, "Worker threads");
        }
        ServiceKind::Kamailio(o) => {
            put("kind", "kamailio".to_owned(), "Kamailio with MariaDB");
            put("port", o.port.to_string(), "UDP and TCP port");
            let children = o.children.map_or_else(|| "8".to_owned(), |n| n.to_string());
            put("children", children, "Worker processes per transport");
            put("shared_memory", o.shared_memory.to_string(), "Memory its processes share");
            put("t1", o.t1.to_string(), "Its T1, from which its timers follow");
            put(
                "location",
                format!("{:?}", o.location).to_lowercase(),
                "When registrations reach the database",
            );
        }
        _ => {}
    }
}

fn spread(s: Spread) -> String {
    match s {
        Spread::Exponential(mean) => format!("{mean}, exponential"),
        Spread::Constant(time) => format!("{time}, constant"),
    }
}
