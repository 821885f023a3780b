//! `vtax calibrate`: what a testbed can tell apart.

use std::io::Write;
use std::path::{Path, PathBuf};

use vtax_plan::is_smoke_test;
use vtax_report::Report;
use vtax_run::{RunEnd, RunError, TrialsOutcome, calibration};
use vtax_store::provenance::HostFacts;
use vtax_store::{CalibratedEffect, Calibration};
use vtax_vm::Cache;

use crate::cmd::run::{Job, Measured, exit_of, resuming, shell_word};
use crate::cmd::run_target::{RunTarget, RunTargetArgs};
use crate::exit::{Classify, Exit, Failure, Outcome, report};
use crate::front::in_controller;
use crate::out;

/// Measure a plan's baselines against themselves, to learn the smallest effect that this host can show.
///
/// Under the plan's own rules of repetition. What was found is kept in the cache; runs of plans with the
/// same baselines and measures take it along, and give no verdict on a smaller effect.
/// The run's name is the plan's with `-calibration` behind it.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: RunTargetArgs,
    /// Print JSON: the calibration as it is kept.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let target = args.target.resolve(|plan| calibration::against_itself(&plan))?;
    check_kind(&target)?;
    // An older calibration must have no say in a new one.
    let job = Job::new(target, &[])?;
    // Before the controller: inside its namespaces the host looks different.
    let host = vtax_run::host();
    in_controller(&job.left(), |scope, groups| {
        let measured = job.control(scope, groups, "taking the testbed down").map_err(in_own_words);
        let outcome = measured.and_then(|measured| conclude(&job, &host, &measured, args.json));
        outcome.unwrap_or_else(|failure| report(&failure))
    })
}

/// Refuses what is no calibration: only what is resumed can be of another kind.
fn check_kind(target: &RunTarget) -> Result<(), Failure> {
    let RunTarget { plan, directory, .. } = target;
    let word = shell_word(directory);
    let error = if is_smoke_test(plan) {
        // Perhaps of a plan that compares a baseline with itself: its figures say nothing all the same.
        anyhow::anyhow!(
            "{word} is a smoke test, which isn't gone on with; `vtax calibrate PLAN` begins a calibration"
        )
    } else if !calibration::is_against_itself(plan) {
        let command = resuming(plan, directory);
        anyhow::anyhow!(
            "{word} is an ordinary run and no calibration. `{command}` continues it; \
             `vtax calibrate PLAN` begins a calibration"
        )
    } else {
        return Ok(());
    };
    Err(error).bad_input()
}

/// A calibration is strict without being asked, so what can't be built isn't told with the name of that option.
fn in_own_words(failure: Failure) -> Failure {
    let Failure::Other { exit, error } = failure else { return failure };
    let Some(RunError::NotAllPossible(why)) = error.downcast_ref::<RunError>() else {
        return Failure::Other { exit, error };
    };
    let way_out = "--set leaves some out, as in --set 'services=[...]'";
    let error = format!("a calibration needs all its baselines ({way_out}); not possible here: {why}");
    Failure::new(exit, anyhow::anyhow!(error))
}

/// Keeps what was found and prints it.
fn conclude(job: &Job, host: &HostFacts, measured: &Measured, json: bool) -> Outcome {
    let Measured { run, ended, outcome } = measured;
    let mut err = std::io::stderr().lock();
    let directory = shell_word(&job.directory);
    if *ended == RunEnd::Interrupted {
        // What can't be printed any more must not hide how it ended.
        let _ = writeln!(err, "interrupted; go on with: {}", resuming(&job.plan, &job.directory));
        return Ok(Exit::Interrupted);
    }
    let report = vtax_report::write_all(run)?;
    if *outcome != TrialsOutcome::SomeValid {
        let _ = writeln!(err, "no trial counts; {directory}/report.html says why");
        return Ok(exit_of(*outcome));
    }
    let made = made(job, host, &report);
    let kept = keep(Cache::of_user().dir(), &made, &directory, &mut err)?;
    if json {
        out::json(&made)?;
    } else if let Some(kept) = kept {
        out::printable(&text(&made, &kept))?;
    }
    Ok(Exit::Done)
}

/// Keeps what was found, and gives its place. Of nothing that is compared nothing is kept, as it would replace what was found before.
fn keep(
    cache: &Path,
    made: &Calibration,
    directory: &str,
    err: &mut impl Write,
) -> Result<Option<PathBuf>, Failure> {
    if made.effects.is_empty() {
        let what = "no trial has a figure that is compared, so nothing is calibrated or kept";
        let _ = writeln!(err, "{what}; {directory}/report.html has them");
        return Ok(None);
    }
    Ok(Some(calibration::keep(cache, made)?))
}

fn made(job: &Job, host: &HostFacts, report: &Report) -> Calibration {
    calibration::calibration(&job.plan, host, report.summary(), &job.directory)
}

