//! `vtax load sip --scenario-file`: calls after a scenario of SIPp's.

use std::fmt::{self, Write as _};
use std::io::Read as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use vtax_load::sip::{
    CommandCounts, MediaOptions, ScriptFigures, ScriptSession, ScriptSettings, ScriptSpec, SoundDirection,
    SoundFigures, answer_script, answering,
};
use vtax_load::{ConnectionPool, Control, LoadError, LoadResult, Part, RequestStep, Verify};
use vtax_plan::model::SipTls;
use vtax_units::Nanos;

use super::super::network::Codec;
use super::super::output::millis;
use super::super::request_load::RequestSpec;
use super::super::requests::{RequestOptions, ResultForm, SearchLimits};
use super::super::signals::{ending_signals, serve_until_signal};
use super::{Args, output, resolve, source_of};
use crate::cmd::subscribers::first_line;
use crate::exit::{Classify, Exit, Failure, Outcome};
use crate::out;

/// Longest injection file, as the engine has it.
const FILE_MAX: u64 = 64 << 20;
/// How long a message is waited for that has no timeout of its own: by who calls, and by who answers. A call's other end says when it is
/// over, and SIPp's servers wait for ever.
const RECV_TIMEOUT: Nanos = Nanos::from_secs(10);
const UAS_RECV_TIMEOUT: Nanos = Nanos::from_secs(24 * 3600);

/// A scenario of SIPp's.
#[derive(clap::Args)]
pub(super) struct Script {
    /// Calls after a scenario of SIPp's, an XML file; with --uas, calls are answered after it. Whatever isn't supported in it is named with
    /// its line before anything is sent.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["mix", "scenario", "unregistered", "provision", "limit"])]
    pub(super) scenario_file: Option<PathBuf>,
    /// With --scenario-file: an injection file; may be repeated. The first is that of `[field0]`.
    #[arg(long, value_name = "FILE", requires = "scenario_file")]
    inf: Vec<PathBuf>,
    /// With --scenario-file: what `[NAME]` stands for; may be repeated.
    #[arg(long, value_name = "NAME=VALUE", requires = "scenario_file")]
    key: Vec<String>,
    /// With --scenario-file: what `[service]` stands for.
    #[arg(long, default_value = "service", requires = "scenario_file")]
    service: String,
    /// With --scenario-file: length of `<pause/>`.
    #[arg(long, default_value = "0s", requires = "scenario_file")]
    pause: Nanos,
    /// With --scenario-file: how long a message is waited for that has no timeout of its own [default: 10s; with --uas a day].
    #[arg(long, requires = "scenario_file")]
    recv_timeout: Option<Nanos>,
    /// With --scenario-file and --transport tcp or tls: a connection for each call [default: calls of a worker and a source address share
    /// one].
    #[arg(long, requires = "scenario_file")]
    connection_per_call: bool,
    /// With --connection-per-call and --transport tls: connections don't resume sessions of earlier ones.
    #[arg(long, requires = "connection_per_call")]
    no_resume: bool,
    /// With --scenario-file or --media: most calls at once.
    #[arg(long, default_value_t = 10_000)]
    calls: u32,
    /// With --scenario-file: user of `[authentication]` where the scenario names none [default: the service].
    #[arg(long, requires = "scenario_file")]
    auth_user: Option<String>,
    /// With --scenario-file: password of `[authentication]` where the scenario names none [default: password]. Others see it in the list of
    /// processes; --auth-password-file hides it.
    #[arg(long, requires = "scenario_file", conflicts_with = "auth_password_file")]
    auth_password: Option<String>,
    /// With --scenario-file: a file whose first line is that password.
    #[arg(long, value_name = "FILE", requires = "scenario_file", value_parser = first_line)]
    auth_password_file: Option<String>,
    /// With --scenario-file: the first `[media_port]`; with --media, the first that is tried for a call.
    #[arg(long, default_value_t = 6000)]
    media_port: u16,
    /// Calls have sound: G.711 in both directions, from when they are answered to their BYE. With --scenario-file or --uas.
    #[arg(long)]
    pub(super) media: bool,
    /// With --media: this end answers calls too, at an address that `[callee]` stands for in the scenario: the service is between both.
    #[arg(long, requires = "media", conflicts_with = "uas")]
    callees: bool,
    /// With --media: how this end codes sound where the other takes both.
    #[arg(long, value_enum, default_value_t = Codec::Pcmu, requires = "media")]
    codec: Codec,
    /// With --media: sound in each packet, where the other end doesn't ask for another length: 10ms, 20ms, 30ms or 40ms.
    #[arg(long, default_value = "20ms", requires = "media")]
    packet: Nanos,
    /// With --media: how long sound waits before it is played; what comes later isn't heard.
    #[arg(long, default_value = "60ms", requires = "media")]
    jitter_buffer: Nanos,
}

