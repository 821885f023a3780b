//! The generator of storage against real files: what is counted, what is found wrong, what is refused.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::thread;
use std::time::Duration;

use vtax_load::http::{HttpRequests, HttpSpec};
use vtax_load::storage::{
    CacheDropped, CacheEvidence, StorageError, StorageResult, StorageSession, StorageSpec, StorageStep,
    TargetSpec,
};
use vtax_load::{
    ArrivalProcess, BesideSession, BesideSpec, ConnectionPool, Control, LoadError, LoadSpec, Model, PartPace,
    Segment, SpreadPart,
};
use vtax_plan::model::{StorageCache, StorageEngine, StorageOperation, StorageSync};
use vtax_units::{Bytes, CpuSet, Nanos, Rate, Share};

#[path = "storage_support/local.rs"]
mod local;

use local::{RECORD, RECORDS, directory, engines, run, session, spec, step};

/// Answers every request that comes.
fn answers() -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let serve = |mut stream: TcpStream| {
        let (mut buffer, mut seen) = ([0; 4096], Vec::new());
        while let Ok(length @ 1..) = stream.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..length]);
            while let Some(end) = seen.windows(4).position(|w| w == b"\r\n\r\n") {
                seen.drain(..end + 4);
                if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
                    return;
                }
            }
        }
    };
    thread::spawn(move || {
        listener.incoming().flatten().for_each(|stream| drop(thread::spawn(move || serve(stream))));
    });
    address
}

#[test]
fn what_disturbs_a_test_goes_on_for_as_long_as_it_takes() {
    let directory = directory();
    let (timeout, cpus) = (Nanos::from_secs(5), CpuSet::default());
    let pool = ConnectionPool { target: answers(), connections: 1, timeout, cpus };
    let requests = HttpRequests::get("/", "test");
    let load = LoadSpec::Http(HttpSpec { pool, requests });
    let others = vec![SpreadPart { member: "sut-2".to_owned(), load, pace: PartPace::Closed }];
    let mut spec = BesideSpec { storage: spec(directory.path()), others };
    let mut session = BesideSession::open(&spec).unwrap();
    for operation in [StorageOperation::Write, StorageOperation::Read] {
        let mut once = || match session.run_step(&step(StorageEngine::Psync, operation), &Control::new()) {
            Ok(found) => found.beside.iter().all(|other| other.result.counts.ok > 0).then_some(found),
            // A busy machine may keep the other load's threads from running for the whole test.
            Err(LoadError::Cancelled { .. }) => None,
            Err(error) => panic!("{error}"),
        };
        let found = (0..20).find_map(|_| once()).expect("the other load goes on beside one of twenty tests");
        assert_eq!(found.load.counts.ok, 2 * RECORDS, "{:?}", found.load.counts);
        let [beside] = &found.beside[..] else { panic!("{:?}", found.beside) };
        assert_eq!((beside.member.as_str(), beside.counted), ("sut-2", false));
        assert!(beside.result.counts.ok > 0, "{:?}", beside.result.counts);
        assert!(
            beside.result.duration < Nanos::from_secs(60),
            "it ended with the test: {}",
            beside.result.duration
        );
    }
    spec.others[0].pace = PartPace::Share(1.0);
    assert!(matches!(BesideSession::open(&spec), Err(LoadError::Spec { field: "parts", .. })));
}

#[test]
fn every_operation_goes_over_all_records_and_finds_what_was_written() {
    for engine in engines() {
        let directory = directory();
        let mut session = session(directory.path());
        for operation in StorageOperation::PLAIN.into_iter().chain([StorageOperation::Mix { reads: 50 }]) {
            let mut step = step(engine, operation);
            if operation.of_names() {
                step.shape.file = Bytes(RECORD);
            }
            let result = run(&mut session, &step);
            let each = if operation.of_names() { 20 } else { RECORDS };
            let found: Vec<u64> = result.processes.iter().map(|p| p.operations).collect();
            assert_eq!(found, [each, each], "{engine:?} {operation:?}");
            assert_eq!(
                (result.load.counts.ok, result.trouble()),
                (2 * each, None),
                "{engine:?} {operation:?}"
            );
            if operation.only_reads() {
                assert_eq!(result.verified.records, 2 * each, "{operation:?}");
            }
            let durable = operation.writes() && !operation.of_names();
            assert_eq!(result.until_durable().is_some(), durable, "{operation:?}");
            assert!(result.parent() <= result.children() * 1.001, "{operation:?}");
        }
        drop(session);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "its files are removed");
    }
}

