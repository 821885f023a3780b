//! Numbers with their units, so that a text's Mbit/s and a table's KB/s can be compared.

use std::collections::BTreeMap;

/// A number in base units (bits, seconds, and whatever else is counted), with how often each is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Quantity {
    /// The number.
    pub value: f64,
    /// Base units with their exponents, those of 0 left out. A share has none.
    units: BTreeMap<String, i32>,
}

/// Known units: name, factor to the base unit, exponents of bits and of seconds.
const KNOWN: [(&str, f64, i32, i32); 26] = [
    ("1", 1.0, 0, 0),
    ("%", 0.01, 0, 0),
    ("B", 8.0, 1, 0),
    ("KB", 8e3, 1, 0),
    ("MB", 8e6, 1, 0),
    ("GB", 8e9, 1, 0),
    ("KiB", 8.0 * 1024.0, 1, 0),
    ("MiB", 8.0 * 1_048_576.0, 1, 0),
    ("GiB", 8.0 * 1_073_741_824.0, 1, 0),
    ("bit/s", 1.0, 1, -1),
    ("kbit/s", 1e3, 1, -1),
    ("Mbit/s", 1e6, 1, -1),
    ("Gbit/s", 1e9, 1, -1),
    ("B/s", 8.0, 1, -1),
    ("KB/s", 8e3, 1, -1),
    ("MB/s", 8e6, 1, -1),
    ("GB/s", 8e9, 1, -1),
    ("KiB/s", 8.0 * 1024.0, 1, -1),
    ("MiB/s", 8.0 * 1_048_576.0, 1, -1),
    ("/s", 1.0, 0, -1),
    ("ns", 1e-9, 0, 1),
    ("us", 1e-6, 0, 1),
    ("ms", 1e-3, 0, 1),
    ("s", 1.0, 0, 1),
    ("min", 60.0, 0, 1),
    ("h", 3600.0, 0, 1),
];

const BITS: &str = "bit";
const SECONDS: &str = "s";

impl Quantity {
    /// A number in a unit. One that isn't known is counted in itself.
    #[must_use]
    pub fn new(value: f64, unit: &str) -> Self {
        let mut units = BTreeMap::new();
        let mut put = |name: &str, exponent: i32| {
            if exponent != 0 {
                units.insert(name.to_owned(), exponent);
            }
        };
        let factor = match KNOWN.iter().find(|(name, ..)| *name == unit) {
            Some((_, factor, bits, seconds)) => {
                put(BITS, *bits);
                put(SECONDS, *seconds);
                *factor
            }
            None => {
                put(unit, 1);
                1.0
            }
        };
        Self { value: value * factor, units }
    }

    /// Whether both count the same.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        self.units == other.units
    }

    /// With another of the same kind; `None` where it isn't.
    #[must_use]
    pub(crate) fn plus(&self, other: &Self) -> Option<Self> {
        self.is_like(other).then(|| Self { value: self.value + other.value, units: self.units.clone() })
    }

    /// So many times as much.
    #[must_use]
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        Self { value: self.value * factor, units: self.units.clone() }
    }

    /// One times the other.
    #[must_use]
    pub(crate) fn times(&self, other: &Self) -> Self {
        Self { value: self.value * other.value, units: self.with(other, 1) }
    }

    /// One divided by the other; `None` where that is zero.
    #[must_use]
    pub(crate) fn over(&self, other: &Self) -> Option<Self> {
        (other.value != 0.0).then(|| Self { value: self.value / other.value, units: self.with(other, -1) })
    }

    fn with(&self, other: &Self, sign: i32) -> BTreeMap<String, i32> {
        let mut units = self.units.clone();
        for (name, exponent) in &other.units {
            *units.entry(name.clone()).or_insert(0) += sign * exponent;
        }
        units.retain(|_, exponent| *exponent != 0);
        units
    }

    /// For people, in a unit that suits its size: `8.50 Mbit/s`, `12.2 %`.
    #[must_use]
    pub fn text(&self) -> String {
        let exponent = |name: &str| self.units.get(name).copied().unwrap_or(0);
        let others = self.units.keys().any(|name| name != BITS && name != SECONDS);
        let steps: &[&str] = match (exponent(BITS), exponent(SECONDS), others) {
            (1, -1, false) => &["Gbit/s", "Mbit/s", "kbit/s", "bit/s"],
            (1, 0, false) => &["GB", "MB", "KB", "B"],
            (0, 1, false) => &["s", "ms", "us"],
            (0, -1, false) => &["/s"],
            (0, 0, false) => return number(self.value),
            _ => return self.counted(),
        };
        let size = self.value.abs();
        let known = |unit: &str| KNOWN.iter().find(|(name, ..)| *name == unit).map_or(1.0, |k| k.1);
        let fitting = steps.iter().find(|unit| size >= known(unit)).or(steps.last());
        let unit = fitting.copied().unwrap_or("");
        format!("{} {unit}", number(self.value / known(unit)))
    }

    /// With its base units, where no other way is known.
    fn counted(&self) -> String {
        let mut text = number(self.value);
        for (name, exponent) in &self.units {
            text.push(' ');
            text.push_str(name);
            if *exponent != 1 {
                text.push_str(&format!("^{exponent}"));
            }
        }
        text
    }
}

/// Four digits; a whole number keeps all of its own.
fn number(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let decimals = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size >= 1.0 => 3,
        _ => 4,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_of_a_text_and_of_a_table_are_the_same_kind() {
        let (text, table) = (Quantity::new(8.5, "Mbit/s"), Quantity::new(7442.0, "KB/s"));
        assert!(text.is_like(&table));
        assert!((table.value - 59_536_000.0).abs() < 1.0);
        assert_eq!((text.text().as_str(), table.text().as_str()), ("8.500 Mbit/s", "59.54 Mbit/s"));
    }

    #[test]
    fn bytes_over_time_are_a_rate() {
        let rate = Quantity::new(48.6, "MiB").over(&Quantity::new(30.0, "s")).unwrap();
        assert!(rate.is_like(&Quantity::new(1.0, "Mbit/s")));
        assert!((rate.value - 13_589_545.0).abs() < 1.0, "{}", rate.value);
    }

    #[test]
    fn what_is_not_known_counts_in_itself() {
        let (saps, share) = (Quantity::new(139.0, "SAPS"), Quantity::new(12.0, "%"));
        assert!(!saps.is_like(&share) && saps.plus(&share).is_none());
        assert_eq!(saps.text(), "139 SAPS");
        assert_eq!(saps.over(&saps).map(|q| q.text()), Some("1".to_owned()));
        assert!(saps.over(&Quantity::new(0.0, "SAPS")).is_none());
    }

    proptest! {
        #[test]
        fn a_quotient_times_its_divisor_is_what_it_was(a in 0.001..1e9f64, b in 0.001..1e9f64, i in 0..26usize, j in 0..26usize) {
            let (a, b) = (Quantity::new(a, KNOWN[i].0), Quantity::new(b, KNOWN[j].0));
            let again = a.over(&b).unwrap().times(&b);
            prop_assert!(again.is_like(&a));
            prop_assert!((again.value / a.value - 1.0).abs() < 1e-9);
        }
    }
}
