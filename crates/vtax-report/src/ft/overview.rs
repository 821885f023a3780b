//! What came of each kind of fault in each environment, in one table: what many kinds of faults are seen by at once.

use super::failovers::Series;
use super::figures::Quantity;
use crate::html::parts::{close_table, open_table, scrolling};
use crate::markup::Markup;

/// A row for each fault, a column for each environment that met any.
pub(super) fn overview(by_fault: &[(&str, Vec<&Series<'_>>)]) -> Markup {
    let mut environments: Vec<(usize, &str)> = Vec::new();
    for series in by_fault.iter().flat_map(|(_, all)| all) {
        let environment = (series.environment.position, series.environment.label.as_str());
        if !environments.contains(&environment) {
            environments.push(environment);
        }
    }
    environments.sort_unstable();
    let mut columns = vec![("first answer after, median", false)];
    columns.extend(environments.iter().map(|(_, label)| (*label, true)));
    let mut m = open_table("failovers", &columns);
    for (fault, all) in by_fault {
        m.open("tr", &[]).element("th", &[("scope", "row")], fault);
        for (position, _) in &environments {
            m.open("td", &[("class", "n")]);
            if let Some(series) = all.iter().find(|series| series.environment.position == *position) {
                let class = if series.survived() == series.count() { "" } else { "tag failed" };
                let share = format!("{} of {} survived", series.survived(), series.count());
                m.element("b", &[("class", class)], &outcome(series)).element("small", &[], &share);
            }
            m.close("td");
        }
        m.close("tr");
    }
    close_table(&mut m);
    scrolling(&m)
}

/// How long those who asked waited, or why that has no figure.
fn outcome(series: &Series<'_>) -> String {
    let waited = |name| {
        let quantity = Quantity::named(name)?;
        let figure = series.figure(quantity);
        // Of too few there is only what was seen.
        let text = if figure.unknown() { figure.detail(quantity.unit) } else { figure.text(quantity.unit) };
        figure.median.is_some().then_some(text)
    };
    if let Some(waited) = waited("first_answer") {
        return waited;
    }
    // Of a guest that is moved on purpose.
    if let Some(silence) = waited("silence") {
        return format!("{silence} between two answers");
    }
    let all = |count: usize| count as u64 == series.count();
    let words = match () {
        () if all(series.calm().count()) => "no outage seen",
        () if all(series.restored().count()) => "only once restored",
        () if series.survived() == 0 => "not survived",
        () => "—",
    };
    words.to_owned()
}
