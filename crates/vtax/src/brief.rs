//! Errors on one screen: what QEMU said before it ended belongs behind `--verbose`, and into the report.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether everything is said.
static VERBOSE: AtomicBool = AtomicBool::new(false);
/// What begins the end of a guest's output, below a line that says what happened.
const EVIDENCE: [&str; 2] = ["QEMU said:", "last on the console:"];

/// Has everything said, or not. Call it before any process is forked.
pub(crate) fn set_verbose(verbose: bool) {
    VERBOSE.store(verbose, Ordering::Relaxed);
}

/// A text as people want it on a terminal.
pub(crate) fn shown(text: &str) -> String {
    if VERBOSE.load(Ordering::Relaxed) { text.to_owned() } else { without_evidence(text) }
}

/// The text without what a guest and its QEMU left behind, in whose place it is said how to see it.
fn without_evidence(text: &str) -> String {
    let mut shown = String::new();
    let mut left_out = 0;
    let mut within = false;
    for line in text.split('\n') {
        if line.starts_with("  ") && EVIDENCE.contains(&line.trim()) {
            within = true;
            continue;
        }
        if within && line.starts_with("    ") {
            left_out += 1;
            continue;
        }
        within = false;
        say_left_out(&mut shown, &mut left_out);
        shown.push_str(line);
        shown.push('\n');
    }
    say_left_out(&mut shown, &mut left_out);
    // The end of the last line is not the text's own.
    shown.pop();
    shown
}

/// Says behind the last line how much was left out after it.
fn say_left_out(shown: &mut String, left_out: &mut usize) {
    let count = std::mem::take(left_out);
    if count > 0 {
        shown.pop();
        let lines = if count == 1 { "line" } else { "lines" };
        shown.push_str(&format!(" [{count} {lines} of QEMU's output: --verbose]\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_said_is_left_out_and_told_of() {
        let text = "no pairs: virtual machine `proof`: ended (QEMU: signal 6)\n  QEMU said:\n    ../block.c:1: f: Assertion \
                    `x' failed.\n  last on the console:\n    one\n    two; fetch one with `vtax setup`";
        let shown = without_evidence(text);
        assert_eq!(
            shown,
            "no pairs: virtual machine `proof`: ended (QEMU: signal 6) [3 lines of QEMU's output: --verbose]"
        );
    }

    #[test]
    fn what_comes_after_it_stays_in_its_place() {
        let text = "left out: a\n  QEMU said:\n    x\nleft out: b\n";
        assert_eq!(without_evidence(text), "left out: a [1 line of QEMU's output: --verbose]\nleft out: b\n");
    }

    #[test]
    fn everything_else_stays() {
        for text in [
            "",
            "one",
            "two\n\nlines\n",
            "service: exit code 3\n  its log:\n    no database today",
            "a\n    b",
        ] {
            assert_eq!(without_evidence(text), text);
        }
    }
}
