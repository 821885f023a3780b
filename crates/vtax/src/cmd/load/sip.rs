//! `vtax load sip`: subscribers who register, call and write to each other.

mod mix;
mod output;
pub(super) mod script;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::PathBuf;

use anyhow::{Context, ensure};
use vtax_load::search::{Ending, Search, SearchSpec, StepOutcome};
use vtax_load::sip::{PhaseKind, SipPhase, SipProfile, SipResult, SipSession, SipSpec, answer_calls};
use vtax_load::{LatencyHistogram, LoadError, Progress, Verify};
use vtax_plan::model::ArrivalProcess;
use vtax_plan::model::{SipMetric, SipTls, SipTransport, SipWorkload, Spread};
use vtax_service::{ProvisionFormat, provision};
use vtax_units::{Bytes, CpuSet, Nanos, Rate, Share};

use self::mix::{Limit, Mix};
use super::end::{Completion, Invalid, LoadEnd};
use super::profile::Profile;
use super::signals::{ending_signals, serve_until_signal};
use super::target;
use super::tls::Offer;
use super::watch::{Show, Watch};
use crate::cmd::subscribers::SubscriberArgs;
use crate::exit::{Classify, Exit, Failure, Outcome};

/// SIP scenarios through a registrar and proxy, both sides of each call being vtax's own. With
/// --unregistered, calls to a server that answers them itself; with --uas, such a server. With --scenario-file, calls after a scenario of
/// SIPp's.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The service: HOST[:PORT]; with --uas, where to listen: the address that callers reach it at, not all addresses.
    target: Option<String>,
    /// Attempts per second, all scenarios together: a rate (`500/s`), or steps (`100/s:30s,200/s:30s`).
    #[arg(long, default_value = "10/s")]
    rate: Profile,
    /// Length of a step that has none of its own; with --scenario-file the whole recorded time, with --search of each step
    /// [default: 10s; with --scenario-file what the steps of --rate take, if they say so, and with --search 3s].
    #[arg(long)]
    duration: Option<Nanos>,
    /// Time at each step's start that doesn't count; with --scenario-file once, at the start.
    #[arg(long, default_value = "0s")]
    transient: Nanos,
    /// Longest wait for what is under way after the last step [default: five times ring and hold time, at least 5s; with
    /// --unregistered, without --ring and --hold, 30s; with --scenario-file 5s more than --pause].
    #[arg(long)]
    drain: Option<Nanos>,
    /// Shares of the scenarios: `calling=50%,messaging=50%` [default: that of the IMS benchmark].
    #[arg(long, conflicts_with = "scenario")]
    mix: Option<Mix>,
    /// One scenario alone, such as `calling`.
    #[arg(long)]
    scenario: Option<Mix>,
    /// Share of a step's attempts that may be inadequately handled; above it there is no next step. With --scenario-file for
    /// --search alone.
    #[arg(long, default_value = "10%")]
    ihs: Share,
    /// The longest that a metric may take: `ses1=2s`; may be repeated.
    #[arg(long)]
    limit: Vec<Limit>,
    /// Search the highest rate within --ihs, from --rate on.
    #[arg(long)]
    search: bool,
    /// With --search: rate that is not exceeded, 0.5/s or more.
    #[arg(long, default_value = "100k/s", requires = "search", value_parser = super::requests::highest)]
    max: Rate,
    /// With --search: how far the bounds of the answer may be apart.
    #[arg(long, default_value = "5%", requires = "search")]
    precision: Share,
    /// Gaps between attempts.
    #[arg(long, value_parser = super::requests::arrivals(), default_value = "poisson")]
    arrivals: ArrivalProcess,
    /// Call the target itself: nobody registers, and it answers the calls.
    #[arg(long, conflicts_with_all = ["mix", "uas"])]
    unregistered: bool,
    /// Answer calls until interrupted: INVITE with 180 and 200, BYE with 200.
    #[arg(long)]
    uas: bool,
    /// Write the subscribers for another server to take in; its ending says how: .csv, .sql
    /// (Kamailio, OpenSIPS), .conf (Asterisk's pjsip.conf).
    #[arg(long, value_name = "FILE")]
    provision: Option<PathBuf>,
    #[command(flatten)]
    users: Users,
    #[command(flatten)]
    call: Call,
    #[command(flatten)]
    script: script::Script,
    /// CPUs to use, one worker each [default: all this process may use].
    #[arg(long)]
    cpus: Option<CpuSet>,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print no progress.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(clap::Args)]
