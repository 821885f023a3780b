//! Where the time of a login and of a transfer goes.

use vtax_load::ftp::FtpPhase;

use super::trial::{TIMED, Timed};
use crate::context::Context;
use crate::data::Group;
use crate::format::duration;
use crate::general::cpu::keep_what_shows;
use crate::html::parts::{details, figure, titled};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::plot::responsive;
use crate::plot::stack::{Bar, Part, Per, stack};

impl Part for FtpPhase {
    fn class(self) -> &'static str {
        match self {
            Self::Connect => "l6",
            Self::Login => "l7",
            Self::Passive => "l0",
            Self::DataConnection => "l1",
            Self::Tls | Self::DataTls => "l2",
            Self::FirstByte => "l3",
            Self::Content => "l4",
            Self::FinalReply => "l5",
        }
    }

    fn label(self) -> &'static str {
        self.words()
    }
}

/// A picture for each measure, of logins and of each kind of transfer.
pub(super) fn section(context: &Context) -> Markup {
    let mut m = Markup::new();
    for group in context.data.groups() {
        for measure in &context.data.plan.measures {
            for timed in TIMED {
                let bars = bars(context, &group, &measure.name, &timed);
                if !bars.is_empty() {
                    let how = match timed.name {
                        // The server greets before TLS begins, so that its phases aren't one behind the other.
                        "login" => "\"login\" is all the rest, the server's greeting before TLS included",
                        _ => "each begins where the one before ends",
                    };
                    let caption = format!("Phases of {}, {}; {how}", timed.name, measure.name);
                    m.add(&picture(&titled(&caption, &group.label), &timed, &bars));
                }
            }
        }
    }
    m
}

/// Means over trials, which add up.
fn bars(context: &Context, group: &Group<'_>, measure: &str, timed: &Timed) -> Vec<Bar<FtpPhase>> {
    let mut bars = Vec::new();
    for cell in &group.cells {
        let mut found = context.summary.cells.iter();
        let Some(found) = found.find(|c| c.cell == cell.id && c.measure == measure) else { continue };
        let phases = timed.phases.iter();
        let layers: Vec<(FtpPhase, f64)> =
            phases.filter_map(|(phase, metric)| Some((*phase, found.metrics.get(*metric)?.mean))).collect();
        if layers.iter().any(|(_, time)| *time > 0.0) {
            bars.push(Bar { label: context.data.environment_label(cell), layers });
        }
    }
    // In the clear nothing takes time for TLS.
    keep_what_shows(&mut bars);
    bars
}

fn picture(caption: &str, timed: &Timed, bars: &[Bar<FtpPhase>]) -> Markup {
    let there = |phase: FtpPhase| bars.iter().flat_map(|bar| &bar.layers).any(|(own, _)| *own == phase);
    let phases: Vec<FtpPhase> = timed.phases.iter().map(|(phase, _)| *phase).filter(|p| there(*p)).collect();
    let keys: Vec<_> = phases.iter().map(|phase| (phase.class(), phase.label().to_owned())).collect();
    let mut columns = vec![("Phase", false)];
    columns.extend(bars.iter().map(|bar| (bar.label.as_str(), true)));
    let mut table = PlainTable::new("", &columns);
    for phase in &phases {
        let of = |bar: &Bar<FtpPhase>| bar.layers.iter().find(|(own, _)| own == phase).map(|(_, time)| *time);
        table.push(phase.label(), bars.iter().map(|bar| of(bar).map_or_else(String::new, duration)));
    }
    table.push("sum", bars.iter().map(|bar| duration(bar.total())));
    let mut m = figure(caption, &keys, &responsive(|width| stack(bars, false, caption, Per::PHASES, width)));
    m.add(&details("As a table", &table.finish()));
    m
}
