//! What routers said and did, in order of time, to be shown under what the data plane lost.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

/// Most entries that are kept of one fault, until the next.
pub const MOST_ENTRIES: usize = 2_000;
/// The longest text of an entry.
const LONGEST: usize = 300;

/// Something that happened at a router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When, in nanoseconds since 1970.
    pub at: Nanos,
    /// The router that it happened at.
    pub router: String,
    /// Who says so.
    pub source: Source,
    /// What happened, in words.
    pub text: String,
}

impl Entry {
    /// The interface on which OSPF lost a neighbour that was `Full` (FRR's log of neighbours' states); `None` for any other entry.
    #[must_use]
    pub fn neighbour_lost(&self) -> Option<&str> {
        if !matches!(&self.source, Source::Daemon(name) if name == "ospfd") {
            return None;
        }
        let (head, _) = self.text.strip_prefix("AdjChg: ")?.split_once(": Full -> ")?;
        let (_, place) = head.rsplit_once(" on ")?;
        let interface = place.split_once(':').map_or(place, |(interface, _)| interface);
        // The kernel's limit of a name (IFNAMSIZ, netdevice(7)).
        (1..16).contains(&interface.len()).then_some(interface)
    }
}

/// Who says that something happened.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// vtax: what it did on purpose, and what it left out.
    Fault,
    /// The kernel: interfaces, routes, labels.
    Kernel,
    /// A daemon of FRR's, by its log.
    Daemon(String),
}

/// Puts entries in order of time and keeps those of a time; of too many the first, and one that says how many are left out.
#[must_use]
pub fn between(mut entries: Vec<Entry>, from: Nanos, to: Nanos) -> Vec<Entry> {
    entries.retain(|entry| (from..=to).contains(&entry.at));
    entries.sort_by_key(|entry| entry.at);
    let left_out = entries.len().saturating_sub(MOST_ENTRIES);
    entries.truncate(MOST_ENTRIES);
    if let Some(last) = entries.last().filter(|_| left_out > 0) {
        let text = format!("{left_out} later entries are left out");
        entries.push(Entry { at: last.at, router: "all".to_owned(), source: Source::Fault, text });
    }
    entries
}

/// A text of at most [`LONGEST`] characters without controls.
#[must_use]
pub fn shortened(text: &str) -> String {
    text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// An entry of a line of a daemon's log; `None` for a line that doesn't begin with a time.
///
/// `2026/11/23 00:45:43.123456 OSPF: [QH9AB-Y4XMZ] AdjChg: Nbr 1.1.1.1(default) on p1: Full -> Deleted`, in UTC.
#[must_use]
pub fn of_log(router: &str, daemon: &str, line: &str) -> Option<Entry> {
    let (date, rest) = line.split_once(' ')?;
    let (time, rest) = rest.split_once(' ')?;
    let at = nanos(date, time)?;
    // The protocol's name and codes that mean something to FRR only.
    let words = without_codes(rest.split_once(": ").map_or(rest, |(_, words)| words));
    let source = Source::Daemon(daemon.to_owned());
    Some(Entry { at, router: router.to_owned(), source, text: shortened(words) })
}

/// What a line says after its codes: `[S5P8P-AJE73][EC 100663299] `, either or none.
fn without_codes(mut words: &str) -> &str {
    while let Some((code, rest)) = words.strip_prefix('[').and_then(|words| words.split_once(']')) {
        let unique = code.len() == 11 && code.as_bytes()[5] == b'-';
        let class = code.strip_prefix("EC ").is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit()));
        if !unique && !class {
            break;
        }
        words = rest.trim_start();
    }
    words
}

