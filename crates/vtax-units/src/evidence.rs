//! What a guest and its QEMU left behind, as it follows the text that tells of their failure: under headings, two columns in,
//! its lines four columns in. Who writes it and who leaves it out of what people are shown agree here.

/// Stands above the end of what QEMU said.
pub const QEMU_SAID: &str = "QEMU said:";
/// Stands above the last lines of the guest's console.
pub const LAST_ON_CONSOLE: &str = "last on the console:";

const HEADINGS: [&str; 2] = [QEMU_SAID, LAST_ON_CONSOLE];
const HEADING_INDENT: &str = "  ";
const LINE_INDENT: &str = "    ";

/// A line of a text that may have evidence in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line<'a> {
    /// One of the text's own.
    Own(&'a str),
    /// A heading of evidence.
    Heading,
    /// A line below such a heading.
    Evidence,
}

/// What was said, below its heading, as it is put behind the text; empty where nothing was said.
#[must_use]
pub fn section(heading: &str, said: &str) -> String {
    let lines = indented(said);
    if lines.is_empty() { lines } else { format!("\n{HEADING_INDENT}{heading}{lines}") }
}

/// Each line of a text on a new line, four columns in.
#[must_use]
pub fn indented(text: &str) -> String {
    text.trim().lines().map(|line| format!("\n{LINE_INDENT}{}", line.trim_end())).collect()
}

/// The lines of a text, those of evidence told from its own.
pub fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut within = false;
    text.split('\n').map(move |line| {
        if line.starts_with(HEADING_INDENT) && HEADINGS.contains(&line.trim()) {
            within = true;
            return Line::Heading;
        }
        within = within && line.starts_with(LINE_INDENT);
        if within { Line::Evidence } else { Line::Own(line) }
    })
}

/// The text in front of the first evidence, and everything from there on, where there is any.
#[must_use]
pub fn split(text: &str) -> (&str, Option<&str>) {
    let begins = HEADINGS.map(|heading| format!("\n{HEADING_INDENT}{heading}"));
    match begins.iter().filter_map(|begin| text.find(begin.as_str())).min() {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_found_again() {
        let said = section(QEMU_SAID, "one\ntwo \n") + &section(LAST_ON_CONSOLE, "three");
        assert_eq!(said, "\n  QEMU said:\n    one\n    two\n  last on the console:\n    three");
        let text = format!("it ended{said}");
        assert_eq!(split(&text), ("it ended", Some(&said[1..])));
        let found: Vec<Line<'_>> = lines(&text).collect();
        let (heading, evidence) = (Line::Heading, Line::Evidence);
        assert_eq!(found, [Line::Own("it ended"), heading, evidence, evidence, heading, evidence]);
    }

    #[test]
    fn other_texts_have_none() {
        assert_eq!(section(QEMU_SAID, " \n"), "");
        assert_eq!(split("a\n    b"), ("a\n    b", None));
        assert_eq!(lines("a\n    b").collect::<Vec<_>>(), [Line::Own("a"), Line::Own("    b")]);
    }
}
