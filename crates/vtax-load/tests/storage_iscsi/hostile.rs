//! Targets that fail, lie, say nothing or go away.

use std::net::TcpListener;
use std::sync::atomic::Ordering;
use std::thread;

use vtax_load::storage::iscsi::{IscsiSpec, IscsiTarget};
use vtax_load::storage::{Failure, Kind, Operation, StorageError, Target};

use crate::fake::{Act, BLOCK, BLOCKS, Fake};
use crate::many::{DEPTH, RECORD, Reads};
use crate::{fill, one, open, shape, until_done};

fn spec(fake: &Fake) -> IscsiSpec {
    IscsiSpec::new(fake.address, "iqn.2026-11.test:fake", 1)
}

fn opened(fake: &Fake, timeout_ms: u64) -> IscsiTarget {
    let mut target = open(&spec(fake), shape(8, 65536), timeout_ms).unwrap();
    target.prepare().unwrap();
    target
}

fn counter(target: &IscsiTarget, name: &str) -> u64 {
    let facts = target.facts();
    facts.counters.iter().find(|counter| counter.0 == name).map_or(0, |counter| counter.1)
}

#[test]
fn what_is_written_is_read_back_whatever_the_parts_it_goes_in() {
    for initial_r2t in [true, false] {
        let fake = Fake::start(initial_r2t);
        let mut target = opened(&fake, 10_000);
        let facts = target.facts();
        assert_eq!((facts.block, facts.capacity), (512, Some((BLOCK * BLOCKS) as u64)));
        assert!(facts.what.starts_with("VTAX FAKE DISK 1.0, iSCSI, no CHAP"), "{}", facts.what);
        assert_eq!(facts.write_cache, None, "it has no caching page");
        for (round, length) in [512, 8192, 8704, 16384, 16896, 65536].into_iter().enumerate() {
            fill(&mut target.buffer(0)[..length], round);
            let sent = target.buffer(0)[..length].to_vec();
            let kind = if round % 2 == 0 { Kind::Write } else { Kind::WriteDurable };
            assert_eq!(one(&mut target, kind, 1024, length as u32), Ok(length as u32));
            target.buffer(0).fill(0);
            assert_eq!(one(&mut target, Kind::Read, 1024, length as u32), Ok(length as u32));
            assert_eq!(target.buffer(0)[..length], sent[..], "{length} bytes");
            assert_eq!(fake.disk.lock().unwrap()[1024..1024 + length], sent[..]);
        }
        assert_eq!(one(&mut target, Kind::Flush, 0, 0), Ok(0));
        assert_eq!(counter(&target, "R2Ts"), u64::from(fake.r2ts.load(Ordering::Relaxed)));
        assert_eq!(counter(&target, "commands"), 13);
        target.finish().unwrap();
        assert_eq!(fake.logouts.load(Ordering::Relaxed), 1);
    }
}

#[test]
fn several_reads_are_under_way_at_once() {
    let fake = Fake::start(true);
    let mut target = opened(&fake, 10_000);
    fill(&mut fake.disk.lock().unwrap(), 3);
    let expected = fake.disk.lock().unwrap().clone();
    for round in 0..20u64 {
        for slot in 0..8u16 {
            let offset = (round * 8 + u64::from(slot)) * 4096 % (1 << 19);
            target.submit(&Operation { slot, kind: Kind::Read, file: 0, offset, length: 20480 }).unwrap();
        }
        for done in until_done(&mut target, 8) {
            assert_eq!(done.result, Ok(20480));
            let offset = ((round * 8 + u64::from(done.slot)) * 4096 % (1 << 19)) as usize;
            assert_eq!(target.buffer(done.slot)[..20480], expected[offset..offset + 20480]);
        }
    }
    assert!(target.first_failure().is_none());
}

#[test]
fn answers_that_wait_for_each_other_are_right_whatever_happens_meanwhile() {
    let fake = Fake::start(true);
    let mut spec = spec(&fake);
    spec.overwrite = true;
    fill(&mut fake.disk.lock().unwrap(), 3);
    let content = fake.disk.lock().unwrap().clone();
    let mut target = open(&spec, shape(DEPTH, RECORD), 2000).unwrap();
    target.prepare().unwrap();
    target.gather();
    let mut reads = Reads::of(&mut target, content);
    if !reads.until_they_wait() {
        return;
    }
    assert_eq!(reads.failures, []);
    // One is never answered, the others are.
    fake.next(&[Act::Silence]);
    reads.until("it is given up", |reads| !reads.failures.is_empty());
    assert_eq!(std::mem::take(&mut reads.failures), [Failure::TimedOut]);
    fake.next(&[Act::Fail(0x08, [0; 3])]);
    reads.until("one fails", |reads| !reads.failures.is_empty());
    assert_eq!(std::mem::take(&mut reads.failures), [Failure::Busy]);
    fake.next(&[Act::Drop]);
    reads.until("the connection ends", |reads| !reads.failures.is_empty());
    let (right, sleeps) = (reads.right, reads.sleeps());
    reads.until("another serves", |reads| reads.right > right + 1000 && reads.sleeps() > sleeps + 100);
    reads.end();
    assert!(reads.failures.iter().all(|failure| *failure == Failure::Lost), "{:?}", reads.failures);
    assert_eq!(fake.logins.load(Ordering::Relaxed), 2);
}

