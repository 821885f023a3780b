//! Loads of local files as tests make them.

use std::io::Write as _;
use std::path::Path;

use vtax_load::Control;
use vtax_load::storage::{LocalSpec, StorageResult, StorageSession, StorageSpec, StorageStep, TargetSpec};
use vtax_plan::model::{StorageEngine, StorageOperation, StorageShape, StorageSync};
use vtax_units::{Bytes, CpuSet, Nanos};

pub(crate) const RECORD: u64 = 4096;
pub(crate) const RECORDS: u64 = 256;

/// A directory on the disk of the build, as `/tmp` may be memory.
pub(crate) fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

pub(crate) fn session(path: &Path) -> StorageSession {
    StorageSession::open(&spec(path)).unwrap()
}

pub(crate) fn spec(path: &Path) -> StorageSpec {
    let local = LocalSpec { path: path.to_string_lossy().into_owned(), overwrite: false };
    StorageSpec {
        target: TargetSpec::Local(local),
        cpus: CpuSet::default(),
        timeout: Nanos::from_secs(30),
        seed: 1,
        keep: false,
    }
}

pub(crate) fn step(engine: StorageEngine, operation: StorageOperation) -> StorageStep {
    let shape = StorageShape {
        processes: 2,
        depth: if engine == StorageEngine::Psync { 1 } else { 8 },
        engine,
        sync: StorageSync::End,
        files: 20,
        ..StorageShape::new(Bytes(RECORDS * RECORD), Bytes(RECORD))
    };
    StorageStep {
        once: true,
        interval: Nanos::from_secs(1),
        ..StorageStep::new(shape, operation, Nanos::from_secs(60))
    }
}

pub(crate) fn run(session: &mut StorageSession, step: &StorageStep) -> StorageResult {
    session.run_step(step, &Control::new()).unwrap_or_else(|e| panic!("{:?}: {e}", step.operation))
}

/// The engines that this kernel has.
pub(crate) fn engines() -> Vec<StorageEngine> {
    let mut engines = vec![StorageEngine::Psync];
    let directory = directory();
    let probe = step(StorageEngine::IoUring, StorageOperation::Write);
    match session(directory.path()).run_step(&probe, &Control::new()) {
        Ok(_) => engines.push(StorageEngine::IoUring),
        Err(error) => drop(writeln!(std::io::stderr(), "without io_uring: {error}")),
    }
    engines
}
