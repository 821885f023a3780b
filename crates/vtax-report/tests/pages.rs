//! Parts of pages: a run that is read on while it is written, and one figure over runs.

use std::path::Path;

use vtax_fixture::{Options, create};
use vtax_report::pages::Progress;
use vtax_report::pages::history::{History, Of, Stored, Wanted};
use vtax_report::{Format, Report};
use vtax_store::record::{Finding, TrialRecord};
use vtax_store::summary::Better;
use vtax_store::{Provenance, RunDir, RunWriter};

fn model(dir: &Path) -> RunDir {
    let options = Options { repetitions: 4, seconds: 1, rate: 200, ..Options::default() };
    create(&dir.join("model"), &options).unwrap()
}

fn begin(model: &RunDir, path: &Path, change: impl FnOnce(&mut Provenance)) -> RunWriter {
    let mut provenance = Provenance { run_id: String::new(), ..model.provenance().unwrap() };
    change(&mut provenance);
    RunDir::create(path, &model.plan().unwrap(), &provenance).unwrap()
}

fn append(run: &mut RunWriter, record: TrialRecord) {
    let trial = run.begin_trial(&record.cell, &record.measure, record.repetition).unwrap();
    run.finish_trial(trial, record).unwrap();
}

#[test]
fn a_run_is_read_on_while_it_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let mut run = begin(&model, &dir.path().join("run"), |_| ());
    let mut progress = Progress::read(run.run()).unwrap();
    assert!(progress.markup().into_string().contains("0 of 0 trials count"));
    let fresh = |run: &RunWriter| Progress::read(run.run()).unwrap().markup();
    for (i, record) in model.trials().unwrap().into_iter().enumerate() {
        append(&mut run, record);
        progress.catch_up().unwrap();
        if i % 7 == 0 {
            assert_eq!(progress.markup(), fresh(&run), "after trial {i}");
        }
    }
    progress.catch_up().unwrap();
    assert!(progress.markup().into_string().contains("Verdicts so far"));
    run.completed().unwrap();
    progress.catch_up().unwrap();
    let end = progress.markup();
    assert_eq!(end, fresh(&run));
    let end = end.into_string();
    assert!(
        end.contains("<h2>Verdicts</h2>") && end.contains("badge worse") && end.contains("<svg"),
        "{end}"
    );
    assert!(end.contains("generator-limited"), "what doesn't count is told: {end}");
}

/// A run whose capacities are those of the model times a factor.
fn scaled(model: &RunDir, path: &Path, factor: f64, change: impl FnOnce(&mut Provenance)) -> Stored {
    let mut run = begin(model, path, change);
    for mut record in model.trials().unwrap() {
        if let Some(Finding::Capacity(found)) = record.finding_mut() {
            found.lower.0 *= factor;
            found.upper.iter_mut().for_each(|upper| upper.0 *= factor);
        }
        append(&mut run, record);
    }
    run.completed().unwrap();
    Report::read(run.run()).unwrap().write(Format::Json, run.run().path()).unwrap();
    Stored::read(run.run()).unwrap()
}

fn wanted(metric: &str, of: Of) -> Wanted {
    let (cell, measure) = ("container.bridge.http".to_owned(), "capacity".to_owned());
    Wanted { cell, measure, metric: metric.to_owned(), of }
}

#[test]
fn a_history_has_what_can_be_compared_and_says_what_cannot() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let day = 86_400_000;
    let of = |name: &str, factor: f64, change: &dyn Fn(&mut Provenance)| {
        scaled(&model, &dir.path().join(name), factor, |p| change(p))
    };
    let at = |i: u64| move |p: &mut Provenance| p.started_unix_ms = 1_795_000_000_000 + i * day;
    let runs: Vec<Stored> = (0..14_u64)
        .map(|i| {
            let factor = if i < 7 { 1.0 } else { 1.5 } * (1.0 + 0.003 * ((i * 5) % 7) as f64);
            of(&format!("r{i}"), factor, &|p| {
                at(i)(p);
                p.packages.insert("nginx".to_owned(), if i < 7 { "1.22" } else { "1.24" }.to_owned());
                p.host.kernel = if i < 7 { "6.1" } else { "6.2" }.to_owned();
            })
        })
        .collect();
    let other = of("other", 1.0, &|p| p.host.cpus = 96);
    let history = |wanted: Wanted| {
        let mut history = History::of(runs[0].clone(), wanted);
        // Backwards: it is closed in the order of time all the same.
        for (i, run) in runs.iter().enumerate().rev() {
            history.add(&i.to_string(), run.clone());
        }
        history.add("other", other.clone());
        history.close(1);
        history
    };
    let found = history(wanted("capacity", Of::Value));
    assert_eq!(found.points.len(), 14);
    assert!(found.points.windows(2).all(|w| w[0].started_unix_ms < w[1].started_unix_ms));
    assert_eq!(found.left_out.len(), 1);
    assert_eq!(found.left_out[0].id, "other");
    assert!(
        found.left_out[0].reasons[0].starts_with("other machine: number of CPUs is"),
        "{:?}",
        found.left_out
    );
    let [turn] = found.turns.as_slice() else { panic!("{:?}", found.turns) };
    assert_eq!(turn.at, 7);
    let (ratio, interval) = turn.ratio.unwrap();
    let (low, high) = interval.unwrap();
    assert!((ratio - 1.5).abs() < 0.02 && low < 1.5 && 1.5 < high, "{turn:?}");
    let besides = turn.besides.join("\n");
    assert!(
        besides.contains("nginx is 1.22 in A, 1.24 in B") && besides.contains("kernel is 6.1 in A"),
        "{besides}"
    );
    assert!(found.picture().into_string().contains("<svg"));
    assert!(history(wanted("capacity", Of::Tax)).turns.is_empty(), "all cells changed alike");
    let none = history(wanted("nothing", Of::Value));
    assert!(none.points.is_empty() && none.left_out.len() == 15 && none.picture().is_empty());
}

/// Where the first run's search ended at the highest rate asked for, the figure is what it is all the same.
#[test]
fn a_history_that_begins_with_a_bound_knows_its_unit_and_direction() {
    let dir = tempfile::tempdir().unwrap();
    let model = model(dir.path());
    let mut run = begin(&model, &dir.path().join("bound"), |_| ());
    for mut record in model.trials().unwrap() {
        if let Some(Finding::Capacity(found)) = record.finding_mut() {
            found.upper = None;
        }
        append(&mut run, record);
    }
    run.completed().unwrap();
    Report::read(run.run()).unwrap().write(Format::Json, run.run().path()).unwrap();
    let bound = Stored::read(run.run()).unwrap();
    let mut history = History::of(bound.clone(), wanted("capacity", Of::Value));
    history.add("bound", bound.clone());
    assert!(history.left_out[0].reasons[0].contains("only a lower bound"), "{:?}", history.left_out);
    assert_eq!((history.unit(), history.better()), ("req/s", Better::Higher));
    assert_eq!(history.text(8000.0), "8000 req/s");
    let tax = History::of(bound, wanted("capacity", Of::Tax));
    assert_eq!((tax.unit(), tax.better(), tax.text(1.5).as_str()), ("x", Better::Lower, "1.50x"));
}
