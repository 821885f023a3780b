//! What is done before a load begins: every key is written once. And whether keys are there that no load wrote.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, sockopt};
use vtax_wire::resp::{self, Item, Reply, ReplyScanner};

use super::dialogue::{key_name, write_value};
use super::keys::Keys;
use super::values::{Identity, Pool, Reading};
use crate::{ConnectionPool, Control, LoadError};

/// Bytes of requests sent before their answers are read: what any socket holds.
const BATCH_BYTES: usize = 32 << 10;
/// Requests in a batch at most.
const BATCH: usize = 256;
/// All of it takes at most this long; an emulated server was seen to take some 3,000 values a second.
pub(super) const LONGEST: Duration = Duration::from_secs(600);
/// Longest wait, so that a cancellation is seen.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// Keys at most whose values are read to see whose they are.
const LOOKED_AT: u64 = 100;

/// The connection that keys are written on before the load's own are made. Each wait ends with the load's cancellation.
#[derive(Debug)]
pub(super) struct Connection<'a> {
    stream: TcpStream,
    scanner: ReplyScanner,
    control: &'a Control,
    /// When all of it must be done.
    until: Instant,
}

impl<'a> Connection<'a> {
    pub(super) fn open(pool: &ConnectionPool, control: &'a Control) -> Result<Self, LoadError> {
        let connected = begin_connecting(pool.target).and_then(|stream| {
            let now = Instant::now();
            let scanner = ReplyScanner::new();
            let until = now + LONGEST.min(pool.timeout.into());
            let connection = Self { stream, scanner, control, until };
            connection.wait(PollFlags::OUT)?;
            match connection.stream.take_error()? {
                Some(why) => Err(why),
                None => Ok(Self { until: now + LONGEST, ..connection }),
            }
        });
        connected.map_err(|why| {
            if control.is_cancelled() {
                return LoadError::CancelledOpening;
            }
            LoadError::Unreachable { server: pool.target, why }
        })
    }

    /// Writes a first value of every key.
    pub(super) fn fill(&mut self, values: &Pool, keys: &mut Keys, value_bytes: u32) -> Result<(), LoadError> {
        let filled = self.write_all_keys(values, keys, value_bytes);
        filled.map_err(|why| self.failed("the first value of each key could not be written", &why))
    }

    fn write_all_keys(&mut self, values: &Pool, keys: &mut Keys, value_bytes: u32) -> io::Result<()> {
        let mut out = Vec::with_capacity(BATCH_BYTES);
        let mut place = 0;
        let count = keys.len() as u32;
        while place < count {
            let first = place;
            out.clear();
            while place < count && out.len() < BATCH_BYTES && ((place - first) as usize) < BATCH {
                if let Some(version) = keys.begin_write(place) {
                    let value = Identity { key: keys.number(place), version, length: value_bytes };
                    write_value(&mut out, values, value);
                }
                place += 1;
            }
            self.send(&out)?;
            self.replies((place - first) as usize, |item| match item {
                Item::End(Reply::Status) | Item::Incomplete => Ok(()),
                Item::End(Reply::Error(code)) => Err(format!("it refused a SET with `{}`", code.as_str())),
                Item::End(_) | Item::Bytes(_) => {
                    Err("it answered a SET with something else than a status".to_owned())
                }
            })?;
            (first..place).for_each(|place| keys.written(place));
        }
        Ok(())
    }

    /// The name of a key that holds what no load wrote, whatever its seed, if there is one among those that are looked at: some of so
    /// many, evenly spread.
    pub(super) fn foreign_key(&mut self, keys: u64) -> Result<Option<String>, LoadError> {
        let found = self.first_foreign(&spread(keys));
        let found = found.map_err(|why| self.failed("its keys could not be looked at", &why))?;
        Ok(found.map(|number| String::from_utf8_lossy(&key_name(number)).into_owned()))
    }

