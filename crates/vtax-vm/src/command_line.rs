//! The kernel command line of guests.

use vtax_sys::cycles;
use vtax_sys::launch::most_files;

use crate::accel::mitigations;
use crate::contract::{FILES_KEY, HOSTNAME_KEY, ROLE_AGENT, ROLE_KEY};
use crate::qemu::Accelerator;

/// What every guest's kernel is told. Nothing here changes how fast the guest runs once it is up;
/// figures are of Debian's 6.1 under emulation.
///
/// - `panic=-1` with `-no-reboot`: a kernel that panics ends QEMU, so vtax doesn't wait for a dead guest.
/// - `cryptomgr.notests`: no self-tests of unused ciphers; saves 0.3 s.
/// - `no_timer_check`, `tsc=reliable`: no test of, no watch over clocks that QEMU derives from the
///   host's anyway; saves 0.05 s.
/// - one UART: asking for the other three, which don't exist, takes 0.05 s.
/// - `rootfstype=ramfs`: the initrd's files may fill the memory that they need. The usual tmpfs holds half of what the
///   kernel and the initrd leave, and a small guest starts a program that was cut off.
const COMMON: &str = "console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check 8250.nr_uarts=1 cryptomgr.notests rootfstype=ramfs";

/// The rate of the guest's cycle counter, which is its clock, in kHz.
const COUNTER_KEY: &str = "tsc_early_khz";

/// Arguments of guests' kernels beside [`COMMON`], the same in all of a run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct KernelArgs {
    /// Words that switch mitigations of CPU faults, with spaces between them; empty: as the guest's kernel decides.
    pub(crate) mitigations: String,
    /// The rate of the host's cycle counter, in kHz, where the guest's is the same.
    pub(crate) counter_khz: Option<u32>,
    /// How many files its processes may have open at most; `None`: as `/init` decides.
    pub(crate) files: Option<u64>,
}

impl KernelArgs {
    /// The arguments of guests on this accelerator. Takes some 20 ms once.
    ///
    /// Under emulation a guest's counter is the host's, and its kernel measures the counter's rate against an emulated timer
    /// while it boots. Others may take its CPU in between: among six guests that booted at once on one CPU, every eighth
    /// took its counter for 3 to 6 times slower than it is, so that its clock ran as much too fast for as long as
    /// it lived. With KVM the host tells the rate by itself.
    pub(crate) fn of(accelerator: Accelerator) -> Self {
        let counter_khz = match accelerator {
            Accelerator::Tcg => cycles::rate_khz(),
            Accelerator::Kvm => None,
        };
        Self { mitigations: mitigations(accelerator), counter_khz, files: Some(most_files()) }
    }

    /// The kernel command line that a guest with the smallest `/init` gets.
    pub(crate) fn probe(&self) -> String {
        self.line(self.counter_khz.map(|khz| khz.to_string()).as_deref())
    }

    /// The kernel command line of a node. What the kernel doesn't know (`PATH`, `HOME`) becomes
    /// `/init`'s environment.
    pub(crate) fn node(&self, hostname: &str) -> String {
        for_node(&self.probe(), hostname, self.files.map(|files| files.to_string()).as_deref())
    }

    /// A node's command line for a reader, on any host the same: `RATE` for the rate of its counter, `NAME` for its name,
    /// `FILES` for its limit of open files.
    pub(crate) fn shown(&self) -> String {
        for_node(&self.line(self.counter_khz.map(|_| "RATE")), "NAME", self.files.map(|_| "FILES"))
    }

    fn line(&self, counter: Option<&str>) -> String {
        let mut line = COMMON.to_owned();
        if !self.mitigations.is_empty() {
            line += &format!(" {}", self.mitigations);
        }
        if let Some(rate) = counter {
            line += &format!(" {COUNTER_KEY}={rate}");
        }
        line
    }
}

fn for_node(common: &str, hostname: &str, files: Option<&str>) -> String {
    let hostname: String = hostname.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let files = files.map(|files| format!(" {FILES_KEY}={files}")).unwrap_or_default();
    format!(
        "{common} {ROLE_KEY}={ROLE_AGENT} {HOSTNAME_KEY}={hostname}{files} HOME=/root \
         PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_told_to_guests_and_not_shown() {
        let args = KernelArgs { counter_khz: Some(2_900_001), ..KernelArgs::default() };
        assert!(args.probe().ends_with(" tsc_early_khz=2900001"));
        assert!(args.node("a").contains(" tsc_early_khz=2900001 "));
        assert!(args.shown().contains(" tsc_early_khz=RATE ") && !args.shown().contains("2900001"));
        assert!(!KernelArgs::default().shown().contains(COUNTER_KEY));
    }

    #[test]
    fn a_node_has_the_hosts_limit_of_open_files() {
        let args = KernelArgs { files: Some(4096), ..KernelArgs::default() };
        assert!(args.node("a").contains(" vtax.hostname=a vtax.files=4096 HOME="));
        assert!(args.shown().contains(" vtax.files=FILES ") && !args.shown().contains("4096"));
        assert!(!args.probe().contains(FILES_KEY), "the smallest /init takes no limits");
        assert!(!KernelArgs::default().node("a").contains(FILES_KEY));
        assert_eq!(KernelArgs::of(Accelerator::Kvm).files, Some(most_files()));
    }

    #[test]
    fn mitigations_are_switched_as_they_are_told() {
        let args = KernelArgs {
            mitigations: "nopti mds=off".to_owned(),
            counter_khz: Some(1000),
            ..KernelArgs::default()
        };
        assert!(args.probe().ends_with(" rootfstype=ramfs nopti mds=off tsc_early_khz=1000"));
        assert!(args.shown().contains(" nopti mds=off "));
        assert!(KernelArgs::of(Accelerator::Tcg).shown().contains(" mitigations=off "));
        assert_eq!(KernelArgs::default().probe(), COMMON);
    }

    #[test]
    fn only_an_emulated_guest_has_the_hosts_counter() {
        assert_eq!(KernelArgs::of(Accelerator::Kvm).counter_khz, None);
        assert_eq!(KernelArgs::of(Accelerator::Tcg).counter_khz, cycles::rate_khz());
    }
}
