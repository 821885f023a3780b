//! `vtax` alone: what to do next.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use clap::CommandFactory;
use vtax_plan::is_smoke_test;
use vtax_store::{RunBrief, RunDir, RunStamp, is_locked};

use crate::cmd::Cli;
use crate::cmd::run::{resuming, shell_word};
use crate::exit::{Exit, Outcome};
use crate::out;

/// Most entries of a directory that are looked at.
const LOOKED_AT: usize = 1_000;
/// Most bytes of a file that are read to see whether it is a plan.
const HEAD: usize = 4_096;
/// A first plan to run, beside which the others are.
const FIRST: &str = "plans/quick.yaml";
/// Where packages put what comes with vtax.
const SHARED: &str = "/usr/share/vtax";

/// What is here already.
#[derive(Debug, Default, PartialEq, Eq)]
struct Here {
    /// Plans of the user's own, in this directory.
    plans: Vec<PathBuf>,
    /// The first of the plans that came with vtax: in this directory, else where a package puts it.
    shipped: Option<PathBuf>,
    /// The run that changed last, and what is known of it.
    run: Option<(PathBuf, RunBrief)>,
    /// The command that goes on with that run, where it was cut short.
    resume: Option<String>,
    /// Whether it goes on right now.
    goes_on: bool,
}

pub(crate) fn run() -> Outcome {
    if !std::io::stdout().is_terminal() {
        // Who calls it from a script has forgotten something.
        let help = Cli::command().render_help();
        let _ = write!(std::io::stderr(), "{help}");
        return Ok(Exit::BadInput);
    }
    out::text(&next(&Here::look(Path::new("."), Path::new(SHARED))))?;
    Ok(Exit::Done)
}

impl Here {
    fn look(directory: &Path, shared: &Path) -> Self {
        let mut plans: Vec<PathBuf> = entries(directory).into_iter().filter(|path| is_plan(path)).collect();
        plans.sort();
        let runs = entries(&directory.join("runs")).into_iter();
        let newest = runs.filter_map(|run| Some((RunStamp::of(&run)?, run))).max();
        let run = newest.and_then(|(_, run)| RunBrief::read(&run).ok().map(|brief| (run, brief)));
        let cut = run.as_ref().filter(|(_, brief)| !brief.complete);
        let goes_on = cut.is_some_and(|(run, _)| is_locked(run));
        let resume = cut.filter(|_| !goes_on).and_then(|(run, _)| resume(run));
        let shipped = [directory, shared].map(|place| place.join(FIRST));
        let shipped = shipped.into_iter().find(|plan| plan.is_file()).map(unprefixed);
        Self { plans, shipped, run, resume, goes_on }
    }
}

/// The command that goes on with a run that isn't complete: none does with a smoke test.
fn resume(run: &Path) -> Option<String> {
    let plan = RunDir::open(run).and_then(|run| run.plan()).ok()?;
    (!is_smoke_test(&plan)).then(|| resuming(&plan, run))
}

/// What is in a directory; nothing where it can't be read. Names without `./` in front.
pub(super) fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.flatten().take(LOOKED_AT).map(|entry| entry.path());
    paths.map(unprefixed).collect()
}

/// Without `./` in front.
fn unprefixed(path: PathBuf) -> PathBuf {
    path.strip_prefix(".").map(Path::to_owned).unwrap_or(path)
}

/// Whether a file says of itself that it is a plan.
pub(super) fn is_plan(path: &Path) -> bool {
    use std::io::Read;
    let named = path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml");
    if !named || !path.is_file() {
        return false;
    }
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(HEAD as u64).read_to_end(&mut head));
    read.is_ok() && String::from_utf8_lossy(&head).lines().any(|line| line.starts_with("vtax: "))
}

