//! The packages that programs come from, with everything these depend on, as dpkg knows them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use crate::elf::Elf;
use crate::error::{Result, VmError};
use crate::tool::{Life, command, run};

/// Programs and what they need.
#[derive(Debug, Default)]
pub(super) struct Closure {
    /// Packages with their versions, `name=version`.
    pub(super) packages: Vec<String>,
    /// Every path that the packages or the caller named.
    pub(super) paths: Vec<PathBuf>,
}

/// One line for each package, fields apart by tabs.
const FORMAT: &str = "-f=${binary:Package}\\t${Package}\\t${Architecture}\\t${db:Status-Status}\\t${Essential}\\t\
                      ${Version}\\t${Pre-Depends}, ${Depends}\\t${Provides}\\n";

/// Everything that `programs` need.
///
/// # Errors
///
/// [`VmError::NoImage`] where this host doesn't know its files' packages, or one of the programs'.
pub(super) fn closure(programs: &[PathBuf]) -> Result<Closure> {
    if !Path::new("/usr/bin/dpkg-query").is_file() {
        let reason = "it is put together from a distribution's packages, and this host has no dpkg-query";
        return Err(VmError::NoImage { reason: reason.to_owned() });
    }
    let installed = Installed::parse(&run(command("dpkg-query").args(["-W", FORMAT]), Life::Bound)?);
    let (mut owners, mut paths) = (Vec::new(), Vec::new());
    for program in programs {
        match owner(program) {
            Some(package) => owners.push(package),
            None => stands_alone(program)?,
        }
        paths.push(program.clone());
    }
    let needed = installed.closure(owners);
    let listed = run(command("dpkg-query").arg("-L").args(&needed), Life::Bound)?;
    // Lines about diversions aren't paths: what counts is what is there.
    paths.extend(listed.lines().filter(|line| line.starts_with('/')).map(PathBuf::from));
    let packages = needed.iter().filter_map(|name| installed.by_full.get(name).map(|p| (name, p)));
    let packages = packages.map(|(name, package)| format!("{name}={}", package.version)).collect();
    Ok(Closure { packages, paths })
}

/// The package that a file belongs to. Files may be listed under a directory that has become a link
/// (`/bin`), so both names are tried.
fn owner(file: &Path) -> Option<String> {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let without_usr = |path: &Path| path.strip_prefix("/usr").ok().map(|rest| Path::new("/").join(rest));
    let names = [Some(file.to_owned()), Some(real.clone()), without_usr(file), without_usr(&real)];
    names.into_iter().flatten().find_map(|name| {
        // Refused where no package owns it. A name with wildcards would be a pattern.
        let found = run(command("dpkg-query").arg("-S").arg(plain(&name)?), Life::Bound).ok()?;
        let line = found.lines().find(|line| !line.starts_with("diversion by"))?;
        let (packages, _) = line.split_once(": ")?;
        packages.split(", ").next().map(str::to_owned)
    })
}

fn plain(path: &Path) -> Option<&str> {
    path.to_str().filter(|text| text.starts_with('/') && !text.contains(['*', '?', '[', '\\']))
}

/// A program that no package owns can be taken along where it needs nothing else.
fn stands_alone(program: &Path) -> Result<()> {
    let failed = |reason: &str| VmError::NoImage { reason: format!("{}: {reason}", program.display()) };
    let bytes = std::fs::read(program).map_err(VmError::path("read", program))?;
    match Elf::parse(&bytes).and_then(Elf::is_dynamic) {
        Ok(false) => Ok(()),
        Ok(true) => {
            Err(failed("no package owns it, and it is linked dynamically: what it needs is not known"))
        }
        Err(_) => Err(failed("no package owns it, and it is no ELF program: what it needs is not known")),
    }
}

#[derive(Debug)]
struct Package {
    version: String,
    architecture: String,
    essential: bool,
    needs: String,
}

/// The packages of this host.
#[derive(Debug, Default)]
struct Installed {
    /// By dpkg's full name, `libc6:amd64`.
    by_full: BTreeMap<String, Package>,
    /// Full names by plain name, provided names included.
    by_name: BTreeMap<String, Vec<String>>,
}

