//! Files that arguments name: runs that are read, results that are written.

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::path::Path;

use vtax_report::Report;
use vtax_store::RunDir;

use crate::exit::{Exit, Failure};

/// The report of the run in this directory.
pub(super) fn open_report(run: &Path) -> Result<Report, Failure> {
    Ok(Report::read(&RunDir::open(run)?)?)
}

/// The reports of the run in this directory, or of all runs right below it.
pub(super) fn open_reports(place: &Path) -> Result<Vec<Report>, Failure> {
    let runs = RunDir::open_all(place)?;
    runs.iter().map(|run| Ok(Report::read(run)?)).collect()
}

/// Writes a file that an argument names. It is written in place, so that a pipe or a device may be named.
pub(super) fn write_output(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|error| not_written(path, error))
}

/// Writes a file that an argument names, and that must not be there yet.
pub(super) fn write_new(path: &Path, text: &str) -> Result<(), Failure> {
    let opened = File::options().write(true).create_new(true).open(path);
    opened.and_then(|mut file| file.write_all(text.as_bytes())).map_err(|error| not_written(path, error))
}

/// Why a file that an argument names isn't written. A directory that is missing is the argument's fault, and so is a file that is
/// there where a new one was asked for.
fn not_written(path: &Path, error: io::Error) -> Failure {
    let exit = match error.kind() {
        ErrorKind::NotFound | ErrorKind::AlreadyExists => Exit::BadInput,
        _ => Exit::HostCannot,
    };
    let what = format!("cannot write {}", path.display());
    Failure::new(exit, anyhow::Error::new(error).context(what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_missing_is_the_fault_of_the_arguments() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("missing/file");
        assert_eq!(write_output(&path, "text").unwrap_err().exit(), Exit::BadInput);
        let refused = not_written(&path, io::Error::from(ErrorKind::PermissionDenied));
        assert_eq!(refused.exit(), Exit::HostCannot);
        assert!(refused.to_string().starts_with("cannot write "), "{refused}");
        let path = scratch.path().join("file");
        write_output(&path, "text").unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        assert_eq!(write_new(&path, "other").unwrap_err().exit(), Exit::BadInput);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "text");
        let path = scratch.path().join("new");
        write_new(&path, "text").unwrap();
        assert_eq!(std::fs::read_to_string(path).unwrap(), "text");
    }
}
