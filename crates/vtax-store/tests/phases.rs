//! `phases.jsonl`: what an IMS benchmark wrote is read, and nothing else is taken for it.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use proptest::prelude::*;
use support::{plan, record};
use vtax_load::sip::{MetricResult, PhaseResult, Pools, ScenarioResult, Second, SecondMetric};
use vtax_load::{GeneratorUse, LatencyHistogram};
use vtax_plan::model::{Scenario, SipMetric};
use vtax_store::ims::{Doc, ImsMetric, ImsOutcome, ImsPhase, ImsPhaseKind, MedianOfAttempts};
use vtax_store::record::{Finding, Observation};
use vtax_store::{Provenance, RunDir, RunWriter, StoreError, TrialDir};
use vtax_units::{Nanos, Rate};

fn metric(values: &[u64]) -> MetricResult {
    let mut histogram = LatencyHistogram::new();
    values.iter().for_each(|v| histogram.record(Nanos(*v)));
    let n = values.len() as f64;
    let mean_ns = values.iter().map(|v| *v as f64).sum::<f64>() / n;
    let variance_ns2 = values.iter().map(|v| (*v as f64 - mean_ns).powi(2)).sum::<f64>() / (n - 1.0).max(1.0);
    MetricResult {
        metric: SipMetric::Ses1,
        scenario: Scenario::Calling,
        mean_ns,
        variance_ns2,
        min: Nanos(values.iter().copied().min().unwrap_or(0)),
        max: Nanos(values.iter().copied().max().unwrap_or(0)),
        histogram,
    }
}

fn phase(seconds: u32, values: &[u64]) -> PhaseResult {
    let scenario = |scenario, bad: u64| ScenarioResult {
        scenario,
        attempts: 10,
        succeeded: 10 - bad,
        inadequate: BTreeMap::from([("timeout".to_owned(), bad)]),
        unfinished: 0,
        retransmissions: 3,
    };
    let second = |i: u32| Second {
        attempts: vec![i, 2],
        inadequate: vec![0, 1],
        retransmissions: vec![0, i],
        metrics: vec![SecondMetric { count: i, mean_us: 0.1 * i as f32, max_us: 7.25 }],
    };
    PhaseResult {
        moments: Vec::new(),
        name: "step 1".to_owned(),
        requested: Rate(50.0),
        effective: Rate(49.875),
        started_unix_ms: 1_700_000_000_123,
        duration: Nanos::from_secs(u64::from(seconds)),
        transient: Nanos::from_secs(1),
        scenarios: vec![scenario(Scenario::Calling, 1), scenario(Scenario::Messaging, 0)],
        metrics: vec![metric(values)],
        seconds: (0..seconds).map(second).collect(),
        lateness: LatencyHistogram::new(),
        generator: GeneratorUse { workers: 1, busiest: 0.25, ..GeneratorUse::default() },
    }
}

fn outcome(phase: &PhaseResult) -> ImsOutcome {
    ImsOutcome {
        doc: Some(Doc { requested: phase.requested, effective: phase.effective, phase: 0 }),
        failed: Some(Rate(60.0)),
        phases: vec![ImsPhase {
            name: phase.name.clone(),
            kind: ImsPhaseKind::Step,
            requested: phase.requested,
            effective: phase.effective,
            started_unix_ms: phase.started_unix_ms,
            duration: phase.duration,
            transient: phase.transient,
            ihs: 0.05,
            passed: true,
            reason: None,
            scenarios: phase.scenarios.clone(),
            metrics: phase.metrics.iter().map(ImsMetric::from).collect(),
        }],
        stray: BTreeMap::new(),
        pools: Pools::default(),
        connections: None,
        probe_clocks: BTreeMap::from([("sut".to_owned(), -5)]),
    }
}

/// A run with one trial that has these phases.
fn run_with(path: &Path, phases: &[PhaseResult]) -> RunWriter {
    let mut run = RunDir::create(path.join("run"), &plan(), &Provenance::default()).unwrap();
    let mut trial = run.begin_trial("native.bridge.http", "ims", 0).unwrap();
    phases.iter().for_each(|phase| trial.phase(phase).unwrap());
    let mut record = record();
    record.observations = vec![Observation::whole(0, Finding::Ims(Box::new(outcome(&phases[0]))))];
    run.finish_trial(trial, record).unwrap();
    run
}

