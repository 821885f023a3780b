//! Paths on which a capture of packets can't count bytes.

use crate::diagnose::Report;
use crate::model::{Cell, Measure, MeasureKind, PathKind};
use crate::source::Span;

/// Reports `capture` over paths whose ends have no Ethernet headers, by which a capture tells who sent a packet.
pub(super) fn check(cells: &[Cell], measures: &[Measure], span: Span, report: &mut Report) {
    let captures = |m: &Measure| matches!(&m.kind, MeasureKind::Network(network) if network.capture);
    let bare = cells.iter().find(|cell| matches!(cell.path.kind, PathKind::Wireguard));
    if let Some(cell) = bare
        && measures.iter().any(captures)
    {
        let (name, word) = (&cell.path.name, cell.path.kind.word());
        report
            .error(span, format!("`capture` can't count on path `{name}`: the ends of its tunnel have no Ethernet headers"))
            .help(format!("leave `capture` out, or measure `{word}` in a plan of its own: interfaces and kernels count all the same"));
    }
}
