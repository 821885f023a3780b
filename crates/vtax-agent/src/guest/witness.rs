//! The witness: a counter in the guest's memory that tells whether the guest survived.
//!
//! A client sends lines over TCP; each is answered with the next number and the line itself. The
//! numbers exist nowhere but in the guest's memory and go up by exactly one, so a lost, repeated or
//! doubled state shows at once. A line that starts with `record` is also written to the data disk, in
//! the sector of its number, before it is answered.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use vtax_sys::sync::lock;
use vtax_vm::contract::{DATA_DISK, WITNESS_PORT};

use super::error::GuestError;
use super::root;
use crate::message::{FindInterface, InterfaceSetup};
use crate::network;

/// Longest line that is read, in bytes.
const LONGEST_LINE: u64 = 4096;
/// Bytes of a sector, the place of one record.
const SECTOR: usize = 512;
/// `O_DSYNC` of Linux on x86: a write returns when the disk has it.
const O_DSYNC: i32 = 0o10000;

struct Witness {
    count: AtomicU64,
    disk: Mutex<Option<File>>,
    /// Memory that is written to on request, to have pages for a checkpoint.
    memory: Mutex<Vec<u8>>,
}

/// Serves until the guest ends.
pub(super) fn serve(address: IpAddr, prefix: u8) -> Result<(), GuestError> {
    let find = FindInterface::Name("eth0".to_owned());
    let interface =
        InterfaceSetup { addresses: vec![(address, prefix)], ..InterfaceSetup::new(find, "eth0".to_owned()) };
    network::configure(&[interface]).map_err(|e| GuestError::Network { reason: e.to_string() })?;
    let place = (Ipv4Addr::UNSPECIFIED, WITNESS_PORT);
    let listener =
        TcpListener::bind(place).map_err(GuestError::call("listen on", WITNESS_PORT.to_string()))?;
    let state = Witness { count: AtomicU64::new(0), disk: Mutex::default(), memory: Mutex::default() };
    let witness = Arc::new(state);
    for stream in listener.incoming().flatten() {
        let witness = Arc::clone(&witness);
        // A client that comes and goes is its own affair.
        drop(std::thread::spawn(move || witness.talk(&stream)));
    }
    Ok(())
}

impl Witness {
    fn talk(&self, stream: &TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::new(stream);
        let mut writer = stream;
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(());
            }
            let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
            if line.starts_with(b"record") {
                self.record(number)?;
            } else if let Some(kib) = line.strip_prefix(b"dirty ") {
                self.dirty(kib);
            }
            let answer = [format!("{number} ").as_bytes(), &line].concat();
            writer.write_all(&answer)?;
        }
    }

    fn record(&self, number: u64) -> io::Result<()> {
        let mut disk = lock(&self.disk);
        if disk.is_none() {
            let path = root::disk(DATA_DISK).map_err(io::Error::other)?;
            *disk = Some(OpenOptions::new().read(true).write(true).custom_flags(O_DSYNC).open(path)?);
        }
        let mut sector = format!("record {number}\n").into_bytes();
        sector.resize(SECTOR, 0);
        disk.as_ref().map_or(Ok(()), |disk| disk.write_all_at(&sector, number * SECTOR as u64))
    }

    /// Writes to so many KiB of memory.
    fn dirty(&self, kib: &[u8]) {
        let text = std::str::from_utf8(kib).unwrap_or_default();
        let wanted = text.split_whitespace().next().and_then(|word| word.parse::<usize>().ok());
        let mut memory = lock(&self.memory);
        let bytes = wanted.unwrap_or(0).min(64 << 10) << 10;
        if memory.len() < bytes {
            memory.resize(bytes, 0);
        }
        for page in memory[..bytes].chunks_mut(4096) {
            page[0] = page[0].wrapping_add(1);
        }
    }
}
