//! The services there are: from a plan's service to files, a command line and a condition for readiness.
//!
//! Each is one file or folder here with an [`Entry`], named once in [`entry`] and, where it comes from packages, once
//! in [`packages`].

mod apache;
mod certificate;
mod command;
mod desktop;
mod disk;
mod entry;
mod ftp;
mod ganesha;
mod http;
mod kamailio;
mod kernel;
mod mounts;
mod network;
mod nginx;
mod php;
mod proftpd;
mod redis;
mod samba;
mod sip;
mod stunnel;
mod tgt;
mod uas;
mod vsftpd;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use vtax_plan::model::{Service, ServiceKind, Subscribers};
use vtax_sys::check::Check;

use crate::error::ServiceError;
use crate::hidden::Hidden;
use crate::identity::Identity;
use crate::packages::{Missing, PATH, Package};
use crate::recipe::{EntryContext, Prepared, Recipe, StartContext};
use entry::Entry;
pub(crate) use proftpd::PROGRAM as PROFTPD;

/// The only place that tells the services apart.
fn entry(kind: &ServiceKind) -> Box<dyn Entry + '_> {
    match kind {
        ServiceKind::Http(options) => Box::new(http::Http(options)),
        ServiceKind::Apache(options) => Box::new(apache::Apache(options)),
        ServiceKind::Nginx(options) => Box::new(nginx::Nginx(options)),
        ServiceKind::Sip(options) => Box::new(sip::Sip(options)),
        ServiceKind::Uas(options) => Box::new(uas::Uas(options)),
        ServiceKind::Kamailio(options) => Box::new(kamailio::Kamailio(options)),
        ServiceKind::Redis(options) => Box::new(redis::Redis(options)),
        ServiceKind::Peer(_) => Box::new(network::NetworkServer),
        ServiceKind::Disk(_) => Box::new(disk::Disk),
        ServiceKind::Tgt(options) => Box::new(tgt::Tgt(options)),
        ServiceKind::Ganesha(options) => Box::new(ganesha::Ganesha(options)),
        ServiceKind::Samba(options) => Box::new(samba::Samba(options)),
        ServiceKind::Nfsd(options) => Box::new(kernel::Nfsd(options)),
        ServiceKind::Lio(options) => Box::new(kernel::Lio(options)),
        ServiceKind::Ftp(options) => Box::new(ftp::Ftp(options)),
        ServiceKind::Vsftpd(options) => Box::new(vsftpd::Vsftpd(options)),
        ServiceKind::Proftpd(options) => Box::new(proftpd::Proftpd(options)),
        ServiceKind::Tigervnc(options) => Box::new(desktop::Tigervnc(options)),
        ServiceKind::X11vnc(options) => Box::new(desktop::X11vnc(options)),
        ServiceKind::Command(own) => Box::new(command::Own(own)),
    }
}

/// The packages of all services of the catalogue that can be installed together, present or not. Others are
/// [`private_programs`](crate::private_programs).
#[must_use]
pub fn packages() -> Vec<Package> {
    [
        apache::packages(),
        nginx::packages(),
        kamailio::packages(),
        redis::packages(),
        tgt::packages(),
        ganesha::packages(),
        samba::packages(),
        mounts::packages(),
        vsftpd::packages(),
        desktop::packages(),
        vec![stunnel::package(), php::package()],
    ]
    .concat()
}

/// Whether the services that come from packages can be started on a host with this cache, for `vtax doctor`.
#[must_use]
pub fn checks(cache: &Path) -> Vec<Check> {
    packages().iter().map(Package::check).chain(proftpd::checks(cache)).collect()
}

/// What `service` needs and this host lacks; `None` where nothing is missing.
///
/// Only the host's own files are looked at, and nothing is started. The environments share the
/// host's root file system, so the answer holds for them all.
#[must_use]
pub fn missing(service: &Service) -> Option<Missing> {
    entry(&service.kind).missing()
}

/// What a service lacks on a host with this cache, where `vtax setup` unpacks what can't be installed.
#[must_use]
pub fn missing_beside(service: &Service, cache: &Path) -> Option<Missing> {
    let entry = entry(&service.kind);
    entry.missing().filter(|_| entry.unpacked(cache).is_none())
}

/// What a client needs to mount what `service` has, and this host lacks; `None` where nothing is missing.
#[must_use]
pub fn missing_to_mount(service: &Service) -> Option<Missing> {
    mounts::missing(&service.kind)
}

/// What a guest needs to make a RAID of its disks, and this host lacks; `None` where nothing is missing.
#[must_use]
pub fn missing_for_raid() -> Option<Missing> {
    mounts::missing_for_raid()
}

