//! Offered load and its arrival process.

use serde::{Deserialize, Serialize};
use vtax_units::{Rate, Share};

/// Offered load of a latency measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// This many requests per second in every cell.
    Rate(Rate),
    /// This share of the cell's own capacity.
    OwnCapacity(Share),
    /// This share of the lowest capacity among the cells it is compared with: the same rate for all of them.
    LowestCapacity(Share),
}

/// Arrival process of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ArrivalProcess {
    /// Exponential gaps.
    Poisson,
    /// Equal gaps.
    Constant,
}

impl ArrivalProcess {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Poisson, Self::Constant];

    /// Its word in plans.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Poisson => "poisson",
            Self::Constant => "constant",
        }
    }
}
