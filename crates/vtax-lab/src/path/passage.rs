//! What stands in the middle of a path and counts what passes it, so that the path can prove what it is.

use std::fmt::Debug;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use vtax_sys::{Context as _, NetNs};

use crate::error::{Result, While};

/// How long one attempt to reach a system may take.
const REACHED_WITHIN: Duration = Duration::from_secs(2);
/// How long the first attempt that succeeds may be waited for: a link that just came up may lose packets.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long what passed may take to be counted.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);

/// Packets that passed since a path was built.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    /// From the client.
    pub(crate) up: u64,
    /// To the client.
    pub(crate) down: u64,
}

impl Passed {
    /// Whether more passed in both directions than before.
    const fn is_beyond(self, before: Self) -> bool {
        self.up > before.up && self.down > before.down
    }
}

/// The middle of a path.
pub(crate) trait Passage: Debug + Send + Sync {
    /// What it has passed on until now.
    ///
    /// # Errors
    ///
    /// Where that can't be read.
    fn passed(&self) -> Result<Passed>;

    /// What there is to say about it now.
    fn facts(&self) -> Vec<(String, String)>;

    /// What is asked to prove it, where not any port will do.
    fn asks_the_service(&self) -> bool {
        false
    }

    /// Processes that carry the packets of the first system on its CPUs, so that their time is part of what it costs.
    fn processes(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// Has a connection be tried from the client to a system, and looks whether it passed; what did. A system that refuses it
/// has answered.
///
/// # Errors
///
/// Why not, in words for the user.
pub(super) fn prove(passage: &dyn Passage, client: &NetNs, target: SocketAddr) -> Result<Passed, String> {
    let told = |e: &crate::error::LabError| vtax_sys::chain(e);
    let before = passage.passed().map_err(|e| told(&e))?;
    reach(client, target).map_err(|e| told(&e))?;
    let until = Instant::now() + COUNTED_WITHIN;
    loop {
        let after = passage.passed().map_err(|e| told(&e))?;
        if after.is_beyond(before) {
            return Ok(Passed { up: after.up - before.up, down: after.down - before.down });
        }
        if Instant::now() >= until {
            return Err(format!(
                "what went between the client and {target} didn't pass it: {} packets up and {} down before, {} and {} after",
                before.up, before.down, after.up, after.down
            ));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Tries a connection from this network namespace until one is accepted or refused.
fn reach(from: &NetNs, target: SocketAddr) -> Result<()> {
    let attempt = || match TcpStream::connect_timeout(&target, REACHED_WITHIN) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == ErrorKind::ConnectionRefused => Ok(()),
        Err(e) => Err(e).context("reach", target.to_string()),
    };
    let until = Instant::now() + PATIENCE;
    loop {
        match from.run(attempt) {
            Err(_) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            other => return other.during(|| "prove the path".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_have_to_grow() {
        let of = |up, down| Passed { up, down };
        assert!(of(2, 2).is_beyond(of(1, 1)));
        assert!(!of(2, 1).is_beyond(of(1, 1)));
        assert!(!of(1, 2).is_beyond(of(1, 1)));
    }
}