/// What to do next, a command a line.
fn next(here: &Here) -> String {
    let mut steps: Vec<(String, &str)> = Vec::new();
    if let Some((run, _)) = &here.run {
        let run = shell_word(run);
        let serve = "vtax serve".to_owned();
        if here.goes_on {
            steps.push((serve, "the run that goes on now"));
        } else {
            steps.push(match &here.resume {
                Some(command) => (command.clone(), "go on with the run that was cut short"),
                None => (format!("vtax report {run}"), "the last run's report again"),
            });
            steps.push((serve, "a page to watch, browse and compare runs"));
        }
    }
    let mut plans: Vec<String> = here.plans.iter().take(3).map(|plan| shell_word(plan)).collect();
    if plans.is_empty() {
        plans.extend(here.shipped.as_deref().map(shell_word));
    }
    for plan in &plans {
        steps.push((
            format!("vtax run {plan}"),
            "measure, and write a report; `vtax check` says how long it takes",
        ));
    }
    steps.push(("vtax init".to_owned(), "a plan of your own, by five questions"));
    if here.run.is_none() {
        steps.push(("vtax doctor".to_owned(), "what this host can measure, and what would add the rest"));
    }
    steps.push(("vtax explain tax".to_owned(), "what a word means"));
    steps.push(("vtax --help".to_owned(), "every command"));
    let width = steps.iter().map(|(command, _)| command.chars().count()).max().unwrap_or(0);
    let mut text = "vtax measures what every layer between a client and a service costs.\n".to_owned();
    if let Some((run, brief)) = here.run.as_ref().filter(|(_, brief)| !brief.headline.is_empty()) {
        text += &format!("\n{}: {}\n", run.display(), brief.headline);
    }
    text += "\nNext:\n";
    for (command, what) in steps {
        text += &format!("  {command:<width$}  {what}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newcomer_is_led_to_a_first_run() {
        let nothing = next(&Here::default());
        assert!(nothing.contains("  vtax init ") && nothing.contains("  vtax doctor "), "{nothing}");
        assert!(!nothing.contains("vtax run"), "there is no plan here: {nothing}");
        let shipped = |place: &str| next(&Here { shipped: Some(place.into()), ..Here::default() });
        assert!(shipped(FIRST).contains("vtax run plans/quick.yaml"));
    }

    #[test]
    fn a_package_s_plan_is_found_where_there_is_no_other() {
        let top = tempfile::tempdir().unwrap();
        let [here, shared] = ["here", "shared"].map(|name| top.path().join(name));
        let put = |place: &Path| {
            std::fs::create_dir_all(place.join("plans")).unwrap();
            std::fs::write(place.join(FIRST), "vtax: 1\n").unwrap();
        };
        let found = || Here::look(&here, &shared);
        assert_eq!(found().shipped, None);
        put(&shared);
        assert_eq!(found().shipped, Some(shared.join(FIRST)));
        assert!(next(&found()).contains(&format!("vtax run {}/plans/quick.yaml ", shared.display())));
        put(&here);
        assert_eq!(found().shipped, Some(here.join(FIRST)), "what is in this directory comes first");
        assert_eq!(unprefixed("./plans/quick.yaml".into()), Path::new(FIRST));
    }

    #[test]
    fn who_has_runs_is_told_of_the_last_one() {
        let brief = RunBrief { headline: "vm is worse".into(), complete: false, ..RunBrief::default() };
        let here = |complete| Here {
            plans: vec!["my plan.yaml".into()],
            shipped: Some(FIRST.into()),
            run: Some(("runs/a".into(), RunBrief { complete, ..brief.clone() })),
            resume: (!complete).then(|| "vtax run --resume runs/a".to_owned()),
            goes_on: false,
        };
        let cut = next(&here(false));
        assert!(cut.contains("vtax run --resume runs/a") && cut.contains("runs/a: vm is worse"), "{cut}");
        assert!(cut.contains("vtax run 'my plan.yaml'") && !cut.contains("quick.yaml"), "{cut}");
        let whole = next(&here(true));
        assert!(whole.contains("vtax report runs/a") && !whole.contains("--resume"), "{whole}");
        let going_on = next(&Here { resume: None, goes_on: true, ..here(false) });
        assert!(going_on.contains("the run that goes on now\n"), "{going_on}");
        assert!(!going_on.contains("vtax report") && !going_on.contains("--resume"), "{going_on}");
        assert_eq!(going_on.matches("vtax serve").count(), 1, "{going_on}");
    }

    #[test]
    fn a_smoke_test_that_was_cut_short_is_not_gone_on_with() {
        let here = tempfile::tempdir().unwrap();
        let other = vtax_fixture::Options { repetitions: 1, seconds: 1, rate: 10, ..Default::default() };
        let other = vtax_fixture::create(&here.path().join("other"), &other).unwrap();
        let (whole, provenance) = (other.plan().unwrap(), other.provenance().unwrap());
        for (name, plan) in [("smoke", vtax_plan::smoke_test(&whole)), ("whole", whole)] {
            let place = here.path().join(name);
            let run = RunDir::create(place.join("runs/a"), &plan, &provenance).unwrap();
            let found = Here::look(&place, &place);
            assert_eq!((found.resume, found.goes_on), (None, true), "it goes on right now: {name}");
            drop(run);
            // It was written to a moment ago, as is usual right after Ctrl-C.
            std::fs::write(place.join("runs/a/live.jsonl"), "").unwrap();
            assert_eq!(resumed(&place).is_some(), name == "whole", "{name}");
        }
    }

    /// How the run in a directory is gone on with. What other tests start has its lock too until it is another program.
    fn resumed(place: &Path) -> Option<String> {
        let run = place.join("runs/a");
        let _ = (0..1_000).find(|_| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            !is_locked(&run)
        });
        Here::look(place, place).resume
    }

    #[test]
    fn each_kind_of_run_is_gone_on_with_by_its_own_command() {
        let here = tempfile::tempdir().unwrap();
        let other = vtax_fixture::Options { repetitions: 1, seconds: 1, rate: 10, ..Default::default() };
        let other = vtax_fixture::create(&here.path().join("other"), &other).unwrap();
        let (plan, provenance) = (other.plan().unwrap(), other.provenance().unwrap());
        let itself = vtax_run::calibration::against_itself(&plan);
        for (verb, plan) in [("run", plan), ("calibrate", itself)] {
            let place = here.path().join(verb);
            drop(RunDir::create(place.join("runs/a"), &plan, &provenance).unwrap());
            let run = shell_word(&place.join("runs/a"));
            assert_eq!(resumed(&place), Some(format!("vtax {verb} --resume {run}")));
        }
    }

    #[test]
    fn plans_are_told_from_other_files() {
        let here = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(here.path().join(name), text).unwrap();
        write("a.yaml", "# a plan\nvtax: 1\nname: a\n");
        write("b.yaml", "services: {}\n");
        write("c.txt", "vtax: 1\n");
        let found = Here::look(here.path(), here.path());
        assert_eq!((found.plans, found.shipped), (vec![here.path().join("a.yaml")], None));
        assert_eq!(found.run, None);
    }
}
