//! The directories that vtax writes to besides runs: what it can do there.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vtax_sys::chain;
use vtax_sys::check::Check;
use vtax_sys::locked_dir::LockedDir;

use super::DIRECTORIES;

/// Tries the directory of temporary files and the cache.
pub(super) fn checks(cache: &Path) -> Vec<Check> {
    vec![temporary(&std::env::temp_dir()), kept(cache)]
}

/// A program of a line, in a directory that is removed when dropped.
struct Trial {
    program: PathBuf,
    _directory: LockedDir,
}

impl Trial {
    fn write(parent: &Path) -> Result<Self, String> {
        let directory = LockedDir::create(parent, DIRECTORIES).map_err(|e| chain(&e))?;
        let program = directory.path().join("program");
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&program)
            .and_then(|mut file| file.write_all(b"#!/bin/sh\nexit 0\n"))
            .map_err(|e| e.to_string())?;
        Ok(Self { program, _directory: directory })
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
    let mut program = Command::new(&trial.program);
    match program.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
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
    let made = fs::create_dir_all(cache).map_err(|e| e.to_string());
    let tried = made.and_then(|()| Trial::write(cache));
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
        // What a killed doctor left goes with the next one's.
        fs::create_dir(directory.path().join("vtax-doctor-1")).unwrap();
        fs::write(directory.path().join("vtax-doctor-1.lock"), "").unwrap();
        assert_eq!(temporary(directory.path()).state, State::Ok);
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
