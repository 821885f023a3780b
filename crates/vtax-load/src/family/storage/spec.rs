//! What a load of storage is: where it goes, and its steps.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vtax_plan::model::{
    StorageCache, StorageEngine, StorageOperation, StorageShape, storage_limits as limits,
};
use vtax_units::{CpuSet, Nanos};

use super::iscsi::{IscsiSpec, IscsiTarget};
use super::local::LocalTarget;
use super::mounted::MountSpec;
use super::nfs::{self, NfsSpec};
use super::taken::{self, Taken};
use super::target::{Shape, StorageError, Target};
use crate::{LoadError, Model};

/// What all steps of a load of storage have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageSpec {
    /// Where it goes.
    pub target: TargetSpec,
    /// CPUs to bind processes to, in turn; empty: all that this process may use.
    pub cpus: CpuSet,
    /// An operation that takes longer has failed. Bounds the wait for what is under way at the end, too.
    pub timeout: Nanos,
    /// Seed of the contents.
    pub seed: u64,
    /// Keep the files when the load is closed.
    pub keep: bool,
}

impl StorageSpec {
    /// A login, a file system for each unit, and a mount, in a virtual machine under emulation.
    const MOUNTING: Duration = Duration::from_secs(100);

    /// The most time that opening it takes beyond what any request does.
    pub(crate) const fn opening(&self) -> Duration {
        match self.target {
            TargetSpec::Mounted(_) => Self::MOUNTING,
            _ => Duration::ZERO,
        }
    }
}

/// Where a load of storage goes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "at", rename_all = "kebab-case")]
pub enum TargetSpec {
    /// A directory, file or device of this system.
    Local(LocalSpec),
    /// A logical unit behind an iSCSI target.
    Iscsi(IscsiSpec),
    /// A directory of an NFS server.
    Nfs(NfsSpec),
    /// A volume that this system's kernel mounts.
    Mounted(MountSpec),
}

/// A directory, file or device of this system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LocalSpec {
    /// A directory: each process has files of its own in it. Anything else: each process has its part of it.
    pub path: String,
    /// It may be overwritten although it isn't vtax's own.
    pub overwrite: bool,
}

