//! Packages of this distribution, and what is installed of them.

use std::fmt;
use std::path::{Path, PathBuf};

use vtax_sys::check::{Check, name};

/// Where programs are looked for, and the `PATH` of every service.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A package that a service of the catalogue needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Package {
    /// Kind of service, as a plan names it; of one that needs several packages, also which part.
    pub service: &'static str,
    /// Where its program is, or would be.
    pub program: &'static str,
    /// Name of the package in this distribution.
    pub name: &'static str,
    /// The command that installs it.
    pub install: &'static str,
    /// The system's own service that Debian's package brings along; vtax starts its own.
    pub unit: Option<&'static str>,
    present: bool,
}

impl Package {
    /// True where its program is not installed.
    #[must_use]
    pub const fn missing(&self) -> bool {
        !self.present
    }
}

/// Distributions that differ in package names, each with those made from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Distribution {
    Debian,
    Fedora,
    Suse,
    Arch,
    Alpine,
}

impl Distribution {
    pub(crate) fn of_this_host() -> Self {
        Self::from_os_release(&std::fs::read_to_string("/etc/os-release").unwrap_or_default())
    }

    /// Reads `ID` and `ID_LIKE` of os-release(5); Debian where neither is known.
    fn from_os_release(text: &str) -> Self {
        let value = |key: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='));
            line.unwrap_or("").trim_matches('"').to_owned()
        };
        let ids = format!("{} {}", value("ID"), value("ID_LIKE"));
        for id in ids.split_whitespace() {
            match id {
                "debian" | "ubuntu" => return Self::Debian,
                "fedora" | "rhel" | "centos" => return Self::Fedora,
                "suse" | "opensuse" => return Self::Suse,
                "arch" => return Self::Arch,
                "alpine" => return Self::Alpine,
                _ => {}
            }
        }
        Self::Debian
    }
}

impl Package {
    /// The package `name`, whose program is the first of `programs` that is there.
    pub(crate) fn of(
        service: &'static str,
        programs: &[&'static str],
        (name, install): (&'static str, &'static str),
    ) -> Self {
        let found = installed(programs);
        Self {
            service,
            program: found.unwrap_or(programs[0]),
            name,
            install,
            unit: None,
            present: found.is_some(),
        }
    }

    /// Whether its program is there, for `vtax doctor`.
    pub(crate) fn check(&self) -> Check {
        let name = name::service(self.service);
        if self.missing() {
            Check::missing(name, "not installed", self.install)
        } else {
            Check::ok(name, self.program)
        }
    }

    /// Also brings along this service of the system.
    pub(crate) fn with_unit(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }
}

/// What stands for the program of a command without words.
pub(crate) const EMPTY_COMMAND: &str = "an empty command";

/// A program that is not installed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The program.
    pub program: String,
    /// The package it comes from, where the catalogue knows it.
    pub package: Option<&'static str>,
    /// The command that installs it, where the catalogue knows it.
    pub install: Option<&'static str>,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let program = &self.program;
        let words = program.split_whitespace().count();
        match self.install {
            None if words > 1 && program != EMPTY_COMMAND => {
                write!(
                    f,
                    "there is no program `{program}`: where these are a command's words, write them as items of the list"
                )
            }
            Some(install) => write!(f, "{program} is not installed; install it with `{install}`"),
            None if program.contains('/') => write!(f, "this host has no {program}, with which `run` begins"),
            None => {
                write!(
                    f,
                    "{program} is not installed; install it, or give its full path as the first of `run`"
                )
            }
        }
    }
}

impl From<Package> for Missing {
    fn from(package: Package) -> Self {
        Self {
            program: package.program.to_owned(),
            package: Some(package.name),
            install: Some(package.install),
        }
    }
}

/// The first of `programs` that is there.
pub(crate) fn installed(programs: &[&'static str]) -> Option<&'static str> {
    programs.iter().copied().find(|program| Path::new(program).is_file())
}

/// Finds a program as execvp(3) would with the `PATH` of every service.
#[must_use]
pub fn find_program(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|p| p.is_file());
    }
    PATH.split(':').map(|dir| Path::new(dir).join(program)).find(|p| !program.is_empty() && p.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The whole line as one word of `run` was said not to be installed.
    #[test]
    fn a_line_in_place_of_words_is_told_as_such() {
        let of =
            |program: &str| Missing { program: program.to_owned(), package: None, install: None }.to_string();
        for line in ["python3 -m http.server {port}", "/usr/bin/python3 -m http.server"] {
            assert!(of(line).contains(line) && of(line).ends_with("as items of the list"), "{}", of(line));
        }
        assert!(of("python9").starts_with("python9 is not installed"), "{}", of("python9"));
    }

    #[test]
    fn the_distribution_comes_from_os_release() {
        let of = Distribution::from_os_release;
        assert_eq!(of("ID=ubuntu\nID_LIKE=debian\n"), Distribution::Debian);
        assert_eq!(of("NAME=x\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"), Distribution::Fedora);
        assert_eq!(of("ID=alpine"), Distribution::Alpine);
        assert_eq!(of("ID=opensuse-leap\nID_LIKE=\"suse opensuse\""), Distribution::Suse);
        assert_eq!(of("ID=manjaro\nID_LIKE=arch"), Distribution::Arch);
        assert_eq!(of(""), Distribution::Debian);
    }
}
