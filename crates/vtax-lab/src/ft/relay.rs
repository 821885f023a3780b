//! The agent's stream of a protected guest, which goes on when another QEMU takes the guest over.
//!
//! The guest's port is not part of the checkpoint protocol: what was on its way at a failover may arrive
//! twice, torn or not at all, and an answer may be of a moment that the other side never saw. So the relay
//! knows the frames. What a protected guest says is held back until a checkpoint that began later is
//! committed, as its packets are. At a switch it sends filler, which ends whatever frame the guest believes
//! to be in the middle of, and then every request again that has no answer yet. The agent does none of them
//! twice.

use std::collections::{BTreeMap, VecDeque};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use vtax_agent::{Decoder, Frame, Kind};
use vtax_sys::clock::unix_time;
use vtax_sys::watchers;
use vtax_units::Nanos;
use vtax_vm::ft::{Mode, Replica, checkpoint_now};

use crate::error::{OnPath, Result};
use vtax_sys::sync::lock;

/// Longest request that may have been cut short, in bytes; requests are a few hundred.
const FILLER: usize = 16 << 10;

#[derive(Debug, Default)]
struct Route {
    /// The replica that counts now, and its number.
    current: Option<UnixStream>,
    generation: u64,
    /// Requests without an answer, by their ids, which go up.
    open: BTreeMap<u32, Vec<u8>>,
    /// Whose checkpoints what the guest says has to wait for; `None`: it isn't protected.
    held_for: Option<(u64, Arc<Replica>)>,
    mode: Option<Mode>,
    /// What waits, and when it came (time since 1970, as QEMU tells its own).
    waiting: VecDeque<(Nanos, Frame)>,
}

impl Route {
    /// Passes on what came before `until`.
    fn release(&mut self, until: Nanos, client: &mut UnixStream) {
        while self.waiting.front().is_some_and(|(came, _)| *came < until) {
            let Some((_, frame)) = self.waiting.pop_front() else { return };
            if frame.kind == Kind::Reply {
                self.open.remove(&frame.id);
            }
            // A client that is gone waits for nothing.
            let _ = client.write_all(&frame.encode());
        }
    }
}

/// Between the agent's client and whichever QEMU runs the guest.
#[derive(Debug)]
pub(crate) struct Relay {
    route: Arc<Mutex<Route>>,
    /// Our end of the client's stream.
    ours: UnixStream,
}

impl Relay {
    /// The relay and the client's end.
    pub(crate) fn new() -> Result<(Self, UnixStream)> {
        let place = std::path::Path::new("the agent's relay");
        let (ours, theirs) = UnixStream::pair().on("create", place)?;
        let route = Arc::new(Mutex::new(Route::default()));
        let (read, for_thread) = (ours.try_clone().on("duplicate", place)?, Arc::clone(&route));
        let to_guest = move || {
            frames(read, |frame| {
                let bytes = frame.encode();
                let mut route = lock(&for_thread);
                if let Some(stream) = &mut route.current {
                    // A guest that is gone gets it again in its next life.
                    let _ = stream.write_all(&bytes);
                }
                route.open.insert(frame.id, bytes);
                true
            });
        };
        watchers::spawn("relay", to_guest).on("start", place)?;
        Ok((Self { route, ours }, theirs))
    }

    /// From now on this replica's stream is the agent's.
    pub(crate) fn switch_to(&self, mut stream: UnixStream) -> Result<()> {
        let place = std::path::Path::new("the agent's relay");
        let read = stream.try_clone().on("duplicate", place)?;
        let mut write = self.ours.try_clone().on("duplicate", place)?;
        let generation = {
            let mut route = lock(&self.route);
            if route.generation > 0 {
                // A socket's buffer holds this until the guest reads; a guest that is stuck gets less.
                stream.set_nonblocking(true).on("set up", place)?;
                let again = route.open.values().flatten().copied();
                let again: Vec<u8> = std::iter::repeat_n(0, FILLER).chain(again).collect();
                let _ = stream.write_all(&again);
                stream.set_nonblocking(false).on("set up", place)?;
            }
            route.generation += 1;
            // What a dead guest sent and no checkpoint committed doesn't count as sent.
            (route.held_for, route.mode) = (None, None);
            route.waiting.clear();
            route.current = Some(stream);
            route.generation
        };
        let route = Arc::clone(&self.route);
        let from_guest = move || {
            frames(read, |frame| {
                let mut route = lock(&route);
                if route.generation != generation {
                    return false;
                }
                route.waiting.push_back((unix_time(), frame));
                match (route.held_for.clone(), route.mode) {
                    (Some((_, replica)), Some(mode)) => {
                        replica.set_patient(false);
                        drop(route);
                        // One comes within a second in any case.
                        let _ = checkpoint_now(&replica, mode);
                    }
                    _ => route.release(Nanos(u64::MAX), &mut write),
                }
                true
            });
        };
        watchers::spawn("relay", from_guest).on("start", place)?;
        Ok(())
    }

