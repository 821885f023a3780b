//! Which QEMU there is: the installed one, or the private copy in the cache.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cache::Cache;
use crate::error::{Result, VmError};

/// Name of the program that emulates x86-64 PCs.
const PROGRAM: &str = "qemu-system-x86_64";
/// The architecture of hosts that guests can run on.
const ARCHITECTURE: &str = "x86_64";

/// An installed QEMU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Qemu {
    /// The program.
    pub program: PathBuf,
    /// Its version, such as `7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)`.
    pub version: String,
    /// Whether it was built with a system-call filter.
    pub sandbox: bool,
    /// The directory its packages are unpacked in, where it is a private copy that runs with its own
    /// loader, libraries and firmware; `None` for an installed one.
    pub unpacked_in: Option<PathBuf>,
}

impl Qemu {
    /// Whether this kind of host can have virtual machines: they run its own programs, on an x86-64 PC.
    ///
    /// # Errors
    ///
    /// [`VmError::OtherArchitecture`] where it can't.
    pub fn check_host() -> Result<()> {
        check(std::env::consts::ARCH)
    }

    /// The QEMU in `PATH`.
    ///
    /// # Errors
    ///
    /// [`VmError::NoQemu`] where there is none or it doesn't start, [`VmError::OtherArchitecture`] where it would be of no use.
    pub fn find() -> Result<Self> {
        Self::check_host()?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = std::env::split_paths(&path).map(|dir| dir.join(PROGRAM)).find(|file| file.is_file());
        let program = program.ok_or_else(|| VmError::NoQemu { reason: format!("no {PROGRAM} in PATH") })?;
        Self::at(program)
    }

    /// The QEMU in `PATH`; where there is none, the private copy, which a user who may install nothing has.
    ///
    /// # Errors
    ///
    /// As [`find`](Self::find), where there is no private copy either.
    pub fn find_any(cache: &Cache) -> Result<Self> {
        Self::find().or_else(|none| Self::private_instead(none, cache))
    }

    fn private_instead(none: VmError, cache: &Cache) -> Result<Self> {
        Self::private(cache).map_err(|_| none)
    }

    /// This QEMU.
    ///
    /// # Errors
    ///
    /// [`VmError::NoQemu`] where it doesn't start or doesn't tell its version.
    pub fn at(program: PathBuf) -> Result<Self> {
        Self { program, version: String::new(), sandbox: false, unpacked_in: None }.asked()
    }

    /// The private copy that `vtax setup` put into the cache.
    ///
    /// # Errors
    ///
    /// [`VmError::NoPrivateQemu`] where there is none, [`VmError::NoQemu`] where it doesn't start, [`VmError::OtherArchitecture`] where it
    /// would be of no use.
    pub fn private(cache: &Cache) -> Result<Self> {
        Self::check_host()?;
        let place = Self::place(cache);
        if !place.is_dir() {
            return Err(VmError::NoPrivateQemu { dir: cache.dir().to_owned() });
        }
        Self::unpacked(&place)
    }

    /// Name of the list of packages in the directory of a private copy.
    pub(crate) const PACKAGES: &str = "packages";

    /// Where the private copy is.
    pub(crate) fn place(cache: &Cache) -> PathBuf {
        cache.entry("qemu")
    }

    /// The QEMU whose packages are unpacked below `root`.
    pub(crate) fn unpacked(root: &Path) -> Result<Self> {
        let program = root.join("usr/bin").join(PROGRAM);
        Self { program, version: String::new(), sandbox: false, unpacked_in: Some(root.to_owned()) }.asked()
    }

    /// The program with what it says about itself.
    fn asked(mut self) -> Result<Self> {
        // Without the filter compiled in, the option itself is refused.
        let with_sandbox = self.version_line(&["-sandbox", "on"]);
        self.sandbox = with_sandbox.is_ok();
        let line = with_sandbox.or_else(|_| self.version_line(&[]))?;
        let version = line.split_once("version ").map_or(line.as_str(), |(_, version)| version);
        self.version = version.trim().to_owned();
        Ok(self)
    }

    /// A command that runs it.
    pub(crate) fn command(&self) -> Command {
        let Some(root) = &self.unpacked_in else { return Command::new(&self.program) };
        let libraries = root.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(root.join("usr/lib64/ld-linux-x86-64.so.2"));
        command.env("QEMU_MODULE_DIR", libraries.join("qemu"));
        command.arg("--library-path").arg(&libraries).arg(&self.program);
        for firmware in ["usr/share/qemu", "usr/share/seabios"] {
            command.arg("-L").arg(root.join(firmware));
        }
        command
    }

    /// Whether it is of a version whose checkpoints are known to be sound also under emulation.
    /// 7.2 deadlocks and damages memory, 10.0 never gets to its first checkpoint or stalls.
    pub(crate) fn new_enough_for_pairs(&self) -> bool {
        self.number().is_some_and(|number| number >= Self::FIRST_FOR_PAIRS)
    }

    /// The first version that is new enough for pairs.
    pub const FIRST_FOR_PAIRS: (u32, u32) = (11, 1);

    /// Major and minor version; `None` where the version line is unusual.
    #[must_use]
    pub fn number(&self) -> Option<(u32, u32)> {
        let mut parts = self.version.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    fn version_line(&self, first: &[&str]) -> Result<String> {
        let failed =
            |reason: String| VmError::NoQemu { reason: format!("{}: {reason}", self.program.display()) };
        let output = self
            .command()
            .args(first)
            .arg("-version")
            .stdin(Stdio::null())
            .output()
            .map_err(|e| failed(e.to_string()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.lines().next() {
            Some(line) if output.status.success() => Ok(line.to_owned()),
            _ => {
                Err(failed(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())))
            }
        }
    }
}

fn check(architecture: &'static str) -> Result<()> {
    if architecture == ARCHITECTURE { Ok(()) } else { Err(VmError::OtherArchitecture { architecture }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_guests_cannot_run_nothing_is_to_be_installed() {
        assert!(check("x86_64").is_ok());
        let error = check("aarch64").unwrap_err().to_string();
        let told = "virtual machines and user-mode Linux need an x86-64 host, and this one is aarch64";
        assert_eq!(error, told);
    }

    #[test]
    fn a_private_copy_stands_in_for_what_is_not_installed() {
        let none = || VmError::NoQemu { reason: "none in PATH".into() };
        let directory = tempfile::tempdir().unwrap();
        let cache = Cache::at(directory.path());
        let error = Qemu::private_instead(none(), &cache).unwrap_err().to_string();
        assert!(error.contains("none in PATH"), "what isn't installed is named: {error}");
        // What would install QEMU is no way to a copy.
        let error = Qemu::private(&cache).unwrap_err().to_string();
        assert_eq!(error, format!("no private copy in {}", directory.path().display()));
        // Started by its own loader, which tells the version here.
        let loader = Qemu::place(&cache).join("usr/lib64/ld-linux-x86-64.so.2");
        std::fs::create_dir_all(loader.parent().unwrap()).unwrap();
        // By another process: one that this process has open for writing may be kept so by what other tests start, and can't be
        // run meanwhile.
        let write = "printf '#!/bin/sh\necho QEMU emulator version 11.1.3\n' >\"$1\" && chmod 755 \"$1\"";
        assert!(Command::new("sh").args(["-c", write, "sh"]).arg(&loader).status().unwrap().success());
        let qemu = Qemu::private_instead(none(), &cache).unwrap();
        assert_eq!((qemu.number(), qemu.unpacked_in), (Some((11, 1)), Some(Qemu::place(&cache))));
    }
}
