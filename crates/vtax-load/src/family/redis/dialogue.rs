//! Redis as the engine sees it.

use std::collections::VecDeque;
use std::sync::Mutex;

use rand::distr::Distribution;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::Zipf;
use vtax_plan::model::KeyAccess;
use vtax_sys::sync::lock;
use vtax_wire::resp::{self, Item, Reply, ReplyScanner};

use super::keys::{Keys, Wrong};
use super::spec::RedisSpec;
use super::values::{Identity, Pool, Reading};
use crate::Part;
use crate::requests::{Answer, Dialogue, Outcome, Taken};

/// Exponent of the popularity of keys (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", SoCC 2010).
const ZIPF_EXPONENT: f64 = 0.99;
/// Keys tried for a write before it becomes a read: those with a write under way are passed over.
const WRITE_TRIES: u32 = 16;

/// What outlives a step: each worker has one, and lends it to the dialogue of the step.
#[derive(Debug)]
pub(super) struct Home(Mutex<Option<Keys>>);

impl Home {
    pub(super) fn new(keys: Keys) -> Self {
        Self(Mutex::new(Some(keys)))
    }

    fn put(&self, keys: Option<Keys>) -> Option<Keys> {
        std::mem::replace(&mut *lock(&self.0), keys)
    }
}

/// One worker's requests during one step.
pub(super) struct RedisDialogue<'a> {
    home: &'a Home,
    keys: Keys,
    pool: &'a Pool,
    value_bytes: u32,
    pipeline: u32,
    /// Of 2^32 requests, so many read.
    reads: u64,
    zipf: Option<Zipf<f64>>,
    random: StdRng,
}

/// What is remembered of a connection.
#[derive(Debug)]
pub(super) struct Connection {
    scanner: ReplyScanner,
    reading: Reading,
    /// Requests under way, in the order of their answers.
    asked: VecDeque<Asked>,
}

#[derive(Debug, Clone, Copy)]
enum Asked {
    Read { place: u32, oldest: u32 },
    Write { place: u32 },
}

impl Default for Connection {
    fn default() -> Self {
        Self { scanner: ReplyScanner::new(), reading: Reading::new(), asked: VecDeque::new() }
    }
}

impl<'a> RedisDialogue<'a> {
    /// `seed` tells steps and workers apart.
    pub(super) fn new(home: &'a Home, pool: &'a Pool, spec: &RedisSpec, seed: u64) -> Self {
        // A step that panicked kept them; a worker without keys would only be slower to tell.
        let keys = home.put(None).unwrap_or_else(|| Keys::new(1, Part::default(), 0, 1));
        let requests = &spec.requests;
        let zipf = match requests.access {
            KeyAccess::Uniform => None,
            KeyAccess::Zipf => Zipf::new(keys.len() as f64, ZIPF_EXPONENT).ok(),
        };
        Self {
            home,
            keys,
            pool,
            value_bytes: spec.value_bytes(),
            pipeline: requests.pipeline,
            reads: (requests.reads.0 * (1u64 << 32) as f64) as u64,
            zipf,
            random: StdRng::seed_from_u64(seed),
        }
    }

    fn any_key(&mut self) -> u32 {
        let keys = self.keys.len() as u32;
        match &self.zipf {
            // From 1; rounding may reach one too far.
            Some(zipf) => (zipf.sample(&mut self.random) as u32).clamp(1, keys) - 1,
            None => self.random.random_range(0..keys),
        }
    }

    /// A key to write, and the version it gets; `None` where those that were tried have writes under way.
    fn begin_write(&mut self, first: u32) -> Option<(u32, u32)> {
        let keys = self.keys.len() as u32;
        (0..WRITE_TRIES.min(keys)).find_map(|step| {
            let place = ((u64::from(first) + u64::from(step)) % u64::from(keys)) as u32;
            self.keys.begin_write(place).map(|version| (place, version))
        })
    }

