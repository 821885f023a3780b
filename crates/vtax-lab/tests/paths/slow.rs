//! Slow emulated links: proven by few datagrams, as no more pass in reasonable time.

use vtax_lab::Lab;
use vtax_plan::model::{EnvironmentKind, NetPath, PathKind};
use vtax_testkit::build_undisturbed;
use vtax_units::{BitRate, Share};

use crate::stage::spec;

/// Links that carry a full datagram in 10 to 50 ms pass their proofs.
pub(crate) fn proofs(lab: &mut Lab) {
    let slow = |name: &str| NetPath { rate: Some(BitRate(256_000)), ..NetPath::new(name, PathKind::Bridge) };
    let jumbo = NetPath { rate: Some(BitRate(6_000_000)), mtu: 9000, ..slow("jumbo") };
    let lossy = NetPath { loss: Share(0.01), ..slow("lossy") };
    for path in [slow("slow"), jumbo, lossy] {
        let built = build_undisturbed(lab, &spec(EnvironmentKind::Native, path.clone()));
        let testbed = built.unwrap_or_else(|e| panic!("{}: {}", path.name, vtax_sys::chain(&e)));
        let facts = testbed.path_facts();
        let goodput: f64 = facts["path.proof.goodput_bits"].parse().unwrap();
        println!("  {}: proved {:.1} kbit/s of payload", path.name, goodput / 1e3);
        assert!(goodput > 0.0 && goodput < path.rate.unwrap().0 as f64 * 1.1, "{facts:#?}");
        assert!(testbed.destroy().is_empty());
    }
}
