//! Reads and writes through io_uring, on buffers that the ring owns.
//!
//! The kernel reads from and writes to a buffer as long as its operation is under way. So the ring owns the buffers, gives one
//! out only while its slot is idle, and ends only when nothing is under way. That is what makes its interface safe.

use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::io::Errno;

use crate::aligned::Aligned;
use crate::error::{Context, Result, SysError};

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Reads into the slot's buffer.
    Read,
    /// Writes from the slot's buffer.
    Write,
    /// Writes from the slot's buffer, and is done only when the data would survive a loss of power (`RWF_DSYNC`).
    WriteDurable,
    /// Is done when all data of the file would survive a loss of power (fdatasync).
    Sync,
}

/// What became of an operation.
#[derive(Debug, Clone, Copy)]
pub struct Completed {
    /// Its slot.
    pub slot: u16,
    /// Bytes, or what the kernel said.
    pub result: std::result::Result<u32, Errno>,
}

/// A ring with its files and a buffer for each slot.
pub struct Ring {
    ring: IoUring,
    /// Registered: operations name them by their place.
    files: Vec<OwnedFd>,
    memory: Option<Aligned>,
    slot_bytes: usize,
    /// By slot, whether the kernel may use its buffer.
    busy: Vec<bool>,
    under_way: usize,
    /// Operations are queued that the kernel has not been told of.
    queued: bool,
    /// The buffers are registered, which spares the kernel looking their pages up. Not where more memory would be locked than
    /// this process may.
    registered: bool,
}

impl std::fmt::Debug for Ring {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ring").field("slots", &self.busy.len()).field("under_way", &self.under_way).finish()
    }
}

/// How long the end of a ring waits for what is under way. A disk that takes longer keeps its buffers: they are never freed.
const LAST_WAIT: Duration = Duration::from_secs(30);

impl Ring {
    /// A ring for so many operations at once, with buffers of `slot_bytes` (rounded up to pages), on these files.
    /// It belongs to the thread that makes it.
    ///
    /// # Errors
    ///
    /// The kernel has no io_uring, one of before Linux 5.11, or forbids it (`kernel.io_uring_disabled`), or there is no memory.
    pub fn new(files: Vec<OwnedFd>, slots: u16, slot_bytes: usize) -> Result<Self> {
        let slots = slots.max(1);
        let slot_bytes = slot_bytes.max(1).next_multiple_of(4096);
        let ring = build(u32::from(slots).next_power_of_two())
            .context("set up", "io_uring (kernel.io_uring_disabled?)")?;
        can_wait(ring.params().is_feature_ext_arg())?;
        let memory = Aligned::new(slot_bytes * usize::from(slots))?;
        let buffers: Vec<libc::iovec> = (0..usize::from(slots))
            .map(|slot| libc::iovec {
                iov_base: memory.start().wrapping_add(slot * slot_bytes).cast(),
                iov_len: slot_bytes,
            })
            .collect();
        // SAFETY: the buffers are parts of `memory`, which lives until the ring has nothing under way (see `drop`).
        let registered = unsafe { ring.submitter().register_buffers(&buffers) }.is_ok();
        let numbers: Vec<i32> = files.iter().map(AsRawFd::as_raw_fd).collect();
        if !numbers.is_empty() {
            ring.submitter().register_files(&numbers).context("register", "files with io_uring")?;
        }
        let busy = vec![false; usize::from(slots)];
        Ok(Self {
            ring,
            files,
            memory: Some(memory),
            slot_bytes,
            busy,
            under_way: 0,
            queued: false,
            registered,
        })
    }

    /// The buffer of a slot. Empty while an operation of the slot is under way: the kernel uses it then.
    pub fn buffer(&mut self, slot: u16) -> &mut [u8] {
        let slot = usize::from(slot);
        match &mut self.memory {
            Some(memory) if self.busy.get(slot) == Some(&false) => {
                &mut memory[slot * self.slot_bytes..(slot + 1) * self.slot_bytes]
            }
            _ => &mut [],
        }
    }

