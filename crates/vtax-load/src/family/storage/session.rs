//! A load of storage that is open: its files, from step to step.

use std::fs::File;

use vtax_plan::model::StorageCache;
use vtax_sys::sync::into_inner;
use vtax_units::Nanos;

use super::counters::Moment;
use super::engine::{Files, Gate, Made, Process, Task};
use super::generations::Generations;
use super::mounted::{Counters, Mounted};
use super::pattern::Pattern;
use super::result::{CacheEvidence, ReadBack, StorageResult, Verified};
use super::spec::{StorageSpec, StorageStep, TargetSpec};
use super::target::StorageError;
use super::worker::FAILURES;
use crate::requests::{Course, Finding, Window, merge};
use crate::{Control, LoadError, LoadResult, Model, drive};

/// A load of storage that is open. Its files are removed when it is dropped, unless they are to be kept.
#[derive(Debug)]
pub struct StorageSession {
    spec: StorageSpec,
    cpus: Vec<usize>,
    /// What the files are that exist.
    present: Option<Present>,
    /// The volume that they are on, where the load has mounted it. Dropped after they are removed.
    mounted: Option<Mounted>,
}

/// Files that exist.
#[derive(Debug)]
struct Present {
    step: StorageStep,
    processes: Vec<Files>,
    /// Says to other loads that somebody works there, where it is on this system.
    _lock: Option<File>,
}

impl StorageSession {
    /// Opens the load. Files are made by the steps that need them.
    ///
    /// # Errors
    /// The system refuses what the generator needs.
    pub fn open(spec: &StorageSpec) -> Result<Self, LoadError> {
        if spec.timeout == Nanos::ZERO {
            return Err(LoadError::Spec { field: "timeout", reason: "an operation takes time".to_owned() });
        }
        let cpus = drive::worker_cpus(&spec.cpus, usize::MAX)?;
        let mounted = match &spec.target {
            TargetSpec::Mounted(mount) => Some(Mounted::new(mount)?),
            _ => None,
        };
        Ok(Self { spec: spec.clone(), cpus, present: None, mounted })
    }

    /// Carries out a step.
    ///
    /// # Errors
    /// The step makes no sense, the target can't be used, or the step was cancelled before there was anything to return.
    pub fn run_step(&mut self, step: &StorageStep, control: &Control) -> Result<StorageResult, LoadError> {
        step.check()?;
        self.spec.target.check_cache(step)?;
        self.have_files(step)?;
        if self.mounted.is_some() && step.cache == StorageCache::Cold {
            // What the step would lay out or empty itself, caches would hold.
            self.all(step, control, Task::LayOut)?;
        }
        if let Some(mounted) = self.mounted.as_mut().filter(|_| step.cache == StorageCache::Cold) {
            mounted.renew()?;
        }
        let (made, before) = self.all(step, control, Task::CarryOut)?;
        let now = Moment::now(self.spec.target.path(), self.mounted.as_ref());
        let made: Option<Vec<Made>> = made.into_iter().collect();
        let Some(made) = made.filter(|made| !made.is_empty()) else {
            return Err(LoadError::Cancelled { after: Nanos::ZERO, warmup: step.warmup });
        };
        let (io, counted) = before.map(|before| now.since(&before)).unwrap_or_default();
        let mut result = self.result(step, made)?;
        result.io = io;
        if let Some(mounted) = &self.mounted {
            result.facts.what = format!("{}: {}", mounted.words(), result.facts.what);
            result.facts.counters = counted.map(Counters::named).unwrap_or_default();
        }
        Ok(result)
    }

    /// Sees to it that the files there are, or are to be, fit the step.
    fn have_files(&mut self, step: &StorageStep) -> Result<(), LoadError> {
        if self.present.as_ref().is_some_and(|present| present.step.shape.has_files_of(&step.shape)) {
            return Ok(());
        }
        self.remove()?;
        let shape = &step.shape;
        let each =
            if step.operation.of_names() { u64::from(shape.files) * shape.file.0 } else { shape.file.0 };
        self.spec.target.check_room(each.saturating_mul(shape.processes.into()))?;
        let taken = self.spec.target.take()?;
        let files = |number| Files {
            data: Generations::new((shape.file.0 / shape.record.0).max(1)),
            names: Generations::new(shape.files.into()),
            made_target: taken.made && number == 0,
            own: taken.own,
        };
        let processes = (0..shape.processes).map(files).collect();
        self.present = Some(Present { step: step.clone(), processes, _lock: taken.lock });
        Ok(())
    }

