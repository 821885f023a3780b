//! Trials of desktops as a table.

use super::trial::figures;
use crate::data::RunData;
use crate::table::{Table, count, number, text, text_or_none, yes_no};

/// One row for each trial; no table in a run without desktops.
pub(super) fn tables(data: &RunData) -> Vec<Table> {
    let columns = "trial,cell,measure,counts,users,connected,width,height,recorded_s,updates,pixels,bytes,merged,\
                   continuous,rectangles,trouble";
    let mut table = Table::new("desktops", "Desktops", columns);
    let mut any = false;
    for trial in &data.trials {
        let Some(found) = figures(trial) else { continue };
        any = true;
        let rects: Vec<String> = found.rects.iter().map(|(name, n)| format!("{n} {name}")).collect();
        table.push([
            number(trial.index),
            text(&trial.cell),
            text(&trial.measure),
            yes_no(trial.validity == vtax_store::record::Validity::Valid),
            number(found.sessions),
            number(found.connected),
            number(found.size.0),
            number(found.size.1),
            number(found.duration.as_secs_f64()),
            count(found.updates),
            count(found.pixels),
            count(found.bytes),
            count(found.merged),
            number(found.continuous),
            text(rects.join(", ")),
            text_or_none(found.trouble.as_deref()),
        ]);
    }
    if any { vec![table] } else { Vec::new() }
}
