//! Loads of requests and answers, whichever family they are of: the options they share, one step, and the search.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vtax_load::search::{Bracket, Ending, Search, SearchSpec, StepOutcome, StepVerdict};
use vtax_load::{ConnectionPool, Control, Doubt, LoadResult, Model, RequestStep, Segment};
use vtax_plan::model::{ArrivalProcess, CapacityMeasure};
use vtax_units::{CpuSet, Nanos, Rate, Share};

use super::end::{Completion, Invalid, LoadEnd};
use super::profile::Profile;
use super::request_load::{RequestLoad, RequestSpec};
use super::watch::{Watch, Watched};
use super::{httperf, output};
use crate::exit::{Classify, Exit, Failure, Outcome};

/// Options of every load of requests: an open loop with --rate, a closed loop with --connections alone.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("load").multiple(true).required(true).args(["rate", "connections", "search"])))]
pub(super) struct RequestArgs {
    /// Open loop: requests start at this rate, whatever the answers do. A rate (`5000/s`), or
    /// steps and ramps: `1000/s:10s,1000/s..9000/s:30s`. The last rate holds to the end.
    #[arg(long)]
    rate: Option<Profile>,
    /// Connections: with --rate the most at once [default: 1024], else how many send one request
    /// after another.
    #[arg(long)]
    pub(super) connections: Option<u32>,
    /// Recorded time; with --search, of each step [default: what the steps of --rate take, warm-up included; else 10s,
    /// with --search 3s].
    #[arg(long)]
    duration: Option<Nanos>,
    /// Time before it that is not recorded; the steps of --rate begin with it.
    #[arg(long, default_value = "1s")]
    warmup: Nanos,
    /// Gaps between requests of an open loop.
    #[arg(long, value_parser = arrivals(), default_value = "poisson")]
    arrivals: ArrivalProcess,
    /// A request not answered this long after its intended start has failed.
    #[arg(long, default_value = "2s")]
    timeout: Nanos,
    /// CPUs to use, one worker each [default: all this process may use].
    #[arg(long)]
    cpus: Option<CpuSet>,
    /// Seed of the arrival process.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Time between two lines of progress, and length of the intervals in the result.
    #[arg(long, default_value = "1s")]
    interval: Nanos,
    /// Write every recorded request to this CSV file.
    #[arg(long, value_name = "FILE", conflicts_with = "search")]
    samples_out: Option<PathBuf>,
    /// Search the highest rate within the limits, from --rate if given.
    #[arg(long)]
    search: bool,
    /// With --search: share of requests that may fail.
    #[arg(long, default_value = "1%", requires = "search")]
    loss: Share,
    /// With --search: limit of the 99th percentile of latency. Without a limit of latency, what has no answer a second after a step's end is
    /// lost, and so is what the service falls behind by within a step.
    #[arg(long, requires = "search")]
    p99: Option<Nanos>,
    /// With --search: limit of the 95th percentile of latency.
    #[arg(long, requires = "search")]
    p95: Option<Nanos>,
    /// With --search: rate that is not exceeded, 0.5/s or more.
    #[arg(long, default_value = "1M/s", requires = "search", value_parser = highest)]
    max: Rate,
    /// With --search: how far the bounds of the answer may be apart.
    #[arg(long, default_value = "5%", requires = "search")]
    precision: Share,
    /// Print the result as JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Print the result in another program's form.
    #[arg(long, value_enum, conflicts_with_all = ["json", "search"])]
    format: Option<Format>,
    /// Print no progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Another program's form of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// That of httperf.
    Httperf,
}

/// What a load of requests asks for, whichever command's options say so.
pub(super) struct RequestOptions {
    /// An open loop's rate; `None`: a closed loop, or a search that finds for itself where to begin.
    pub(super) rate: Option<Profile>,
    /// Recorded time; `None`: what the steps of the rate take, or the usual time.
    pub(super) duration: Option<Nanos>,
    /// Time before it that is not recorded.
    pub(super) warmup: Nanos,
    /// Gaps between requests of an open loop.
    pub(super) arrivals: ArrivalProcess,
    /// How long what is under way at the end is waited for.
    pub(super) drain: Nanos,
    /// Seed of the arrival process.
    pub(super) seed: u64,
    /// Length of the intervals in the result.
    pub(super) interval: Nanos,
    /// The file that every recorded request is written to.
    pub(super) samples_out: Option<PathBuf>,
    /// The limits within which the highest rate is searched; `None`: one step.
    pub(super) search: Option<SearchLimits>,
    /// How the result is printed.
    pub(super) form: ResultForm,
    /// Whether no progress is printed.
    pub(super) quiet: bool,
}

