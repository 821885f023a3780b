//! Which QEMU keeps pairs: what is remembered of its proof.

use std::cell::Cell;
use std::os::unix::fs::symlink;

use vtax_sys::require::{Need, need};
use vtax_vm::ft::choose;
use vtax_vm::{Cache, GuestKernel};

#[test]
fn a_pass_is_kept_and_a_failure_is_tried_again() {
    if !need(&[Need::Vm]) {
        return;
    }
    // A cache with the user's kernel and QEMU, but without what was proved about them.
    let dir = tempfile::tempdir().unwrap();
    for entry in ["kernels", "qemu"] {
        symlink(Cache::of_user().dir().join(entry), dir.path().join(entry)).unwrap();
    }
    let cache = Cache::at(dir.path());
    let kernel = GuestKernel::find(&cache).unwrap();
    let proofs = Cell::new(0);
    let attempt = |passes: fn(u32) -> bool| {
        choose(&cache, &kernel, false, |_| {
            proofs.set(proofs.get() + 1);
            if passes(proofs.get()) { Ok(()) } else { Err("no answer".to_owned()) }
        })
    };
    let failed = attempt(|_| false).unwrap_err().to_string();
    assert!(failed.contains("no answer"), "{failed}");
    let failures = proofs.get();
    assert!(failures >= 2, "one failure on a busy host says little");
    // The next one proves anew, fails once, and passes.
    attempt(|n| n % 2 == 0).unwrap();
    assert_eq!(proofs.get(), failures + 2);
    attempt(|_| false).unwrap();
    assert_eq!(proofs.get(), failures + 2, "what passed isn't proved again");
}
