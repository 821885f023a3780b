//! How long routers took to lead around what broke, in a sentence each.

use vtax_plan::model::TopologyFault;
use vtax_topology::convergence::Convergence;
use vtax_units::counted;

use super::convergence::MOST_EVENTS;
use super::{median_by_rate, trials, worse};
use crate::data::RunData;
use crate::format::duration;

/// More kinds of fault aren't named: the table has them.
const MOST_NAMED: usize = 3;
/// Kinds of fault that are looked at: a run may hold anything.
const MOST_KINDS: usize = 100;

/// What was broken, and how long the data plane took in each environment, which is named before it.
type Broken = (TopologyFault, Vec<(String, String)>);

/// The median time until all packets got through again, by fault and path; `None` where no router of the run was broken.
pub(crate) fn headline(data: &RunData) -> Option<String> {
    let mut broken: Vec<Broken> = Vec::new();
    for (cell, trials) in trials(data) {
        let Some(label) = data.spelt_out(&cell.id) else { continue };
        let events = trials.iter().flat_map(|(_, found)| found.events.iter().take(MOST_EVENTS));
        let mut own: Vec<(TopologyFault, Vec<Convergence>)> = Vec::new();
        for event in events.filter(|event| !event.fault.mends()) {
            let found = worse([event.up, event.down]);
            match own.iter().position(|(fault, _)| *fault == event.fault) {
                Some(at) => own[at].1.push(found),
                None if own.len() < MOST_KINDS => own.push((event.fault, vec![found])),
                None => {}
            }
        }
        for (fault, all) in own {
            let place = (label.clone(), time(&all));
            match broken.iter_mut().find(|(known, _)| *known == fault) {
                Some((_, places)) => places.push(place),
                None => broken.push((fault, vec![place])),
            }
        }
    }
    sentences(&broken)
}

fn time(all: &[Convergence]) -> String {
    match median_by_rate(all) {
        Some((_, true)) | None => "never by itself".to_owned(),
        Some((0.0, false)) => "at once".to_owned(),
        Some((ns, false)) => duration(ns),
    }
}

/// A sentence for each fault, the first of which says what its times are.
fn sentences(broken: &[Broken]) -> Option<String> {
    let after = |(n, (fault, places)): (usize, &Broken)| {
        let times = if n == 0 { ", all packets got through again within (medians)" } else { "" };
        format!("After {}{times}: {}.", was_broken(*fault), in_each(places))
    };
    let mut said: Vec<String> = broken.iter().take(MOST_NAMED).enumerate().map(after).collect();
    if broken.len() > MOST_NAMED {
        said.push(format!("{} below.", counted(broken.len() - MOST_NAMED, "more fault")));
    }
    (!said.is_empty()).then(|| said.join(" "))
}

/// `native over mpls-vpn 970 ms, over mpls-vpn-bfd 778 ms`: an environment is named once for all of its paths.
fn in_each(places: &[(String, String)]) -> String {
    let mut named = "";
    let mut said = Vec::new();
    for (label, time) in places {
        let (environment, path) = label.split_once(" over ").unwrap_or((label.as_str(), ""));
        let is_named = !path.is_empty() && environment == named;
        said.push(if is_named { format!("over {path} {time}") } else { format!("{label} {time}") });
        named = environment;
    }
    said.join(", ")
}

/// What was done, as something that happened.
fn was_broken(fault: TopologyFault) -> String {
    match fault {
        TopologyFault::CutLink(link) => format!("link {link} was cut"),
        TopologyFault::LossyLink(lossy) => format!("link {} silently lost packets", lossy.link),
        TopologyFault::KillRouter(router) => format!("router {router} was switched off"),
        TopologyFault::StopDaemon(stop) => {
            format!("{} of router {} was ended", stop.daemon.program(), stop.router)
        }
        TopologyFault::RestoreLink(name) | TopologyFault::RestoreRouter(name) => {
            format!("{name} was restored")
        }
    }
}

#[cfg(test)]
mod tests {
    use vtax_units::Nanos;

    use super::*;

    #[test]
    fn each_fault_has_the_time_of_each_path() {
        let link = |name: &str| TopologyFault::CutLink(name.parse().unwrap());
        let places = |of: &[(&str, &str)]| -> Vec<(String, String)> {
            of.iter().map(|(label, time)| ((*label).to_owned(), (*time).to_owned())).collect()
        };
        let vpn = places(&[
            ("native (path in TCG) over mpls-vpn", "970 ms"),
            ("native (path in TCG) over no-backdoor", "never by itself"),
            ("native over fabric", "31.0 ms"),
        ]);
        let said =
            sentences(&[(link("p1-pe2"), vpn), (link("a-b"), places(&[("native", "at once")]))]).unwrap();
        let (first, second) = said.split_once(". ").unwrap();
        assert_eq!(
            first,
            "After link p1-pe2 was cut, all packets got through again within (medians): native (path in TCG) over mpls-vpn \
             970 ms, over no-backdoor never by itself, native over fabric 31.0 ms"
        );
        assert_eq!(second, "After link a-b was cut: native at once.");
        assert_eq!(sentences(&[]), None);
        let many: Vec<Broken> = ["a-b", "a-c", "a-d", "a-e"]
            .iter()
            .map(|name| (link(name), places(&[("native", "1 s")])))
            .collect();
        let said = sentences(&many).unwrap();
        assert!(said.ends_with("After link a-d was cut: native 1 s. 1 more fault below."), "{said}");
    }

    #[test]
    fn what_the_median_falls_on_is_told() {
        let found = |rate: Option<u64>| Convergence { by_rate: rate.map(Nanos), ..Convergence::default() };
        assert_eq!(time(&[found(Some(970_000_000))]), "970 ms");
        assert_eq!(time(&[found(Some(0))]), "at once");
        assert_eq!(time(&[found(None), found(Some(1)), found(None)]), "never by itself");
    }
}