#[test]
fn failures_are_told_apart_and_the_session_goes_on() {
    let fake = Fake::start(true);
    let mut target = opened(&fake, 10_000);
    let expected = [
        (Act::Fail(0x08, [0; 3]), Failure::Busy),
        (Act::Fail(0x28, [0; 3]), Failure::Busy),
        (Act::Fail(0x18, [0; 3]), Failure::Refused),
        (Act::Fail(2, [3, 0x11, 0]), Failure::Check),
        (Act::Fail(2, [7, 0x27, 0]), Failure::ReadOnly),
        (Act::Fail(2, [7, 0x27, 7]), Failure::NoSpace),
        (Act::Fail(2, [5, 0x25, 0]), Failure::Missing),
    ];
    for (act, failure) in expected {
        fake.next(&[act, act]);
        assert_eq!(one(&mut target, Kind::Read, 0, 4096), Err(failure), "{act:?}");
        assert_eq!(one(&mut target, Kind::Write, 0, 65536), Err(failure), "{act:?}");
    }
    assert_eq!(target.first_failure(), Some("busy"));
    assert_eq!(one(&mut target, Kind::Read, 0, 4096), Ok(4096));
    assert_eq!(fake.logins.load(Ordering::Relaxed), 1, "none of it ends the session");
}

#[test]
fn short_transfers_are_short() {
    let fake = Fake::start(true);
    let mut target = opened(&fake, 10_000);
    fake.next(&[Act::Short(512), Act::Short(1024)]);
    assert_eq!(one(&mut target, Kind::Read, 0, 4096), Ok(3584));
    assert_eq!(one(&mut target, Kind::Write, 0, 4096), Ok(3072));
}

#[test]
fn a_ping_is_answered_in_the_middle_of_a_command() {
    let fake = Fake::start(true);
    let mut target = opened(&fake, 10_000);
    fake.next(&[Act::Ping, Act::Ping]);
    assert_eq!(one(&mut target, Kind::Read, 0, 4096), Ok(4096));
    assert_eq!(one(&mut target, Kind::Write, 0, 65536), Ok(65536));
    assert_eq!(fake.pongs.load(Ordering::Relaxed), 2);
}

#[test]
fn whoever_breaks_the_protocol_loses_the_connection_and_gets_another() {
    let fake = Fake::start(true);
    let mut target = opened(&fake, 10_000);
    let reads = [Act::WrongPlace, Act::TooMuch, Act::Reject, Act::Garbage, Act::TellDrop, Act::Drop];
    for (count, act) in reads.into_iter().enumerate() {
        fake.next(&[act]);
        assert_eq!(one(&mut target, Kind::Read, 0, 4096), Err(Failure::Lost), "{act:?}");
        serves_again(&mut target);
        assert_eq!(fake.logins.load(Ordering::Relaxed) as usize, count + 2, "{act:?}");
    }
    for act in [Act::WrongR2t, Act::Drop] {
        fake.next(&[act]);
        assert_eq!(one(&mut target, Kind::Write, 0, 65536), Err(Failure::Lost), "{act:?}");
        serves_again(&mut target);
    }
    let words = target.first_failure().unwrap();
    assert!(words.contains("not asked for"), "{words}");
    assert_eq!(counter(&target, "connections"), 9);
}

/// Operations that come before the next connection stands are lost as well.
fn serves_again(target: &mut IscsiTarget) {
    for _ in 0..100 {
        match one(target, Kind::Read, 0, 4096) {
            Ok(length) => return assert_eq!(length, 4096),
            Err(failure) => assert_eq!(failure, Failure::Lost),
        }
    }
    panic!("it never comes back");
}

#[test]
fn a_command_without_an_answer_is_given_up_and_aborted() {
    let fake = Fake::start(true);
    let mut target = opened(&fake, 1000);
    fake.next(&[Act::Silence]);
    assert_eq!(one(&mut target, Kind::Read, 0, 4096), Err(Failure::TimedOut));
    // The connection lives, as a ping found: nothing else is lost.
    assert_eq!(one(&mut target, Kind::Read, 0, 4096), Ok(4096));
    assert_eq!(fake.logins.load(Ordering::Relaxed), 1);
    assert_eq!(counter(&target, "aborts"), 1);
    // One after half of the time; another comes at its end, if that is looked at a moment too late.
    assert!((1..=2).contains(&counter(&target, "pings")));
    assert_eq!(fake.aborts.load(Ordering::Relaxed), 1);
}

