//! Numbers as written, with their unit.

use crate::UnitError;

/// A non-negative decimal number as written.
///
/// Kept as digits, so that 64-bit integers survive: a float loses single nanoseconds after 104 days.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    whole: String,
    fraction: String,
}

impl Decimal {
    /// The number times `factor`, rounded half up; `None` where that is over 64 bits.
    pub(crate) fn times(&self, factor: u64) -> Option<u64> {
        let whole: u64 = if self.whole.is_empty() { 0 } else { self.whole.parse().ok()? };
        // 18 digits of a fraction are worth less than one part in any factor's 64 bits.
        let digits = &self.fraction[..self.fraction.len().min(18)];
        let fraction: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
        let scale = 10u128.pow(digits.len() as u32);
        let rounded = (fraction * u128::from(factor) + scale / 2) / scale;
        u64::try_from(u128::from(whole) * u128::from(factor) + rounded).ok()
    }

    /// The number as a float; `None` where it is beyond 10^15, far above any quantity meant.
    pub(crate) fn as_f64(&self) -> Option<f64> {
        let number: f64 = format!("0{}.{}", self.whole, self.fraction).parse().ok()?;
        (number <= 1e15).then_some(number)
    }

    pub(crate) fn is_zero(&self) -> bool {
        self.whole.chars().chain(self.fraction.chars()).all(|c| c == '0')
    }
}

/// Splits `12.5ms` into number and unit; `_` may group digits.
pub(crate) fn split<'a>(text: &'a str, what: &'static str) -> Result<(Decimal, &'a str), UnitError> {
    let refuse = |reason: &str| Err(UnitError::new(text, what, reason));
    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !is_numeric(c)).unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let number = number.replace('_', "");
    let (whole, fraction) = number.split_once('.').unwrap_or((&number, ""));
    if trimmed.is_empty() {
        return refuse("it is empty");
    }
    if trimmed.starts_with('-') {
        return refuse("it is negative");
    }
    if whole.is_empty() && fraction.is_empty() {
        return refuse("it starts with no number");
    }
    if fraction.contains('.') {
        return refuse("its number has two points");
    }
    Ok((Decimal { whole: whole.to_owned(), fraction: fraction.to_owned() }, unit.trim()))
}

/// True for what a number is written with.
pub(crate) fn is_numeric(c: char) -> bool {
    c.is_ascii_digit() || c == '.' || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal {
        split(text, "a number").unwrap().0
    }

    #[test]
    fn products_are_exact_and_rounded() {
        assert_eq!(decimal("18446744073709551615").times(1), Some(u64::MAX));
        assert_eq!(decimal("18446744073709551616").times(1), None);
        assert_eq!(decimal("18446744073709551615.5").times(1), None);
        assert_eq!(decimal("0.1").times(1_000_000_000), Some(100_000_000));
        assert_eq!(decimal(".4").times(1), Some(0));
        assert_eq!(decimal("1_000.5").times(1), Some(1001));
        assert_eq!(decimal("1.00000000000000000000000000001").times(3600), Some(3600));
    }

    #[test]
    fn what_is_no_number_says_why() {
        for (text, reason) in [
            ("", "empty"),
            ("-5s", "negative"),
            ("s", "no number"),
            ("_", "no number"),
            ("1.2.3", "two points"),
        ] {
            assert!(split(text, "a number").unwrap_err().reason.contains(reason), "{text}");
        }
    }
}
