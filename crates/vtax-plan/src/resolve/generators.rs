//! Generators on hosts of their own: which workloads and measures they can't have.

use std::collections::BTreeSet;

use vtax_units::counted;

use crate::diagnose::Report;
use crate::model::{ArrivalProcess, Cell, Measure, MeasureKind, PathKind, Workload};
use crate::source::Span;

/// Reports what generators on hosts of their own can't do, each reason once.
pub(super) fn check(cells: &[Cell], measures: &[Measure], span: Span, report: &mut Report) {
    let mut told = BTreeSet::new();
    let from_afar = || cells.iter().filter(|cell| !cell.path.kind.generators().is_empty());
    let of_cells = from_afar().filter_map(of_cell);
    let of_measures = from_afar().flat_map(|cell| measures.iter().filter_map(|m| of_measure(cell, m)));
    for (why, help) in of_cells.chain(of_measures) {
        if told.insert(why.clone()) {
            report.error(span, why).help(help);
        }
    }
}

/// Whether the generators of a cell are of the hosts that `vtax run --on` gives, and named nowhere in the plan.
fn are_given(cell: &Cell) -> bool {
    matches!(&cell.path.kind, PathKind::Nic(nic) if nic.given)
}

/// Why the load of a cell can't come from its generators, with the way out.
fn of_cell(cell: &Cell) -> Option<(String, String)> {
    let count = cell.path.kind.generators().len();
    let path = &cell.path.name;
    let divided = match divided(&cell.workload) {
        Ok(divided) => divided,
        Err(why) => {
            let word = cell.workload.model().protocol().workloads()[0];
            let (who, instead) = match are_given(cell) {
                true => (
                    "hosts that make the load, and these can't make that",
                    "name one `host` in place of `hosts`, and the load comes from this one",
                ),
                false => (
                    "generators, which can't make the load",
                    "leave `generators` out, and it comes from this host",
                ),
            };
            return Some((
                format!("path `{path}` has {who} of `{word}`: {why}"),
                format!(
                    "they make that of `http`, `redis`, `ftp`, and `sip` with a `scenario_file`; {instead}"
                ),
            ));
        }
    };
    if let Some((key, all)) = divided.into_iter().find(|(_, all)| *all < count as u64) {
        return Some((
            format!("path `{path}` has {}, and the workload {all} {key}", counted(count, "generator")),
            format!("each generator has one at least: `{key}: {count}`"),
        ));
    }
    let addresses = cell.workload.model().client_addresses().filter(|addresses| *addresses > 1)?;
    Some((
        format!(
            "`addresses: {addresses}` are made on a network of the lab, and each generator of path `{path}` has its host's own"
        ),
        "leave `addresses` out".to_owned(),
    ))
}

/// What of a workload is divided among generators, by its keys, each of which has one at least; or why its load can't be.
fn divided(workload: &Workload) -> Result<Vec<(&'static str, u64)>, &'static str> {
    match workload {
        Workload::Http(http) => Ok(vec![("connections", http.connections.into())]),
        Workload::Redis(redis) => {
            Ok(vec![("connections", redis.connections.into()), ("keys", redis.requests.keys)])
        }
        Workload::Ftp(ftp) => Ok(vec![("clients", ftp.clients.into())]),
        Workload::Script(calls) => Ok(vec![("calls", calls.calls.into())]),
        Workload::Sip(_) => Err("one generator has all subscribers, as any may call any other"),
        Workload::Network(_) => Err("each test is between two ends, and both are measured"),
        Workload::Storage(_) => Err("its files have one owner, who knows what they hold"),
        Workload::Desktop(_) => Err("what users of desktops see doesn't add up"),
    }
}

/// Why a measure can't be made by the generators of a cell, with the way out.
fn of_measure(cell: &Cell, measure: &Measure) -> Option<(String, String)> {
    let (path, name) = (&cell.path.name, &measure.name);
    if matches!(measure.kind, MeasureKind::Failover(_)) {
        let (who, help) = match are_given(cell) {
            true => {
                ("hosts that make the load", "name one `host` in place of `hosts`, or leave this measure out")
            }
            false => ("generators", "leave `generators` or this measure out"),
        };
        let why = format!("path `{path}` has {who}, and `{name}` tells times of this host from theirs");
        return Some((why, help.to_owned()));
    }
    let several = cell.path.kind.generators().len() > 1;
    (several && measure.kind.arrivals() == Some(ArrivalProcess::Constant)).then(|| {
        (
            format!(
                "several generators of path `{path}` can't keep the even distances that `{name}` asks for"
            ),
            "with `arrivals: poisson` what they send together is what one would send".to_owned(),
        )
    })
}
