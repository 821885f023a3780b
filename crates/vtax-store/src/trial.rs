//! The files of one trial, `trials/NNN/`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use vtax_load::sip::PhaseResult;
use vtax_load::{Interval, LoadResult, Sample};
use vtax_probe::Snapshot;
use vtax_units::Nanos;

use crate::probes::{ProbeRow, ProbeWriter, read_probes};
use crate::record::{Finding, TrialRecord};
use crate::samples::{SampleWriter, read_samples};
use crate::{StoreError, files, hlog, ims};

pub(crate) const SAMPLES: &str = "samples.parquet";
pub(crate) const PROBES: &str = "probes.parquet";
pub(crate) const HISTOGRAMS: &str = "histograms.hlog";
pub(crate) const INTERVALS: &str = "intervals.jsonl";
pub(crate) const EVENTS: &str = "events.jsonl";
pub(crate) const PHASES: &str = "phases.jsonl";
const LOGS: &str = "logs";

/// All logs of a trial together; a service gone wild must not fill the disk.
const LOG_LIMIT: u64 = 64 << 20;
/// Longest line of `events.jsonl` read.
const EVENT_LIMIT: u64 = 1 << 20;

/// Something that happened during a trial.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialEvent {
    /// Time since the start of the trial.
    pub at: Nanos,
    /// Node it happened on; empty for the lab itself.
    pub node: String,
    /// Kind, such as `service-ready`, `service-died`, `step`.
    pub kind: String,
    /// Details for people.
    pub text: String,
}

/// Writes the files of one trial. Dropped unfinished, it removes them.
#[derive(Debug)]
pub struct TrialWriter {
    index: u32,
    target: PathBuf,
    path: PathBuf,
    samples: Option<SampleWriter>,
    probes: Option<ProbeWriter>,
    events: Option<BufWriter<File>>,
    phases: Option<BufWriter<File>>,
    logs: BTreeMap<String, BufWriter<File>>,
    log_bytes: u64,
    finished: bool,
}

