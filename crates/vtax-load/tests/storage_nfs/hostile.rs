//! Servers that fail, lie, say nothing or go away.

use std::sync::atomic::Ordering;
use std::time::Duration;

use vtax_load::storage::nfs::{self, NfsSpec, NfsVersion};
use vtax_load::storage::{
    Failure, Kind, Operation, StorageError, StorageResult, StorageSession, StorageSpec, StorageStep, Target,
    TargetSpec,
};
use vtax_load::{ArrivalProcess, Control, LoadError, Model, Segment};
use vtax_plan::model::{StorageOperation, StorageShape};
use vtax_units::{Bytes, CpuSet, Nanos, Rate};
use vtax_wire::nfs::status;

use crate::fake::{Act, Fake, TRANSFER};
use crate::many::{DEPTH, RECORD as SHORT, Reads};
use crate::{fill, one, shape, until_done};

/// Has each test in both versions.
macro_rules! in_both_versions {
    ($($name:ident),* $(,)?) => {
        mod version_41 {
            $(#[test] fn $name() { super::$name(vtax_load::storage::nfs::NfsVersion::V41); })*
        }
        mod version_3 {
            $(#[test] fn $name() { super::$name(vtax_load::storage::nfs::NfsVersion::V3); })*
        }
    };
}

in_both_versions! {
    what_is_written_is_read_back_whatever_the_parts_it_goes_in,
    failures_are_told_apart_and_the_session_goes_on,
    answers_that_wait_for_each_other_are_right_whatever_happens_meanwhile,
    no_answer_waits_for_another_in_an_open_loop,
    transfers_of_a_wrong_length_are_short_or_end_the_connection,
    whoever_breaks_the_protocol_loses_the_connection_and_gets_another,
    answers_that_nobody_waits_for_do_no_harm,
    a_connection_that_ends_in_the_middle_of_writes_loses_them_all,
    an_operation_without_an_answer_is_given_up_in_time,
    a_server_that_needs_more_time_to_open_a_file_gets_it,
    a_server_that_is_full_is_told_before_anything_is_written,
    what_was_refused_is_there_after_the_load,
    small_files_that_were_kept_are_its_own,
    a_sync_of_each_write_is_about_that_write_alone,
    acknowledged_writes_are_there_however_often_the_connection_ends,
    writes_that_a_server_forgets_are_found_out,
    reads_of_wrong_data_are_found_out_while_they_are_made,
    a_server_that_begins_anew_with_nothing_has_lost_everything,
}

fn spec(fake: &Fake) -> NfsSpec {
    let mount_port = Some(fake.address.port());
    NfsSpec { version: fake.version, mount_port, ..NfsSpec::new(fake.address, "/vtax") }
}

fn opened(fake: &Fake, timeout_ms: u64) -> Box<dyn Target> {
    let mut target = nfs::open(&spec(fake), shape(4, 65536), Duration::from_millis(timeout_ms)).unwrap();
    target.prepare().unwrap();
    target
}

/// A write and a read of 4 KiB, which are carried out.
fn serves(target: &mut dyn Target) -> bool {
    fill(target.buffer(0), 9);
    let sent = target.buffer(0)[..4096].to_vec();
    let written = one(target, Kind::WriteDurable, 0, 0, 4096);
    target.buffer(0).fill(0);
    let read = one(target, Kind::Read, 0, 0, 4096);
    written == Ok(4096) && read == Ok(4096) && target.buffer(0)[..4096] == sent[..]
}

/// It is served again, at once or over a new session.
fn serves_again(target: &mut dyn Target) -> bool {
    (0..100).any(|_| serves(target))
}

fn what_is_written_is_read_back_whatever_the_parts_it_goes_in(version: NfsVersion) {
    let fake = Fake::start(version);
    let mut target = opened(&fake, 10_000);
    assert!(target.facts().what.contains(&format!("reads of {TRANSFER}")), "{}", target.facts().what);
    for (round, length) in [512, 4096, 16384, 16896, 65536].into_iter().enumerate() {
        fill(&mut target.buffer(0)[..length], round);
        let sent = target.buffer(0)[..length].to_vec();
        assert_eq!(one(&mut *target, Kind::Write, 0, 1024, length as u32), Ok(length as u32));
        target.buffer(0).fill(0);
        // A part that comes short, and an answer in pieces, are no faults.
        fake.next(&[Act::Short(100), Act::Pieces]);
        assert_eq!(one(&mut *target, Kind::Read, 0, 1024, length as u32), Ok(length as u32));
        assert!(target.buffer(0)[..length] == sent[..], "{length} bytes");
    }
    fake.next(&[Act::Short(4096), Act::Serve, Act::Short(1)]);
    assert_eq!(one(&mut *target, Kind::Write, 0, 0, 32768), Ok(32768));
    assert_eq!((target.first_failure(), fake.sessions.load(Ordering::Relaxed)), (None, 1));
    target.finish().unwrap();
}

fn answers_that_wait_for_each_other_are_right_whatever_happens_meanwhile(version: NfsVersion) {
    let fake = Fake::start(version);
    let mut content = vec![0; 1 << 18];
    fill(&mut content, 3);
    let spec = NfsSpec { overwrite: true, ..spec(&fake) };
    let mut target = nfs::open(&spec, shape(DEPTH, SHORT), Duration::from_secs(2)).unwrap();
    target.prepare().unwrap();
    fake.files.lock().unwrap().values_mut().for_each(|file| file.clone_from(&content));
    target.gather();
    let mut reads = Reads::of(&mut *target, content);
    if !reads.until_they_wait() {
        return;
    }
    assert_eq!(reads.failures, []);
    // One is never answered, the others are; another's answer comes in parts.
    fake.next(&[Act::Pieces, Act::Silence, Act::Short(100)]);
    reads.until("it is given up", |reads| !reads.failures.is_empty());
    assert_eq!(std::mem::take(&mut reads.failures), [Failure::TimedOut]);
    fake.next(&[Act::Fail(status::DELAY)]);
    reads.until("one fails", |reads| !reads.failures.is_empty());
    assert_eq!(std::mem::take(&mut reads.failures), [Failure::Busy]);
    fake.next(&[Act::Drop]);
    reads.until("the connection ends", |reads| !reads.failures.is_empty());
    let (right, sleeps) = (reads.right, reads.sleeps());
    reads.until("another serves", |reads| reads.right > right + 1000 && reads.sleeps() > sleeps + 100);
    reads.end();
    assert!(reads.failures.iter().all(|failure| *failure == Failure::Lost), "{:?}", reads.failures);
    assert_eq!(fake.sessions.load(Ordering::Relaxed), 2);
}

fn no_answer_waits_for_another_in_an_open_loop(version: NfsVersion) {
    let fake = Fake::start(version);
    let mut result = load_of(&fake, 100, (DEPTH, Rate(50_000.0)));
    assert!(result.load.counts.ok > 1000, "{:?}", result.load.counts);
    let counters = &mut result.facts.counters;
    counters.retain(|counter| counter.0 == "waits for several answers");
    assert_eq!(counters[..], [("waits for several answers".to_owned(), 0)]);
}

fn failures_are_told_apart_and_the_session_goes_on(version: NfsVersion) {
    let fake = Fake::start(version);
    let mut target = opened(&fake, 10_000);
    assert!(serves(&mut *target));
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
        assert_eq!(one(&mut *target, Kind::Read, 0, 0, 4096), Err(failure), "{status}");
        assert_eq!(one(&mut *target, Kind::Write, 0, 0, 4096), Err(failure), "{status}");
        assert_eq!(one(&mut *target, Kind::Flush, 0, 0, 0), Err(failure), "{status}");
    }
    let first = target.first_failure().unwrap();
    let name = if version == NfsVersion::V3 { "NFS3ERR_JUKEBOX" } else { "NFS4ERR_DELAY" };
    assert!(first.contains(name), "{first}");
    assert!(serves(&mut *target));
    assert_eq!(fake.sessions.load(Ordering::Relaxed), 1, "none of it ends the session");
}

fn transfers_of_a_wrong_length_are_short_or_end_the_connection(version: NfsVersion) {
    let fake = Fake::start(version);
    let mut target = opened(&fake, 10_000);
    assert!(serves(&mut *target));
    fake.next(&[Act::End]);
    assert_eq!(one(&mut *target, Kind::Read, 0, 0, 4096), Ok(2048));
    // It would go on for ever.
    fake.next(&[Act::Nothing, Act::Nothing]);
    assert_eq!(one(&mut *target, Kind::Read, 0, 0, 4096), Ok(0));
    assert_eq!(one(&mut *target, Kind::Write, 0, 0, 4096), Ok(0));
    for kind in [Kind::Read, Kind::Write] {
        fake.next(&[Act::TooMuch]);
        assert_eq!(one(&mut *target, kind, 0, 0, 4096), Err(Failure::Lost), "{kind:?}");
        assert!(serves_again(&mut *target), "{kind:?}");
    }
    fake.next(&[Act::NotStable]);
    assert_eq!(one(&mut *target, Kind::WriteDurable, 0, 0, 4096), Err(Failure::Lost));
    assert!(serves_again(&mut *target));
}

fn whoever_breaks_the_protocol_loses_the_connection_and_gets_another(version: NfsVersion) {
    let fake = Fake::start(version);
    let mut target = opened(&fake, 10_000);
    assert!(serves(&mut *target));
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
        if version == NfsVersion::V3 && matches!(act, Act::BadSession | Act::BadSlot | Act::OtherOperations) {
            // There is nothing of the kind in it.
            continue;
        }
        for kind in [Kind::Read, Kind::Write] {
            let sessions = fake.sessions.load(Ordering::Relaxed);
            fake.next(&[act]);
            assert_eq!(one(&mut *target, kind, 0, 0, 4096), Err(Failure::Lost), "{act:?} {kind:?}");
            assert!(serves_again(&mut *target), "{act:?} {kind:?}: {:?}", target.first_failure());
            assert!(fake.sessions.load(Ordering::Relaxed) > sessions, "{act:?}: a session of its own");
        }
    }
}

