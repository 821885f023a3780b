//! The bodies of fuzz targets, fed with what real servers sent and with mutations of it.
//!
//! The fuzzer itself (`make fuzz`) searches for as long as one lets it. This always runs, from a seed, for a bounded number of inputs:
//! `VTAX_MUTATIONS` sets another.

#[path = "bodies/iscsi.rs"]
mod iscsi;
#[path = "bodies/nfs.rs"]
mod nfs;

/// What tgt sent in a login with CHAP, for inquiries and a read; what NFS-Ganesha sent for a session and a file, and in version 3
/// for an export, a file and directories.
const TGT: &[u8] = include_bytes!("captures/tgt.bin");
const GANESHA: &[u8] = include_bytes!("captures/ganesha.bin");
const GANESHA_3: &[u8] = include_bytes!("captures/ganesha3.bin");
/// Inputs made of each, and the longest of them.
const INPUTS: u64 = 20_000;
const LONGEST: usize = 4096;

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Words that lengths and counts go wrong with.
const WORDS: [u32; 8] = [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX, 0xffff, 0x00ff_ffff, 48];

/// Changes an input in one way.
fn change(random: &mut Random, input: &mut Vec<u8>) {
    let (at, other) = (random.below(input.len()), random.below(input.len()));
    match random.below(7) {
        0 => input[at] ^= 1 << random.below(8),
        1 => input[at] = random.next() as u8,
        2 => input.truncate(at.max(1)),
        3 => drop(input.drain(at.min(other)..at.max(other).min(at.min(other) + 64))),
        4 => {
            let part = input[at.min(other)..at.max(other).min(at.min(other) + 64)].to_vec();
            let place = random.below(input.len());
            input.splice(place..place, part);
        }
        5 => {
            let word = WORDS[random.below(WORDS.len())].to_be_bytes();
            let at = at & !3;
            let end = (at + 4).min(input.len());
            input[at..end].copy_from_slice(&word[..end - at]);
        }
        _ => input.insert(at, random.next() as u8),
    }
    if input.is_empty() {
        input.push(0);
    }
    input.truncate(LONGEST);
}

/// Where messages begin in what was captured; `length` is that of the one at the beginning of its bytes.
fn beginnings(capture: &[u8], length: fn(&[u8]) -> Option<usize>) -> Vec<usize> {
    let mut all = vec![0];
    let mut at = 0;
    while let Some(next) = length(&capture[at..]).map(|length| at + length).filter(|at| *at < capture.len()) {
        all.push(next);
        at = next;
    }
    all
}

/// Feeds what was captured, from any of its messages on, and mutations of that, behind a head of the body's own.
fn feed(capture: &[u8], begin: &[usize], mut head: impl FnMut(&mut Random) -> Vec<u8>, body: fn(&[u8])) {
    assert!(begin.len() > 10, "a capture of {} messages", begin.len());
    let inputs = std::env::var("VTAX_MUTATIONS").ok().and_then(|n| n.parse().ok()).unwrap_or(INPUTS);
    let mut random = Random(0x5eed);
    for _ in 0..inputs {
        let from = begin[random.below(begin.len())];
        let mut input = head(&mut random);
        let fixed = input.len();
        let mut message = capture[from..capture.len().min(from + LONGEST)].to_vec();
        for _ in 0..random.below(6) {
            change(&mut random, &mut message);
        }
        input.append(&mut message);
        assert!(input.len() > fixed);
        body(&input);
    }
}

fn pdu(bytes: &[u8]) -> Option<usize> {
    let length = u32::from_be_bytes([0, *bytes.get(5)?, *bytes.get(6)?, *bytes.get(7)?]) as usize;
    Some(48 + usize::from(bytes[4]) * 4 + length.next_multiple_of(4))
}

fn record(bytes: &[u8]) -> Option<usize> {
    let mark = u32::from_be_bytes(*bytes.first_chunk()?);
    Some(4 + (mark & 0x7fff_ffff) as usize)
}

#[test]
fn what_targets_send_is_taken_whatever_became_of_it() {
    // The size of pieces, and which digests there are: mostly none, as in the capture.
    let head = |random: &mut Random| vec![random.next() as u8, if random.below(4) == 0 { 3 } else { 0 }];
    feed(TGT, &beginnings(TGT, pdu), head, iscsi::body);
}

#[test]
fn what_nfs_servers_send_is_taken_whatever_became_of_it() {
    // Orders in which operations are asked for, by the body's numbers.
    const ORDERS: [[u8; 8]; 10] = [
        [0; 8],
        [1; 8],
        [2, 17, 0, 0, 0, 0, 0, 0],
        [2, 14, 3, 0, 0, 0, 0, 0],
        [2, 13, 15, 3, 0, 0, 0, 0],
        [2, 13, 7, 0, 0, 0, 0, 0],
        [2, 13, 4, 3, 6, 0, 0, 0],
        [2, 13, 8, 9, 0, 0, 0, 0],
        [2, 13, 9, 0, 0, 0, 0, 0],
        [2, 13, 11, 0, 0, 0, 0, 0],
    ];
    let head = |random: &mut Random| match random.below(3) {
        0 => random.next().to_le_bytes().to_vec(),
        _ => ORDERS[random.below(ORDERS.len())].to_vec(),
    };
    feed(GANESHA, &beginnings(GANESHA, record), head, nfs::body);
}

#[test]
fn what_nfs_servers_of_version_3_send_is_taken_whatever_became_of_it() {
    let head = |random: &mut Random| random.next().to_le_bytes().to_vec();
    feed(GANESHA_3, &beginnings(GANESHA_3, record), head, nfs::body);
}
