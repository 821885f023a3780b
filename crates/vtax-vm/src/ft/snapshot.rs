//! A guest's whole state at one moment, and a guest that goes on from it.
//!
//! The state travels as a live migration does: the guest runs on while its memory is copied and stands still
//! for the rest. What arrives is kept in memory on the other side instead of being loaded at once.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::fs::MemfdFlags;
use rustix::net::Shutdown;
use rustix::net::sockopt::Timeout;
use serde_json::{Value, json};
use vtax_sys::sync::joined;

use super::disk::ReplicatedDisk;
use super::protection::{self, LIVE_WITHIN, STILL_MS, UNLIMITED, announce};
use super::replica::Replica;
use crate::error::{Result, VmError};

/// How long a copy may take over a slow link.
const TAKEN_WITHIN: Duration = Duration::from_secs(60);
/// Silence on the stream after which nothing more is expected; while the guest is copied it is never silent.
const SILENT_FOR: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(1);

/// The state of a guest at one moment.
#[derive(Debug)]
pub struct Snapshot {
    state: File,
    disk: Option<ReplicatedDisk>,
    /// Bytes of the state.
    pub bytes: u64,
    /// When the guest was in it.
    pub when: Instant,
}

/// Takes a snapshot of a running guest over a connected stream, of which `streams` are the primary's end and
/// the one where it is kept, for `secondary` to go on from. The guest runs on.
///
/// # Errors
///
/// [`VmError::Pair`] or [`VmError::Qmp`] where it doesn't succeed; the guest runs on then as well.
pub fn take(primary: &Replica, secondary: &Replica, streams: (OwnedFd, OwnedFd)) -> Result<Snapshot> {
    let state = rustix::fs::memfd_create("vtax-snapshot", MemfdFlags::CLOEXEC);
    let mut state: File = state.map_err(|e| VmError::io("create", "snapshot in memory")(e.into()))?.into();
    let (near, far) = streams;
    rustix::net::sockopt::set_socket_timeout(&far, Timeout::Recv, Some(SILENT_FOR))
        .map_err(|e| VmError::io("set up", "snapshot's stream")(e.into()))?;
    let kept = std::thread::scope(|scope| {
        // Ends with the stream, which QEMU closes when it is done or ends.
        let keep = scope.spawn(|| io::copy(&mut Far(&far), &mut state));
        let sent = send(primary, secondary, near);
        if sent.is_err() {
            // A host that died with its cables says no good-bye.
            let _ = rustix::net::shutdown(&far, Shutdown::Both);
        }
        let kept = joined(keep);
        sent.and_then(|(when, disk)| Ok((when, disk, kept.map_err(VmError::io("keep", "snapshot"))?)))
    });
    let (when, disk, bytes) = kept?;
    Ok(Snapshot { state, disk, bytes, when })
}

/// The end of a stream that only is read.
struct Far<'a>(&'a OwnedFd);

impl Read for Far<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(self.0, bytes)?)
    }
}

/// Has QEMU send the state, and the guest go on; when the guest was in it, and its disk then.
fn send(primary: &Replica, secondary: &Replica, near: OwnedFd) -> Result<(Instant, Option<ReplicatedDisk>)> {
    let sent = (|| {
        protection::set_plain(primary)?;
        let parameters = json!({ "max-bandwidth": UNLIMITED, "downtime-limit": STILL_MS });
        primary.execute("migrate-set-parameters", parameters)?;
        protection::connect(primary, &near)?;
        drop(near);
        wait_until_sent(primary, secondary)?;
        let when = Instant::now();
        // The guest stands still until it is told to go on.
        let copy = |disk: &ReplicatedDisk| {
            ReplicatedDisk::create(disk.size()).and_then(|copy| copy.copy_from(disk).map(|()| copy))
        };
        Ok((when, primary.disk().map(copy).transpose()?))
    })();
    if sent.is_err() {
        // Refused where nothing is under way.
        let _ = primary.execute("migrate_cancel", Value::Null);
    }
    if !primary.is_running()? {
        primary.execute("cont", Value::Null)?;
    }
    sent
}

