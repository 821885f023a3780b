//! The runner with a fake executor: order, resume, left-out cells, loads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use vtax_plan::model::{Cell, MeasureKind, Plan};
use vtax_run::{
    Executor, LiveProgress, Observer, RunEnd, RunError, RunEvent, Runner, Silent, Stop, TrialRequest,
};
use vtax_store::provenance::AcceleratorFacts;
use vtax_store::record::{
    CapacityOutcome, Finding, InvalidReason, JournalEntry, Observation, TrialRecord, Validity,
};
use vtax_store::{LiveReader, Provenance, RunDir, RunWriter, TrialWriter};
use vtax_units::Rate;

const PLAN: &str = "
vtax: 1
name: test
baseline: native
environments: [native, vm]
services: [http]
workload:
  http: {target: /bytes/100}
measure:
  - capacity: {}
  - latency: {load: 50% of lowest, duration: 1s}
repeat: {min: 3, max: 3}
";

fn plan() -> Plan {
    vtax_plan::parse("test", PLAN.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e:?}"))
}

/// Answers with fixed capacities; latency trials are remembered and found invalid, because a
/// recorded load has no place in this test.
struct Fake {
    capacities: BTreeMap<&'static str, f64>,
    /// By round, factors of a capacity; those that aren't named don't scatter.
    scatter: BTreeMap<&'static str, [f64; 6]>,
    made: RefCell<Vec<String>>,
    offered: RefCell<Vec<f64>>,
    stop_after: usize,
    stop: Stop,
    /// Why latency trials are invalid.
    reason: InvalidReason,
    /// What virtual machines run on.
    accelerator: Option<&'static str>,
}

impl Fake {
    fn new(stop: Stop, stop_after: usize) -> Self {
        Self {
            capacities: BTreeMap::from([("native", 10_000.0), ("container", 10_000.0), ("vm", 400.0)]),
            scatter: BTreeMap::new(),
            made: RefCell::default(),
            offered: RefCell::default(),
            stop_after,
            stop,
            reason: InvalidReason::MeasureFailed,
            accelerator: None,
        }
    }
}

impl Executor for Fake {
    fn trial(
        &mut self,
        request: &TrialRequest<'_>,
        _: &mut TrialWriter,
        _: &dyn Observer,
    ) -> Result<Option<TrialRecord>, RunError> {
        if self.made.borrow().len() == self.stop_after {
            self.stop.ask();
            return Ok(None);
        }
        let name = format!("{}/{}/{}", request.cell.id, request.measure.name, request.repetition);
        self.made.borrow_mut().push(name);
        let outcome = matches!(request.measure.kind, MeasureKind::Capacity(_)).then(|| {
            let name = request.cell.environment.name.as_str();
            let factor = self.scatter.get(name).map_or(1.0, |by_round| by_round[request.round as usize % 6]);
            let lower = Rate(self.capacities[name] * factor);
            Finding::Capacity(CapacityOutcome { lower, upper: Some(Rate(lower.0 * 1.05)), steps: vec![] })
        });
        let validity = if outcome.is_some() {
            Validity::Valid
        } else {
            self.offered.borrow_mut().extend(request.offered.map(|rate| rate.0));
            Validity::Invalid { reason: self.reason, detail: "fake".into() }
        };
        Ok(Some(TrialRecord {
            cell: request.cell.id.clone(),
            measure: request.measure.name.clone(),
            repetition: request.repetition,
            round: Some(request.round),
            started_unix_ms: 0,
            validity,
            accelerator: self
                .accelerator
                .filter(|_| request.cell.environment.name == "vm")
                .map(str::to_owned),
            observations: outcome.into_iter().map(|found| Observation::whole(0, found)).collect(),
            ..TrialRecord::default()
        }))
    }

