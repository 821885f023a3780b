//! Systems of a trial by their names.

use vtax_plan::model::{Beside, Cell, Role};
use vtax_units::fact;

/// Name of the system with this number, as the lab calls its node.
pub(crate) fn name(number: usize) -> String {
    if number == 0 { "sut".to_owned() } else { format!("sut-{}", number + 1) }
}

/// The word for what a system is there for; `None`: it is one that the cell measures.
pub(crate) const fn role_word(beside: Option<Role>) -> &'static str {
    match beside {
        None => fact::ROLE_SYSTEM,
        Some(Role::Measured) => fact::ROLE_MEASURED,
        Some(Role::Neighbour) => fact::ROLE_NEIGHBOUR,
    }
}

/// The system beside others of this name.
pub(crate) fn beside<'c>(cell: &'c Cell, member: &str) -> Option<&'c Beside> {
    let own = cell.environment.count as usize;
    (own..).zip(&cell.systems.beside).find(|(number, _)| name(*number) == member).map(|(_, beside)| beside)
}