struct Users {
    #[command(flatten)]
    all: SubscriberArgs,
    /// Share of the subscribers registered before the first step.
    #[arg(long, default_value = "80%")]
    registered: Share,
    /// Most registrations per second before the first step; a server that is slower is given the time.
    #[arg(long, default_value = "1000/s")]
    registration_rate: Rate,
    /// Registration time asked for.
    #[arg(long, default_value = "1h")]
    expires: Nanos,
}

#[derive(clap::Args)]
struct Call {
    /// Mean time it rings [default: 1s]; exponential.
    #[arg(long)]
    ring: Option<Nanos>,
    /// Mean time a call lasts [default: 5s, with --unregistered 0s]; exponential.
    #[arg(long)]
    hold: Option<Nanos>,
    /// Transport to the service.
    #[arg(long, value_enum, default_value_t = Transport::Udp)]
    transport: Transport,
    #[command(flatten)]
    tls: Offer,
    /// Source addresses, to spread the subscribers over [default: the one that leads to the target].
    #[arg(long, value_delimiter = ',')]
    local: Vec<IpAddr>,
    /// T1 of RFC 3261, from which all timers follow.
    #[arg(long, default_value = "500ms")]
    t1: Nanos,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Transport {
    Udp,
    Tcp,
    Tls,
}

impl Transport {
    const fn model(self) -> SipTransport {
        match self {
            Self::Udp => SipTransport::Udp,
            Self::Tcp => SipTransport::Tcp,
            Self::Tls => SipTransport::Tls,
        }
    }
}

impl Call {
    /// What TLS offers, and what a server of this name or address is checked for.
    fn tls(&self, target: &str) -> anyhow::Result<(SipTls, Verify)> {
        ensure!(
            self.transport == Transport::Tls || !self.tls.is_said(),
            "--tls-version, --cipher and --authority need --transport tls"
        );
        let (version, cipher) = (self.tls.version(), self.tls.cipher.clone());
        Ok((SipTls { version, cipher, ..SipTls::default() }, self.tls.verify(host_of(target))?))
    }
}

/// The name or address in a target.
fn host_of(target: &str) -> &str {
    target::split(bare(target)).0
}

/// Ports of SIP, and of SIP over TLS (RFC 3261 section 19.1.2).
const PORT: u16 = 5060;
const TLS_PORT: u16 = 5061;
/// Text of a message, in bytes: 140 on average, as in the study.
const MESSAGE_BYTES: (Bytes, Bytes) = (Bytes(50), Bytes(230));

pub(super) fn run(args: &Args) -> Outcome {
    if let Some(path) = &args.provision {
        write_subscribers(args, path).bad_input()?;
        if args.target.is_none() && !args.uas {
            return Ok(Exit::Done);
        }
    }
    if args.uas && args.call.transport != Transport::Udp {
        return Err(anyhow::anyhow!("--uas answers calls over UDP alone: leave --transport out")).bad_input();
    }
    let path = args.script.scenario_file.as_deref();
    if path.is_some() || (args.uas && args.script.media) {
        return script::run(args, path);
    }
    if args.script.media {
        return Err(anyhow::anyhow!("--media needs a --scenario-file, or --uas")).bad_input();
    }
    if args.uas {
        return answer(args);
    }
    let target = args.target.as_deref().context("which service? give HOST[:PORT]").bad_input()?;
    let (tls, verify) = args.call.tls(target).bad_input()?;
    let target = resolve(target, args.call.transport).bad_input()?;
    let mut spec = spec(args, target)?;
    (spec.workload.tls, spec.verify) = (tls, verify);
    let profile = profile(args).bad_input()?;
    // Before the first thread, so that all have the signals blocked.
    let watch = Watch::new(args.quiet).context("preparing for Ctrl-C").host_cannot()?;
    let opened = if args.unregistered { SipSession::open_direct(&spec) } else { SipSession::open(&spec) };
    let mut session = opened?;
    if args.search {
        return search(args, &watch, &mut session, profile);
    }
    let (result, interrupted) = carry_out(&watch, &mut session, &profile)?;
    let end = LoadEnd::of(interrupted, result.doubt(&profile).map(Invalid::from));
    let shown = output::Shown { result: &result, traffic: &session.traffic(), end: &end };
    if args.json {
        shown.json(&spec, &profile)?;
    } else {
        shown.table(target)?;
    }
    Ok(end.exit())
}

fn write_subscribers(args: &Args, path: &std::path::Path) -> anyhow::Result<()> {
    let format = match path.extension().and_then(|e| e.to_str()) {
        Some("csv") => ProvisionFormat::Csv,
        Some("sql") => ProvisionFormat::Sql,
        Some("conf") => ProvisionFormat::Pjsip,
        _ => anyhow::bail!("{}: the ending must be .csv, .sql or .conf", path.display()),
    };
    let file = File::create(path).with_context(|| format!("creating {}", path.display()))?;
    let mut file = BufWriter::new(file);
    provision(&args.users.all.subscribers(), format, &mut file)
        .and_then(|()| std::io::Write::flush(&mut file))
        .with_context(|| format!("writing {}", path.display()))
}

/// A target without its scheme.
fn bare(target: &str) -> &str {
    target.strip_prefix("sip:").or_else(|| target.strip_prefix("sips:")).unwrap_or(target)
}

/// The first address a target stands for.
fn resolve(target: &str, transport: Transport) -> anyhow::Result<SocketAddr> {
    let port = if transport == Transport::Tls { TLS_PORT } else { PORT };
    target::resolve(bare(target), port).with_context(|| format!("looking up `{target}`"))
}

/// The address of this host that the kernel would send to the target from.
fn source_of(target: SocketAddr) -> anyhow::Result<IpAddr> {
    let any: SocketAddr = if target.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0_u16; 8], 0).into() };
    let found = UdpSocket::bind(any).and_then(|socket| {
        socket.connect(target)?;
        socket.local_addr()
    });
    Ok(found.with_context(|| format!("finding the way to {target}"))?.ip())
}

