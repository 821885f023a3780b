//! Plain text for a terminal.

use vtax_units::drives_terminal;

/// Columns of a line, at most.
pub(crate) const WIDTH: usize = 100;

/// Text from a run directory must not drive a terminal, and XML forbids some of it.
pub(crate) fn printable(text: &str) -> String {
    let bad = |c: char| drives_terminal(c) || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if bad(c) { '\u{fffd}' } else { c }).collect()
}

/// The first column of a row, of so many characters. A longer name has a line of its own above the row: names that begin
/// alike are told apart by their ends.
pub(crate) fn first_column(indent: &str, name: &str, width: usize) -> String {
    let name = printable(name);
    match name.chars().count() <= width {
        true => format!("{indent}{name:<width$}"),
        false => format!("{indent}{name}\n{indent}{:width$}", ""),
    }
}

/// Breaks at blanks; a word that is too long stays whole.
pub(crate) fn wrap(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut line = String::new();
    let lead: String = text.chars().take_while(|c| *c == ' ').collect();
    line.push_str(&lead);
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > WIDTH && !line.trim().is_empty() {
            out.push_str(line.trim_end());
            out.push('\n');
            indent.clone_into(&mut line);
        }
        if !line.is_empty() && !line.ends_with(' ') {
            line.push(' ');
        }
        // A terminal must not be driven by what a service or a plan is called.
        line.extend(word.chars().filter(|c| !drives_terminal(*c)));
    }
    out + line.trim_end() + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_begin_alike_are_told_apart() {
        assert_eq!(first_column("  ", "vm", 4), "  vm  ");
        assert_eq!(first_column("  ", "vm over a", 4), "  vm over a\n      ");
        assert_eq!(first_column("", "a\u{1b}[2J\n", 8), "a\u{fffd}[2J\u{fffd}  ");
    }
}