/// What `service` is started from that this host has and nodes don't see, as they have a `/tmp` and a `/run` of their own.
#[must_use]
pub fn hidden(service: &Service) -> Vec<Hidden> {
    entry(&service.kind).hidden()
}

/// The installed programs and modules that `service` consists of, the one that isn't there left out; empty
/// where it is part of vtax.
///
/// What they need besides, their packages tell. Programs that a `command` service writes itself, and what
/// its arguments name, aren't known.
#[must_use]
pub fn installed_files(service: &Service) -> Vec<PathBuf> {
    entry(&service.kind).installed_files()
}

/// True where `service` is vtax itself.
pub(crate) fn is_own(service: &Service) -> bool {
    entry(&service.kind).is_own()
}

/// Makes what `service` needs and can be made beforehand, or finds it in the directory `cache`;
/// `None` where there is nothing of that kind. Two at a time wait for each other.
///
/// The environments must see the directory under the same path, so it can't be below `/tmp` or
/// `/run`, of which each has its own.
///
/// # Errors
///
/// Where something isn't installed, the subscribers are impossible, or the database or its files
/// can't be made.
pub fn prepare(
    service: &Service,
    subscribers: Option<&Subscribers>,
    cache: &Path,
) -> Result<Option<Prepared>, ServiceError> {
    entry(&service.kind).prepare(&service.name, subscribers, cache)
}

/// Writes a service's files into its private directory, which is there and empty, and says how to
/// start its processes: in this order, the one that clients talk to last.
pub(crate) fn recipes(
    service: &Service,
    subscribers: Option<&Subscribers>,
    start: &StartContext,
) -> Result<Vec<Recipe>, ServiceError> {
    let (entry, facts) = (entry(&service.kind), service.kind.facts());
    let context = EntryContext {
        service: &service.name,
        directory: &start.directory,
        address: SocketAddr::new(start.address, facts.port),
        workers: facts.workers.unwrap_or(start.cpus).max(1),
        cpus: start.cpus.max(1),
        identity: if entry.drops_privileges() { Identity::here() } else { Identity::Present },
        vtax: &start.vtax,
        subscribers,
        prepared: start.prepared.as_deref(),
        disk: start.disk.as_deref(),
    };
    let mut recipes = entry.recipes(&context)?;
    let minimal =
        [("PATH", PATH), ("LANG", "C.UTF-8"), ("HOME", &context.path("")), ("TMPDIR", &context.path(""))]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
    for recipe in &mut recipes {
        if let Identity::DropTo(account) = &recipe.identity {
            reachable(&context, &account.user)?;
        }
        recipe.env.splice(0..0, minimal.clone());
    }
    Ok(recipes)
}

