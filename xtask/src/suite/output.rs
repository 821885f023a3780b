//! What test programs say: how many tests passed, which failed and why, and what was skipped.

/// What stands for a test's name where a program didn't end.
pub(super) const WHOLE: &str = "program";

/// The lines of a program that failed which say what and where: its cases, and each panic with the first and the last lines of its message.
pub(super) fn wrong(said: &str) -> Vec<String> {
    const MOST: usize = 20;
    const LAST: usize = 3;
    const AFTER: [&str; 6] = ["stack backtrace:", "note: ", "thread '", "test ", "---- ", "failures:"];
    let of_message = |line: &&str| !AFTER.iter().any(|after| line.starts_with(after));
    let mut found = Vec::new();
    let mut lines = said.lines().peekable();
    while let Some(line) = lines.next() {
        let case = line.strip_prefix("test ").and_then(|l| l.split_once(" ... "));
        if case.is_some_and(|(_, end)| end.starts_with("FAILED")) {
            found.push(line.to_owned());
        } else if let Some((_, place)) = line.split_once(" panicked at ") {
            let message = std::iter::from_fn(|| lines.next_if(of_message));
            let message: Vec<&str> = message.filter(|line| !line.trim().is_empty()).collect();
            let (first, more) = message.split_first().unwrap_or((&"", &[]));
            found.push(format!("{place} {first}"));
            found.extend(more[more.len().saturating_sub(LAST)..].iter().map(|line| format!("  {line}")));
        }
    }
    found.truncate(MOST);
    match found.is_empty() {
        true => vec!["it named no case".to_owned()],
        false => found.into_iter().map(|line| line.chars().take(300).collect()).collect(),
    }
}

/// The names of the tests that failed, each once.
pub(super) fn failed_cases(said: &str) -> Vec<String> {
    let cases = said.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
    let failed = cases.filter(|(name, end)| end.starts_with("FAILED") && *name != WHOLE);
    let mut names: Vec<String> = failed.map(|(name, _)| name.to_owned()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Tests that passed and failed: what cargo's harness says, or the cases that a program without it names. One that
/// names none is a case by itself.
pub(super) fn count(said: &str, success: bool) -> (usize, usize) {
    let ended = |word: &str| {
        let ends = said.lines().filter_map(|line| line.strip_prefix("test ")?.split_once(" ... "));
        ends.filter(|(_, end)| end.starts_with(word)).count()
    };
    let (passed, failed) = harness(said).unwrap_or_else(|| (ended("ok"), ended("FAILED")));
    match (success, passed) {
        (true, 0) if harness(said).is_none() => (1, 0),
        (true, _) => (passed, 0),
        (false, _) => (passed, failed.max(1)),
    }
}

/// The last result that cargo's harness printed.
fn harness(said: &str) -> Option<(usize, usize)> {
    let (_, result) = said.rsplit_once("\ntest result: ")?;
    let number = |word: &str| result.split_once(word)?.0.rsplit_once(' ')?.1.parse().ok();
    Some((number(" passed;")?, number(" failed;")?))
}

/// Why tests were skipped, and how many for each reason, most first.
fn reasons(skipped: &str) -> Vec<(usize, &str)> {
    let mut lines: Vec<&str> = skipped.lines().collect();
    lines.sort_unstable();
    let mut reasons: Vec<(usize, &str)> =
        lines.chunk_by(|a, b| a == b).map(|same| (same.len(), same[0])).collect();
    reasons.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    reasons
}

/// In the reason of a test that saw nothing because the machine was busy, and not because it lacks something.
const TOO_BUSY: &str = "too busy";

/// What is said of tests that were skipped.
pub(super) fn told_of_skipped(skipped: &str) -> String {
    let (busy, skipped): (Vec<_>, Vec<_>) =
        reasons(skipped).into_iter().partition(|(_, reason)| reason.contains(TOO_BUSY));
    let mut told = String::new();
    for (what, reasons) in [
        ("UNSTEADY, tests or parts of them that saw nothing, which count as passed", busy),
        ("Skipped tests or parts of them, which count as passed", skipped),
    ] {
        let lines: Vec<String> =
            reasons.iter().map(|(count, reason)| format!("{count:8}  {reason}\n")).collect();
        if !lines.is_empty() {
            told += &format!("\n{what}:\n{}", lines.concat());
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_kept_in_a_few_lines() {
        let said = "test a ... ok\ntest b ... FAILED\n\nthread 'b' (7) panicked at tests/x.rs:5:9:\nleft is not right\n";
        let short = ["test b ... FAILED", "tests/x.rs:5:9: left is not right"];
        assert_eq!(wrong(said), short);
        assert_eq!(wrong(&format!("{said}stack backtrace:\n   0: main\n")), short);
        assert_eq!(wrong(&format!("{said}\n{said}")), [short, short].concat());
        let long = wrong(&format!("{said}1\n2\n3\n\n4\nnote: more\n"));
        assert_eq!(long[2..], ["  2", "  3", "  4"]);
        assert_eq!(wrong("Killed\n"), ["it named no case"]);
        assert!(wrong(&format!("test {} ... FAILED\n", "x".repeat(999)).repeat(99)).concat().len() < 7000);
    }

    #[test]
    fn tests_are_counted_with_and_without_a_harness() {
        let harness = "\nrunning 2 tests\ntest a ... said something\nok\ntest b ... ok\n\ntest result: ok. 2 passed; 0 failed; 0 ignored";
        assert_eq!(count(harness, true), (2, 0));
        assert_eq!(count("test one ... ok (1.0 s)\ntest two ... ok (2.0 s)\nok\n", true), (2, 0));
        let failed = "test a ... FAILED\n\ntest result: FAILED. 0 passed; 1 failed; 0 ignored\n";
        assert_eq!(count(&format!("{failed}{failed}"), false), (0, 1), "a harness in a harness counts once");
        assert_eq!(
            count("running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored\n", true),
            (0, 0)
        );
        assert_eq!(count("ok\n", true), (1, 0));
        assert_eq!(count("test one ... ok (1.0 s)\ntest two ... FAILED (2.0 s)\n", false), (1, 1));
        assert_eq!(count("thread 'main' panicked\n", false), (0, 1), "it died outside a case");
    }

    #[test]
    fn reasons_of_skipped_tests_are_counted() {
        assert_eq!(reasons("b\na\nb\n"), [(2, "b"), (1, "a")]);
        assert_eq!(reasons(""), []);
    }

    #[test]
    fn what_a_busy_machine_kept_from_looking_is_told_apart_from_what_it_lacks() {
        let said = told_of_skipped("no QEMU\nthis machine is too busy\nno QEMU\n");
        let (busy, lacks) = said.split_once("\n\n").expect("two lists");
        assert!(
            busy.starts_with("\nUNSTEADY, ") && busy.ends_with("       1  this machine is too busy"),
            "{said}"
        );
        assert!(lacks.starts_with("Skipped tests") && lacks.ends_with("       2  no QEMU\n"), "{said}");
        assert!(!told_of_skipped("no QEMU\n").contains("UNSTEADY"));
        assert_eq!(told_of_skipped(""), "");
    }
}
