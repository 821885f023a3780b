//! Byte streams to scripts on other hosts.
//!
//! A controller in namespaces of its own can't reach another host, and a user's ssh or srun doesn't work there: whoever stays outside opens
//! streams for it. What is asked for is a host and a script; how one gets there is the other side's matter.

use std::fmt::Debug;
use std::io::Read as _;
use std::net::{IpAddr, Shutdown};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};
use vtax_sys::sync::lock;

/// The most that is read of how a stream ended.
const MOST_WORDS: u64 = 4_096;

/// A host that an engine has given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// What it is called, and what its stream is asked for by.
    pub name: String,
    /// Absolute path of vtax there; `None`: it has to be copied.
    #[serde(default)]
    pub program: Option<String>,
    /// What it is called by other hosts: a name, or an address.
    pub network: String,
}

/// What opens streams; from any thread.
pub trait Streams: Debug + Send + Sync {
    /// The hosts that were asked for, in their order; none where a plan names its own.
    fn hosts(&self) -> &[Host];

    /// Their names, each with what other hosts call it.
    fn names(&self) -> Vec<(&str, &str)> {
        self.hosts().iter().map(|host| (host.name.as_str(), host.network.as_str())).collect()
    }

    /// The address that a name stands for outside.
    ///
    /// # Errors
    ///
    /// Why there is none, in words.
    fn address(&self, name: &str) -> Result<IpAddr, String>;

    /// Has a host's shell run a script, which has no single quotes: `stream` becomes its standard input and output, `errors` takes what is
    /// said besides. When the script's stream ends, so has it, and the other way round.
    ///
    /// # Errors
    ///
    /// Why it can't be asked for, in words. What goes wrong on the way shows by the carrier's end.
    fn open(&self, host: &str, script: &str, stream: OwnedFd, errors: OwnedFd) -> Result<Carrier, String>;
}

/// What carries a stream, such as ssh, seen from here. Dropping it ends the stream, and the carrier once the script has cleared up.
#[derive(Debug)]
pub struct Carrier {
    /// Whoever opened the stream says on it how the carrier ended, and sees by its end that the carrier is to end.
    life: UnixStream,
    /// How it ended, once that was read.
    ended: Mutex<Option<Result<(), String>>>,
}

impl Carrier {
    /// A carrier whose opener has the other end of this.
    #[must_use]
    pub const fn new(life: UnixStream) -> Self {
        Self { life, ended: Mutex::new(None) }
    }

    /// What ends it, for another thread.
    ///
    /// # Errors
    ///
    /// Where no descriptor is left.
    pub fn ender(&self) -> std::io::Result<Ender> {
        Ok(Ender(self.life.try_clone()?))
    }

    /// How it ended, in words where that wasn't well; `None` where it goes on for longer than this.
    pub fn ended_within(&self, within: Duration) -> Option<Result<(), String>> {
        let mut ended = lock(&self.ended);
        if ended.is_none() {
            let within = Timespec {
                tv_sec: i64::try_from(within.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: within.subsec_nanos().into(),
            };
            // An interrupted wait is one that was too short, which its callers take for going on.
            if !matches!(poll(&mut [PollFd::new(&self.life, PollFlags::IN)], Some(&within)), Ok(1..)) {
                return None;
            }
            let mut words = String::new();
            let read = (&self.life).take(MOST_WORDS).read_to_string(&mut words);
            *ended = Some(match (read, words.trim()) {
                (Ok(_), WELL) => Ok(()),
                (Ok(_), "") | (Err(_), _) => Err("whoever opened it is gone".to_owned()),
                (Ok(_), words) => Err(words.to_owned()),
            });
        }
        ended.clone()
    }
}

/// Ends a carrier, and with it every call on the agent at its other end.
#[derive(Debug)]
pub struct Ender(UnixStream);

impl Ender {
    /// Ends it. One that has ended already stays so.
    pub fn end(&self) {
        // It fails where the other side is gone, which is what is wanted.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// What an opener says of a carrier that ended well.
pub const WELL: &str = "well";
