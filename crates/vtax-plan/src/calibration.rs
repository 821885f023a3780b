//! A baseline against itself as a plan, and what goes on with a run of which plan.

use std::collections::BTreeSet;

use crate::model::Plan;

/// How a baseline's double is named.
const AGAIN: &str = "again";
/// What stands behind the name of a plan in that of its calibration.
const SUFFIX: &str = "-calibration";

/// The plan that measures each baseline of `plan` against itself, under the same rules.
#[must_use]
pub fn against_itself(plan: &Plan) -> Plan {
    let baselines = || plan.cells.iter().filter(|c| c.baseline.is_none());
    let mut taken: BTreeSet<String> = baselines().map(|c| c.id.clone()).collect();
    let mut cells = Vec::new();
    for cell in baselines() {
        let mut twin = cell.clone();
        twin.environment.name = format!("{}-{AGAIN}", cell.environment.name);
        let rest = cell.id.strip_prefix(cell.environment.name.as_str()).unwrap_or(&cell.id);
        twin.id = format!("{}{rest}", twin.environment.name);
        while !taken.insert(twin.id.clone()) {
            twin.id.push_str("-again");
        }
        twin.baseline = Some(cell.id.clone());
        cells.extend([cell.clone(), twin]);
    }
    Plan {
        name: format!("{}{SUFFIX}", plan.name),
        description: "What does this testbed tell apart? Baselines against themselves.".to_owned(),
        cells,
        // What the plan asks first names environments that aren't there.
        primary: None,
        ..plan.clone()
    }
}

/// Whether a plan compares baselines with themselves and nothing else.
#[must_use]
pub fn is_against_itself(plan: &Plan) -> bool {
    against_itself(plan).cells == plan.cells
}

/// Whether `vtax calibrate` made a plan: by its name too, as a plan of one's own may compare a baseline with itself.
#[must_use]
pub fn is_calibration(plan: &Plan) -> bool {
    plan.name.ends_with(SUFFIX) && is_against_itself(plan)
}

/// What goes on with a run of this plan: the word behind `vtax`, and what stands behind `--resume DIRECTORY`. A smoke test isn't gone on
/// with, whatever this says.
#[must_use]
pub fn resuming(plan: &Plan) -> (&'static str, &'static str) {
    let verb = if is_calibration(plan) { "calibrate" } else { "run" };
    // Which hosts they were isn't kept with the run.
    let on = if plan.hosts_asked() > 0 { " --on WHERE" } else { "" };
    (verb, on)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(path: &str) -> Plan {
        let text = format!(
            "{{vtax: 1, name: t, baseline: native, environments: [native, native: {{name: native-again}}], \
             paths: {path}, services: http, workload: {{http: {{target: /page/1}}}}, measure: [throughput]}}"
        );
        crate::parse("t", text.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"))
    }

    #[test]
    fn each_kind_of_run_is_gone_on_with_by_its_own_command() {
        let own = plan("direct");
        assert!(is_against_itself(&own) && !is_calibration(&own), "a plan of a user's own");
        assert_eq!(resuming(&own), ("run", ""));
        let made = against_itself(&own);
        assert!(is_calibration(&made));
        assert_eq!(resuming(&made), ("calibrate", ""));
        let renamed = Plan { name: "t-calibration".to_owned(), ..plan("direct") };
        assert_eq!(resuming(&renamed).0, "calibrate", "a stored run has no more than its plan");
    }
}
