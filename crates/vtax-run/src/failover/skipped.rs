//! What a run says of faults that some of its environments can't have.

use std::collections::{BTreeMap, BTreeSet};

use vtax_plan::model::{FailoverMeasure, FaultKind, Plan};

/// Faults that are not made in some environments of a plan, and environments in which nothing breaks: a note for each reason.
pub(crate) fn skipped(plan: &Plan) -> Vec<String> {
    let failovers =
        plan.measures.iter().filter_map(|measure| Some((measure.name.as_str(), measure.kind.failover()?)));
    let mut notes = Vec::new();
    // Measures by the places where nothing of them breaks, and why: several are told at once.
    let mut unmeasured: Vec<(Unmeasured, Vec<&str>)> = Vec::new();
    for (name, failover) in failovers {
        let (unmade, nowhere) = of_measure(name, failover, plan);
        notes.extend(unmade);
        for of_reasons in nowhere {
            match unmeasured.iter_mut().find(|(known, _)| *known == of_reasons) {
                Some((_, measures)) => measures.push(name),
                None => unmeasured.push((of_reasons, vec![name])),
            }
        }
    }
    notes.extend(unmeasured.iter().map(|(of_reasons, measures)| of_reasons.words(measures)));
    notes
}

/// Environments or paths with which nothing of a measure breaks, and all the reasons there are.
#[derive(Debug, PartialEq)]
struct Unmeasured {
    why: BTreeSet<String>,
    /// `in` environments, or `over` paths.
    preposition: &'static str,
    places: BTreeSet<String>,
}

impl Unmeasured {
    /// ``Measures `cut` and `silent` were skipped over fabric: there is no link `p1-pe2`.``
    fn words(&self, measures: &[&str]) -> String {
        let names: Vec<String> = measures.iter().map(|name| format!("`{name}`")).collect();
        let (measure, was) = if names.len() == 1 { ("Measure", "was") } else { ("Measures", "were") };
        let why = self.why.iter().map(String::as_str).collect::<Vec<_>>().join("; ");
        let places: Vec<String> = self.places.iter().cloned().collect();
        format!("{measure} {} {was} skipped {} {}: {why}.", and(&names), self.preposition, and(&places))
    }
}

/// `a`, `a and b`, `a, b and c`.
fn and(words: &[String]) -> String {
    match words {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        words => words.concat(),
    }
}

/// The faults of a measure that are not made somewhere, and where nothing of it breaks.
fn of_measure(measure: &str, failover: &FailoverMeasure, plan: &Plan) -> (Vec<String>, Vec<Unmeasured>) {
    let is_topology = |kind: FaultKind| matches!(kind, FaultKind::Topology(_));
    let on_routers = failover.faults.iter().any(|fault| is_topology(fault.kind));
    let only_on_routers = failover.faults.iter().all(|fault| is_topology(fault.kind));
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
            let place = match (only_on_routers, on_routers) {
                (true, _) => path.clone(),
                (false, true) => format!("{name} over {path}"),
                (false, false) => name.clone(),
            };
            places.entry(misfits().map(|(_, why)| why).collect()).or_default().insert(place);
        }
    }
    let listed = |words: BTreeSet<String>, between: &str| words.into_iter().collect::<Vec<_>>().join(between);
    let unmade = faults.into_iter().map(|((place, why), words)| {
        format!("{measure}: skipped in {place}: {} ({why})", listed(words, ", "))
    });
    let preposition = if only_on_routers { "over" } else { "in" };
    let unmeasured = places.into_iter().map(|(why, places)| Unmeasured { why, preposition, places });
    (unmade.collect(), unmeasured.collect())
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
        assert!(said[1].starts_with("Measure `failover` was skipped in native and vm: "), "{said:#?}");
    }

    /// Five measures over five paths had a note each, with every environment beside every path.
    #[test]
    fn measures_that_lack_the_same_are_told_at_once() {
        let text = "vtax: 1\nname: t\nbaseline: {environment: native, path: vpn}\nenvironments: native\n\
                    paths: [{routed: {name: vpn, topology: {mpls-vpn: {sut: ce2}}}}, \
                    {routed: {name: fabric, topology: leaf-spine}}, \
                    {routed: {name: fabric-bfd, topology: {leaf-spine: {bfd: true}}}}]\n\
                    services: http\nworkload: {http: {target: /bytes/100}}\n\
                    measure: [{failover: {name: one, load: 10/s, duration: 25s, faults: [{at: 2s, cut_link: p1-pe2}, \
                    {at: 12s, restore_link: p1-pe2}]}}, {failover: {name: other, load: 10/s, duration: 25s, \
                    faults: [{at: 2s, lossy_link: {link: p1-pe2, from: p1}}, {at: 12s, restore_link: p1-pe2}]}}]\n";
        let none: &[&str] = &[];
        let plan =
            vtax_plan::parse("p", text.as_bytes(), none).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
        let said = skipped(&plan);
        let told =
            "Measures `one` and `other` were skipped over fabric and fabric-bfd: there is no link `p1-pe2`.";
        assert_eq!(said, [told]);
    }
}
