//! Where packets spend their time between the edges of a topology, from captures at both ends of each hop.
//!
//! All captures are of one kernel, so that their times are of one clock. A kernel stamps what arrives when it takes it in,
//! and what leaves after its queue has let go of it. So the time between the two at one router is what it took to forward
//! the packet *and* what the packet waited there: for the CPU, and in the queue of the link that it leaves by. The time
//! from one router to the next is the cable's.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde::{Deserialize, Serialize};
use vtax_units::Nanos;

/// Most sightings of one look, over all interfaces.
pub const MOST_SIGHTINGS: usize = 400_000;

/// An interface at which packets are captured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapturePoint {
    /// The router.
    pub router: String,
    /// The cable that the interface is an end of; `None`: it leads out of the topology.
    pub cable: Option<String>,
}

/// A packet as one capture saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sighting {
    /// What tells this packet from others, the same at all points.
    pub packet: u64,
    /// Whether it goes from the client to the service.
    pub up: bool,
    /// Which point, by its number in the list of points.
    pub point: usize,
    /// When the packet passed it.
    pub at: Nanos,
}

/// What happened to packets of one way on one part of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// Which part.
    pub part: Part,
    /// Whether these packets go from the client to the service.
    pub up: bool,
    /// How long they took.
    pub times: Times,
}

/// A part of a way.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// In a router: from the interface that they come by to the one that they leave by.
    Router(String),
    /// On a cable, by its name.
    Cable(String),
    /// From the first interface that saw them to the last.
    Whole,
}

/// How long packets took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// How many packets.
    pub packets: u64,
    /// The shortest: what it takes where nothing is in the way.
    pub least: Nanos,
    /// The median.
    pub median: Nanos,
    /// 99 of 100 took no longer.
    pub p99: Nanos,
    /// The mean; what it is above the shortest was spent waiting.
    pub mean: Nanos,
}

/// What a look at all hops found.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hops {
    /// How long packets were captured.
    pub looked: Nanos,
    /// Packets that no capture had room for.
    pub missed: u64,
    /// Parts of the way up in their order, then those of the way down; the whole of each at its end.
    pub hops: Vec<Hop>,
    /// Why there are none, where packets could not be captured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Times {
    /// Of at least one packet; `None` of none.
    fn of(mut all: Vec<u64>) -> Option<Self> {
        all.sort_unstable();
        let packets = all.len() as u64;
        let sum: u128 = all.iter().map(|ns| u128::from(*ns)).sum();
        // Each is a u64, and so is their mean.
        let mean = Nanos(u64::try_from(sum.checked_div(u128::from(packets))?).ok()?);
        // The nearest rank.
        let rank = |share: u64| (packets * share).div_ceil(100).clamp(1, packets) as usize - 1;
        Some(Self {
            packets,
            least: Nanos(*all.first()?),
            median: Nanos(all[rank(50)]),
            p99: Nanos(all[rank(99)]),
            mean,
        })
    }

    /// How long a packet waited on average, taking the shortest time for what it takes without.
    #[must_use]
    pub fn waited(&self) -> Nanos {
        self.mean.saturating_sub(self.least)
    }
}

/// Of a part of a way: how long packets took, and how far on their way it was, as a sum over all packets.
#[derive(Default)]
struct Collected {
    times: Vec<u64>,
    positions: u64,
}

/// What sightings say of each part of both ways.
///
/// A packet that one point saw twice, such as one that went in a circle or that has a twin, says nothing for sure and is
/// left out; so is a step between two points that no cable joins, as between them some capture had no room.
#[must_use]
pub fn hops(points: &[CapturePoint], sightings: Vec<Sighting>) -> Vec<Hop> {
    let mut packets: HashMap<(bool, u64), Vec<(Nanos, usize)>> = HashMap::new();
    for seen in sightings.into_iter().take(MOST_SIGHTINGS).filter(|seen| seen.point < points.len()) {
        packets.entry((seen.up, seen.packet)).or_default().push((seen.at, seen.point));
    }
    let mut parts: BTreeMap<(bool, Part), Collected> = BTreeMap::new();
    for ((up, _), mut seen) in packets {
        let mut once = HashSet::new();
        if seen.len() < 2 || !seen.iter().all(|(_, point)| once.insert(*point)) {
            continue;
        }
        seen.sort_unstable();
        let mut add = |part: Part, took: Nanos, position: usize| {
            let collected = parts.entry((up, part)).or_default();
            collected.times.push(took.0);
            collected.positions += position as u64;
        };
        for (position, pair) in seen.windows(2).enumerate() {
            let [(left, from), (came, to)] = [pair[0], pair[1]];
            if let Some(part) = part(&points[from], &points[to]) {
                add(part, came.saturating_sub(left), position);
            }
        }
        let [first, last] = [seen[0], seen[seen.len() - 1]];
        // From edge to edge only: others are on their way still, or were missed there.
        if points[first.1].cable.is_none() && points[last.1].cable.is_none() {
            add(Part::Whole, last.0.saturating_sub(first.0), seen.len());
        }
    }
    let mut found: Vec<(bool, f64, Hop)> = Vec::new();
    for ((up, part), Collected { times, positions }) in parts {
        let position = positions as f64 / times.len() as f64;
        found.extend(Times::of(times).map(|times| (!up, position, Hop { part, up, times })));
    }
    found.sort_by(|one, other| one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)));
    found.into_iter().map(|(.., hop)| hop).collect()
}

