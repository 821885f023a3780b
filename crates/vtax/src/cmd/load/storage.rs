//! `vtax load storage`.

mod output;

use anyhow::Context;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::DeserializeOwned;
use vtax_load::storage::{StorageResult, StorageSession, StorageSpec, StorageStep, TargetSpec};
use vtax_load::{LoadError, Model, Progress};
use vtax_plan::model::{
    ArrivalProcess, StorageCache, StorageEngine, StorageOperation, StorageShape, StorageSync,
};
use vtax_units::{Bytes, CpuSet, Nanos, Share};

use super::end::{Invalid, LoadEnd};
use super::profile::Profile;
use super::watch::{Show, Watch};
use crate::exit::{Classify, Outcome};

/// Files and volumes: writes and reads, every read compared with what was written last. Operations are carried out one after the other,
/// on files that vtax makes and removes.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Where to: `file:PATH` (a directory, a file or a device), `iscsi://[USER[:SECRET]@]HOST[:PORT]/TARGET/LUN` or
    /// `nfs://HOST[:PORT]/PATH` (`?version=3` for NFS 3).
    target: String,
    /// What is done, in this order: write, rewrite, read, re-read, random-read, random-write, backward-read, strided-read, mix
    /// (mix-70: 70 % reads), create, list, remove.
    #[arg(long, short, value_delimiter = ',', value_parser = operation, default_value = "write,rewrite,read,re-read,random-read,random-write")]
    operations: Vec<StorageOperation>,
    /// Length of each process's file; with create, list and remove that of each small file.
    #[arg(long, default_value = "256MiB")]
    size: Bytes,
    /// Bytes of one operation.
    #[arg(long, default_value = "4KiB")]
    record: Bytes,
    /// Processes (threads), each with a file of its own.
    #[arg(long, short, default_value_t = 1)]
    processes: u32,
    /// Operations that each may have under way.
    #[arg(long, short, default_value_t = 1)]
    depth: u16,
    /// How operations reach the kernel.
    #[arg(long, value_parser = word::<StorageEngine>(&["io-uring", "psync"]), default_value = "io-uring")]
    engine: StorageEngine,
    /// Past the page cache (O_DIRECT).
    #[arg(long)]
    direct: bool,
    /// When writes are made durable: never asked for, each write (O_DSYNC), by a sync after each, by one at the end.
    #[arg(long, value_parser = word::<StorageSync>(&["none", "data", "each", "end"]), default_value = "end")]
    sync: StorageSync,
    /// What the page cache holds of the files before each operation; warm is not for --direct, which passes it by, and cold not for
    /// create, list and remove, whose names it keeps.
    #[arg(long, value_parser = word::<StorageCache>(&["cold", "warm", "as-is"]), default_value = "as-is")]
    cache: StorageCache,
    /// Open loop: operations start at this rate (of all processes), whatever earlier ones do. A rate, or steps and ramps:
    /// `1000/s:10s,1000/s..9000/s:30s`.
    #[arg(long)]
    rate: Option<Profile>,
    /// Gaps between the starts of an open loop.
    #[arg(long, value_parser = super::requests::arrivals(), default_value = "poisson")]
    arrivals: ArrivalProcess,
    /// Recorded time of each operation [default: until it has been over all records once; with --rate what its steps take, warm-up
    /// included, else 10s].
    #[arg(long)]
    duration: Option<Nanos>,
    /// Time before it that is not recorded [default: 0s; with --duration or --rate 1s].
    #[arg(long)]
    warmup: Option<Nanos>,
    /// The longest that an operation without --duration goes on.
    #[arg(long, default_value = "10m")]
    longest: Nanos,
    /// An operation that takes longer than this has failed.
    #[arg(long, default_value = "30s")]
    timeout: Nanos,
    /// Compare nothing of what is read.
    #[arg(long)]
    no_verify: bool,
    /// Share of the blocks that have the contents of others.
    #[arg(long, default_value = "0%")]
    dedupe: Share,
    /// Share of each block that is zeros.
    #[arg(long, default_value = "0%")]
    compressible: Share,
    /// Small files of each process, with create, list and remove.
    #[arg(long, default_value_t = 1_000)]
    files: u32,
    /// Overwrite this although it holds what vtax didn't write; the target's path again.
    #[arg(long, value_name = "PATH")]
    overwrite: Option<String>,
    /// Leave the files there.
    #[arg(long)]
    keep: bool,
    /// CPUs that processes are bound to in turn [default: all this process may use].
    #[arg(long)]
    cpus: Option<CpuSet>,
    /// Seed of contents, random records and gaps.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Time between two lines of progress, and length of the intervals in the result.
    #[arg(long, default_value = "1s")]
    interval: Nanos,
    /// Print the results as JSON.
    #[arg(long)]
    json: bool,
    /// Print no progress.
    #[arg(long, short)]
    quiet: bool,
}

fn operation(text: &str) -> Result<StorageOperation, String> {
    StorageOperation::from_word(text).ok_or_else(|| {
        let words: Vec<&str> =
            StorageOperation::PLAIN.iter().map(|operation| operation.plain_word()).collect();
        format!("there are {} and mix-PERCENT", words.join(", "))
    })
}

/// Reads one of the words of a type.
fn word<T: DeserializeOwned + Clone + Send + Sync + 'static>(
    words: &'static [&'static str],
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(words).try_map(|word| serde_json::from_value(serde_json::Value::String(word)))
}

