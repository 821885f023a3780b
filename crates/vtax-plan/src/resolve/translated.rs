//! Paths on which clients meet a service at another address than it knows of: which workloads can't cross them.

use std::collections::BTreeSet;

use crate::diagnose::Report;
use crate::model::{Cell, NetworkTest, NetworkTestKind, PathKind, Workload};
use crate::source::Span;

/// Reports what can't be measured over a path that translates addresses, each reason once.
pub(super) fn check(cells: &[Cell], span: Span, report: &mut Report) {
    let mut told = BTreeSet::new();
    for cell in cells.iter().filter(|cell| cell.path.kind.translates()) {
        let (path, word) = (&cell.path.name, cell.path.kind.word());
        let Some((what, help)) = impossible(cell) else { continue };
        let why = format!("path `{path}` translates addresses, and {what}");
        if told.insert(why.clone()) {
            report.error(span, why).help(format!("{help}, or leave `{word}` out"));
        }
    }
}

/// What of a cell can't cross a translation, with the way out.
fn impossible(cell: &Cell) -> Option<(&'static str, &'static str)> {
    match &cell.workload {
        Workload::Network(network) if matches!(cell.path.kind, PathKind::Rootless(_)) => {
            // Datagrams go to ports that tests choose for themselves, and echoes of ICMP would be answered by the host.
            let on_the_port =
                |test: &NetworkTest| matches!(test.kind, NetworkTestKind::Tcp(_) | NetworkTestKind::Rr(_));
            (!network.tests.iter().all(on_the_port)).then_some((
                "publishes the service's port alone, by which of the network tests only `tcp` and `rr` go",
                "leave the other tests out",
            ))
        }
        Workload::Desktop(_) if matches!(cell.path.kind, PathKind::Rootless(_)) => {
            let several = cell.service.kind.desktops().is_some_and(|desktops| desktops > 1);
            several.then_some((
                "publishes one port alone, where each desktop has its own",
                "write `sessions: 1` for the service",
            ))
        }
        Workload::Http(_) | Workload::Redis(_) | Workload::Network(_) | Workload::Desktop(_) => None,
        Workload::Sip(_) | Workload::Script(_) => {
            Some(("SIP names addresses in its messages", "measure SIP over `bridge`"))
        }
        Workload::Ftp(_) => Some(("FTP names addresses in its replies", "measure FTP over `bridge`")),
        Workload::Storage(_) => {
            Some(("storage hasn't been tried behind such a host", "measure storage over `bridge`"))
        }
    }
}
