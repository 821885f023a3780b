//! Servers that fail, lie, say nothing or go away.

use std::sync::atomic::Ordering;
use std::time::Duration;

use vtax_load::storage::nfs::{NfsSpec, NfsTarget};
use vtax_load::storage::{
    Failure, Kind, Operation, StorageError, StorageResult, StorageSession, StorageSpec, StorageStep, Target,
    TargetSpec,
};
use vtax_load::{ArrivalProcess, Control, Model, Segment};
use vtax_plan::model::{StorageCache, StorageEngine, StorageOperation, StorageShape, StorageSync};
use vtax_units::{Bytes, CpuSet, Nanos, Rate, Share};
use vtax_wire::nfs4::status;

use crate::fake::{Act, Fake, TRANSFER};
use crate::{fill, one, shape, until_done};

fn spec(fake: &Fake) -> NfsSpec {
    NfsSpec::new(fake.address, "/vtax")
}

fn opened(fake: &Fake, timeout_ms: u64) -> NfsTarget {
    let mut target =
        NfsTarget::open(&spec(fake), shape(4, 65536), Duration::from_millis(timeout_ms)).unwrap();
    target.prepare().unwrap();
    target
}

/// A write and a read of 4 KiB, which are carried out.
fn serves(target: &mut NfsTarget) -> bool {
    fill(target.buffer(0), 9);
    let sent = target.buffer(0)[..4096].to_vec();
    let written = one(target, Kind::WriteDurable, 0, 0, 4096);
    target.buffer(0).fill(0);
    let read = one(target, Kind::Read, 0, 0, 4096);
    written == Ok(4096) && read == Ok(4096) && target.buffer(0)[..4096] == sent[..]
}

/// It is served again, at once or over a new session.
fn serves_again(target: &mut NfsTarget) -> bool {
    (0..100).any(|_| serves(target))
}

#[test]
fn what_is_written_is_read_back_whatever_the_parts_it_goes_in() {
    let fake = Fake::start();
    let mut target = opened(&fake, 10_000);
    assert!(target.facts().what.contains(&format!("reads of {TRANSFER}")), "{}", target.facts().what);
    for (round, length) in [512, 4096, 16384, 16896, 65536].into_iter().enumerate() {
        fill(&mut target.buffer(0)[..length], round);
        let sent = target.buffer(0)[..length].to_vec();
        assert_eq!(one(&mut target, Kind::Write, 0, 1024, length as u32), Ok(length as u32));
        target.buffer(0).fill(0);
        // A part that comes short, and an answer in pieces, are no faults.
        fake.next(&[Act::Short(100), Act::Pieces]);
        assert_eq!(one(&mut target, Kind::Read, 0, 1024, length as u32), Ok(length as u32));
        assert!(target.buffer(0)[..length] == sent[..], "{length} bytes");
    }
    fake.next(&[Act::Short(4096), Act::Serve, Act::Short(1)]);
    assert_eq!(one(&mut target, Kind::Write, 0, 0, 32768), Ok(32768));
    assert_eq!((target.first_failure(), fake.sessions.load(Ordering::Relaxed)), (None, 1));
    target.finish().unwrap();
}

#[test]
fn failures_are_told_apart_and_the_session_goes_on() {
    let fake = Fake::start();
    let mut target = opened(&fake, 10_000);
    assert!(serves(&mut target));
    for (status, failure) in [
        (status::DELAY, Failure::Busy),
        (status::GRACE, Failure::Busy),
        (status::NOSPC, Failure::NoSpace),
        (status::DQUOT, Failure::NoSpace),
        (status::FBIG, Failure::NoSpace),
        (status::ROFS, Failure::ReadOnly),
        (status::STALE, Failure::Stale),
        (status::ACCESS, Failure::Refused),
        (status::PERM, Failure::Refused),
        (status::IO, Failure::Other),
        (77_777, Failure::Other),
    ] {
        fake.next(&[Act::Fail(status); 3]);
        assert_eq!(one(&mut target, Kind::Read, 0, 0, 4096), Err(failure), "{status}");
        assert_eq!(one(&mut target, Kind::Write, 0, 0, 4096), Err(failure), "{status}");
        assert_eq!(one(&mut target, Kind::Flush, 0, 0, 0), Err(failure), "{status}");
    }
    let first = target.first_failure().unwrap();
    assert!(first.contains("NFS4ERR_DELAY"), "{first}");
    assert!(serves(&mut target));
    assert_eq!(fake.sessions.load(Ordering::Relaxed), 1, "none of it ends the session");
}