fn answers_that_nobody_waits_for_do_no_harm(version: NfsVersion) {
    let fake = Fake::start(version);
    let mut target = opened(&fake, 10_000);
    for _ in 0..20 {
        fake.next(&[Act::Thrice]);
        let read = one(&mut *target, Kind::Read, 0, 0, 4096);
        assert!(matches!(read, Ok(_) | Err(Failure::Lost)), "{read:?}");
        assert!(serves_again(&mut *target));
    }
}

fn a_connection_that_ends_in_the_middle_of_writes_loses_them_all(version: NfsVersion) {
    let fake = Fake::start(version);
    let mut target = opened(&fake, 10_000);
    fake.next(&[Act::Serve, Act::Drop]);
    for slot in 0..4 {
        let offset = u64::from(slot) << 16;
        target.submit(&Operation { slot, kind: Kind::Write, file: 0, offset, length: 65536 }).unwrap();
    }
    let done = until_done(&mut *target, 4);
    assert!(done.iter().all(|done| done.result == Err(Failure::Lost)), "{done:?}");
    assert!(serves_again(&mut *target));
}

fn an_operation_without_an_answer_is_given_up_in_time(version: NfsVersion) {
    let fake = Fake::start(version);
    let mut target = opened(&fake, 400);
    for act in [Act::Silence, Act::OtherCall] {
        fake.next(&[act]);
        assert_eq!(one(&mut *target, Kind::Read, 0, 0, 4096), Err(Failure::TimedOut), "{act:?}");
        assert!(serves_again(&mut *target), "{act:?}");
    }
}

