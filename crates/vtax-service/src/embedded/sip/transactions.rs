//! Transactions the proxy is in: what was forwarded, what was answered, what is due when.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

use super::output::Peer;
use super::wheel::{Timer, Wheel};

/// Most transactions, all shards together.
const TRANSACTIONS_MAX: usize = 1_000_000;
/// Most bytes that the messages of transactions take, all shards together.
const BYTES_MAX: usize = 1 << 30;
/// Buffers up to this size are kept for the next transaction.
const KEPT_BYTES_MAX: usize = 4096;
/// Most buffers that are kept.
const KEPT_MAX: usize = 4096;
/// How many digits of a branch follow the cookie: 16 of token, 8 of number.
const BRANCH_DIGITS: usize = 24;
const COOKIE: &[u8; 7] = b"z9hG4bK";

/// A branch of this server.
pub(super) type Branch = [u8; COOKIE.len() + BRANCH_DIGITS];

/// How far a transaction has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Forwarded, nothing came back yet.
    Trying,
    /// A provisional response came.
    Proceeding,
    /// INVITE: a 2xx went by; what still comes of it is passed on (RFC 6026).
    Accepted,
    /// INVITE: another final response went by, its ACK hasn't come.
    Completed,
    /// Nothing more is expected; retransmissions are answered or absorbed.
    Lingering,
}

/// How far the cancelling of an INVITE has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cancel {
    /// Not asked for.
    No,
    /// Waits for a provisional response (RFC 3261 section 9.1).
    Wanted,
    /// Sent, and sent again until it is answered.
    Sent,
    /// Answered; the INVITE's final response is to come.
    Answered,
}

/// One transaction, both sides of it.
#[derive(Debug)]
pub(super) struct Transaction {
    /// Hash of what identifies the request; see `Proxy::key`.
    key: u64,
    /// Proves that a response's branch was made here, for this use of the slot.
    token: u64,
    stamp: u32,
    pub(super) id: u32,
    pub(super) state: State,
    pub(super) is_invite: bool,
    pub(super) cancel: Cancel,
    pub(super) upstream: Peer,
    pub(super) downstream: Peer,
    /// The request as it was forwarded; empty once a final response came.
    pub(super) request: Vec<u8>,
    /// The last response that was sent upstream.
    pub(super) response: Vec<u8>,
    /// When something is to be done, in milliseconds.
    due_ms: u64,
    /// When the timer passes that looks after it; `u64::MAX`: there is none.
    armed_ms: u64,
    /// When the other side is given up.
    pub(super) give_up_ms: u64,
    /// Time between retransmissions.
    pub(super) interval_ms: u64,
    /// Bytes of the messages as they were last counted.
    counted: usize,
}

impl Transaction {
    /// The branch under which it was forwarded.
    pub(super) fn branch(&self) -> Branch {
        branch(self.token, self.id)
    }
}

/// Writes a branch that names a transaction, or one for what has none.
pub(super) fn branch(token: u64, id: u32) -> Branch {
    let mut branch = [0; COOKIE.len() + BRANCH_DIGITS];
    branch[..7].copy_from_slice(COOKIE);
    let mut number = [0; 12];
    number[..8].copy_from_slice(&token.to_be_bytes());
    number[8..].copy_from_slice(&id.to_be_bytes());
    branch[7..].copy_from_slice(vtax_wire::sip::Hex::of(&number).bytes());
    branch
}

/// Reads a branch of this server: token and number. The shard is the token's.
pub(super) fn read_branch(text: &[u8]) -> Option<(u64, u32)> {
    let digits = text.strip_prefix(COOKIE).filter(|digits| digits.len() == BRANCH_DIGITS)?;
    let value = digits.iter().try_fold(0u128, |value, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(value << 4 | u128::from(digit))
    })?;
    Some(((value >> 32) as u64, value as u32))
}

/// Keys are keyed hashes already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// One shard's transactions.
#[derive(Debug)]
pub(super) struct Table {
    by_key: HashMap<u64, u32, BuildHasherDefault<AsItIs>>,
    /// Open and free ones, by their number.
    slots: Vec<Transaction>,
    free: Vec<u32>,
    wheel: Wheel,
    due: Vec<Timer>,
    /// Empty buffers, the last used on top: it is still in the cache.
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    transactions_max: usize,
    bytes_max: usize,
}

