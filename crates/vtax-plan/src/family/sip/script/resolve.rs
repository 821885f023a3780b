//! Calls after SIPp's scenarios: files are read, and scenarios compiled, so that what isn't supported is told before anything is built.

use std::collections::BTreeMap;

use vtax_units::Nanos;
use vtax_wire::sipp::{Injection, Problem, SCENARIO_BYTES_MAX, Scenario};

use super::model::{MediaOptions, ScriptFile, ScriptWorkload, UasOptions};
use super::raw::{MediaRaw, ScriptWorkloadRaw, SipRaw, UasRaw};
use crate::decode::Many;
use crate::diagnose::{Report, shorten};
use crate::family::network::resolve::{check_buffer, check_packet};
use crate::family::sip::model::{SipTls, SipTransport};
use crate::family::sip::resolve::{MOST_ADDRESSES, subscribers, tls};
use crate::folder::{Folder, Refusal};
use crate::model::{MOST_CONNECTIONS, Protocol, Service, ServiceKind, Workload};
use crate::raw::WorkloadRaw;
use crate::resolve::check::{LONGEST, check_count, check_port, counts_in, duration_in};
use crate::resolve::variants::{Named, Variants, service};
use crate::source::{Span, Spanned};

/// Longest injection file: plans are kept with their files.
const INJECTION_BYTES_MAX: usize = 2 << 20;
/// Longest of other texts.
const TEXT_BYTES_MAX: usize = 1_000;

/// The user agent that answers calls.
pub(crate) fn uas(raw: &UasRaw, report: &mut Report) -> Variants<Service> {
    check_count(raw.calls.value, raw.calls.span, "a call is answered", MOST_CONNECTIONS, report);
    let files: Option<Vec<(String, Span)>> =
        raw.scenario_file.as_ref().map(|file| vec![(file.value.clone(), file.span)]);
    let scenario = match (&raw.scenario_file, &raw.scenario) {
        (Some(_), Some(inline)) => {
            twice(inline.span, report);
            None
        }
        (Some(file), None) => scenarios(files.as_deref().unwrap_or_default(), report).remove(&file.value),
        (None, Some(inline)) => Some(ScriptFile { name: String::new(), text: inline.value.clone() }),
        (None, None) => None,
    };
    let span = raw.scenario_file.as_ref().or(raw.scenario.as_ref()).map_or(raw.port.span, |text| text.span);
    if let Some(file) = &scenario {
        check(file, &Given { injections: &[], keys: &[], answers: true }, span, report);
    }
    let media = raw.media.as_ref().map(|raw| media(&raw.value, report));
    let options = UasOptions { port: check_port(&raw.port, report), scenario, calls: raw.calls.value, media };
    let times = (&raw.ready_timeout, &raw.stop_timeout);
    Variants::of(service(ServiceKind::Uas(options), raw.name.as_ref(), times, report))
}

/// Whether the generator answers calls too.
fn callees(raw: &ScriptWorkloadRaw, report: &mut Report) -> bool {
    let callees = raw.callees.value;
    if callees && raw.media.is_none() {
        report
            .error(raw.callees.span, "calls come back to the generator where they have sound")
            .help("give the workload `media: {}`");
    }
    if callees && raw.keys.value.0.iter().any(|(name, _)| &*name.value == "callee") {
        report.error(raw.callees.span, "`callee` is a keyword of the plan's own already");
    }
    callees
}

/// How calls sound.
fn media(raw: &MediaRaw, report: &mut Report) -> MediaOptions {
    check_packet(raw.packet.value, raw.packet.span, report);
    check_buffer(raw.jitter_buffer.value, raw.jitter_buffer.span, report);
    MediaOptions { law: raw.codec.value.0, packet: raw.packet.value, jitter_buffer: raw.jitter_buffer.value }
}