fn a_server_that_needs_more_time_to_open_a_file_gets_it(version: NfsVersion) {
    let fake = Fake::start(version);
    fake.opens.lock().unwrap().extend([status::DELAY, status::GRACE]);
    assert!(serves(&mut *opened(&fake, 10_000)));
    fake.files.lock().unwrap().clear();
    fake.opens.lock().unwrap().extend([status::ROFS]);
    let mut target = nfs::open(&spec(&fake), shape(1, 4096), Duration::from_secs(5)).unwrap();
    let error = target.prepare().unwrap_err();
    assert!(error.to_string().contains("read-only"), "{error}");
}

fn a_server_that_is_full_is_told_before_anything_is_written(version: NfsVersion) {
    let fake = Fake::start(version);
    fake.free.store(1000, Ordering::Relaxed);
    let mut target = nfs::open(&spec(&fake), shape(1, 4096), Duration::from_secs(5)).unwrap();
    let error = target.prepare().unwrap_err();
    assert!(matches!(error, StorageError::TooSmall { free: 1000, .. }), "{error}");
}

fn a_sync_of_each_write_is_about_that_write_alone(version: NfsVersion) {
    for (each, told) in [(false, Err(Failure::Lost)), (true, Ok(0))] {
        let fake = Fake::start(version);
        let mut target = opened(&fake, 10_000);
        if each {
            target.sync_each();
        }
        let on_1 = |target: &mut dyn Target, kind, length| {
            target.submit(&Operation { slot: 1, kind, file: 0, offset: 65536, length }).unwrap();
            until_done(target, 1)[0].result
        };
        assert_eq!(on_1(&mut *target, Kind::Write, 65536), Ok(65536));
        fake.restarts.fetch_add(1, Ordering::Relaxed);
        assert_eq!(one(&mut *target, Kind::Write, 0, 0, 65536), Ok(65536));
        assert_eq!(one(&mut *target, Kind::Flush, 0, 0, 0), told, "each: {each}");
        // What was written before it began anew is forgotten, and told once.
        let forgotten = if each { Err(Failure::Lost) } else { Ok(0) };
        assert_eq!(on_1(&mut *target, Kind::Flush, 0), forgotten, "each: {each}");
        assert_eq!(on_1(&mut *target, Kind::Flush, 0), Ok(0), "each: {each}");
    }
}

