//! `vtax setup`: packages that are missing, and a kernel for guests.

mod apt;
mod fetch;
mod newer_qemu;
mod private;

use std::fs::File;
use std::path::Path;

use rustix::fs::FlockOperation;
use vtax_sys::chain;

use crate::cache::Cache;
use crate::error::{Result, VmError};
use crate::kernel::{GuestKernel, Origin};
use crate::qemu::Qemu;

pub(crate) use apt::is_there as has_apt;
pub use private::PrivateProgram;

/// A distribution package and how to see that it is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Package {
    /// Its name in Debian and Ubuntu.
    pub name: String,
    /// Programs, by name or path; any of them makes the package unnecessary.
    pub programs: Vec<String>,
    /// The system's own service that comes with it. It is neither started nor enabled: a server that
    /// runs beside the one that is measured takes its port and its CPU time.
    pub unit: Option<String>,
    /// Whether it runs from where it is unpacked as well: a user who may not install it gets it there ([`Cache::unpacked`]).
    pub runs_unpacked: bool,
}

impl Package {
    /// The package `name`, unnecessary where any of `programs` is there.
    #[must_use]
    pub fn new(name: &str, programs: &[&str]) -> Self {
        let programs = programs.iter().map(|&p| p.to_owned()).collect();
        Self { name: name.to_owned(), programs, unit: None, runs_unpacked: false }
    }

    /// One that runs from where it is unpacked as well.
    #[must_use]
    pub fn or_unpacked(self) -> Self {
        Self { runs_unpacked: true, ..self }
    }

    /// With this unit of systemd, `nginx.service`.
    #[must_use]
    pub fn with_unit(self, unit: Option<&str>) -> Self {
        Self { unit: unit.map(str::to_owned), ..self }
    }

    /// What guests need.
    #[must_use]
    pub fn qemu() -> Self {
        Self::new("qemu-system-x86", &["qemu-system-x86_64"])
    }

    /// Whether none of its programs is there.
    fn is_missing(&self) -> bool {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Daemons are in sbin, which an ordinary user's PATH often lacks.
        let places: Vec<_> = std::env::split_paths(&path)
            .chain(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(Into::into))
            .collect();
        !self.programs.iter().any(|program| places.iter().any(|dir| dir.join(program).is_file()))
    }
}

/// The file of an unpacked package that says which version it is.
const LIST: &str = "vtax-packages";

/// What to set up.
#[derive(Debug, Clone)]
pub struct SetupOptions {
    /// Where the kernel goes.
    pub cache: Cache,
    /// Packages that are wanted.
    pub packages: Vec<Package>,
    /// Programs that are wanted and whose packages can't be installed beside others.
    pub private: Vec<PrivateProgram>,
    /// Fetch the archive's present kernel even where a usable one is there.
    pub renew: bool,
    /// Also what fault-tolerant pairs need: a private copy of a newer QEMU where this host's is too old.
    pub fault_tolerance: bool,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Packages that were installed.
    pub installed: Vec<String>,
    /// Why packages weren't although this user may install them.
    pub install_failed: Option<String>,
    /// How packages that are still missing get installed, with their names, as words after "still missing, and"; `None` where nothing
    /// is missing.
    pub to_install: Option<String>,
    /// What was unpacked into the cache.
    pub unpacked: Vec<String>,
    /// Why something wasn't although it was wanted.
    pub not_unpacked: Vec<String>,
    /// The kernel guests will boot, such as `6.1.0-56-amd64`; `None` where there is none.
    pub kernel: Option<String>,
    /// Whether that is the host's own.
    pub kernel_of_host: bool,
    /// Whether it was fetched now.
    pub kernel_fetched: bool,
    /// Why none was fetched although it was wanted.
    pub no_kernel: Option<String>,
    /// Why this host can have no virtual machines, whatever is installed: nothing is set up for them then.
    pub no_virtual_machines: Option<String>,
    /// The private copy of QEMU for fault-tolerant pairs; `None` where none is wanted or needed.
    pub newer_qemu: Option<String>,
    /// Why it isn't there although it was wanted. Plans without fault tolerance don't need it.
    pub no_newer_qemu: Option<String>,
}

/// Installs missing packages where this user may, and makes sure that there is a kernel guests can
/// boot. `progress` gets one line for each thing that takes long. It may be killed at any time and
/// be run again; two at a time wait for each other.
///
/// Each step is tried whatever became of those before it: the report says what was done, and what couldn't be.
///
/// # Errors
///
/// [`VmError::Io`] where the cache can't be locked.
pub fn run(options: &SetupOptions, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let _lock = lock(&options.cache)?;
    options.cache.sweep();
    let mut report = Report::default();
    let mut archive = apt::Archive::new();
    install(options, &mut archive, &mut report, progress);
    for program in &options.private {
        match private::fetch(&options.cache, program, &mut archive, progress) {
            Ok(what) => report.unpacked.extend(what),
            Err(e) => report.not_unpacked.push(chain(&e)),
        }
    }
    if let Err(e) = Qemu::check_host() {
        report.no_virtual_machines = Some(chain(&e));
        return Ok(report);
    }
    kernel(options, &mut archive, &mut report, progress);
    match newer_qemu(options, progress) {
        Ok(version) => report.newer_qemu = version,
        Err(e) => report.no_newer_qemu = Some(chain(&e)),
    }
    Ok(report)
}

