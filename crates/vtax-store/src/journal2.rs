//! Trials as journals of versions 1 and 2 have them, for reading only. These types don't change any more.

use std::collections::BTreeMap;

use serde::Deserialize;
use vtax_load::LoadResult;
use vtax_load::network::NetworkResult;
use vtax_probe::layers::CpuBreakdown;
use vtax_units::Rate;

use crate::failover::{FailoverOutcome, ProtectionRecord};
use crate::ims::ImsOutcome;
use crate::network::{CountCheck, NetworkFinding};
use crate::observation::{Finding, Observation};
use crate::record::{CapacityOutcome, Partner, Timings, TrialRecord, Validity, WarmUp};

/// One finished trial, with one outcome.
#[derive(Debug, Deserialize)]
pub(crate) struct Trial {
    index: u32,
    cell: String,
    measure: String,
    repetition: u32,
    #[serde(default)]
    round: Option<u32>,
    #[serde(default)]
    partner: Option<Partner>,
    started_unix_ms: u64,
    validity: Validity,
    outcome: Option<Outcome>,
    #[serde(default)]
    warm_up: Option<WarmUp>,
    timings: Timings,
    cpu: Option<CpuBreakdown>,
    accelerator: Option<String>,
    #[serde(default)]
    protection: Option<Box<ProtectionRecord>>,
    facts: BTreeMap<String, String>,
}

/// What it found.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Outcome {
    Capacity(CapacityOutcome),
    Latency { offered: Rate, load: LoadResult },
    Throughput { load: LoadResult },
    Ims(Box<ImsOutcome>),
    Failover(Box<FailoverOutcome>),
    Net { tests: Vec<Test> },
}

/// One network test.
#[derive(Debug, Deserialize)]
struct Test {
    test: String,
    started_unix_ms: u64,
    validity: Validity,
    result: Option<NetworkResult>,
    warm_up: Option<WarmUp>,
    checks: Vec<CountCheck>,
    cpu: Option<CpuBreakdown>,
    facts: BTreeMap<String, String>,
}

impl From<Trial> for TrialRecord {
    fn from(old: Trial) -> Self {
        let (started_unix_ms, validity) = (old.started_unix_ms, old.validity.clone());
        let whole = |result| Observation {
            started_unix_ms,
            validity,
            warm_up: old.warm_up,
            cpu: old.cpu,
            result: Some(result),
            ..Observation::default()
        };
        let observations = match old.outcome {
            None => Vec::new(),
            Some(Outcome::Net { tests }) => tests.into_iter().map(Observation::from).collect(),
            Some(Outcome::Capacity(found)) => vec![whole(Finding::Capacity(found))],
            Some(Outcome::Latency { offered, load }) => vec![whole(Finding::Latency { offered, load })],
            Some(Outcome::Throughput { load }) => vec![whole(Finding::Throughput { load })],
            Some(Outcome::Ims(found)) => vec![whole(Finding::Ims(found))],
            Some(Outcome::Failover(found)) => vec![whole(Finding::Failover(found))],
        };
        Self {
            index: old.index,
            run_id: String::new(),
            host: String::new(),
            cell: old.cell,
            measure: old.measure,
            repetition: old.repetition,
            round: old.round,
            partner: old.partner,
            started_unix_ms,
            validity: old.validity,
            observations,
            timings: old.timings,
            accelerator: old.accelerator,
            protection: old.protection,
            further_protection: BTreeMap::new(),
            hops: None,
            generators: Vec::new(),
            facts: old.facts,
        }
    }
}

impl From<Test> for Observation {
    fn from(old: Test) -> Self {
        let checks = old.checks;
        Self {
            name: old.test,
            member: None,
            started_unix_ms: old.started_unix_ms,
            validity: old.validity,
            warm_up: old.warm_up,
            cpu: old.cpu,
            result: old.result.map(|result| Finding::Network(Box::new(NetworkFinding { result, checks }))),
            facts: old.facts,
        }
    }
}
