//! Whether a system that failed had too little memory: a process that the kernel kills says nothing, and one whose pages are taken away all
//! the time is only slow.

use vtax_lab::Testbed;
use vtax_plan::model::Split;
use vtax_sys::cgroup::Usage;
use vtax_units::Bytes;

use super::setting::Failed;
use crate::probes::role;

/// A service that didn't start, with the limit of memory that its system met meanwhile.
pub(super) fn met(failed: Failed, testbed: &Testbed, budget: Split) -> Failed {
    told(failed, testbed, budget, |used| used.killed > Some(0) || used.at_limit > Some(0))
}

/// What failed, with the limit of memory for which the kernel killed a process. That it was met says nothing of a service that works, as
/// pages of files are taken away for it as well.
pub(super) fn killed(failed: Failed, testbed: &Testbed, budget: Split) -> Failed {
    told(failed, testbed, budget, |used| used.killed > Some(0))
}

/// Whose limit it is.
struct Whose<'a> {
    /// Its name, where there are several.
    name: Option<&'a str>,
    /// What hosts it.
    kind: &'static str,
    /// Whether the plan's memory is divided among several.
    divided: bool,
}

fn told(failed: Failed, testbed: &Testbed, budget: Split, counts: fn(Usage) -> bool) -> Failed {
    let several = testbed.suts.len() > 1;
    let mut nodes = testbed.suts.iter().map(|sut| &sut.node);
    let found = nodes.find_map(|node| {
        let used = node.usage();
        let whose = Whose {
            name: several.then(|| role(node.name())),
            kind: node.kind(),
            divided: several && budget == Split::Total,
        };
        node.enforced().memory.filter(|_| counts(used)).map(|limit| words(used, limit, &whose))
    });
    match found {
        Some(words) => Failed { detail: format!("{words}: {}", failed.detail), ..failed },
        None => failed,
    }
}

fn words(used: Usage, limit: Bytes, whose: &Whose<'_>) -> String {
    let killed = if used.killed > Some(0) { ", and the kernel killed a process of it" } else { "" };
    let system = whose.name.map_or_else(|| "the system".to_owned(), |name| format!("system {name}"));
    // What holds a guest is around the program that it runs in, whose limit is above the guest's memory.
    let met = match (whose.kind, whose.divided) {
        ("vm", _) => {
            format!("the QEMU of {system} met its limit of {limit} (the guest's memory and what QEMU needs)")
        }
        ("uml", _) => format!(
            "the user-mode Linux of {system} met its limit of {limit} (its memory and what its processes need)"
        ),
        (_, true) => format!("{system} met its limit of memory, {limit} (its part of `budget.sut_memory`)"),
        (_, false) => format!("{system} met its limit of memory, {limit} (`budget.sut_memory`)"),
    };
    format!("{met}{killed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_told_beside_the_limit() {
        let whose = Whose { name: None, kind: "container", divided: false };
        let used = |killed| Usage { killed, at_limit: Some(9), ..Usage::default() };
        let told = |killed| words(used(killed), Bytes::from_mib(128), &whose);
        let met = "the system met its limit of memory, 128MiB (`budget.sut_memory`)";
        assert_eq!(told(Some(2)), format!("{met}, and the kernel killed a process of it"));
        assert_eq!((told(Some(0)), told(None)), (met.to_owned(), met.to_owned()));
    }

    #[test]
    fn a_limit_is_told_with_what_it_holds() {
        let told = |kind, divided| {
            let whose = Whose { name: Some("sut-2"), kind, divided };
            words(Usage::default(), Bytes::from_mib(128), &whose)
        };
        assert_eq!(
            told("native", true),
            "system sut-2 met its limit of memory, 128MiB (its part of `budget.sut_memory`)"
        );
        assert_eq!(
            told("native", false),
            "system sut-2 met its limit of memory, 128MiB (`budget.sut_memory`)"
        );
        assert_eq!(
            told("vm", true),
            "the QEMU of system sut-2 met its limit of 128MiB (the guest's memory and what QEMU needs)"
        );
    }
}
