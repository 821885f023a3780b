//! Plain text for a terminal.

/// Columns of a line, at most.
pub(crate) const WIDTH: usize = 100;

/// At most so many characters.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width - 1).chain(['…']).collect()
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
        line.extend(word.chars().filter(|c| !c.is_control()));
    }
    out + line.trim_end() + "\n"
}
