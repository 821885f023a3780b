//! Errors on one screen: what QEMU said before it ended belongs behind `--verbose`, and into the report.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};

use vtax_units::evidence::{self, Line};
use vtax_units::{counted, printable};

use crate::screen;

/// Whether everything is said.
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Has everything said, or not. Call it before any process is forked.
pub(crate) fn set_verbose(verbose: bool) {
    VERBOSE.store(verbose, Ordering::Relaxed);
}

/// A text as people want it on a terminal. Much of it is others' words: plans, journals, what QEMU or another host said.
pub(crate) fn shown(text: &str) -> String {
    let text = printable(text);
    if VERBOSE.load(Ordering::Relaxed) { text } else { without_evidence(&text) }
}

/// Lines of a screen that the errors of a plan leave: the command's, and the next prompt.
const BESIDE: usize = 2;

/// The errors of a plan: on a terminal those that its screen holds, and how many there are. In a pipe or a log all that were kept.
pub(crate) fn errors(text: &str) -> String {
    let all = VERBOSE.load(Ordering::Relaxed) || !std::io::stderr().is_terminal();
    if all { text.to_owned() } else { first_errors(text, screen::size().0.saturating_sub(BESIDE)) }
}

/// The first of errors that stand apart by an empty line, as many as so many lines hold, at least one. Behind the last one
/// stands how many there are, and where the rest is.
fn first_errors(text: &str, lines: usize) -> String {
    if text.lines().count() <= lines {
        return text.to_owned();
    }
    let blocks: Vec<&str> = text.trim_end().split("\n\n").collect();
    let Some((count, errors)) = blocks.split_last().filter(|(_, errors)| !errors.is_empty()) else {
        return text.to_owned();
    };
    let (mut shown, mut length) = (String::new(), 0);
    for error in errors {
        length += error.lines().count() + 1;
        // The last line says how many there are.
        if length >= lines && !shown.is_empty() {
            break;
        }
        shown.push_str(error);
        shown.push_str("\n\n");
    }
    // Of very many it says too how many weren't kept, which are others than those that have no place here.
    let count = count.split(", ").next().unwrap_or_default();
    shown + count + "; --verbose shows more\n"
}

/// The text without what a guest and its QEMU left behind, in whose place it is said how to see it.
fn without_evidence(text: &str) -> String {
    let mut shown = String::new();
    let mut left_out = 0;
    for line in evidence::lines(text) {
        match line {
            Line::Heading => {}
            Line::Evidence => left_out += 1,
            Line::Own(line) => {
                say_left_out(&mut shown, &mut left_out);
                shown.push_str(line);
                shown.push('\n');
            }
        }
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
        let lines = counted(count, "line");
        shown.push_str(&format!(" [{lines} of QEMU's output: --verbose]\n"));
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
    fn no_text_drives_the_terminal() {
        assert_eq!(
            shown("unknown variant `\x1b]0;x\x07`\nnext"),
            "unknown variant `\u{fffd}]0;x\u{fffd}`\nnext"
        );
    }

    #[test]
    fn what_comes_after_it_stays_in_its_place() {
        let text = "left out: a\n  QEMU said:\n    x\nleft out: b\n";
        assert_eq!(without_evidence(text), "left out: a [1 line of QEMU's output: --verbose]\nleft out: b\n");
    }

    #[test]
    fn a_plan_full_of_errors_takes_a_screen() {
        let one = |i: usize| format!("error: wrong {i}\n  --> p.yaml:{i}:1\n\n");
        let text = |n: usize| (1..=n).map(one).collect::<String>() + &format!("{n} errors\n");
        let few = text(3);
        assert_eq!(first_errors(&few, 20), few);
        let many = first_errors(&text(500), 20);
        assert!(
            many.lines().count() <= 20 && many.contains("wrong 6\n") && !many.contains("wrong 7\n"),
            "{many}"
        );
        assert!(many.ends_with("\n\n500 errors; --verbose shows more\n"), "{many}");
        assert!(first_errors(&text(2), 1).contains("wrong 1\n"), "at least one");
        // Those that fill the screen leave no line for how many there are.
        let full = first_errors(&text(4), 12);
        assert!(full.contains("wrong 3\n") && !full.contains("wrong 4\n"), "{full}");
        assert_eq!((full.lines().count(), first_errors(&text(4), 13)), (10, text(4)));
        let kept = text(50).replace("50 errors", "60 errors, 10 of them not shown");
        let kept = first_errors(&kept, 12);
        assert!(kept.ends_with("wrong 3\n  --> p.yaml:3:1\n\n60 errors; --verbose shows more\n"), "{kept}");
        assert_eq!(first_errors("error: one\nof\nmany\nlines\n", 2), "error: one\nof\nmany\nlines\n");
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
