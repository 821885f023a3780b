//! The Date field (RFC 9110 section 5.6.7).

use std::fmt::Write as _;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Seconds since 1970 as an IMF-fixdate, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn imf_fixdate(seconds: u64) -> String {
    let (mut days, second) = (seconds / 86_400, seconds % 86_400);
    let weekday = DAYS[(days % 7) as usize];
    let mut year = 1970;
    while days >= days_of(year) {
        days -= days_of(year);
        year += 1;
    }
    let mut month = 0;
    while days >= length(year, month) {
        days -= length(year, month);
        month += 1;
    }
    let mut text = String::with_capacity(29);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    // Writing to a String can't fail.
    let _ = write!(
        text,
        "{weekday}, {:02} {} {year} {hour:02}:{minute:02}:{second:02} GMT",
        days + 1,
        MONTHS[month],
    );
    text
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn days_of(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn length(year: u64, month: usize) -> u64 {
    match month {
        1 if is_leap(year) => 29,
        1 => 28,
        3 | 5 | 8 | 10 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_as_in_the_standard() {
        assert_eq!(imf_fixdate(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(imf_fixdate(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(imf_fixdate(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
        assert_eq!(imf_fixdate(4_107_542_400), "Mon, 01 Mar 2100 00:00:00 GMT");
        assert_eq!(imf_fixdate(1_798_761_599), "Thu, 31 Dec 2026 23:59:59 GMT");
    }
}