impl Table {
    /// One of so many shards, at time 0.
    pub(super) fn new(shards: usize) -> Self {
        Self {
            by_key: HashMap::default(),
            slots: Vec::new(),
            free: Vec::new(),
            wheel: Wheel::new(0),
            due: Vec::new(),
            buffers: Vec::new(),
            bytes: 0,
            transactions_max: TRANSACTIONS_MAX / shards.max(1),
            bytes_max: BYTES_MAX / shards.max(1),
        }
    }

    /// Number of the transaction a request belongs to.
    pub(super) fn find(&self, key: u64) -> Option<u32> {
        self.by_key.get(&key).copied()
    }

    /// Number of the transaction a response's branch names.
    pub(super) fn find_branch(&self, token: u64, id: u32) -> Option<u32> {
        let slot = self.slots.get(id as usize)?;
        (slot.token == token && self.by_key.get(&slot.key) == Some(&id)).then_some(id)
    }

    pub(super) fn get(&mut self, id: u32) -> &mut Transaction {
        &mut self.slots[id as usize]
    }

    /// There is no room for one more.
    pub(super) fn is_full(&self) -> bool {
        self.by_key.len() >= self.transactions_max || self.bytes >= self.bytes_max
    }

    /// Opens a transaction; its request and response are empty, and nothing is due.
    pub(super) fn open(
        &mut self,
        key: u64,
        token: u64,
        is_invite: bool,
        upstream: Peer,
        downstream: Peer,
    ) -> u32 {
        let next = self.slots.len() as u32;
        let id = self.free.pop().unwrap_or(next);
        let stamp = self.slots.get(id as usize).map_or(0, |slot| slot.stamp);
        let (request, response) = (self.buffer(), self.buffer());
        let transaction = Transaction {
            key,
            token,
            stamp,
            id,
            state: State::Trying,
            is_invite,
            cancel: Cancel::No,
            upstream,
            downstream,
            request,
            response,
            due_ms: u64::MAX,
            armed_ms: u64::MAX,
            give_up_ms: 0,
            interval_ms: 0,
            counted: 0,
        };
        match self.slots.get_mut(id as usize) {
            Some(slot) => *slot = transaction,
            None => self.slots.push(transaction),
        }
        if let Entry::Vacant(entry) = self.by_key.entry(key) {
            entry.insert(id);
        }
        id
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.buffers.pop().unwrap_or_default()
    }

    fn keep(&mut self, mut buffer: Vec<u8>) {
        if (1..=KEPT_BYTES_MAX).contains(&buffer.capacity()) && self.buffers.len() < KEPT_MAX {
            buffer.clear();
            self.buffers.push(buffer);
        }
    }

    /// Forgets the forwarded request: nothing will be sent downstream any more.
    pub(super) fn drop_request(&mut self, id: u32) {
        let buffer = std::mem::take(&mut self.slots[id as usize].request);
        self.keep(buffer);
    }

    /// Forgets the last response: nothing will be sent upstream again.
    pub(super) fn drop_response(&mut self, id: u32) {
        let buffer = std::mem::take(&mut self.slots[id as usize].response);
        self.keep(buffer);
    }

    /// Makes something due at that time, instead of what was.
    pub(super) fn schedule(&mut self, id: u32, due_ms: u64) {
        let slot = &mut self.slots[id as usize];
        slot.due_ms = due_ms;
        // A timer that passes before finds what is due later.
        if due_ms < slot.armed_ms {
            slot.stamp = slot.stamp.wrapping_add(1);
            slot.armed_ms = due_ms;
            self.wheel.set(Timer { slot: id, stamp: slot.stamp }, due_ms);
        }
        let bytes = slot.request.len() + slot.response.len();
        self.bytes = self.bytes + bytes - slot.counted;
        slot.counted = bytes;
    }