    fn pair(
        &mut self,
        requests: [&TrialRequest<'_>; 2],
        [first, second]: [&mut TrialWriter; 2],
        observer: &dyn Observer,
    ) -> Result<Option<[TrialRecord; 2]>, RunError> {
        let (one, other) =
            (self.trial(requests[0], first, observer)?, self.trial(requests[1], second, observer)?);
        Ok(one.zip(other).map(|(one, other)| [one, other]))
    }

    fn take_notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    fn describe(&self, provenance: &mut Provenance) {
        let facts = |kind: &str| AcceleratorFacts { kind: kind.to_owned(), ..AcceleratorFacts::default() };
        provenance.accelerator = self.accelerator.map(facts);
    }
}

fn go(plan: &Plan, store: &mut RunWriter, fake: &mut Fake, left_out: Option<usize>) -> RunEnd {
    let stop = fake.stop.clone();
    let estimate = |_: &_, _: &_| Duration::from_secs(1);
    let mut runner = Runner::new(plan, store, &Silent, stop, &estimate).expect("the journal reads");
    if let Some(cell) = left_out {
        runner.leave_out(cell, "no QEMU").expect("noted");
    }
    runner.run(fake).expect("the run directory is writable")
}

fn create(plan: &Plan, directory: &tempfile::TempDir) -> RunWriter {
    RunDir::create(directory.path().join("run"), plan, &Provenance::default()).expect("created")
}

#[test]
fn latency_is_measured_at_a_share_of_the_lowest_capacity() {
    let (plan, directory) = (plan(), tempfile::tempdir().expect("a directory"));
    let mut fake = Fake::new(Stop::default(), usize::MAX);
    assert_eq!(go(&plan, &mut create(&plan, &directory), &mut fake, None), RunEnd::Completed);
    assert!(fake.offered.borrow().iter().all(|rate| *rate == 200.0), "{:?}", fake.offered);
    // 2 cells: 3 capacity trials each; latency is invalid each time and tried 3 + 3 times.
    assert_eq!(fake.made.borrow().len(), 2 * 3 + 2 * 6);
}

/// A run of six rounds at most whose container scatters and seems slower, and whose VM plainly is; interrupted after ten trials.
fn with_scatter() -> (Fake, Vec<String>) {
    let overrides =
        ["environments=[native, container, vm]", "measure=[capacity]", "repeat={min: 3, max: 6, until: 1%}"];
    let plan = vtax_plan::parse("test", PLAN.as_bytes(), &overrides).unwrap_or_else(|e| panic!("{e:?}"));
    let directory = tempfile::tempdir().expect("a directory");
    let mut fake = Fake::new(Stop::default(), 10);
    fake.scatter = BTreeMap::from([
        ("native", [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]),
        ("container", [0.8, 1.0, 0.9, 1.05, 0.85, 1.0]),
        ("vm", [1.01, 0.99, 1.0, 1.01, 0.99, 1.0]),
    ]);
    assert_eq!(go(&plan, &mut create(&plan, &directory), &mut fake, None), RunEnd::Interrupted);
    fake.stop_after = usize::MAX;
    fake.stop = Stop::default();
    let mut store = RunDir::resume(directory.path().join("run")).expect("resumable");
    assert_eq!(go(&plan, &mut store, &mut fake, None), RunEnd::Completed);
    let entries = store.run().journal().expect("the journal reads").map(|e| e.expect("an entry"));
    let notes = entries.filter_map(|entry| match entry {
        JournalEntry::Note { text, .. } => Some(text),
        _ => None,
    });
    let notes = notes.collect();
    (fake, notes)
}

#[test]
fn what_is_plain_ends_early_and_the_others_go_on_with_the_baseline() {
    let (fake, _) = with_scatter();
    let trials = |name: &str| fake.made.borrow().iter().filter(|made| made.starts_with(name)).count();
    assert_eq!((trials("native"), trials("container"), trials("vm")), (6, 6, 3));
}

#[test]
fn what_cannot_be_told_is_said_once_after_the_second_round() {
    let (_, notes) = with_scatter();
    assert_eq!(notes.len(), 1, "{notes:?}");
    let told = &notes[0];
    assert!(told.starts_with("capacity, after 2 rounds: ") && told.contains("container"), "{told}");
    // The VM's is plain.
    assert!(told.contains("6 rounds (all that `repeat` allows)") && !told.contains("vm."), "{told}");
    assert!(told.contains("of 2 comparisons that seem to differ"), "{told}");
    assert!(told.contains(" (capacity: 0.89 times its baseline's). "), "which way it goes: {told}");
    assert!(
        told.contains("What would tell all of them: about ") && !told.contains("duet"),
        "a search is no duet: {told}"
    );
}

#[test]
fn what_was_left_out_takes_no_time_of_rounds_to_come() {
    let overrides = [
        "environments=[native, container, vm]",
        "measure=[capacity]",
        "repeat={min: 3, max: 6, until: 1%, budget: 3h}",
    ];
    let plan = vtax_plan::parse("test", PLAN.as_bytes(), &overrides).unwrap_or_else(|e| panic!("{e:?}"));
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = create(&plan, &directory);
    let mut fake = Fake::new(Stop::default(), usize::MAX);
    fake.scatter = BTreeMap::from([
        ("native", [1.0, 1.01, 0.99, 1.0, 1.01, 0.99]),
        ("container", [0.8, 1.0, 0.9, 1.05, 0.85, 1.0]),
    ]);
    // The fake's own take none, so it is that of the VM's that would count.
    let estimate = |_: &_, _: &_| Duration::from_secs(3600);
    let mut runner =
        Runner::new(&plan, &mut store, &Silent, fake.stop.clone(), &estimate).expect("the journal reads");
    let vm = plan.cells.iter().position(|cell| cell.environment.name == "vm").expect("one");
    runner.leave_out(vm, "no QEMU").expect("noted");
    assert_eq!(runner.run(&mut fake).expect("the run directory is writable"), RunEnd::Completed);
    let journal = std::fs::read_to_string(directory.path().join("run/journal.jsonl")).expect("a journal");
    assert!(journal.contains("capacity, after 2 rounds: "), "{journal}");
    assert!(journal.contains("6 rounds (all that `repeat` allows)"), "{journal}");
}

#[test]
fn a_run_does_not_go_on_with_another_accelerator() {
    let (plan, directory) = (plan(), tempfile::tempdir().expect("a directory"));
    let fake = |accelerator, stop_after| Fake { accelerator, ..Fake::new(Stop::default(), stop_after) };
    let mut store = create(&plan, &directory);
    assert_eq!(go(&plan, &mut store, &mut fake(Some("kvm"), 4), None), RunEnd::Interrupted);
    let refused = |store: &mut RunWriter, accelerator| {
        let estimate = |_: &_, _: &_| Duration::from_secs(1);
        let runner =
            Runner::new(&plan, store, &Silent, Stop::default(), &estimate).expect("the journal reads");
        runner.other_accelerator(&fake(accelerator, 0))
    };
    assert_eq!((refused(&mut store, Some("kvm")), refused(&mut store, None)), (None, None));
    assert_eq!(
        refused(&mut store, Some("tcg")).as_deref(),
        Some(
            "this run's virtual machines ran on KVM, and here they would run on TCG: start a new run, or make KVM usable \
             (`vtax doctor`)"
        )
    );
    assert_eq!(go(&plan, &mut store, &mut fake(Some("kvm"), usize::MAX), None), RunEnd::Completed);
    assert_eq!(refused(&mut store, Some("tcg")), None, "nothing is missing");
}

#[test]
fn a_resumed_run_makes_exactly_what_is_missing() {
    let plan = plan();
    let whole = {
        let directory = tempfile::tempdir().expect("a directory");
        let mut fake = Fake::new(Stop::default(), usize::MAX);
        go(&plan, &mut create(&plan, &directory), &mut fake, None);
        fake.made.into_inner()
    };
    for cut in [0, 1, 4, 9, whole.len() - 1] {
        let directory = tempfile::tempdir().expect("a directory");
        let mut first = Fake::new(Stop::default(), cut);
        assert_eq!(go(&plan, &mut create(&plan, &directory), &mut first, None), RunEnd::Interrupted);
        let mut store = RunDir::resume(directory.path().join("run")).expect("resumable");
        let mut rest = Fake::new(Stop::default(), usize::MAX);
        assert_eq!(go(&plan, &mut store, &mut rest, None), RunEnd::Completed);
        let made: Vec<String> = first.made.into_inner().into_iter().chain(rest.made.into_inner()).collect();
        assert_eq!(made, whole, "interrupted after {cut} trials");
    }
}

/// A report forgets why a cell was left out once the cell was measured.
#[test]
fn a_cell_that_was_measured_meanwhile_is_noted_anew() {
    let (plan, directory) = (plan(), tempfile::tempdir().expect("a directory"));
    let mut store = create(&plan, &directory);
    let estimate = |_: &_, _: &_| Duration::from_secs(1);
    let notes_after = |store: &mut RunWriter| {
        let stop = Stop::default();
        let mut runner = Runner::new(&plan, store, &Silent, stop, &estimate).expect("the journal reads");
        runner.leave_out(0, "no memory").expect("noted");
        let entries = store.run().journal().expect("the journal reads").map(|e| e.expect("an entry"));
        entries.filter(|e| matches!(e, JournalEntry::Note { text, .. } if text.contains("no memory"))).count()
    };
    assert_eq!(notes_after(&mut store), 1);
    assert_eq!(notes_after(&mut store), 1);
    go(&plan, &mut store, &mut Fake::new(Stop::default(), 4), None);
    assert_eq!(notes_after(&mut store), 2);
}

#[test]
fn resuming_a_complete_run_does_not_move_its_end() {
    let (plan, directory) = (plan(), tempfile::tempdir().expect("a directory"));
    let mut store = create(&plan, &directory);
    go(&plan, &mut store, &mut Fake::new(Stop::default(), 4), None);
    assert_eq!(store.run().provenance().expect("there").ended_unix_ms, None);
    drop(store);
    let resume = || RunDir::resume(directory.path().join("run")).expect("resumable");
    go(&plan, &mut resume(), &mut Fake::new(Stop::default(), usize::MAX), None);
    let store = resume();
    let mut provenance = store.run().provenance().expect("there");
    assert!(provenance.ended_unix_ms.is_some());
    provenance.ended_unix_ms = Some(1);
    store.write_provenance(&provenance).expect("written");
    drop(store);
    go(&plan, &mut resume(), &mut Fake::new(Stop::default(), usize::MAX), None);
    assert_eq!(resume().run().provenance().expect("there").ended_unix_ms, Some(1));
}

#[test]
fn a_cell_that_is_left_out_is_noted_once_and_not_tried() {
    let (plan, directory) = (plan(), tempfile::tempdir().expect("a directory"));
    let mut fake = Fake::new(Stop::default(), usize::MAX);
    let mut store = create(&plan, &directory);
    go(&plan, &mut store, &mut fake, Some(1));
    go(&plan, &mut store, &mut fake, Some(1));
    assert!(fake.made.borrow().iter().all(|t| t.starts_with("native")), "{:?}", fake.made);
    assert!(fake.offered.borrow().iter().all(|rate| *rate == 5_000.0));
    let journal = std::fs::read_to_string(directory.path().join("run/journal.jsonl")).expect("a journal");
    assert_eq!(journal.matches("left out: no QEMU").count(), 1, "{journal}");
}

#[test]
fn a_cell_that_fails_in_one_measure_is_left_out_of_all_with_that_reason() {
    let (plan, directory) = (plan(), tempfile::tempdir().expect("a directory"));
    let mut fake = Fake::new(Stop::default(), usize::MAX);
    fake.reason = InvalidReason::ServiceFailed;
    let mut store = create(&plan, &directory);
    assert_eq!(go(&plan, &mut store, &mut fake, None), RunEnd::Completed);
    let journal = std::fs::read_to_string(directory.path().join("run/journal.jsonl")).expect("a journal");
    let reason = " counted, so no more trials of any measure are made; the last: fake";
    assert!(journal.contains("left out: no trial of `latency"), "{journal}");
    // Both cells, which have capacities.
    assert_eq!(journal.matches(reason).count(), 2, "{journal}");
}

/// Keeps what a run says.
#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn observe(&self, event: &RunEvent<'_>) {
        if let RunEvent::Note { text } = event {
            self.0.lock().expect("a note").push((*text).to_owned());
        }
    }
}

