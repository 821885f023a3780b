//! Which ratios count as equal.

/// Ratios from 1/(1 + margin) to 1 + margin count as equal: 5 % more on one side is as much as 5 % more on the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Margin(f64);

impl Margin {
    /// `share` 0.05 lets anything between 1/1.05 and 1.05 count as equal; below 0, or no number, it is 0.
    #[must_use]
    pub fn new(share: f64) -> Self {
        Self(if share.is_finite() { share.max(0.0) } else { 0.0 })
    }

    /// As it was given.
    pub(crate) const fn share(self) -> f64 {
        self.0
    }

    /// The least and the most that counts as equal.
    #[must_use]
    pub fn bounds(self) -> (f64, f64) {
        let most = 1.0 + self.0;
        (1.0 / most, most)
    }

    /// Whether all of an interval counts as equal.
    #[must_use]
    pub fn contains(self, (low, high): (f64, f64)) -> bool {
        let (least, most) = self.bounds();
        low >= least && high <= most
    }

    /// Whether nothing of an interval counts as equal.
    #[must_use]
    pub fn excludes(self, (low, high): (f64, f64)) -> bool {
        let (least, most) = self.bounds();
        low > most || high < least
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_mirror_each_other() {
        let margin = Margin::new(0.25);
        assert_eq!(margin.bounds(), (0.8, 1.25));
        assert!(margin.contains((0.8, 1.25)) && !margin.excludes((0.8, 1.25)));
        assert!(!margin.contains((0.79, 1.0)) && !margin.excludes((0.79, 1.0)));
        assert!(margin.excludes((1.26, 2.0)) && margin.excludes((0.5, 0.79)));
        assert_eq!(Margin::new(f64::NAN), Margin::new(-1.0));
    }
}
