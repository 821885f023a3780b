//! Moments as people write them.

/// A moment in UTC, in the Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Utc {
    /// Year, from 1970.
    pub year: u64,
    /// Month, 1 to 12.
    pub month: u64,
    /// Day of the month, from 1.
    pub day: u64,
    /// Day of the week, 0 for Sunday.
    pub weekday: u64,
    /// Hour, 0 to 23.
    pub hour: u64,
    /// Minute.
    pub minute: u64,
    /// Second; leap seconds don't exist in Unix time.
    pub second: u64,
}

impl Utc {
    /// The moment this many seconds after 1970 began.
    #[must_use]
    pub fn from_unix(seconds: u64) -> Self {
        let (days, rest) = (seconds / 86_400, seconds % 86_400);
        let (mut day, mut year) = (days, 1970);
        // 400 years have a whole number of weeks and days; the loops below then run at most 400 times.
        year += day / 146_097 * 400;
        day %= 146_097;
        while day >= days_of(year) {
            day -= days_of(year);
            year += 1;
        }
        let mut month = 1;
        while day >= length(year, month) {
            day -= length(year, month);
            month += 1;
        }
        Self {
            year,
            month,
            day: day + 1,
            // 1970 began on a Thursday.
            weekday: (days + 4) % 7,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
        }
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn length(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seconds: u64) -> String {
        let Utc { year, month, day, weekday, hour, minute, second } = Utc::from_unix(seconds);
        format!("{weekday} {year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
    }

    #[test]
    fn known_moments() {
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
        let far = Utc::from_unix(u64::MAX);
        assert!((1..=12).contains(&far.month) && (1..=31).contains(&far.day));
    }
}