#[test]
fn transfers_of_a_wrong_length_are_short_or_end_the_connection() {
    let fake = Fake::start();
    let mut target = opened(&fake, 10_000);
    assert!(serves(&mut target));
    fake.next(&[Act::End]);
    assert_eq!(one(&mut target, Kind::Read, 0, 0, 4096), Ok(2048));
    // It would go on for ever.
    fake.next(&[Act::Nothing, Act::Nothing]);
    assert_eq!(one(&mut target, Kind::Read, 0, 0, 4096), Ok(0));
    assert_eq!(one(&mut target, Kind::Write, 0, 0, 4096), Ok(0));
    for kind in [Kind::Read, Kind::Write] {
        fake.next(&[Act::TooMuch]);
        assert_eq!(one(&mut target, kind, 0, 0, 4096), Err(Failure::Lost), "{kind:?}");
        assert!(serves_again(&mut target), "{kind:?}");
    }
    fake.next(&[Act::NotStable]);
    assert_eq!(one(&mut target, Kind::WriteDurable, 0, 0, 4096), Err(Failure::Lost));
    assert!(serves_again(&mut target));
}

#[test]
fn whoever_breaks_the_protocol_loses_the_connection_and_gets_another() {
    let fake = Fake::start();
    let mut target = opened(&fake, 10_000);
    assert!(serves(&mut target));
    for act in [
        Act::Drop,
        Act::BadSession,
        Act::BadSlot,
        Act::OtherOperations,
        Act::Cut,
        Act::EndlessPieces,
        Act::HugeLength,
        Act::Garbage,
        Act::Call,
    ] {
        for kind in [Kind::Read, Kind::Write] {
            let sessions = fake.sessions.load(Ordering::Relaxed);
            fake.next(&[act]);
            assert_eq!(one(&mut target, kind, 0, 0, 4096), Err(Failure::Lost), "{act:?} {kind:?}");
            assert!(serves_again(&mut target), "{act:?} {kind:?}: {:?}", target.first_failure());
            assert!(fake.sessions.load(Ordering::Relaxed) > sessions, "{act:?}: a session of its own");
        }
    }
}

#[test]
fn answers_that_nobody_waits_for_do_no_harm() {
    let fake = Fake::start();
    let mut target = opened(&fake, 10_000);
    for _ in 0..20 {
        fake.next(&[Act::Thrice]);
        let read = one(&mut target, Kind::Read, 0, 0, 4096);
        assert!(matches!(read, Ok(_) | Err(Failure::Lost)), "{read:?}");
        assert!(serves_again(&mut target));
    }
}

#[test]
fn a_connection_that_ends_in_the_middle_of_writes_loses_them_all() {
    let fake = Fake::start();
    let mut target = opened(&fake, 10_000);
    fake.next(&[Act::Serve, Act::Drop]);
    for slot in 0..4 {
        let offset = u64::from(slot) << 16;
        target.submit(&Operation { slot, kind: Kind::Write, file: 0, offset, length: 65536 }).unwrap();
    }
    let done = until_done(&mut target, 4);
    assert!(done.iter().all(|done| done.result == Err(Failure::Lost)), "{done:?}");
    assert!(serves_again(&mut target));
}

#[test]
fn an_operation_without_an_answer_is_given_up_in_time() {
    let fake = Fake::start();
    let mut target = opened(&fake, 400);
    for act in [Act::Silence, Act::OtherCall] {
        fake.next(&[act]);
        assert_eq!(one(&mut target, Kind::Read, 0, 0, 4096), Err(Failure::TimedOut), "{act:?}");
        assert!(serves_again(&mut target), "{act:?}");
    }
}

#[test]
fn a_server_that_needs_more_time_to_open_a_file_gets_it() {
    let fake = Fake::start();
    fake.opens.lock().unwrap().extend([status::DELAY, status::GRACE]);
    assert!(serves(&mut opened(&fake, 10_000)));
    fake.opens.lock().unwrap().extend([status::ROFS]);
    let mut target = NfsTarget::open(&spec(&fake), shape(1, 4096), Duration::from_secs(5)).unwrap();
    let error = target.prepare().unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
}

