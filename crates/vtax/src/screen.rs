//! The terminal: how large it is, and texts that fit it.

use rustix::termios::tcgetwinsize;

/// Rows and columns of the terminal behind standard error, or what most have.
pub(crate) fn size() -> (usize, usize) {
    let size = tcgetwinsize(std::io::stderr()).ok().filter(|size| size.ws_row > 0 && size.ws_col > 0);
    size.map_or((24, 80), |size| (usize::from(size.ws_row), usize::from(size.ws_col)))
}

/// A text in lines of at most `width` characters, each behind `indent` and with a line end. A longer word has a line of its own.
pub(crate) fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let (mut out, mut length) = (String::new(), 0);
    for word in text.split_whitespace() {
        let long = word.chars().count();
        if length > 0 && length + 1 + long > width {
            out.push('\n');
            length = 0;
        }
        let gap = if length == 0 { indent } else { " " };
        out.push_str(gap);
        out.push_str(word);
        length += gap.chars().count() + long;
    }
    if length > 0 {
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fit() {
        assert_eq!(wrapped("one two  three", "  ", 9), "  one two\n  three\n");
        assert_eq!(wrapped("a verylongword b", "", 6), "a\nverylongword\nb\n");
        assert_eq!(wrapped(" ", "  ", 9), "");
    }

    #[test]
    fn there_is_room_even_without_a_terminal() {
        let (rows, columns) = size();
        assert!(rows > 0 && columns > 0, "{rows} x {columns}");
    }
}