/// Within which limits the highest rate is searched.
pub(super) struct SearchLimits {
    /// Share of requests that may fail.
    pub(super) loss: Share,
    /// Limit of the 99th percentile of latency.
    pub(super) p99: Option<Nanos>,
    /// Limit of the 95th percentile of latency.
    pub(super) p95: Option<Nanos>,
    /// Rate that is not exceeded.
    pub(super) max: Rate,
    /// How far the bounds of the answer may be apart.
    pub(super) precision: Share,
    /// As [`SearchSpec::settle`].
    pub(super) settle: Nanos,
}

/// How a result is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ResultForm {
    /// For people.
    Table,
    /// For programs.
    Json,
    /// As httperf prints it.
    Httperf,
}

/// Reads an arrival process.
pub(super) fn arrivals() -> impl TypedValueParser<Value = ArrivalProcess> {
    let word = |arrivals: ArrivalProcess| PossibleValue::new(arrivals.word()).help(arrivals.to_string());
    let parser = PossibleValuesParser::new(ArrivalProcess::ALL.map(word));
    parser.try_map(|word| {
        ArrivalProcess::ALL.into_iter().find(|a| a.word() == word).ok_or("no arrival process")
    })
}

/// Reads the highest rate of a search.
pub(super) fn highest(text: &str) -> Result<Rate, String> {
    let least = CapacityMeasure::LEAST_RATE;
    match text.parse::<Rate>() {
        Ok(rate) if rate < least => Err(format!("a search tries no rate below {least}; give that or more")),
        parsed => parsed.map_err(|error| error.to_string()),
    }
}

/// Recorded time where none is given and the rate has no end.
const DURATION: Nanos = Nanos::from_secs(10);
/// Recorded time of each step of a search, where none is given.
const SEARCH_DURATION: Nanos = Nanos::from_secs(3);
/// Connections of the closed loop that tells a search where to begin.
const HINT_CONNECTIONS: u32 = 64;
const HINT_DURATION: Nanos = Nanos::from_millis(1_000);
const HINT_WARMUP: Nanos = Nanos::from_millis(300);

impl RequestArgs {
    /// Whether the form of the result has what only a closer look finds.
    pub(super) const fn wants_details(&self) -> bool {
        self.format.is_some()
    }

    /// The load that they ask for.
    pub(super) fn options(&self) -> RequestOptions {
        let limits = SearchLimits {
            loss: self.loss,
            p99: self.p99,
            p95: self.p95,
            max: self.max,
            precision: self.precision,
            settle: self.warmup,
        };
        RequestOptions {
            rate: self.rate.clone(),
            duration: self.duration,
            warmup: self.warmup,
            arrivals: self.arrivals,
            // A request that is under way for longer has failed.
            drain: self.timeout,
            seed: self.seed,
            interval: self.interval,
            samples_out: self.samples_out.clone(),
            search: self.search.then_some(limits),
            form: match self.format {
                _ if self.json => ResultForm::Json,
                Some(Format::Httperf) => ResultForm::Httperf,
                None => ResultForm::Table,
            },
            quiet: self.quiet,
        }
    }

    /// The connections that these options ask for.
    pub(super) fn pool(&self, target: std::net::SocketAddr) -> ConnectionPool {
        let open = self.rate.is_some() || self.search;
        ConnectionPool {
            target,
            connections: self.connections.unwrap_or(if open { 1024 } else { HINT_CONNECTIONS }),
            timeout: self.timeout,
            cpus: self.cpus.clone().unwrap_or_default(),
        }
    }
}

impl RequestOptions {
    /// How long is recorded: a load in steps that is given no time goes on to their end.
    fn recorded(&self) -> anyhow::Result<Nanos> {
        match (self.duration, &self.rate) {
            (Some(duration), _) => Ok(duration),
            (None, _) if self.search.is_some() => Ok(SEARCH_DURATION),
            (None, Some(profile)) => Ok(profile.recorded(self.warmup)?.unwrap_or(DURATION)),
            (None, None) => Ok(DURATION),
        }
    }

    fn step(&self) -> anyhow::Result<RequestStep> {
        let model = match &self.rate {
            Some(profile) => Model::Open { arrivals: self.arrivals, profile: profile.segments.clone() },
            None => Model::Closed,
        };
        Ok(RequestStep {
            model,
            warmup: self.warmup,
            duration: self.recorded()?,
            seed: self.seed,
            samples: self.samples_out.is_some(),
            interval: self.interval,
            drain: self.drain,
        })
    }

