//! What studies there are, and what is in one.

use vtax_plan::estimate::{Assumptions, estimate};
use vtax_study::{Loaded, Mode, names, open, rules};
use vtax_units::counted;

use super::plan_of;
use crate::exit::Failure;

/// Every study that vtax brings along.
pub(super) fn all() -> Result<String, Failure> {
    let mut text = String::new();
    for name in names() {
        let loaded = open(name)?;
        let study = &loaded.study;
        let testable = study.claims.iter().filter(|claim| claim.test.is_some()).count();
        let broken = rules(study).iter().filter(|rule| rule.is_broken()).count();
        text += &format!("{name}\n  {}\n  {}\n", study.source.title, study.question);
        text += &format!(
            "  {}, {testable} of them can be run; {}, at most {} (quick) or {} (full) under emulation; {broken} of {} broken\n\n",
            counted(study.claims.len(), "claim"),
            counted(study.experiments.len(), "experiment"),
            time(&loaded, Mode::Quick)?,
            time(&loaded, Mode::Full)?,
            counted(study.rules.len(), "rule"),
        );
    }
    text += "vtax reproduce NAME --list shows one, vtax reproduce NAME runs it\n";
    Ok(text)
}

/// How long the experiments of a study take at most under software emulation, in words.
fn time(loaded: &Loaded, mode: Mode) -> Result<String, Failure> {
    let mut seconds = 0.0;
    for experiment in &loaded.study.experiments {
        let plan = plan_of(loaded, experiment.plan(mode), &[])?;
        seconds += estimate(&plan, &Assumptions::TCG).time_max.as_secs_f64();
    }
    Ok(if seconds < 7200.0 {
        format!("{:.0} min", seconds / 60.0)
    } else {
        format!("{:.1} h", seconds / 3600.0)
    })
}

/// Claims, experiments and defects of a study.
pub(super) fn one(loaded: &Loaded) -> Result<String, Failure> {
    let study = &loaded.study;
    let mut text = format!(
        "{}\n{}: {}. {}.\n{}\n\nexperiments\n",
        study.name,
        study.source.authors.join(", "),
        study.source.title,
        study.source.publisher,
        study.question
    );
    for experiment in &study.experiments {
        text += &format!("  {}: {}\n", experiment.id, experiment.title);
        for mode in [Mode::Quick, Mode::Full] {
            let plan = plan_of(loaded, experiment.plan(mode), &[])?;
            let cells = plan.cells.len();
            text += &format!("    {} ({}): {}\n", mode.word(), experiment.plan(mode), counted(cells, "cell"));
        }
    }
    text += "\nclaims\n";
    for claim in &study.claims {
        let by = match (&claim.test, &claim.why_not) {
            (Some(test), _) => format!("experiment {}", test.experiment),
            (None, Some(why)) => format!("can't be run: {why}"),
            (None, None) => String::new(),
        };
        text += &format!("  {}: {}\n", claim.id, claim.text);
        text +=
            &format!("    {}; {}, figures {}; {by}\n", claim.place, claim.said.word(), claim.figures.words());
    }
    text += "\ndefects found by rules\n";
    for rule in rules(study).iter().filter(|rule| rule.is_broken()) {
        text += &format!("  {}: {}\n", rule.id, rule.text);
    }
    text += "\ndefects found by reading\n";
    for noted in &study.noted {
        text += &format!("  {}: {}\n", noted.place, noted.text);
    }
    Ok(text)
}
