//! Text from elsewhere, made harmless.

/// Text from a run directory must not drive a terminal, and XML forbids some of it.
pub(crate) fn printable(text: &str) -> String {
    let bad = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if bad(c) { '\u{fffd}' } else { c }).collect()
}