impl TrialWriter {
    pub(crate) fn create(target: PathBuf, index: u32) -> Result<Self, StoreError> {
        let path = target.with_extension("tmp");
        for leftover in [&path, &target] {
            match fs::remove_dir_all(leftover) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(StoreError::io("remove", leftover, e));
                }
                _ => {}
            }
        }
        fs::create_dir(&path).map_err(|e| StoreError::io("create", &path, e))?;
        Ok(Self {
            index,
            target,
            path,
            samples: None,
            probes: None,
            events: None,
            phases: None,
            logs: BTreeMap::new(),
            log_bytes: 0,
            finished: false,
        })
    }

    /// Index of the trial in its run.
    #[must_use]
    pub fn index(&self) -> u32 {
        self.index
    }

    /// Where the files are until the trial is finished; other programs may write logs below it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends requests to `samples.parquet`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or [`StoreError::Io`], naming the file.
    pub fn samples(&mut self, samples: &[Sample]) -> Result<(), StoreError> {
        if self.samples.is_none() {
            self.samples = Some(SampleWriter::create(self.path.join(SAMPLES))?);
        }
        self.samples.as_mut().map_or(Ok(()), |w| w.append(samples))
    }

    /// Appends what a probe on `node` saw to `probes.parquet`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or [`StoreError::Io`], naming the file.
    pub fn snapshot(&mut self, node: &str, snapshot: &Snapshot) -> Result<(), StoreError> {
        if self.probes.is_none() {
            self.probes = Some(ProbeWriter::create(self.path.join(PROBES))?);
        }
        self.probes.as_mut().map_or(Ok(()), |w| w.append(node, snapshot))
    }

    /// Appends to `events.jsonl`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or [`StoreError::Io`], naming the file.
    pub fn event(&mut self, event: &TrialEvent) -> Result<(), StoreError> {
        let path = self.path.join(EVENTS);
        let error = |e| StoreError::io("write", &path, e);
        if self.events.is_none() {
            self.events = Some(BufWriter::new(File::create(&path).map_err(error)?));
        }
        let Some(file) = &mut self.events else { return Ok(()) };
        serde_json::to_writer(&mut *file, event).map_err(|e| error(e.into()))?;
        file.write_all(b"\n").map_err(error)
    }

    /// Appends a phase of an IMS benchmark to `phases.jsonl`.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or [`StoreError::Io`], naming the file.
    pub fn phase(&mut self, phase: &PhaseResult) -> Result<(), StoreError> {
        let path = self.path.join(PHASES);
        if self.phases.is_none() {
            let file = File::create(&path).map_err(|e| StoreError::io("create", &path, e))?;
            let mut file = BufWriter::new(file);
            ims::write_head(&mut file, &path)?;
            self.phases = Some(file);
        }
        self.phases.as_mut().map_or(Ok(()), |file| ims::write_phase(file, phase, &path))
    }

    /// Appends a line to `logs/NAME.log`; characters that don't belong in a file name become `_`.
    ///
    /// Beyond 64 MiB over all logs of the trial, lines are dropped.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`] or [`StoreError::Io`], naming the file.
    pub fn log(&mut self, name: &str, line: &str) -> Result<(), StoreError> {
        let name = file_name(name);
        let directory = self.path.join(LOGS);
        let path = directory.join(&name);
        let error = |e| StoreError::io("write", &path, e);
        if self.log_bytes + line.len() as u64 >= LOG_LIMIT {
            return Ok(());
        }
        if !self.logs.contains_key(&name) {
            fs::create_dir_all(&directory).map_err(|e| StoreError::io("create", &directory, e))?;
            self.logs.insert(name.clone(), BufWriter::new(File::create(&path).map_err(error)?));
        }
        let Some(file) = self.logs.get_mut(&name) else { return Ok(()) };
        self.log_bytes += line.len() as u64 + 1;
        writeln!(file, "{}", line.trim_end_matches('\n')).map_err(error)
    }

    /// Writes histograms and intervals, syncs everything and gives the directory its final name.
    ///
    /// Takes intervals and samples out of `record`, so that its journal line stays small.
    pub(crate) fn finish(mut self, record: &mut TrialRecord) -> Result<(), StoreError> {
        for (place, observation) in record.observations.iter_mut().enumerate() {
            match &mut observation.result {
                // How a test of storage went along is in no file: it is what it found in all that counts.
                Some(Finding::Storage(found)) => forget_course(&mut found.result.load),
                Some(result) => {
                    if let Some(load) = result.load_mut() {
                        self.course(place, load, observation.started_unix_ms)?;
                    }
                }
                None => {}
            }
        }
        if let Some(w) = self.samples.take() {
            w.finish()?;
        }
        if let Some(w) = self.probes.take() {
            w.finish()?;
        }
        let lines = [(EVENTS, self.events.take()), (PHASES, self.phases.take())];
        for (name, file) in lines.into_iter().filter_map(|(name, file)| Some((name, file?))) {
            close(file, &self.path.join(name))?;
        }
        for (name, file) in std::mem::take(&mut self.logs) {
            close(file, &self.path.join(LOGS).join(name))?;
        }
        if self.log_bytes > 0 {
            files::sync_directory(&self.path.join(LOGS))?;
        }
        files::sync_directory(&self.path)?;
        fs::rename(&self.path, &self.target).map_err(|e| StoreError::io("rename", &self.path, e))?;
        self.finished = true;
        Ok(())
    }

    /// Writes how the load of the observation at `place` went along, and takes it out of `load`. The first has
    /// the trial's own files, each later one a directory of its own.
    fn course(
        &mut self,
        place: usize,
        load: &mut LoadResult,
        started_unix_ms: u64,
    ) -> Result<(), StoreError> {
        let samples = std::mem::take(&mut load.samples);
        if place == 0 {
            if !samples.is_empty() {
                self.samples(&samples)?;
            }
            write_histograms(&self.path, load, started_unix_ms)?;
        } else {
            let directory = observation_path(&self.path, place);
            fs::create_dir(&directory).map_err(|e| StoreError::io("create", &directory, e))?;
            if !samples.is_empty() {
                let mut writer = SampleWriter::create(directory.join(SAMPLES))?;
                writer.append(&samples)?;
                writer.finish()?;
            }
            write_histograms(&directory, load, started_unix_ms)?;
            files::sync_directory(&directory)?;
        }
        forget_course(load);
        Ok(())
    }
}

