//! Programs whose packages can't be installed beside another's of the catalogue: `vtax setup` unpacks them below the cache, and they run
//! from there with the libraries that came with them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::packages::{Distribution, installed};
use crate::recipe::Prepared;

/// A program that is unpacked instead of installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrivateProgram {
    /// Kind of service, as a plan names it.
    pub service: &'static str,
    /// Where it is if it is installed all the same; any of them makes unpacking unnecessary.
    pub programs: &'static [&'static str],
    /// The packages that it comes from.
    pub packages: &'static [&'static str],
    /// The directory in the cache that they are unpacked in.
    pub place: &'static str,
}

impl PrivateProgram {
    /// The file in its place that names what was unpacked, a package and its version on each line.
    pub const LIST: &str = "vtax-packages";

    /// Where it is unpacked; `None` where it is installed, or isn't there.
    pub(crate) fn unpacked(&self, cache: &Path) -> Option<PathBuf> {
        let root = cache.join(self.place);
        (installed(self.programs).is_none() && root.join(Self::LIST).is_file()).then_some(root)
    }

    /// Where they are unpacked, as something that a service starts from. It is never removed to make room.
    pub(crate) fn prepared(&self, cache: &Path) -> Option<Prepared> {
        let path = self.unpacked(cache)?;
        let used = File::open(path.join(Self::LIST)).ok()?;
        Some(Prepared { path, taken: None, _used: used })
    }
}

/// The programs that this distribution's packages make necessary to unpack.
#[must_use]
pub fn private_programs() -> Vec<PrivateProgram> {
    match Distribution::of_this_host() {
        Distribution::Debian => vec![crate::catalogue::PROFTPD],
        _ => Vec::new(),
    }
}

/// The directories of libraries below `root`, as the dynamic linker is told of them.
pub(crate) fn libraries(root: &Path) -> String {
    let multiarch = |dir: &str| {
        let entries = fs::read_dir(root.join(dir)).into_iter().flatten().flatten();
        entries.filter(|e| e.file_name().to_string_lossy().contains("-linux-gnu")).map(|e| e.path())
    };
    let all: Vec<_> = multiarch("usr/lib").chain(multiarch("lib")).collect();
    all.iter().map(|dir| dir.to_string_lossy()).collect::<Vec<_>>().join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_there_once_its_list_is() {
        let cache = tempfile::tempdir().unwrap();
        let program = PrivateProgram {
            service: "x",
            programs: &["/no/such/program"],
            packages: &["x"],
            place: "programs/x",
        };
        let root = cache.path().join("programs/x");
        for dir in ["usr/lib/x86_64-linux-gnu", "usr/lib/x", "lib/x86_64-linux-gnu"] {
            fs::create_dir_all(root.join(dir)).unwrap();
        }
        assert_eq!(program.unpacked(cache.path()), None);
        fs::write(root.join(PrivateProgram::LIST), "x 1\n").unwrap();
        assert_eq!(program.unpacked(cache.path()), Some(root.clone()));
        let libraries = libraries(&root);
        assert_eq!(libraries.split(':').count(), 2, "{libraries}");
        let present = PrivateProgram { programs: &["/bin/sh"], ..program };
        assert_eq!(present.unpacked(cache.path()), None, "what is installed is taken from there");
    }
}