    /// Runs all processes, each in its thread.
    fn all(
        &mut self,
        step: &StorageStep,
        control: &Control,
        task: Task,
    ) -> Result<(Vec<Option<Made>>, Option<Moment>), LoadError> {
        let pattern = Pattern::new(self.spec.seed, step.shape.dedupe, step.shape.compressible);
        let Some(present) = &mut self.present else { return Ok((Vec::new(), None)) };
        let gate = Gate::new(present.processes.len());
        let spec = &self.spec;
        let mounted = self.mounted.as_ref();
        let processes: Vec<(usize, Process<'_>)> = present
            .processes
            .iter_mut()
            .enumerate()
            .map(|(number, files)| {
                let process =
                    Process { number, spec, mounted, step, pattern, files, gate: &gate, control, task };
                (self.cpus[number % self.cpus.len()], process)
            })
            .collect();
        let ended = drive::launch("storage", processes, control, |process| Ok(process.run()))?;
        let made = ended.into_iter().collect::<Result<Vec<_>, StorageError>>()?;
        let counted = into_inner(gate.counted);
        Ok((made, counted))
    }

    /// Removes the files there are.
    fn remove(&mut self) -> Result<(), LoadError> {
        let Some(step) = self.present.as_ref().map(|present| present.step.clone()) else { return Ok(()) };
        let removed = self.all(&step, &Control::new(), Task::Remove);
        self.present = None;
        removed.map(|_| ())
    }

    fn result(&self, step: &StorageStep, made: Vec<Made>) -> Result<StorageResult, LoadError> {
        let mut verified = Verified::default();
        let mut failures = [0; FAILURES.len()];
        let mut cache =
            CacheEvidence { of: step.shape.file.0 * made.len() as u64, ..CacheEvidence::default() };
        cache.dropped = made[0].dropped;
        cache.before = made.iter().map(|made| made.before).sum();
        cache.after = made.iter().map(|made| made.after).sum();
        let first_failure = made.iter().find_map(|made| made.first_failure.clone());
        let facts = made[0].facts.clone();
        let mut read_back: Option<ReadBack> = None;
        for one in made.iter().filter_map(|made| made.read_back.as_ref()) {
            read_back.get_or_insert_default().add(one);
        }
        let processes = made.iter().map(|made| made.found.process).collect();
        for one in &made {
            verified.add(&one.found.verified);
            for (sum, more) in failures.iter_mut().zip(one.found.failures) {
                *sum += more;
            }
        }
        let failures = FAILURES.into_iter().zip(failures).filter(|(_, count)| *count > 0).collect();
        let epoch = made[0].found.epoch;
        let findings: Vec<Finding> = made.into_iter().map(|made| made.found.finding).collect();
        let (warmup, duration) = (step.warmup.0, step.duration.0);
        let course = Course {
            timeout: self.spec.timeout,
            open: matches!(step.model, Model::Open { .. }),
            window: Window { from: warmup, to: warmup + duration, interval: step.interval.0.min(duration) },
            epoch,
            end: findings.iter().map(|finding| finding.end).max().unwrap_or(0),
        };
        // Rates of storage are those of operations that began within the recorded time, in reports too.
        let load = LoadResult { answered_in_time: None, ..merge(&course, findings)? };
        let record = step.shape.record.0;
        let io = super::counters::IoCounters::default();
        Ok(StorageResult {
            load,
            record,
            processes,
            verified,
            failures,
            first_failure,
            cache,
            io,
            facts,
            read_back,
            beside: Vec::new(),
        })
    }
}

impl Drop for StorageSession {
    fn drop(&mut self) {
        if !self.spec.keep {
            // What can't be removed stays; the run's scratch space goes as a whole.
            let _ = self.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use vtax_plan::model::{StorageEngine, StorageOperation, StorageShape};
    use vtax_units::{Bytes, CpuSet};

    use super::super::mounted::{MountSpec, Volume};
    use super::super::pattern::MARK;
    use super::*;

    /// One process that makes one file of one record, or two small ones, with a cold cache.
    fn step(operation: StorageOperation) -> StorageStep {
        let shape = StorageShape {
            engine: StorageEngine::Psync,
            files: 2,
            ..StorageShape::new(Bytes(4096), Bytes(4096))
        };
        StorageStep {
            once: true,
            cache: StorageCache::Cold,
            ..StorageStep::new(shape, operation, Nanos::from_secs(60))
        }
    }

    /// A `create` found the directory that it had just made anew in the caches.
    #[test]
    fn what_is_made_anew_on_a_cold_volume_is_emptied_before_the_mount() {
        let directory = tempfile::tempdir().unwrap();
        let address = ([127, 0, 0, 1], 445).into();
        let volume = Volume::Smb { address, share: "files".to_owned() };
        let mount = MountSpec { volume, place: directory.path().to_string_lossy().into_owned() };
        let names = mount.directory(0).join("vtax-0.d");
        fs::create_dir_all(&names).unwrap();
        // Says whose the directory is.
        fs::write(mount.directory(0).join("vtax-0-0"), MARK.to_le_bytes()).unwrap();
        let mut session = StorageSession {
            mounted: Some(Mounted::of_directories(&mount)),
            cpus: drive::worker_cpus(&CpuSet::default(), 1).unwrap(),
            present: None,
            spec: StorageSpec {
                target: TargetSpec::Mounted(mount),
                cpus: CpuSet::default(),
                timeout: Nanos::from_secs(30),
                seed: 1,
                keep: false,
            },
        };
        for (operation, operations) in [(StorageOperation::Create, 2), (StorageOperation::Write, 1)] {
            let (step, control) = (step(operation), Control::new());
            fs::write(names.join("before"), "").unwrap();
            session.have_files(&step).unwrap();
            session.all(&step, &control, Task::LayOut).unwrap();
            assert_eq!(fs::read_dir(&names).unwrap().count(), 0, "{operation:?}");
            // Here it is mounted anew. What appears now is there still after the step.
            fs::write(names.join("after"), "").unwrap();
            let (made, _) = session.all(&step, &control, Task::CarryOut).unwrap();
            let found = made[0].as_ref().map(|made| made.found.process.operations);
            assert_eq!((found, names.join("after").exists()), (Some(operations), true), "{operation:?}");
        }
    }
}
