//! The directories that vtax writes to besides runs: what it can do there.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vtax_sys::check::Check;

/// Tries the directory of temporary files and the cache.
pub(super) fn checks(cache: &Path) -> Vec<Check> {
    vec![temporary(&std::env::temp_dir()), kept(cache)]
}

/// A program of a line in a directory, removed when dropped.
struct Trial(PathBuf);

impl Trial {
    fn write(directory: &Path) -> std::io::Result<Self> {
        let path = directory.join(format!("vtax-doctor-{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o700).open(&path)?;
        let trial = Self(path);
        file.write_all(b"#!/bin/sh\nexit 0\n")?;
        Ok(trial)
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // It was made here; where that has become impossible there is nothing more to do.
        let _ = fs::remove_file(&self.0);
    }
}

/// Whether temporary files can be written and executed: agents of other hosts are started from there.
fn temporary(directory: &Path) -> Check {
    let name = "temporary files";
    let place = directory.display();
    let trial = match Trial::write(directory) {
        Ok(trial) => trial,
        Err(e) => {
            return Check::degraded(
                name,
                format!("{place} can't be written: {e}"),
                "set TMPDIR to a directory that can",
            );
        }
    };
    match Command::new(&trial.0).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => Check::ok(name, format!("{place} can be written and executed")),
        Ok(status) => Check::degraded(
            name,
            format!("a program in {place} ended with {status}"),
            "set TMPDIR to another directory",
        ),
        Err(e) => Check::degraded(
            name,
            format!(
                "{place} can't be executed (noexec?): {e}; as a host that measures for another this one is left out"
            ),
            "set TMPDIR to a directory whose programs may run",
        ),
    }
}

/// Whether what was found out once can be kept.
fn kept(cache: &Path) -> Check {
    let name = "cache";
    let tried = fs::create_dir_all(cache).and_then(|()| Trial::write(cache));
    match tried {
        Ok(_) => Check::ok(name, format!("{} can be written", cache.display())),
        Err(e) => Check::degraded(
            name,
            format!(
                "{} can't be written: {e}; guest kernels, proofs and calibrations aren't kept",
                cache.display()
            ),
            "set VTAX_CACHE to a directory that can",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtax_sys::check::State;

    #[test]
    fn a_directory_that_can_be_written_and_executed_is_fine_and_left_empty() {
        let directory = tempfile::tempdir().unwrap();
        let found = temporary(directory.path());
        assert_eq!(found.state, State::Ok, "{found:?}");
        assert_eq!(kept(&directory.path().join("a/cache")).state, State::Ok);
        assert_eq!(fs::read_dir(directory.path().join("a/cache")).unwrap().count(), 0);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_told_with_the_way_out() {
        // A file where a directory should be stops root as well.
        let file = tempfile::NamedTempFile::new().unwrap();
        for found in [temporary(file.path()), kept(file.path())] {
            assert_eq!(found.state, State::Degraded, "{found:?}");
            assert!(
                found.found.contains("can't be written")
                    && found.fix.is_some_and(|fix| fix.starts_with("set "))
            );
        }
    }
}
