//! Who may use which volume.

use vtax_plan::model::Access;

use crate::data::RunData;
use crate::html::parts::scrolling;
use crate::html::table::PlainTable;
use crate::markup::Markup;

/// What each service shows to whom, once; nothing where none serves storage.
pub(super) fn section(data: &RunData) -> Markup {
    let mut shown: Vec<(&str, Access)> = Vec::new();
    for service in data.plan.cells.iter().map(|cell| &cell.service) {
        let Some(access) = service.kind.access() else { continue };
        let known = |(name, other): &(&str, Access)| *name == service.name && *other == access;
        if !shown.iter().any(known) {
            shown.push((&service.name, access));
        }
    }
    if shown.is_empty() {
        return Markup::new();
    }
    let columns = [("Service", false), ("Shows", false), ("What is in it", false), ("To whom", false)];
    let mut table = PlainTable::new("", &columns);
    for (service, access) in shown {
        table.push(service, [access.of, access.what, access.who]);
    }
    scrolling(&table.finish())
}
