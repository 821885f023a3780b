//! User-mode Linux: a kernel that is a program of the host's, without hardware virtualization and without root.
//!
//! Its processes are processes of the host whose system calls it takes by ptrace(2): computing goes at the host's speed, and each
//! system call costs some microseconds. Its files are the host's, read-only under a private layer, and its agent is the same
//! `/init` as a guest's (kernel document `virt/uml/user_mode_linux_howto_v2`).

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use vtax_sys::launch::most_files;
use vtax_units::Bytes;

use crate::cache::Cache;
use crate::contract::{
    FILES_KEY, HOSTNAME_KEY, PORT_KEY, ROLE_AGENT, ROLE_KEY, ROOT_HOSTFS, ROOT_KEY, UML_PORT,
};
use crate::error::{Result, VmError};
use crate::initrd::{self, HELLO};
use crate::modules::ModuleTree;
use crate::qemu::Qemu;
use crate::tool::{self, Life};

/// Debian's package of it.
pub const PACKAGE: &str = "user-mode-linux";
/// The program.
pub const PROGRAM: &str = "linux.uml";
/// Where it is below a root.
const PLACES: [&str; 2] = ["usr/local/bin", "usr/bin"];
/// Where its modules are, by release.
const MODULES: &str = "usr/lib/uml/modules";
/// What its files need: a private layer over the host's.
const NEEDED: [&str; 1] = ["overlay"];
/// Memory that its kernel takes itself, with room for its first processes.
const KERNEL: Bytes = Bytes::from_mib(48);
/// What its kernel prints when it panics.
const PANIC: &str = "Kernel panic";

/// What every user-mode Linux of a run is started from.
#[derive(Debug)]
pub struct Uml {
    program: PathBuf,
    release: String,
    initrd: OwnedFd,
    initrd_bytes: usize,
}

/// One user-mode Linux.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UmlConfig<'a> {
    /// Its name: host name, and that of its files while it runs.
    pub name: &'a str,
    /// Memory of its kernel and processes.
    pub memory: Bytes,
    /// The tap that is its network card.
    pub tap: &'a str,
    /// MAC address of the card.
    pub mac: String,
    /// Numbers of the descriptors of the initrd, and of the agent's stream.
    pub descriptors: [i32; 2],
    /// A directory for its sockets, its own.
    pub directory: &'a Path,
}

/// The root that the program is below, and the program.
fn located(cache: &Cache) -> Result<(PathBuf, PathBuf)> {
    let roots = [PathBuf::from("/"), cache.unpacked(PACKAGE)];
    let found = roots.into_iter().find_map(|root| program_below(&root).map(|program| (root, program)));
    found.ok_or_else(|| VmError::NoUml { reason: format!("{PROGRAM} is not installed") })
}

impl Uml {
    /// Where the program is.
    ///
    /// # Errors
    ///
    /// [`VmError::NoUml`] where it is nowhere.
    pub fn find(cache: &Cache) -> Result<PathBuf> {
        located(cache).map(|(_, program)| program)
    }

    /// Finds the program and its modules, and builds the initrd with `init`, a static program, as `/init`.
    ///
    /// # Errors
    ///
    /// [`VmError::OtherArchitecture`] where it would be of no use; else where something is missing, with the package that has it.
    pub fn prepare(init: &Path) -> Result<Self> {
        Qemu::check_host()?;
        let missing = |reason: String| VmError::NoUml { reason };
        let (root, program) = located(&Cache::of_user())?;
        let told = tool::run(tool::command(&program.to_string_lossy()).arg("--version"), Life::Bound)?;
        let release = told.trim().to_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || ".-+_".contains(c);
        if release.is_empty() || !release.chars().all(plain) || release.starts_with('.') {
            return Err(missing(format!("it says that its release is `{}`", release.escape_debug())));
        }
        let modules = ModuleTree::read(&release, &root.join(MODULES).join(&release))?.closure(&NEEDED)?;
        let archive = initrd::build(init, &modules)?;
        let initrd = initrd::memory_file(&archive).map_err(VmError::io("create", "initrd in memory"))?;
        Ok(Self { program, release, initrd, initrd_bytes: archive.len() })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// The kernel's release, such as `6.1.176`.
    #[must_use]
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The initrd.
    #[must_use]
    pub fn initrd(&self) -> BorrowedFd<'_> {
        self.initrd.as_fd()
    }

    /// The initrd and the command line for a proof that its kernel runs a program: [`proof`] judges what it prints then.
    ///
    /// # Errors
    ///
    /// [`VmError::Io`] where there is no memory for the initrd.
    pub fn probe(&self, descriptor: i32, directory: &Path) -> Result<(OwnedFd, Vec<String>)> {
        let initrd =
            initrd::memory_file(&initrd::probe()).map_err(VmError::io("create", "initrd in memory"))?;
        let mut command = Self::beginning(KERNEL, descriptor, directory, "probe");
        command.push("ssl=null".to_owned());
        Ok((initrd, command))
    }

