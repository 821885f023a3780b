//! What the user-space clients of storage have in common: a socket that is waited for in several ways, what
//! waits to be sent on it, the operations under way, and how it goes on after a connection is lost.

mod base;
mod batching;
mod outgoing;
mod reconnect;
mod rounds;
mod slots;
mod stream;
mod url;

pub(super) use base::{Base, Streamed};
pub(super) use outgoing::Outgoing;
pub(super) use reconnect::Reconnect;
pub(super) use rounds::Rounds;
pub(super) use slots::{Buffers, Slots};
pub(super) use stream::Stream;
pub(super) use url::{decoded, resolve};

use std::io;
use std::time::Duration;

/// Longest wait for the next connection before the operations under way are told to be lost.
const PATIENCE: Duration = Duration::from_millis(100);

/// Random bytes: what others must not guess, or must not have by chance.
pub(super) fn random<const N: usize>() -> io::Result<[u8; N]> {
    const { assert!(N <= 256, "the kernel gives so many at once") };
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes)
}