fn read(trial: &TrialDir) -> Result<Vec<PhaseResult>, StoreError> {
    let mut phases = Vec::new();
    trial.for_each_phase(|phase| phases.push(phase)).map(|()| phases)
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let phases = [phase(3, &[1_000, 2_000_000, 3_000_000_000]), phase(0, &[5])];
    let run = run_with(dir.path(), &phases);
    assert_eq!(read(&run.run().trial(0)).unwrap(), phases);
    let records = run.run().trials().unwrap();
    let Some(Finding::Ims(found)) = records[0].finding() else { panic!("not IMS") };
    assert_eq!(**found, outcome(&phases[0]));
    assert_eq!(found.decisive().unwrap().name, "step 1");
}

/// The format as it is documented: what one version wrote, later ones read.
#[test]
fn the_format_is_as_documented() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_with(dir.path(), &[phase(1, &[1_000])]);
    let path = run.run().trial(0).path().join("phases.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(lines[0], serde_json::json!({"version": 1}));
    let phase = &lines[1];
    assert_eq!(phase["requested"], "50/s");
    assert_eq!(
        phase["seconds"][0]["metrics"][0],
        serde_json::json!({"count": 0, "mean_us": 0.0, "max_us": 7.25})
    );
    assert_eq!(phase["scenarios"][0]["inadequate"], serde_json::json!({"timeout": 1}));
    assert_eq!(phase["metrics"][0]["metric"], "ses1");
}

/// Calls at a given rate, of which 100 ms, 200 ms and so on are the setups of those that were answered.
fn calls(answered: u64, causes: &[(&str, u64)], successes: u64) -> PhaseResult {
    let values: Vec<u64> = (1..=answered).map(|n| n * 100_000_000).collect();
    let inadequate: BTreeMap<String, u64> =
        causes.iter().map(|(cause, n)| ((*cause).to_owned(), *n)).collect();
    let calls = ScenarioResult {
        scenario: Scenario::Calling,
        attempts: successes + inadequate.values().sum::<u64>(),
        succeeded: successes,
        inadequate,
        unfinished: 0,
        retransmissions: 0,
    };
    PhaseResult { scenarios: vec![calls], ..phase(0, &values) }
}

/// Their median in a journal, and in an older one.
fn medians(calls: &PhaseResult) -> [Option<MedianOfAttempts>; 2] {
    let waited = Nanos::from_secs(32);
    let of = |metrics: Vec<ImsMetric>| {
        let mut found = outcome(calls);
        found.doc = None;
        (found.phases[0].kind, found.phases[0].metrics) = (ImsPhaseKind::Fixed, metrics);
        let text = serde_json::to_string(&found).unwrap();
        let read: ImsOutcome = serde_json::from_str(&text).unwrap();
        read.median_at_given_rate(SipMetric::Ses1, Scenario::Calling)
    };
    let metrics = calls.metrics.iter();
    [
        of(metrics.clone().map(|m| ImsMetric::of(m, &calls.scenarios, waited)).collect()),
        of(metrics.map(ImsMetric::from).collect()),
    ]
}

/// A system that loses nearly half of all calls and answers the others fast is no better for it.
#[test]
fn what_had_no_answer_is_slower_than_every_answer() {
    let close = |calls: &PhaseResult, [new, old]: [(u64, bool); 2]| {
        let near = |found: Option<MedianOfAttempts>, (ms, at_least): (u64, bool)| {
            let found = found.unwrap();
            // The histogram has three digits, and a rank may be one off.
            assert!((found.ns as f64 / 1e6 / ms as f64 - 1.0).abs() < 0.011, "{found:?}, not {ms} ms");
            assert_eq!(found.at_least, at_least, "{found:?}");
        };
        let found = medians(calls);
        near(found[0], new);
        near(found[1], old);
    };
    close(&calls(100, &[], 100), [(5_000, false), (5_000, false)]);
    // The 100th of 200 attempts is the 100th of 160 answers; an older journal has the 80th and the 144th, and it is between them.
    close(&calls(160, &[("timeout", 40)], 160), [(10_000, false), (10_000, false)]);
    close(&calls(110, &[("timeout", 50), ("status 503", 40)], 110), [(10_000, false), (10_000, false)]);
    // Half were answered: it is the slowest of them.
    close(&calls(100, &[("timeout", 100)], 100), [(10_000, false), (10_000, false)]);
    close(&calls(80, &[("timeout", 120)], 80), [(32_000, true), (8_000, true)]);
    // Nothing is waited for as long as the slowest answer took.
    close(&calls(400, &[("timeout", 500)], 400), [(40_000, true), (40_000, true)]);
    // Too late for the plan's limit isn't unanswered, and not every attempt has a value.
    close(&calls(100, &[("over-limit PX_TRT-SES1", 90)], 10), [(5_000, false), (5_000, false)]);
    close(&calls(40, &[], 200), [(2_000, false), (2_000, false)]);
    assert_eq!(medians(&calls(19, &[], 19)), [None, None]);
}

