//! `vtax check` of a study: whether it fits together, and whether its plans have what its claims look for.

use std::path::Path;

use vtax_report::study::is_metric;
use vtax_study::{Mode, misfits, misfits_as_published, open_folder, rules};
use vtax_units::counted;

use super::plan_of;
use crate::cmd::welcome::{entries, is_plan};
use crate::exit::{Classify, Exit, Outcome};
use crate::out;

/// The file that makes a directory a study's.
const CLAIMS: &str = "claims.yaml";

/// Whether a path that is to be checked is a study's, and not a plan's.
pub(crate) fn is_study(path: &Path) -> bool {
    path.is_dir() || path.file_name().is_some_and(|name| name == CLAIMS)
}

/// Checks the study of a folder, or of the `claims.yaml` in it.
///
/// # Errors
///
/// Where it isn't one, with everything that is wrong; of its plans the first that is.
pub(crate) fn check(path: &Path) -> Outcome {
    if path.is_dir() && !path.join(CLAIMS).exists() {
        return Err(anyhow::anyhow!(no_study(path))).bad_input();
    }
    let folder = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new(".")) };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let loaded = open_folder(folder)?;
    let study = &loaded.study;
    let mut wrong: Vec<String> = Vec::new();
    for experiment in &study.experiments {
        for mode in [Mode::Quick, Mode::Full] {
            let file = experiment.plan(mode);
            let plan = plan_of(&loaded, file, &[])?;
            wrong.extend(misfits(study, &experiment.id, mode, &plan, &is_metric));
            let published = plan_of(&loaded, file, &experiment.published_sets())?;
            let lacking = misfits_as_published(study, &experiment.id, mode, &published, &is_metric);
            let new = lacking.into_iter().filter(|what| !wrong.contains(what)).collect::<Vec<_>>();
            wrong.extend(new.into_iter().map(|what| format!("as published: {what}")));
        }
    }
    if !wrong.is_empty() {
        return Err(anyhow::anyhow!("{}: {}", study.name, wrong.join("\n"))).bad_input();
    }
    let broken = rules(study).iter().filter(|rule| rule.is_broken()).count();
    out::printable(&format!(
        "{}: {}, {}, {}, {} of which {broken} are broken\n",
        study.name,
        counted(study.items.len(), "item"),
        counted(study.claims.len(), "claim"),
        counted(study.experiments.len(), "experiment"),
        counted(study.rules.len(), "rule")
    ))?;
    Ok(Exit::Done)
}

/// Why a directory can't be checked, with a plan in it that can.
fn no_study(directory: &Path) -> String {
    // The first by name: the order of a directory is no order.
    let plan = entries(directory).into_iter().filter(|path| is_plan(path)).min();
    let such_as = plan.map(|plan| format!(", such as {}", plan.display())).unwrap_or_default();
    format!(
        "{} is a directory, and no study (it has no {CLAIMS}): name a plan in it{such_as}",
        directory.display()
    )
}
