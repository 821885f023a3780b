//! A packet capture at the client's end of a path, counted afterwards from what was captured.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use vtax_sys::datagrams::{BATCH_MAX, Inbox};
use vtax_sys::netlink::Mac;
use vtax_sys::{Context as _, packets, sched};
use vtax_units::CpuSet;
use vtax_wire::pcap::{Flow, Reader, carried, file_header, packet_header};

use super::End;
use crate::error::{LabError, OnPath, Result, While};
use crate::process_io::output_file;

/// Bytes kept of each packet: enough for every header.
const KEPT: u32 = 128;
/// Bytes of packets that may wait for the thread.
const BUFFER: usize = 64 << 20;
/// The capture itself grows no larger; more packets are counted as dropped.
const LARGEST: u64 = 512 << 20;
/// Conversations whose retransmissions are told apart; a test has a few hundred.
const MOST_FLOWS: usize = 65_536;
/// How long the thread sleeps at most before it looks whether it is over.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// One direction of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureSide {
    /// Frames, of whatever kind. With offloads on, segments of up to 64 KiB are one frame.
    pub packets: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Payload of TCP and UDP, retransmissions included.
    pub payload_bytes: u64,
    /// Payload of TCP that had been sent before.
    pub retransmitted_bytes: u64,
}

/// What a capture has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CaptureCounts {
    /// From the client.
    pub up: CaptureSide,
    /// To the client.
    pub down: CaptureSide,
    /// Packets that were not captured, for want of room. Where there are any, the counts are too low.
    pub dropped: u64,
}

/// A capture that is going on; given up when dropped.
#[derive(Debug)]
pub struct Capture {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<std::io::Result<u64>>>,
    file: File,
    client: Mac,
}

impl Capture {
    /// Starts it at this end, on these CPUs. `client` is the MAC address of who sends there.
    pub(crate) fn start(end: &End, client: Mac, cpus: &CpuSet) -> Result<Self> {
        let what = || "capture packets".to_owned();
        let socket = end.within(|index| packets::open(index, BUFFER)).during(what)?;
        let file = output_file("capture")?;
        let mut writing = file.try_clone().on("duplicate", Path::new("a capture"))?;
        writing.write_all(&file_header(KEPT)).on("write", Path::new("a capture"))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (over, cpus) = (Arc::clone(&stop), cpus.clone());
        let run = move || {
            if !cpus.is_empty() {
                // It works on other CPUs too, whose users then pay for it.
                let _ = sched::bind_this_thread(&cpus);
            }
            record(&socket, writing, &over)
        };
        let thread = std::thread::Builder::new().name("capture".to_owned()).spawn(run);
        let thread = thread.context("start", "the capture's thread").during(what)?;
        Ok(Self { stop, thread: Some(thread), file, client })
    }

    /// Ends the capture and counts what is in it.
    ///
    /// # Errors
    ///
    /// Where it could not be written or can't be read.
    pub fn stop(mut self) -> Result<CaptureCounts> {
        let place = Path::new("a capture");
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(JoinHandle::join);
        let dropped = match ended {
            Some(Ok(written)) => written.on("write", place)?,
            _ => return Err(unreadable("its thread panicked".to_owned())),
        };
        let length = self.file.metadata().on("read", place)?.len();
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        self.file.read_exact_at(&mut bytes, 0).on("read", place)?;
        let mut counts = count(&bytes, self.client).map_err(unreadable)?;
        counts.dropped += dropped;
        Ok(counts)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn unreadable(reason: String) -> LabError {
    LabError::Path { path: "capture".to_owned(), reason }
}

/// Writes what comes until it is over and nothing waits any more; returns how many packets are missing.
fn record(socket: &OwnedFd, mut file: File, over: &AtomicBool) -> std::io::Result<u64> {
    let mut inbox = Inbox::new(BATCH_MAX, KEPT as usize);
    let mut batch = Vec::with_capacity(BATCH_MAX * (KEPT as usize + 16));
    let (mut written, mut missing) = (0_u64, 0_u64);
    loop {
        // What was sent before the end was asked for is there before that is seen.
        let last = over.load(Ordering::Relaxed);
        let got = match inbox.receive(socket.as_fd()) {
            Ok(got) => got,
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => 0,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            // An interface that is down, as by a cut, says so once.
            Err(e) if e.raw_os_error() == Some(rustix::io::Errno::NETDOWN.raw_os_error()) => continue,
            Err(e) => return Err(e),
        };
        if got == 0 {
            if last {
                break;
            }
            let _ = poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&LOOK_EVERY));
            continue;
        }
        batch.clear();
        for datagram in (0..got).filter_map(|i| inbox.get(i)) {
            let at = inbox.arrival(&datagram).unwrap_or_default().0;
            let kept = datagram.bytes.len() as u32;
            batch.extend(packet_header(at, kept, (datagram.length as u32).max(kept)));
            batch.extend(datagram.bytes);
        }
        written += batch.len() as u64;
        if written > LARGEST {
            missing += got as u64;
        } else {
            file.write_all(&batch)?;
        }
    }
    let dropped = packets::dropped(socket.as_fd()).map_err(|e| std::io::Error::other(e.to_string()))?;
    Ok(missing + dropped)
}

