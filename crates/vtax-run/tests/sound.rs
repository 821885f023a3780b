//! The runner with a simulated machine: when it stops, in what order, and what pairs are.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use vtax_load::{Counts, GeneratorUse, LatencyHistogram, LoadResult};
use vtax_plan::model::Plan;
use vtax_run::{Executor, Observer, RunEnd, RunError, Runner, Silent, Stop, TrialRequest};
use vtax_store::record::{Finding, InvalidReason, Observation, TrialRecord, Validity};
use vtax_store::{Provenance, RunDir, RunWriter, TrialWriter};
use vtax_units::Nanos;

const PLAN: &str = "
vtax: 1
name: simulated
baseline: native
environments: [native, container, native: {name: slow}]
services: http
workload: {http: {target: /bytes/100}}
measure: [throughput]
repeat: {min: 3, max: 30, until: 5%}
";

fn plan(overrides: &[&str]) -> Plan {
    vtax_plan::parse("test", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{e}"))
}

/// A machine whose pace wanders: what all trials of one moment share, and scatter of each.
struct Machine {
    rng: StdRng,
    /// Relative scatter of a trial of its own.
    own: f64,
    /// Relative scatter that lasts for one moment: a trial, or a pair.
    shared: f64,
    /// Trials, by number, that the machine fails.
    fails: fn(usize) -> bool,
    made: Vec<String>,
    stop: Stop,
    stop_after: usize,
}

impl Machine {
    fn new(own: f64, shared: f64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(5),
            own,
            shared,
            fails: |_| false,
            made: Vec::new(),
            stop: Stop::default(),
            stop_after: usize::MAX,
        }
    }

    /// Roughly normal, in units of one standard deviation.
    fn noise(&mut self) -> f64 {
        (0..12).map(|_| self.rng.random::<f64>()).sum::<f64>() - 6.0
    }

    fn record(&mut self, request: &TrialRequest<'_>, moment: f64) -> TrialRecord {
        let number = self.made.len();
        self.made.push(format!("{}/{}", request.cell.environment.name, request.repetition));
        let pace = if request.cell.environment.name == "slow" { 800.0 } else { 1_000.0 };
        let ok = pace * (self.shared * moment + self.own * self.noise()).exp();
        let load = LoadResult {
            started_unix_ns: 0,
            connections: Vec::new(),
            duration: Nanos::from_secs(10),
            counts: Counts { ok: (ok * 10.0) as u64, ..Counts::default() },
            latency: LatencyHistogram::new(),
            lateness: LatencyHistogram::new(),
            intervals: Vec::new(),
            generator: GeneratorUse::default(),
            samples: Vec::new(),
            details: None,
            timeout: Nanos::ZERO,
            answered_in_time: None,
        };
        let validity = if (self.fails)(number) {
            Validity::Invalid { reason: InvalidReason::NoSteadyState, detail: "it moved".into() }
        } else {
            Validity::Valid
        };
        TrialRecord {
            cell: request.cell.id.clone(),
            measure: request.measure.name.clone(),
            repetition: request.repetition,
            round: Some(request.round),
            started_unix_ms: 0,
            validity,
            observations: vec![Observation::whole(0, Finding::Throughput { load })],
            ..TrialRecord::default()
        }
    }
}

impl Executor for Machine {
    fn trial(
        &mut self,
        request: &TrialRequest<'_>,
        _: &mut TrialWriter,
        _: &dyn Observer,
    ) -> Result<Option<TrialRecord>, RunError> {
        let moment = self.noise();
        Ok(Some(self.record(request, moment)))
    }

