//! Which accelerator really runs guests on this host.
//!
//! `/dev/kvm` may be there, answer every question rightly and still not run a stock kernel (a
//! paravirtual or crippled nested KVM: the guest spins). So the only proof that counts is a kernel
//! that got as far as running a program.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use vtax_sys::inherit::Inherit;
use vtax_units::{Bytes, Nanos, evidence};

use crate::cache::Cache;
use crate::command_line::KernelArgs;
use crate::error::{Result, VmError};
use crate::initrd::{self, HELLO};
use crate::kernel::GuestKernel;
use crate::process::Process;
use crate::qemu::{self, Accelerator, Machine, Qemu};

/// Even under emulation an idle host gets there in less, so a KVM that doesn't is of no use; and the
/// decision falls within 5 seconds.
const KVM_PATIENCE: Duration = Duration::from_secs(4);
/// How long a busy host has at its second try.
const KVM_LONG_PATIENCE: Duration = Duration::from_secs(20);
/// CPU time in which any kernel boots under KVM, whatever else the host does. One that spins has used more by the end of its time.
const KVM_CPU: Nanos = Nanos::from_secs(2);
/// Under emulation it takes some 1.5 s on an idle host.
const TCG_PATIENCE: Duration = Duration::from_secs(40);
/// Enough for any kernel to boot.
const MEMORY: Bytes = Bytes::from_mib(256);
/// Files in the cache with the last proof: of the installed QEMU, of the private copy.
const CACHE_FILES: [&str; 2] = ["accelerator.json", "accelerator-private.json"];

/// What a host proved to be able to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// What guests run on.
    pub accelerator: Accelerator,
    /// Why it isn't KVM; `None` where it is.
    pub kvm_unusable: Option<String>,
    /// What QEMU said last before it ended; `None` where it said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<String>,
    /// From QEMU's start to the first line of the program the kernel ran; `None` where nothing was
    /// booted because there is no KVM to be tried.
    pub boot: Option<Nanos>,
    /// Whether this is an earlier proof, made since the host booted with the same QEMU and kernel.
    #[serde(skip)]
    pub cached: bool,
}

impl Proof {
    fn without_kvm(reason: String, said: Option<String>) -> Self {
        Self { accelerator: Accelerator::Tcg, kvm_unusable: Some(reason), said, boot: None, cached: false }
    }

    /// The proof in one line: `KVM unusable (...), using TCG`. A failed assertion of QEMU's helps nobody who
    /// only wants to measure, so what it said is left to [`Self::detailed`].
    #[must_use]
    pub fn line(&self) -> String {
        match &self.kvm_unusable {
            None => "KVM: proved by booting a kernel".to_owned(),
            Some(reason) => format!("KVM unusable ({reason}), using TCG"),
        }
    }

    /// What QEMU said when it failed, below a heading and indented, as it follows a line that tells of the failure; empty where
    /// it said nothing.
    #[must_use]
    pub fn evidence(&self) -> String {
        self.said.as_deref().map(|said| evidence::section(evidence::QEMU_SAID, said)).unwrap_or_default()
    }

    /// [`Self::line`], and what QEMU said.
    #[must_use]
    pub fn detailed(&self) -> String {
        match (&self.kvm_unusable, &self.said) {
            (Some(reason), Some(said)) => format!("KVM unusable ({reason}: {said}), using TCG"),
            _ => self.line(),
        }
    }
}

/// Why a kernel did not boot.
#[derive(Debug)]
pub struct NotBooted {
    reason: String,
    said: Option<String>,
    /// Whether it says something of the accelerator. That a host is busy, or that QEMU was killed, doesn't.
    proved: bool,
}

