//! How traffic was spread over the network cards of systems that have several.

use vtax_lab::{Sut, Testbed};
use vtax_sys::netlink::LinkStats;
use vtax_units::fact;

use crate::probes::role;

/// What every system's cards had counted at a moment.
pub(crate) struct Cards(Vec<Vec<LinkStats>>);

impl Cards {
    /// Now. Cards that can't be seen from here have counted nothing.
    pub(crate) fn look(testbed: &Testbed) -> Self {
        Self(testbed.suts.iter().map(|sut| sut.cards().unwrap_or_default()).collect())
    }

    /// Each card's share of what its system sent and received since then, for systems with several: the fact `sut.cards`.
    pub(crate) fn facts(self, testbed: &Testbed) -> impl Iterator<Item = (String, String)> {
        let told = |(sut, before): (&Sut, Vec<LinkStats>)| {
            let now = sut.cards().ok().filter(|now| now.len() > 1 && now.len() == before.len())?;
            let counted = before.iter().zip(&now);
            let bytes = |(before, now): (&LinkStats, &LinkStats)| {
                [
                    now.received_bytes.saturating_sub(before.received_bytes),
                    now.sent_bytes.saturating_sub(before.sent_bytes),
                ]
            };
            let shares = words(&counted.map(bytes).collect::<Vec<_>>());
            Some((fact::of_node(role(sut.node.name()), fact::CARDS), shares))
        };
        testbed.suts.iter().zip(self.0).filter_map(told)
    }
}

/// What share each card had of bytes received and sent.
fn words(cards: &[[u64; 2]]) -> String {
    let whole = |direction: usize| cards.iter().map(|card| card[direction]).sum::<u64>().max(1) as f64;
    let share = |card: &[u64; 2], direction: usize| 100.0 * card[direction] as f64 / whole(direction);
    let told =
        |(number, card)| format!("eth{number} {:.0} % in, {:.0} % out", share(card, 0), share(card, 1));
    cards.iter().enumerate().map(told).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_each_direction() {
        assert_eq!(words(&[[30, 0], [70, 5]]), "eth0 30 % in, 0 % out; eth1 70 % in, 100 % out");
        assert_eq!(words(&[[0, 0], [0, 0]]), "eth0 0 % in, 0 % out; eth1 0 % in, 0 % out");
    }
}
