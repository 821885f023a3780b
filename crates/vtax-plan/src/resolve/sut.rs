//! Environments and services.

use std::collections::BTreeMap;

use vtax_units::{Bytes, Nanos};

use super::{Variants, check_name, counts_in, duration_in, ft, memory_in, net, sip};
use crate::decode::{Argv, Item, Many, TextMap};
use crate::diagnose::{Report, shorten};
use crate::model::{
    CommandService, Environment, EnvironmentKind, Ready, Service, ServiceKind, VmOptions, WebOptions,
};
use crate::raw::{BudgetRaw, CommandRaw, EnvironmentRaw, ReadyRaw, ServiceRaw, VmRaw, WebRaw};
use crate::source::{Span, Spanned};

/// A Linux guest with its initrd does not boot below this.
const LEAST_VM_MEMORY: Bytes = Bytes::from_mib(128);
/// QEMU's limit for q35 without an interrupt remapper.
const MOST_VCPUS: u32 = 255;
/// The texts of one service's files together.
const MAX_FILES_BYTES: usize = 256 << 10;

/// What the plan names, with where it does.
#[derive(Debug)]
pub(super) struct Named<T> {
    pub(super) name: String,
    pub(super) span: Span,
    pub(super) variants: Variants<T>,
}

pub(super) fn environments(
    raw: &Many<EnvironmentRaw>,
    budget: &Spanned<BudgetRaw>,
    report: &mut Report,
) -> Vec<Named<Environment>> {
    let resolve = |item: &Item<EnvironmentRaw>, report: &mut Report| {
        let plain = |name: &Option<Spanned<String>>, kind: EnvironmentKind, default, report: &mut Report| {
            let name = name_or(name.as_ref(), default, report);
            (name.clone(), Variants::of(Environment { name, kind }))
        };
        let (name, variants) = match &item.value {
            EnvironmentRaw::Native(raw) => plain(&raw.name, EnvironmentKind::Native, "native", report),
            EnvironmentRaw::Container(raw) => {
                plain(&raw.name, EnvironmentKind::Container, "container", report)
            }
            EnvironmentRaw::Vm(raw) => vm(raw, budget.value.sut_memory.value, report),
        };
        Named { name, span: item.span, variants }
    };
    let all = raw.items.iter().map(|item| resolve(item, report)).collect();
    unique("environment", all, report)
}

fn vm(raw: &VmRaw, memory: Bytes, report: &mut Report) -> (String, Variants<Environment>) {
    for item in raw.memory.iter().flat_map(|m| &m.value.items) {
        memory_in(&item.value, item.span, LEAST_VM_MEMORY, report);
    }
    if let Some(vcpus) = &raw.vcpus {
        counts_in(&vcpus.value, "a guest needs a virtual CPU", MOST_VCPUS, report);
    }
    let mode = raw.fault_tolerance.as_ref().and_then(|ft| ft.value.mode.as_ref()).map(|mode| mode.value.0);
    let default = mode.map_or_else(|| "vm".to_owned(), ft::usual_name);
    let name = name_or(raw.name.as_ref(), &default, report);
    let options = VmOptions { vcpus: None, memory: memory.max(LEAST_VM_MEMORY), fault_tolerance: None };
    let set = |environment: &mut Environment, change: &dyn Fn(&mut VmOptions)| {
        if let EnvironmentKind::Vm(options) = &mut environment.kind {
            change(options);
        }
    };
    let variants = Variants::of(Environment { name: name.clone(), kind: EnvironmentKind::Vm(options) })
        .vary_if("memory", raw.memory.as_ref(), report, |e, memory| set(e, &|o| o.memory = memory))
        .vary_if("vcpus", raw.vcpus.as_ref(), report, |e, vcpus| set(e, &|o| o.vcpus = Some(vcpus)));
    let variants = match &raw.fault_tolerance {
        Some(fault_tolerance) => ft::protected(fault_tolerance, variants, report),
        None => variants,
    };
    (name, variants)
}

pub(super) fn services(raw: &Many<ServiceRaw>, report: &mut Report) -> Vec<Named<Service>> {
    let resolve = |item: &Item<ServiceRaw>, report: &mut Report| {
        let (name, variants) = match &item.value {
            ServiceRaw::Http(raw) => web(raw, "http", ServiceKind::Http, report),
            ServiceRaw::Apache(raw) => web(raw, "apache", ServiceKind::Apache, report),
            ServiceRaw::Nginx(raw) => web(raw, "nginx", ServiceKind::Nginx, report),
            ServiceRaw::Sip(raw) => sip::embedded(raw, report),
            ServiceRaw::Kamailio(raw) => sip::kamailio(raw, report),
            ServiceRaw::Peer(raw) => net::peer(raw, report),
            ServiceRaw::Command(raw) => command(raw, report)?,
        };
        Some(Named { name, span: item.span, variants })
    };
    let all = raw.items.iter().filter_map(|item| resolve(item, report)).collect();
    unique("service", all, report)
}