/// Sees that a user without privileges can enter every directory above the private one.
fn reachable(context: &EntryContext<'_>, user: &str) -> Result<(), ServiceError> {
    use std::os::unix::fs::PermissionsExt;
    for path in context.directory.ancestors().filter(|p| !p.as_os_str().is_empty()) {
        let metadata = std::fs::metadata(path).map_err(context.file("looking at", path))?;
        if metadata.permissions().mode() & 0o001 == 0 {
            return Err(ServiceError::Unreachable {
                service: context.service.to_owned(),
                user: user.to_owned(),
                path: path.to_owned(),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use vtax_plan::model::{
        Backend, ChapMode, CommandService, DesktopOptions, DesktopSecurity, DiskOptions, FtpServerOptions,
        GaneshaBackend, GaneshaOptions, KamailioOptions, LioOptions, LocationMode, MediaRelay, NfsVersion,
        NfsdOptions, PeerOptions, Persistence, Ready, RedisOptions, SambaOptions, SipOptions, TgtOptions,
        UasOptions, WebOptions,
    };
    use vtax_sys::check::{State, name};
    use vtax_units::{Bytes, Nanos};

    use super::*;
    use crate::packages::Distribution;
    use crate::private::PrivateProgram;

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

    /// A service of each kind, those with parts of packages of their own with and without them.
    fn kinds() -> Vec<ServiceKind> {
        let web = WebOptions::on(80);
        let php = WebOptions { php: true, ..web.clone() };
        let kamailio = |media_relay, tls| {
            let (shared_memory, t1) = (Bytes::from_mib(64), Nanos::from_secs(1));
            let location = LocationMode::WriteBack;
            KamailioOptions { port: 80, children: None, shared_memory, t1, location, media_relay, tls }
        };
        let relay = Some(MediaRelay::Rtpengine);
        let (port, luns, size, backend) = (80, 1, Bytes::from_mib(1), Backend::Files);
        let (chap, write_cache, initiators) = (ChapMode::None, false, Vec::new());
        let ftp = FtpServerOptions { port, implicit: false, require_reuse: false, backend };
        let desktop = |tunnel| {
            let (sessions, width, height, security) = (1, 640, 480, DesktopSecurity::None);
            DesktopOptions { port, sessions, width, height, security, tunnel }
        };
        let tgt = TgtOptions { port, luns, size, chap, write_cache, initiators: initiators.clone(), backend };
        let lio = LioOptions { port, luns, visible: 1, size, chap, write_cache, initiators, backend };
        let (nfs_version, mount_port) = (NfsVersion::V41, 81);
        let ganesha = GaneshaOptions { port, backend: GaneshaBackend::Files, nfs_version, mount_port };
        vec![
            ServiceKind::Http(web.clone()),
            ServiceKind::Apache(web.clone()),
            ServiceKind::Apache(php.clone()),
            ServiceKind::Nginx(web),
            ServiceKind::Nginx(php),
            ServiceKind::Sip(SipOptions { port, workers: None, tls: false }),
            ServiceKind::Uas(UasOptions { port, scenario: None, calls: 1, media: None }),
            ServiceKind::Kamailio(kamailio(None, false)),
            ServiceKind::Kamailio(kamailio(None, true)),
            ServiceKind::Kamailio(kamailio(relay, false)),
            ServiceKind::Kamailio(kamailio(relay, true)),
            ServiceKind::Redis(RedisOptions { port, persistence: Persistence::None, io_threads: 1 }),
            ServiceKind::Peer(PeerOptions { port }),
            ServiceKind::Disk(DiskOptions { directory: None }),
            ServiceKind::Tgt(tgt),
            ServiceKind::Ganesha(ganesha),
            ServiceKind::Samba(SambaOptions { port, backend }),
            ServiceKind::Nfsd(NfsdOptions { port, threads: 1, backend }),
            ServiceKind::Lio(lio),
            ServiceKind::Ftp(ftp.clone()),
            ServiceKind::Vsftpd(ftp.clone()),
            ServiceKind::Proftpd(ftp),
            ServiceKind::Tigervnc(desktop(false)),
            ServiceKind::Tigervnc(desktop(true)),
            ServiceKind::X11vnc(desktop(false)),
            ServiceKind::X11vnc(desktop(true)),
            command("sh").kind,
        ]
    }

    #[test]
    fn every_kind_of_plans_is_looked_at() {
        let schema = vtax_plan::schema();
        let alternatives = schema["$defs"]["Service"]["oneOf"].as_array().expect("kinds of service");
        let with_options = alternatives.iter().filter_map(|one| one["properties"].as_object());
        let words: BTreeSet<&str> = with_options.flat_map(|one| one.keys()).map(String::as_str).collect();
        let kinds = kinds();
        assert_eq!(kinds.iter().map(|kind| kind.facts().word).collect::<BTreeSet<_>>(), words);
    }

    /// The plan names the packages whose versions a run records.
    #[test]
    fn the_plan_names_the_packages_that_debian_installs() {
        for kind in kinds() {
            let named: BTreeSet<&str> = kind.facts().packages.iter().copied().collect();
            // nginx's variants share the package of that name.
            let shared = |name: &'static str| if name == "nginx-light" { "nginx" } else { name };
            let packages = entry(&kind).packages();
            let installed: BTreeSet<&str> = packages.iter().map(|package| shared(package.name)).collect();
            match Distribution::of_this_host() {
                Distribution::Debian => assert_eq!(named, installed),
                // Others have names of their own, and none of some.
                _ => assert_eq!(named.is_empty(), installed.is_empty(), "{kind:?}"),
            }
        }
    }

    /// ProFTPD was left out, as Debian can't install it beside vsftpd.
    #[test]
    fn the_doctor_looks_for_every_service_that_comes_from_packages() {
        let cache = tempfile::tempdir().unwrap();
        let found = |word: &str| {
            let name = name::service(word);
            checks(cache.path()).into_iter().find(|check| check.name == name)
        };
        for kind in kinds().into_iter().filter(|kind| !kind.facts().packages.is_empty()) {
            // Where ProFTPD is installed it can't be.
            let is_excluded = matches!(kind, ServiceKind::Vsftpd(_)) && vsftpd::packages().is_empty();
            assert!(is_excluded || found(kind.facts().word).is_some(), "{kind:?}");
        }
        let unpacked = cache.path().join(PROFTPD.place);
        std::fs::create_dir_all(&unpacked).unwrap();
        std::fs::write(unpacked.join(PrivateProgram::LIST), "proftpd-core 1\n").unwrap();
        assert_eq!(found("proftpd").map(|check| check.state), Some(State::Ok));
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
