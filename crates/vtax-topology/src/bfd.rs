//! Whether neighbours watch each other by BFD (RFC 5880), and how closely. Stored in runs, so names are forever.

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

/// Whether neighbours watch each other by BFD.
///
/// In plans and runs `false`, `true` for [`Bfd::USUAL`], or the time between two packets, such as `300ms`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Bfd {
    /// They don't.
    #[default]
    Off,
    /// Each sends the other a packet every so often.
    Every(BfdInterval),
}

impl Bfd {
    /// What `true` means: for machines that never keep a router waiting for long.
    pub const USUAL: Self = Self::Every(BfdInterval { millis: 50 });

    /// A packet every so often.
    ///
    /// # Errors
    ///
    /// FRR takes no such interval.
    pub fn every(interval: Nanos) -> Result<Self, NotAnInterval> {
        let whole = u32::try_from(interval.0 / Nanos::from_millis(1).0).ok();
        let millis = whole.filter(|millis| (10..=60_000).contains(millis)).ok_or(NotAnInterval)?;
        let taken = BfdInterval { millis };
        if taken.nanos() == interval { Ok(Self::Every(taken)) } else { Err(NotAnInterval) }
    }

    /// How often, where they do.
    #[must_use]
    pub const fn interval(self) -> Option<BfdInterval> {
        match self {
            Self::Off => None,
            Self::Every(interval) => Some(interval),
        }
    }
}

/// Time between two of BFD's packets (RFC 5880, section 6.8): 10 ms to 60 s in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BfdInterval {
    millis: u32,
}

impl BfdInterval {
    /// So many packets must be missing in a row before a neighbour is declared down.
    pub const MISSED: u32 = 3;

    /// Milliseconds.
    #[must_use]
    pub const fn millis(self) -> u32 {
        self.millis
    }

    /// As a duration.
    #[must_use]
    pub const fn nanos(self) -> Nanos {
        Nanos::from_millis(self.millis as u64)
    }

    /// For how long a neighbour is silent when it is declared down.
    #[must_use]
    pub const fn silence(self) -> Nanos {
        Nanos(self.nanos().0 * Self::MISSED as u64)
    }
}

/// A duration that can't be the time between two of BFD's packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("BFD's packets are 10ms to 60s apart, in whole milliseconds")]
pub struct NotAnInterval;

/// As plans and runs have it.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Written {
    Switch(bool),
    Every(Nanos),
}

impl TryFrom<Written> for Bfd {
    type Error = NotAnInterval;

    fn try_from(written: Written) -> Result<Self, NotAnInterval> {
        match written {
            Written::Switch(false) => Ok(Self::Off),
            Written::Switch(true) => Ok(Self::USUAL),
            Written::Every(interval) => Self::every(interval),
        }
    }
}

impl From<Bfd> for Written {
    fn from(bfd: Bfd) -> Self {
        match bfd {
            Bfd::Off => Self::Switch(false),
            Bfd::USUAL => Self::Switch(true),
            Bfd::Every(interval) => Self::Every(interval.nanos()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_as_it_is_read() {
        let slow = Bfd::every(Nanos::from_millis(300)).unwrap();
        for (bfd, written) in [(Bfd::Off, "false"), (Bfd::USUAL, "true"), (slow, "\"300ms\"")] {
            assert_eq!(serde_json::to_string(&bfd).unwrap(), written);
            assert_eq!(serde_json::from_str::<Bfd>(written).unwrap(), bfd);
        }
        assert_eq!(serde_json::from_str::<Bfd>("\"50ms\"").unwrap(), Bfd::USUAL);
        assert_eq!(slow.interval().map(BfdInterval::silence), Some(Nanos::from_millis(900)));
    }

    #[test]
    fn intervals_that_frr_refuses_are_none() {
        for written in ["\"9ms\"", "\"61s\"", "\"10500us\"", "\"400d\"", "\"often\"", "3"] {
            assert!(serde_json::from_str::<Bfd>(written).is_err(), "{written}");
        }
        assert!(Bfd::every(Nanos(u64::MAX)).is_err());
    }
}