impl std::fmt::Display for NotBooted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.said {
            Some(said) => write!(f, "{}: {said}", self.reason),
            None => f.write_str(&self.reason),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Cached {
    key: String,
    proof: Proof,
}

/// Finds out what runs `kernel`; within 5 seconds, or at once where it was found out before. A busy host is tried twice.
///
/// # Errors
///
/// [`VmError::Io`] where not even a socket or a process can be made. That KVM doesn't work is no
/// error but a [`Proof`].
pub fn prove(qemu: &Qemu, kernel: &GuestKernel, cache: &Cache, refresh: bool) -> Result<Proof> {
    if let Err(reason) = kvm_opens(Path::new("/dev/kvm")) {
        return Ok(Proof::without_kvm(reason, None));
    }
    let key = key(qemu, kernel);
    let file = CACHE_FILES[usize::from(qemu.unpacked_in.is_some())];
    if !refresh && let Some(proof) = earlier(cache, file, &key) {
        return Ok(proof);
    }
    let (proof, kept) = decide(|patience| boot(qemu, &kernel.image, Accelerator::Kvm, patience))?;
    if kept {
        let text = serde_json::to_vec(&Cached { key, proof: proof.clone() }).unwrap_or_default();
        // A cache that can't be written only means that the next run proves it again.
        let _ = cache.write(file, &text);
    }
    Ok(proof)
}

/// Decides by what booting a kernel under KVM within a time comes to, and whether that holds until the host's next boot: a failure that
/// may be chance doesn't.
fn decide(
    mut boot: impl FnMut(Duration) -> Result<std::result::Result<Nanos, NotBooted>>,
) -> Result<(Proof, bool)> {
    let tried = match boot(KVM_PATIENCE)? {
        Err(failed) if !failed.proved => boot(KVM_LONG_PATIENCE)?,
        decided => decided,
    };
    Ok(match tried {
        Ok(boot) => {
            let (accelerator, boot) = (Accelerator::Kvm, Some(boot));
            (Proof { accelerator, kvm_unusable: None, said: None, boot, cached: false }, true)
        }
        Err(NotBooted { reason, said, proved }) => (Proof::without_kvm(reason, said), proved),
    })
}

/// Boots `kernel` on `accelerator` to the smallest program: the time that took, or why it didn't
/// get there.
///
/// # Errors
///
/// [`VmError::Io`] where not even a socket or a process can be made.
pub fn boot_bare(
    qemu: &Qemu,
    kernel: &GuestKernel,
    accelerator: Accelerator,
) -> Result<std::result::Result<Nanos, NotBooted>> {
    let patience = match accelerator {
        Accelerator::Kvm => KVM_PATIENCE,
        Accelerator::Tcg => TCG_PATIENCE,
    };
    boot(qemu, &kernel.image, accelerator, patience)
}

fn boot(
    qemu: &Qemu,
    kernel: &Path,
    accelerator: Accelerator,
    patience: Duration,
) -> Result<std::result::Result<Nanos, NotBooted>> {
    let initrd = initrd::memory_file(&initrd::probe()).map_err(VmError::io("create", "initrd in memory"))?;
    let (ours, theirs) = UnixStream::pair().map_err(VmError::io("create", "console socket"))?;
    let machine = Machine {
        name: "probe",
        accelerator,
        memory: MEMORY,
        vcpus: 1,
        sandbox: qemu.sandbox,
        kernel,
        command_line: &KernelArgs::of(accelerator).probe(),
        initrd: initrd.as_raw_fd(),
        console: theirs.as_raw_fd(),
        of_pair: false,
        node: None,
    };
    let mut command = qemu.command();
    command.args(qemu::arguments(&machine));
    let inherit = Inherit { descriptors: vec![initrd, theirs.into()], ..Inherit::default() };
    let started = Instant::now();
    let process = Process::start(command, inherit, ours)
        .map_err(VmError::io("start", qemu.program.display().to_string()))?;
    let outcome = process.wait_for(started + patience, |seen| {
        let booted = seen.console_has(HELLO).then(|| Ok(started.elapsed().into()));
        booted.or_else(|| seen.status().map(Err))
    });
    Ok(match outcome {
        Some(Ok(time)) => Ok(time),
        Some(Err(status)) => {
            let said = process.evidence().stderr.lines().last().map(str::to_owned);
            // Killed without a word, as where memory runs out, it has found out nothing.
            let proved = said.is_some() || status.code().is_some();
            Err(NotBooted { reason: format!("QEMU ended with {status}"), said, proved })
        }
        None => {
            let reason = format!("a stock kernel did not boot within {} s", patience.as_secs());
            Err(NotBooted { reason, said: None, proved: process.meter().read() >= KVM_CPU })
        }
    })
}

/// Switches all mitigations off.
pub(crate) const MITIGATIONS_OFF: &str = "mitigations=off";

/// Words of a kernel's command line that switch mitigations of CPU faults (the kernel's
/// `Documentation/admin-guide/kernel-parameters.txt`): in full, or up to the value.
const MITIGATIONS: [&str; 23] = [
    "mitigations=",
    "nopti",
    "pti=",
    "nospectre_v1",
    "nospectre_v2",
    "spectre_v2=",
    "spectre_v2_user=",
    "spec_store_bypass_disable=",
    "nospec_store_bypass_disable",
    "l1tf=",
    "mds=",
    "tsx_async_abort=",
    "mmio_stale_data=",
    "retbleed=",
    "srbds=",
    "gather_data_sampling=",
    "spec_rstack_overflow=",
    "reg_file_data_sampling=",
    "spectre_bhi=",
    "indirect_target_selection=",
    "tsa=",
    "vmscape=",
    "l1d_flush=",
];

/// No more of them are taken over: a guest's command line has an end, too.
const MOST_MITIGATIONS: usize = 32;

/// The words of a guest's command line that switch mitigations of CPU faults, with spaces between them. Under emulation all
/// are off, since translated code can't be attacked that way and the workarounds would be emulated too; under KVM the guest is told
/// what the host's kernel was, so that native and guest code pay the same.
#[must_use]
pub(crate) fn mitigations(accelerator: Accelerator) -> String {
    match accelerator {
        Accelerator::Tcg => MITIGATIONS_OFF.to_owned(),
        Accelerator::Kvm => mitigations_of(&fs::read_to_string("/proc/cmdline").unwrap_or_default()),
    }
}

/// Those on a host's command line, in their order: of two that contradict each other the kernel follows the later.
fn mitigations_of(line: &str) -> String {
    let switches = |word: &&str| {
        let is = |known: &&str| if known.ends_with('=') { word.starts_with(known) } else { word == known };
        // A quotation mark would take what follows along.
        MITIGATIONS.iter().any(is) && !word.contains('"')
    };
    // What comes after `--` is for the host's first process.
    let words = line.split_whitespace().take_while(|word| *word != "--").filter(switches);
    words.take(MOST_MITIGATIONS).collect::<Vec<_>>().join(" ")
}

/// What the host's kernel moves guests' packets by.
pub(crate) const VHOST_NET: &str = "/dev/vhost-net";

/// Opens vhost-net as QEMU does. The device may be there and still not open: its node is made before its module is loaded, and not
/// everybody may use it. QEMU then only warns, and moves the packets itself.
pub(crate) fn vhost_opens(device: &Path) -> io::Result<()> {
    OpenOptions::new().read(true).write(true).open(device).map(drop)
}

fn kvm_opens(device: &Path) -> std::result::Result<(), String> {
    match OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Err(format!("no {}", device.display())),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            Err(format!("{} may not be opened; join the group `kvm`", device.display()))
        }
        Err(e) => Err(format!("{}: {e}", device.display())),
    }
}

