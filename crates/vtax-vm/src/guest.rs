//! What all guests of a run are started from: QEMU, accelerator, kernel and initrd.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use vtax_sys::sysctl;
use vtax_units::{Bytes, fact};

use crate::accel::{self, Proof};
use crate::cache::Cache;
use crate::command_line::KernelArgs;
use crate::contract::{ROOT_IMAGE, ROOT_KEY, ROOT_NOTHING};
use crate::error::{Result, VmError};
use crate::initrd;
use crate::kernel::{GuestKernel, Origin};
use crate::modules::{NEEDED, NEEDED_FOR_IMAGE, NEEDED_WITHOUT_HOST};
use crate::qemu::{Accelerator, Qemu};

/// How a [`GuestTemplate`] is to be prepared.
#[derive(Debug, Clone)]
pub struct GuestTemplateOptions {
    /// Where kernels and proofs are kept.
    pub cache: Cache,
    /// The program that becomes the guest's `/init`: vtax itself.
    pub init: PathBuf,
    /// Prove the accelerator anew.
    pub refresh: bool,
    /// Where the guests' files come from.
    pub root: GuestRoot,
    /// Which QEMU runs them; `None`: the installed one, or the private copy where none is.
    pub qemu: Option<Qemu>,
    /// Modules that guests load besides what they need, where their kernel has them: `tcp_bbr`.
    pub modules: Vec<String>,
}

/// Where a guest's files come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GuestRoot {
    /// The host's own, over 9p. Such a guest can't be copied to another QEMU, and so not be protected:
    /// a mounted export blocks QEMU's migration.
    #[default]
    Host,
    /// A read-only ext4 file system in this file, on a virtio disk that any number of guests share.
    Image(PathBuf),
    /// Nothing but the initrd: for services that are part of vtax.
    Nothing,
}

impl GuestRoot {
    /// Whether a guest with it can be copied to another QEMU.
    pub(crate) const fn can_migrate(&self) -> bool {
        !matches!(self, Self::Host)
    }

    const fn modules(&self) -> &'static [&'static str] {
        match self {
            Self::Host => NEEDED,
            Self::Image(_) => NEEDED_FOR_IMAGE,
            Self::Nothing => NEEDED_WITHOUT_HOST,
        }
    }

    /// What the guest's kernel command line says about it, with a space before it.
    pub(crate) fn words(&self) -> String {
        match self {
            Self::Host => String::new(),
            Self::Image(_) => format!(" {ROOT_KEY}={ROOT_IMAGE}"),
            Self::Nothing => format!(" {ROOT_KEY}={ROOT_NOTHING}"),
        }
    }
}

impl GuestTemplateOptions {
    /// The user's cache and the running program.
    #[must_use]
    pub fn of_user() -> Self {
        Self {
            cache: Cache::of_user(),
            init: PathBuf::from("/proc/self/exe"),
            refresh: false,
            root: GuestRoot::Host,
            qemu: None,
            modules: Vec::new(),
        }
    }
}

/// The module of the algorithm by which TCP sends on this host, which guests take over.
fn congestion_control() -> Option<String> {
    sysctl::sockets().remove(fact::CONGESTION_CONTROL).map(|name| format!("tcp_{name}"))
}

/// Everything that guests are started from. Prepared once; any number of guests share it.
#[derive(Debug)]
pub struct GuestTemplate {
    qemu: Qemu,
    proof: Proof,
    kernel: GuestKernel,
    initrd: OwnedFd,
    initrd_bytes: usize,
    root: GuestRoot,
    kernel_args: KernelArgs,
}