    fn judge(&mut self, connection: &mut Connection, reply: Reply) -> Result<Outcome, Outcome> {
        // An answer to nothing: what follows can't be told apart any more.
        let asked = connection.asked.pop_front().ok_or(Outcome::Protocol)?;
        let reading = std::mem::replace(&mut connection.reading, Reading::new());
        Ok(match (asked, reply) {
            (Asked::Write { place }, Reply::Status) => {
                self.keys.written(place);
                Outcome::Ok
            }
            (Asked::Write { place }, Reply::Error(_)) => {
                self.keys.refused(place);
                Outcome::Status
            }
            (Asked::Read { .. }, Reply::Error(_)) => Outcome::Status,
            (Asked::Read { place, oldest }, Reply::Value(_)) => match reading.end() {
                Some(value) => outcome(self.keys.judge(place, oldest, Some((value.key, value.version)))),
                None => Outcome::Corrupt,
            },
            (Asked::Read { place, oldest }, Reply::Null) => outcome(self.keys.judge(place, oldest, None)),
            (Asked::Write { place }, Reply::Value(_) | Reply::Null | Reply::Integer(_)) => {
                self.keys.given_up(place);
                return Err(Outcome::Protocol);
            }
            (Asked::Read { .. }, Reply::Status | Reply::Integer(_)) => return Err(Outcome::Protocol),
        })
    }
}

impl Drop for RedisDialogue<'_> {
    fn drop(&mut self) {
        self.keys.end_of_step();
        let keys = std::mem::replace(&mut self.keys, Keys::new(0, Part::default(), 0, 1));
        self.home.put(Some(keys));
    }
}

impl Dialogue for RedisDialogue<'_> {
    type Connection = Connection;

    fn depth(&self) -> u32 {
        self.pipeline
    }

    fn write(&mut self, connection: &mut Connection, _last: bool, out: &mut Vec<u8>) {
        let key = self.any_key();
        let reads = u64::from(self.random.random::<u32>()) < self.reads;
        let write = if reads { None } else { self.begin_write(key) };
        match write {
            Some((place, version)) => {
                let (key, length) = (self.keys.number(place), self.value_bytes);
                write_value(out, self.pool, Identity { key, version, length });
                connection.asked.push_back(Asked::Write { place });
            }
            None => {
                resp::get(out, &key_name(self.keys.number(key)));
                let oldest = self.keys.begin_read(key);
                connection.asked.push_back(Asked::Read { place: key, oldest });
            }
        }
    }

    fn read(&mut self, connection: &mut Connection, bytes: &[u8]) -> Result<Taken, Outcome> {
        let mut at = 0;
        while at < bytes.len() {
            let scanned = connection.scanner.scan(&bytes[at..]).map_err(|_| Outcome::Protocol)?;
            at += scanned.consumed;
            match scanned.item {
                Item::Incomplete => {}
                Item::Bytes(part) => connection.reading.take(self.pool, part),
                Item::End(reply) => {
                    let outcome = self.judge(connection, reply)?;
                    let answer = Some(Answer { outcome, status: 0, keep: true });
                    return Ok(Taken { bytes: at, answer });
                }
            }
        }
        Ok(Taken { bytes: at, answer: None })
    }

    fn end(&mut self, connection: &mut Connection) -> Result<Option<Answer>, Outcome> {
        if connection.scanner.is_between() { Ok(None) } else { Err(Outcome::Reset) }
    }

    fn closed(&mut self, connection: &mut Connection) {
        for asked in connection.asked.drain(..) {
            if let Asked::Write { place } = asked {
                self.keys.given_up(place);
            }
        }
    }
}

/// Appends the request that writes this value.
pub(super) fn write_value(out: &mut Vec<u8>, pool: &Pool, value: Identity) {
    resp::set(out, &key_name(value.key), value.length as usize, |out| pool.write(out, value));
}

/// A key's name, as redis-benchmark has them: `key:` and twelve digits.
pub(super) fn key_name(number: u64) -> [u8; 16] {
    let mut name = *b"key:000000000000";
    let mut rest = number;
    for digit in name[4..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    name
}

const fn outcome(judged: Result<(), Wrong>) -> Outcome {
    match judged {
        Ok(()) => Outcome::Ok,
        Err(Wrong::Lost) => Outcome::Lost,
        Err(Wrong::Foreign) => Outcome::Corrupt,
        Err(Wrong::Stale) => Outcome::Stale,
    }
}
