//! `tgt`: an iSCSI target in user space.

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos};

use super::volume::{Backend, BackendRaw};
use crate::decode::Many;
use crate::diagnose::Report;
use crate::model::{Service, ServiceKind};
use crate::resolve::check::{check_port, counts_in};
use crate::resolve::variants::{Variants, service};
use crate::source::Spanned;

/// Units of a target: tgt's control program is run once for each.
pub(super) const MOST_LUNS: u32 = 64;
/// A unit: room for vtax's mark, and not beyond what files of any system may have.
pub(super) const SIZE: std::ops::RangeInclusive<Bytes> = Bytes::from_mib(1)..=Bytes::from_mib(16 << 20);

/// Options of an iSCSI target.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TgtOptions {
    /// TCP port.
    pub port: u16,
    /// Logical units, numbered from 1: number 0 is tgt's own controller.
    pub luns: u32,
    /// Size of each.
    pub size: Bytes,
    /// Who proves itself.
    pub chap: ChapMode,
    /// Writes are acknowledged before they are in the unit's file for good.
    pub write_cache: bool,
    /// Names of the initiators that may log in; empty: all.
    #[serde(default)]
    pub initiators: Vec<String>,
    /// Where it keeps its units.
    #[serde(default, skip_serializing_if = "Backend::is_files")]
    pub backend: Backend,
}

impl TgtOptions {
    /// The target's name.
    pub const TARGET: &str = "iqn.2026-11.vtax:storage";
    /// Name and secret of initiators. They are no secret: the target is reached from the testbed alone.
    pub const INITIATOR_CHAP: (&str, &str) = ("vtax-initiator", "initiators-secret-1");
    /// Name and secret of the target.
    pub const TARGET_CHAP: (&str, &str) = ("vtax-target", "the-targets-secret-2");
}

/// Who proves that it knows a secret at login (CHAP).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChapMode {
    /// Nobody.
    None,
    /// The initiator.
    OneWay,
    /// Both.
    Mutual,
}

services! {
    /// Options of `tgt`.
    struct TgtRaw = "`tgt`", ready "30s", stop "1s" {
        /// TCP port it listens on.
        default port: u16 = "3260",
        /// Logical units of the target, numbered from 1.
        default luns: Many<u32> = "1",
        /// Size of each, in a file of the run's scratch space.
        default size: Many<Bytes> = "96MiB",
        /// Who proves itself at login: `none`, `one-way` (the initiator) or `mutual` (both).
        default chap: Many<ChapModeRaw> = "none",
        /// `true`: writes are acknowledged before they are in the unit's file for good; `false`: afterwards.
        default write_cache: Many<bool> = "true",
        /// Names of the initiators that may log in; without it, all.
        optional initiators: Many<String>,
        /// Where it keeps its units: `files` (the run's scratch space) or `disk` (the system's own disk).
        default backend: Many<BackendRaw> = "files",
    }
}

words! {
    /// Who proves itself at login.
    ChapModeRaw(ChapMode) = "chap", "kinds of authentication" {
        "none": None, "Nobody.";
        "one-way": OneWay, "The initiator.";
        "mutual": Mutual, "Both, each with a secret of its own.";
    }
}

/// The target.
pub(crate) fn resolve(raw: &TgtRaw, report: &mut Report) -> Variants<Service> {
    check_units(&raw.luns.value, &raw.size.value, report);
    let kind = ServiceKind::Tgt(TgtOptions {
        port: check_port(&raw.port, report),
        luns: 1,
        size: *SIZE.start(),
        chap: ChapMode::None,
        write_cache: true,
        initiators: initiators(raw.initiators.as_ref(), report),
        backend: Backend::Files,
    });
    let set = |service: &mut Service, change: &dyn Fn(&mut TgtOptions)| {
        if let ServiceKind::Tgt(options) = &mut service.kind {
            change(options);
        }
    };
    Variants::of(service(kind, raw.name.as_ref(), (&raw.ready_timeout, &raw.stop_timeout), report))
        .vary("luns", &raw.luns.value, report, |s, luns| set(s, &|o| o.luns = luns))
        .vary("size", &raw.size.value, report, |s, size| set(s, &|o| o.size = size))
        .vary("chap", &raw.chap.value, report, |s, chap| set(s, &|o| o.chap = chap.0))
        .vary("write_cache", &raw.write_cache.value, report, |s, on| set(s, &|o| o.write_cache = on))
        .vary("backend", &raw.backend.value, report, |s, backend| set(s, &|o| o.backend = backend.0))
}

/// Checks number and size of a target's units.
pub(super) fn check_units(luns: &Many<u32>, sizes: &Many<Bytes>, report: &mut Report) {
    counts_in(luns, "a target without a unit stores nothing", MOST_LUNS, report);
    for item in sizes.items.iter().filter(|item| !SIZE.contains(&item.value)) {
        let (least, most) = (SIZE.start(), SIZE.end());
        report.error(item.span, format!("{} is no size of a unit: {least} to {most}", item.value));
    }
}

/// Names of the initiators that may log in.
pub(super) fn initiators(raw: Option<&Spanned<Many<String>>>, report: &mut Report) -> Vec<String> {
    let names = raw.map_or(&[][..], |names| &names.value.items);
    for item in names.iter().filter(|item| !is_name(&item.value)) {
        report
            .error(
                item.span,
                format!("`{}` is no name of an initiator", crate::diagnose::shorten(&item.value)),
            )
            .help("names are like iqn.2026-11.org.example:client, of letters, digits, `-`, `.`, `:` and `_`");
    }
    names.iter().map(|item| item.value.clone()).collect()
}

/// What names of iSCSI are made of (RFC 3722), short of what lies beyond ASCII.
fn is_name(name: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"-.:_".contains(&b);
    (1..=223).contains(&name.len()) && name.bytes().all(allowed)
}