    /// Queues an operation on the file at place `file` of those the ring was made with.
    ///
    /// # Errors
    ///
    /// The slot is under way, the length exceeds its buffer, or there is no such file: a mistake of the caller's.
    pub fn queue(&mut self, slot: u16, action: Action, file: u32, offset: u64, length: u32) -> Result<()> {
        let place = usize::from(slot);
        let idle = self.busy.get(place) == Some(&false);
        let Some(memory) = self
            .memory
            .as_ref()
            .filter(|_| idle && length as usize <= self.slot_bytes && (file as usize) < self.files.len())
        else {
            return Err(SysError::Unexpected {
                operation: "queue an operation",
                what: format!("slot {slot}, file {file}, {length} bytes"),
            });
        };
        let start = memory.start().wrapping_add(place * self.slot_bytes);
        let entry = if self.registered {
            on_registered(slot, action, Fixed(file), start, offset, length)
        } else {
            on_any(action, Fixed(file), start, offset, length)
        };
        let entry = entry.user_data(u64::from(slot));
        // SAFETY: buffer and file belong to the ring and outlive the operation; nobody else has the buffer, as `buffer`
        // gives it out only while the slot is idle.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| SysError::Unexpected {
            operation: "queue an operation",
            what: "the queue is full".to_owned(),
        })?;
        self.busy[place] = true;
        self.under_way += 1;
        self.queued = true;
        Ok(())
    }

    /// Hands what is queued to the kernel and takes what is done: waits at most `sleep` nanoseconds for the first (0: only
    /// looks; `u64::MAX`: as long as it takes). Appends to `done`.
    ///
    /// # Errors
    ///
    /// The kernel refuses.
    pub fn wait(&mut self, sleep: u64, done: &mut Vec<Completed>) -> Result<()> {
        if self.queued || self.ring.completion().is_empty() {
            self.enter(sleep)?;
        }
        for entry in self.ring.completion() {
            let slot = entry.user_data() as u16;
            let result = match u32::try_from(entry.result()) {
                Ok(bytes) => Ok(bytes),
                Err(_) => Err(Errno::from_raw_os_error(-entry.result())),
            };
            self.busy[usize::from(slot)] = false;
            self.under_way -= 1;
            done.push(Completed { slot, result });
        }
        Ok(())
    }

    fn enter(&mut self, sleep: u64) -> Result<()> {
        // Where nothing is under way no completion can come: the wait is only for the time.
        let wanted = usize::from(sleep > 0);
        let time = Timespec::from(Duration::from_nanos(sleep));
        let args = SubmitArgs::new().timespec(&time);
        let entered = match sleep {
            u64::MAX if self.under_way > 0 => self.ring.submit_and_wait(1),
            _ => self.ring.submitter().submit_with_args(wanted, &args),
        };
        self.queued = !self.ring.submission().is_empty();
        match entered {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error).context("hand operations to", "io_uring"),
            },
        }
    }
}

/// Refuses an io_uring whose waits can't end in time, as before Linux 5.11 (`IORING_FEAT_EXT_ARG`): the kernel would refuse the
/// first of them, in the middle of a trial.
fn can_wait(in_time: bool) -> Result<()> {
    if in_time {
        return Ok(());
    }
    let feature =
        "io_uring whose waits end in time, which Linux has since 5.11; `engine: psync` does without";
    Err(SysError::NoFeature { feature, source: Errno::OPNOTSUPP.into() })
}

/// Without interrupts of the running thread where the kernel can (6.1 and later), else as an older one does.
fn build(entries: u32) -> std::io::Result<IoUring> {
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        .or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries))
        .or_else(|_| IoUring::builder().build(entries))
}

/// An operation on a registered buffer, which has the slot's number.
fn on_registered(
    slot: u16,
    action: Action,
    file: Fixed,
    start: *mut u8,
    offset: u64,
    length: u32,
) -> squeue::Entry {
    let write = || opcode::WriteFixed::new(file, start, length, slot).offset(offset);
    match action {
        Action::Read => opcode::ReadFixed::new(file, start, length, slot).offset(offset).build(),
        Action::Write => write().build(),
        Action::WriteDurable => write().rw_flags(libc::RWF_DSYNC).build(),
        Action::Sync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
    }
}

