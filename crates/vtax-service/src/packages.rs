//! Which packages the services of the catalogue come from.

use std::fmt;
use std::path::{Path, PathBuf};

use vtax_plan::model::{Service, ServiceKind};

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

/// Apache httpd's program by distribution: Debian's name first, it is the one that is tested.
const APACHE: &[&str] = &["/usr/sbin/apache2", "/usr/sbin/httpd", "/usr/bin/httpd"];
const NGINX: &[&str] = &["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];

const KAMAILIO: &[&str] = &["/usr/sbin/kamailio", "/usr/bin/kamailio", "/usr/local/sbin/kamailio"];
/// Kamailio's way to MariaDB is a package of its own.
const KAMAILIO_DATABASE: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/kamailio/modules/db_mysql.so",
    "/usr/lib/aarch64-linux-gnu/kamailio/modules/db_mysql.so",
    "/usr/lib64/kamailio/modules/db_mysql.so",
    "/usr/lib/kamailio/modules/db_mysql.so",
    "/usr/local/lib64/kamailio/modules/db_mysql.so",
];
const MARIADB: &[&str] =
    &["/usr/sbin/mariadbd", "/usr/libexec/mariadbd", "/usr/bin/mariadbd", "/usr/local/sbin/mariadbd"];

/// Families of distributions that differ in package names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Debian,
    Fedora,
    Suse,
    Arch,
    Alpine,
}