impl Args {
    fn step(&self, operation: StorageOperation) -> anyhow::Result<StorageStep> {
        let model = match &self.rate {
            Some(profile) => Model::Open { arrivals: self.arrivals, profile: profile.segments.clone() },
            None => Model::Closed,
        };
        let timed = self.duration.is_some() || self.rate.is_some();
        // What is about names ends with the names.
        let once = !timed || operation.of_names();
        let warmup = self.warmup.unwrap_or(if once { Nanos::ZERO } else { Nanos::from_secs(1) });
        let duration = match (self.duration, &self.rate) {
            (Some(duration), _) => duration,
            (None, Some(profile)) => profile.recorded(warmup)?.unwrap_or(Nanos::from_secs(10)),
            (None, None) => self.longest,
        };
        let shape = StorageShape {
            processes: self.processes,
            depth: self.depth,
            engine: self.engine,
            direct: self.direct,
            sync: self.sync,
            verify: !self.no_verify,
            dedupe: self.dedupe,
            compressible: self.compressible,
            files: self.files,
            ..StorageShape::new(self.size, self.record)
        };
        Ok(StorageStep {
            model,
            warmup,
            once,
            cache: self.cache,
            seed: self.seed,
            interval: self.interval,
            ..StorageStep::new(shape, operation, duration)
        })
    }
}

/// One operation that ran.
struct Ran {
    step: StorageStep,
    result: StorageResult,
    /// Why its figures don't count, where they don't.
    invalid: Option<String>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let watch = Watch::new(args.quiet).context("preparing for Ctrl-C").host_cannot()?;
    let target = TargetSpec::from_url(&args.target, args.overwrite.as_deref())
        .map_err(anyhow::Error::msg)
        .bad_input()?;
    let spec = StorageSpec {
        target,
        cpus: args.cpus.clone().unwrap_or_default(),
        timeout: args.timeout,
        seed: args.seed,
        keep: args.keep,
    };
    let steps = args.operations.iter().map(|operation| args.step(*operation));
    let steps = steps.collect::<anyhow::Result<Vec<StorageStep>>>().bad_input()?;
    for step in &steps {
        step.check()?;
        spec.target.check_cache(step)?;
    }
    let mut session = StorageSession::open(&spec)?;
    let mut ran: Vec<Ran> = Vec::new();
    let mut interrupted = false;
    let mut worst: Option<Invalid> = None;
    for step in steps {
        let word = step.operation.word();
        let mut line = Line { word: word.clone(), interval: step.interval, last: Progress::default() };
        let show = Show { line: |p: &Progress| line.of(p), live: |p: &Progress| live(&word, p) };
        let watched = watch.watch(|control| session.run_step(&step, control), show);
        let (result, signalled) = match watched {
            // What was measured before is printed; a program is told as well that nothing was.
            Err(LoadError::Cancelled { .. }) if args.json || !ran.is_empty() => {
                interrupted = true;
                break;
            }
            other => other?,
        };
        let invalid = invalid(&step, &result);
        ran.push(Ran { step, result, invalid: invalid.as_ref().map(|invalid| invalid.why().to_owned()) });
        worst = worst.or(invalid);
        if signalled {
            interrupted = true;
            break;
        }
    }
    let end = LoadEnd::of(interrupted, worst);
    let shown = TargetSpec::shown(&args.target);
    if args.json {
        output::json(&shown, &ran, &end)?;
    } else {
        output::table(&shown, &ran, &end)?;
    }
    Ok(end.exit())
}

/// Why the figures of an operation don't count, where they don't.
fn invalid(step: &StorageStep, result: &StorageResult) -> Option<Invalid> {
    if let Some(why) = result.trouble() {
        return Some(Invalid::nothing(why));
    }
    if let Some(why) = result.cache_is_not(step) {
        return Some(Invalid::instrument(why));
    }
    let limited = result.load.generator.limited.as_ref().filter(|_| matches!(step.model, Model::Open { .. }));
    limited.map(|why| Invalid::instrument(format!("generator-limited: {why}")))
}

fn live(word: &str, progress: &Progress) -> String {
    format!("{word}: {} done, {} failed", progress.ok, progress.failed)
}

/// Makes a line of what happened in each interval.
struct Line {
    word: String,
    interval: Nanos,
    last: Progress,
}

impl Line {
    fn of(&mut self, now: &Progress) -> Option<String> {
        let lately = now.since(&self.last);
        if lately.elapsed < self.interval.max(Nanos::from_millis(200)) {
            return None;
        }
        let line = format!(
            "{:<14}{:>6.1} s  {:>9.0}/s  {:>4} failed  mean {}",
            self.word,
            now.elapsed.as_secs_f64(),
            lately.ok as f64 / lately.elapsed.as_secs_f64(),
            lately.failed,
            lately.mean_latency().map_or_else(|| "-".to_owned(), super::output::millis),
        );
        self.last = *now;
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cmd::test_args::ParseArgs;

    #[test]
    fn operations_in_steps_go_on_to_their_end() {
        let step = |words: &str| {
            let words = ["storage", "file:/data"].into_iter().chain(words.split(' '));
            let args = ParseArgs::<Args>::try_parse_from(words).unwrap().args;
            args.step(args.operations[0])
        };
        for (words, seconds) in [
            ("--rate 50/s:10s,500/s:30s", 39),
            ("--rate 50/s:10s,500/s:30s --operations create", 40),
            ("--rate 50/s:10s --duration 5s", 5),
            ("--rate 50/s", 10),
            ("--longest 20s", 20),
        ] {
            assert_eq!(step(words).unwrap().duration, Nanos::from_secs(seconds), "{words}");
        }
        assert!(step("--rate 50/s:1s").is_err());
    }
}