fn wait_until_sent(primary: &Replica, secondary: &Replica) -> Result<()> {
    let started = Instant::now();
    let mut patient = true;
    loop {
        if patient && started.elapsed() > protection::IMPATIENT_AFTER {
            patient = false;
            let parameters = json!({ "downtime-limit": protection::IMPATIENT_MS });
            primary.execute("migrate-set-parameters", parameters)?;
        }
        match primary.migration_status()?.as_str() {
            "completed" => return Ok(()),
            status @ ("failed" | "cancelled") => {
                let reason = format!("QEMU says {status}");
                return Err(VmError::Pair { operation: "take a snapshot", reason });
            }
            // QEMU sends on into a cable that is out, and whoever deals with the failure waits for this.
            _ if secondary.ended_within(Duration::ZERO) => {
                let reason = secondary.failure("ended").to_string();
                return Err(VmError::Pair { operation: "take a snapshot", reason });
            }
            _ if started.elapsed() > TAKEN_WITHIN => {
                let reason = format!("not done within {} s", TAKEN_WITHIN.as_secs());
                return Err(VmError::Pair { operation: "take a snapshot", reason });
            }
            _ => std::thread::sleep(PAUSE),
        }
    }
}

/// Has a waiting replica go on from a snapshot; returns once its guest runs. The primary must be known to be
/// dead.
///
/// # Errors
///
/// [`VmError::Pair`] where its guest doesn't run in time.
pub fn restore(target: &Replica, snapshot: &Snapshot) -> Result<()> {
    if let (Some(own), Some(kept)) = (target.disk(), &snapshot.disk) {
        own.copy_from(kept)?;
    }
    protection::set_plain(target)?;
    let state = snapshot.state.try_clone().map_err(VmError::io("duplicate", "snapshot"))?;
    feed(state, |stream| load(target, stream))?;
    announce(target);
    Ok(())
}

/// Hands a state over by a stream from whose other end `load` has it loaded.
fn feed(mut state: File, load: impl FnOnce(OwnedFd) -> Result<()>) -> Result<()> {
    let (ours, theirs) = UnixStream::pair().map_err(VmError::io("create", "socket"))?;
    let mut feeding = ours.try_clone().map_err(VmError::io("duplicate", "socket"))?;
    std::thread::scope(|scope| {
        // Ends with the state, or with whoever reads it.
        let feed = scope.spawn(move || -> io::Result<()> {
            state.seek(SeekFrom::Start(0))?;
            io::copy(&mut state, &mut feeding)?;
            // This end is open elsewhere, too, so its end has to be said.
            let _ = feeding.shutdown(std::net::Shutdown::Write);
            Ok(())
        });
        let loaded = load(theirs.into());
        if loaded.is_err() {
            // QEMU may have the other end without reading it.
            let _ = ours.shutdown(std::net::Shutdown::Both);
        }
        let fed = joined(feed);
        // QEMU's own words tell more than a broken pipe does.
        loaded.and(fed.map_err(VmError::io("hand over", "snapshot")))
    })
}

fn load(target: &Replica, stream: OwnedFd) -> Result<()> {
    protection::listen(target, &stream)?;
    drop(stream);
    let until = Instant::now() + LIVE_WITHIN;
    while !target.is_running()? {
        let status = target.migration_status()?;
        if Instant::now() > until || status == "failed" {
            let reason = target.failure(format!("its migration is {status:?}")).to_string();
            return Err(VmError::Pair { operation: "go on from a snapshot", reason });
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::sync::mpsc::channel;

    use super::*;

    /// More than a stream holds.
    fn state() -> (File, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        let bytes: Vec<u8> = (0..=255).cycle().take(4 << 20).collect();
        file.write_all(&bytes).unwrap();
        (file, bytes)
    }

    #[test]
    fn a_state_comes_whole_and_to_its_end() {
        let (file, bytes) = state();
        let mut read = Vec::new();
        let all = |stream: OwnedFd| {
            UnixStream::from(stream).read_to_end(&mut read).map(drop).map_err(VmError::io("read", "state"))
        };
        feed(file, all).unwrap();
        assert!(read == bytes, "{} bytes of {}", read.len(), bytes.len());
    }

    /// QEMU takes the stream's descriptor before it refuses to load what comes by it.
    #[test]
    fn a_stream_that_nobody_reads_is_given_up() {
        let (file, _) = state();
        let (tell, told) = channel();
        std::thread::spawn(move || {
            let mut kept = None;
            let refused = |stream| {
                kept = Some(stream);
                Err(VmError::Pair { operation: "go on from a snapshot", reason: "refused".to_owned() })
            };
            let fed = feed(file, refused).map_err(|e| e.to_string());
            drop(kept);
            tell.send(fed)
        });
        let fed = told.recv_timeout(Duration::from_secs(60)).expect("it ends");
        assert!(fed.unwrap_err().ends_with("refused"));
    }
}
