//! Network cards of virtual machines, and which cells there can't be because of them.

use std::collections::BTreeSet;

use crate::family::storage::mounted::distinct;
use crate::model::{EnvironmentKind, NetPath, Plan};

/// Why a system under test can't be at the end of a path with the card that it has; `None` where it can.
pub(crate) fn impossible(environment: &EnvironmentKind, path: &NetPath) -> Option<String> {
    let card = environment.nic()?;
    let mtu = path.sut_mtu.unwrap_or(path.mtu);
    let most = card.most_mtu();
    (mtu > most).then(|| {
        format!("the driver of its `{}` takes an MTU of at most {most} bytes, not {mtu}", card.word())
    })
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
