//! How many there are of something.

use std::fmt::Display;

/// So many of something: `1 claim`, `2 claims`.
#[must_use]
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(count: N, what: &str) -> String {
    let s = if count == N::from(1) { "" } else { "s" };
    format!("{count} {what}{s}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_alone_has_no_plural() {
        assert_eq!([counted(0_u32, "step"), counted(1_u64, "step")], ["0 steps", "1 step"]);
        assert_eq!(counted(2_usize, "step"), "2 steps");
    }
}