impl TargetSpec {
    /// From what is written on the command line: `file:PATH`, `iscsi://HOST/TARGET/LUN` or `nfs://HOST/PATH`. `overwrite` must name
    /// the same to have an effect.
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn from_url(text: &str, overwrite: Option<&str>) -> Result<Self, String> {
        let another = || Err("--overwrite names another target than is written to".to_owned());
        if text.starts_with("iscsi:") {
            let mut spec = IscsiSpec::from_url(text)?;
            let other = overwrite.map(IscsiSpec::from_url).transpose()?;
            spec.overwrite = other.is_some();
            let same =
                |o: &IscsiSpec| (o.address, &o.target, o.lun) == (spec.address, &spec.target, spec.lun);
            return if other.as_ref().is_none_or(same) { Ok(Self::Iscsi(spec)) } else { another() };
        }
        if text.starts_with("nfs:") {
            let mut spec = NfsSpec::from_url(text)?;
            let other = overwrite.map(NfsSpec::from_url).transpose()?;
            spec.overwrite = other.is_some();
            let same = |o: &NfsSpec| (o.address, &o.path) == (spec.address, &spec.path);
            return if other.as_ref().is_none_or(same) { Ok(Self::Nfs(spec)) } else { another() };
        }
        let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) else {
            return Err(format!(
                "`{text}` is no storage; write `file:PATH`, `iscsi://HOST/TARGET/LUN` or `nfs://HOST/PATH`"
            ));
        };
        if let Some(other) = overwrite.filter(|other| *other != path) {
            return Err(format!("--overwrite names `{other}`, but the target is `{path}`"));
        }
        Ok(Self::Local(LocalSpec { path: path.to_owned(), overwrite: overwrite.is_some() }))
    }

    /// A target as it was written, without a secret that may be in it.
    #[must_use]
    pub fn shown(text: &str) -> String {
        let shown = || {
            let rest = text.strip_prefix("iscsi://")?;
            let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
            let (user, host) = authority.rsplit_once('@')?;
            let (name, _secret) = user.split_once(':')?;
            Some(format!("iscsi://{name}@{host}/{path}"))
        };
        shown().unwrap_or_else(|| text.to_owned())
    }

    /// Checks that caches can hold what the step asks for.
    ///
    /// # Errors
    /// [`LoadError::Spec`] where they can't.
    pub fn check_cache(&self, step: &StorageStep) -> Result<(), LoadError> {
        // Only the pages of files are dropped one by one: names and the blocks of directories stay.
        let is_cold = step.cache == StorageCache::Cold && step.operation.of_names();
        refuse_unless(!is_cold || matches!(self, Self::Mounted(_)), "cache", || {
            let word = step.operation.word();
            format!(
                "what the kernel knows of names is forgotten only where a volume is mounted anew, so it can't be \
                 cold for `{word}`: leave out one of both"
            )
        })
    }

    /// Takes it for one load, where that can be done.
    ///
    /// # Errors
    /// Another load works in it, or it is somebody else's.
    pub(super) fn take(&self) -> Result<Taken, StorageError> {
        match self {
            Self::Local(local) => taken::take(local),
            // A lock would keep a volume from being unmounted, and the others' servers know of none.
            Self::Mounted(_) | Self::Iscsi(_) | Self::Nfs(_) => Ok(Taken::default()),
        }
    }

    /// Opens it for one process, in its thread. `own`: the process knows its files to be vtax's, so that nobody needs to look.
    ///
    /// # Errors
    /// It can't be opened, or is somebody else's.
    pub(super) fn open(
        &self,
        files: &StorageShape,
        shape: Shape,
        timeout: Duration,
        own: bool,
    ) -> Result<Box<dyn Target>, StorageError> {
        match self {
            Self::Local(local) => {
                let local = LocalSpec { overwrite: local.overwrite || own, ..local.clone() };
                Ok(Box::new(LocalTarget::open(&local, files, shape)?))
            }
            Self::Iscsi(spec) => Ok(Box::new(IscsiTarget::open(spec, shape, timeout)?)),
            Self::Nfs(spec) => {
                let spec = NfsSpec { overwrite: spec.overwrite || own, ..spec.clone() };
                nfs::open(&spec, shape, timeout)
            }
            Self::Mounted(spec) => {
                let path = spec.directory(shape.worker).to_string_lossy().into_owned();
                Ok(Box::new(LocalTarget::open(&LocalSpec { path, overwrite: own }, files, shape)?))
            }
        }
    }

    /// Its path on this system, where it has one.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Self::Local(local) => Some(Path::new(&local.path)),
            // Its mount has counters of its own.
            Self::Mounted(_) => None,
            Self::Iscsi(_) | Self::Nfs(_) => None,
        }
    }

    /// Whether there is room for what all processes together will have.
    ///
    /// # Errors
    /// [`StorageError::TooSmall`] where there isn't.
    pub(super) fn check_room(&self, bytes: u64) -> Result<(), StorageError> {
        match self {
            Self::Local(local) => super::local::check_room(local, bytes),
            Self::Mounted(spec) => spec.check_room(bytes),
            // They say how large they are when they are opened; each process looks at its own part.
            Self::Iscsi(_) | Self::Nfs(_) => Ok(()),
        }
    }
}

/// One step: one operation on files of one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StorageStep {
    /// The files. Those of the step before are used again where they are the same.
    pub shape: StorageShape,
    /// What is done.
    pub operation: StorageOperation,
    /// When operations start; the rate is that of all processes together.
    pub model: Model,
    /// Time at the start that is not recorded.
    pub warmup: Nanos,
    /// The longest recorded time.
    pub duration: Nanos,
    /// End when as many operations are done as there are records, each once where they are in order.
    pub once: bool,
    /// What the caches hold before it.
    pub cache: StorageCache,
    /// Seed of random records and arrivals.
    pub seed: u64,
    /// Keep every operation's latency besides histograms.
    pub samples: bool,
    /// Length of the intervals in the result.
    pub interval: Nanos,
    /// Once it is over, read everything back that was written and compare it with what was acknowledged; the longest that may take.
    #[serde(default)]
    pub read_back: Option<Nanos>,
}