impl Script {
    /// How calls sound, where they do.
    fn media(&self) -> Option<MediaOptions> {
        self.media.then(|| MediaOptions {
            law: self.codec.law(),
            packet: self.packet,
            jitter_buffer: self.jitter_buffer,
        })
    }

    /// How long a message is waited for that has no timeout of its own, where this end answers calls or makes them.
    fn timeout(&self, answers: bool) -> Nanos {
        self.recv_timeout.unwrap_or(if answers { UAS_RECV_TIMEOUT } else { RECV_TIMEOUT })
    }
}

/// Carries the scenario out; calls with sound are answered after vtax's own where there is none.
pub(super) fn run(args: &Args, path: Option<&Path>) -> Outcome {
    let usual = if args.uas { Some("127.0.0.1:5060") } else { None };
    let target = args.target.as_deref().or(usual).context("which service? give HOST[:PORT]").bad_input()?;
    let address = resolve(target, args.call.transport).bad_input()?;
    let mut spec = spec(args, path, address)?;
    let (tls, verify) = args.call.tls(target).bad_input()?;
    spec.tls = SipTls { resume: !args.script.no_resume, ..tls };
    spec.verify = verify;
    if args.uas {
        return answer(args, &spec);
    }
    let limits = SearchLimits {
        loss: args.ihs,
        p99: None,
        p95: None,
        max: args.max,
        precision: args.precision,
        // What is timed may be a part of a call, and calls pause.
        settle: Nanos::ZERO,
    };
    let options = RequestOptions {
        rate: Some(args.rate.clone()),
        duration: args.duration,
        warmup: args.transient,
        arrivals: args.arrivals,
        drain: spec.settings.drain,
        seed: args.seed,
        interval: Nanos::from_secs(1),
        samples_out: None,
        search: args.search.then_some(limits),
        form: if args.json { ResultForm::Json } else { ResultForm::Table },
        quiet: args.quiet,
    };
    options.run(format!("sip:{address}"), spec)
}

fn spec(args: &Args, path: Option<&Path>, target: SocketAddr) -> Result<ScriptSpec, Failure> {
    let local = match args.call.local.is_empty() {
        // Calls are answered from where they come to.
        true if args.uas => vec![target.ip()],
        true => vec![source_of(target).host_cannot()?],
        false => args.call.local.clone(),
    };
    let script = &args.script;
    let settings = ScriptSettings {
        file: path.map(|path| path.display().to_string()).unwrap_or_default(),
        service: script.service.clone(),
        pause: script.pause,
        drain: args.drain.unwrap_or(Nanos(script.pause.0.saturating_add(5_000_000_000))),
        user: script.auth_user.clone().unwrap_or_else(|| script.service.clone()),
        keys: script.key.iter().map(|key| key_of(key)).collect::<Result<_>>().bad_input()?,
        media_port: script.media_port,
        media: script.media(),
        callees: script.callees,
    };
    let scenario = match (path, &settings.media) {
        (Some(path), _) => read(path).bad_input()?,
        (None, Some(media)) => answering(media),
        (None, None) => String::new(),
    };
    let injections = script.inf.iter().map(|path| -> Result<(String, String)> {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Ok((name, read(path)?))
    });
    Ok(ScriptSpec {
        pool: ConnectionPool {
            target,
            connections: script.calls,
            timeout: script.timeout(args.uas),
            cpus: args.cpus.clone().unwrap_or_default(),
        },
        settings,
        scenario,
        injections: injections.collect::<Result<_>>().bad_input()?,
        password: password(script),
        local,
        transport: args.call.transport.model(),
        tls: SipTls::default(),
        verify: Verify::Nothing,
        connection_per_call: script.connection_per_call,
        seed: args.seed,
        part: Part::default(),
    })
}

