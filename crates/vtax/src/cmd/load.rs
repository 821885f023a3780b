//! `vtax load`: the load engine alone, against any server.

mod net;
mod output;
mod profile;
mod sip;
mod url;
mod watch;

use std::path::PathBuf;

use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use vtax_load::http::{HttpRequests, HttpSpec};
use vtax_load::search::{Ending, Search, SearchSpec, StepOutcome, StepVerdict};
use vtax_load::{ConnectionPool, LoadError, LoadResult, Model, RequestStep, Segment};
use vtax_plan::model::Arrivals;
use vtax_units::{CpuSet, Nanos, Rate, Share};

use self::profile::Profile;
use self::url::Url;
use self::watch::{Watch, Watched};
use crate::exit::{Classify, Exit, Failure, Outcome};

/// Offer a load to any server and measure what comes back.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    protocol: Load,
}

#[derive(clap::Subcommand)]
enum Load {
    Http(Box<HttpArgs>),
    Sip(Box<sip::Args>),
    Tcp(Box<net::TcpArgs>),
    Udp(Box<net::UdpArgs>),
    Rr(Box<net::RrArgs>),
    Ping(Box<net::PingArgs>),
}

/// HTTP/1.1 GET requests: an open loop with --rate, a closed loop with --connections alone.
#[derive(clap::Args)]
#[group(id = "load", multiple = true, required = true, args = ["rate", "connections", "search"])]
struct HttpArgs {
    /// What to get: http://HOST[:PORT][/PATH].
    url: Url,
    /// Open loop: requests start at this rate, whatever the answers do. A rate (`5000/s`), or
    /// steps and ramps: `1000/s:10s,1000/s..9000/s:30s`. The last rate holds to the end.
    #[arg(long)]
    rate: Option<Profile>,
    /// Connections: with --rate the most at once [default: 1024], else how many send one request
    /// after another.
    #[arg(long)]
    connections: Option<u32>,
    /// Recorded time; with --search, of each step [default: 10s, with --search 3s].
    #[arg(long)]
    duration: Option<Nanos>,
    /// Time before it that is not recorded.
    #[arg(long, default_value = "1s")]
    warmup: Nanos,
    /// Gaps between requests of an open loop.
    #[arg(long, value_parser = arrivals(), default_value = "poisson")]
    arrivals: Arrivals,
    /// Close each connection after this many requests; 1: a connection per request.
    #[arg(long)]
    requests_per_connection: Option<u32>,
    /// A request not answered this long after its intended start has failed.
    #[arg(long, default_value = "5s")]
    timeout: Nanos,
    /// CPUs to use, one worker each [default: all this process may use].
    #[arg(long)]
    cpus: Option<CpuSet>,
    /// Seed of the arrival process.
    #[arg(long, default_value_t = 1)]
    seed: u64,
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
    /// With --search: limit of the 99th percentile of latency.
    #[arg(long, requires = "search")]
    p99: Option<Nanos>,
    /// With --search: rate that is not exceeded.
    #[arg(long, default_value = "1M/s", requires = "search")]
    max: Rate,
    /// With --search: how far the bounds of the answer may be apart.
    #[arg(long, default_value = "5%", requires = "search")]
    precision: Share,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print no progress.
    #[arg(long, short)]
    quiet: bool,
}

/// Reads an arrival process.
fn arrivals() -> impl TypedValueParser<Value = Arrivals> {
    let word = |arrivals: Arrivals| PossibleValue::new(arrivals.word()).help(arrivals.to_string());
    let parser = PossibleValuesParser::new(Arrivals::ALL.map(word));
    parser.try_map(|word| Arrivals::ALL.into_iter().find(|a| a.word() == word).ok_or("no arrival process"))
}

/// What is asked for: a load and its step, or the model of a search's steps.
#[derive(Clone)]
struct HttpLoad {
    spec: HttpSpec,
    step: RequestStep,
}

/// Connections of the closed loop that tells a search where to begin.
const HINT_CONNECTIONS: u32 = 64;
const HINT_DURATION: Nanos = Nanos::from_millis(1_000);
const HINT_WARMUP: Nanos = Nanos::from_millis(300);

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.protocol {
        Load::Http(args) => run_http(args),
        Load::Sip(args) => sip::run(args),
        Load::Tcp(args) => net::tcp(args),
        Load::Udp(args) => net::udp(args),
        Load::Rr(args) => net::rr(args),
        Load::Ping(args) => net::ping(args),
    }
}

fn run_http(args: &HttpArgs) -> Outcome {
    let load = http_load(args)?;
    // Before the first thread, so that all have the signals blocked.
    let watch = Watch::new(args.quiet).context("preparing for Ctrl-C")?;
    if args.search { search(args, &load, &watch) } else { once(args, &load, &watch) }
}

