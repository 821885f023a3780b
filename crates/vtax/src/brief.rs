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
    let mut lines: Vec<&str> = Vec::new();
    let mut left_out = 0;
    let mut within = false;
    for line in text.lines() {
        if line.starts_with("  ") && EVIDENCE.contains(&line.trim()) {
            within = true;
        } else if within && line.starts_with("    ") {
            left_out += 1;
        } else {
            within = false;
            lines.push(line);
        }
    }
    let mut shown = lines.join("\n");
    if left_out > 0 {
        let lines = if left_out == 1 { "line" } else { "lines" };
        shown.push_str(&format!(" [{left_out} {lines} of QEMU's output: --verbose]"));
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_said_is_left_out_and_told_of() {
        let text = "no pairs: virtual machine `proof`: ended (QEMU: signal 6)\n  QEMU said:\n    ../block.c:1: f: Assertion \
                    `x' failed.\n  last on the console:\n    one\n    two; fetch one with `vtax setup`";
        let shown = without_evidence(text);
        assert_eq!(shown, "no pairs: virtual machine `proof`: ended (QEMU: signal 6) [3 lines of QEMU's output: --verbose]");
    }

    #[test]
    fn everything_else_stays() {
        for text in ["", "one", "service: exit code 3\n  its log:\n    no database today", "a\n    b"] {
            assert_eq!(without_evidence(text), text);
        }
    }
}