    /// The least memory that it boots with: the initrd twice, since the kernel unpacks it, and its own.
    #[must_use]
    pub const fn least_memory(&self) -> Bytes {
        Bytes(KERNEL.0 + 2 * self.initrd_bytes as u64)
    }

    /// Its command line.
    #[must_use]
    pub fn command(&self, config: &UmlConfig<'_>) -> Vec<String> {
        let [initrd, stream] = config.descriptors;
        let (name, tap, mac) = (config.name, config.tap, &config.mac);
        let mut command = Self::beginning(config.memory, initrd, config.directory, name);
        command.extend([
            "ssl=null".to_owned(),
            format!("ssl0=fd:{stream},fd:{stream}"),
            // By a packet socket beside the tap: without, wakeups are lost. Segments that the host left whole are taken as such.
            format!("vec0:transport=hybrid,ifname={tap},gro=1,mac={mac}"),
            format!("{ROLE_KEY}={ROLE_AGENT}"),
            format!("{ROOT_KEY}={ROOT_HOSTFS}"),
            format!("{PORT_KEY}={UML_PORT}"),
            format!("{HOSTNAME_KEY}={name}"),
            format!("{FILES_KEY}={}", most_files()),
        ]);
        command
    }

    /// What every command line begins with.
    fn beginning(memory: Bytes, initrd: i32, directory: &Path, name: &str) -> Vec<String> {
        vec![
            PROGRAM.to_owned(),
            format!("mem={}M", memory.0 >> 20),
            format!("initrd=/proc/self/fd/{initrd}"),
            // What it says goes to its output; nothing is read.
            "con=null".to_owned(),
            "con0=null,fd:1".to_owned(),
            "quiet".to_owned(),
            "noreboot".to_owned(),
            format!("uml_dir={}/", directory.display()),
            format!("umid={name}"),
        ]
    }
}

/// Why its kernel panicked, by what it printed: the line before the panic, and the panic; `None` where it didn't. Its process
/// doesn't end then where it is the first of a PID namespace, since signals that it sends to itself have no effect (pid_namespaces(7)).
#[must_use]
pub fn panic_of(said: &str) -> Option<String> {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let at = lines.iter().position(|line| line.contains(PANIC))?;
    let before = at.checked_sub(1).map(|before| format!("{}; ", lines[before])).unwrap_or_default();
    Some(format!("{before}{}", lines[at]))
}

/// Whether its kernel runs a program, by what it printed: why not as an error, `None` while it still boots.
#[must_use]
pub fn proof(said: &str) -> Option<std::result::Result<(), String>> {
    if said.contains(HELLO.trim_end()) {
        return Some(Ok(()));
    }
    panic_of(said).map(Err)
}

fn program_below(root: &Path) -> Option<PathBuf> {
    PLACES.iter().map(|place| root.join(place).join(PROGRAM)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_command_line_has_its_card_and_its_stream() {
        let initrd = initrd::memory_file(b"").unwrap();
        let uml = Uml { program: PROGRAM.into(), release: "6.1".into(), initrd, initrd_bytes: 20 << 20 };
        assert_eq!(uml.least_memory(), Bytes::from_mib(88));
        let config = UmlConfig {
            name: "sut",
            memory: Bytes::from_mib(256),
            tap: "p7",
            mac: "02:76:74:00:00:07".into(),
            descriptors: [4, 3],
            directory: Path::new("/tmp"),
        };
        let line = uml.command(&config).join(" ");
        for part in [
            "mem=256M initrd=/proc/self/fd/4 ",
            "ssl=null ssl0=fd:3,fd:3",
            "uml_dir=/tmp/ umid=sut",
            "vec0:transport=hybrid,ifname=p7,gro=1,mac=02:76:74:00:00:07",
            "vtax.role=agent vtax.root=hostfs vtax.port=ttyS0 vtax.hostname=sut",
        ] {
            assert!(line.contains(part), "{part} in {line}");
        }
        assert!(line.ends_with(&format!(" vtax.files={}", most_files())), "{line}");
    }

    #[test]
    fn what_it_says_tells_whether_it_runs_a_program() {
        assert_eq!(proof("mmapper_init - find_iomem failed\n"), None);
        assert_eq!(proof(&format!("mmapper_init - find_iomem failed\r\n{HELLO}")), Some(Ok(())));
        let ended = "mmapper_init - find_iomem failed\n\nuserspace - ptrace set fp regs failed, errno = 14\n\
                     Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b\nCPU: 0 PID: 1\nStack:\n";
        let why = "userspace - ptrace set fp regs failed, errno = 14; \
                   Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b";
        assert_eq!(proof(ended), Some(Err(why.to_owned())));
        assert_eq!(panic_of("Kernel panic - x"), Some("Kernel panic - x".to_owned()));
    }
}