/// Installs the packages that are missing, or unpacks those that run so too, as far as this user may.
fn install(
    options: &SetupOptions,
    archive: &mut apt::Archive,
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) {
    let mut missing = missing(options);
    if apt::is_there() && !apt::may_install() {
        missing.retain(|package| {
            if !package.runs_unpacked {
                return true;
            }
            match private::fetch(&options.cache, &in_cache(package), archive, progress) {
                Ok(what) => report.unpacked.extend(what),
                // It is still missing, and can be installed by somebody who may.
                Err(e) => {
                    report.not_unpacked.push(chain(&e));
                    return true;
                }
            }
            false
        });
    }
    let mut left = names(&missing);
    if !left.is_empty() && apt::may_install() {
        let units: Vec<&str> = missing.iter().filter_map(|p| p.unit.as_deref()).collect();
        progress(&format!("installing {}", left.join(" ")));
        let wanted = std::mem::take(&mut left);
        if let Err(e) = archive.install(&wanted, &units) {
            report.install_failed = Some(chain(&e));
            // Some may be there all the same.
            left = names(&self::missing(options));
        }
        report.installed = wanted.into_iter().filter(|name| !left.contains(name)).collect();
    }
    if !left.is_empty() {
        report.to_install = Some(apt::way_to_install(&left));
    }
}

/// Makes sure that there is a kernel guests can boot.
fn kernel(
    options: &SetupOptions,
    archive: &mut apt::Archive,
    report: &mut Report,
    progress: &mut dyn FnMut(&str),
) {
    let kernel = match GuestKernel::find(&options.cache).ok() {
        Some(kernel) if !options.renew => Some(kernel),
        found => match fetch::kernel(&options.cache, archive, progress) {
            Ok(kernel) => {
                report.kernel_fetched = true;
                Some(kernel)
            }
            Err(e) => {
                report.no_kernel = Some(chain(&e));
                found
            }
        },
    };
    report.kernel_of_host = kernel.as_ref().is_some_and(|kernel| kernel.origin == Origin::Host);
    report.kernel = kernel.map(|kernel| kernel.release);
}

/// Packages that are neither installed nor unpacked.
fn missing(options: &SetupOptions) -> Vec<&Package> {
    let unpacked = |p: &Package| p.runs_unpacked && options.cache.unpacked(&p.name).join(LIST).is_file();
    options.packages.iter().filter(|p| p.is_missing() && !unpacked(p)).collect()
}

/// A package as something that is unpacked.
fn in_cache(package: &Package) -> PrivateProgram {
    PrivateProgram {
        packages: vec![package.name.clone()],
        programs: Vec::new(),
        place: format!("programs/{}", package.name),
        list: LIST.to_owned(),
    }
}

/// Each package's name once: one can have several of what is missing.
fn names(packages: &[&Package]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for package in packages {
        if !names.contains(&package.name) {
            names.push(package.name.clone());
        }
    }
    names
}

/// The version of the private copy of QEMU, which is fetched where it is wanted and missing.
fn newer_qemu(options: &SetupOptions, progress: &mut dyn FnMut(&str)) -> Result<Option<String>> {
    if !options.fault_tolerance || Qemu::find().is_ok_and(|qemu| qemu.new_enough_for_pairs()) {
        return Ok(None);
    }
    let there = Qemu::private(&options.cache);
    let qemu = match there {
        Ok(qemu) if !options.renew => qemu,
        _ => newer_qemu::fetch(&options.cache, progress)?,
    };
    Ok(Some(qemu.version))
}

/// Held until it is dropped; the kernel drops it for a process that is killed.
fn lock(cache: &Cache) -> Result<File> {
    let dir = cache.dir();
    std::fs::create_dir_all(dir).map_err(VmError::path("create directory", dir))?;
    let path = dir.join("setup.lock");
    let open = |path: &Path| File::options().create(true).append(true).open(path);
    let file = open(&path).map_err(VmError::path("open", &path))?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive)
        .map_err(|e| VmError::path("lock", &path)(e.into()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_of_two_missing_programs_is_named_once() {
        let [one, two, three] =
            [("tgt", "tgtd"), ("fio", "fio"), ("tgt", "tgtadm")].map(|(n, p)| Package::new(n, &[p]));
        assert_eq!(names(&[&one, &two, &three]), ["tgt", "fio"]);
    }

    #[test]
    fn what_runs_unpacked_is_missing_until_it_is_installed_or_unpacked() {
        let directory = tempfile::tempdir().unwrap();
        let none = |name: &str| Package::new(name, &["no-such-program"]);
        let options = SetupOptions {
            cache: Cache::at(directory.path()),
            packages: vec![
                none("runc").or_unpacked(),
                none("fio"),
                Package::new("dash", &["sh"]).or_unpacked(),
            ],
            private: Vec::new(),
            renew: false,
            fault_tolerance: false,
        };
        let missing = |options| names(&super::missing(options));
        assert_eq!(missing(&options), ["runc", "fio"]);
        for package in &options.packages[..2] {
            let place = options.cache.entry(&in_cache(package).place);
            assert_eq!(place, options.cache.unpacked(&package.name));
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join(LIST), "").unwrap();
        }
        // A package that must be installed is no better for being unpacked.
        assert_eq!(missing(&options), ["fio"]);
    }

    #[test]
    fn any_program_makes_a_package_unnecessary() {
        assert!(!Package::new("dash", &["no-such-program", "sh"]).is_missing());
        assert!(!Package::new("dash", &["/bin/sh"]).is_missing());
        assert!(Package::new("none", &["no-such-program"]).is_missing());
    }
}