/// The entry of an action on a buffer that isn't registered.
fn on_any(action: Action, file: Fixed, start: *mut u8, offset: u64, length: u32) -> squeue::Entry {
    let write = || opcode::Write::new(file, start, length).offset(offset);
    match action {
        Action::Read => opcode::Read::new(file, start, length).offset(offset).build(),
        Action::Write => write().build(),
        Action::WriteDurable => write().rw_flags(libc::RWF_DSYNC).build(),
        Action::Sync => opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build(),
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        let mut done = Vec::with_capacity(self.busy.len());
        let end = crate::sched::monotonic().0 + LAST_WAIT.as_nanos() as u64;
        while self.under_way > 0 && crate::sched::monotonic().0 < end {
            if self.wait(100_000_000, &mut done).is_err() {
                break;
            }
        }
        if self.under_way > 0 {
            // The kernel may still write to it.
            std::mem::forget(self.memory.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    fn file(name: &str) -> File {
        let path = std::env::temp_dir().join(format!("vtax-uring-{name}-{}", std::process::id()));
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        file
    }

    /// A ring where this kernel has one.
    fn ring(name: &str, slots: u16) -> Option<Ring> {
        match Ring::new(vec![file(name).into()], slots, 4096) {
            Ok(ring) => Some(ring),
            Err(error) => {
                let _ = crate::require::possible(Some(error));
                None
            }
        }
    }

    fn all(ring: &mut Ring, count: usize) -> Vec<Completed> {
        let mut done = Vec::new();
        while done.len() < count {
            ring.wait(u64::MAX, &mut done).unwrap();
        }
        done
    }

    #[test]
    fn what_was_written_is_read_back() {
        let Some(mut ring) = ring("back", 4) else { return };
        for slot in 0..4 {
            ring.buffer(slot).fill(slot as u8 + 1);
            let action = if slot == 3 { Action::WriteDurable } else { Action::Write };
            ring.queue(slot, action, 0, u64::from(slot) * 4096, 4096).unwrap();
            assert!(ring.buffer(slot).is_empty(), "the kernel has it");
        }
        assert!(all(&mut ring, 4).iter().all(|done| done.result == Ok(4096)));
        ring.queue(0, Action::Sync, 0, 0, 0).unwrap();
        assert_eq!(all(&mut ring, 1)[0].result, Ok(0));
        for slot in 0..4 {
            ring.buffer(slot).fill(0);
            ring.queue(slot, Action::Read, 0, u64::from(3 - slot) * 4096, 4096).unwrap();
        }
        all(&mut ring, 4);
        for slot in 0..4 {
            assert!(ring.buffer(slot).iter().all(|byte| *byte == 4 - slot as u8));
        }
    }

    #[test]
    fn an_io_uring_that_is_too_old_is_refused_with_a_way_out() {
        assert!(can_wait(true).is_ok());
        let refused = can_wait(false).unwrap_err();
        assert_eq!(refused.errno(), Some(libc::EOPNOTSUPP));
        let said = refused.to_string();
        assert!(said.contains("since 5.11") && said.contains("`engine: psync`"), "{said}");
    }

    #[test]
    fn a_wait_ends_with_its_time_and_mistakes_are_refused() {
        let Some(mut ring) = ring("time", 1) else { return };
        let mut done = Vec::new();
        let before = crate::sched::monotonic();
        ring.wait(2_000_000, &mut done).unwrap();
        assert!(done.is_empty() && crate::sched::monotonic().0 - before.0 >= 1_500_000);
        ring.wait(0, &mut done).unwrap();
        assert!(ring.queue(1, Action::Read, 0, 0, 1).is_err());
        assert!(ring.queue(0, Action::Read, 1, 0, 1).is_err());
        assert!(ring.queue(0, Action::Read, 0, 0, 8192).is_err());
        ring.queue(0, Action::Read, 0, 0, 1).unwrap();
        assert!(ring.queue(0, Action::Read, 0, 0, 1).is_err(), "under way");
    }
}