/// The password of `[authentication]`.
fn password(script: &Script) -> String {
    let given = script.auth_password_file.as_ref().or(script.auth_password.as_ref());
    given.map_or_else(|| ScriptSpec::PASSWORD.to_owned(), String::clone)
}

fn key_of(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').with_context(|| format!("`{text}` isn't NAME=VALUE"))?;
    ensure!(!name.is_empty(), "`{text}` names no keyword");
    Ok((name.to_owned(), value.to_owned()))
}

/// The text of a file. SIPp's own say that they are ISO-8859-1.
fn read(path: &Path) -> Result<String> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).with_context(|| format!("opening {}", path.display()))?;
    file.take(FILE_MAX + 1).read_to_end(&mut bytes).with_context(|| format!("reading {}", path.display()))?;
    ensure!(bytes.len() as u64 <= FILE_MAX, "{} is longer than {FILE_MAX} bytes", path.display());
    Ok(match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => error.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
    })
}

/// Answers calls until a signal comes.
fn answer(args: &Args, spec: &ScriptSpec) -> Outcome {
    let signals = ending_signals().context("preparing for Ctrl-C").host_cannot()?;
    let answered = serve_until_signal(&signals, |stop| answer_script(spec, stop, output::listening));
    let figures = answered.unwrap_or_else(|payload| Err(LoadError::panicked(0, &*payload)))?;
    if args.json {
        out::json(&figures)?;
    } else if !args.quiet {
        let mut text = String::new();
        put_details(&mut text, &figures).context("writing the result")?;
        out::text(&text)?;
    }
    Ok(Exit::Done)
}

/// What calls after a scenario showed besides what all loads do.
pub(in crate::cmd::load) fn put_details(out: &mut String, found: &ScriptFigures) -> fmt::Result {
    writeln!(out, "calls     {} begun, {} succeeded (warm-up included)", found.calls, found.succeeded)?;
    for (cause, count) in &found.failed {
        writeln!(out, "failed    {count} {cause}")?;
    }
    put_commands(out, &found.commands)?;
    for timer in found.timers.iter().filter(|timer| !timer.times.is_empty()) {
        writeln!(
            out,
            "timer {:<4}{} times, p50 {}, p99 {}, max {}",
            timer.name,
            timer.times.len(),
            millis(timer.times.quantile(0.5)),
            millis(timer.times.quantile(0.99)),
            millis(timer.times.max())
        )?;
    }
    for (name, count) in &found.counters {
        writeln!(out, "counter   {name} {count}")?;
    }
    let traffic = &found.traffic;
    writeln!(
        out,
        "messages  {} requests and {} responses sent, {} of them again; {} requests and {} responses received",
        traffic.requests_sent,
        traffic.responses_sent,
        traffic.retransmissions,
        traffic.requests_received,
        traffic.responses_received
    )?;
    let stray: Vec<String> = found.stray.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    if !stray.is_empty() {
        writeln!(out, "stray     {}", stray.join(", "))?;
    }
    if let Some(connections) = &found.connections {
        output::put_connections(out, connections)?;
    }
    if let Some(sound) = &found.sound {
        put_sound(out, sound)?;
    }
    for line in &found.log {
        writeln!(out, "log       {line}")?;
    }
    if found.log_left_out > 0 {
        writeln!(out, "log       and {} more", found.log_left_out)?;
    }
    Ok(())
}