fn http_load(args: &HttpArgs) -> Result<HttpLoad, Failure> {
    let target = args.url.resolve().host_cannot()?;
    let model = match &args.rate {
        Some(profile) => Model::Open { arrivals: args.arrivals.into(), profile: profile.segments.clone() },
        None => Model::Closed,
    };
    let open = args.rate.is_some() || args.search;
    let load = HttpLoad {
        spec: HttpSpec {
            pool: ConnectionPool {
                target,
                connections: args.connections.unwrap_or(if open { 1024 } else { HINT_CONNECTIONS }),
                timeout: args.timeout,
                cpus: args.cpus.clone().unwrap_or_default(),
            },
            requests: HttpRequests {
                target: args.url.path.clone(),
                host: args.url.host_field(),
                requests_per_connection: args.requests_per_connection,
            },
        },
        step: RequestStep {
            model,
            warmup: args.warmup,
            duration: args.duration.unwrap_or(Nanos::from_secs(if args.search { 3 } else { 10 })),
            seed: args.seed,
            samples: args.samples_out.is_some(),
            interval: args.interval,
        },
    };
    load.spec.check().and_then(|()| load.step.check()).map_err(anyhow::Error::from).bad_input()?;
    Ok(load)
}

/// Sorts the engine's errors by whose fault they are.
fn carry_out(watch: &Watch, load: &HttpLoad) -> Result<Watched, Failure> {
    watch.run(&load.spec, &load.step).map_err(failure)
}

fn failure(error: LoadError) -> Failure {
    let exit = match error {
        LoadError::Spec { .. } => Exit::BadInput,
        LoadError::Cancelled { .. } => Exit::Interrupted,
        LoadError::System { .. } | LoadError::Worker { .. } => Exit::HostCannot,
        LoadError::Panicked { .. } | LoadError::Encode { .. } => Exit::Bug,
    };
    Failure { exit, error: error.into() }
}

fn once(args: &HttpArgs, load: &HttpLoad, watch: &Watch) -> Outcome {
    // Asked for first: a file that can't be written should not cost a measurement.
    let samples = match &args.samples_out {
        Some(path) => Some(output::Samples::create(path).bad_input()?),
        None => None,
    };
    let watched = carry_out(watch, load)?;
    if let Some(samples) = samples {
        samples.write(&watched.result.samples).host_cannot()?;
    }
    if args.json {
        output::json(&args.url, load, &watched.result)?;
    } else {
        output::table(&args.url, load, &watched.result)?;
    }
    Ok(if watched.interrupted { Exit::Interrupted } else { Exit::Done })
}

fn search(args: &HttpArgs, load: &HttpLoad, watch: &Watch) -> Outcome {
    let limits = SearchSpec {
        loss_max: args.loss,
        p99_max: args.p99,
        precision: args.precision,
        ..SearchSpec::blind(args.max)
    };
    let start = match &args.rate {
        Some(profile) => SearchSpec { start: profile.first(), ..limits },
        None => {
            let mut closed = load.clone();
            closed.spec.pool.connections = HINT_CONNECTIONS.min(load.spec.pool.connections);
            closed.step = RequestStep {
                model: Model::Closed,
                warmup: HINT_WARMUP,
                duration: HINT_DURATION,
                interval: HINT_DURATION,
                ..closed.step
            };
            let closed = carry_out(watch, &closed)?.result;
            watch.line(&format!("closed loop: {:.0}/s, searching from there", closed.throughput().0));
            limits.near_closed_loop(&closed)
        }
    };
    let mut interrupted = false;
    let bracket = Search::new(start).over_requests(
        |rate| {
            let watched = carry_out(watch, &at_rate(args, load, rate))?;
            interrupted |= watched.interrupted;
            Ok::<_, Failure>((watched.result, watched.interrupted))
        },
        |outcome, verdict, result| watch.line(&step_line(outcome, verdict, result)),
    )?;
    if args.json {
        output::search_json(&args.url, &bracket)?;
    } else {
        output::search_text(&bracket, args.p99, args.loss)?;
    }
    Ok(match bracket.ending {
        _ if interrupted => Exit::Interrupted,
        Ending::GeneratorLimited => Exit::HostCannot,
        _ => Exit::Done,
    })
}

fn at_rate(args: &HttpArgs, load: &HttpLoad, rate: Rate) -> HttpLoad {
    let profile = vec![Segment { from: rate, to: rate, duration: load.step.duration }];
    let model = Model::Open { arrivals: args.arrivals.into(), profile };
    HttpLoad { spec: load.spec.clone(), step: RequestStep { model, ..load.step.clone() } }
}

fn step_line(outcome: &StepOutcome, verdict: StepVerdict, result: &LoadResult) -> String {
    let word = match verdict {
        StepVerdict::Passed => "passed",
        StepVerdict::Failed => "failed",
        StepVerdict::GeneratorLimited => "generator-limited",
    };
    let why = result.generator.limited.as_deref().map(|why| format!(" ({why})")).unwrap_or_default();
    format!(
        "{:>10.0}/s  {word}: {:.2} % lost, p99 {}{why}",
        outcome.rate.0,
        100.0 * outcome.loss.0,
        output::millis(outcome.latency_p99),
    )
}
