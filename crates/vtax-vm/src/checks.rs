//! What `vtax doctor` finds out about virtual machines on this host.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;

use vtax_sys::check::{Check, name};

use crate::accel;
use crate::cache::Cache;
use crate::kernel::{GuestKernel, Origin};
use crate::qemu::{Accelerator, Qemu};
use crate::setup::{Package, has_apt};

/// Checks everything that virtual machines need. Takes some seconds: kernels are booted.
#[must_use]
pub fn checks(cache: &Cache, refresh: bool) -> Vec<Check> {
    if let Err(e) = Qemu::check_host() {
        // Nothing that could be installed would help.
        let missing = |name: &str| Check::missing(name, e.to_string(), "another host, of x86-64");
        return vec![missing(name::QEMU), missing(name::GUEST_KERNEL)];
    }
    let qemu = Qemu::find_any(cache);
    let kernel = GuestKernel::find(cache);
    let mut checks = vec![
        match &qemu {
            Ok(qemu) => Check::ok(name::QEMU, format!("{} {}", qemu.program.display(), qemu.version)),
            Err(e) => Check::missing(name::QEMU, e.to_string(), qemu_fix(has_apt())),
        },
        match &kernel {
            Ok(kernel) => Check::ok(name::GUEST_KERNEL, describe(kernel)),
            Err(e) => Check::missing(name::GUEST_KERNEL, e.to_string(), kernel_fix(has_apt())),
        },
    ];
    if let (Ok(qemu), Ok(kernel)) = (&qemu, &kernel) {
        checks.push(accelerator(qemu, kernel, cache, refresh));
    }
    checks.push(vhost(Path::new(accel::VHOST_NET)));
    checks
}

fn qemu_fix(has_apt: bool) -> String {
    match has_apt {
        true => format!("sudo apt-get install -y --no-install-recommends {}", Package::qemu().name),
        false => "install QEMU (`qemu-system-x86_64`)".to_owned(),
    }
}

/// `vtax setup` has kernels from apt alone.
fn kernel_fix(has_apt: bool) -> &'static str {
    if has_apt { "vtax setup" } else { "make a kernel in /boot readable, with its modules in /lib/modules" }
}

fn describe(kernel: &GuestKernel) -> String {
    let origin = match kernel.origin {
        Origin::Host => "the host's own".to_owned(),
        Origin::Cached => kernel.packages.join(", "),
    };
    let entry = if kernel.pvh { "direct entry" } else { "no direct entry: boots more slowly" };
    let modules: Vec<_> = kernel.module_names().collect();
    format!("{} ({origin}; {entry}; modules {})", kernel.release, modules.join(" "))
}

fn accelerator(qemu: &Qemu, kernel: &GuestKernel, cache: &Cache, refresh: bool) -> Check {
    const NAME: &str = name::ACCELERATOR;
    let opened = OpenOptions::new().read(true).write(true).open("/dev/kvm");
    let fix = way_to_kvm(opened.err().map(|e| e.kind()));
    let proof = match accel::prove(qemu, kernel, cache, refresh) {
        Ok(proof) => proof,
        Err(e) => return Check::missing(NAME, e.to_string(), fix),
    };
    let earlier = if proof.cached { " (proved before; --refresh repeats it)" } else { "" };
    if proof.accelerator == Accelerator::Kvm {
        return Check::ok(NAME, format!("{}{earlier}", proof.line()));
    }
    match accel::boot_bare(qemu, kernel, Accelerator::Tcg) {
        Ok(Ok(time)) => {
            let (line, evidence) = (proof.line(), proof.evidence());
            let found =
                format!("{line}{earlier}; it boots a kernel in {:.1} s{evidence}", time.as_secs_f64());
            Check::degraded(NAME, found, fix)
        }
        Ok(Err(reason)) => {
            Check::missing(NAME, format!("{}, but: {reason}{}", proof.line(), proof.evidence()), fix)
        }
        Err(e) => Check::missing(NAME, e.to_string(), fix),
    }
}

/// What would give guests KVM, by what failed when it was opened: where this user may not, it says nothing of the host.
const fn way_to_kvm(failed: Option<ErrorKind>) -> &'static str {
    match failed {
        Some(ErrorKind::PermissionDenied) => "sudo usermod -aG kvm $USER, and log in again",
        _ => "use a host, or a nested set-up, whose KVM boots a stock kernel",
    }
}

fn vhost(device: &Path) -> Check {
    const NAME: &str = name::VHOST_NET;
    match accel::vhost_opens(device) {
        Ok(()) => Check::ok(NAME, "the host's kernel can move packets of KVM guests"),
        Err(e) => {
            let found = format!("{}: {e}; QEMU moves the packets itself", device.display());
            Check::degraded(NAME, found, way_to_vhost(e.kind()))
        }
    }
}

/// What would let QEMU open vhost-net, by what failed: a module that is loaded needs no loading.
const fn way_to_vhost(failed: ErrorKind) -> &'static str {
    match failed {
        ErrorKind::PermissionDenied => "sudo chmod 666 /dev/vhost-net (matters with KVM only)",
        _ => "sudo modprobe vhost_net (matters with KVM only)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtax_sys::check::State;

    #[test]
    fn who_may_not_open_kvm_needs_a_group_and_no_other_host() {
        assert!(way_to_kvm(Some(ErrorKind::PermissionDenied)).contains("usermod -aG kvm"));
        assert!(way_to_kvm(Some(ErrorKind::NotFound)).starts_with("use a host"));
        assert!(way_to_kvm(None).starts_with("use a host"), "it opens, and boots nothing");
    }

    #[test]
    fn a_host_without_apt_is_not_told_to_use_it() {
        assert_eq!(kernel_fix(true), "vtax setup");
        assert!(qemu_fix(true).ends_with(" qemu-system-x86"));
        for fix in [kernel_fix(false), &qemu_fix(false)] {
            assert!(!fix.contains("apt") && !fix.contains("vtax setup"), "{fix}");
        }
    }

    #[test]
    fn a_missing_vhost_names_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let check = vhost(&dir.path().join("vhost"));
        assert_ne!(check.state, State::Ok);
        assert!(check.fix.as_ref().is_some_and(|fix| fix.starts_with("sudo modprobe")), "{check:?}");
        assert!(way_to_vhost(ErrorKind::PermissionDenied).starts_with("sudo chmod 666 /dev/vhost-net"));
    }
}
