//! Pure statistics: bootstrap, intervals, verdicts.
