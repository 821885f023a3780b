//! Services and workloads of the families, and whether the ones speak what the others do.

use super::sut::command;
use super::variants::{Named, Variants, unique};
use crate::decode::{Item, Many};
use crate::diagnose::{Report, listed};
use crate::family::{desktop, ftp, http, network, redis, sip, storage};
use crate::model::{Protocol, Service, ServiceKind, Workload};
use crate::raw::{ServiceRaw, SipRaw, WorkloadRaw};
use crate::source::Spanned;

/// The services named.
pub(super) fn services(raw: &Many<ServiceRaw>, report: &mut Report) -> Vec<Named<Service>> {
    let resolve = |item: &Item<ServiceRaw>, report: &mut Report| {
        let variants = match &item.value {
            ServiceRaw::Http(raw) => http::web::embedded(raw, report),
            ServiceRaw::Apache(raw) => http::web::apache(raw, report),
            ServiceRaw::Nginx(raw) => http::web::nginx(raw, report),
            ServiceRaw::Sip(raw) => sip::resolve::embedded(raw, report),
            ServiceRaw::Uas(raw) => sip::script::resolve::uas(raw, report),
            ServiceRaw::Kamailio(raw) => sip::resolve::kamailio(raw, report),
            ServiceRaw::Redis(raw) => redis::resolve::server(raw, report),
            ServiceRaw::Peer(raw) => network::resolve::peer(raw, report),
            ServiceRaw::Disk(raw) => storage::resolve::disk(raw, report),
            ServiceRaw::Tgt(raw) => storage::tgt::resolve(raw, report),
            ServiceRaw::Ganesha(raw) => storage::ganesha::resolve(raw, report),
            ServiceRaw::Samba(raw) => storage::samba::resolve(raw, report),
            ServiceRaw::Nfsd(raw) => storage::nfsd::resolve(raw, report),
            ServiceRaw::Lio(raw) => storage::lio::resolve(raw, report),
            ServiceRaw::Ftp(raw) => ftp::resolve::server(raw, ServiceKind::Ftp, report),
            ServiceRaw::Vsftpd(raw) => ftp::resolve::server(raw, ServiceKind::Vsftpd, report),
            ServiceRaw::Proftpd(raw) => ftp::resolve::server(raw, ServiceKind::Proftpd, report),
            ServiceRaw::Tigervnc(raw) => desktop::resolve::server(raw, ServiceKind::Tigervnc, report),
            ServiceRaw::X11vnc(raw) => desktop::resolve::server(raw, ServiceKind::X11vnc, report),
            ServiceRaw::Command(raw) => command(raw, report)?,
        };
        let name = variants.0.first().map(|variant| variant.value.name.clone())?;
        Some(Named { name, span: item.span, variants })
    };
    let all = raw.items.iter().filter_map(|item| resolve(item, report)).collect();
    unique("service", all, report)
}

/// One workload, or network tests, which may be several; `None` where nothing can be concluded.
pub(super) fn workloads(raw: &Spanned<Many<WorkloadRaw>>, report: &mut Report) -> Option<Variants<Workload>> {
    let items = &raw.value.items;
    if let (Some(other), 2..) = (items.iter().find(|w| w.value.protocol() != Protocol::Network), items.len())
    {
        report
            .error(
                other.span,
                "only network tests (`tcp`, `udp`, `ping`, `rr`, `voice`) can be several in one plan",
            )
            .help("write a plan of its own for this workload");
        return None;
    }
    Some(match &items.first()?.value {
        WorkloadRaw::Http(raw) => http::resolve::workload(raw, report),
        WorkloadRaw::Sip(SipRaw::Subscribers(raw)) => sip::resolve::workload(raw, report),
        WorkloadRaw::Sip(SipRaw::Script(raw)) => sip::script::resolve::workload(raw, report),
        WorkloadRaw::Redis(raw) => redis::resolve::workload(raw, report),
        WorkloadRaw::Storage(raw) => storage::resolve::workload(raw, report),
        WorkloadRaw::Ftp(raw) => ftp::resolve::workload(raw, report),
        WorkloadRaw::Desktop(raw) => desktop::resolve::workload(raw, report),
        WorkloadRaw::Tcp(_)
        | WorkloadRaw::Udp(_)
        | WorkloadRaw::Ping(_)
        | WorkloadRaw::Rr(_)
        | WorkloadRaw::Voice(_) => network::resolve::workload(&raw.value, report),
    })
}

/// Leaves out what can't be measured of any of these services.
pub(super) fn leave_out(
    raw: &Spanned<Many<WorkloadRaw>>,
    workloads: Option<&mut Variants<Workload>>,
    services: &[Named<Service>],
    report: &mut Report,
) {
    if let (Some(raw), Some(workloads)) = (raw.value.items.first(), workloads) {
        storage::served::leave_out_cold_names(&raw.value, workloads, services, report);
    }
}

/// Reports services that don't speak the workload's protocol, or don't serve what it asks for: every
/// trial would fail.
pub(super) fn check_served(
    raw: &Spanned<Many<WorkloadRaw>>,
    services: &[Named<Service>],
    report: &mut Report,
) {
    let Some(workload) = raw.value.items.first().map(|w| &w.value) else { return };
    let needed = workload.protocol();
    for service in services {
        let Some(first) = service.variants.0.first() else { continue };
        let help = match first.value.kind.facts().protocol {
            Some(spoken) if spoken == needed => continue,
            // A program of the user's own that speaks the protocol of vtax's network tests would be vtax.
            _ if needed == Protocol::Network => "network tests are made with the service `peer`".to_owned(),
            // Files on a disk need no program.
            None if needed == Protocol::Storage => "its tests are made with the service `disk`".to_owned(),
            None => continue,
            Some(spoken) => match spoken.workloads() {
                [word] => format!("its workload is `{word}`"),
                words => format!("its workloads are {}", listed(words.iter().copied())),
            },
        };
        let word = needed.workloads()[0];
        report
            .error(
                service.span,
                format!("`{}` does not speak what the workload `{word}` speaks", service.name),
            )
            .help(help);
    }
    http::web::check_served(workload, services, report);
    storage::served::check_served(workload, services, report);
    ftp::resolve::check_served(workload, services, report);
    sip::script::resolve::check_served(workload, services, report);
}
