//! `lio`: the kernel's own iSCSI target.

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos};

use super::tgt::{ChapMode, ChapModeRaw, MOST_LUNS, SIZE, check_units, initiators};
use super::volume::{Backend, BackendRaw};
use crate::decode::Many;
use crate::diagnose::Report;
use crate::model::{Service, ServiceKind};
use crate::resolve::check::check_port;
use crate::resolve::variants::{Variants, service};
use crate::source::Spanned;

/// Options of the kernel's iSCSI target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LioOptions {
    /// TCP port.
    pub port: u16,
    /// Logical units, numbered from 1.
    pub luns: u32,
    /// How many of them initiators see, from the first on; the others are hidden from them.
    pub visible: u32,
    /// Size of each.
    pub size: Bytes,
    /// Who proves itself.
    pub chap: ChapMode,
    /// Writes are acknowledged before they are in the unit's file for good.
    pub write_cache: bool,
    /// Names of the initiators that may log in; empty: vtax's own.
    pub initiators: Vec<String>,
    /// Where it keeps its units.
    pub backend: Backend,
}

impl LioOptions {
    /// The initiator that may log in where none is named: vtax's own client, and one that mounts.
    pub const INITIATOR: &str = "iqn.2026-11.vtax:client";
}

services! {
    /// Options of `lio`. It is part of the kernel, so it takes a virtual machine.
    struct LioRaw = "`lio`", ready "30s", stop "5s" {
        /// TCP port it listens on.
        default port: u16 = "3260",
        /// Logical units of the target, numbered from 1.
        default luns: Many<u32> = "1",
        /// How many of them initiators see, from the first on; without it, all.
        optional visible: u32,
        /// Size of each.
        default size: Many<Bytes> = "96MiB",
        /// Who proves itself at login: `none`, `one-way` (the initiator) or `mutual` (both).
        default chap: Many<ChapModeRaw> = "none",
        /// `true`: writes are acknowledged before they are in the unit's file for good; `false`: afterwards.
        default write_cache: Many<bool> = "true",
        /// Names of the initiators that may log in; without it, vtax's own.
        optional initiators: Many<String>,
        /// Where it keeps its units: `files` (the virtual machine's memory) or `disk` (its disk).
        default backend: Many<BackendRaw> = "files",
    }
}

/// The target.
pub(crate) fn resolve(raw: &LioRaw, report: &mut Report) -> Variants<Service> {
    check_units(&raw.luns.value, &raw.size.value, report);
    if let Some(visible) = &raw.visible {
        let least = raw.luns.value.items.iter().map(|item| item.value).min().unwrap_or(MOST_LUNS);
        if visible.value == 0 || visible.value > least {
            report.error(visible.span, format!("initiators see 1 to {least} units, not {}", visible.value));
        }
    }
    let kind = ServiceKind::Lio(LioOptions {
        port: check_port(&raw.port, report),
        luns: 1,
        visible: raw.visible.as_ref().map_or(u32::MAX, |visible| visible.value),
        size: *SIZE.start(),
        chap: ChapMode::None,
        write_cache: true,
        initiators: initiators(raw.initiators.as_ref(), report),
        backend: Backend::Files,
    });
    let set = |service: &mut Service, change: &dyn Fn(&mut LioOptions)| {
        if let ServiceKind::Lio(options) = &mut service.kind {
            change(options);
        }
    };
    let units = |options: &mut LioOptions, luns: u32| {
        options.luns = luns;
        options.visible = options.visible.min(luns);
    };
    Variants::of(service(kind, raw.name.as_ref(), (&raw.ready_timeout, &raw.stop_timeout), report))
        .vary("luns", &raw.luns.value, report, |s, luns| set(s, &|o| units(o, luns)))
        .vary("size", &raw.size.value, report, |s, size| set(s, &|o| o.size = size))
        .vary("chap", &raw.chap.value, report, |s, chap| set(s, &|o| o.chap = chap.0))
        .vary("write_cache", &raw.write_cache.value, report, |s, on| set(s, &|o| o.write_cache = on))
        .vary("backend", &raw.backend.value, report, |s, backend| set(s, &|o| o.backend = backend.0))
}
