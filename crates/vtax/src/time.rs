//! Dates for people and in names of directories.

use vtax_units::utc;

/// `20261120-160259` in UTC, for a number of milliseconds since 1970.
pub(crate) fn timestamp(unix_ms: u64) -> String {
    utc(unix_ms / 1000, "%Y%m%d-%H%M%S")
}

/// How long ago that was, roughly: `yesterday`, `3 days ago`.
pub(crate) fn age(unix_ms: u64, now_unix_ms: u64) -> String {
    match now_unix_ms.saturating_sub(unix_ms) / 86_400_000 {
        0 => "less than a day ago".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_read_well() {
        let day = 86_400_000;
        let ages = [0, day - 1, day, 40 * day].map(|ms| age(1_000, 1_000 + ms));
        assert_eq!(ages, ["less than a day ago", "less than a day ago", "yesterday", "40 days ago"]);
        assert_eq!(age(5, 1), "less than a day ago", "a clock set back");
    }
}
