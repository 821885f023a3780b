//! Whether a system that failed had too little memory: a process that the kernel kills says nothing, and one whose pages are taken away all
//! the time is only slow.

use vtax_lab::Testbed;
use vtax_sys::cgroup::Usage;
use vtax_units::Bytes;

use super::setting::Failed;

/// A service that didn't start, with the limit of memory that its system met meanwhile.
pub(super) fn met(failed: Failed, testbed: &Testbed) -> Failed {
    told(failed, testbed, |used| used.killed > Some(0) || used.at_limit > Some(0))
}

/// What failed, with the limit of memory for which the kernel killed a process. That it was met says nothing of a service that works, as
/// pages of files are taken away for it as well.
pub(super) fn killed(failed: Failed, testbed: &Testbed) -> Failed {
    told(failed, testbed, |used| used.killed > Some(0))
}

fn told(failed: Failed, testbed: &Testbed, counts: fn(Usage) -> bool) -> Failed {
    let mut nodes = testbed.suts.iter().map(|sut| &sut.node);
    let found = nodes.find_map(|node| {
        let used = node.usage();
        node.enforced().memory.filter(|_| counts(used)).map(|limit| words(used, limit))
    });
    match found {
        Some(words) => Failed { detail: format!("{words}: {}", failed.detail), ..failed },
        None => failed,
    }
}

fn words(used: Usage, limit: Bytes) -> String {
    let killed = if used.killed > Some(0) { ", and the kernel killed a process of it" } else { "" };
    format!("the system met its limit of memory, {limit} (`budget.sut_memory`){killed}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kill_is_told_beside_the_limit() {
        let told =
            |killed| words(Usage { killed, at_limit: Some(9), ..Usage::default() }, Bytes::from_mib(128));
        let met = "the system met its limit of memory, 128MiB (`budget.sut_memory`)";
        assert_eq!(told(Some(2)), format!("{met}, and the kernel killed a process of it"));
        assert_eq!((told(Some(0)), told(None)), (met.to_owned(), met.to_owned()));
    }
}
