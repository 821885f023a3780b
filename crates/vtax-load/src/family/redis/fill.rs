//! Writes every key once, before the load begins.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use vtax_wire::resp::{Item, Reply, ReplyScanner};

use super::dialogue::write_value;
use super::keys::Keys;
use super::values::{Identity, Pool};
use crate::{ConnectionPool, LoadError};

/// Bytes of requests sent before their answers are read: what any socket holds.
const BATCH_BYTES: usize = 32 << 10;
/// Requests in a batch at most.
const BATCH: usize = 256;
/// All of it takes at most this long; an emulated server was seen to take some 3,000 values a second.
pub(super) const LONGEST: Duration = Duration::from_secs(600);

/// Writes a first value of every key.
pub(super) fn fill(
    pool: &ConnectionPool,
    values: &Pool,
    keys: &mut Keys,
    value_bytes: u32,
) -> Result<(), LoadError> {
    let failed = |source| LoadError::System { operation: "write the first value of each key", source };
    let until = Instant::now() + LONGEST;
    let mut stream =
        TcpStream::connect_timeout(&pool.target, LONGEST.min(pool.timeout.into())).map_err(failed)?;
    stream.set_nodelay(true).map_err(failed)?;
    let mut scanner = ReplyScanner::new();
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
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(failed(io::ErrorKind::TimedOut.into()));
        }
        stream.set_read_timeout(Some(left)).map_err(failed)?;
        stream.set_write_timeout(Some(left)).map_err(failed)?;
        stream.write_all(&out).map_err(failed)?;
        acknowledged(&mut stream, &mut scanner, (place - first) as usize).map_err(failed)?;
        (first..place).for_each(|place| keys.written(place));
    }
    Ok(())
}

/// Reads so many answers, all of which must acknowledge.
fn acknowledged(stream: &mut TcpStream, scanner: &mut ReplyScanner, mut count: usize) -> io::Result<()> {
    let refused = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut buffer = [0; 4096];
    while count > 0 {
        let got = stream.read(&mut buffer)?;
        if got == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = &buffer[..got];
        while !bytes.is_empty() {
            let scanned = scanner.scan(bytes).map_err(|e| refused(e.to_string()))?;
            bytes = &bytes[scanned.consumed..];
            match scanned.item {
                Item::End(Reply::Status) if count > 0 => count -= 1,
                Item::Incomplete => {}
                Item::End(Reply::Error(code)) => {
                    return Err(refused(format!("the server refused a SET with `{}`", code.as_str())));
                }
                Item::End(_) | Item::Bytes(_) => {
                    return Err(refused(
                        "the server answered a SET with something else than a status".into(),
                    ));
                }
            }
        }
    }
    Ok(())
}
