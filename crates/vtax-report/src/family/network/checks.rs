//! Whether the instrument can be trusted: the same bytes counted by programs, kernels, interfaces and a
//! capture (the study's section III.E).

use vtax_load::network::{ConnectionFacts, TcpFlow, TcpSide};
use vtax_store::network::{CountCheck, CountedBy};
use vtax_store::record::{InvalidReason, Observation, Validity};

use super::bench::{self, Bench, Link};
use super::trial::flow;

/// Who counted the same bytes as the sender's program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Witness {
    /// The receiving program.
    Receiver,
    /// The TCP of the sending kernel: acknowledged.
    SenderTcp,
    /// The TCP of the receiving kernel: received.
    ReceiverTcp,
    /// The client's interface.
    ClientInterface,
    /// The SUT's interface.
    SutInterface,
    /// The packet capture.
    Capture,
}

impl Witness {
    pub(crate) const ALL: [Self; 6] = [
        Self::Receiver,
        Self::SenderTcp,
        Self::ReceiverTcp,
        Self::ClientInterface,
        Self::SutInterface,
        Self::Capture,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Receiver => "receiving program",
            Self::SenderTcp => "sender's TCP",
            Self::ReceiverTcp => "receiver's TCP",
            Self::ClientInterface => "client's interface",
            Self::SutInterface => "SUT's interface",
            Self::Capture => "packet capture",
        }
    }

    fn counted_by(self) -> Option<CountedBy> {
        match self {
            Self::ClientInterface => Some(CountedBy::ClientInterface),
            Self::SutInterface => Some(CountedBy::SutInterface),
            Self::Capture => Some(CountedBy::Capture),
            _ => None,
        }
    }

    /// By how much its counts of an observation are apart from what they should be, as shares.
    pub(crate) fn apart(self, observation: &Observation) -> Vec<f64> {
        match (self.counted_by(), flow(observation)) {
            (Some(by), _) => {
                let checks = observation.network().into_iter().flat_map(|found| &found.checks);
                checks.filter(|c| c.by == by).map(CountCheck::apart).collect()
            }
            (None, Some(flow)) => vec![self.of_flow(flow)],
            (None, None) => Vec::new(),
        }
    }

    fn of_flow(self, flow: &TcpFlow) -> f64 {
        let sum = |side: &TcpSide, of: fn(&ConnectionFacts) -> u64| -> u64 {
            side.connections.iter().map(of).sum()
        };
        let counted = match self {
            Self::SenderTcp => sum(&flow.sender, |c| c.acknowledged),
            Self::ReceiverTcp => sum(&flow.receiver, |c| c.received),
            _ => flow.receiver.total_bytes,
        };
        let sent = flow.sender.total_bytes;
        counted.abs_diff(sent) as f64 / (sent as f64).max(1.0)
    }
}

/// What the witnesses of one link said of all of its tests.
#[derive(Debug)]
pub(crate) struct Agreement {
    /// By witness: the largest share it was apart by, and how many counts it made.
    pub(crate) worst: [(Option<f64>, usize); 6],
    /// Observations that don't count because counts disagree.
    pub(crate) refused: usize,
    /// All observations.
    pub(crate) observations: usize,
}

/// Asks the witnesses of a link.
pub(crate) fn agreement(bench: &Bench<'_>, link: &Link<'_>) -> Agreement {
    let mut found = Agreement { worst: [(None, 0); 6], refused: 0, observations: 0 };
    for (_, observation) in bench.tests.iter().flat_map(|t| link.all(&t.test.name)) {
        found.observations += 1;
        let disagree =
            |v: &Validity| matches!(v, Validity::Invalid { reason: InvalidReason::CountsDisagree, .. });
        if disagree(&observation.validity) {
            found.refused += 1;
        }
        for (witness, (worst, count)) in Witness::ALL.iter().zip(&mut found.worst) {
            for apart in witness.apart(observation) {
                *worst = Some(worst.map_or(apart, |w| w.max(apart)));
                *count += 1;
            }
        }
    }
    found
}

/// One transfer in full, as the study shows one.
#[derive(Debug)]
pub(crate) struct Sample<'a> {
    pub(crate) link: &'a Link<'a>,
    pub(crate) test: &'a str,
    pub(crate) trial: u32,
    pub(crate) flow: &'a TcpFlow,
    pub(crate) checks: &'a [CountCheck],
}

/// The transfer to show: one that a capture counted, where there is any, else the first.
pub(crate) fn sample<'a>(bench: &'a Bench<'a>) -> Option<Sample<'a>> {
    let all = || {
        bench.links.iter().flat_map(|link| {
            let of = |test: &'a bench::Test<'a>| {
                let made = link.valid(&test.test.name);
                made.filter_map(move |(trial, o)| {
                    let (flow, checks, test) =
                        (flow(o)?, o.network()?.checks.as_slice(), test.test.name.as_str());
                    Some(Sample { link, test, trial: trial.index, flow, checks })
                })
            };
            bench.transfers().flat_map(of).collect::<Vec<_>>()
        })
    };
    let captured = |s: &Sample<'_>| s.checks.iter().any(|c| c.by == CountedBy::Capture);
    all().find(captured).or_else(|| all().next())
}
