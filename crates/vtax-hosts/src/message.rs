//! What goes over the stream to a host, in the frames of `vtax-agent`: length, checksum of header and payload, and a number.
//!
//! | from | frame | meaning |
//! |---|---|---|
//! | here | request | a [`ToHost`] as JSON |
//! | host | event | a [`FromHost`] as JSON, nothing is lost with it |
//! | host | data, then reply of the same number | a record: bytes, and a [`Record`] as JSON that says what they are |
//!
//! Records are numbered from 1 without gaps. Each is acknowledged by its number once it is stored, so a host knows that its last
//! record has arrived, and a stream that was cut short can't be taken for a whole one.

use serde::{Deserialize, Serialize};

/// Version of these messages. Both ends are the same program, unless a list of hosts names another one.
/// 2: files of a trial's later loads (`observation-N`).
pub const PROTOCOL: u32 = 2;

/// The most bytes of a record that is sent: on a slow line what else there is to say waits for all of it.
pub(crate) const PIECE: usize = 32 << 10;

/// The most bytes of a record that is taken: so many are sent by earlier versions.
pub(crate) const MOST_PIECE: usize = 256 << 10;

/// Records that are under way without having been acknowledged, at most: 16 MiB, so that a long way doesn't make a line slow.
pub(crate) const WINDOW: u32 = 512;

/// What a host is to do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostTask {
    /// `vtax run`, whole.
    Run {
        /// The plan's text.
        plan: String,
        /// Its changes, as `--set` has them.
        overrides: Vec<String>,
        /// Words to find the run by.
        tags: Vec<String>,
    },
    /// `vtax doctor --json`.
    Doctor,
}

impl HostTask {
    /// The task as that host does it: a run gets a seed made of the host's name, so that not all hosts draw the same order of
    /// trials, which would give an effect of the order the look of a tax. One that `--set` gives stays.
    #[must_use]
    pub(crate) fn on(&self, host: &str) -> Self {
        let mut task = self.clone();
        if let Self::Run { overrides, .. } = &mut task
            && !overrides.iter().any(|o| o.trim_start().starts_with("seed="))
        {
            overrides.push(format!("seed={}", seed(host)));
        }
        task
    }
}

/// FNV-1a over the name, of 32 bits.
fn seed(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// From here to the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ToHost {
    /// Begin; comes once. With a time not before it, by the host's clock in nanoseconds since 1970.
    Start {
        #[serde(rename = "job")]
        task: HostTask,
        at_unix_ns: Option<u64>,
    },
    /// The lease is renewed. The time is this end's, in nanoseconds since 1970.
    Beat { at_unix_ns: u64 },
    /// All records up to this one are stored.
    Stored { record: u32 },
    /// Come to an orderly end.
    Stop,
}

/// From the host, nothing that is kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum FromHost {
    /// The first frame.
    Hello { protocol: u32, vtax: String, host: String },
    /// Answer to a beat: the time that was in it, and the host's own.
    Beat { of_unix_ns: u64, at_unix_ns: u64 },
    /// The task begins now; the time is the host's.
    Begun { at_unix_ns: u64 },
    /// How it is getting on.
    Told { text: String },
}

/// What the bytes before it are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Record {
    /// A part of a file.
    Piece {
        /// Its path in the run directory.
        path: String,
        /// Where the bytes belong: pieces follow each other.
        offset: u64,
        /// With the last piece of a file its SHA-256; the journal has none, as it grows.
        sha256: Option<String>,
    },
    /// Nothing follows. No bytes.
    Ended {
        /// The exit code of what was run; `None`: a signal ended it.
        code: Option<i32>,
        /// The last error that it told.
        error: Option<String>,
    },
}

/// The time now, in nanoseconds since 1970.
pub(crate) fn unix_ns() -> u64 {
    vtax_sys::clock::unix_time().0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_draws_an_order_of_its_own() {
        let run = |overrides: &[&str]| HostTask::Run {
            plan: String::new(),
            overrides: overrides.iter().map(|o| (*o).to_owned()).collect(),
            tags: Vec::new(),
        };
        // The published test value of FNV-1a for "a".
        assert_eq!(run(&["x=1"]).on("a"), run(&["x=1", "seed=3826002220"]));
        assert_ne!(run(&[]).on("a"), run(&[]).on("b"));
        assert_eq!(run(&["seed=7"]).on("a"), run(&["seed=7"]));
        assert_eq!(HostTask::Doctor.on("a"), HostTask::Doctor);
    }
}