/// Counts a capture by direction; `client` is who sends up.
fn count(bytes: &[u8], client: Mac) -> std::result::Result<CaptureCounts, String> {
    let mut counts = CaptureCounts::default();
    let mut next = HashMap::<Flow, u32>::new();
    for packet in Reader::new(bytes).map_err(|e| e.to_string())? {
        let packet = packet.map_err(|e| e.to_string())?;
        let from_client = packet.bytes.get(6..12) == Some(&client.0);
        let side = if from_client { &mut counts.up } else { &mut counts.down };
        side.packets += 1;
        side.bytes += u64::from(packet.length);
        let Some(carried) = carried(packet.bytes, packet.length) else { continue };
        side.payload_bytes += u64::from(carried.payload);
        let Some(sequence) = carried.sequence.filter(|_| carried.payload > 0) else { continue };
        let end = sequence.wrapping_add(carried.payload);
        let followed = next.len();
        match next.get_mut(&carried.flow) {
            Some(next) => {
                // RFC 9293 section 3.4: numbers are compared modulo 2^32.
                let again = next.wrapping_sub(sequence);
                if again.cast_signed() > 0 {
                    side.retransmitted_bytes += u64::from(again.min(carried.payload));
                }
                if end.wrapping_sub(*next).cast_signed() > 0 {
                    *next = end;
                }
            }
            None if followed < MOST_FLOWS => _ = next.insert(carried.flow, end),
            // What isn't followed counts as new.
            None => {}
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Mac = Mac([2, 0, 0, 0, 0, 1]);

    fn add(file: &mut Vec<u8>, up: bool, sequence: u32, payload: u16) {
        let (from, to) = if up { (1, 2) } else { (2, 1) };
        let mut frame = vec![2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 0, 0x45, 0];
        frame.extend((40 + payload).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to, 0, from, 0, to]);
        frame.extend(sequence.to_be_bytes());
        frame.extend([0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        file.extend(packet_header(0, frame.len() as u32, 54 + u32::from(payload)));
        file.extend(frame);
    }

    #[test]
    fn what_is_sent_again_is_told_apart() {
        let mut file = file_header(KEPT).to_vec();
        // Around the end of the numbers, as a connection may well be.
        let start = u32::MAX - 99;
        add(&mut file, true, start, 1000);
        add(&mut file, true, start.wrapping_add(2000), 1000);
        add(&mut file, true, start.wrapping_add(1000), 1000);
        add(&mut file, true, start.wrapping_add(2500), 1000);
        add(&mut file, false, 5, 0);
        let counts = count(&file, CLIENT).unwrap();
        assert_eq!((counts.up.packets, counts.up.payload_bytes), (4, 4000));
        // The third fills a gap that the capture can't tell from a repetition; the fourth is half new.
        assert_eq!(counts.up.retransmitted_bytes, 1500);
        assert_eq!((counts.down.packets, counts.down.payload_bytes, counts.down.bytes), (1, 0, 54));
        file.truncate(file.len() - 1);
        assert!(count(&file, CLIENT).unwrap_err().contains("ends in the middle of a packet"));
    }
}
