//! Network cards and addresses of systems under test, and which cells there can't be because of them.

use std::collections::BTreeSet;

use crate::family::storage::mounted::distinct;
use crate::model::{Addressing, EnvironmentKind, NetPath, NicModel, NicTuning, Plan, Vhost, VmOptions};

/// Why a system under test can't be at the end of a path with the card or the address that it has; `None` where it can.
pub(crate) fn impossible(environment: &EnvironmentKind, path: &NetPath) -> Option<String> {
    if path.addresses == Addressing::Dhcp && environment.is_pair() {
        let why = "protected virtual machines, and those compared with them, don't ask for their addresses";
        return Some(why.to_owned());
    }
    if path.cards.get() > 1 {
        let why = match environment {
            EnvironmentKind::Uml => Some("user-mode Linux has one network card"),
            _ if environment.is_pair() => Some(
                "what cards a protected virtual machine's hosts have is said by `fault_tolerance: {cards: ...}`",
            ),
            _ if path.addresses == Addressing::Dhcp => {
                Some("a DHCP server gives each system one address, and its other cards would have none")
            }
            _ => None,
        };
        if let Some(why) = why {
            return Some(why.to_owned());
        }
    }
    if let EnvironmentKind::Vm(vm) = environment
        && let Some(why) = untunable(vm, environment.is_pair())
    {
        return Some(why);
    }
    let card = environment.nic()?;
    let mtu = path.sut_mtu.unwrap_or(path.inner_mtu());
    let most = card.most_mtu();
    (mtu > most).then(|| {
        format!("the driver of its `{}` takes an MTU of at most {most} bytes, not {mtu}", card.word())
    })
}

/// Why a card can't be tuned as it is to be.
fn untunable(vm: &VmOptions, of_pair: bool) -> Option<String> {
    let NicTuning { queues, ring, vhost, moderation: _ } = vm.tuning;
    if vm.tuning.is_usual() {
        return None;
    }
    if of_pair {
        let why = "the card of a protected virtual machine, and of one compared with such, can't be tuned";
        return Some(why.to_owned());
    }
    let of_virtio = queues > 1 || ring.is_some() || vhost != Vhost::Auto;
    if of_virtio && vm.nic != NicModel::Virtio {
        let word = vm.nic.word();
        return Some(format!("queues, rings and vhost are those of a `virtio` card, and it has `{word}`"));
    }
    let vcpus = vm.vcpus.filter(|vcpus| *vcpus < queues)?;
    Some(format!("its card's {queues} pairs of queues would need as many virtual CPUs, and it has {vcpus}"))
}

/// What is left out of a plan's matrix because of a card, each in a sentence with the reason.
pub(crate) fn left_out(plan: &Plan) -> BTreeSet<String> {
    let environments = distinct(plan.cells.iter().map(|cell| &cell.environment));
    let paths = distinct(plan.cells.iter().map(|cell| &cell.path));
    let mut all = BTreeSet::new();
    for environment in environments {
        for path in paths.iter().filter(|path| path.kind.suits(&environment.kind)) {
            if let Some(why) = impossible(&environment.kind, path) {
                all.insert(format!("`{}` on `{}` is left out: {why}", environment.name, path.name));
            }
        }
    }
    all
}
