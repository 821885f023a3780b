//! `vtax calibrate`: what a testbed can tell apart.

use std::io::Write;
use std::path::Path;

use vtax_report::Report;
use vtax_run::{RunEnd, RunError, TrialsOutcome, calibration};
use vtax_store::provenance::HostFacts;
use vtax_store::{CalibratedEffect, Calibration};
use vtax_vm::Cache;

use crate::cmd::run::{Job, Measured, exit_of, resuming, shell_word};
use crate::cmd::run_target::RunTargetArgs;
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
    if !calibration::is_against_itself(&target.plan) {
        // Only one that is resumed can be of another kind.
        let directory = shell_word(&target.directory);
        return Err(anyhow::anyhow!(
            "{directory} is an ordinary run and no calibration. `vtax run --resume {directory}` continues it; \
             `vtax calibrate PLAN` begins a calibration"
        ))
        .bad_input();
    }
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
    let kept = calibration::keep(Cache::of_user().dir(), &made)?;
    if json {
        out::json(&made)?;
    } else {
        out::printable(&text(&made, &kept))?;
    }
    Ok(Exit::Done)
}

fn made(job: &Job, host: &HostFacts, report: &Report) -> Calibration {
    calibration::calibration(&job.plan, host, report.summary(), &job.directory)
}

/// What was found, for people.
fn text(made: &Calibration, kept: &Path) -> String {
    if made.effects.is_empty() {
        return "nothing of this plan is compared, so there is nothing to calibrate\n".to_owned();
    }
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
        let effect = |metric: &str, told_apart| CalibratedEffect {
            cell: "native.bridge.http".into(),
            measure: "latency".into(),
            metric: metric.into(),
            trials: 5,
            tax: Some(1.012),
            interval: Some((0.97, 1.05)),
            detectable: Some(1.061),
            told_apart,
        };
        let made = Calibration {
            version: 1,
            key: "k".into(),
            conditions: vec![],
            made_unix_ms: 0,
            vtax_version: "0".into(),
            plan: "t".into(),
            run: "r".into(),
            effects: vec![effect("latency_p50", false), effect("latency_p99", true)],
        };
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
        let nothing = Calibration { effects: vec![], ..made.clone() };
        assert!(self::text(&nothing, Path::new("/c/k.json")).starts_with("nothing of this plan is compared"));
        let text = self::text(&Calibration { effects: vec![unknown], ..made }, Path::new("/c/k.json"));
        assert!(text.contains("no smallest effect is known of 1 of them, as too few"), "{text}");
    }
}