/// Everything the outcome depends on. The host's KVM can only change with a boot.
fn key(qemu: &Qemu, kernel: &GuestKernel) -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let facts = fs::metadata(&kernel.image).ok();
    let modified = facts.as_ref().and_then(|f| f.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok());
    format!(
        "{} | {} {} | {} {} {}",
        boot.trim(),
        qemu.program.display(),
        qemu.version,
        kernel.image.display(),
        facts.map_or(0, |f| f.len()),
        modified.unwrap_or_default().as_nanos(),
    )
}

fn earlier(cache: &Cache, file: &str, key: &str) -> Option<Proof> {
    let text = fs::read(cache.entry(file)).ok()?;
    let cached: Cached = serde_json::from_slice(&text).ok()?;
    (cached.key == key).then_some(Proof { cached: true, ..cached.proof })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proof() -> Proof {
        Proof::without_kvm("a stock kernel did not boot within 4 s".to_owned(), None)
    }

    #[test]
    fn the_line_says_why() {
        let expected = "KVM unusable (a stock kernel did not boot within 4 s), using TCG";
        assert_eq!(proof().line(), expected);
        assert_eq!(proof().detailed(), expected);
    }

    #[test]
    fn what_qemu_said_is_a_detail() {
        let said = Some("kvm.c:3183: Assertion failed.".to_owned());
        let proof = Proof::without_kvm("QEMU ended with signal: 6 (SIGABRT)".to_owned(), said);
        assert_eq!(proof.line(), "KVM unusable (QEMU ended with signal: 6 (SIGABRT)), using TCG");
        assert!(proof.detailed().contains("(SIGABRT): kvm.c:3183: Assertion failed.), using TCG"));
        assert_eq!(proof.evidence(), "\n  QEMU said:\n    kvm.c:3183: Assertion failed.");
        assert_eq!(Proof::without_kvm("no /dev/kvm".to_owned(), None).evidence(), "");
    }

    /// What is decided by these outcomes, whether it is kept, and how long each try had.
    fn decided(outcomes: &[std::result::Result<u64, (&str, bool)>]) -> (Option<String>, bool, Vec<Duration>) {
        let mut had = Vec::new();
        let tried = |patience| {
            let outcome = outcomes[had.len()];
            had.push(patience);
            Ok(outcome.map(Nanos::from_millis).map_err(|(reason, proved)| NotBooted {
                reason: reason.to_owned(),
                said: None,
                proved,
            }))
        };
        let (proof, kept) = decide(tried).unwrap();
        (proof.kvm_unusable, kept, had)
    }

    #[test]
    fn a_failure_that_may_be_chance_is_tried_again_and_not_kept() {
        let (once, twice) = (vec![KVM_PATIENCE], vec![KVM_PATIENCE, KVM_LONG_PATIENCE]);
        assert_eq!(decided(&[Ok(300)]), (None, true, once.clone()));
        assert_eq!(decided(&[Err(("refused", true))]), (Some("refused".to_owned()), true, once));
        assert_eq!(decided(&[Err(("busy", false)), Ok(9000)]), (None, true, twice.clone()));
        let spins = [Err(("busy", false)), Err(("it spins", true))];
        assert_eq!(decided(&spins), (Some("it spins".to_owned()), true, twice.clone()));
        let busy = [Err(("busy", false)), Err(("busy still", false))];
        assert_eq!(decided(&busy), (Some("busy still".to_owned()), false, twice));
    }

    #[test]
    fn a_proof_is_used_again_only_for_the_same_host_qemu_and_kernel() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path());
        let text = serde_json::to_vec(&Cached { key: "a".into(), proof: proof() }).unwrap();
        cache.write(CACHE_FILES[0], &text).unwrap();
        assert_eq!(earlier(&cache, CACHE_FILES[0], "a"), Some(Proof { cached: true, ..proof() }));
        assert_eq!(earlier(&cache, CACHE_FILES[0], "b"), None);
        cache.write(CACHE_FILES[0], b"{damaged").unwrap();
        assert_eq!(earlier(&cache, CACHE_FILES[0], "a"), None);
    }

    #[test]
    fn the_hosts_words_about_mitigations_are_taken_over_in_their_order() {
        let line = "BOOT_IMAGE=/vmlinuz root=/dev/sda1 mitigations=auto,nosmt nopti spectre_v2=off ro nospectre_v1\n";
        assert_eq!(mitigations_of(line), "mitigations=auto,nosmt nopti spectre_v2=off nospectre_v1");
        assert_eq!(mitigations_of("quiet mitigations=off splash"), MITIGATIONS_OFF);
        assert_eq!(
            mitigations_of("retbleed=off spec_rstack_overflow=off mds=full"),
            "retbleed=off spec_rstack_overflow=off mds=full"
        );
    }

    #[test]
    fn nothing_else_of_a_command_line_is_taken_over() {
        for line in
            ["", "quiet", "noptime xpti=off", "nopti=1 mds", "mds=\"off quiet\"", "quiet -- mitigations=off"]
        {
            assert_eq!(mitigations_of(line), "", "{line}");
        }
        let many = mitigations_of(&"mds=off ".repeat(1000));
        assert_eq!(many.split(' ').count(), MOST_MITIGATIONS);
    }

    #[test]
    fn a_vhost_that_is_there_and_does_not_open_is_none() {
        let dir = tempfile::tempdir().unwrap();
        // Nobody can open a directory for writing.
        assert!(dir.path().exists() && vhost_opens(dir.path()).is_err());
        let device = dir.path().join("vhost-net");
        assert!(vhost_opens(&device).is_err());
        fs::write(&device, "").unwrap();
        assert!(vhost_opens(&device).is_ok());
    }

    #[test]
    fn a_missing_device_is_named() {
        assert_eq!(kvm_opens(Path::new("/dev/no-kvm")), Err("no /dev/no-kvm".to_owned()));
    }
}
