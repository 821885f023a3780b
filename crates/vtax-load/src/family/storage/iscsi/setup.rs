//! Before and after the load: who the initiator is, what the unit is, what is on it, which others there are.

use std::time::{Duration, Instant};

use vtax_wire::iscsi::{Discovered, Session, discovered};
use vtax_wire::scsi;

use super::IscsiTarget;
use super::link::{Link, LinkError, Unit};
use super::spec::IscsiSpec;
use crate::family::storage::client::random;
use crate::family::storage::pattern;
use crate::family::storage::target::{Facts, StorageError};

/// What of a unit's beginning and end is looked at for data that isn't vtax's.
const LOOKED_AT: u64 = 1 << 20;
/// What one command of that look reads.
const PIECE: u32 = 64 << 10;

/// The unit's address, and the identifier of this worker's session: random, so that two runs of vtax don't
/// take each other's, and the same for each of its connections.
pub(super) fn identity(spec: &IscsiSpec, worker: usize) -> Result<(u64, [u8; 6]), StorageError> {
    let refused = |reason: String| StorageError::Refused { reason };
    spec.check().map_err(refused)?;
    let lun = number(spec, worker);
    let lun = scsi::lun_address(lun).ok_or_else(|| refused(format!("there is no LUN {lun}")))?;
    let random: [u8; 3] = random().map_err(|source| StorageError::system("take random bytes", source))?;
    let worker = (worker as u16).to_be_bytes();
    // 0x80: a random identifier (RFC 7143 section 11.12.5).
    Ok((lun, [0x80, random[0], random[1], random[2], worker[0], worker[1]]))
}

/// Number of the unit that a process uses.
pub(super) fn number(spec: &IscsiSpec, worker: usize) -> u16 {
    spec.lun.saturating_add((worker % usize::from(spec.units.max(1))) as u16)
}

/// A session, and what the unit is.
pub(super) fn open(
    spec: &IscsiSpec,
    (lun, isid): (u64, [u8; 6]),
    until: Instant,
) -> Result<(Link, Unit), LinkError> {
    let mut link = Link::open(spec, Session::Normal(spec.target.clone()), isid, until)?;
    let unit = Unit::ask(&mut link, lun, until)?;
    Ok((link, unit))
}

pub(super) fn not_opened(spec: &IscsiSpec, error: &LinkError) -> StorageError {
    StorageError::Open { target: name(spec), reason: error.to_string() }
}

pub(super) fn name(spec: &IscsiSpec) -> String {
    format!("iscsi://{}/{}/{}", spec.address, spec.target, spec.lun)
}

/// What is known of a unit and its session.
pub(super) fn facts(target: &IscsiTarget) -> Facts {
    let (unit, counts) = (&target.unit, &target.counts);
    let counters = [
        ("commands", counts.commands),
        ("data-in PDUs", counts.data_in),
        ("data-out PDUs", counts.data_out),
        ("R2Ts", counts.r2ts),
        ("pings", counts.pings),
        ("aborts", counts.aborts),
        ("asynchronous events", counts.events),
        ("bytes sent", target.base.sent_bytes),
        ("bytes received", target.base.received_bytes),
        ("connections", target.base.connections),
    ];
    Facts {
        what: format!("{}, {}", unit.product, dialect(target)),
        block: unit.block_bytes,
        capacity: Some(unit.blocks * u64::from(unit.block_bytes)),
        write_cache: unit.caching.map(|page| page.write_cache),
        counters: counters
            .into_iter()
            .chain(target.base.gathered())
            .map(|(name, count)| (name.to_owned(), count))
            .collect(),
    }
}

fn dialect(target: &IscsiTarget) -> String {
    let mut words = "iSCSI".to_owned();
    let Some(link) = &target.base.link else { return words };
    let agreed = &link.agreed;
    let chap = match (agreed.authenticated, &target.spec.mutual) {
        (false, _) => ", no CHAP",
        (true, None) => ", CHAP",
        (true, Some(_)) => ", mutual CHAP",
    };
    words.push_str(chap);
    for (on, word) in [
        (agreed.header_digest, ", header digests"),
        (agreed.data_digest, ", data digests"),
        (agreed.immediate_data, ", immediate data"),
        (agreed.initial_r2t, ", initial R2T"),
    ] {
        words.push_str(if on { word } else { "" });
    }
    words
}

/// The targets that a portal shows to this initiator.
///
/// # Errors
/// The portal can't be reached or refuses the login.
pub fn discover(spec: &IscsiSpec, timeout: Duration) -> Result<Vec<Discovered>, StorageError> {
    let found = || -> Result<Vec<Discovered>, LinkError> {
        let until = Instant::now() + timeout;
        let mut link = Link::open(spec, Session::Discovery, [0x80, 0, 0, 0, 0, 1], until)?;
        let text = link.send_targets(until)?;
        let targets = discovered(&text)?;
        // What was asked for is there; how the session ends is the target's.
        let _ = link.log_out();
        Ok(targets)
    };
    found().map_err(|error| StorageError::Open {
        target: format!("iscsi://{}", spec.address),
        reason: error.to_string(),
    })
}

/// The numbers of the units that the target shows to this initiator, whichever `spec` names.
///
/// # Errors
/// The target can't be reached or refuses the login.
pub fn visible_units(spec: &IscsiSpec, timeout: Duration) -> Result<Vec<u16>, StorageError> {
    let until = Instant::now() + timeout;
    let (_, isid) = identity(spec, 0)?;
    let list = || -> Result<Vec<u16>, LinkError> {
        let mut link = Link::open(spec, Session::Normal(spec.target.clone()), isid, until)?;
        let command = (0, scsi::report_luns(), scsi::ANSWER_BYTES_MAX);
        let data = link.get("REPORT LUNS", command, until)?;
        // As with a discovery.
        let _ = link.log_out();
        Ok(scsi::luns(&data).filter_map(scsi::lun_number).collect())
    };
    list().map_err(|error| not_opened(spec, &error))
}

/// True where a unit's beginning or end holds something that isn't zero and isn't vtax's.
pub(super) fn is_foreign(link: &mut Link, lun: u64, unit: &Unit, until: Instant) -> Result<bool, LinkError> {
    let blocks = (LOOKED_AT / u64::from(unit.block_bytes)).min(unit.blocks);
    for begin in [0, unit.blocks - blocks] {
        if is_part_foreign(link, lun, (begin, blocks, unit.block_bytes), until)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_part_foreign(
    link: &mut Link,
    lun: u64,
    (begin, blocks, block_bytes): (u64, u64, u32),
    until: Instant,
) -> Result<bool, LinkError> {
    let piece = u64::from(PIECE / block_bytes);
    let mut at = begin;
    while at < begin + blocks {
        let count = piece.min(begin + blocks - at) as u32;
        let command = (lun, scsi::read(at, count), count * block_bytes);
        let data = link.get("READ", command, until)?;
        let foreign = |sector: &[u8]| {
            !sector.starts_with(&pattern::MARK.to_le_bytes()) && sector.iter().any(|byte| *byte != 0)
        };
        if data.len() != (count * block_bytes) as usize || data.chunks(512).any(foreign) {
            return Ok(true);
        }
        at += u64::from(count);
    }
    Ok(false)
}