fn spec(args: &Args, target: SocketAddr) -> Result<SipSpec, Failure> {
    let local = if args.call.local.is_empty() {
        vec![source_of(target).host_cannot()?]
    } else {
        args.call.local.clone()
    };
    let exponential = |time: Option<Nanos>, usual: u64| {
        let usual = if args.unregistered { 0 } else { usual };
        Spread::Exponential(time.unwrap_or(Nanos::from_secs(usual)))
    };
    let mix = match (&args.mix, &args.scenario) {
        (Some(mix), _) | (_, Some(mix)) => mix.clone(),
        _ if args.unregistered => Mix::calls(),
        _ => Mix::default(),
    };
    let limits: BTreeMap<SipMetric, Nanos> = args.limit.iter().map(|l| (l.metric, l.longest)).collect();
    Ok(SipSpec {
        target,
        workload: SipWorkload {
            transport: args.call.transport.model(),
            tls: SipTls::default(),
            subscribers: args.users.all.subscribers(),
            registered: args.users.registered,
            mix: mix.parts(args.ihs),
            ring_time: exponential(args.call.ring, 1),
            hold_time: exponential(args.call.hold, 5),
            message_bytes: MESSAGE_BYTES,
            expires: args.users.expires,
            addresses: local.len() as u32,
            t1: args.call.t1,
            limits,
        },
        local,
        cpus: args.cpus.clone().unwrap_or_default(),
        seed: args.seed,
        moments: false,
        verify: Verify::Nothing,
    })
}

fn profile(args: &Args) -> anyhow::Result<SipProfile> {
    let registration = SipPhase {
        name: "pre-registration".to_owned(),
        kind: PhaseKind::PreRegistration,
        rate: args.users.registration_rate,
        transient: Nanos::ZERO,
        ihs_limit: Some(args.ihs),
        scenario_limits: false,
    };
    let mut phases = if args.unregistered { Vec::new() } else { vec![registration] };
    let usual = args.duration.unwrap_or(Nanos::from_secs(10));
    for (i, segment) in args.rate.segments.iter().enumerate() {
        ensure!(segment.from == segment.to, "steps have one rate each; a ramp is no step");
        let own = segment.duration != Nanos::ZERO;
        phases.push(SipPhase {
            name: format!("step {}", i + 1),
            kind: PhaseKind::Mix { duration: if own { segment.duration } else { usual } },
            rate: segment.from,
            transient: args.transient,
            ihs_limit: Some(args.ihs),
            scenario_limits: false,
        });
    }
    let usual = |time: Option<Nanos>, usual: u64| time.map_or(usual, |t| t.0);
    let (ring, hold) = (usual(args.call.ring, 1_000_000_000), usual(args.call.hold, 5_000_000_000));
    let drain = args.drain.unwrap_or_else(|| Nanos((5 * (ring + hold)).max(5_000_000_000)));
    Ok(SipProfile { phases, arrivals: args.arrivals, drain })
}

