//! Moments as people write them.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// A moment in UTC by `format` (`strftime(3)`), such as `%Y-%m-%d %H:%M:%S UTC`; `seconds` count from 1970. A moment
/// after the year 9999 is shown as the last that can be.
#[must_use]
pub fn utc(seconds: u64, format: &str) -> String {
    let moment = i64::try_from(seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    moment.unwrap_or(Timestamp::MAX).to_zoned(TimeZone::UTC).strftime(format).to_string()
}

/// Milliseconds since 1970 of a moment as RFC 3339 writes it, with its offset from UTC; `None` where it is none.
#[must_use]
pub fn unix_ms_of(text: &str) -> Option<i64> {
    text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_with_their_offset() {
        assert_eq!(unix_ms_of("1970-01-01T00:00:01.250Z"), Some(1_250));
        assert_eq!(unix_ms_of("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(unix_ms_of("yesterday"), None);
    }

    #[test]
    fn known_moments() {
        let text = |seconds| utc(seconds, "%w %Y-%m-%d %H:%M:%S");
        assert_eq!(text(0), "4 1970-01-01 00:00:00");
        assert_eq!(text(784_111_777), "0 1994-11-06 08:49:37");
        assert_eq!(text(951_782_399), "1 2000-02-28 23:59:59");
        assert_eq!(text(951_782_400), "2 2000-02-29 00:00:00");
        assert_eq!(text(1_798_761_599), "4 2026-12-31 23:59:59");
        assert_eq!(text(4_107_542_400), "1 2100-03-01 00:00:00");
        assert_eq!(text(12_622_780_800), "4 2370-01-01 00:00:00");
    }

    #[test]
    fn any_moment_has_a_date() {
        assert!(utc(u64::MAX, "%Y-%m-%d").starts_with("9999-12-3"));
    }
}