    /// From now on what the guest says waits for this replica's checkpoints.
    pub(crate) fn hold(&self, member: u64, replica: &Arc<Replica>, mode: Mode) {
        let mut route = lock(&self.route);
        (route.held_for, route.mode) = (Some((member, Arc::clone(replica))), Some(mode));
    }

    /// A checkpoint of this replica that began at `stopped` is committed.
    pub(crate) fn committed(&self, member: u64, stopped: Nanos) {
        let mut route = lock(&self.route);
        if route.waiting.is_empty() || route.held_for.as_ref().is_none_or(|(id, _)| *id != member) {
            return;
        }
        if let Ok(mut client) = self.ours.try_clone() {
            route.release(stopped, &mut client);
        }
        if let (true, Some((_, replica))) = (route.waiting.is_empty(), &route.held_for) {
            replica.set_patient(true);
        }
    }

    /// The guest goes on unprotected: nothing has to wait any more.
    pub(crate) fn let_go(&self) {
        let mut route = lock(&self.route);
        (route.held_for, route.mode) = (None, None);
        if let Ok(mut client) = self.ours.try_clone() {
            route.release(Nanos(u64::MAX), &mut client);
        }
    }

    /// The guest is gone for good: what waits for its agent gets an error.
    pub(crate) fn close(&self) {
        // Fails only where the client has closed its end.
        let _ = self.ours.shutdown(std::net::Shutdown::Both);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.close();
    }
}

/// Calls `take` with each frame until the stream ends or it says no.
fn frames(mut stream: UnixStream, mut take: impl FnMut(Frame) -> bool) {
    let mut decoder = Decoder::default();
    let mut bytes = vec![0; 64 << 10];
    while let Ok(length @ 1..) = stream.read(&mut bytes) {
        decoder.push(&bytes[..length]);
        while let Some(frame) = decoder.next_frame() {
            if !take(frame) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn frame(kind: Kind, id: u32) -> Frame {
        Frame { kind, id, payload: format!("{id}").into_bytes() }
    }

    fn next(decoder: &mut Decoder, stream: &mut UnixStream) -> Frame {
        stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        loop {
            if let Some(frame) = decoder.next_frame() {
                return frame;
            }
            let mut bytes = vec![0; 64 << 10];
            let length = stream.read(&mut bytes).unwrap();
            decoder.push(&bytes[..length]);
        }
    }

    #[test]
    fn what_has_no_answer_is_asked_again_and_torn_answers_are_dropped() {
        let (relay, mut client) = Relay::new().unwrap();
        let (mut first, theirs) = UnixStream::pair().unwrap();
        relay.switch_to(theirs).unwrap();
        for id in [1, 2, 3] {
            client.write_all(&frame(Kind::Request, id).encode()).unwrap();
        }
        let mut decoder = Decoder::default();
        for id in [1, 2, 3] {
            assert_eq!(next(&mut decoder, &mut first), frame(Kind::Request, id));
        }
        first.write_all(&frame(Kind::Reply, 2).encode()).unwrap();
        let mut answers = Decoder::default();
        assert_eq!(next(&mut answers, &mut client), frame(Kind::Reply, 2));
        first.write_all(&frame(Kind::Reply, 1).encode()[..9]).unwrap();
        let (mut second, theirs) = UnixStream::pair().unwrap();
        relay.switch_to(theirs).unwrap();
        let mut decoder = Decoder::default();
        for id in [1, 3] {
            assert_eq!(next(&mut decoder, &mut second), frame(Kind::Request, id));
        }
        assert!(decoder.skipped() >= FILLER as u64);
        second.write_all(&frame(Kind::Reply, 1).encode()).unwrap();
        assert_eq!(next(&mut answers, &mut client), frame(Kind::Reply, 1));
        relay.close();
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).unwrap();
        assert!(rest.is_empty());
    }
}