#[test]
fn of_testbeds_with_one_name_each_is_asked_for_and_equal_ones_once() {
    let overrides = [
        "environments=[native, {vm: {count: [1, 4], memory: 256MiB}}]",
        "workload.http.target=[/bytes/100, /bytes/200]",
    ];
    let plan = vtax_plan::parse("test", PLAN.as_bytes(), &overrides).unwrap_or_else(|e| panic!("{e:?}"));
    let directory = tempfile::tempdir().expect("a directory");
    let mut store = create(&plan, &directory);
    let estimate = |_: &_, _: &_| Duration::from_secs(1);
    let (stop, said) = (Stop::default(), Notes::default());
    let mut runner = Runner::new(&plan, &mut store, &said, stop, &estimate).expect("the journal reads");
    let mut asked = Vec::new();
    let mut too_many = |cell: &Cell| {
        asked.push(cell.id.clone());
        (cell.environment.count > 1).then(|| "no memory for them".to_owned())
    };
    let refused = runner.leave_out_impossible(true, &mut too_many).expect_err("strict");
    assert!(matches!(&refused, RunError::NotAllPossible(why) if why.ends_with("no memory for them")));
    let refused = refused.to_string();
    assert!(refused.starts_with("not everything of this plan can be measured"), "{refused}");
    // Each cell is named, and what they have in common once.
    let mut of_four = plan.cells.iter().filter(|cell| cell.environment.count == 4);
    assert!(of_four.all(|cell| refused.contains(&cell.id)), "{refused}");
    assert_eq!(refused.matches("no memory for them").count(), 1, "{refused}");
    let none =
        runner.leave_out_impossible(false, |_| Some("no memory".to_owned())).expect_err("no cell is left");
    assert!(matches!(none, RunError::NothingPossible(_)), "{none}");
    assert_eq!(asked.len(), 3, "{asked:?}");
    for _ in 0..2 {
        runner
            .leave_out_impossible(false, |cell| (cell.environment.count > 1).then(|| "no memory".to_owned()))
            .expect("noted");
    }
    drop(runner);
    let entries = store.run().journal().expect("the journal reads").map(|e| e.expect("an entry"));
    let left_out: Vec<String> = entries
        .filter_map(|entry| match entry {
            JournalEntry::Note { cell, .. } => cell,
            _ => None,
        })
        .collect();
    let four: Vec<&str> =
        plan.cells.iter().filter(|cell| cell.environment.count == 4).map(|cell| cell.id.as_str()).collect();
    assert_eq!((left_out.len(), left_out.iter().map(String::as_str).collect::<Vec<_>>()), (2, four.clone()));
    // One reason is told once, of all of them, though each has its own note in the journal.
    assert_eq!(*said.0.lock().expect("notes"), [format!("{}: left out: no memory", four.join(", "))]);
}