/// What was found, for people.
fn text(made: &Calibration, kept: &Path) -> String {
    let mut text = String::from(
        "\nThe baseline against itself: the difference that was seen (there is none in truth), and the smallest difference that \
         this host can show\n\n",
    );
    let row = |e: &CalibratedEffect| -> [String; 5] {
        let seemed = match (e.tax, e.interval) {
            (Some(tax), Some((low, high))) => format!("{tax:.3}x ({low:.3}-{high:.3})"),
            (Some(tax), None) => format!("{tax:.3}x"),
            (None, _) => "none".to_owned(),
        };
        let smallest = e.detectable.map_or("none".to_owned(), |d| format!("{:.1} %", (d - 1.0) * 100.0));
        let smallest = if e.told_apart { format!("{smallest}  told apart") } else { smallest };
        [e.measure.clone(), e.metric.clone(), e.trials.to_string(), seemed, smallest]
    };
    let head = ["measure", "metric", "trials", "seemed", "smallest"].map(str::to_owned);
    let mut cell = "";
    for effect in &made.effects {
        if effect.cell != cell {
            cell = &effect.cell;
            let of = made.effects.iter().filter(|e| e.cell == cell);
            let rows: Vec<_> = std::iter::once(head.clone()).chain(of.map(row)).collect();
            text += &format!("{cell}\n{}\n", table(&rows));
        }
    }
    let unknown = made.effects.iter().filter(|e| e.detectable.is_none()).count();
    if unknown > 0 {
        text += &format!(
            "no smallest effect is known of {unknown} of them, as too few trials count: make more of them (`repeat`)\n"
        );
    }
    let told_apart = made.effects.iter().filter(|e| e.told_apart).count();
    text += &format!(
        "{told_apart} of {} comparisons showed a difference where there is none; by chance one in twenty does\nkept: {}\n",
        made.effects.len(),
        kept.display()
    );
    text
}

/// Aligned columns.
fn table<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |i: usize| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let line = |row: &[String; N]| {
        let cells: Vec<String> = row.iter().zip(&widths).map(|(c, w)| format!("{c:<w$}")).collect();
        format!("  {}\n", cells.join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn effect(metric: &str, told_apart: bool) -> CalibratedEffect {
        CalibratedEffect {
            cell: "native.bridge.http".into(),
            measure: "latency".into(),
            metric: metric.into(),
            trials: 5,
            tax: Some(1.012),
            interval: Some((0.97, 1.05)),
            detectable: Some(1.061),
            told_apart,
        }
    }

    fn of(effects: Vec<CalibratedEffect>) -> Calibration {
        Calibration {
            version: 1,
            key: "k".into(),
            conditions: vec![],
            made_unix_ms: 0,
            vtax_version: "0".into(),
            plan: "t".into(),
            run: "r".into(),
            effects,
        }
    }

    #[test]
    fn a_calibration_of_nothing_replaces_none() {
        let cache = tempfile::tempdir().unwrap();
        let mut told = Vec::new();
        let good = of(vec![effect("latency_p50", false)]);
        let path = keep(cache.path(), &good, "runs/a", &mut told).unwrap().unwrap();
        assert!(told.is_empty());
        let kept = std::fs::read(&path).unwrap();
        assert_eq!(keep(cache.path(), &of(vec![]), "runs/b", &mut told).unwrap(), None);
        assert_eq!(std::fs::read(&path).unwrap(), kept, "the good one is still there");
        let told = String::from_utf8(told).unwrap();
        assert!(told.starts_with("no trial has a figure that is compared"), "{told}");
        assert!(told.ends_with("runs/b/report.html has them\n"), "{told}");
    }

    #[test]
    fn what_is_no_calibration_is_told_by_what_goes_on_with_it() {
        let text = "{vtax: 1, name: t, baseline: native, environments: [native, container], services: http, \
                    workload: {http: {target: /page/1}}, measure: [throughput], repeat: 3}";
        let plan = vtax_plan::parse("t", text.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let itself = calibration::against_itself(&plan);
        let checked = |plan| {
            check_kind(&RunTarget { plan, directory: "runs/a".into(), plan_file: None, tags: Vec::new() })
        };
        let refused = |plan| checked(plan).unwrap_err().to_string();
        assert!(checked(itself.clone()).is_ok());
        let renamed = vtax_plan::model::Plan { name: "u".to_owned(), ..itself };
        for of_smoke_test in [vtax_plan::smoke_test(&plan), vtax_plan::smoke_test(&renamed)] {
            let told = refused(of_smoke_test);
            assert!(told.starts_with("runs/a is a smoke test") && !told.contains("--resume"), "{told}");
        }
        let told = refused(plan);
        assert!(told.contains("`vtax run --resume runs/a` continues it"), "{told}");
    }

    #[test]
    fn what_cannot_be_built_is_not_blamed_on_an_option_that_there_is_not() {
        let refused = RunError::NotAllPossible("native.bridge.nginx: not installed".to_owned());
        let told = in_own_words(Failure::new(Exit::HostCannot, refused));
        assert_eq!(told.exit(), Exit::HostCannot);
        let told = told.to_string();
        assert!(told.starts_with("a calibration needs all its baselines"), "{told}");
        assert!(!told.contains("--strict"), "{told}");
        assert!(told.ends_with("not possible here: native.bridge.nginx: not installed"), "{told}");
        let other = in_own_words(Failure::new(Exit::BadInput, anyhow::anyhow!("another")));
        assert_eq!((other.exit(), other.to_string()), (Exit::BadInput, "another".to_owned()));
    }

    #[test]
    fn the_text_says_what_is_told_and_what_should_not_have_been() {
        let made = of(vec![effect("latency_p50", false), effect("latency_p99", true)]);
        let text = text(&made, Path::new("/c/k.json"));
        for part in [
            "native.bridge.http\n  measure  metric       trials  seemed                smallest\n",
            "  latency  latency_p50  5       1.012x (0.970-1.050)  6.1 %\n",
            "6.1 %  told apart\n",
            "1 of 2 comparisons showed a difference where there is none; by chance one in twenty does\n",
            "kept: /c/k.json",
        ] {
            assert!(text.contains(part), "{part:?} is missing in\n{text}");
        }
        let unknown = CalibratedEffect { detectable: None, interval: None, ..effect("latency_p50", false) };
        let text = self::text(&Calibration { effects: vec![unknown], ..made }, Path::new("/c/k.json"));
        assert!(text.contains("no smallest effect is known of 1 of them, as too few"), "{text}");
    }
}
