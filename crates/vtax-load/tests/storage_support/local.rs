//! Loads of local files as tests make them.

use std::io::Write as _;
use std::path::Path;

use vtax_load::storage::{LocalSpec, StorageResult, StorageSession, StorageSpec, StorageStep, TargetSpec};
use vtax_load::{Control, Model};
use vtax_plan::model::{StorageCache, StorageEngine, StorageOperation, StorageShape, StorageSync};
use vtax_units::{Bytes, CpuSet, Nanos, Share};

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
    StorageStep {
        shape: StorageShape {
            file: Bytes(RECORDS * RECORD),
            record: Bytes(RECORD),
            processes: 2,
            depth: if engine == StorageEngine::Psync { 1 } else { 8 },
            engine,
            direct: false,
            sync: StorageSync::End,
            verify: true,
            dedupe: Share(0.0),
            compressible: Share(0.0),
            files: 20,
        },
        operation,
        model: Model::Closed,
        warmup: Nanos::ZERO,
        duration: Nanos::from_secs(60),
        once: true,
        cache: StorageCache::AsIs,
        seed: 1,
        samples: false,
        interval: Nanos::from_secs(1),
        read_back: None,
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