    /// Carries out the load and prints its result.
    pub(super) fn run(&self, target: String, spec: impl RequestSpec) -> Outcome {
        let load = RequestLoad { target, spec, step: self.step().bad_input()? };
        load.spec.check().and_then(|()| load.step.check()).map_err(anyhow::Error::from).bad_input()?;
        // Before the first thread, so that all have the signals blocked.
        let watch = Watch::new(self.quiet).context("preparing for Ctrl-C").host_cannot()?;
        match &self.search {
            Some(limits) => search(self, limits, &load, &watch),
            None => once(self, &load, &watch),
        }
    }
}

/// Opens the load and carries out its step.
fn carry_out<S: RequestSpec>(watch: &Watch, load: &RequestLoad<S>) -> Result<Watched, Failure> {
    let session = open(watch, &load.spec)?;
    step::<S>(watch, &session, &load.step)
}

/// Opens the load; where that takes its time, a signal ends it.
fn open<S: RequestSpec>(watch: &Watch, spec: &S) -> Result<S::Session, Failure> {
    Ok(match spec.opening() {
        Some(doing) => watch.open(&doing, |control| spec.open(control))?,
        None => spec.open(&Control::new())?,
    })
}

fn step<S: RequestSpec>(watch: &Watch, session: &S::Session, step: &RequestStep) -> Result<Watched, Failure> {
    Ok(watch.run(step, |control| S::run(session, step, control))?)
}

fn once<S: RequestSpec>(options: &RequestOptions, load: &RequestLoad<S>, watch: &Watch) -> Outcome {
    // Asked for first: a file that can't be written should not cost a measurement.
    let samples = match &options.samples_out {
        Some(path) => Some(output::Samples::create(path).bad_input()?),
        None => None,
    };
    let watched = match carry_out(watch, load) {
        Err(failure) if options.form == ResultForm::Json && failure.exit() == Exit::Interrupted => {
            output::json(load, None, &LoadEnd::before_anything(&failure))?;
            return Ok(Exit::Interrupted);
        }
        watched => watched?,
    };
    if let Some(samples) = samples {
        samples.write(&watched.result.samples).host_cannot()?;
    }
    let end = LoadEnd::of(watched.interrupted, watched.result.doubt().map(Invalid::from));
    match options.form {
        ResultForm::Table => output::table(load, &watched.result, &end)?,
        ResultForm::Json => output::json(load, Some(&watched.result), &end)?,
        ResultForm::Httperf => {
            let text = httperf::text(&watched.result, load.spec.pool().connections);
            crate::out::text(&(text + &end.lines()))?;
        }
    }
    Ok(end.exit())
}

fn search<S: RequestSpec>(
    options: &RequestOptions,
    limits: &SearchLimits,
    load: &RequestLoad<S>,
    watch: &Watch,
) -> Outcome {
    let spec = SearchSpec {
        loss_max: limits.loss,
        p99_max: limits.p99,
        p95_max: limits.p95,
        precision: limits.precision,
        settle: limits.settle,
        ..SearchSpec::blind(limits.max)
    };
    let start = match &options.rate {
        Some(profile) => Some(SearchSpec { start: profile.first(), ..spec }),
        None => near_closed_loop(load, watch, spec)?,
    };
    let (bracket, interrupted) = match start {
        Some(start) => steps(options.arrivals, load, watch, start)?,
        None => (Search::new(spec).finish(), true),
    };
    if options.form == ResultForm::Json {
        output::search_json(&load.target, &bracket, Completion::of(interrupted))?;
    } else {
        output::search_text(&bracket, (limits.p95, limits.p99), limits.loss)?;
    }
    Ok(match bracket.ending {
        _ if interrupted => Exit::Interrupted,
        Ending::GeneratorLimited => Exit::HostCannot,
        Ending::NothingPassed => Exit::Failed,
        _ => Exit::Done,
    })
}