#[test]
fn a_server_that_is_full_is_told_before_anything_is_written() {
    let fake = Fake::start();
    fake.free.store(1000, Ordering::Relaxed);
    let mut target = NfsTarget::open(&spec(&fake), shape(1, 4096), Duration::from_secs(5)).unwrap();
    let error = target.prepare().unwrap_err();
    assert!(matches!(error, StorageError::TooSmall { free: 1000, .. }), "{error}");
}

const RECORD: u64 = 4096;
const RECORDS: u64 = 64;

/// Calls that lay the file out: its parts, and a COMMIT.
const LAYING_OUT: usize = (RECORDS * RECORD) as usize / TRANSFER as usize + 1;

/// A load of random writes and reads of a server, after which everything is read back.
fn load(fake: &Fake, reads: u8) -> StorageResult {
    let target = TargetSpec::Nfs(spec(fake));
    let timeout = Nanos::from_secs(5);
    let spec = StorageSpec { target, cpus: CpuSet::default(), timeout, seed: 1, keep: true };
    let mut session = StorageSession::open(&spec).unwrap();
    let duration = Nanos::from_millis(800);
    let rate = Rate(500.0);
    let step = StorageStep {
        shape: StorageShape {
            file: Bytes(RECORDS * RECORD),
            record: Bytes(RECORD),
            processes: 1,
            depth: 8,
            engine: StorageEngine::IoUring,
            direct: false,
            sync: StorageSync::None,
            verify: true,
            dedupe: Share(0.0),
            compressible: Share(0.0),
            files: 1,
        },
        operation: StorageOperation::Mix { reads },
        model: Model::Open {
            arrivals: ArrivalProcess::Poisson,
            profile: vec![Segment { from: rate, to: rate, duration }],
        },
        warmup: Nanos::ZERO,
        duration,
        once: false,
        cache: StorageCache::AsIs,
        seed: 1,
        samples: true,
        interval: Nanos::from_millis(100),
        read_back: Some(Nanos::from_secs(20)),
    };
    session.run_step(&step, &Control::new()).unwrap()
}

#[test]
fn acknowledged_writes_are_there_however_often_the_connection_ends() {
    let fake = Fake::start();
    *fake.every.lock().unwrap() = Some((60, Act::Drop));
    let result = load(&fake, 30);
    let back = result.read_back.as_ref().unwrap();
    assert!(back.acknowledged > 50 && back.unacknowledged > 0, "{back:?}");
    assert_eq!((back.wrong(), result.verified.wrong()), (0, 0), "{back:?} {:?}", result.verified);
    assert_eq!(back.verified.records, RECORDS);
    assert!(!result.load.samples.is_empty());
    assert!(fake.sessions.load(Ordering::Relaxed) > 2);
}

#[test]
fn writes_that_a_server_forgets_are_found_out() {
    let fake = Fake::start();
    fake.next(&[Act::Serve; LAYING_OUT]);
    *fake.every.lock().unwrap() = Some((5, Act::Forget));
    let result = load(&fake, 0);
    let back = result.read_back.as_ref().unwrap();
    assert_eq!(back.unacknowledged, 0, "it acknowledges everything");
    // Not every forgotten write is found: another may have followed it.
    assert!(back.verified.stale > 3, "{back:?}");
    assert_eq!(back.wrong(), back.verified.stale, "each still has an older content: {back:?}");
}

#[test]
fn reads_of_wrong_data_are_found_out_while_they_are_made() {
    let fake = Fake::start();
    fake.next(&[Act::Serve; LAYING_OUT]);
    *fake.every.lock().unwrap() = Some((5, Act::WrongData));
    let result = load(&fake, 80);
    assert!(result.verified.corrupt > 10, "{:?}", result.verified);
    assert_eq!(result.verified.wrong(), result.verified.corrupt);
    assert_eq!(result.load.counts.errors.corrupt, result.verified.corrupt);
}

#[test]
fn a_server_that_begins_anew_with_nothing_has_lost_everything() {
    let fake = Fake::start();
    // Some 400 writes: few follow, so that most records aren't written again.
    fake.next(&[&[Act::Serve; 340][..], &[Act::Empty]].concat());
    let back = load(&fake, 0).read_back.unwrap();
    assert!(back.verified.lost > 0, "{back:?}");
    assert_eq!(back.wrong(), back.verified.lost, "what was written after that is there: {back:?}");
}
