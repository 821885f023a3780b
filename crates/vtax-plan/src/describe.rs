//! Measures in words.

use std::fmt;

use vtax_units::Nanos;

use crate::model::{
    ArrivalProcess, Cut, FailoverMeasure, ImsMeasure, Limits, Load, MeasureKind, NetworkMeasure, Ramp,
};

impl MeasureKind {
    /// What it does, in a line.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Capacity(m) => format!(
                "highest rate with {}errors at most {}, to within {}; {}, steps of {}",
                limits(&m.limits),
                m.limits.errors,
                m.precision,
                m.arrivals,
                m.step
            ),
            Self::Latency(m) => {
                format!("latency at {}; {}, {} after {}", m.load, m.arrivals, m.duration, m.warmup)
            }
            Self::Failover(m) => failover(m),
            Self::Throughput(m) => {
                format!("requests per second in a closed loop, {} after {}", m.duration, m.warmup)
            }
            Self::Ims(m) => ims(m),
            Self::Network(m) => network(m),
            Self::Storage(m) => m.describe(),
        }
    }
}

/// `p99 at most 50ms and `.
fn limits(limits: &Limits) -> String {
    let of = |name: &str, limit: Option<Nanos>| limit.map(|limit| format!("{name} at most {limit} and "));
    [of("p95", limits.p95), of("p99", limits.p99)].into_iter().flatten().collect()
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate(rate) => write!(f, "{rate}"),
            Self::OwnCapacity(share) => write!(f, "{share} of the cell's own capacity"),
            Self::LowestCapacity(share) => write!(f, "{share} of the lowest capacity compared"),
        }
    }
}

impl fmt::Display for ArrivalProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Poisson => "Poisson arrivals",
            Self::Constant => "constant arrivals",
        })
    }
}

fn failover(m: &FailoverMeasure) -> String {
    let faults = m.faults.iter().map(|fault| format!("{} at {}", fault.kind.words(), fault.at));
    let faults = faults.collect::<Vec<_>>().join(", ");
    format!("{} held for {} while things break: {faults}", m.load, m.duration)
}

fn network(m: &NetworkMeasure) -> String {
    let mut text = format!(
        "every test of the workload in turn, each {} after {} unless it has times of its own",
        m.duration, m.warmup
    );
    if m.capture {
        text += ", counted in a packet capture too";
    }
    match m.cut {
        Some(Cut { at, lasting: Some(lasting) }) => {
            text += &format!("; the path is cut after {at} for {lasting}");
        }
        Some(Cut { at, lasting: None }) => text += &format!("; the path is cut after {at}"),
        None => {}
    }
    text
}

fn ims(m: &ImsMeasure) -> String {
    let how = match m.ramp {
        Ramp::Steps { initial, increase, count } => {
            format!("at most {count} steps of {} from {initial} up by {increase}", m.step)
        }
        Ramp::Search { start, max, precision, step } => format!(
            "a search in steps of {step} from {start} to at most {max}, to within {precision}, confirmed for {}",
            m.step
        ),
    };
    let limit = m.ihs_limit;
    format!("design objective capacity with IHS at most {limit}; {}, {how}", m.arrivals)
}