/// Nanoseconds since 1970 of `2026/11/23` and `00:45:43.123456`.
fn nanos(date: &str, time: &str) -> Option<Nanos> {
    let mut parts = date.split('/').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut parts = whole.split(':').map(|part| part.parse::<u64>().ok());
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    let sound = (1970..3000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second < 61
        && fraction.len() <= 9
        && fraction.bytes().all(|b| b.is_ascii_digit());
    if !sound {
        return None;
    }
    let seconds = ((days(year, month, day) * 24 + hour) * 60 + minute) * 60 + second;
    let part: u64 = format!("{fraction:0<9}").parse().ok()?;
    Some(Nanos(seconds * 1_000_000_000 + part))
}

/// Days since 1970 (H. Hinnant, *chrono-compatible low-level date algorithms*, `days_from_civil`).
const fn days(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year / 400;
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_logs_become_entries() {
        let line = "2026/11/23 00:45:43.123456 OSPF: [QH9AB-Y4XMZ] AdjChg: Nbr 1.1.1.1 on p1: Full -> Down";
        let entry = of_log("pe1", "ospfd", line).unwrap();
        assert_eq!(entry.text, "AdjChg: Nbr 1.1.1.1 on p1: Full -> Down");
        assert_eq!(entry.at, Nanos(1_795_394_743_123_456_000));
        let line = "2026/11/23 00:45:43 ZEBRA: [SWQK6-6JY63][EC 4043309074] 0:254:10.0.0.4/30: Failed";
        assert_eq!(of_log("p1", "zebra", line).unwrap().text, "0:254:10.0.0.4/30: Failed");
        let line = "2026/11/23 00:45:43 BGP: [rcvd] notification";
        assert_eq!(of_log("p1", "bgpd", line).unwrap().text, "[rcvd] notification");
        assert_eq!(of_log("r", "ospfd", "1970/01/01 00:00:00 X: y").unwrap().at, Nanos::ZERO);
        for line in ["", "no time here at all", "2026/13/01 00:00:00 X: y", "2026/11/23 25:00:00 X: y"] {
            assert_eq!(of_log("r", "ospfd", line), None, "{line}");
        }
    }

    #[test]
    fn a_lost_neighbour_is_known_by_its_interface() {
        let said = |daemon: &str, words: &str| {
            let line = format!("2026/11/23 00:45:43 OSPF: [QH9AB-Y4XMZ] AdjChg: Nbr {words}");
            of_log("pe1", daemon, &line).unwrap().neighbour_lost().map(str::to_owned)
        };
        let with_address = "10.255.0.2, NbrIP 10.0.0.6 (default) on pe2:10.0.0.5: Full -> Deleted (KillNbr)";
        assert_eq!(said("ospfd", with_address).as_deref(), Some("pe2"));
        assert_eq!(said("ospfd", "1.1.1.1 on p1: Full -> Down").as_deref(), Some("p1"));
        assert_eq!(said("ospfd", "1.1.1.1 on p1: Loading -> Full (LoadingDone)"), None);
        assert_eq!(said("bgpd", with_address), None);
        assert_eq!(said("ospfd", "1.1.1.1: Full -> Down"), None);
        assert_eq!(said("ospfd", "1.1.1.1 on 1234567890123456: Full -> Down"), None);
    }

    #[test]
    fn entries_are_in_order_and_within_the_time() {
        let entry = |at: u64| Entry {
            at: Nanos(at),
            router: "r".to_owned(),
            source: Source::Kernel,
            text: String::new(),
        };
        let kept = between([9, 3, 5, 1].map(entry).to_vec(), Nanos(3), Nanos(8));
        assert_eq!(kept.iter().map(|entry| entry.at.0).collect::<Vec<_>>(), [3, 5]);
        let many = |count: u64| between((0..count).map(entry).collect(), Nanos::ZERO, Nanos(u64::MAX));
        assert!(many(2_000).iter().all(|entry| entry.text.is_empty()));
        let cut = many(2_345);
        assert_eq!((cut.len(), cut[2_000].at, cut[1_999].at), (2_001, Nanos(1_999), Nanos(1_999)));
        assert_eq!(cut[2_000].text, "345 later entries are left out");
    }

    proptest! {
        #[test]
        fn any_line_is_read_or_left_out(line in "\\PC*", date in "[0-9/]{0,12}", time in "[0-9:.]{0,20}") {
            let _ = of_log("r", "zebra", &line);
            let _ = of_log("r", "zebra", &format!("{date} {time} X: y"));
        }
    }
}