/// The error of reading, which must be one.
fn refused(trial: &TrialDir) -> StoreError {
    read(trial).map(|phases| phases.len()).unwrap_err()
}

#[test]
fn what_is_no_result_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let run = run_with(dir.path(), &[phase(2, &[1_000])]);
    let trial = run.run().trial(0);
    let path = trial.path().join("phases.jsonl");
    let good = fs::read_to_string(&path).unwrap();
    for (from, to, part) in [
        ("{\"version\":1}", "{\"version\":2}", "written by a newer vtax"),
        ("\"attempts\":[0,2]", "\"attempts\":[0]", "second 0 of phase step 1 has other scenarios"),
        ("\"mean_us\":0.0", "\"mean_us\":1e39", "number out of range"),
        ("\"requested\":\"50/s\"", "\"requested\":\"fast\"", "damaged"),
        ("\"histogram\":\"", "\"histogram\":\"AAAA", "damaged"),
    ] {
        assert!(good.contains(from), "{from} is not in {good}");
        fs::write(&path, good.replacen(from, to, 1)).unwrap();
        let error = refused(&trial).to_string();
        assert!(error.contains(part) && error.contains("phases.jsonl"), "{error}");
    }
    fs::write(&path, &good[..good.len() - 1]).unwrap();
    assert!(refused(&trial).to_string().contains("cut off"));
    fs::write(&path, "").unwrap();
    assert!(refused(&trial).to_string().contains("no first line"));
    fs::remove_file(&path).unwrap();
    assert!(read(&trial).unwrap().is_empty());
}

#[test]
fn what_could_not_be_read_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut run = RunDir::create(dir.path().join("run"), &plan(), &Provenance::default()).unwrap();
    let mut trial = run.begin_trial("native.bridge.http", "ims", 0).unwrap();
    let mut odd = phase(2, &[1]);
    odd.seconds[1].inadequate.push(1);
    assert!(matches!(trial.phase(&odd), Err(StoreError::Unwritable { .. })));
    let mut odd = phase(2, &[1]);
    odd.metrics[0].mean_ns = f64::NAN;
    assert!(matches!(trial.phase(&odd), Err(StoreError::Unwritable { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the file holds: an error or data, never a panic.
    #[test]
    fn damaged_files_are_errors(at in 0.0..1.0f64, bytes in prop::collection::vec(any::<u8>(), 1..30), cut: bool) {
        let dir = tempfile::tempdir().unwrap();
        let run = run_with(dir.path(), &[phase(3, &[1_000, 5_000]), phase(2, &[7])]);
        let trial = run.run().trial(0);
        let path = trial.path().join("phases.jsonl");
        let mut content = fs::read(&path).unwrap();
        let from = (at * content.len() as f64) as usize;
        if cut {
            content.truncate(from);
        } else {
            content[from..].iter_mut().zip(&bytes).for_each(|(old, new)| *old = *new);
        }
        fs::write(&path, content).unwrap();
        if let Err(error) = read(&trial) {
            prop_assert!(error.to_string().contains("phases.jsonl"), "{}", error);
        }
    }

    /// The old tool's reports have percentiles that fall and minima of nothing; these can't.
    #[test]
    fn rows_are_in_order(values in prop::collection::vec(1u64..200_000_000_000, 1..200)) {
        let result = metric(&values);
        let row = ImsMetric::from(&result);
        prop_assert_eq!(row.count as usize, values.len());
        prop_assert_eq!((row.min_ns, row.max_ns), (*values.iter().min().unwrap(), *values.iter().max().unwrap()));
        let of = |name: &str| row.percentiles_ns[name];
        let rising = [row.min_ns, of("50"), of("90"), of("95"), of("99"), of("99.9"), row.max_ns];
        prop_assert!(rising.is_sorted(), "{:?}", rising);
        prop_assert!(row.mean_ns >= row.min_ns as f64 * 0.999 && row.mean_ns <= row.max_ns as f64 * 1.001);
    }
}