    fn pair(
        &mut self,
        requests: [&TrialRequest<'_>; 2],
        _: [&mut TrialWriter; 2],
        _: &dyn Observer,
    ) -> Result<Option<[TrialRecord; 2]>, RunError> {
        if self.made.len() >= self.stop_after {
            self.stop.ask();
            return Ok(None);
        }
        let moment = self.noise();
        Ok(Some(requests.map(|request| self.record(request, moment))))
    }

    fn take_notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn describe(&self, _: &mut Provenance) {}
}

fn go(plan: &Plan, store: &mut RunWriter, machine: &mut Machine) -> RunEnd {
    let (stop, estimate) = (machine.stop.clone(), |_: &_, _: &_| Duration::from_secs(1));
    let mut runner = Runner::new(plan, store, &Silent, stop, &estimate).expect("the journal reads");
    runner.run(machine).expect("the run directory is writable")
}

/// What a run of `plan` on `machine` wrote down.
fn records(plan: &Plan, machine: &mut Machine) -> Vec<TrialRecord> {
    let directory = tempfile::tempdir().expect("a directory");
    let mut store =
        RunDir::create(directory.path().join("run"), plan, &Provenance::default()).expect("created");
    assert_eq!(go(plan, &mut store, machine), RunEnd::Completed);
    store.run().trials().expect("readable")
}

/// Valid trials of an environment.
fn valid(records: &[TrialRecord], environment: &str) -> usize {
    let of = |r: &&TrialRecord| r.cell.starts_with(environment) && r.validity == Validity::Valid;
    records.iter().filter(of).count()
}

#[test]
fn a_quiet_machine_needs_the_minimum_and_a_noisy_one_more() {
    let quiet = records(&plan(&[]), &mut Machine::new(0.002, 0.0));
    assert_eq!(quiet.len(), 9);
    let noisy = records(&plan(&[]), &mut Machine::new(0.06, 0.0));
    assert!(noisy.len() > 20 && noisy.len() < 90, "{} trials", noisy.len());
    let hopeless = records(&plan(&[]), &mut Machine::new(0.5, 0.0));
    assert_eq!(hopeless.len(), 90, "up to the maximum and no further");
}

#[test]
fn every_trial_knows_its_round_and_a_repeated_one_stays_in_it() {
    let mut machine = Machine::new(0.002, 0.0);
    machine.fails = |number| number % 4 == 1;
    let records = records(&plan(&["repeat=4"]), &mut machine);
    for environment in ["native", "container", "slow"] {
        let rounds: Vec<Option<u32>> = records
            .iter()
            .filter(|r| r.cell.starts_with(environment) && r.validity == Validity::Valid)
            .map(|r| r.round)
            .collect();
        assert_eq!(rounds, [Some(0), Some(1), Some(2), Some(3)], "{environment}");
    }
    assert!(records.iter().is_sorted_by_key(|r| r.round), "rounds follow one another");
    assert!(records.len() > 12);
}

#[test]
fn abba_runs_there_and_back() {
    let records = records(&plan(&["repeat={min: 6, max: 6, order: abba}"]), &mut Machine::new(0.01, 0.0));
    let cells: Vec<&str> = records.iter().map(|r| r.cell.as_str()).collect();
    for there_and_back in cells.chunks(6) {
        assert!(there_and_back.iter().eq(there_and_back.iter().rev()), "{there_and_back:?}");
    }
}

#[test]
fn duets_name_each_other_and_take_out_what_they_share() {
    // What lasts for a moment hides everything from single trials.
    let noisy = || Machine::new(0.005, 0.3);
    let single = records(&plan(&[]), &mut noisy());
    let of = |name: &str| single.iter().filter(|r| r.cell.starts_with(name)).count();
    // The slow one may become plain before its thirty rounds are over.
    assert_eq!((of("native"), of("container")), (30, 30));
    let duet = records(&plan(&["repeat.trials=duet"]), &mut noisy());
    assert_eq!(duet.len(), 2 * 3 * 2, "two candidates, three rounds, pairs");
    for record in &duet {
        let partner = record.partner.as_ref().expect("each has one");
        let other = &duet[partner.index as usize];
        assert_eq!((&other.cell, other.round), (&partner.cell, record.round));
        assert_eq!(other.partner.as_ref().map(|p| p.index), Some(record.index));
        assert!(record.cell.starts_with("native") != other.cell.starts_with("native"));
    }
    let mut repetitions: Vec<u32> =
        duet.iter().filter(|r| r.cell.starts_with("native")).map(|r| r.repetition).collect();
    repetitions.sort_unstable();
    assert_eq!(repetitions, [0, 1, 2, 3, 4, 5], "each attempt at the baseline is one of its own");
}

#[test]
fn a_pair_counts_as_a_whole() {
    let mut machine = Machine::new(0.002, 0.0);
    // The first pair's baseline and the second pair's candidate.
    machine.fails = |number| number == 0 || number == 3;
    let records = records(&plan(&["repeat={min: 3, max: 3, trials: duet}"]), &mut machine);
    let reasons: Vec<Option<InvalidReason>> = records[..4]
        .iter()
        .map(|r| match &r.validity {
            Validity::Invalid { reason, .. } => Some(*reason),
            Validity::Valid => None,
        })
        .collect();
    use InvalidReason::{NoSteadyState, PartnerInvalid};
    assert_eq!(
        reasons,
        [Some(NoSteadyState), Some(PartnerInvalid), Some(PartnerInvalid), Some(NoSteadyState)]
    );
    let Validity::Invalid { detail, .. } = &records[1].validity else { panic!("it is invalid") };
    assert!(detail.contains("native") && detail.contains("it moved"), "{detail}");
    assert_eq!((valid(&records, "container"), valid(&records, "slow"), valid(&records, "native")), (3, 3, 6));
}

#[test]
fn a_run_cut_off_within_a_pair_goes_on_with_a_new_one() {
    let plan = plan(&["repeat={min: 3, max: 3, trials: duet}"]);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("run");
    let mut machine = Machine::new(0.002, 0.0);
    machine.stop_after = 4;
    {
        let mut store = RunDir::create(&path, &plan, &Provenance::default()).expect("created");
        assert_eq!(go(&plan, &mut store, &mut machine), RunEnd::Interrupted);
    }
    // Killed between the two lines of the second pair.
    let journal = path.join("journal.jsonl");
    let text = std::fs::read_to_string(&journal).expect("a journal");
    let ends: Vec<usize> = text.match_indices("{\"event\":\"trial-ended\"").map(|(i, _)| i).collect();
    assert_eq!(ends.len(), 4);
    std::fs::write(&journal, &text[..ends[3]]).expect("writable");
    let mut store = RunDir::resume(&path).expect("resumable");
    assert_eq!(go(&plan, &mut store, &mut Machine::new(0.002, 0.0)), RunEnd::Completed);
    let records = store.run().trials().expect("readable");
    assert_eq!((valid(&records, "container"), valid(&records, "slow")), (3, 3));
    let native = records.iter().filter(|record| record.cell.starts_with("native")).count();
    assert_eq!((native, valid(&records, "native")), (7, 6), "one has lost its partner, and doesn't count");
}