    fn first_foreign(&mut self, numbers: &[u64]) -> io::Result<Option<u64>> {
        // Only what a value says of itself is looked at: what follows depends on the seed.
        let any = Pool::new(0);
        let mut out = Vec::new();
        numbers.iter().for_each(|number| resp::get(&mut out, &key_name(*number)));
        self.send(&out)?;
        let (mut asked, mut reading, mut foreign) = (numbers.iter().copied(), Reading::new(), None);
        self.replies(numbers.len(), |item| {
            let reply = match item {
                Item::Incomplete => return Ok(()),
                Item::Bytes(part) => {
                    reading.take(&any, part);
                    return Ok(());
                }
                Item::End(reply) => reply,
            };
            let (number, value) = (asked.next(), reading.claimed());
            reading = Reading::new();
            let own = match reply {
                Reply::Null => true,
                Reply::Value(_) => value.is_some_and(|value| Some(value.key) == number),
                // No string, but a list or another type.
                Reply::Error(code) if code.as_str() == "WRONGTYPE" => false,
                Reply::Error(code) => return Err(format!("it refused a GET with `{}`", code.as_str())),
                Reply::Status | Reply::Integer(_) => {
                    return Err("it answered a GET with something else than a value".to_owned());
                }
            };
            if !own {
                foreign = foreign.or(number);
            }
            Ok(())
        })?;
        Ok(foreign)
    }

    /// What an error on the connection is told as.
    fn failed(&self, what: &str, why: &io::Error) -> LoadError {
        if self.control.is_cancelled() {
            return LoadError::CancelledOpening;
        }
        LoadError::Server { reason: format!("{what}: {why}") }
    }

    /// Reads so many replies. `take` gets their parts, and says what is wrong with them.
    fn replies(
        &mut self,
        mut count: usize,
        mut take: impl FnMut(Item<'_>) -> Result<(), String>,
    ) -> io::Result<()> {
        let refused = |why: String| io::Error::new(ErrorKind::InvalidData, why);
        let mut buffer = [0; 4096];
        while count > 0 {
            let got = self.receive(&mut buffer)?;
            let mut bytes = &buffer[..got];
            while !bytes.is_empty() {
                let scanned = self.scanner.scan(bytes).map_err(|e| refused(e.to_string()))?;
                bytes = &bytes[scanned.consumed..];
                if matches!(scanned.item, Item::End(_)) {
                    let left = count.checked_sub(1);
                    count = left.ok_or_else(|| refused("it answered more than it was asked".to_owned()))?;
                }
                take(scanned.item).map_err(refused)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(sent) => bytes = &bytes[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(PollFlags::OUT)?,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            self.wait(PollFlags::IN)?;
            match self.stream.read(buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(got) => return Ok(got),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the connection can be read or written; an error once the load was cancelled, or took too long.
    fn wait(&self, flags: PollFlags) -> io::Result<()> {
        loop {
            if self.control.is_cancelled() {
                return Err(ErrorKind::Interrupted.into());
            }
            if Instant::now() >= self.until {
                return Err(ErrorKind::TimedOut.into());
            }
            match poll(&mut [PollFd::new(&self.stream, flags)], Some(&LOOK)) {
                Ok(0) | Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// A connection that is being made; it never blocks.
fn begin_connecting(server: SocketAddr) -> io::Result<TcpStream> {
    let family = if server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    sockopt::set_tcp_nodelay(&socket, true)?;
    match rustix::net::connect(&socket, &server) {
        Ok(()) | Err(Errno::INPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error.into()),
    }
}

/// Of so many numbers some, evenly spread, the first and the last among them.
fn spread(keys: u64) -> Vec<u64> {
    let count = keys.min(LOOKED_AT);
    (0..count).map(|n| n * (keys - 1) / (count - 1).max(1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_and_the_last_key_are_looked_at_and_none_twice() {
        for keys in [1, 2, 99, 100, 101, 10_000, 50_000_000] {
            let numbers = spread(keys);
            assert_eq!(numbers.len() as u64, keys.min(LOOKED_AT));
            assert_eq!((numbers.first(), numbers.last()), (Some(&0), Some(&(keys - 1))));
            assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{keys}: {numbers:?}");
        }
    }
}
