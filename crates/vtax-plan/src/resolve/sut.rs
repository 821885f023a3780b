//! Environments, and services of the user's own.

use std::collections::BTreeMap;

use vtax_units::{Bytes, Nanos};

use super::check::{check_port, counts_in, memory_in, name_or};
use super::ft;
use super::systems::{Parts, counted};
use super::variants::{Named, Variants, service, unique};
use crate::decode::{Argv, Item, Many, TextMap};
use crate::diagnose::{Report, shorten};
use crate::family::storage;
use crate::model::{
    CommandService, Environment, EnvironmentKind, NicTuning, Ready, Service, ServiceKind, VmOptions,
};
use crate::raw::{BudgetRaw, CommandRaw, EnvironmentRaw, PlainEnvironmentRaw, ReadyRaw, VmRaw};
use crate::source::{Span, Spanned};

/// A service in less would hardly start.
const LEAST_MEMORY: Bytes = Bytes::from_mib(16);
/// A Linux guest with its initrd, which is vtax as it is released (44.5 MiB, there twice while it boots), needs 173 MiB. A larger build
/// needs more, which is known where the guest is to be made.
pub(crate) const LEAST_VM_MEMORY: Bytes = Bytes::from_mib(192);
/// QEMU's limit for q35 without an interrupt remapper.
const MOST_VCPUS: u32 = 255;
/// More pairs of queues than CPUs of a host in a test say nothing.
const MOST_QUEUES: u32 = 16;
/// Entries of virtio's receive queues that QEMU takes (`hw/net/virtio-net.c`).
const RINGS: [u32; 3] = [256, 512, 1024];
/// What Intel's drivers take as a time between interrupts (`drivers/net/ethernet/intel/e1000/`).
const MODERATION: std::ops::RangeInclusive<Nanos> = Nanos(10_000)..=Nanos::from_millis(10);
/// The texts of one service's files together.
const MAX_FILES_BYTES: usize = 256 << 10;

pub(super) fn environments(
    raw: &Many<EnvironmentRaw>,
    budget: &Spanned<BudgetRaw>,
    parts: Parts,
    report: &mut Report,
) -> Vec<Named<Environment>> {
    let resolve = |item: &Item<EnvironmentRaw>, report: &mut Report| {
        let plain = |raw: &PlainEnvironmentRaw, kind: EnvironmentKind, default, report: &mut Report| {
            let name = name_or(raw.name.as_ref(), default, report);
            let one = Variants::of(Environment::new(name.clone(), kind));
            let variants = counted(one, raw.count.as_ref(), report);
            for variant in &variants.0 {
                parts.memory(variant.value.count, LEAST_MEMORY, item.span, report);
            }
            (name, variants)
        };
        let (name, variants) = match &item.value {
            EnvironmentRaw::Native(raw) => plain(raw, EnvironmentKind::Native, "native", report),
            EnvironmentRaw::Container(raw) => plain(raw, EnvironmentKind::Container, "container", report),
            EnvironmentRaw::Uml(raw) => plain(raw, EnvironmentKind::Uml, "uml", report),
            EnvironmentRaw::Vm(raw) => vm(raw, budget.value.sut_memory.value, (parts, item.span), report),
        };
        Named { name, span: item.span, variants }
    };
    let all = raw.items.iter().map(|item| resolve(item, report)).collect();
    unique("environment", all, report)
}

fn vm(
    raw: &VmRaw,
    memory: Bytes,
    (parts, span): (Parts, Span),
    report: &mut Report,
) -> (String, Variants<Environment>) {
    for item in raw.memory.iter().flat_map(|m| &m.value.items) {
        memory_in(&item.value, item.span, LEAST_VM_MEMORY, report);
    }
    if let Some(vcpus) = &raw.vcpus {
        counts_in(&vcpus.value, "a guest needs a virtual CPU", MOST_VCPUS, report);
    }
    let mode = raw.fault_tolerance.as_ref().and_then(|ft| ft.value.mode.as_ref()).map(|mode| mode.value.0);
    let default = mode.map_or_else(|| "vm".to_owned(), ft::usual_name);
    let name = name_or(raw.name.as_ref(), &default, report);
    let options = VmOptions::new(memory.max(LEAST_VM_MEMORY));
    let set = |environment: &mut Environment, change: &dyn Fn(&mut VmOptions)| {
        if let EnvironmentKind::Vm(options) = &mut environment.kind {
            change(options);
        }
    };
    let one = Variants::of(Environment::new(name.clone(), EnvironmentKind::Vm(options)));
    let mut variants = counted(one, raw.count.as_ref(), report);
    for variant in variants.0.iter_mut().filter(|_| raw.memory.is_none()) {
        let part = parts.memory(variant.value.count, LEAST_VM_MEMORY, span, report);
        set(&mut variant.value, &|o| o.memory = part.max(LEAST_VM_MEMORY));
    }
    let variants = variants
        .vary_if("memory", raw.memory.as_ref(), report, |e, memory| set(e, &|o| o.memory = memory))
        .vary_if("vcpus", raw.vcpus.as_ref(), report, |e, vcpus| set(e, &|o| o.vcpus = Some(vcpus)))
        .vary("nic", &raw.nic.value, report, |e, nic| set(e, &|o| o.nic = nic.0));
    let variants = tuned(raw, variants, report);
    let variants = match &raw.disk {
        Some(disk) => storage::resolve::with_disk(disk, variants, report),
        None => variants,
    };
    let variants = match &raw.fault_tolerance {
        Some(fault_tolerance) => ft::protected(fault_tolerance, variants, report),
        None => variants,
    };
    (name, variants)
}

/// Multiplies virtual machines by how their cards are tuned.
fn tuned(raw: &VmRaw, variants: Variants<Environment>, report: &mut Report) -> Variants<Environment> {
    counts_in(&raw.nic_queues.value, "a card has a pair of queues", MOST_QUEUES, report);
    for ring in raw.nic_ring.iter().flat_map(|rings| &rings.value.items) {
        if !RINGS.contains(&ring.value) {
            let [small, middle, large] = RINGS;
            report.error(
                ring.span,
                format!("a queue has {small}, {middle} or {large} entries, not {}", ring.value),
            );
        }
    }
    for time in raw.nic_moderation.iter().flat_map(|times| &times.value.items) {
        if time.value != Nanos::ZERO && !MODERATION.contains(&time.value) {
            report
                .error(time.span, "interrupts are 10us to 10ms apart")
                .help("`0us` for as many as the card likes; without the key, its driver's own way");
        }
    }
    let set = |environment: &mut Environment, change: &dyn Fn(&mut NicTuning)| {
        if let EnvironmentKind::Vm(options) = &mut environment.kind {
            change(&mut options.tuning);
        }
    };
    variants
        .vary("nic-queues", &raw.nic_queues.value, report, |e, queues| set(e, &|t| t.queues = queues))
        .vary_if("nic-ring", raw.nic_ring.as_ref(), report, |e, ring| set(e, &|t| t.ring = Some(ring)))
        .vary("nic-vhost", &raw.nic_vhost.value, report, |e, vhost| set(e, &|t| t.vhost = vhost.0))
        .vary_if("nic-moderation", raw.nic_moderation.as_ref(), report, |e, apart| {
            set(e, &|t| t.moderation = Some(apart));
        })
}

/// A service of the user's own; `None` where some part is missing, which has been reported.
pub(super) fn command(raw: &CommandRaw, report: &mut Report) -> Option<Variants<Service>> {
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
    let times = (&raw.ready_timeout, &raw.stop_timeout);
    Some(Variants::of(service(kind, raw.name.as_ref(), times, report)))
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
