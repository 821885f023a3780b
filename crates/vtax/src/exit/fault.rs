//! Whose fault the errors of other crates are: what was given, the host, or vtax itself.

use vtax_export::ExportError;
use vtax_hosts::HostsError;
use vtax_report::ReportError;
use vtax_report::compare::CompareError;
use vtax_report::merged::MergeError;
use vtax_run::RunError;
use vtax_serve::ServeError;
use vtax_store::StoreError;
use vtax_study::StudyError;

use super::{Exit, Fault};

/// The exit code of an error that is no bug.
const fn by_input(is_bad_input: bool) -> Exit {
    if is_bad_input { Exit::BadInput } else { Exit::HostCannot }
}

impl Fault for StoreError {
    fn exit(&self) -> Exit {
        match self {
            // Only vtax itself makes records.
            Self::Unwritable { .. } => Exit::Bug,
            _ => by_input(self.is_bad_input()),
        }
    }
}

impl Fault for ReportError {
    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::Workbook { .. } => by_input(self.is_bad_input()),
        }
    }
}

impl Fault for CompareError {
    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::Refused(_) | Self::UnknownMetric { .. } => by_input(self.is_bad_input()),
        }
    }
}

impl Fault for MergeError {
    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::Metric(error) => error.exit(),
            Self::Alone | Self::Refused(_) => by_input(self.is_bad_input()),
        }
    }
}

impl Fault for RunError {
    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            Self::ForeignTrial { .. } => Exit::BadInput,
            Self::Lab(_) | Self::NothingPossible(_) | Self::NotAllPossible(_) => Exit::HostCannot,
        }
    }
}

impl Fault for HostsError {
    fn exit(&self) -> Exit {
        match self {
            Self::Store(error) => error.exit(),
            _ => by_input(self.is_bad_input()),
        }
    }
}

impl Fault for ServeError {
    fn exit(&self) -> Exit {
        by_input(self.is_bad_input())
    }
}

impl Fault for ExportError {
    fn exit(&self) -> Exit {
        by_input(self.is_bad_input())
    }
}

impl Fault for StudyError {
    /// A study that can't be read is one that was asked for wrongly, or is wrong.
    fn exit(&self) -> Exit {
        Exit::BadInput
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Error, ErrorKind};
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn an_error_of_the_store_has_one_exit_code_wherever_it_comes_through() {
        let io = |kind: ErrorKind| StoreError::Io {
            operation: "read",
            path: PathBuf::from("x"),
            source: Error::from(kind),
        };
        let full =
            || StoreError::Full { path: PathBuf::from("x"), source: Error::from(ErrorKind::StorageFull) };
        let unwritable = || StoreError::Unwritable { path: PathBuf::from("x"), reason: "not finite".into() };
        let not_a_run = || StoreError::NotARun { path: PathBuf::from("x"), reason: "no run.json" };
        let errors: [(&dyn Fn() -> StoreError, Exit); 5] = [
            (&|| io(ErrorKind::NotFound), Exit::BadInput),
            (&|| io(ErrorKind::PermissionDenied), Exit::HostCannot),
            (&full, Exit::HostCannot),
            (&unwritable, Exit::Bug),
            (&not_a_run, Exit::BadInput),
        ];
        for (error, exit) in errors {
            assert_eq!(error().exit(), exit);
            assert_eq!(ReportError::from(error()).exit(), exit);
            assert_eq!(CompareError::from(error()).exit(), exit);
            assert_eq!(MergeError::from(error()).exit(), exit);
            assert_eq!(RunError::from(error()).exit(), exit);
            assert_eq!(HostsError::from(error()).exit(), exit);
        }
    }
}