/// Where a search begins for which no rate is given; `None` where it was interrupted.
fn near_closed_loop<S: RequestSpec>(
    load: &RequestLoad<S>,
    watch: &Watch,
    limits: SearchSpec,
) -> Result<Option<SearchSpec>, Failure> {
    let mut closed = load.clone();
    let pool = closed.spec.pool_mut();
    pool.connections = HINT_CONNECTIONS.min(pool.connections);
    closed.step = RequestStep {
        model: Model::Closed,
        warmup: HINT_WARMUP,
        duration: HINT_DURATION,
        interval: HINT_DURATION,
        ..closed.step
    };
    let Some(closed) = uninterrupted(carry_out(watch, &closed))? else { return Ok(None) };
    if let Some(Doubt::NothingSucceeded(why)) = closed.doubt() {
        return Err(Failure::new(Exit::Failed, anyhow::anyhow!("nothing to search: {why}")));
    }
    watch.line(&format!("closed loop: {}, searching from there", output::per_second(closed.throughput())));
    Ok(Some(limits.near_closed_loop(&closed)))
}

/// Searches from there; what was found, and whether it was interrupted.
fn steps<S: RequestSpec>(
    arrivals: ArrivalProcess,
    load: &RequestLoad<S>,
    watch: &Watch,
    start: SearchSpec,
) -> Result<(Bracket, bool), Failure> {
    let Some(session) = unless_interrupted(open(watch, &load.spec))? else {
        return Ok((Search::new(start).finish(), true));
    };
    let mut interrupted = false;
    let bracket = Search::new(start).over_requests(
        |rate| {
            let at_rate = RequestStep { drain: start.drain(), ..at_rate(arrivals, &load.step, rate) };
            let result = uninterrupted(step::<S>(watch, &session, &at_rate))?;
            interrupted = result.is_none();
            Ok::<_, Failure>(result)
        },
        |outcome, verdict, result| watch.line(&step_line(outcome, verdict, result)),
    )?;
    Ok((bracket, interrupted))
}

/// The result of a load that went on to its end.
fn uninterrupted(watched: Result<Watched, Failure>) -> Result<Option<LoadResult>, Failure> {
    let watched = unless_interrupted(watched)?.filter(|watched| !watched.interrupted);
    Ok(watched.map(|watched| watched.result))
}

/// What was done, if a signal didn't end it before.
fn unless_interrupted<T>(done: Result<T, Failure>) -> Result<Option<T>, Failure> {
    match done {
        Err(failure) if failure.exit() == Exit::Interrupted => Ok(None),
        done => done.map(Some),
    }
}

fn at_rate(arrivals: ArrivalProcess, step: &RequestStep, rate: Rate) -> RequestStep {
    let profile = vec![Segment { from: rate, to: rate, duration: step.duration }];
    let model = Model::Open { arrivals, profile };
    RequestStep { model, ..step.clone() }
}

fn step_line(outcome: &StepOutcome, verdict: StepVerdict, result: &LoadResult) -> String {
    let word = match verdict {
        StepVerdict::Passed => "passed",
        StepVerdict::Failed => "failed",
        StepVerdict::GeneratorLimited => "generator-limited",
    };
    let why = result.generator.limited.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
    let waiting = match result.counts.waiting {
        0 => String::new(),
        waiting => format!(", {waiting} without an answer at its end"),
    };
    format!(
        "{:>12}  {word}: {:.2} % lost, p99 {}{waiting}{why}",
        output::per_second(outcome.rate),
        100.0 * outcome.loss.0,
        output::figure(&result.latency, output::millis(outcome.latency_p99)),
    )
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cmd::test_args::ParseArgs;

    #[test]
    fn a_load_in_steps_goes_on_to_their_end() {
        let step = |words: &str| {
            ParseArgs::<RequestArgs>::try_parse_from(["load"].into_iter().chain(words.split(' ')))
                .unwrap()
                .args
                .options()
                .step()
        };
        for (words, seconds) in [
            ("--rate 50/s:10s,500/s:30s", 39),
            ("--rate 50/s:10s,50/s..500/s:30s --warmup 0s", 40),
            ("--rate 50/s:10s,500/s:30s --duration 5s", 5),
            ("--rate 50/s:10s,500/s:30s --search", 3),
            ("--rate 50/s", 10),
            ("--connections 2", 10),
        ] {
            assert_eq!(step(words).unwrap().duration, Nanos::from_secs(seconds), "{words}");
        }
        assert!(step("--rate 50/s:1s").is_err());
    }

    #[test]
    fn a_highest_rate_below_all_that_are_tried_is_refused() {
        assert_eq!((highest("0.5/s"), highest("1M/s")), (Ok(Rate(0.5)), Ok(Rate(1e6))));
        let low = highest("0.4/s").unwrap_err();
        assert_eq!(low, "a search tries no rate below 0.5/s; give that or more");
        assert!(highest("fast").is_err());
    }
}