impl GuestTemplate {
    /// Finds QEMU and a kernel, proves the accelerator and builds the initrd. The first time on a
    /// host this takes seconds, later some 100 ms.
    ///
    /// # Errors
    ///
    /// [`VmError::NoQemu`], [`VmError::NoKernel`], [`VmError::BadFile`] where `init` can't be a
    /// guest's program, or [`VmError::Io`].
    pub fn prepare(options: &GuestTemplateOptions) -> Result<Self> {
        let qemu = options.qemu.clone().map_or_else(|| Qemu::find_any(&options.cache), Ok)?;
        let welcome: BTreeSet<String> = options.modules.iter().cloned().chain(congestion_control()).collect();
        let welcome = Vec::from_iter(welcome);
        let kernel = GuestKernel::find_with(&options.cache, options.root.modules(), &welcome)?;
        let proof = accel::prove(&qemu, &kernel, &options.cache, options.refresh)?;
        let archive = initrd::build(&options.init, kernel.modules())?;
        let initrd = initrd::memory_file(&archive).map_err(VmError::io("create", "initrd in memory"))?;
        let kernel_args = KernelArgs::of(proof.accelerator);
        let root = options.root.clone();
        Ok(Self { qemu, proof, kernel, initrd, initrd_bytes: archive.len(), root, kernel_args })
    }

    /// What guests run on, and why.
    #[must_use]
    pub fn proof(&self) -> &Proof {
        &self.proof
    }

    /// What guests run on.
    #[must_use]
    pub fn accelerator(&self) -> Accelerator {
        self.proof.accelerator
    }

    /// The QEMU that runs guests.
    #[must_use]
    pub fn qemu(&self) -> &Qemu {
        &self.qemu
    }

    /// The kernel guests boot.
    #[must_use]
    pub fn kernel(&self) -> &GuestKernel {
        &self.kernel
    }

    /// Where the guests' files come from.
    #[must_use]
    pub fn root(&self) -> &GuestRoot {
        &self.root
    }

    /// The least memory that a guest of these boots with: its kernel's own, and the initrd twice, since the kernel unpacks it
    /// before it frees it. Debian's 6.1 keeps 58 MiB of a small guest for itself; with 78 MiB beside the two it ended
    /// without memory, with 84 it came up and ran a web server.
    #[must_use]
    pub fn least_memory(&self) -> Bytes {
        const KERNEL: u64 = 84 << 20;
        let needed = KERNEL + 2 * self.initrd_bytes as u64;
        Bytes::from_mib(needed.div_ceil(1 << 20))
    }

    /// What the command line of guests' kernels says.
    pub(crate) fn kernel_args(&self) -> &KernelArgs {
        &self.kernel_args
    }

    pub(crate) fn initrd(&self) -> &OwnedFd {
        &self.initrd
    }

    /// Whether the host's kernel moves a guest's packets itself (vhost-net). Under emulation that
    /// has nothing to gain.
    #[must_use]
    pub fn vhost(&self) -> bool {
        self.accelerator() == Accelerator::Kvm && accel::vhost_opens(Path::new(accel::VHOST_NET)).is_ok()
    }

    fn root_words(&self) -> String {
        match &self.root {
            GuestRoot::Host => "the host's files over 9p".to_owned(),
            GuestRoot::Image(path) => format!("a read-only image, {}", path.display()),
            GuestRoot::Nothing => "vtax alone, from the initrd".to_owned(),
        }
    }

    /// What a reader of the results must know about the guests: a name and a value each.
    #[must_use]
    pub fn facts(&self) -> BTreeMap<String, String> {
        let origin = match self.kernel.origin {
            Origin::Host => "the host's own".to_owned(),
            Origin::Cached => self.kernel.packages.join(", "),
        };
        let entry = if self.kernel.pvh { "PVH" } else { "bzImage" };
        let mitigations = match self.kernel_args.mitigations.as_str() {
            "" => "the kernel's default",
            accel::MITIGATIONS_OFF => "off",
            words => words,
        };
        let facts = [
            (fact::VM_ACCELERATOR, self.accelerator().word().to_owned()),
            ("vm.accelerator.proof", self.proof.detailed()),
            (fact::VM_QEMU, self.qemu.version.clone()),
            ("vm.root", self.root_words()),
            ("vm.kernel", self.kernel.release.clone()),
            ("vm.kernel.origin", origin),
            ("vm.kernel.entry", entry.to_owned()),
            ("vm.kernel.command_line", self.kernel_args.shown()),
            ("vm.kernel.modules", self.kernel.module_names().collect::<Vec<_>>().join(" ")),
            ("vm.initrd_bytes", self.initrd_bytes.to_string()),
            (fact::VM_VHOST_NET, self.vhost().to_string()),
            ("vm.mitigations", mitigations.to_owned()),
        ];
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