impl Installed {
    fn parse(text: &str) -> Self {
        let mut this = Self::default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let &[full, name, architecture, "installed", essential, version, needs, provides] = &fields[..]
            else {
                continue;
            };
            let package = Package {
                version: version.to_owned(),
                architecture: architecture.to_owned(),
                essential: essential == "yes",
                needs: needs.to_owned(),
            };
            this.by_full.insert(full.to_owned(), package);
            // A package's own name goes before those that only provide it.
            this.by_name.entry(name.to_owned()).or_default().insert(0, full.to_owned());
            for provided in provides.split(',').filter_map(bare) {
                this.by_name.entry(provided.to_owned()).or_default().push(full.to_owned());
            }
        }
        this
    }

    /// The installed package of this name, of the host's own architecture where there are several.
    fn find(&self, name: &str) -> Option<&str> {
        if let Some((full, _)) = self.by_full.get_key_value(name) {
            return Some(full);
        }
        let found = self.by_name.get(name)?;
        let native = |full: &&String| self.is_native(full);
        found.iter().find(native).or_else(|| found.first()).map(String::as_str)
    }

    fn is_native(&self, full: &str) -> bool {
        let own = self.by_full.get("dpkg").map(|dpkg| dpkg.architecture.as_str());
        self.by_full
            .get(full)
            .is_some_and(|p| p.architecture == "all" || Some(p.architecture.as_str()) == own)
    }

    /// `first`, what Debian's policy lets everybody take for granted (essential packages), and what all
    /// of them need. Of alternatives the first one that is installed.
    fn closure(&self, first: Vec<String>) -> BTreeSet<String> {
        let essential = self.by_full.iter().filter(|(full, p)| p.essential && self.is_native(full));
        let mut open: Vec<String> =
            first.into_iter().chain(essential.map(|(full, _)| full.clone())).collect();
        let mut needed = BTreeSet::new();
        while let Some(name) = open.pop() {
            let Some(full) = self.find(&name) else { continue };
            if !needed.insert(full.to_owned()) {
                continue;
            }
            let needs = self.by_full.get(full).map_or("", |package| package.needs.as_str());
            let choice = |group: &str| group.split('|').filter_map(bare).find_map(|one| self.find(one));
            open.extend(needs.split(',').filter_map(choice).map(str::to_owned));
        }
        needed
    }
}

/// `libc6` of ` libc6:any (>= 2.36) [amd64]`.
fn bare(relation: &str) -> Option<&str> {
    let name = relation.trim().split([' ', '(', '[', '<']).next()?;
    let name = name.strip_suffix(":any").unwrap_or(name);
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "dpkg\tdpkg\tamd64\tinstalled\tyes\t1.21\tlibc6 (>= 2.15), tar\t\n\
        tar\ttar\tamd64\tinstalled\tyes\t1.34\t, \t\n\
        libc6:i386\tlibc6\ti386\tinstalled\tno\t2.36\t, \t\n\
        libc6:amd64\tlibc6\tamd64\tinstalled\tno\t2.36\t, libgcc-s1\t\n\
        libgcc-s1:amd64\tlibgcc-s1\tamd64\tinstalled\tno\t12\t, libc6 (>= 2.35)\tlibgcc1 (= 1:12)\n\
        perl\tperl\tamd64\tinstalled\tno\t5.36\t, \tperl:any\n\
        old\told\tamd64\tconfig-files\tno\t1\t, \t\n\
        server\tserver\tamd64\tinstalled\tno\t2\tinit (>= 1), old | gone | libgcc1, perl:any, missing\t\n";

    #[test]
    fn what_is_needed_is_followed_to_its_end() {
        let installed = Installed::parse(LIST);
        let found = installed.closure(vec!["server".to_owned()]);
        let found: Vec<&str> = found.iter().map(String::as_str).collect();
        // Of two architectures the host's, a provided name, no package that was removed.
        assert_eq!(found, ["dpkg", "libc6:amd64", "libgcc-s1:amd64", "perl", "server", "tar"]);
    }

    #[test]
    fn relations_are_read_as_dpkg_writes_them() {
        assert_eq!(bare(" libc6:any (>= 2.36) [amd64]"), Some("libc6"));
        assert_eq!(bare("a(>=1)"), Some("a"));
        assert_eq!(bare("  "), None);
    }

    #[test]
    fn a_program_of_nobody_must_need_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        std::fs::write(&script, "#!/bin/sh\n").unwrap();
        let error = stands_alone(&script).unwrap_err().to_string();
        assert!(error.contains("script: no package owns it"), "{error}");
    }
}