fn what_was_refused_is_there_after_the_load(version: NfsVersion) {
    let fake = Fake::start(version);
    let (target, timeout) = (TargetSpec::Nfs(spec(&fake)), Nanos::from_secs(5));
    let spec = StorageSpec { target, cpus: CpuSet::default(), timeout, seed: 1, keep: false };
    let shape = StorageShape::new(Bytes(RECORDS * RECORD), Bytes(RECORD));
    let write = StorageStep::new(shape, StorageOperation::Write, Nanos::from_millis(100));
    let is_refused = || {
        let mut session = StorageSession::open(&spec).unwrap();
        let error = session.run_step(&write, &Control::new()).unwrap_err();
        assert!(matches!(error, LoadError::Storage(StorageError::Foreign { .. })), "{error}");
    };
    let file = "vtax-0-0".to_owned();
    fake.files.lock().unwrap().insert(file.clone(), b"a letter".to_vec());
    is_refused();
    assert_eq!(fake.files.lock().unwrap()[&file], b"a letter");
    assert_eq!(fake.files.lock().unwrap().len(), 1, "nothing new is there");
    fake.files.lock().unwrap().clear();
    fake.names.lock().unwrap().push("letter".to_owned());
    is_refused();
    assert!(fake.files.lock().unwrap().is_empty(), "nothing new is there");
    assert_eq!(fake.made.lock().unwrap()[..], [] as [String; 0]);
    assert_eq!(fake.removed.lock().unwrap()[..], [] as [String; 0]);
}

/// Their data file was empty: the next load took them for somebody else's.
fn small_files_that_were_kept_are_its_own(version: NfsVersion) {
    let fake = Fake::start(version);
    let (target, timeout) = (TargetSpec::Nfs(spec(&fake)), Nanos::from_secs(5));
    let spec = StorageSpec { target, cpus: CpuSet::default(), timeout, seed: 1, keep: true };
    let run = |operation, file| {
        let shape = StorageShape { files: 4, ..StorageShape::new(Bytes(file), Bytes(RECORD)) };
        let step = StorageStep { once: true, ..StorageStep::new(shape, operation, Nanos::from_secs(60)) };
        StorageSession::open(&spec).unwrap().run_step(&step, &Control::new()).unwrap()
    };
    assert_eq!(run(StorageOperation::Create, RECORD).load.counts.ok, 4);
    assert!(fake.files.lock().unwrap()["vtax-0-0"].starts_with(b"vtaxdata"));
    fake.names.lock().unwrap().extend(["0", "1", "2", "3"].map(str::to_owned));
    let read = run(StorageOperation::Read, RECORDS * RECORD);
    assert_eq!((read.load.counts.ok, read.verified.wrong()), (RECORDS, 0));
    assert_eq!(fake.removed.lock().unwrap()[..], ["0", "1", "2", "3"], "they were its own to remove");
}

#[test]
fn what_is_not_exported_or_served_is_told() {
    let fake = Fake::start(NfsVersion::V3);
    let refused = |spec: &NfsSpec| {
        let opened = nfs::open(spec, shape(1, 4096), Duration::from_secs(5));
        opened.err().expect("it is refused").to_string()
    };
    let error = refused(&NfsSpec { path: "/other/directory".into(), ..spec(&fake) });
    assert!(error.contains("/other/directory: access denied (MNT3ERR_ACCES)"), "{error}");
    let error = refused(&NfsSpec { path: "/vtax/directory".into(), ..spec(&fake) });
    assert!(error.contains("/vtax/directory: there is no such file (NFS3ERR_NOENT)"), "{error}");
}

