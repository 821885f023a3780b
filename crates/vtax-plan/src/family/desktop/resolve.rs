//! Remote desktops: the servers and workloads.

use vtax_units::{Nanos, Rate};

use super::limits;
use super::model::{
    DesktopEncoding, DesktopOptions, DesktopPace, DesktopScript, DesktopSecurity, DesktopUsers,
    DesktopWorkload,
};
use super::raw::{DesktopRaw, DesktopWorkloadRaw};
use crate::diagnose::Report;
use crate::model::{Service, ServiceKind, Workload};
use crate::resolve::check::{check_port, counts_in, duration_in};
use crate::resolve::variants::{Variants, service};
use crate::source::Spanned;

/// A server of desktops.
pub(crate) fn server(
    raw: &DesktopRaw,
    kind: impl Fn(DesktopOptions) -> ServiceKind,
    report: &mut Report,
) -> Variants<Service> {
    let most = *limits::SESSIONS.end();
    counts_in(&raw.sessions.value, "a user needs a desktop", most, report);
    let port = check_port(&raw.port, report);
    for item in &raw.sessions.value.items {
        if u32::from(port) + item.value.min(most) > 1 + u32::from(u16::MAX) {
            report.error(item.span, format!("{} desktops have no ports from {port} on", item.value));
        }
    }
    for (size, limits, name) in [(&raw.width, &limits::WIDTH, "wide"), (&raw.height, &limits::HEIGHT, "high")]
    {
        if !limits.contains(&size.value) {
            let (least, most) = (limits.start(), limits.end());
            report.error(size.span, format!("a desktop is {least} to {most} pixels {name}"));
        }
    }
    let options = DesktopOptions {
        port,
        sessions: 1,
        width: raw.width.value,
        height: raw.height.value,
        security: DesktopSecurity::None,
        tunnel: false,
    };
    if raw.tunnel.value.items.iter().any(|item| item.value) {
        for item in raw.security.value.items.iter().filter(|item| item.value.0.is_tls()) {
            report.error(item.span, "TLS within TLS: `tunnel` needs no `x509`".to_owned());
        }
    }
    if matches!(kind(options.clone()), ServiceKind::X11vnc(_)) {
        for item in raw.security.value.items.iter().filter(|item| item.value.0.is_tls()) {
            report.error(item.span, "x11vnc is served without TLS; `tunnel` puts it into some".to_owned());
        }
    }
    let set = |service: &mut Service, change: &dyn Fn(&mut DesktopOptions)| {
        if let ServiceKind::Tigervnc(options) | ServiceKind::X11vnc(options) = &mut service.kind {
            change(options);
        }
    };
    let times = (&raw.ready_timeout, &raw.stop_timeout);
    Variants::of(service(kind(options), raw.name.as_ref(), times, report))
        .vary("sessions", &raw.sessions.value, report, |s, n| set(s, &|o| o.sessions = n))
        .vary("security", &raw.security.value, report, |s, kind| set(s, &|o| o.security = kind.0))
        .vary("tunnel", &raw.tunnel.value, report, |s, tunnel| set(s, &|o| o.tunnel = tunnel))
}

/// The workload, one variant for each combination of its lists.
pub(crate) fn workload(raw: &DesktopWorkloadRaw, report: &mut Report) -> Variants<Workload> {
    for item in raw.rate.value.items.iter().filter(|item| !limits::RATE.contains(&item.value.0)) {
        let (least, most) = (limits::RATE.start(), limits::RATE.end());
        report.error(item.span, format!("a user takes {least}/s to {most}/s actions"));
    }
    for item in raw.stay.value.items.iter().filter(|item| !limits::stays(item.value)) {
        let (least, most) = (limits::STAY.start(), limits::STAY.end());
        report.error(item.span, format!("a user stays {least} to {most}, or with `0s` to the end"));
    }
    for (times, key, least) in [(&raw.think, "think", Nanos::ZERO), (&raw.timeout, "timeout", Nanos(1))] {
        for item in &times.value.items {
            let time = Spanned { value: item.value, span: item.span };
            duration_in(&time, key, least, *limits::THINK.end(), report);
        }
    }
    let users = DesktopUsers {
        actions: DesktopScript::Mix.actions(),
        rate: Rate(1.0),
        think: Nanos::ZERO,
        stay: Nanos::ZERO,
        pace: DesktopPace::RealTime,
        encoding: DesktopEncoding::Raw,
        copies: true,
        continuous: true,
    };
    Variants::of(DesktopWorkload { users, timeout: Nanos::ZERO })
        .vary("actions", &raw.actions.value, report, |w, script| w.users.actions = script.0.actions())
        .vary("rate", &raw.rate.value, report, |w, rate| w.users.rate = rate)
        .vary("think", &raw.think.value, report, |w, think| w.users.think = think)
        .vary("stay", &raw.stay.value, report, |w, stay| w.users.stay = stay)
        .vary("pace", &raw.pace.value, report, |w, pace| w.users.pace = pace.0)
        .vary("encoding", &raw.encoding.value, report, |w, encoding| w.users.encoding = encoding.0)
        .vary("copies", &raw.copies.value, report, |w, copies| w.users.copies = copies)
        .vary("continuous", &raw.continuous.value, report, |w, continuous| w.users.continuous = continuous)
        .vary("timeout", &raw.timeout.value, report, |w, timeout| w.timeout = timeout)
        .map(Workload::Desktop)
}