/// The part of a way that leads from one point to another.
fn part(from: &CapturePoint, to: &CapturePoint) -> Option<Part> {
    if from.router == to.router {
        return Some(Part::Router(from.router.clone()));
    }
    let cable = from.cable.as_ref().filter(|cable| to.cable.as_ref() == Some(cable))?;
    Some(Part::Cable(cable.clone()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// client -> a -> b -> service.
    fn points() -> Vec<CapturePoint> {
        let point = |router: &str, cable: Option<&str>| CapturePoint {
            router: router.to_owned(),
            cable: cable.map(str::to_owned),
        };
        vec![point("a", None), point("a", Some("a-b")), point("b", Some("a-b")), point("b", None)]
    }

    /// A packet that is seen at these points at these times.
    fn seen(packet: u64, up: bool, at: &[(usize, u64)]) -> Vec<Sighting> {
        at.iter().map(|(point, at)| Sighting { packet, up, point: *point, at: Nanos(*at) }).collect()
    }

    #[test]
    fn each_part_of_both_ways_is_told_in_order() {
        let mut all = seen(1, true, &[(0, 100), (1, 110), (2, 112), (3, 132)]);
        all.extend(seen(2, true, &[(3, 250), (2, 214), (0, 200), (1, 212)]));
        all.extend(seen(1, false, &[(3, 300), (2, 305), (1, 306), (0, 310)]));
        let found = hops(&points(), all);
        let words: Vec<String> = found
            .iter()
            .map(|hop| {
                let times = hop.times;
                format!("{:?} {} {} {} {}", hop.part, hop.up, times.packets, times.least.0, times.waited().0)
            })
            .collect();
        assert_eq!(
            words,
            [
                "Router(\"a\") true 2 10 1",
                "Cable(\"a-b\") true 2 2 0",
                "Router(\"b\") true 2 20 8",
                "Whole true 2 32 9",
                "Router(\"b\") false 1 5 0",
                "Cable(\"a-b\") false 1 1 0",
                "Router(\"a\") false 1 4 0",
                "Whole false 1 10 0",
            ]
        );
    }

    #[test]
    fn what_is_not_sure_is_left_out() {
        // Twice at one point; at one point only; a capture in between that missed it.
        let mut all = seen(1, true, &[(0, 1), (0, 2), (1, 3)]);
        all.extend(seen(2, true, &[(0, 1)]));
        all.extend(seen(3, true, &[(0, 10), (2, 30), (3, 35)]));
        let found = hops(&points(), all);
        let parts: Vec<&Part> = found.iter().map(|hop| &hop.part).collect();
        assert_eq!(parts, [&Part::Router("b".to_owned()), &Part::Whole]);
    }

    #[test]
    fn times_are_those_of_the_nearest_rank() {
        let times = Times::of((1..=200).rev().collect()).unwrap();
        assert_eq!((times.least, times.median, times.p99), (Nanos(1), Nanos(100), Nanos(198)));
        assert_eq!((times.mean, times.packets), (Nanos(100), 200));
        assert_eq!(Times::of(Vec::new()), None);
    }

    proptest! {
        #[test]
        fn any_sightings_are_looked_at(
            all in prop::collection::vec((0_u64..4, any::<bool>(), 0_usize..6, any::<u64>()), 0..60),
        ) {
            let all = all.into_iter().map(|(packet, up, point, at)| Sighting { packet, up, point, at: Nanos(at) });
            for hop in hops(&points(), all.collect()) {
                prop_assert!(hop.times.least <= hop.times.median && hop.times.median <= hop.times.p99);
            }
        }
    }
}