#[test]
fn the_port_of_mount_is_asked_for_where_it_is_not_given() {
    let fake = Fake::start(NfsVersion::V3);
    let mapped = NfsSpec { mount_port: None, port_mapper: fake.address.port(), ..spec(&fake) };
    let open = |spec: &NfsSpec| nfs::open(spec, shape(1, 4096), Duration::from_secs(5));
    assert!(open(&mapped).is_ok());
    fake.mapped.store(0, Ordering::Relaxed);
    let error = open(&mapped).err().expect("it isn't served").to_string();
    assert!(error.contains("doesn't serve NFS version 3"), "{error}");
    fake.mapped.store(65536, Ordering::Relaxed);
    let error = open(&mapped).err().expect("it is no port").to_string();
    assert!(error.contains("a value is none of its type's"), "{error}");
    let error = open(&NfsSpec { port_mapper: vtax_sys::free_port(), ..mapped }).err();
    let error = error.expect("nobody is there").to_string();
    assert!(error.contains("port mapper") && error.contains("mount-port=N"), "{error}");
}

const RECORD: u64 = 4096;
const RECORDS: u64 = 64;

/// Calls that lay the file out: its parts, and a COMMIT.
const LAYING_OUT: usize = (RECORDS * RECORD) as usize / TRANSFER as usize + 1;

/// A load of random writes and reads of a server, after which everything is read back.
fn load(fake: &Fake, reads: u8) -> StorageResult {
    load_of(fake, reads, (8, Rate(500.0)))
}

/// The same with so many at once, at a rate.
fn load_of(fake: &Fake, reads: u8, (depth, rate): (u16, Rate)) -> StorageResult {
    let target = TargetSpec::Nfs(spec(fake));
    let timeout = Nanos::from_secs(5);
    let spec = StorageSpec { target, cpus: CpuSet::default(), timeout, seed: 1, keep: true };
    let mut session = StorageSession::open(&spec).unwrap();
    let duration = Nanos::from_millis(800);
    let shape = StorageShape { depth, ..StorageShape::new(Bytes(RECORDS * RECORD), Bytes(RECORD)) };
    let step = StorageStep {
        model: Model::Open {
            arrivals: ArrivalProcess::Poisson,
            profile: vec![Segment { from: rate, to: rate, duration }],
        },
        samples: true,
        interval: Nanos::from_millis(100),
        read_back: Some(Nanos::from_secs(20)),
        ..StorageStep::new(shape, StorageOperation::Mix { reads }, duration)
    };
    session.run_step(&step, &Control::new()).unwrap()
}

fn acknowledged_writes_are_there_however_often_the_connection_ends(version: NfsVersion) {
    let fake = Fake::start(version);
    *fake.every.lock().unwrap() = Some((60, Act::Drop));
    let result = load(&fake, 30);
    let back = result.read_back.as_ref().unwrap();
    assert!(back.acknowledged > 50 && back.unacknowledged > 0, "{back:?}");
    assert_eq!((back.wrong(), result.verified.wrong()), (0, 0), "{back:?} {:?}", result.verified);
    assert_eq!(back.verified.records, RECORDS);
    assert!(!result.load.samples.is_empty());
    assert!(fake.sessions.load(Ordering::Relaxed) > 2);
}

fn writes_that_a_server_forgets_are_found_out(version: NfsVersion) {
    let fake = Fake::start(version);
    fake.next(&[Act::Serve; LAYING_OUT]);
    *fake.every.lock().unwrap() = Some((5, Act::Forget));
    let result = load(&fake, 0);
    let back = result.read_back.as_ref().unwrap();
    assert_eq!(back.unacknowledged, 0, "it acknowledges everything");
    // Not every forgotten write is found: another may have followed it.
    assert!(back.verified.stale > 3, "{back:?}");
    assert_eq!(back.wrong(), back.verified.stale, "each still has an older content: {back:?}");
}

fn reads_of_wrong_data_are_found_out_while_they_are_made(version: NfsVersion) {
    let fake = Fake::start(version);
    fake.next(&[Act::Serve; LAYING_OUT]);
    *fake.every.lock().unwrap() = Some((5, Act::WrongData));
    let result = load(&fake, 80);
    assert!(result.verified.corrupt > 10, "{:?}", result.verified);
    assert_eq!(result.verified.wrong(), result.verified.corrupt);
    assert_eq!(result.load.counts.errors.corrupt, result.verified.corrupt);
}

fn a_server_that_begins_anew_with_nothing_has_lost_everything(version: NfsVersion) {
    let fake = Fake::start(version);
    // Some 400 writes: few follow, so that most records aren't written again.
    fake.next(&[&[Act::Serve; 340][..], &[Act::Empty]].concat());
    let back = load(&fake, 0).read_back.unwrap();
    assert!(back.verified.lost > 0, "{back:?}");
    assert_eq!(back.wrong(), back.verified.lost, "what was written after that is there: {back:?}");
}
