//! How a cell is protected.

use vtax_plan::model::{Cell, Environment, EnvironmentKind, FaultTolerance, FtMode};

/// The options of a cell's protection; `None` where it is no virtual machine that is compared with
/// protected ones.
pub(crate) fn tolerance(cell: &Cell) -> Option<&FaultTolerance> {
    tolerance_in(&cell.environment)
}

fn tolerance_in(environment: &Environment) -> Option<&FaultTolerance> {
    match &environment.kind {
        EnvironmentKind::Vm(vm) => vm.fault_tolerance.as_ref(),
        EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => None,
    }
}

/// How a cell is protected.
pub(crate) fn mode_of(cell: &Cell) -> FtMode {
    mode_in(&cell.environment)
}

/// How a system in this environment is protected.
pub(crate) fn mode_in(environment: &Environment) -> FtMode {
    tolerance_in(environment).map_or(FtMode::None, |ft| ft.mode)
}