/// The workload, one variant for each combination of its lists.
pub(crate) fn workload(raw: &ScriptWorkloadRaw, report: &mut Report) -> Variants<Workload> {
    counts_in(&raw.addresses.value, "calls come from somewhere", MOST_ADDRESSES, report);
    counts_in(&raw.calls.value, "there is a call", MOST_CONNECTIONS, report);
    for item in &raw.pause.value.items {
        duration_in(&Spanned { value: item.value, span: item.span }, "pause", Nanos::ZERO, LONGEST, report);
    }
    let injections = raw.injection_files.value.0.iter().filter_map(|name| {
        let text = read(&name.value, name.span, INJECTION_BYTES_MAX, report)?;
        Some(ScriptFile { name: name.value.clone(), text })
    });
    let injections: Vec<ScriptFile> = injections.collect();
    for text in [Some(&raw.service), raw.auth_user.as_ref(), Some(&raw.auth_password)].into_iter().flatten() {
        check_text(&text.value, text.span, report);
    }
    let of_subscribers = raw.subscribers.as_ref().map(|raw| subscribers(raw, report));
    let tls = tls(&raw.transport, &raw.tls_version, raw.cipher.as_ref(), report);
    let connection_per_call = per_call(raw, report);
    let script = ScriptWorkload {
        scenario: ScriptFile::default(),
        injections,
        transport: SipTransport::Udp,
        tls: SipTls { resume: raw.resume.value, ..tls },
        connection_per_call,
        addresses: 1,
        calls: 1,
        recv_timeout: duration_in(&raw.recv_timeout, "recv_timeout", Nanos(1), LONGEST, report),
        pause: Nanos::ZERO,
        drain: duration_in(&raw.drain, "drain", Nanos::ZERO, LONGEST, report),
        service: raw.service.value.clone(),
        auth_user: raw.auth_user.as_ref().unwrap_or(&raw.service).value.clone(),
        auth_password: raw.auth_password.value.clone(),
        keys: keys(raw, report),
        media_port: check_port(&raw.media_port, report),
        media: raw.media.as_ref().map(|raw| media(&raw.value, report)),
        callees: callees(raw, report),
        subscribers: of_subscribers,
    };
    let variants = with_scenarios(raw, script, report)
        .vary("transport", &raw.transport.value, report, |w, transport| w.transport = transport.0)
        .vary("addresses", &raw.addresses.value, report, |w, addresses| w.addresses = addresses)
        .vary("calls", &raw.calls.value, report, |w, calls| w.calls = calls)
        .vary("pause", &raw.pause.value, report, |w, pause| w.pause = pause);
    let counts = raw.subscribers.as_ref().map(|subscribers| &subscribers.value.count);
    variants
        .vary_if("subscribers", counts, report, |w, count| {
            if let Some(subscribers) = &mut w.subscribers {
                subscribers.count = count;
            }
        })
        .map(|w| Workload::Script(Box::new(w)))
}

/// Whether each call has a connection of its own.
fn per_call(raw: &ScriptWorkloadRaw, report: &mut Report) -> bool {
    let per_call = raw.connection_per_call.value;
    let udp = raw.transport.value.items.iter().find(|item| item.value.0 == SipTransport::Udp);
    if let Some(udp) = udp.filter(|_| per_call) {
        report
            .error(udp.span, "`connection_per_call` needs connections, which UDP has none of")
            .help("write `transport: tcp` or `transport: tls`");
    }
    if !raw.resume.value && !per_call {
        report
            .error(raw.resume.span, "`resume` means nothing where connections stay")
            .help("write `connection_per_call: true`, or leave it out");
    }
    per_call
}