#[test]
fn every_kind_of_sync_and_data_is_read_back() {
    for engine in engines() {
        for sync in [StorageSync::None, StorageSync::Data, StorageSync::Each, StorageSync::End] {
            let directory = directory();
            let mut session = session(directory.path());
            for operation in [StorageOperation::Write, StorageOperation::RandomWrite, StorageOperation::Read]
            {
                let mut step = step(engine, operation);
                step.shape.sync = sync;
                step.shape.file = Bytes(32 * RECORD);
                (step.shape.dedupe, step.shape.compressible) = (Share(0.3), Share(0.5));
                let result = run(&mut session, &step);
                assert_eq!((result.trouble(), result.load.counts.ok), (None, 64), "{engine:?} {sync:?}");
                let asked = sync != StorageSync::None && operation.writes();
                assert_eq!(result.until_durable().is_some(), asked, "{sync:?} {operation:?}");
            }
        }
    }
}

/// Changes the file behind the generator's back between two steps.
fn tampered(change: impl FnOnce(&File)) -> StorageResult {
    let directory = directory();
    let mut session = session(directory.path());
    let engine = StorageEngine::Psync;
    run(&mut session, &step(engine, StorageOperation::Write));
    // The second content of every record: an older one is known by it.
    let older = fs::read(directory.path().join("vtax-0-0")).unwrap();
    run(&mut session, &step(engine, StorageOperation::Rewrite));
    let file = File::options().read(true).write(true).open(directory.path().join("vtax-0-0")).unwrap();
    file.write_all_at(&older[..RECORD as usize], 0).unwrap();
    file.write_all_at(&older[RECORD as usize..][..512], RECORD).unwrap();
    change(&file);
    run(&mut session, &step(engine, StorageOperation::Read))
}

#[test]
fn wrong_data_is_found_and_named() {
    let result = tampered(|file| {
        let mut record = vec![0; RECORD as usize];
        file.write_all_at(&record, 2 * RECORD).unwrap();
        file.read_exact_at(&mut record, 4 * RECORD).unwrap();
        file.write_all_at(&record, 3 * RECORD).unwrap();
        file.write_all_at(b"x", 5 * RECORD + 600).unwrap();
    });
    let found = result.verified;
    assert_eq!((found.records, found.stale, found.torn), (2 * RECORDS, 1, 1), "{found:?}");
    assert_eq!((found.lost, found.misplaced, found.corrupt), (1, 1, 1), "{found:?}");
    let errors = &result.load.counts.errors;
    assert_eq!((errors.stale, errors.lost, errors.corrupt), (1, 1, 3));
    let words = result.trouble().unwrap();
    assert!(words.contains("1 were lost, 1 stale, 1 torn, 1 misplaced, 1 corrupt"), "{words}");
}

#[test]
fn what_is_not_its_own_is_left_alone() {
    let directory = directory();
    let path = directory.path().join("somebody-elses");
    fs::write(&path, vec![b'x'; 8192]).unwrap();
    let write = step(StorageEngine::Psync, StorageOperation::Write);
    let error = session(&path).run_step(&write, &Control::new()).unwrap_err();
    assert!(matches!(error, LoadError::Storage(StorageError::Foreign { .. })), "{error}");
    assert!(error.to_string().contains("--overwrite"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), vec![b'x'; 8192]);

    let text = format!("file:{}", path.display());
    assert!(TargetSpec::from_url(&text, Some("/elsewhere")).is_err());
    let target = TargetSpec::from_url(&text, path.to_str()).unwrap();
    let mut session = StorageSession::open(&StorageSpec { target, ..spec(&path) }).unwrap();
    assert_eq!(run(&mut session, &write).trouble(), None);
    drop(session);
    assert!(path.exists(), "a file that was there stays");
}

/// It was removed when the load ended, right after it had been refused.
#[test]
fn what_was_refused_is_there_after_the_load() {
    let directory = directory();
    let write = step(StorageEngine::Psync, StorageOperation::Write);
    let is_refused = || {
        let error = session(directory.path()).run_step(&write, &Control::new()).unwrap_err();
        assert!(matches!(error, LoadError::Storage(StorageError::Foreign { .. })), "{error}");
        error.to_string()
    };
    let file = directory.path().join("vtax-0-0");
    fs::write(&file, "a letter").unwrap();
    let words = is_refused();
    let way_out = format!("(--overwrite {})", directory.path().display());
    assert!(words.contains("vtax-0-0 holds") && words.contains(&way_out), "{words}");
    assert_eq!(fs::read(&file).unwrap(), b"a letter");
    fs::remove_file(&file).unwrap();
    let names = directory.path().join("vtax-1.d");
    fs::create_dir(&names).unwrap();
    fs::write(names.join("1"), "a letter").unwrap();
    is_refused();
    assert_eq!(fs::read(names.join("1")).unwrap(), b"a letter");
    // With vtax's mark beside it, it is vtax's.
    fs::write(directory.path().join("vtax-1-0"), "vtaxdata").unwrap();
    assert_eq!(run(&mut session(directory.path()), &write).trouble(), None);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

/// Their data file was empty: the next load took them for somebody else's.
#[test]
fn small_files_that_were_kept_are_its_own() {
    for engine in engines() {
        for (first, next) in [
            (StorageOperation::Create, StorageOperation::Read),
            (StorageOperation::List, StorageOperation::Create),
        ] {
            let of = |operation: StorageOperation| {
                let mut step = step(engine, operation);
                if operation.of_names() {
                    step.shape.file = Bytes(RECORD);
                }
                step
            };
            let directory = directory();
            let keeping = StorageSpec { keep: true, ..spec(directory.path()) };
            assert_eq!(run(&mut StorageSession::open(&keeping).unwrap(), &of(first)).trouble(), None);
            assert_eq!(fs::read_dir(directory.path().join("vtax-0.d")).unwrap().count(), 20);
            let result = run(&mut session(directory.path()), &of(next));
            assert_eq!(result.trouble(), None, "{engine:?}: {first:?}, {next:?}");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "they were its own to remove");
        }
    }
}

