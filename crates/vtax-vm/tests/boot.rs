//! Real boots of a real kernel (layer `vm`).

use std::time::{Duration, Instant};

use vtax_sys::require::{Need, need};
use vtax_units::Nanos;
use vtax_vm::{Accelerator, Cache, GuestKernel, Qemu, accel};

#[test]
fn under_emulation_a_stock_kernel_runs_the_smallest_init() {
    if !need(&[Need::Vm]) {
        return;
    }
    let cache = Cache::of_user();
    let (qemu, kernel) = (Qemu::find_any(&cache).unwrap(), GuestKernel::find(&cache).unwrap());
    let time = accel::boot_bare(&qemu, &kernel, Accelerator::Tcg).unwrap().unwrap();
    assert!(time < Nanos::from_secs(40), "{time}");
}

#[test]
fn the_accelerator_is_decided_in_seconds_once_and_then_at_once() {
    if !need(&[Need::Vm]) {
        return;
    }
    let cache = Cache::of_user();
    let (qemu, kernel) = (Qemu::find_any(&cache).unwrap(), GuestKernel::find(&cache).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::at(dir.path());
    let timed = |refresh| {
        let started = Instant::now();
        (accel::prove(&qemu, &kernel, &cache, refresh).unwrap(), started.elapsed())
    };
    let (first, took) = timed(false);
    // 4 s for the kernel, and 20 s more on a host that is busy with something else.
    assert!(took < Duration::from_secs(40), "{took:?}");
    assert!(!first.cached);
    let kvm_was_tried = std::fs::File::open("/dev/kvm").is_ok();
    let is_kept = |name: &str| dir.path().join(name).exists();
    if kvm_was_tried && !["accelerator.json", "accelerator-private.json"].into_iter().any(is_kept) {
        assert!(first.kvm_unusable.is_some(), "only a failure may be chance");
        return;
    }
    let (second, took) = timed(false);
    assert_eq!((second.accelerator, &second.kvm_unusable), (first.accelerator, &first.kvm_unusable));
    // No kernel was booted for it.
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(second.cached, kvm_was_tried);
    match second.kvm_unusable {
        Some(reason) => {
            assert_eq!(second.accelerator, Accelerator::Tcg);
            assert!(!reason.is_empty());
        }
        None => assert_eq!(second.accelerator, Accelerator::Kvm),
    }
    let (third, _) = timed(true);
    assert!(!third.cached, "--refresh proves anew");
}
