//! Dates in names of directories.

use vtax_units::Utc;

/// `20261120-160259` in UTC, for a number of milliseconds since 1970.
pub(crate) fn timestamp(unix_ms: u64) -> String {
    let Utc { year, month, day, hour, minute, second, .. } = Utc::from_unix(unix_ms / 1000);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}
