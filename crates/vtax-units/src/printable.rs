/// Whether a character may drive a terminal, or reorder the text around it: control characters, line ends and tabs among
/// them, and Unicode's marks of direction (TR 9).
#[must_use]
pub fn drives_terminal(c: char) -> bool {
    let bidi = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    c.is_control() || bidi
}

/// A text from elsewhere as it may be printed: line ends stay, tabs become blanks, and whatever else may drive a terminal
/// is replaced.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\n' => '\n',
            '\t' => ' ',
            c if drives_terminal(c) => '\u{fffd}',
            c => c,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::printable;

    #[test]
    fn nothing_drives_a_terminal() {
        assert_eq!(printable("a\x1b[2J\x07\u{9b}1m"), "a\u{fffd}[2J\u{fffd}\u{fffd}1m");
        assert_eq!(printable("a\u{202e}b\u{2066}c\u{61c}"), "a\u{fffd}b\u{fffd}c\u{fffd}");
        assert_eq!(printable("one\r\ntwo\tthree\u{7f}"), "one\u{fffd}\ntwo three\u{fffd}");
    }

    #[test]
    fn other_texts_stay() {
        for text in ["", "déjà vu · 5 µs\n", "日本語 עברית\n\n"] {
            assert_eq!(printable(text), text);
        }
    }
}
