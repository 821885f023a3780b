//! FTP: servers and workloads.

use std::collections::BTreeSet;

use vtax_units::{Bytes, Nanos};

use super::limits;
use super::model::{
    DataMode, FileSizes, FtpArrivals, FtpMix, FtpRequests, FtpServerOptions, FtpTls, FtpTlsMode, FtpWorkload,
};
use super::raw::{Distribution, FtpServerRaw, FtpWorkloadRaw, Protect, Tls};
use crate::decode::Many;
use crate::diagnose::Report;
use crate::family::storage::volume::Backend;
use crate::model::{Cell, Service, ServiceKind, Split, Workload};
use crate::raw::WorkloadRaw;
use crate::resolve::check::{LONGEST, check_port, count_in, counts_in, duration_in};
use crate::resolve::variants::{Named, Variant, Variants, service};
use crate::source::{Span, Spanned};
use crate::tls;

/// More source addresses than any host is given for this.
const MOST_ADDRESSES: u32 = 4096;
/// What `large` is of `size` where it isn't given.
const LARGE: u64 = 10;
/// Keys that mean nothing without TLS.
const OF_TLS: [&str; 4] = ["protect", "resume", "version", "cipher"];

/// A server of the catalogue.
pub(crate) fn server(
    raw: &FtpServerRaw,
    kind: fn(FtpServerOptions) -> ServiceKind,
    report: &mut Report,
) -> Variants<Service> {
    let port = check_port(&raw.port, report);
    let backend = Backend::Files;
    let options = kind(FtpServerOptions { port, implicit: false, require_reuse: false, backend });
    let insists = raw.require_reuse.value.items.iter().find(|item| item.value);
    if let (ServiceKind::Ftp(_), Some(item)) = (&options, insists) {
        report
            .error(item.span, "`require_reuse` means nothing to vtax's own server, which takes data connections of any session")
            .help("leave `require_reuse` out, or measure `vsftpd` or `proftpd`");
    }
    let set = |service: &mut Service, change: &dyn Fn(&mut FtpServerOptions)| match &mut service.kind {
        ServiceKind::Ftp(options) | ServiceKind::Vsftpd(options) | ServiceKind::Proftpd(options) => {
            change(options);
        }
        _ => {}
    };
    Variants::of(service(options, raw.name.as_ref(), (&raw.ready_timeout, &raw.stop_timeout), report))
        .vary("implicit", &raw.implicit.value, report, |s, yes| set(s, &|o| o.implicit = yes))
        .vary("require_reuse", &raw.require_reuse.value, report, |s, yes| set(s, &|o| o.require_reuse = yes))
        .vary("backend", &raw.backend.value, report, |s, backend| set(s, &|o| o.backend = backend.0))
}

/// A workload while its lists are multiplied out.
#[derive(Debug, Clone)]
struct Draft {
    workload: FtpWorkload,
    size: Bytes,
    large: Option<Bytes>,
    distribution: Distribution,
    tls: Tls,
    settings: FtpTls,
}

impl Draft {
    fn new(addresses: u32) -> Self {
        let requests = FtpRequests {
            mix: FtpMix { retr: 0, stor: 0, list: 0 },
            files: 1,
            size: FileSizes::Fixed(Bytes(0)),
            transfers: None,
            think: Nanos::ZERO,
            data: DataMode::Epsv,
            tls: None,
            arrivals_of: FtpArrivals::Transfers,
            read_back: 0,
            rest: false,
            bytes: None,
        };
        Self {
            workload: FtpWorkload { requests, clients: 1, addresses, timeout: Nanos::ZERO },
            size: Bytes(0),
            large: None,
            distribution: Distribution::Fixed,
            tls: Tls::None,
            settings: FtpTls {
                mode: FtpTlsMode::Explicit,
                protect: true,
                resume: true,
                version: None,
                cipher: None,
            },
        }
    }

    fn finish(self) -> Workload {
        let Self { mut workload, size, large, distribution, tls, mut settings } = self;
        let large = large.unwrap_or(Bytes(size.0.saturating_mul(LARGE)));
        workload.requests.size = match distribution {
            Distribution::Fixed => FileSizes::Fixed(size),
            Distribution::Uniform => FileSizes::Uniform(size, large),
            Distribution::LogNormal => FileSizes::LogNormal(size, large),
        };
        workload.requests.tls = match tls {
            Tls::None => None,
            Tls::Explicit => Some(settings),
            Tls::Implicit => {
                settings.mode = FtpTlsMode::Implicit;
                Some(settings)
            }
        };
        Workload::Ftp(Box::new(workload))
    }
}

