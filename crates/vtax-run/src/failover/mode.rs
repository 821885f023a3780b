//! How a cell is protected.

use vtax_plan::model::{Cell, EnvironmentKind, FaultTolerance, FtMode};
/// The options of a cell's protection; `None` where it is no virtual machine that is compared with
/// protected ones.
pub(crate) fn tolerance(cell: &Cell) -> Option<&FaultTolerance> {
    match &cell.environment.kind {
        EnvironmentKind::Vm(vm) => vm.fault_tolerance.as_ref(),
        EnvironmentKind::Native | EnvironmentKind::Container => None,
    }
}

/// How a cell is protected.
pub(crate) fn mode_of(cell: &Cell) -> FtMode {
    tolerance(cell).map_or(FtMode::None, |ft| ft.mode)
}
