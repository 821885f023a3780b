//! Pictures of failovers.

pub(crate) mod around;
pub(crate) mod sweep;
pub(crate) mod takeover;
