//! The agent's stream of a protected guest, which goes on when another QEMU takes the guest over.
//!
//! The guest's port is not part of the checkpoint protocol: what was on its way at a failover may arrive
//! twice, torn or not at all. So at each switch the guest gets filler first, which ends whatever frame
//! it believes to be in the middle of, and the frame format and the client's repetitions do the rest.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::error::{OnPath, Result};

/// Longest request that may have been cut short, in bytes; requests are a few hundred.
const FILLER: usize = 16 << 10;

#[derive(Debug, Default)]
struct Route {
    /// The replica that counts now, and its number.
    current: Option<UnixStream>,
    generation: u64,
}

/// Between the agent's client and whichever QEMU runs the guest.
#[derive(Debug)]
pub(crate) struct Relay {
    route: Arc<Mutex<Route>>,
    /// Our end of the client's stream.
    ours: UnixStream,
}

fn lock(route: &Mutex<Route>) -> MutexGuard<'_, Route> {
    route.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Relay {
    /// The relay and the client's end.
    pub(crate) fn new() -> Result<(Self, UnixStream)> {
        let place = std::path::Path::new("the agent's relay");
        let (ours, theirs) = UnixStream::pair().on("create", place)?;
        let route = Arc::new(Mutex::new(Route::default()));
        let (mut read, for_thread) = (ours.try_clone().on("duplicate", place)?, Arc::clone(&route));
        let to_guest = move || {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(length @ 1..) = read.read(&mut bytes) {
                // Without a guest it is lost, and the client will say it again.
                if let Some(stream) = &mut lock(&for_thread).current {
                    let _ = stream.write_all(&bytes[..length]);
                }
            }
        };
        std::thread::Builder::new().name("relay".to_owned()).spawn(to_guest).on("start", place)?;
        Ok((Self { route, ours }, theirs))
    }

    /// From now on this replica's stream is the agent's.
    pub(crate) fn switch_to(&self, mut stream: UnixStream) -> Result<()> {
        let place = std::path::Path::new("the agent's relay");
        let mut read = stream.try_clone().on("duplicate", place)?;
        let mut write = self.ours.try_clone().on("duplicate", place)?;
        let generation = {
            let mut route = lock(&self.route);
            if route.generation > 0 {
                // A socket's buffer holds it until the guest reads.
                stream.set_nonblocking(true).on("set up", place)?;
                let _ = stream.write_all(&[0; FILLER]);
                stream.set_nonblocking(false).on("set up", place)?;
            }
            route.generation += 1;
            route.current = Some(stream);
            route.generation
        };
        let route = Arc::clone(&self.route);
        let from_guest = move || {
            let mut bytes = vec![0; 64 << 10];
            while let Ok(length @ 1..) = read.read(&mut bytes) {
                if lock(&route).generation != generation {
                    return;
                }
                if write.write_all(&bytes[..length]).is_err() {
                    return;
                }
            }
        };
        std::thread::Builder::new().name("relay".to_owned()).spawn(from_guest).on("start", place)?;
        Ok(())
    }

    /// The guest is gone for good: whoever waits for its agent is told.
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
