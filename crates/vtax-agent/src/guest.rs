//! vtax as the first process of a guest.
//!
//! The kernel starts `/init` from the initrd that `vtax_vm` built; what both sides agree on is in
//! [`vtax_vm::contract`]. From there to the agent's first answer every step costs start-up time
//! under emulation, so there are few: modules, the host's root, the port.

pub(crate) mod disk;
mod error;
mod modules;
mod port;
mod root;
mod witness;

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Resource, Rlimit};
use rustix::system::RebootCommand;
use vtax_vm::contract::{
    DISK_KEY, FILES_KEY, HOSTNAME_KEY, MODULE_DIR, PORT_KEY, RAID5_KEY, ROLE_AGENT, ROLE_KEY, ROLE_WITNESS,
    ROOT_KEY, WITNESS_ADDRESS_KEY,
};

use crate::serve::serve;
use crate::services::Role;
pub(crate) use error::GuestError;

/// Open files a process may have where the command line doesn't say the host's hard limit: what systemd gives services (soft,
/// hard). The kernel's own limit for the first process is 4096 at most, and servers notice the difference.
const OPEN_FILES: (u64, u64) = (1024, 524_288);
/// The highest limit that a kernel allows where nobody changed it (`fs.nr_open`).
const MOST_FILES: u64 = 1 << 20;
/// Where services keep their private files.
const SERVICE_DIR: &str = "/run/vtax/services";

/// Whether this process is the first of a guest that was started with vtax as its `/init`.
#[must_use]
pub fn is_init() -> bool {
    is_first() && Path::new(MODULE_DIR).is_dir()
}

/// Whether this is the first process of a guest, which may be a node by now, with the files of its root.
pub(crate) fn is_first() -> bool {
    std::process::id() == 1 && std::env::args_os().next().is_some_and(|name| name == "/init")
}

/// Makes the guest a node, serves its agent until the controller is gone, and powers off.
/// What goes wrong is said on the console.
pub fn run() -> ! {
    if let Err(error) = become_node().and_then(Becoming::serve) {
        let _ = writeln!(io::stderr(), "vtax in the guest: {error}");
        // The console is a slow wire, and what isn't through by the power-off is lost.
        std::thread::sleep(Duration::from_millis(200));
    }
    loop {
        // There is nothing to sync: all that can be written is memory.
        let _ = rustix::system::reboot(RebootCommand::PowerOff);
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// What the guest is there for.
enum Becoming {
    /// The agent, on this port.
    Agent(OwnedFd),
    /// The witness, at this address.
    Witness(IpAddr, u8),
}

impl Becoming {
    fn serve(self) -> Result<(), GuestError> {
        match self {
            Self::Agent(port) => serve_port(port),
            Self::Witness(address, prefix) => witness::serve(address, prefix),
        }
    }
}

fn become_node() -> Result<Becoming, GuestError> {
    root::mount_kernel_interfaces()?;
    let line = fs::read_to_string("/proc/cmdline").map_err(GuestError::call("read", "/proc/cmdline"))?;
    let keys = keys(&line);
    let role = keys.get(ROLE_KEY).copied();
    if !matches!(role, Some(ROLE_AGENT | ROLE_WITNESS)) {
        return Err(GuestError::Role { found: role.map(str::to_owned) });
    }
    modules::load_all(Path::new(MODULE_DIR))?;
    root::switch_to_root(keys.get(ROOT_KEY).copied())?;
    if let Some(name) = keys.get(HOSTNAME_KEY).filter(|name| !name.is_empty()) {
        rustix::system::sethostname(name.as_bytes()).map_err(GuestError::call("set host name", *name))?;
    }
    if let Some(kind) = keys.get(DISK_KEY) {
        disk::prepare(kind, keys.get(RAID5_KEY).copied())?;
    }
    rustix::process::setrlimit(Resource::Nofile, open_files(keys.get(FILES_KEY).copied()))
        .map_err(GuestError::call("set limit of", "open files"))?;
    if role == Some(ROLE_WITNESS) {
        let text = keys.get(WITNESS_ADDRESS_KEY).copied();
        let parsed =
            text.and_then(|t| t.split_once('/')).and_then(|(a, p)| a.parse().ok().zip(p.parse().ok()));
        let found = || GuestError::Address { found: text.map(str::to_owned) };
        return parsed.map(|(address, prefix)| Becoming::Witness(address, prefix)).ok_or_else(found);
    }
    match keys.get(PORT_KEY) {
        Some(line) => port::open_line(line),
        None => port::open(),
    }
    .map(Becoming::Agent)
}

/// The limit of open files, with this as the hard one.
fn open_files(hard: Option<&str>) -> Rlimit {
    let given = hard.and_then(|hard| hard.parse::<u64>().ok()).filter(|hard| (1..=MOST_FILES).contains(hard));
    let hard = given.unwrap_or(OPEN_FILES.1);
    Rlimit { current: Some(OPEN_FILES.0.min(hard)), maximum: Some(hard) }
}

fn serve_port(port: OwnedFd) -> Result<(), GuestError> {
    let directory = PathBuf::from(SERVICE_DIR);
    fs::create_dir_all(&directory).map_err(GuestError::call("create directory", SERVICE_DIR))?;
    let write = port.try_clone().map_err(GuestError::call("duplicate", "the agent's port"))?;
    serve(port, write, Role { init: true, directory }).map_err(GuestError::call("serve", "the agent's port"))
}

/// The `key=value` words of the kernel command line; the last of equal keys counts.
fn keys(line: &str) -> BTreeMap<&str, &str> {
    line.split_ascii_whitespace().filter_map(|word| word.split_once('=')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_words_with_a_value() {
        let keys = keys("quiet vtax.role=probe console=ttyS0 vtax.role=agent vtax.hostname=\n");
        assert_eq!(keys.get(ROLE_KEY), Some(&"agent"));
        assert_eq!(keys.get(HOSTNAME_KEY), Some(&""));
        assert_eq!(keys.get("quiet"), None);
    }

    #[test]
    fn the_hosts_limit_of_open_files_is_taken_over_where_it_is_told() {
        let of = |told: Option<&str>| {
            let limit = open_files(told);
            (limit.current, limit.maximum)
        };
        assert_eq!(of(Some("1048576")), (Some(1024), Some(1_048_576)));
        assert_eq!(of(Some("256")), (Some(256), Some(256)));
        for told in [None, Some(""), Some("0"), Some("-1"), Some("1048577"), Some("many")] {
            assert_eq!(of(told), (Some(1024), Some(524_288)), "{told:?}");
        }
    }

    #[test]
    fn a_test_is_no_guest() {
        assert!(!is_init());
    }
}