#[test]
fn a_run_can_be_followed_and_so_can_what_is_made_after_an_interruption() {
    let (plan, directory) = (plan(), tempfile::tempdir().expect("a directory"));
    let path = directory.path().join("run");
    let mut reader = LiveReader::new(&path);
    let estimate = |_: &_, _: &_| Duration::from_secs(1);
    let mut follow = |store: &mut RunWriter, fake: &mut Fake| {
        let live = LiveProgress::start(store.run(), &Silent).expect("a file");
        let mut runner = Runner::new(&plan, store, &live, fake.stop.clone(), &estimate).expect("a runner");
        runner.run(fake).expect("the run directory is writable");
        drop(runner);
        drop(live);
        reader.read().expect("readable").pop().expect("a state")
    };
    let mut first = Fake::new(Stop::default(), 4);
    let mut store = create(&plan, &directory);
    let state = follow(&mut store, &mut first);
    assert_eq!((state.finished, state.trial.map(|trial| trial.index)), (4, Some(4)));
    drop(store);
    let mut store = RunDir::resume(&path).expect("resumable");
    let state = follow(&mut store, &mut Fake::new(Stop::default(), usize::MAX));
    assert_eq!((state.finished, state.trial), (18, None));
    // Capacities of both cells count; no latency trial does.
    let compared: Vec<&str> = state.comparisons.iter().map(|of| of.measure.as_str()).collect();
    assert_eq!(compared, ["capacity"]);
    assert!(state.comparisons[0].interval.is_some());
}

#[test]
fn who_follows_a_run_sees_the_rate_of_the_present_load() {
    let (plan, directory) = (plan(), tempfile::tempdir().expect("a directory"));
    let store = create(&plan, &directory);
    let mut reader = LiveReader::new(&directory.path().join("run"));
    let live = LiveProgress::start(store.run(), &Silent).expect("a file");
    live.observe(&RunEvent::Phase { what: "measuring" });
    live.observe(&RunEvent::Rate { rate: Rate(1_234.0) });
    live.observe(&RunEvent::Rate { rate: Rate(1_250.0) });
    drop(live);
    let state = reader.read().expect("readable").pop().expect("a state");
    assert_eq!((state.phase.as_str(), state.rate), ("measuring", Some(1_250.0)));
}
