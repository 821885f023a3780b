//! Who answered the reads of a run, in a sentence for each cache, device or server that did.

use vtax_units::Bytes;

use super::page::first;
use super::sweep::Sweep;
use crate::context::Context;
use crate::words::capitalised;

/// Combinations that a sentence names; the table of all tests has every one.
const MOST_NAMED: usize = 6;

/// A test of reads in one environment.
struct Case {
    who: String,
    /// What tells it from others, the most telling first: state of caches and what else varies, environment, operation, sizes, name.
    keys: [String; 5],
}

/// `The client's page cache answered reads (cache as-is, processes 1).`
pub(super) fn sentences(context: &Context, sweeps: &[Sweep<'_>]) -> Vec<String> {
    let cases = cases(context, sweeps);
    let mut told: Vec<(&str, Vec<String>)> = Vec::new();
    tell(&cases.iter().collect::<Vec<_>>(), 0, &[], &mut told);
    told.iter().map(|(who, labels)| sentence(who, labels)).collect()
}

fn cases(context: &Context, sweeps: &[Sweep<'_>]) -> Vec<Case> {
    let mut cases = Vec::new();
    for sweep in sweeps {
        for point in &sweep.points {
            let shape = &point.test.shape;
            for environment in &sweep.environments {
                let answered = first(context, &environment.cell.id, point)
                    .and_then(|observation| observation.storage()?.answered());
                let Some(who) = answered.as_deref().and_then(outermost) else { continue };
                let keys = [
                    sweep.label.clone(),
                    environment.label.clone(),
                    point.test.operation.word(),
                    format!("files of {}, records of {}", Bytes(shape.file.0), Bytes(shape.record.0)),
                    point.test.name.clone(),
                ];
                cases.push(Case { who: who.to_owned(), keys });
            }
        }
    }
    cases
}

/// The first that answered, of what a finding says: `the iSCSI target answered: it gave 100 % of the bytes; behind it, ...`.
fn outermost(answered: &str) -> Option<&str> {
    let who = answered.split("; ").find_map(|part| Some(part.split_once(" answered")?.0))?;
    // What its own system says, whether or not that is a guest.
    Some(who.strip_prefix("in the guest, ").unwrap_or(who))
}

/// Adds who answered these cases; where not the same did everywhere, by the next of their keys.
fn tell<'a>(cases: &[&'a Case], depth: usize, path: &[&str], told: &mut Vec<(&'a str, Vec<String>)>) {
    let Some(one) = cases.first() else { return };
    if depth == one.keys.len() || cases.iter().all(|case| case.who == one.who) {
        let label = path.join(", ");
        match told.iter_mut().find(|(who, _)| *who == one.who) {
            Some((_, labels)) => labels.push(label),
            None => told.push((one.who.as_str(), vec![label])),
        }
        return;
    }
    let mut rest: Vec<&Case> = cases.to_vec();
    while let Some(key) = rest.first().map(|case| case.keys[depth].as_str()) {
        let (same, others): (Vec<&Case>, Vec<&Case>) = rest.iter().partition(|case| case.keys[depth] == key);
        let is_alone = same.len() == cases.len();
        let longer: Vec<&str> =
            path.iter().copied().chain(Some(key).filter(|key| !is_alone && !key.is_empty())).collect();
        tell(&same, depth + 1, &longer, told);
        rest = others;
    }
}

fn sentence(who: &str, labels: &[String]) -> String {
    let who = capitalised(who);
    if labels.iter().all(String::is_empty) {
        return format!("{who} answered all reads.");
    }
    let named = labels.iter().take(MOST_NAMED).map(String::as_str).collect::<Vec<_>>().join("; ");
    let more = match labels.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        n => format!("; and {n} more"),
    };
    format!("{who} answered reads ({named}{more}).")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_answered_is_named() {
        for (answered, who) in [
            (
                "the iSCSI target answered: it gave 100 % of the bytes; behind it, the server's disks answered",
                "the iSCSI target",
            ),
            (
                "the client keeps nothing; the server's memory answered: 0.0 % came from its disks",
                "the server's memory",
            ),
            ("in the guest, the page cache answered: 0.0 % came from the device", "the page cache"),
        ] {
            assert_eq!(outermost(answered), Some(who));
        }
        assert_eq!(outermost("the client keeps nothing"), None);
    }

    /// Which cache answered stood in the last column of a folded table.
    #[test]
    fn caches_are_told_by_what_makes_the_difference() {
        let case = |who: &str, state: &str, environment: &str, operation: &str| Case {
            who: who.to_owned(),
            keys: [state, environment, operation, "files of 1 MiB", operation].map(str::to_owned),
        };
        let said = |cases: &[Case]| {
            let mut told = Vec::new();
            tell(&cases.iter().collect::<Vec<_>>(), 0, &[], &mut told);
            told.iter().map(|(who, labels)| sentence(who, labels)).collect::<Vec<_>>()
        };
        let (cache, target) = ("the client's page cache", "the target");
        let mut cases = Vec::new();
        for environment in ["native", "vm"] {
            for operation in ["read", "re-read"] {
                cases.push(case(cache, "cache as-is, processes 1", environment, operation));
                cases.push(case(target, "cache cold, processes 1", environment, operation));
                cases.push(case(target, "cache cold, processes 5", environment, operation));
            }
        }
        assert_eq!(
            said(&cases),
            [
                "The client's page cache answered reads (cache as-is, processes 1).",
                "The target answered reads (cache cold, processes 1; cache cold, processes 5)."
            ]
        );
        let [one, other] = [case(cache, "", "native", "re-read"), case(target, "", "vm", "re-read")];
        assert_eq!(said(&[one, other])[0], "The client's page cache answered reads (native).");
        assert_eq!(said(&[case(cache, "a", "vm", "read")]), ["The client's page cache answered all reads."]);
        assert!(said(&[]).is_empty());
    }
}
