//! The Date field (RFC 9110 section 5.6.7).

use vtax_units::utc;

/// Seconds since 1970 as an IMF-fixdate, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
pub(super) fn imf_fixdate(seconds: u64) -> String {
    utc(seconds, "%a, %d %b %Y %H:%M:%S GMT")
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
