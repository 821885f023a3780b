//! What a run says of faults that some of its environments can't have.

use std::collections::{BTreeMap, BTreeSet};

use vtax_plan::model::{FailoverMeasure, FaultKind, Plan};

/// Faults that are not made in some environments of a plan, and environments in which nothing breaks: a note for each reason.
pub(crate) fn skipped(plan: &Plan) -> Vec<String> {
    let failovers =
        plan.measures.iter().filter_map(|measure| Some((&measure.name, measure.kind.failover()?)));
    failovers.flat_map(|(name, failover)| of_measure(name, failover, plan)).collect()
}

fn of_measure(measure: &str, failover: &FailoverMeasure, plan: &Plan) -> Vec<String> {
    let is_topology = |kind: FaultKind| matches!(kind, FaultKind::Topology(_));
    let on_routers = failover.faults.iter().any(|fault| is_topology(fault.kind));
    // Faults by place and reason; places by all the reasons there are.
    let mut faults: BTreeMap<(String, String), BTreeSet<String>> = BTreeMap::new();
    let mut places: BTreeMap<BTreeSet<String>, BTreeSet<String>> = BTreeMap::new();
    for cell in &plan.cells {
        let (name, path) = (&cell.environment.name, &cell.path.name);
        // Without what the path has instead: the name isn't mistyped, another path of the plan has it.
        let misfits = || failover.faults.iter().filter_map(|f| Some((f.kind, f.kind.misfit_of(cell)?.why)));
        if failover.applies_to(cell) {
            for (kind, why) in misfits() {
                // What is done to routers depends on the path alone.
                let place = if is_topology(kind) { path } else { name };
                faults.entry((place.clone(), why)).or_default().insert(format!("`{}`", kind.words()));
            }
        } else {
            let place = if on_routers { format!("{name} on {path}") } else { name.clone() };
            places.entry(misfits().map(|(_, why)| why).collect()).or_default().insert(place);
        }
    }
    let listed = |words: BTreeSet<String>, between: &str| words.into_iter().collect::<Vec<_>>().join(between);
    let unmade = faults.into_iter().map(|((place, why), words)| {
        format!("{measure}: skipped in {place}: {} ({why})", listed(words, ", "))
    });
    let unmeasured = places.into_iter().map(|(why, places)| {
        let (places, why) = (listed(places, ", "), listed(why, "; "));
        format!("{measure}: not measured in {places}, where nothing of it breaks ({why})")
    });
    unmade.chain(unmeasured).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_is_told_once() {
        let text = "vtax: 1\nname: t\nbaseline: native\n\
                    environments: [native, vm, {vm: {name: again, fault_tolerance: {mode: restart}}}, \
                    {vm: {name: pair, fault_tolerance: kemari}}]\n\
                    services: http\nworkload: {http: {target: /bytes/100}}\nmeasure: [{failover: {load: 10/s, duration: 60s}}]\n\
                    faults: [{at: 5s, kill: primary-host}, {at: 15s, restore: hosts}, {at: 25s, kill: secondary-host}, \
                    {at: 35s, cut: ft-link}]\n";
        let none: &[&str] = &[];
        let plan =
            vtax_plan::parse("p", text.as_bytes(), none).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
        let said = skipped(&plan);
        assert_eq!(said.len(), 2, "{said:#?}");
        assert!(
            said[0].starts_with("failover: skipped in again: `cut: ft-link`, `kill: secondary-host` ("),
            "{said:#?}"
        );
        assert!(
            said[1].starts_with("failover: not measured in native, vm, where nothing of it breaks ("),
            "{said:#?}"
        );
    }
}