/// The workload with each of its scenarios, all of which are compiled.
fn with_scenarios(
    raw: &ScriptWorkloadRaw,
    script: ScriptWorkload,
    report: &mut Report,
) -> Variants<ScriptWorkload> {
    let keys = script.keywords();
    let given = Given { injections: &script.injections, keys: &keys, answers: false };
    let inline = match (&raw.scenario_file, &raw.scenario) {
        (Some(_), Some(inline)) => {
            twice(inline.span, report);
            return Variants::of(script);
        }
        (None, Some(inline)) => inline,
        // One of them is there, or it would be the workload of subscribers; a list of none was told.
        (None, None) => return Variants::of(script),
        (Some(files), None) => {
            let named: Vec<(String, Span)> =
                files.value.items.iter().map(|item| (item.value.clone(), item.span)).collect();
            let found = scenarios(&named, report);
            for (name, span) in &named {
                if let Some(file) = found.get(name) {
                    check(file, &given, *span, report);
                }
            }
            let items: &Many<String> = &files.value;
            return Variants::of(script).vary("scenario_file", items, report, |w, name| {
                w.scenario = found.get(&name).cloned().unwrap_or_default();
            });
        }
    };
    let file = ScriptFile { name: String::new(), text: inline.value.clone() };
    check(&file, &given, inline.span, report);
    Variants::of(ScriptWorkload { scenario: file, ..script })
}

fn twice(span: Span, report: &mut Report) {
    report
        .error(span, "the scenario is given twice")
        .help("write `scenario_file`, or its text as `scenario`");
}

/// The files of scenarios, by name.
fn scenarios(names: &[(String, Span)], report: &mut Report) -> BTreeMap<String, ScriptFile> {
    let mut found = BTreeMap::new();
    for (name, span) in names {
        if let Some(text) = read(name, *span, SCENARIO_BYTES_MAX, report) {
            found.insert(name.clone(), ScriptFile { name: name.clone(), text });
        }
    }
    found
}

fn read(name: &str, span: Span, most: usize, report: &mut Report) -> Option<String> {
    match report.folder.read(name, most) {
        Ok(text) => Some(text),
        Err(Refusal { why, instead }) => {
            report.error(span, why).help(instead);
            None
        }
    }
}

/// What a scenario is compiled with.
struct Given<'a> {
    injections: &'a [ScriptFile],
    keys: &'a [(String, String)],
    /// It is to answer calls.
    answers: bool,
}

/// Compiles a scenario with its injection files, and tells everything that is wrong with it, in the scenario's own lines.
fn check(file: &ScriptFile, given: &Given<'_>, span: Span, report: &mut Report) {
    let mut scenario = match Scenario::compile(file.text.as_bytes(), given.keys) {
        Ok(scenario) => scenario,
        Err(problems) => return tell(file, &problems, report),
    };
    if scenario.is_server != given.answers {
        let (why, help) = match given.answers {
            true => {
                ("makes calls and answers none", "a scenario that makes calls is one of the workload `sip`")
            }
            false => {
                ("answers calls and makes none", "a scenario that answers calls is one of the service `uas`")
            }
        };
        report.error(span, format!("the scenario {why}")).help(help);
        return;
    }
    for name in scenario.names.files.clone() {
        // The file without a name is the first that is given.
        let found = given.injections.iter().find(|own| own.base() == name || name.is_empty());
        let Some(injection) = found else {
            let which = if name.is_empty() { String::new() } else { format!(" `{}`", shorten(&name)) };
            let help = match given.answers {
                true => "`uas` has no injection files: leave `[fieldN]` out of its scenario",
                false => "name it in `injection_files`",
            };
            report.error(span, format!("a field of the scenario needs an injection file{which}")).help(help);
            continue;
        };
        if let Err(error) = Injection::read(injection.text.as_bytes(), &mut scenario.names, given.keys) {
            report.error(span, format!("`{}`: {error}", shorten(&injection.name)));
        }
    }
}

/// Tells the problems of a scenario, each at its line of it.
fn tell(file: &ScriptFile, problems: &[Problem], report: &mut Report) {
    let name = if file.name.is_empty() { "the plan's scenario" } else { file.name.as_str() };
    let Some(source) = report.add_source(name, &file.text) else { return };
    for problem in problems {
        let before = file.text.split_inclusive('\n').take(problem.line.saturating_sub(1) as usize);
        let start = before.map(str::len).sum::<usize>();
        let line = file.text[start..].lines().next().unwrap_or_default();
        let from = start + (line.len() - line.trim_start().len());
        let span = Span::new(source, from..(start + line.trim_end().len()).max(from));
        report.error(span, problem.what.clone());
    }
}