/// What each command of the scenario did.
fn put_commands(out: &mut String, commands: &[CommandCounts]) -> fmt::Result {
    writeln!(
        out,
        "{:<10}{:<6}{:<18}{:>10}{:>10}{:>10}{:>12}{:>8}",
        "", "line", "command", "done", "again", "timeouts", "unexpected", "lost"
    )?;
    for command in commands {
        writeln!(
            out,
            "{:<10}{:<6}{:<18}{:>10}{:>10}{:>10}{:>12}{:>8}",
            "",
            command.line,
            command.label,
            command.done,
            command.again,
            command.timeouts,
            command.unexpected,
            command.lost
        )?;
    }
    Ok(())
}

/// What calls sounded like.
fn put_sound(out: &mut String, sound: &SoundFigures) -> fmt::Result {
    writeln!(
        out,
        "sound     {} calls, {} of them without a word from the other end of what it heard",
        sound.calls, sound.untold
    )?;
    writeln!(
        out,
        "{:<10}{:<6}{:>10}{:>8}{:>8}{:>10}{:>9}{:>9}{:>8}{:>11}{:>7}{:>7}{:>11}{:>11}",
        "",
        "",
        "packets",
        "lost",
        "late",
        "reordered",
        "damaged",
        "doubled",
        "silent",
        "jitter",
        "R",
        "MOS",
        "R, 5 %",
        "R, worst"
    )?;
    for (name, direction) in [("up", &sound.up), ("down", &sound.down)] {
        let SoundDirection { packets, jitter, ratings, silent, .. } = direction;
        if ratings.calls() == 0 {
            continue;
        }
        writeln!(
            out,
            "{:<10}{:<6}{:>10}{:>8}{:>8}{:>10}{:>9}{:>9}{:>8}{:>11}{:>7.1}{:>7.2}{:>11.1}{:>11.1}",
            "",
            name,
            packets.intended,
            packets.lost(),
            packets.late,
            packets.reordered,
            packets.damaged,
            packets.duplicates,
            silent,
            millis(jitter.mean()),
            ratings.mean(),
            ratings.mos(),
            ratings.quantile(0.05),
            ratings.quantile(0.0)
        )?;
    }
    let pace = &sound.pace;
    writeln!(
        out,
        "          {} packets sent, p99 {} late; round trip p50 {}; the thread used {} of CPU",
        pace.sent,
        millis(pace.lateness.quantile(0.99)),
        millis(pace.round_trip.quantile(0.5)),
        millis(pace.cpu)
    )?;
    for (why, count) in &sound.refused {
        writeln!(out, "          {count} session descriptions not used: {why}")?;
    }
    Ok(())
}

impl RequestSpec for ScriptSpec {
    const FAMILY: &'static str = "sip";
    type Requests = ScriptSettings;
    type Session = ScriptSession;

    fn pool_mut(&mut self) -> &mut ConnectionPool {
        &mut self.pool
    }

    fn pool(&self) -> &ConnectionPool {
        &self.pool
    }

    fn requests(&self) -> &ScriptSettings {
        &self.settings
    }

    fn check(&self) -> Result<(), LoadError> {
        Self::check(self)
    }

    fn open(&self, _: &Control) -> Result<ScriptSession, LoadError> {
        ScriptSession::open(self)
    }

    fn run(session: &ScriptSession, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        session.run_step(step, control)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cmd::test_args::ParseArgs;

    /// A server's calls were over after ten seconds.
    #[test]
    fn who_answers_waits_until_a_call_is_over() {
        for (words, seconds) in
            [("", 10), ("--uas", 24 * 3600), ("--uas --recv-timeout 3s", 3), ("--recv-timeout 4s", 4)]
        {
            let all = ["sip", "--scenario-file", "a.xml"].into_iter().chain(words.split_whitespace());
            let args = ParseArgs::<Args>::try_parse_from(all).unwrap().args;
            assert_eq!(args.script.timeout(args.uas), Nanos::from_secs(seconds), "{words:?}");
        }
    }

    #[test]
    fn keys_are_names_and_values() {
        assert_eq!(key_of("a=b=c").unwrap(), ("a".to_owned(), "b=c".to_owned()));
        assert!(key_of("a").is_err() && key_of("=b").is_err());
    }
}