/// Drives the session through a profile, with a line per second.
fn carry_out(
    watch: &Watch,
    session: &mut SipSession,
    profile: &SipProfile,
) -> Result<(SipResult, bool), Failure> {
    let mut last = Progress::default();
    let line = |now: &Progress| {
        let span = now.elapsed.saturating_sub(last.elapsed);
        if span < Nanos::from_secs(1) {
            return None;
        }
        let rate = |now: u64, last: u64| (now - last) as f64 / span.as_secs_f64();
        let text = format!(
            "{:>6.1} s  {:>8.0} attempts/s  {:>8.0} ok/s  {:>6} inadequate",
            now.elapsed.as_secs_f64(),
            rate(now.sent, last.sent),
            rate(now.ok, last.ok),
            now.failed - last.failed,
        );
        last = *now;
        Some(text)
    };
    let live = |now: &Progress| {
        let under_way = now.sent.saturating_sub(now.ok + now.failed);
        format!("{} attempts, {under_way} under way, {} inadequate", now.sent, now.failed)
    };
    Ok(watch.watch(|control| session.run_profile(profile, control), Show { line, live })?)
}

fn search(args: &Args, watch: &Watch, session: &mut SipSession, mut profile: SipProfile) -> Outcome {
    let Some(step) = profile.phases.pop() else { return Ok(Exit::Done) };
    let mut interrupted = false;
    if !profile.phases.is_empty() {
        profile.phases.truncate(1);
        let (result, ended) = carry_out(watch, session, &profile)?;
        interrupted = ended;
        if let Some(phase) = result.phases.first() {
            watch.line(&output::step_line(phase));
        }
    }
    let limits = SearchSpec {
        loss_max: args.ihs,
        p99_max: None,
        precision: args.precision,
        start: args.rate.first(),
        ..SearchSpec::blind(args.max)
    };
    let mut search = Search::new(limits);
    while let Some(rate) = search.next().filter(|_| !interrupted) {
        let phase = SipPhase { rate, name: super::output::per_second(rate), ..step.clone() };
        let one = SipProfile { phases: vec![phase], ..profile.clone() };
        let (result, ended) = carry_out(watch, session, &one)?;
        interrupted = ended;
        // A step that was broken off is no step.
        let Some(phase) = result.phases.first().filter(|_| !interrupted) else { break };
        let mut all = LatencyHistogram::new();
        phase.metrics.iter().for_each(|m| all.add(&m.histogram));
        search.record(StepOutcome {
            rate,
            // A step without an attempt is no proof that the service carries the rate.
            loss: Share(if phase.scenarios.iter().all(|s| s.attempts == 0) {
                1.0
            } else {
                output::ihs(phase)
            }),
            waiting: Share(0.0),
            latency_p95: all.quantile(0.95),
            latency_p99: all.quantile(0.99),
            generator_limited: phase.generator.limited.is_some(),
        });
        watch.line(&output::step_line(phase));
    }
    let bracket = search.finish();
    if args.json {
        output::search_json(&bracket, Completion::of(interrupted))?;
    } else {
        output::search_text(&bracket, args.ihs)?;
    }
    Ok(match bracket.ending {
        _ if interrupted => Exit::Interrupted,
        Ending::GeneratorLimited => Exit::HostCannot,
        Ending::NothingPassed => Exit::Failed,
        _ => Exit::Done,
    })
}

/// `--uas`: answers calls until a signal comes.
fn answer(args: &Args) -> Outcome {
    let target = args.target.as_deref().unwrap_or("127.0.0.1:5060");
    // It speaks no TLS, but what was said of it is refused.
    args.call.tls(target).bad_input()?;
    let listen = resolve(target, Transport::Udp).bad_input()?;
    let signals = ending_signals().context("preparing for Ctrl-C").host_cannot()?;
    let answered = serve_until_signal(&signals, |stop| answer_calls(listen, stop, output::listening));
    let traffic = answered.unwrap_or_else(|payload| Err(LoadError::panicked(0, &*payload)))?;
    if args.json {
        output::traffic_json(&traffic)?;
    } else if !args.quiet {
        output::traffic(&traffic)?;
    }
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_have_a_port() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:5060"),
            ("127.0.0.1:5070", "127.0.0.1:5070"),
            ("sip:127.0.0.1", "127.0.0.1:5060"),
            ("[::1]", "[::1]:5060"),
            ("::1", "[::1]:5060"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(resolve(text, Transport::Tcp).unwrap(), address.parse().unwrap(), "{text}");
        }
        assert!(resolve("127.0.0.1:x", Transport::Udp).is_err());
        let secure = resolve("sips:127.0.0.1", Transport::Tls).unwrap();
        assert_eq!(secure, "127.0.0.1:5061".parse().unwrap());
        for (target, host) in
            [("sip:a.test:5061", "a.test"), ("[::1]:5061", "::1"), ("::1", "::1"), ("b", "b")]
        {
            assert_eq!(host_of(target), host);
        }
    }
}
