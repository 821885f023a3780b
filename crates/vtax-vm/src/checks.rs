//! What `vtax doctor` finds out about virtual machines on this host.

use std::fs::OpenOptions;
use std::path::Path;

use vtax_sys::check::Check;

use crate::accel;
use crate::cache::Cache;
use crate::kernel::{GuestKernel, Origin};
use crate::qemu::{Accelerator, Qemu};
use crate::setup::Package;

/// The first QEMU that vtax's fault-tolerant pairs can use.
const FAULT_TOLERANT: (u32, u32) = (11, 1);

/// Checks everything that virtual machines need. Takes some seconds: kernels are booted.
#[must_use]
pub fn checks(cache: &Cache, refresh: bool) -> Vec<Check> {
    let qemu = Qemu::find();
    let kernel = GuestKernel::find(cache);
    let mut checks = vec![
        match &qemu {
            Ok(qemu) => Check::ok("QEMU", format!("{} {}", qemu.program.display(), qemu.version)),
            Err(e) => Check::missing("QEMU", e.to_string(), install(&Package::qemu())),
        },
        match &kernel {
            Ok(kernel) => Check::ok("guest kernel", describe(kernel)),
            Err(e) => Check::missing("guest kernel", e.to_string(), "vtax setup"),
        },
    ];
    if let (Ok(qemu), Ok(kernel)) = (&qemu, &kernel) {
        checks.push(accelerator(qemu, kernel, cache, refresh));
    }
    checks.push(vhost(Path::new("/dev/vhost-net")));
    if let Ok(qemu) = &qemu {
        checks.push(fault_tolerance(qemu));
    }
    checks
}

fn install(package: &Package) -> String {
    format!("sudo apt-get install -y --no-install-recommends {}", package.name)
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
    const NAME: &str = "accelerator";
    const FIX: &str = "use a host, or a nested set-up, whose KVM boots a stock kernel";
    let proof = match accel::prove(qemu, kernel, cache, refresh) {
        Ok(proof) => proof,
        Err(e) => return Check::missing(NAME, e.to_string(), FIX),
    };
    let earlier = if proof.cached { " (proved before; --refresh repeats it)" } else { "" };
    if proof.accelerator == Accelerator::Kvm {
        return Check::ok(NAME, format!("{}{earlier}", proof.line()));
    }
    match accel::boot_bare(qemu, kernel, Accelerator::Tcg) {
        Ok(Ok(time)) => {
            let found =
                format!("{}{earlier}; it boots a kernel in {:.1} s", proof.line(), time.as_secs_f64());
            Check::degraded(NAME, found, FIX)
        }
        Ok(Err(reason)) => Check::missing(NAME, format!("{}, but: {reason}", proof.line()), FIX),
        Err(e) => Check::missing(NAME, e.to_string(), FIX),
    }
}

fn vhost(device: &Path) -> Check {
    const NAME: &str = "vhost-net";
    match OpenOptions::new().read(true).write(true).open(device) {
        Ok(_) => Check::ok(NAME, "the host's kernel can move packets of KVM guests"),
        Err(e) => {
            let found = format!("{}: {e}; QEMU moves the packets itself", device.display());
            Check::degraded(NAME, found, "sudo modprobe vhost_net (matters with KVM only)")
        }
    }
}

fn fault_tolerance(qemu: &Qemu) -> Check {
    const NAME: &str = "fault-tolerant pairs";
    let (major, minor) = FAULT_TOLERANT;
    match qemu.number() {
        Some(number) if number >= FAULT_TOLERANT => Check::ok(
            NAME,
            format!("QEMU {} is {major}.{minor} or later (by its version only)", qemu.version),
        ),
        _ => Check::degraded(
            NAME,
            format!("need QEMU {major}.{minor} or later, this is {}", qemu.version),
            format!("install QEMU {major}.{minor}; plans without fault tolerance don't need it"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use vtax_sys::check::State;

    #[test]
    fn fault_tolerance_goes_by_version() {
        let state = |version: &str| {
            let version = version.to_owned();
            fault_tolerance(&Qemu { program: PathBuf::new(), version, sandbox: true, unpacked_in: None }).state
        };
        assert_eq!(state("7.2.22 (Debian)"), State::Degraded);
        assert_eq!(state("11.0.5"), State::Degraded);
        assert_eq!(state("11.1.0"), State::Ok);
        assert_eq!(state("12.0.0"), State::Ok);
    }

    #[test]
    fn a_missing_vhost_names_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let check = vhost(&dir.path().join("vhost"));
        assert_ne!(check.state, State::Ok);
        assert!(check.fix.is_some(), "{check:?}");
    }
}