fn web(
    raw: &WebRaw,
    default_name: &str,
    kind: impl Fn(WebOptions) -> ServiceKind,
    report: &mut Report,
) -> (String, Variants<Service>) {
    if let Some(workers) = &raw.workers {
        counts_in(&workers.value, "a server needs a worker", 1024, report);
    }
    let name = name_or(raw.name.as_ref(), default_name, report);
    let (ready_timeout, stop_timeout) = timeouts(&raw.ready_timeout, &raw.stop_timeout, report);
    let port = check_port(&raw.port, report);
    let service = Service {
        name: name.clone(),
        kind: kind(WebOptions { port, workers: None }),
        ready_timeout,
        stop_timeout,
    };
    let variants =
        Variants::of(service).vary_if("workers", raw.workers.as_ref(), report, |service, workers| {
            service.kind = kind(WebOptions { port, workers: Some(workers) });
        });
    (name, variants)
}

fn command(raw: &CommandRaw, report: &mut Report) -> Option<(String, Variants<Service>)> {
    let name = name_or(raw.name.as_ref(), "command", report);
    let (ready_timeout, stop_timeout) = timeouts(&raw.ready_timeout, &raw.stop_timeout, report);
    let run = raw.run.as_ref().map(|run| argv(&run.value, run.span, report));
    let ready = match &raw.ready.value {
        ReadyRaw::Port => Ready::Port,
        ReadyRaw::Log(text) => {
            if text.value.trim().is_empty() || text.value.contains('\n') {
                report.error(text.span, "`log` is a text within one line of output");
            }
            Ready::Log(text.value.clone())
        }
        ReadyRaw::Run(words) => Ready::Command(argv(words, raw.ready.span, report)),
    };
    let kind = ServiceKind::Command(CommandService {
        port: check_port(raw.port.as_ref()?, report),
        command: run?,
        ready,
        env: env(&raw.env.value, report),
        files: files(&raw.files.value, raw.files.span, report),
    });
    Some((name.clone(), Variants::of(Service { name, kind, ready_timeout, stop_timeout })))
}

fn argv(argv: &Argv, span: Span, report: &mut Report) -> Vec<String> {
    if argv.0.first().is_none_or(|program| program.value.trim().is_empty()) {
        report.error(span, "a command starts with a program");
    }
    for word in argv.0.iter().filter(|w| w.value.contains('\0')) {
        report.error(word.span, "an argument can't contain a NUL character");
    }
    argv.0.iter().map(|word| word.value.clone()).collect()
}

fn env(raw: &TextMap, report: &mut Report) -> BTreeMap<String, String> {
    for (key, value) in &raw.0 {
        if key.value.is_empty() || key.value.contains(['=', '\0']) {
            report
                .error(key.span, format!("`{}` is no name of an environment variable", shorten(&key.value)));
        }
        if value.value.contains('\0') {
            report.error(value.span, "an environment variable can't contain a NUL character");
        }
    }
    texts(raw)
}

/// Checks that files stay within their directory and are small enough to travel in one message.
fn files(raw: &TextMap, span: Span, report: &mut Report) -> BTreeMap<String, String> {
    for (path, _) in &raw.0 {
        let inside = |part: &str| !matches!(part, "" | "." | "..");
        if !path.value.split('/').all(inside) || path.value.contains('\0') || path.value.len() > 1024 {
            report
                .error(
                    path.span,
                    format!("`{}` is not a path within the service's directory", shorten(&path.value)),
                )
                .help("write a relative path without `.` and `..`, such as `conf/server.conf`");
        }
    }
    if raw.0.iter().map(|(_, content)| content.value.len()).sum::<usize>() > MAX_FILES_BYTES {
        report
            .error(span, format!("the files are larger than {}", Bytes(MAX_FILES_BYTES as u64)))
            .help("large files belong on the host: every environment sees the host's file system");
    }
    texts(raw)
}

fn texts(raw: &TextMap) -> BTreeMap<String, String> {
    raw.0.iter().map(|(k, v)| (k.value.to_string(), v.value.clone())).collect()
}

pub(super) fn timeouts(ready: &Spanned<Nanos>, stop: &Spanned<Nanos>, report: &mut Report) -> (Nanos, Nanos) {
    let most = Nanos::from_secs(3600);
    (
        duration_in(ready, "ready_timeout", Nanos(1), most, report),
        duration_in(stop, "stop_timeout", Nanos(1), most, report),
    )
}

pub(super) fn check_port(port: &Spanned<u16>, report: &mut Report) -> u16 {
    if port.value == 0 {
        report.error(port.span, "0 is no port to talk to").help("ports are 1 to 65535");
    }
    port.value
}

/// The name given, checked, or the kind's.
pub(super) fn name_or(name: Option<&Spanned<String>>, default: &str, report: &mut Report) -> String {
    name.map_or_else(|| default.to_owned(), |name| check_name(name, report))
}

/// Reports names that are taken and leaves their bearers out.
pub(super) fn unique<T>(what: &str, all: Vec<Named<T>>, report: &mut Report) -> Vec<Named<T>> {
    let mut kept: Vec<Named<T>> = Vec::with_capacity(all.len());
    for named in all {
        match kept.iter().find(|other| other.name == named.name) {
            None => kept.push(named),
            Some(other) => {
                report
                    .error(named.span, format!("{what} `{}` is in the plan twice", named.name))
                    .help(format!("give this one a `name` of its own, such as `{}-2`", named.name))
                    .first_at(other.span);
            }
        }
    }
    kept
}
