//! The distribution's package tools, run as children without a shell.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Result, VmError};
use crate::tool::{Life, command, run};

/// Debian's or Ubuntu's archive, as apt on this host knows it.
#[derive(Debug)]
pub(super) struct Archive {
    updated: bool,
}

/// Keeps packages from starting their services while it lives: invoke-rc.d(8) asks this program.
struct Policy;

const POLICY: &str = "/usr/sbin/policy-rc.d";
/// It answers only for half an hour, in case vtax is killed before it removes it: 101 forbids, 0
/// allows.
const POLICY_TEXT: &str = "#!/bin/sh\n# Made by vtax setup, which starts no services; may be removed.\n\
                           [ -n \"$(find \"$0\" -mmin -30)\" ] && exit 101\nexit 0\n";

impl Policy {
    /// Puts it in place; `None` where the host has one of its own, or it can't be written: then the
    /// host's rule holds.
    fn set() -> Option<Self> {
        let left = fs::read_to_string(POLICY).is_ok_and(|text| text == POLICY_TEXT);
        if left {
            fs::remove_file(POLICY).ok()?;
        }
        let mut file = File::options().write(true).create_new(true).mode(0o755).open(POLICY).ok()?;
        let this = Self;
        file.write_all(POLICY_TEXT.as_bytes()).ok()?;
        Some(this)
    }
}

impl Drop for Policy {
    fn drop(&mut self) {
        // What can't be removed allows everything half an hour later.
        let _ = fs::remove_file(POLICY);
    }
}

/// Whether this host installs packages by apt-get.
pub(crate) fn is_there() -> bool {
    Path::new("/usr/bin/apt-get").exists()
}

