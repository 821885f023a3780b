//! Programs that tests make, and processes that go with the test that started them.

use std::fs;
use std::io;
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::{Child, Command, Output};

/// Makes a program of a script, as [`install`] does.
///
/// # Panics
///
/// Where it can't be made.
pub fn make(path: &Path, script: &str) {
    let text = path.with_extension("text");
    fs::write(&text, script).expect("a script can be written");
    install(&text, path);
    fs::remove_file(&text).expect("what was written can be removed");
}

/// Copies a program. By another process: one that this process has open for writing may be kept so by what other tests
/// start, and can't be run meanwhile.
///
/// # Panics
///
/// Where it can't be copied.
pub fn install(from: &Path, to: &Path) {
    let made = Command::new("install").args(["-m", "755"]).args([from, to]).status();
    assert!(made.expect("install starts").success(), "{} is not installed", to.display());
}

/// A process and all below it.
#[must_use]
pub fn family(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    let mut next = 0;
    while let Some(process) = all.get(next).copied() {
        for task in fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        next += 1;
    }
    all
}

/// Whether a process goes on: one that is over, and only waits for its parent to ask how it ended, doesn't.
#[must_use]
pub fn goes_on(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// A process that is killed where its test ends before it, so that a test that fails leaves nothing running.
#[derive(Debug)]
pub struct Killed(Option<Child>);

impl Killed {
    /// Takes it over.
    #[must_use]
    pub fn new(child: Child) -> Self {
        Self(Some(child))
    }

    /// Waits for its end, and for what it wrote to its pipes.
    ///
    /// # Errors
    ///
    /// Where what it wrote can't be read.
    pub fn output(mut self) -> io::Result<Output> {
        self.0.take().map_or_else(|| Err(io::ErrorKind::NotFound.into()), Child::wait_with_output)
    }
}

impl From<Child> for Killed {
    fn from(child: Child) -> Self {
        Self::new(child)
    }
}

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("only its output takes it away")
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("only its output takes it away")
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        let Some(child) = &mut self.0 else { return };
        // One that has ended needs no more.
        let _ = child.kill();
        let _ = child.wait();
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::Stdio;

    use super::*;

    #[test]
    fn a_program_runs_as_soon_as_it_is_made() {
        let directory = std::env::temp_dir().join(format!("testkit-programs-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let (program, copy) = (directory.join("program"), directory.join("copy"));
        make(&program, "#!/bin/sh\necho \"$1\"\n");
        install(&program, &copy);
        let said = [&program, &copy].map(|program| Command::new(program).arg("so").output().unwrap().stdout);
        let files = fs::read_dir(&directory).unwrap().count();
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!((said, files), ([b"so\n".to_vec(), b"so\n".to_vec()], 2));
    }

    #[test]
    fn a_process_goes_with_the_test_that_fails() {
        let sleeping = Killed::new(Command::new("sleep").arg("600").spawn().unwrap());
        let process = sleeping.id();
        assert!(goes_on(process) && family(std::process::id()).contains(&process));
        let failed = catch_unwind(AssertUnwindSafe(move || {
            let _kept = sleeping;
            panic!("it fails");
        }));
        assert!(failed.is_err() && !goes_on(process));
    }

    #[test]
    fn what_it_wrote_is_kept() {
        let child = Command::new("echo").arg("so").stdout(Stdio::piped()).spawn().unwrap();
        let output = Killed::from(child).output().unwrap();
        assert!(output.status.success() && output.stdout == b"so\n");
    }
}