/// A result holds a histogram for each.
const INTERVALS_MAX: u64 = 10_000;
/// Warm-up and duration each.
const TIME_MAX: Nanos = Nanos::from_secs(30 * 24 * 3600);

impl StorageStep {
    /// As many operations as fit into this time, all of it recorded, one as soon as another has ended, whatever caches hold.
    #[must_use]
    pub const fn new(shape: StorageShape, operation: StorageOperation, duration: Nanos) -> Self {
        Self {
            shape,
            operation,
            model: Model::Closed,
            warmup: Nanos::ZERO,
            duration,
            once: false,
            cache: StorageCache::AsIs,
            seed: 1,
            samples: false,
            interval: duration,
            read_back: None,
        }
    }

    /// Checks that the step makes sense; running it does so too.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming the first field that doesn't.
    pub fn check(&self) -> Result<(), LoadError> {
        check_shape(&self.shape, self.operation)?;
        let is_warm = self.shape.direct && self.is_warmed();
        refuse_unless(!is_warm, "cache", || {
            "direct operations pass the page cache by, so it can't be warm for them: leave out one of both"
                .to_owned()
        })?;
        let within = |time: Nanos| time > Nanos::ZERO && time <= TIME_MAX;
        let beyond = |time: Nanos| format!("{time} is not above 0s and at most {TIME_MAX}");
        refuse_unless(within(self.duration), "duration", || beyond(self.duration))?;
        refuse_unless(self.warmup <= TIME_MAX, "warmup", || format!("{} is too long", self.warmup))?;
        let intervals = self.interval > Nanos::ZERO && self.duration.0 / self.interval.0 <= INTERVALS_MAX;
        refuse_unless(intervals, "interval", || format!("{} makes none or too many", self.interval))?;
        if let Some(time) = self.read_back {
            refuse_unless(within(time), "read_back", || beyond(time))?;
            let told_apart = !self.operation.of_names() && self.shape.dedupe.0 <= 0.0;
            refuse_unless(told_apart, "read_back", || {
                "small files, and blocks with the contents of others, don't tell which write they are of"
                    .to_owned()
            })?;
        }
        if let Model::Open { profile, .. } = &self.model {
            let rates = profile.iter().flat_map(|segment| [segment.from.0, segment.to.0]);
            let most = rates.fold(0.0, f64::max);
            let reason = || format!("{most}/s is not between 0 and {}/s", limits::RATE.0);
            refuse_unless(most > 0.0 && most <= limits::RATE.0, "rate", reason)?;
        }
        Ok(())
    }

    /// Whether its files are read once beforehand, so that caches hold them: those that it makes itself can't be.
    pub(super) fn is_warmed(&self) -> bool {
        self.cache == StorageCache::Warm && self.operation.needs_data()
    }

    /// Records in each process's file, or its files where the step is about names.
    #[must_use]
    pub fn records(&self) -> u64 {
        if self.operation.of_names() {
            u64::from(self.shape.files)
        } else {
            self.shape.file.0 / self.shape.record.0
        }
    }

    /// The longest that the step takes, laying its files out included where a disk writes 10 MB/s.
    #[must_use]
    pub fn longest(&self) -> Duration {
        let bytes = self.shape.file.0.saturating_mul(u64::from(self.shape.processes));
        let laying_out = Duration::from_secs(60 + bytes / 10_000_000);
        let read_back = self.read_back.unwrap_or_default();
        Duration::from(self.warmup) + Duration::from(self.duration) + laying_out + Duration::from(read_back)
    }
}