impl Family {
    fn of_this_host() -> Self {
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

    /// Package and install command of Apache httpd.
    const fn apache(self) -> (&'static str, &'static str) {
        match self {
            Self::Debian => ("apache2-bin", "apt-get install apache2-bin"),
            Self::Fedora => ("httpd", "dnf install httpd"),
            Self::Suse => ("apache2", "zypper install apache2"),
            Self::Arch => ("apache", "pacman -S apache"),
            Self::Alpine => ("apache2", "apk add apache2"),
        }
    }

    /// Package and install command of nginx.
    const fn nginx(self) -> (&'static str, &'static str) {
        match self {
            Self::Debian => ("nginx-light", "apt-get install nginx-light"),
            Self::Fedora => ("nginx", "dnf install nginx"),
            Self::Suse => ("nginx", "zypper install nginx"),
            Self::Arch => ("nginx", "pacman -S nginx"),
            Self::Alpine => ("nginx", "apk add nginx"),
        }
    }
}

impl Family {
    /// Packages and install command of Kamailio, of its way to MariaDB, and of MariaDB.
    const fn kamailio(self) -> ([&'static str; 3], &'static str) {
        match self {
            Self::Debian => (
                ["kamailio", "kamailio-mysql-modules", "mariadb-server"],
                "apt-get install --no-install-recommends kamailio kamailio-mysql-modules mariadb-server",
            ),
            Self::Fedora => (
                ["kamailio", "kamailio-mysql", "mariadb-server"],
                "dnf install kamailio kamailio-mysql mariadb-server",
            ),
            Self::Suse => {
                (["kamailio", "kamailio-mysql", "mariadb"], "zypper install kamailio kamailio-mysql mariadb")
            }
            Self::Arch => {
                (["kamailio", "kamailio", "mariadb"], "pacman -S mariadb, and kamailio from the AUR")
            }
            Self::Alpine => {
                (["kamailio", "kamailio-mysql", "mariadb"], "apk add kamailio kamailio-mysql mariadb")
            }
        }
    }
}

fn package(service: &'static str, programs: &[&'static str], of: (&'static str, &'static str)) -> Package {
    let found = first_present(programs);
    Package {
        service,
        program: found.unwrap_or(programs[0]),
        name: of.0,
        install: of.1,
        unit: None,
        present: found.is_some(),
    }
}

fn first_present(programs: &[&'static str]) -> Option<&'static str> {
    programs.iter().copied().find(|p| Path::new(p).is_file())
}

/// Apache httpd's package.
pub(crate) fn apache() -> Package {
    package("apache", APACHE, Family::of_this_host().apache())
}

/// nginx's package.
pub(crate) fn nginx() -> Package {
    Package { unit: Some("nginx.service"), ..package("nginx", NGINX, Family::of_this_host().nginx()) }
}

/// Packages of Kamailio with MariaDB: Kamailio, its way to the database, and that.
fn kamailio_packages() -> [Package; 3] {
    let ([kamailio, module, mariadb], install) = Family::of_this_host().kamailio();
    let of = |part, programs, name| package(part, programs, (name, install));
    [
        Package { unit: Some("kamailio.service"), ..of("kamailio", KAMAILIO, kamailio) },
        of("kamailio (database module)", KAMAILIO_DATABASE, module),
        Package { unit: Some("mariadb.service"), ..of("kamailio (MariaDB)", MARIADB, mariadb) },
    ]
}

/// Kamailio's package.
pub(crate) fn kamailio() -> Package {
    kamailio_packages()[0]
}

/// MariaDB's package.
pub(crate) fn mariadb() -> Package {
    kamailio_packages()[2]
}

/// The packages of all services of the catalogue, present or not.
#[must_use]
pub fn packages() -> Vec<Package> {
    [apache(), nginx()].into_iter().chain(kamailio_packages()).collect()
}

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
        write!(f, "{} is not installed", self.program)?;
        match self.install {
            Some(install) => write!(f, "; install it with `{install}`"),
            None => f.write_str("; install it, or give its full path in `command`"),
        }
    }
}

/// What `service` needs and this host lacks; `None` where nothing is missing.
///
/// Only the host's own files are looked at, and nothing is started. The environments share the
/// host's root file system, so the answer holds for them all.
#[must_use]
pub fn missing(service: &Service) -> Option<Missing> {
    let of = |package: Package| {
        package.missing().then(|| Missing {
            program: package.program.to_owned(),
            package: Some(package.name),
            install: Some(package.install),
        })
    };
    match &service.kind {
        ServiceKind::Http(_) | ServiceKind::Sip(_) | ServiceKind::Peer(_) => None,
        ServiceKind::Kamailio(_) => kamailio_packages().into_iter().find_map(of),
        ServiceKind::Apache(_) => of(apache()),
        ServiceKind::Nginx(_) => of(nginx()),
        ServiceKind::Command(command) => {
            let program = command.command.first().map_or("", String::as_str);
            // A program in the private directory exists only once that is written.
            let written = program.contains("{dir}");
            (!written && find_program(program).is_none()).then(|| Missing {
                program: if program.is_empty() { "an empty command".into() } else { program.into() },
                package: None,
                install: None,
            })
        }
    }
}

/// The installed programs and modules that `service` consists of, the one that isn't there left out; empty
/// where it is part of vtax.
///
/// What they need besides, their packages tell. Programs that a `command` service writes itself, and what
/// its arguments name, aren't known.
#[must_use]
pub fn installed_files(service: &Service) -> Vec<PathBuf> {
    match &service.kind {
        ServiceKind::Http(_) | ServiceKind::Sip(_) | ServiceKind::Peer(_) => Vec::new(),
        ServiceKind::Kamailio(_) => of_packages(&kamailio_packages()),
        ServiceKind::Apache(_) => of_packages(&[apache()]),
        ServiceKind::Nginx(_) => of_packages(&[nginx()]),
        ServiceKind::Command(command) => {
            command.command.first().and_then(|program| find_program(program)).into_iter().collect()
        }
    }
}

fn of_packages(packages: &[Package]) -> Vec<PathBuf> {
    packages.iter().filter(|package| package.present).map(|package| package.program.into()).collect()
}

/// Finds a program as execvp(3) would with [`PATH`].
fn find_program(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|p| p.is_file());
    }
    PATH.split(':').map(|dir| Path::new(dir).join(program)).find(|p| !program.is_empty() && p.is_file())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vtax_plan::model::{CommandService, Ready};
    use vtax_units::Nanos;

    use super::*;

    #[test]
    fn the_family_comes_from_os_release() {
        let of = Family::from_os_release;
        assert_eq!(of("ID=ubuntu\nID_LIKE=debian\n"), Family::Debian);
        assert_eq!(of("NAME=x\nID=\"rocky\"\nID_LIKE=\"rhel centos fedora\"\n"), Family::Fedora);
        assert_eq!(of("ID=alpine"), Family::Alpine);
        assert_eq!(of("ID=opensuse-leap\nID_LIKE=\"suse opensuse\""), Family::Suse);
        assert_eq!(of("ID=manjaro\nID_LIKE=arch"), Family::Arch);
        assert_eq!(of(""), Family::Debian);
    }

    fn command(program: &str) -> Service {
        Service {
            name: "own".into(),
            kind: ServiceKind::Command(CommandService {
                command: vec![program.into()],
                port: 8000,
                ready: Ready::Port,
                env: BTreeMap::new(),
                files: BTreeMap::new(),
            }),
            ready_timeout: Nanos::from_secs(1),
            stop_timeout: Nanos::from_secs(1),
        }
    }

    #[test]
    fn a_service_says_which_files_it_consists_of() {
        assert_eq!(installed_files(&command("{dir}/server")), Vec::<PathBuf>::new());
        let shell = installed_files(&command("sh"));
        assert!(shell.len() == 1 && shell[0].ends_with("sh"), "{shell:?}");
    }

    #[test]
    fn a_missing_program_is_named_with_the_way_out() {
        assert_eq!(missing(&command("sh")), None);
        assert_eq!(missing(&command("{dir}/server")), None);
        let missing = missing(&command("no-such-program")).expect("it is missing");
        assert!(missing.to_string().starts_with("no-such-program is not installed; "), "{missing}");
    }
}