#[test]
fn two_loads_do_not_work_in_one_place() {
    let directory = directory();
    let [write, read] =
        [StorageOperation::Write, StorageOperation::Read].map(|o| step(StorageEngine::Psync, o));
    for path in [directory.path().to_owned(), directory.path().join("file")] {
        let mut first = session(&path);
        run(&mut first, &write);
        let error = session(&path).run_step(&write, &Control::new()).unwrap_err();
        assert!(error.to_string().contains("another vtax works in"), "{error}");
        assert_eq!(run(&mut first, &read).trouble(), None, "what it has written is there");
        drop(first);
        assert_eq!(run(&mut session(&path), &write).trouble(), None);
    }
}

/// One process refused what another had just written, which doesn't begin with the file's first record.
#[test]
fn processes_take_a_new_file_together() {
    let directory = directory();
    let mut read = step(StorageEngine::Psync, StorageOperation::Read);
    (read.shape.processes, read.shape.file) = (8, Bytes(8 * RECORD));
    for round in 0..20 {
        let path = directory.path().join(round.to_string());
        assert_eq!(run(&mut session(&path), &read).trouble(), None, "round {round}");
        assert!(!path.exists(), "round {round}");
    }
}

#[test]
fn too_little_room_is_told_before_anything_is_written() {
    let directory = directory();
    let mut large = step(StorageEngine::Psync, StorageOperation::Write);
    large.shape.file = Bytes(1 << 40);
    large.shape.processes = 200;
    let error = session(directory.path()).run_step(&large, &Control::new()).unwrap_err();
    assert!(matches!(error, LoadError::Storage(StorageError::TooSmall { .. })), "{error}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    let missing = session(Path::new("/no/such/place/file")).run_step(&large, &Control::new()).unwrap_err();
    assert!(matches!(missing, LoadError::Storage(StorageError::System { .. })), "{missing}");
}

#[test]
fn senseless_steps_are_refused_with_the_field() {
    let good = step(StorageEngine::Psync, StorageOperation::Write);
    let wrong = |change: &dyn Fn(&mut StorageStep)| {
        let mut step = good.clone();
        change(&mut step);
        match step.check() {
            Err(LoadError::Spec { field, .. }) => field,
            other => panic!("{other:?}"),
        }
    };
    assert!(good.check().is_ok());
    assert_eq!(wrong(&|s| s.shape.record = Bytes(100)), "record");
    assert_eq!(wrong(&|s| s.shape.file = Bytes(RECORD + 512)), "record");
    assert_eq!(wrong(&|s| s.shape.file = Bytes(1 << 50)), "file");
    assert_eq!(wrong(&|s| s.shape.depth = 2), "depth");
    assert_eq!(wrong(&|s| s.shape.processes = 0), "processes");
    assert_eq!(wrong(&|s| s.duration = Nanos::ZERO), "duration");
    assert_eq!(wrong(&|s| s.shape.files = 2_000_000), "files");
    let past_the_cache = |s: &mut StorageStep| (s.shape.direct, s.cache) = (true, StorageCache::Warm);
    let reads = |s: &mut StorageStep| s.operation = StorageOperation::Read;
    assert_eq!(wrong(&|s| (past_the_cache(s), reads(s)).0), "cache");
    let mut writes = good.clone();
    past_the_cache(&mut writes);
    assert!(writes.check().is_ok(), "its own files can't be warm");
    let none = Segment { from: Rate(0.0), to: Rate(0.0), duration: Nanos::from_secs(1) };
    let model = Model::Open { arrivals: ArrivalProcess::Poisson, profile: vec![none] };
    assert_eq!(wrong(&|s| s.model = model.clone()), "rate");
}

#[test]
fn an_open_loop_starts_as_many_as_asked_for_and_says_how_late() {
    for engine in engines() {
        let directory = directory();
        let mut step = step(engine, StorageOperation::RandomRead);
        let rate = Rate(500.0);
        step.model = Model::Open {
            arrivals: ArrivalProcess::Poisson,
            profile: vec![Segment { from: rate, to: rate, duration: Nanos::from_secs(2) }],
        };
        (step.once, step.duration) = (false, Nanos::from_secs(2));
        let result = run(&mut session(directory.path()), &step);
        let intended = result.load.counts.intended;
        // 1000 ± 5 standard deviations.
        assert!((842..1158).contains(&intended), "{engine:?}: {intended}");
        assert_eq!(result.load.counts.ok, intended, "{engine:?}: {:?}", result.failures);
        assert_eq!(result.load.lateness.len(), intended);
    }
}

#[test]
fn a_cold_cache_is_made_and_proven() {
    let directory = directory();
    let mut session = session(directory.path());
    for engine in engines() {
        run(&mut session, &step(engine, StorageOperation::Write));
        let mut read = step(engine, StorageOperation::Read);
        read.cache = StorageCache::Warm;
        let warm = run(&mut session, &read);
        assert_eq!((warm.cache.share_before(), warm.cache_is_not(&read)), (Some(1.0), None));
        read.cache = StorageCache::Cold;
        let cold = run(&mut session, &read);
        assert_eq!(cold.cache.dropped, Some(CacheDropped::Advised));
        // The kernel may keep a page that it uses at that moment. A file system of memory keeps all, and says so.
        let share = cold.cache.share_before().unwrap();
        match cold.cache_is_not(&read) {
            None => assert!(
                share <= 0.05 && cold.io.fetched.is_none_or(|bytes| bytes > 0),
                "{share}: {:?}",
                cold.io
            ),
            Some(why) => assert!(share > 0.0, "{why}"),
        }
    }
}

#[test]
fn names_are_never_cold_where_nothing_is_mounted_anew() {
    let directory = directory();
    let mut session = session(directory.path());
    for operation in [StorageOperation::Create, StorageOperation::List, StorageOperation::Remove] {
        let mut step = step(StorageEngine::Psync, operation);
        (step.shape.file, step.cache) = (Bytes(RECORD), StorageCache::Cold);
        let error = session.run_step(&step, &Control::new()).unwrap_err();
        assert!(matches!(error, LoadError::Spec { field: "cache", .. }), "{operation:?}: {error}");
    }
}

/// What makes its files itself has none to be warm.
#[test]
fn a_warm_cache_is_asked_only_of_what_finds_its_files() {
    let directory = directory();
    let mut session = session(directory.path());
    for operation in StorageOperation::PLAIN {
        let mut step = step(StorageEngine::Psync, operation);
        step.cache = StorageCache::Warm;
        if operation.of_names() {
            step.shape.file = Bytes(RECORD);
        }
        let result = run(&mut session, &step);
        assert_eq!((result.trouble(), result.cache_is_not(&step)), (None, None), "{operation:?}");
        let emptied = StorageResult { cache: CacheEvidence { before: Some(0), ..result.cache }, ..result };
        assert_eq!(emptied.cache_is_not(&step).is_some(), operation.needs_data(), "{operation:?}");
    }
}

#[test]
fn a_file_that_it_made_is_removed_unless_it_is_to_be_kept() {
    let directory = directory();
    let path = directory.path().join("made");
    for keep in [false, true] {
        for engine in engines() {
            let mut session = StorageSession::open(&StorageSpec { keep, ..spec(&path) }).unwrap();
            for records in [RECORDS, RECORDS / 2] {
                let mut write = step(engine, StorageOperation::Write);
                write.shape.file = Bytes(records * RECORD);
                assert_eq!(run(&mut session, &write).trouble(), None);
                assert!(path.is_file());
            }
            drop(session);
            assert_eq!(path.exists(), keep, "{engine:?}");
        }
    }
    // It was there before the next load, whose it isn't.
    let mut session = session(&path);
    assert_eq!(run(&mut session, &step(StorageEngine::Psync, StorageOperation::Read)).trouble(), None);
    drop(session);
    assert!(path.exists());
}

#[test]
fn a_step_can_be_ended() {
    let directory = directory();
    let mut session = session(directory.path());
    let mut step = step(StorageEngine::Psync, StorageOperation::RandomRead);
    (step.once, step.duration) = (false, Nanos::from_secs(600));
    let control = Control::new();
    let result = std::thread::scope(|scope| {
        let running = scope.spawn(|| session.run_step(&step, &control));
        std::thread::sleep(Duration::from_millis(500));
        control.cancel();
        running.join().unwrap()
    });
    match result {
        Ok(result) => assert!(result.load.duration < Nanos::from_secs(60)),
        // On a machine so busy that nothing had begun.
        Err(error) => assert!(matches!(error, LoadError::Cancelled { .. }), "{error}"),
    }
}