    /// Ends a transaction.
    pub(super) fn close(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        if self.by_key.get(&slot.key) != Some(&id) {
            return;
        }
        self.by_key.remove(&slot.key);
        slot.stamp = slot.stamp.wrapping_add(1);
        slot.token = 0;
        self.bytes -= slot.counted;
        slot.counted = 0;
        // A connection isn't kept open by what is over.
        let nowhere = Peer::Udp(([0, 0, 0, 0], 0).into());
        (slot.upstream, slot.downstream) = (nowhere.clone(), nowhere);
        self.drop_request(id);
        self.drop_response(id);
        self.free.push(id);
    }

    /// Moves the numbers of the transactions for which something is due to `due`.
    pub(super) fn pass(&mut self, now_ms: u64, due: &mut Vec<u32>) {
        let mut timers = std::mem::take(&mut self.due);
        self.wheel.pass(now_ms, &mut timers);
        for timer in timers.drain(..) {
            let slot = &mut self.slots[timer.slot as usize];
            if slot.stamp != timer.stamp {
                continue;
            }
            if slot.due_ms > now_ms {
                // Put off meanwhile, or further away than a turn of the wheel.
                slot.armed_ms = slot.due_ms;
                self.wheel.set(timer, slot.due_ms);
            } else {
                slot.armed_ms = u64::MAX;
                due.push(timer.slot);
            }
        }
        self.due = timers;
    }

    /// Nothing will ever be due.
    pub(super) fn is_idle(&self) -> bool {
        self.wheel.is_empty()
    }

    /// How many transactions are open.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_key.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_name_their_transaction() {
        let nowhere = Peer::Udp(([127, 0, 0, 1], 1).into());
        let mut table = Table::new(1);
        let id = table.open(7, u64::MAX - 1, true, nowhere.clone(), nowhere.clone());
        let text = table.get(id).branch();
        assert_eq!(&text[..], b"z9hG4bKfffffffffffffffe00000000");
        let (token, read) = read_branch(&text).unwrap();
        assert_eq!((token, read), (u64::MAX - 1, id));
        assert_eq!(table.find_branch(token, id), Some(id));
        assert_eq!(table.find_branch(token ^ 1, id), None);
        assert_eq!(table.find_branch(token, id + 1), None);
        table.close(id);
        table.close(id);
        assert_eq!(table.find_branch(token, id), None);
        assert_eq!(table.find_branch(0, id), None);
        for other in [&b"z9hG4bK"[..], b"z9hG4bKfffffffffffffffe0000000x", b"fffffffffffffffe00000000", b""] {
            assert_eq!(read_branch(other), None);
        }
        assert_eq!(table.free, [0]);
    }

    #[test]
    fn what_is_put_off_is_due_later() {
        let nowhere = Peer::Udp(([127, 0, 0, 1], 1).into());
        let mut table = Table::new(1);
        let id = table.open(7, 1, true, nowhere.clone(), nowhere);
        table.schedule(id, 100);
        table.schedule(id, 300);
        let mut due = Vec::new();
        table.pass(200, &mut due);
        assert!(due.is_empty() && !table.is_idle());
        table.pass(300, &mut due);
        assert_eq!(due, [id]);
        table.schedule(id, 400);
        table.close(id);
        due.clear();
        table.pass(1_000, &mut due);
        assert!(due.is_empty() && table.is_idle());
    }

    #[test]
    fn bytes_are_counted_and_given_back() {
        let nowhere = Peer::Udp(([127, 0, 0, 1], 1).into());
        let mut table = Table::new(1);
        for key in 0..10 {
            let id = table.open(key, 1, true, nowhere.clone(), nowhere.clone());
            table.get(id).request.resize(60_000, 0);
            table.schedule(id, 100);
            table.get(id).request.clear();
            table.get(id).response.resize(100, 0);
            table.schedule(id, 200);
        }
        assert_eq!(table.bytes, 1_000);
        for id in 0..10 {
            table.close(id);
        }
        assert_eq!((table.bytes, table.len()), (0, 0));
        assert!(table.slots.iter().all(|slot| slot.request.capacity() + slot.response.capacity() == 0));
        assert!(table.buffers.iter().all(|buffer| buffer.capacity() <= KEPT_BYTES_MAX));
        assert_eq!(table.buffers.len(), 10);
    }
}