/// Takes what grows with the length of a load out of it, as the journal must not.
fn forget_course(load: &mut LoadResult) {
    load.samples.clear();
    load.intervals.clear();
    load.connections.clear();
}

/// Where the files of the observation at `place` are.
fn observation_path(trial: &Path, place: usize) -> PathBuf {
    if place == 0 { trial.to_owned() } else { trial.join(format!("observation-{place}")) }
}

fn write_histograms(directory: &Path, load: &LoadResult, started_unix_ms: u64) -> Result<(), StoreError> {
    let path = directory.join(HISTOGRAMS);
    let file = File::create(&path).map_err(|e| StoreError::io("create", &path, e))?;
    let mut file = BufWriter::new(file);
    hlog::write(&mut file, load, started_unix_ms, &path)?;
    close(file, &path)?;
    let path = directory.join(INTERVALS);
    let file = File::create(&path).map_err(|e| StoreError::io("create", &path, e))?;
    let mut file = BufWriter::new(file);
    hlog::write_intervals(&mut file, &load.intervals, &path)?;
    close(file, &path)
}

impl Drop for TrialWriter {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Flushes, syncs and closes.
pub(crate) fn close(file: BufWriter<File>, path: &Path) -> Result<(), StoreError> {
    let error = |e| StoreError::io("write", path, e);
    file.into_inner().map_err(|e| error(e.into_error()))?.sync_all().map_err(error)
}

fn file_name(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "._-@".contains(c) { c } else { '_' };
    let name: String = name.chars().take(100).map(safe).collect();
    format!("{}.log", name.trim_start_matches('.'))
}

/// Reads the files of one trial. A missing file is `Ok(None)` or an empty result: a trial that
/// measured nothing has none.
#[derive(Debug, Clone)]
pub struct TrialDir {
    /// The run directory.
    run: PathBuf,
    path: PathBuf,
}

impl TrialDir {
    pub(crate) fn new(run: PathBuf, path: PathBuf) -> Self {
        Self { run, path }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A file or directory of the trial's, where it has that; a way to it over a symbolic link is refused.
    fn existing(&self, name: &str) -> Result<Option<PathBuf>, StoreError> {
        let path = self.path.join(name);
        files::own(&self.run, &path)?;
        Ok(Some(path).filter(|p| p.exists()))
    }

    /// The same of a file that is to be read: no link is followed that comes to be on the way to it meanwhile.
    fn open(&self, name: &str) -> Result<Option<(PathBuf, File)>, StoreError> {
        let Some(path) = self.existing(name)? else { return Ok(None) };
        let file = files::open_below(&self.run, &path)?;
        Ok(Some((path, file)))
    }

    /// The files of the observation at `place` of the trial's, counted from 0; the first has the trial's own.
    #[must_use]
    pub fn observation(&self, place: usize) -> Self {
        Self::new(self.run.clone(), observation_path(&self.path, place))
    }

    /// True where every request was kept.
    #[must_use]
    pub fn has_samples(&self) -> bool {
        self.existing(SAMPLES).is_ok_and(|path| path.is_some())
    }

    /// Streams `samples.parquet` in file order; returns how many there were.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], [`StoreError::Newer`] or [`StoreError::Damaged`]; samples before the damage were given.
    pub fn for_each_sample(&self, sample: impl FnMut(Sample)) -> Result<u64, StoreError> {
        self.open(SAMPLES)?.map_or(Ok(0), |(path, file)| read_samples(file, &path, sample))
    }

    /// Streams `probes.parquet` in file order.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], [`StoreError::Newer`] or [`StoreError::Damaged`]; rows before the damage were given.
    pub fn for_each_probe_row(&self, row: impl FnMut(ProbeRow<'_>)) -> Result<(), StoreError> {
        self.open(PROBES)?.map_or(Ok(()), |(path, file)| read_probes(file, &path, row))
    }

    /// Streams the intervals in order of time, one in memory at a time.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] or [`StoreError::Damaged`]; intervals before the damage were given.
    pub fn for_each_interval(&self, interval: impl FnMut(Interval)) -> Result<(), StoreError> {
        match (self.open(INTERVALS)?, self.open(HISTOGRAMS)?) {
            (Some((counts, counts_file)), Some((histograms, histograms_file))) => {
                hlog::read_intervals((&counts, counts_file), (&histograms, histograms_file), interval)
            }
            _ => Ok(()),
        }
    }

    /// Streams the phases of an IMS benchmark in order of time, one in memory at a time.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`], [`StoreError::Newer`] or [`StoreError::Damaged`]; phases before the damage were given.
    pub fn for_each_phase(&self, phase: impl FnMut(PhaseResult)) -> Result<(), StoreError> {
        self.open(PHASES)?.map_or(Ok(()), |(path, file)| ims::read_phases(file, &path, phase))
    }

    /// What happened, in order of time.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] or [`StoreError::Damaged`].
    pub fn events(&self) -> Result<Vec<TrialEvent>, StoreError> {
        let Some((path, file)) = self.open(EVENTS)? else { return Ok(Vec::new()) };
        let mut reader = BufReader::new(file);
        let mut events = Vec::new();
        loop {
            let mut line = Vec::new();
            (&mut reader)
                .take(EVENT_LIMIT)
                .read_until(b'\n', &mut line)
                .map_err(|e| StoreError::io("read", &path, e))?;
            if line.is_empty() {
                return Ok(events);
            }
            events.push(serde_json::from_slice(&line).map_err(|e| StoreError::damaged_trial(&path, e))?);
        }
    }

    /// Log names with the file of each, sorted.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] where the directory can't be read.
    pub fn logs(&self) -> Result<Vec<(String, PathBuf)>, StoreError> {
        let Some(directory) = self.existing(LOGS)? else { return Ok(Vec::new()) };
        let entries = fs::read_dir(&directory).map_err(|e| StoreError::io("read", &directory, e))?;
        let mut logs = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|e| StoreError::io("read", &directory, e))?;
            let name = entry.file_name().to_string_lossy().into_owned();
            logs.push((name.strip_suffix(".log").unwrap_or(&name).to_owned(), entry.path()));
        }
        logs.sort();
        Ok(logs)
    }

    /// The last `bytes` of a log, from a line's start, invalid UTF-8 replaced.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] where the file can't be read.
    pub fn log_tail(&self, path: &Path, bytes: u64) -> Result<String, StoreError> {
        use std::io::Seek;
        let mut file = files::open_below(&self.run, path)?;
        let length = file.metadata().map_err(|e| StoreError::io("read", path, e))?.len();
        let from = length.saturating_sub(bytes);
        let mut tail = Vec::new();
        file.seek(std::io::SeekFrom::Start(from))
            .and_then(|_| file.take(bytes).read_to_end(&mut tail))
            .map_err(|e| StoreError::io("read", path, e))?;
        let text = String::from_utf8_lossy(&tail);
        match text.split_once('\n') {
            Some((_, rest)) if from > 0 => Ok(rest.to_owned()),
            _ => Ok(text.into_owned()),
        }
    }
}