fn check_shape(shape: &StorageShape, operation: StorageOperation) -> Result<(), LoadError> {
    let (file, record) = (shape.file.0, shape.record.0);
    let record_fits = (limits::RECORD.0.0..=limits::RECORD.1.0).contains(&record)
        && record.is_multiple_of(limits::RECORD.0.0);
    refuse_unless(record_fits, "record", || {
        format!("{} is not a multiple of {} up to {}", shape.record, limits::RECORD.0, limits::RECORD.1)
    })?;
    let file_fits = (limits::FILE.0.0..=limits::FILE.1.0).contains(&file);
    refuse_unless(file_fits, "file", || {
        format!("{} is not between {} and {}", shape.file, limits::FILE.0, limits::FILE.1)
    })?;
    if operation.of_names() {
        let fits = file.is_multiple_of(limits::FILE.0.0) && file <= record;
        refuse_unless(fits, "record", || {
            let word = operation.word();
            format!(
                "small files (`{word}`) are written at once: {} is more than a record of {}",
                shape.file, shape.record
            )
        })?;
    } else {
        refuse_unless(file.is_multiple_of(record), "record", || {
            format!("files of {} are not made of whole records of {}", shape.file, shape.record)
        })?;
    }
    let count = |n: u64, most: u64| n >= 1 && n <= most;
    refuse_unless(count(shape.processes.into(), limits::PROCESSES.into()), "processes", || {
        format!("{} is not between 1 and {}", shape.processes, limits::PROCESSES)
    })?;
    refuse_unless(count(shape.depth.into(), limits::DEPTH.into()), "depth", || {
        format!("{} is not between 1 and {}", shape.depth, limits::DEPTH)
    })?;
    refuse_unless(shape.engine == StorageEngine::IoUring || shape.depth == 1, "depth", || {
        "psync has one operation under way; more need io-uring".to_owned()
    })?;
    refuse_unless(count(shape.files.into(), limits::FILES.into()), "files", || {
        format!("{} is not between 1 and {}", shape.files, limits::FILES)
    })?;
    let buffers = record * u64::from(shape.processes) * u64::from(shape.depth);
    refuse_unless(buffers <= limits::BUFFERS.0, "depth", || {
        format!("records, processes and depth ask for more than {} of buffers", limits::BUFFERS)
    })
}

fn refuse_unless(right: bool, field: &'static str, reason: impl FnOnce() -> String) -> Result<(), LoadError> {
    if right { Ok(()) } else { Err(LoadError::Spec { field, reason: reason() }) }
}

#[cfg(test)]
mod tests {
    use vtax_units::Bytes;

    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        assert_eq!(TargetSpec::shown("iscsi://joe:s@cret@h:1/iqn.a/0"), "iscsi://joe@h:1/iqn.a/0");
        for same in ["iscsi://joe@h/iqn.a/0", "iscsi://h/iqn.a:b@c/0", "nfs://h/a", "file:/a@b"] {
            assert_eq!(TargetSpec::shown(same), same);
        }
    }

    #[test]
    fn a_time_that_is_refused_is_told_with_what_it_may_be() {
        let shape = StorageShape::new(Bytes(4096), Bytes(4096));
        let step = StorageStep::new(shape, StorageOperation::Write, Nanos::from_secs(1));
        let step = StorageStep { interval: Nanos::from_secs(1), ..step };
        assert!(step.check().is_ok());
        let refused = |step: StorageStep| step.check().unwrap_err().to_string();
        let long = refused(StorageStep { duration: Nanos::from_secs(2_592_001), ..step.clone() });
        assert!(long.ends_with("2592001s is not above 0s and at most 2592000s"), "{long}");
        let none = refused(StorageStep { read_back: Some(Nanos::ZERO), ..step });
        assert!(none.ends_with("0s is not above 0s and at most 2592000s"), "{none}");
    }

    #[test]
    fn targets_are_told_apart_by_their_beginning() {
        let of = |text, overwrite| TargetSpec::from_url(text, overwrite);
        let url = "iscsi://127.0.0.1/iqn.a/0";
        let same = Some("iscsi://127.0.0.1:3260/iqn.a/0");
        assert!(matches!(of(url, same), Ok(TargetSpec::Iscsi(IscsiSpec { overwrite: true, .. }))));
        assert!(matches!(
            of("nfs://127.0.0.1/a", None),
            Ok(TargetSpec::Nfs(NfsSpec { overwrite: false, .. }))
        ));
        assert!(of(url, Some("iscsi://127.0.0.1/iqn.a/1")).is_err());
        assert!(of("smb://127.0.0.1/a", None).unwrap_err().contains("iscsi://HOST/TARGET/LUN"));
    }
}