#[test]
fn operations_that_make_no_sense_are_refused() {
    let fake = Fake::start(true);
    let mut target = opened(&fake, 10_000);
    let refused = |target: &mut IscsiTarget, offset, length| {
        let operation = Operation { slot: 0, kind: Kind::Read, file: 0, offset, length };
        matches!(target.submit(&operation), Err(StorageError::Refused { .. }))
    };
    assert!(refused(&mut target, 100, 512));
    assert!(refused(&mut target, 0, 100));
    assert!(refused(&mut target, 0, 0));
    assert!(refused(&mut target, 0, 131_072));
    assert!(refused(&mut target, (BLOCK * BLOCKS) as u64, 512));
    assert_eq!(one(&mut target, Kind::Create, 0, 0), Err(Failure::Refused));
    assert_eq!(one(&mut target, Kind::Read, ((BLOCKS - 1) * BLOCK) as u64, 512), Ok(512));
}

#[test]
fn extents_follow_each_other_and_must_have_room() {
    let fake = Fake::start(true);
    let mut shape = shape(1, 4096);
    shape.worker = 2;
    let mut target = open(&spec(&fake), shape, 10_000).unwrap();
    target.prepare().unwrap();
    fill(&mut target.buffer(0)[..4096], 1);
    let sent = target.buffer(0)[..4096].to_vec();
    assert_eq!(one(&mut target, Kind::Write, 0, 4096), Ok(4096));
    assert_eq!(fake.disk.lock().unwrap()[2 << 20..(2 << 20) + 4096], sent[..]);
    shape.worker = 4;
    let error = open(&spec(&fake), shape, 10_000).unwrap().prepare().unwrap_err();
    assert!(matches!(error, StorageError::TooSmall { needed: 5_242_880, free: 4_194_304, .. }), "{error}");
}

#[test]
fn a_unit_that_may_only_be_read_is_told_before_anything_is_written() {
    let fake = Fake::start(true);
    fake.write_protected.store(true, Ordering::Relaxed);
    let error = open(&spec(&fake), shape(1, 4096), 5000).unwrap().prepare().unwrap_err();
    assert!(error.to_string().contains("write-protected"), "{error}");
}

#[test]
fn data_of_others_is_not_overwritten_unless_asked_for() {
    let fake = Fake::start(true);
    fake.disk.lock().unwrap()[BLOCK * BLOCKS - 1] = 1;
    let error = open(&spec(&fake), shape(1, 4096), 10_000).unwrap().prepare().unwrap_err();
    assert!(matches!(error, StorageError::Foreign { .. }), "{error}");
    let spec = IscsiSpec { overwrite: true, ..spec(&fake) };
    open(&spec, shape(1, 4096), 10_000).unwrap().prepare().unwrap();
    fake.disk.lock().unwrap()[BLOCK * (BLOCKS - 1)..].fill(7);
    fake.disk.lock().unwrap()[BLOCK * (BLOCKS - 1)..][..8].copy_from_slice(b"vtaxdata");
    open(&IscsiSpec { overwrite: false, ..spec }, shape(1, 4096), 10_000).unwrap().prepare().unwrap();
}

#[test]
fn a_target_that_is_not_there_or_says_nothing_is_told_in_time() {
    let nobody = IscsiSpec::new(([127, 0, 0, 1], vtax_sys::free_port()).into(), "iqn.a", 0);
    let error = open(&nobody, shape(1, 4096), 2000).unwrap_err().to_string();
    assert!(error.contains("refused") && error.contains("/iqn.a/0"), "{error}");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = IscsiSpec::new(listener.local_addr().unwrap(), "iqn.a", 0);
    let error = open(&silent, shape(1, 4096), 200).unwrap_err().to_string();
    assert!(error.contains("timed out"), "{error}");
    let greeter = thread::spawn(move || {
        use std::io::{Read, Write};
        // The first is the silent one's.
        let _ = listener.accept();
        let mut stream = listener.accept().unwrap().0;
        let mut request = [0; 4096];
        let _ = stream.read(&mut request).unwrap();
        stream.write_all(&[b'x'; 100]).unwrap();
        while stream.read(&mut request).is_ok_and(|got| got > 0) {}
    });
    let error = open(&silent, shape(1, 4096), 5000).unwrap_err().to_string();
    assert!(error.contains("operation code"), "{error}");
    greeter.join().unwrap();
}