/// The workload, one variant for each combination of its lists.
pub(crate) fn workload(raw: &FtpWorkloadRaw, report: &mut Report) -> Variants<Workload> {
    check(raw, report);
    let addresses = count_in(
        &raw.addresses,
        "clients have an address",
        MOST_ADDRESSES.min(*limits::CLIENTS.end()),
        report,
    );
    let drafts = Variants::of(Draft::new(addresses))
        .vary("retr", &raw.retr.value, report, |d, n| d.workload.requests.mix.retr = n)
        .vary("stor", &raw.stor.value, report, |d, n| d.workload.requests.mix.stor = n)
        .vary("list", &raw.list.value, report, |d, n| d.workload.requests.mix.list = n)
        .vary("files", &raw.files.value, report, |d, n| d.workload.requests.files = n)
        .vary("size", &raw.size.value, report, |d, size| d.size = size)
        .vary("distribution", &raw.distribution.value, report, |d, law| d.distribution = law.0)
        .vary_if("large", raw.large.as_ref(), report, |d, large| d.large = Some(large))
        .vary("transfers", &raw.transfers.value, report, |d, n| {
            d.workload.requests.transfers = (n > 0).then_some(n);
        })
        .vary("think", &raw.think.value, report, |d, think| d.workload.requests.think = think)
        .vary("data", &raw.data.value, report, |d, data| d.workload.requests.data = data.0);
    let drafts = with_tls(drafts, raw, report)
        .vary("arrivals_of", &raw.arrivals_of.value, report, |d, of| d.workload.requests.arrivals_of = of.0)
        .vary("read_back", &raw.read_back.value, report, |d, n| d.workload.requests.read_back = n)
        .vary("rest", &raw.rest.value, report, |d, rest| d.workload.requests.rest = rest)
        .vary_if("bytes", raw.bytes.as_ref(), report, |d, bytes| d.workload.requests.bytes = Some(bytes))
        .vary("clients", &raw.clients.value, report, |d, clients| d.workload.clients = clients)
        .vary("timeout", &raw.timeout.value, report, |d, timeout| d.workload.timeout = timeout);
    distinct(drafts).map(Draft::finish)
}

/// Leaves out those without TLS that differ in nothing but its keys, and those whose version of TLS doesn't have their cipher suite.
fn distinct(drafts: Variants<Draft>) -> Variants<Draft> {
    let mut seen = BTreeSet::new();
    let mut kept: Vec<Variant<Draft>> = Vec::with_capacity(drafts.0.len());
    for mut draft in drafts.0 {
        if draft.value.tls == Tls::None {
            draft.parameters.retain(|(key, _)| !OF_TLS.contains(key));
            if !seen.insert(draft.parameters.clone()) {
                continue;
            }
        } else if !tls::is_of(draft.value.settings.version, draft.value.settings.cipher.as_deref()) {
            continue;
        }
        kept.push(draft);
    }
    Variants(kept)
}

fn with_tls(drafts: Variants<Draft>, raw: &FtpWorkloadRaw, report: &mut Report) -> Variants<Draft> {
    drafts
        .vary("tls", &raw.tls.value, report, |d, tls| d.tls = tls.0)
        .vary("protect", &raw.protect.value, report, |d, what| d.settings.protect = what.0 == Protect::All)
        .vary("resume", &raw.resume.value, report, |d, resume| d.settings.resume = resume)
        .vary("version", &raw.version.value, report, |d, version| d.settings.version = version.0.only())
        .vary_if("cipher", raw.cipher.as_ref(), report, |d, cipher| d.settings.cipher = Some(cipher))
}

fn check(raw: &FtpWorkloadRaw, report: &mut Report) {
    let weights = [&raw.retr.value, &raw.stor.value, &raw.list.value];
    for weight in weights.iter().flat_map(|many| &many.items).filter(|w| !limits::WEIGHT.contains(&w.value)) {
        report.error(weight.span, format!("{} is more than {}", weight.value, limits::WEIGHT.end()));
    }
    if let Some(first) = raw.retr.value.items.first()
        && weights.iter().all(|many| many.items.iter().any(|weight| weight.value == 0))
    {
        report
            .error(first.span, "`retr`, `stor` and `list` are all 0 in a cell: clients would do nothing")
            .help("give one of them a weight");
    }
    counts_in(&raw.files.value, "there must be a file to fetch", *limits::FILES.end(), report);
    counts_in(&raw.clients.value, "transfers need a client", *limits::CLIENTS.end(), report);
    let sizes = raw.size.value.items.iter().chain(raw.large.iter().flat_map(|large| &large.value.items));
    for size in sizes.filter(|size| !limits::SIZE.contains(&size.value)) {
        report.error(size.span, format!("{} is longer than {}", size.value, limits::SIZE.end()));
    }
    for n in raw.transfers.value.items.iter().filter(|n| n.value > *limits::TRANSFERS.end()) {
        report.error(n.span, format!("{} is more than {}", n.value, limits::TRANSFERS.end()));
    }
    for bytes in raw.bytes.iter().flat_map(|bytes| &bytes.value.items).filter(|bytes| bytes.value.0 == 0) {
        report.error(bytes.span, "a load of no bytes has nothing to do");
    }
    durations(&raw.think.value, "think", Nanos::ZERO, report);
    durations(&raw.timeout.value, "timeout", Nanos(1), report);
    check_tls(raw, report);
}