/// Keywords of the user's own.
fn keys(raw: &ScriptWorkloadRaw, report: &mut Report) -> Vec<(String, String)> {
    let mut keys = Vec::new();
    for (name, value) in &raw.keys.value.0 {
        check_text(&value.value, value.span, report);
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.value.is_empty() || name.value.len() > 60 || !name.value.chars().all(fits) {
            report
                .error(name.span, format!("`{}` can't be a keyword", shorten(&name.value)))
                .help("a keyword is 1 to 60 letters, digits, `-`, `_` and `.`");
        }
        keys.push((name.value.to_string(), value.value.clone()));
    }
    keys
}

/// A text that becomes part of messages.
fn check_text(text: &str, span: Span, report: &mut Report) {
    if text.len() > TEXT_BYTES_MAX {
        report.error(span, format!("a text of a message is at most {TEXT_BYTES_MAX} bytes long"));
    }
    if text.chars().any(char::is_control) {
        report.error(span, "a text of a message has no control characters");
    }
}

/// Whether a scenario calls `[callee]` itself. One that registers it calls its subscriber, whom the service finds. A file that can't be
/// read was told.
fn calls_callee(raw: &ScriptWorkloadRaw, folder: &Folder) -> bool {
    // A message may begin in the line that opens it.
    let is_call = |line: &str| {
        let line = line.rsplit("<![CDATA[").next().unwrap_or(line).trim();
        line.starts_with("INVITE ") && line.contains("[callee]")
    };
    let calls = |text: &str| text.lines().any(is_call);
    let files = raw.scenario_file.iter().flat_map(|files| &files.value.items);
    let mut texts = files.filter_map(|file| folder.read(&file.value, SCENARIO_BYTES_MAX).ok());
    raw.scenario.as_ref().is_some_and(|text| calls(&text.value)) || texts.any(|text| calls(&text))
}

/// Reports services that can't be asked for what the workload does.
pub(crate) fn check_served(workload: &WorkloadRaw, services: &[Named<Service>], report: &mut Report) {
    let WorkloadRaw::Sip(sip) = workload else { return };
    for service in services {
        let Some(first) = service.variants.0.first() else { continue };
        let (why, help) = match (sip, &first.value.kind) {
            (SipRaw::Script(raw), ServiceKind::Uas(_))
                if raw.transport.value.items.iter().any(|item| item.value.0 != SipTransport::Udp) =>
            {
                (
                    "answers calls over UDP",
                    "leave `transport` out, or give it a service that takes connections",
                )
            }
            (SipRaw::Subscribers(_), ServiceKind::Uas(_)) => {
                ("answers calls and registers nobody", "its workload is `sip` with a `scenario_file`")
            }
            (SipRaw::Script(raw), ServiceKind::Uas(uas)) if raw.media.is_some() && uas.media.is_none() => {
                ("answers calls without sound", "give it `media: {}`, or the workload none")
            }
            (SipRaw::Script(raw), ServiceKind::Sip(_) | ServiceKind::Kamailio(_))
                if raw.subscribers.is_none() =>
            {
                (
                    "must know who may register",
                    "give the workload `subscribers`, as many as there are, or how many with their identities; a server that \
                     answers any call is the service `uas`",
                )
            }
            // With a relay of sound it has a rule for a call to `[callee]` itself, which isn't registered.
            (SipRaw::Script(raw), ServiceKind::Kamailio(kamailio))
                if kamailio.media_relay.is_some()
                    && raw.callees.value
                    && raw.addresses.value.items.iter().any(|item| item.value > 1)
                    && calls_callee(raw, &report.folder) =>
            {
                (
                    "lets calls through only to the address that they come from, and `callees` are at the first of several `addresses`",
                    "leave `addresses` out: calls then come from the callees' own",
                )
            }
            _ => continue,
        };
        debug_assert_eq!(first.value.kind.facts().protocol, Some(Protocol::Sip));
        report.error(service.span, format!("`{}` {why}", service.name)).help(help);
    }
}