/// Whether packages can be installed by this user.
pub(super) fn may_install() -> bool {
    is_root() && is_there()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// How these packages get installed that vtax didn't install, as words after "still missing, and".
pub(super) fn way_to_install(packages: &[String]) -> String {
    way(&packages.join(" "), is_there(), is_root())
}

fn way(packages: &str, is_there: bool, is_root: bool) -> String {
    let command = format!("apt-get install -y --no-install-recommends {packages}");
    match (is_there, is_root) {
        (false, _) => {
            format!(
                "to be installed by hand, as there is no apt-get here (the names are Debian's): {packages}"
            )
        }
        (true, false) => format!("not installable by this user: sudo {command}"),
        (true, true) => format!("not installed for the reason above: {command}"),
    }
}

impl Archive {
    pub(super) fn new() -> Self {
        Self { updated: false }
    }

    /// Reads the archive's index anew, once; `false` where that was done before or isn't allowed.
    pub(super) fn update(&mut self) -> Result<bool> {
        if self.updated || !may_install() {
            return Ok(false);
        }
        self.updated = true;
        run(command("apt-get").args(["-q", "update"]), Life::Own)?;
        Ok(true)
    }

    /// Installs packages, after an update of the index. Their services, of which `units` are told, are
    /// neither started nor enabled.
    pub(super) fn install(&mut self, packages: &[String], units: &[&str]) -> Result<()> {
        self.update()?;
        let _policy = Policy::set();
        let mut install = command("apt-get");
        // Nothing that is there is removed for it: packages may exclude each other.
        install.args(["-q", "install", "-y", "--no-remove", "--no-install-recommends"]).args(packages);
        // Killing dpkg in the middle would leave the host half-configured.
        run(&mut install, Life::Own)?;
        if units.is_empty() || !Path::new("/usr/bin/systemctl").exists() {
            return Ok(());
        }
        run(command("systemctl").args(["--quiet", "disable"]).args(units), Life::Own).map(drop)
    }

    /// What `package` depends on; `None` where the archive doesn't have it.
    pub(super) fn depends(&self, package: &str) -> Result<Option<Vec<String>>> {
        let mut depends = command("apt-cache");
        depends.args(["depends", "--no-recommends", "--no-suggests", "--no-enhances", package]);
        match run(&mut depends, Life::Bound) {
            Ok(text) => Ok(Some(parse_depends(&text))),
            Err(VmError::Tool { stderr, .. }) if stderr.contains("No packages found") => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// What installing `packages` would bring to this host, with versions. Nothing is done.
    pub(super) fn needed(&self, packages: &[String]) -> Result<Vec<(String, String)>> {
        let mut simulate = command("apt-get");
        simulate.args(["-q", "--simulate", "install", "--no-install-recommends"]).args(packages);
        run(&mut simulate, Life::Bound).map(|text| parse_simulation(&text))
    }

    /// The version of `package` that would be fetched.
    pub(super) fn version(&self, package: &str) -> Result<String> {
        let text = run(command("apt-cache").args(["show", "--no-all-versions", package]), Life::Bound)?;
        let version = text.lines().find_map(|line| line.strip_prefix("Version: "));
        Ok(version.unwrap_or("unknown").to_owned())
    }

    /// Fetches packages into `dir`. apt checks their signatures.
    pub(super) fn download(&self, packages: &[String], dir: &Path) -> Result<()> {
        let mut download = command("apt-get");
        // apt's own user can't write into a private directory; without this it warns about that.
        download.args(["-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=2", "download"]);
        run(download.args(packages).current_dir(dir), Life::Bound).map(drop)
    }
}

/// Where this host's apt finds the archive of that origin, such as `Debian`.
pub(super) fn archive_of(origin: &str) -> Result<Option<String>> {
    let format = "$(IDENTIFIER)|$(ORIGIN)|$(LABEL)|$(REPO_URI)";
    let text = run(command("apt-get").args(["indextargets", "--format", format]), Life::Bound)?;
    Ok(repository(&text, origin))
}

/// The line `Packages|Debian|Debian|ADDRESS` of `apt-get indextargets`; the archives of security fixes
/// and of other publishers have another label or origin.
fn repository(text: &str, origin: &str) -> Option<String> {
    let prefix = format!("Packages|{origin}|{origin}|");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
}

/// An apt of its own below a directory: it knows the given suites only and believes that nothing is
/// installed, so that it fetches a package with everything that it needs. The host's isn't touched.
#[derive(Debug)]
pub(super) struct PrivateApt {
    dir: PathBuf,
    archives: PathBuf,
}

impl PrivateApt {
    /// Prepares the directory. `keyring` proves who signed the suites at `address`.
    pub(super) fn new(dir: &Path, address: &str, suites: &[&str], keyring: &Path) -> Result<Self> {
        let archives = dir.join("cache/archives");
        for part in ["state/lists/partial", "cache/archives/partial", "none"] {
            let part = dir.join(part);
            fs::create_dir_all(&part).map_err(VmError::path("create directory", &part))?;
        }
        let line = |suite| format!("deb [signed-by={}] {address} {suite} main\n", keyring.display());
        let sources: String = suites.iter().map(line).collect();
        for (name, content) in [("sources.list", sources.as_str()), ("status", "")] {
            let path = dir.join(name);
            fs::write(&path, content).map_err(VmError::path("write", &path))?;
        }
        Ok(Self { dir: dir.to_owned(), archives })
    }

    /// Fetches `package`, preferably from `suite`, and what it depends on: the files.
    pub(super) fn fetch(&self, package: &str, suite: &str) -> Result<Vec<PathBuf>> {
        run(self.command().arg("update"), Life::Bound)?;
        let install = ["--download-only", "--no-install-recommends", "-y", "-t", suite, "install", package];
        run(self.command().args(install), Life::Bound)?;
        let entries = fs::read_dir(&self.archives).map_err(VmError::path("list", &self.archives))?;
        let files = entries.flatten().map(|entry| entry.path());
        Ok(files.filter(|file| file.extension().is_some_and(|e| e == "deb")).collect())
    }

    /// The version of `package` that was fetched.
    pub(super) fn version(&self, package: &str, suite: &str) -> Result<String> {
        let mut show = self.tool("apt-cache");
        // Of several suites' versions the newest is the one of `suite`.
        show.args(["show", "--no-all-versions", "-o", &format!("APT::Default-Release={suite}"), package]);
        let text = run(&mut show, Life::Bound)?;
        let version = text.lines().find_map(|line| line.strip_prefix("Version: "));
        Ok(version.unwrap_or("unknown").to_owned())
    }

    fn command(&self) -> Command {
        let mut command = self.tool("apt-get");
        command.args(["-q", "-o", "Acquire::Retries=2", "-o", "Acquire::Languages=none"]);
        command
    }

    fn tool(&self, program: &str) -> Command {
        let mut command = command(program);
        let places = [
            ("Dir::Etc::sourcelist", "sources.list"),
            ("Dir::Etc::sourceparts", "none"),
            ("Dir::Etc::preferences", "none/preferences"),
            ("Dir::Etc::preferencesparts", "none"),
            ("Dir::State", "state"),
            ("Dir::State::status", "status"),
            ("Dir::Cache", "cache"),
        ];
        for (key, place) in places {
            command.arg("-o").arg(format!("{key}={}", self.dir.join(place).display()));
        }
        command.args(["-o", "APT::Sandbox::User=root"]);
        command
    }
}

/// Unpacks the package `file` below `root`.
pub(super) fn unpack(file: &Path, root: &Path) -> Result<()> {
    run(command("dpkg-deb").arg("-x").args([file, root]), Life::Bound).map(drop)
}

/// The lines `  Depends: name` of `apt-cache depends`. Of alternatives (`|Depends`) each is listed.
fn parse_depends(text: &str) -> Vec<String> {
    let name = |line: &str| {
        let (kind, name) = line.trim().trim_start_matches('|').split_once(": ")?;
        (kind == "Depends" || kind == "PreDepends").then(|| name.trim().to_owned())
    };
    text.lines().filter_map(name).filter(|name| !name.starts_with('<')).collect()
}

/// The lines `Inst name [present version] (version archive [architecture])` of `apt-get --simulate install`.
fn parse_simulation(text: &str) -> Vec<(String, String)> {
    let of = |line: &str| {
        let (name, rest) = line.strip_prefix("Inst ")?.split_once(' ')?;
        let version = rest.split_once('(')?.1.split(' ').next()?;
        Some((name.to_owned(), version.to_owned()))
    };
    text.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_installation_would_bring_is_read() {
        let text = "Remv vsftpd [3.0.3-13+b2]\nInst libhashkit2 (1.1.4-1 Debian:12.15/oldstable [amd64])\n\
                    Inst libpcre2-8-0 [10.42-1] (10.42-1+deb12u2 Debian-Security:12/oldstable-security [amd64])\n\
                    Conf libhashkit2 (1.1.4-1 Debian:12.15/oldstable [amd64])\n";
        let expected = [("libhashkit2", "1.1.4-1"), ("libpcre2-8-0", "10.42-1+deb12u2")];
        let expected: Vec<_> = expected.map(|(n, v)| (n.to_owned(), v.to_owned())).into();
        assert_eq!(parse_simulation(text), expected);
    }

    #[test]
    fn dependencies_are_read_as_debian_and_ubuntu_list_them() {
        let debian = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n";
        assert_eq!(parse_depends(debian), ["linux-image-6.1.0-56-amd64"]);
        let ubuntu = "linux-image-6.8.0-31-generic\n  Depends: kmod\n |Depends: linux-base\n  Depends: \
                      linux-modules-6.8.0-31-generic\n  Conflicts: linux-image-unsigned-6.8.0-31-generic\n  \
                      Depends: <initramfs-tool>\n    initramfs-tools\n";
        assert_eq!(parse_depends(ubuntu), ["kmod", "linux-base", "linux-modules-6.8.0-31-generic"]);
    }

    #[test]
    fn the_archive_is_the_one_this_host_already_uses() {
        let text = "Packages|nodesource|nodesource|https://a.example/\nPackages|Debian|Debian-Security|\
                    http://b.example/debian-security/\nDEP-11|Debian|Debian|http://c.example/\n\
                    Packages|Debian|Debian|http://d.example/debian/\n";
        assert_eq!(repository(text, "Debian").as_deref(), Some("http://d.example/debian/"));
        assert_eq!(repository(text, "Ubuntu"), None);
    }

    #[test]
    fn who_is_told_to_use_apt_has_it() {
        let command = "apt-get install -y --no-install-recommends runc fio";
        assert_eq!(way("runc fio", true, false), format!("not installable by this user: sudo {command}"));
        assert_eq!(way("runc fio", true, true), format!("not installed for the reason above: {command}"));
        for is_root in [false, true] {
            let way = way("runc fio", false, is_root);
            assert!(way.contains("by hand") && way.ends_with("Debian's): runc fio"), "{way}");
            assert!(!way.contains("sudo") && !way.contains("apt-get install"), "{way}");
        }
    }

    #[test]
    fn the_policy_forbids_for_half_an_hour() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), POLICY_TEXT).unwrap();
        let asked = || Command::new("/bin/sh").arg(file.path()).status().unwrap().code();
        assert_eq!(asked(), Some(101));
        let hour = std::time::Duration::from_secs(3600);
        file.as_file().set_modified(std::time::SystemTime::now() - hour).unwrap();
        assert_eq!(asked(), Some(0));
    }
}
