//! Guests with each model of network card: they boot, and the card carries what it should.

use std::time::Duration;

use vtax_lab::Lab;
use vtax_plan::model::{EnvironmentKind, NetPath, NicModel, NicTuning, PathKind, Vhost, VmOptions};
use vtax_units::{Bytes, Nanos};

use crate::stage::{Stage, spec};

/// Drivers of the cards that not every guest has.
pub(crate) const MODULES: [&str; 3] = ["e1000e", "e1000", "8139cp"];

pub(crate) fn case(lab: &mut Lab) {
    // The usual card is that of every other guest, and of one below.
    for (model, driver, device) in [
        (NicModel::E1000e, "e1000e", "e1000e,"),
        (NicModel::E1000, "e1000", "e1000,"),
        (NicModel::Rtl8139, "8139cp", "rtl8139,"),
    ] {
        // The longest packets that plans let an emulated card carry.
        let path = NetPath { mtu: model.most_mtu(), ..NetPath::new("bridge", PathKind::Bridge) };
        let vm = VmOptions { vcpus: Some(1), nic: model, ..VmOptions::new(Bytes::from_mib(256)) };
        let mut stage = Stage::build(lab, &spec(EnvironmentKind::Vm(vm), path));
        let goodput = stage.carries(1e6, Duration::from_secs(1));
        let [card] = &stage.cards[0][..] else { panic!("{:?}", stage.cards) };
        println!("  {}: {:.1} Mbit/s, {}", model.word(), goodput / 1e6, card.words());
        assert_eq!(card.driver, driver);
        assert!(stage.answers(Duration::from_secs(5)));
        all_arrived(&stage);
        let facts = stage.testbed.the_sut().node.facts();
        assert_eq!(facts["vm.nic"], model.word());
        assert!(facts["vm.command"].contains(&format!("-device {device}")), "{}", facts["vm.command"]);
        stage.end();
    }
    without_offloads(lab);
    tuned(lab);
}

/// Cards with several queues, and interrupts that the card or the kernel keeps apart.
fn tuned(lab: &mut Lab) {
    for (model, driver, device, moderator) in [
        (NicModel::Virtio, "virtio_net", "virtio-net-pci,", "kernel"),
        (NicModel::E1000e, "e1000e", "e1000e,", "card"),
    ] {
        let of_virtio = model == NicModel::Virtio;
        let moderation = Some(Nanos(100_000));
        let tuning = match of_virtio {
            true => NicTuning { queues: 2, ring: Some(1024), vhost: Vhost::Off, moderation },
            false => NicTuning { moderation, ..NicTuning::USUAL },
        };
        let vm = VmOptions { vcpus: Some(2), nic: model, tuning, ..VmOptions::new(Bytes::from_mib(256)) };
        let mut stage =
            Stage::build(lab, &spec(EnvironmentKind::Vm(vm), NetPath::new("b", PathKind::Bridge)));
        let [card] = &stage.cards[0][..] else { panic!("{:?}", stage.cards) };
        let words = card.words();
        println!("  tuned: {words}");
        assert_eq!(card.driver, driver);
        assert!(words.starts_with(driver), "{words}");
        assert!(
            words.ends_with(
                &format!("interrupts 100us apart by its {moderator}").replace("its kernel", "the kernel")
            ),
            "{words}"
        );
        assert_eq!(words.contains(", 2 queues, "), of_virtio, "{words}");
        stage.carries(1e6, Duration::from_millis(500));
        assert!(stage.answers(Duration::from_secs(5)));
        all_arrived(&stage);
        let facts = stage.testbed.the_sut().node.facts();
        assert_eq!(facts["vm.nic"], model.word());
        assert!(facts["vm.command"].contains(&format!("-device {device}")), "{}", facts["vm.command"]);
        assert_eq!(facts["vm.nic.tuning"], tuning.words());
        assert_eq!(facts["vm.command"].contains("mq=on,vectors=6,rx_queue_size=1024"), of_virtio);
        stage.end();
    }
}

/// A path without offloads has none at the guest's card either, whichever it is.
fn without_offloads(lab: &mut Lab) {
    let vm = VmOptions { vcpus: Some(1), nic: NicModel::E1000e, ..VmOptions::new(Bytes::from_mib(256)) };
    let path = NetPath { offloads: false, ..NetPath::new("plain", PathKind::Bridge) };
    let mut stage = Stage::build(lab, &spec(EnvironmentKind::Vm(vm), path));
    assert_eq!(stage.cards[0][0].words(), "e1000e, offloads: none");
    stage.carries(1e6, Duration::from_millis(500));
    stage.end();
}

/// What the client sent came out of the guest's card: its packets are shorter where the client's are cut on the way,
/// and each has headers of its own.
fn all_arrived(stage: &Stage) {
    let [client, sut] = stage.testbed.counters().unwrap().expect("both ends are seen");
    let apart = sut.received_bytes.abs_diff(client.sent_bytes) as f64 / client.sent_bytes as f64;
    assert!(client.sent_bytes > 100_000 && apart < 0.05, "{client:?} {sut:?}");
}
