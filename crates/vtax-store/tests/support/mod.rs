//! A small plan and trials to store.
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;

use vtax_load::{Counts, GeneratorUse, Interval, LatencyHistogram, LoadResult, Sample};
use vtax_plan::model::*;
use vtax_store::record::{Finding, Observation, TrialRecord, Validity};
use vtax_units::{Bytes, Nanos, Rate, Share};

pub(crate) fn plan() -> Plan {
    let cell = |name: &str, kind, baseline: Option<&str>| Cell {
        id: format!("{name}.bridge.http"),
        environment: Environment::new(name, kind),
        path: NetPath::new("bridge", PathKind::Bridge),
        service: Service {
            name: "http".to_owned(),
            kind: ServiceKind::Http(WebOptions::on(8080)),
            ready_timeout: Nanos::from_secs(10),
            stop_timeout: Nanos::from_secs(5),
        },
        workload: Workload::Http(HttpWorkload {
            target: "/bytes/100".to_owned(),
            connections: 64,
            requests_per_connection: None,
            http2_streams: None,
            timeout: Nanos::from_secs(1),
            tls: None,
            script: None,
        }),
        systems: Systems::default(),
        parameters: BTreeMap::new(),
        baseline: baseline.map(str::to_owned),
    };
    Plan {
        version: PLAN_VERSION,
        name: "quick".to_owned(),
        description: "What does hosting cost?".to_owned(),
        seed: u64::MAX,
        cells: vec![
            cell("native", EnvironmentKind::Native, None),
            cell(
                "vm",
                EnvironmentKind::Vm(VmOptions { vcpus: Some(1), ..VmOptions::new(Bytes::from_mib(256)) }),
                Some("native.bridge.http"),
            ),
        ],
        measures: vec![Measure {
            name: "latency".to_owned(),
            kind: MeasureKind::Latency(LatencyMeasure {
                load: Load::LowestCapacity(Share(0.5)),
                arrivals: ArrivalProcess::Poisson,
                warmup: Nanos::from_secs(1),
                duration: Nanos::from_secs(3),
                samples: true,
            }),
        }],
        repeat: Repeat {
            min: 3,
            max: 5,
            until: Share(0.05),
            budget: None,
            order: Default::default(),
            trials: Default::default(),
        },
        budget: Budget { sut_cpus: Some(1), sut_memory: Bytes::from_mib(256), client_cpus: None },
        margin: Share(0.05),
        study: None,
        primary: None,
    }
}

fn histogram(values: impl IntoIterator<Item = u64>) -> LatencyHistogram {
    let mut h = LatencyHistogram::new();
    values.into_iter().for_each(|v| h.record(Nanos(v)));
    h
}

pub(crate) fn load() -> LoadResult {
    let interval = |i: u64| Interval {
        start: Nanos(i * 1_000_000_007),
        counts: Counts { ok: 100 + i, sent: 100 + i, intended: 100 + i, ..Counts::default() },
        latency: histogram((0..100).map(|v| 50_000 + v * 1000 * (i + 1))),
        begun: None,
    };
    LoadResult {
        started_unix_ns: 0,
        connections: Vec::new(),
        duration: Nanos::from_secs(3),
        counts: Counts { ok: 303, sent: 303, intended: 303, ..Counts::default() },
        latency: histogram((0..300).map(|v| 50_000 + v * 1000)),
        lateness: histogram(0..300),
        intervals: (0..3).map(interval).collect(),
        generator: GeneratorUse::default(),
        samples: (0..1000_u32)
            .map(|i| Sample {
                start_ns: u64::from(i) * 1_000_000,
                // Around 4.29 s, which the first version of samples had no more than.
                latency_ns: u64::from(u32::MAX) - 500 + u64::from(i),
                outcome: (i % 9) as u8,
            })
            .collect(),
        details: None,
        timeout: Nanos::ZERO,
        answered_in_time: None,
    }
}

pub(crate) fn record() -> TrialRecord {
    TrialRecord {
        cell: "native.bridge.http".to_owned(),
        measure: "latency".to_owned(),
        repetition: 0,
        started_unix_ms: 1_700_000_000_000,
        validity: Validity::Valid,
        observations: vec![Observation::whole(
            1_700_000_000_000,
            Finding::Latency { offered: Rate(1000.0), load: load() },
        )],
        ..TrialRecord::default()
    }
}