/// Whether the keys of TLS fit together, and to whether there is any.
fn check_tls(raw: &FtpWorkloadRaw, report: &mut Report) {
    let asked = &raw.tls.value;
    if asked.complete && asked.items.iter().all(|item| item.value.0 == Tls::None) {
        let control = raw.protect.value.items.iter().find(|item| item.value.0 == Protect::Control);
        let full = raw.resume.value.items.iter().find(|item| !item.value);
        let version = raw.version.value.items.iter().find(|item| item.value.0.only().is_some());
        let given = [
            ("protect", control.map(|item| item.span)),
            ("resume", full.map(|item| item.span)),
            ("version", version.map(|item| item.span)),
            ("cipher", raw.cipher.as_ref().map(|cipher| cipher.span)),
        ];
        tls::refuse(&given, "write `tls: explicit`, or leave it out", report);
    }
    let versions: Vec<_> = raw.version.value.items.iter().map(|item| item.value.0.only()).collect();
    for cipher in raw.cipher.iter().flat_map(|ciphers| &ciphers.value.items) {
        tls::check(&cipher.value, cipher.span, &versions, report);
    }
}

fn durations(all: &Many<Nanos>, what: &str, least: Nanos, report: &mut Report) {
    for item in &all.items {
        duration_in(&Spanned { value: item.value, span: item.span }, what, least, LONGEST, report);
    }
}

/// Reports servers whose TLS begins otherwise than the workload's: every trial would fail. Of lists each item needs one that suits it; the
/// other pairs make no cell.
pub(crate) fn check_served(workload: &WorkloadRaw, services: &[Named<Service>], report: &mut Report) {
    let WorkloadRaw::Ftp(ftp) = workload else { return };
    let asked: Vec<bool> = ftp.tls.value.items.iter().map(|tls| tls.value.0 == Tls::Implicit).collect();
    for service in services {
        let variants = service.variants.0.iter();
        let served: Vec<bool> = variants.filter_map(|variant| implicit(&variant.value.kind)).collect();
        let meet = |one: &[bool], other: &[bool]| one.iter().all(|implicit| other.contains(implicit));
        let suits = served.is_empty() || (meet(&served, &asked) && meet(&asked, &served));
        if !suits {
            report
                .error(
                    service.span,
                    format!("TLS of `{}` and of the workload don't begin at the same time", service.name),
                )
                .help("write both `implicit: true` for the service and `tls: implicit` for the workload, or neither");
        }
    }
}

/// Reports more sessions at once than vtax's own server takes: it would refuse the others.
pub(crate) fn check_cells(cells: &[Cell], span: Span, report: &mut Report) {
    let most = limits::OWN_SESSIONS;
    let Some((service, asked)) = cells.iter().flat_map(of_own_servers).find(|(_, asked)| *asked > most)
    else {
        return;
    };
    report
        .error(span, format!("`{service}` serves {most} `clients` at once, and {asked} are to use it"))
        .help("ask for fewer `clients`, or measure `vsftpd` or `proftpd`");
}

/// The services of a cell that are vtax's own servers, each with the sessions that it is asked for at once.
fn of_own_servers(cell: &Cell) -> Vec<(&str, u32)> {
    let count = match cell.systems.load {
        Split::Total => cell.environment.count.max(1),
        Split::Each => 1,
    };
    let beside = cell.systems.beside.iter().map(|beside| (&beside.service, &beside.workload, 1));
    let all = std::iter::once((&cell.service, &cell.workload, count)).chain(beside);
    let own = all.filter_map(|(service, workload, count)| match (&service.kind, workload) {
        (ServiceKind::Ftp(_), Workload::Ftp(ftp)) => {
            Some((service.name.as_str(), ftp.clients.div_ceil(count)))
        }
        _ => None,
    });
    own.collect()
}

/// Whether a server of FTP begins with TLS; `None`: it is no such server.
const fn implicit(service: &ServiceKind) -> Option<bool> {
    match service {
        ServiceKind::Ftp(o) | ServiceKind::Vsftpd(o) | ServiceKind::Proftpd(o) => Some(o.implicit),
        _ => None,
    }
}

/// Why a server can't serve a workload; `None` where it can.
pub(crate) fn impossible(service: &ServiceKind, workload: &Workload) -> Option<&'static str> {
    let Workload::Ftp(ftp) = workload else { return None };
    let asked = ftp.requests.tls.as_ref().is_some_and(|tls| tls.mode == FtpTlsMode::Implicit);
    (implicit(service)? != asked).then_some("its TLS doesn't begin when the workload's does")
}
