//! One tax over several hosts, each of which made rounds of its own.
//!
//! Rounds of one host share its processor, its kernel and its memory: a hundred of them say how surely the tax is known
//! there, and nothing about the next host. So a host is one draw (a random effect), and the interval of the overall tax is
//! made of hosts, not of rounds. Each host counts the same, however many rounds it made. Everything here is on logarithms
//! of ratios, as [`logs_by_round`](crate::logs_by_round) gives them, with the sign that makes a cost positive.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use crate::center::{agree, tells_nothing};
use crate::describe::moments;
use crate::interval::{pick, within_rounds};
use crate::ratio::{Bound, Direction, Ratio};
use crate::rng::Rng;
use crate::student::{normal_tail, t_quantile, t_tail};
use crate::uncertainty::{Uncertainty, hidden, usable};
use crate::verdict::ALPHA;

/// Below this many hosts there is no interval over hosts: two that happen to agree say nothing.
pub const MIN_HOSTS: usize = 3;

/// From this many hosts the interval leans the way the hosts do, by a bootstrap of hosts and of their rounds.
const BOOTSTRAP_HOSTS: usize = 6;

const RESAMPLES: usize = 4000;

/// What one host found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostLogs<'a> {
    /// Logarithm of the tax in each of its rounds.
    pub logs: &'a [f64],
    /// Relative width within which each may lie unseen, as in [`Group`](crate::Group).
    pub resolution: f64,
}

/// The tax on one host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct HostTax {
    /// Logarithm of the tax: the mean over its rounds.
    pub center: f64,
    /// Its 95 % interval from its own rounds; `None` below [`MIN_TRIALS`](crate::MIN_TRIALS) rounds, and where fewer than
    /// [`ENCLOSING`](crate::ENCLOSING) all agree.
    pub interval: Option<(f64, f64)>,
    /// Rounds that it is made of.
    pub rounds: usize,
}

/// The tax over hosts. All figures but counts and probabilities are logarithms.
#[derive(Debug, Clone, PartialEq)]
pub struct OverHosts {
    /// Each host, in the order given.
    pub hosts: Vec<HostTax>,
    /// The mean over hosts.
    pub center: f64,
    /// 95 % interval of the mean over all hosts like these; `None` below [`MIN_HOSTS`], and where fewer than
    /// [`ENCLOSING`](crate::ENCLOSING) all agree.
    pub interval: Option<(f64, f64)>,
    /// Standard deviation between hosts' true taxes: what their rounds explain is taken off. `None` with a single host or
    /// where no host has two rounds.
    pub spread: Option<f64>,
    /// Where the tax of another host like these would be found 95 times of 100; `None` where there is no interval.
    pub another: Option<(f64, f64)>,
    /// How often hosts with one and the same tax would come out at least as different; `None` as of `spread`.
    pub same: Option<f64>,
    /// Hosts whose own tax differs from that of the others, the most different first. Fewer than half of all, else they
    /// are all different and none is the odd one.
    pub odd: Vec<usize>,
    /// What the interval is made of, or would be.
    uncertainty: Uncertainty,
}

/// The tax over hosts; `None` without a host, where one has no rounds, or where a value isn't finite.
///
/// The interval is Student's t over the means of hosts, from 6 hosts on a two-level bootstrap (hosts, then rounds within
/// them; Davison and Hinkley, "Bootstrap Methods and their Application", 1997, section 3.8), expanded to be as wide as
/// Student's t for normal values: resampling on both levels counts the scatter of rounds twice, and the plain percentiles
/// of few hosts are too narrow. The measurement's resolution, which hosts share, is added as in [`tax`](crate::tax).
///
/// The same seed gives the same result. `make soundness` shows how often the interval holds the truth.
#[must_use]
pub fn over_hosts(hosts: &[HostLogs<'_>], seed: u64) -> Option<OverHosts> {
    if hosts.is_empty() || hosts.iter().any(|h| h.logs.is_empty() || h.logs.iter().any(|l| !l.is_finite())) {
        return None;
    }
    let parts: Vec<HostPart<'_>> = hosts.iter().map(HostPart::new).collect();
    let count = parts.len() as f64;
    let centers: Vec<f64> = parts.iter().map(|p| p.mean).collect();
    let (center, variance) = moments(&centers);
    // What rounding makes of hosts that agree is no scatter.
    let variance = if agree(&centers) { 0.0 } else { variance };
    let unseen = hidden(hosts.iter().map(|h| usable(h.resolution)).fold(0.0, f64::max));
    let enough = parts.len() >= MIN_HOSTS && (unseen > 0.0 || !tells_nothing(&centers));
    let within = Within::of(&parts);
    let lean = if enough { lean(&parts, (center, variance), seed) } else { (1.0, 1.0) };
    let mean = Uncertainty::symmetric(variance / count, count - 1.0, unseen);
    let uncertainty = Uncertainty { lean, ..mean };
    Some(OverHosts {
        interval: enough.then(|| {
            let (low, high) = uncertainty.ends(ALPHA);
            (center - low, center + high)
        }),
        another: enough.then(|| {
            let one = Uncertainty { scatter: variance * (1.0 + 1.0 / count), ..mean };
            let half = one.half(ALPHA);
            (center - half, center + half)
        }),
        spread: within.map(|w| (variance - w.of_means(&parts)).max(0.0).sqrt()),
        same: within.and_then(|w| same(&parts, variance, w)),
        odd: within.map(|w| odd(&parts, w)).unwrap_or_default(),
        hosts: parts.iter().map(HostPart::tax).collect(),
        center,
        uncertainty,
    })
}

impl OverHosts {
    /// As a ratio that [`judge`](crate::judge) and [`judge_family`](crate::judge_family) take; hosts stand for trials.
    #[must_use]
    pub fn ratio(&self, better: Direction, bound: Bound) -> Ratio {
        let hosts = self.hosts.len();
        let ratio = Ratio {
            tax: self.center.exp(),
            interval: None,
            better,
            bound,
            detectable: None,
            candidate_trials: hosts,
            baseline_trials: hosts,
            rounds: None,
            scatter: None,
            uncertainty: None,
        };
        ratio.with(self.interval.map(|_| self.uncertainty))
    }
}

/// One host's rounds with what is made of them.
#[derive(Debug)]
struct HostPart<'a> {
    logs: &'a [f64],
    mean: f64,
    variance: f64,
    resolution: f64,
}

impl<'a> HostPart<'a> {
    fn new(host: &HostLogs<'a>) -> Self {
        let (mean, variance) = moments(host.logs);
        Self { logs: host.logs, mean, variance, resolution: host.resolution }
    }

    fn n(&self) -> f64 {
        self.logs.len() as f64
    }

    fn tax(&self) -> HostTax {
        let known = within_rounds(self.logs, self.variance, hidden(self.resolution));
        let half = known.map(|uncertainty| uncertainty.half(ALPHA));
        let interval = half.map(|half| (self.mean - half, self.mean + half));
        HostTax { center: self.mean, interval, rounds: self.logs.len() }
    }
}

/// The variance of a round within its host, taken together over hosts.
#[derive(Debug, Clone, Copy)]
struct Within {
    variance: f64,
    df: f64,
}

impl Within {
    /// `None` where no host has two rounds.
    fn of(parts: &[HostPart<'_>]) -> Option<Self> {
        let df: f64 = parts.iter().map(|p| p.n() - 1.0).sum();
        let squares: f64 = parts.iter().map(|p| p.variance * (p.n() - 1.0)).sum();
        (df > 0.0 && parts.len() > 1).then_some(Self { variance: squares / df, df })
    }

    /// What rounds explain of the variance between the means of hosts.
    fn of_means(self, parts: &[HostPart<'_>]) -> f64 {
        self.variance * parts.iter().map(|p| 1.0 / p.n()).sum::<f64>() / parts.len() as f64
    }
}

/// The probability of such a difference between hosts by rounds alone (one-way analysis of variance, of unweighted means
/// where hosts made different numbers of rounds).
fn same(parts: &[HostPart<'_>], between: f64, within: Within) -> Option<f64> {
    let explained = within.of_means(parts);
    if explained <= 0.0 {
        return Some(if between > 0.0 { 0.0 } else { 1.0 });
    }
    let f = FisherSnedecor::new(parts.len() as f64 - 1.0, within.df).ok()?;
    Some(f.sf(between / explained))
}

/// Hosts that differ from the mean of the others by more than rounds explain: the most different one, then again among
/// the rest, each time at [`ALPHA`] over the number of hosts looked at (Bonferroni), so that among hosts that are alike one
/// is named at most 5 times of 100.
fn odd(parts: &[HostPart<'_>], within: Within) -> Vec<usize> {
    let mut left: Vec<usize> = (0..parts.len()).collect();
    let mut found = Vec::new();
    while left.len() >= MIN_HOSTS {
        let p_of = |host: usize| {
            let others = || left.iter().filter(move |o| **o != host).map(move |o| &parts[*o]);
            let count = (left.len() - 1) as f64;
            let apart = parts[host].mean - others().map(|p| p.mean).sum::<f64>() / count;
            let shares = 1.0 / parts[host].n() + others().map(|p| 1.0 / p.n()).sum::<f64>() / (count * count);
            let error = (within.variance * shares).sqrt();
            match error {
                e if e > 0.0 => 2.0 * t_tail(apart.abs() / e, within.df),
                _ if apart == 0.0 => 1.0,
                _ => 0.0,
            }
        };
        let apart = |host: usize| {
            let others: f64 = left.iter().filter(|o| **o != host).map(|o| parts[*o].mean).sum();
            (parts[host].mean - others / (left.len() - 1) as f64).abs()
        };
        // Of equal probabilities, as of two far beyond what can be told, the one further away.
        let most = left
            .iter()
            .copied()
            .min_by(|a, b| p_of(*a).total_cmp(&p_of(*b)).then_with(|| apart(*b).total_cmp(&apart(*a))));
        let Some(host) = most.filter(|host| p_of(*host) <= ALPHA / left.len() as f64) else { break };
        found.push(host);
        left.retain(|other| *other != host);
    }
    // Two that are left can't say which of them is odd, only that they aren't alike.
    let alike = match left.as_slice() {
        [a, b] => {
            let (a, b) = (&parts[*a], &parts[*b]);
            let error = (within.variance * (1.0 / a.n() + 1.0 / b.n())).sqrt();
            let apart = (a.mean - b.mean).abs();
            apart == 0.0 || (error > 0.0 && 2.0 * t_tail(apart / error, within.df) > ALPHA)
        }
        _ => true,
    };
    if alike && 2 * found.len() < parts.len() { found } else { Vec::new() }
}

/// By how much further the interval reaches below and above the center than Student's t.
fn lean(parts: &[HostPart<'_>], (center, variance): (f64, f64), seed: u64) -> (f64, f64) {
    let count = parts.len() as f64;
    let half = t_quantile(0.975, count - 1.0) * (variance / count).sqrt();
    if parts.len() < BOOTSTRAP_HOSTS || half <= 0.0 {
        return (1.0, 1.0);
    }
    let mut rng = Rng::new(seed);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| {
            let sum: f64 = (0..parts.len())
                .map(|_| {
                    let logs = parts[rng.below(parts.len())].logs;
                    (0..logs.len()).map(|_| logs[rng.below(logs.len())]).sum::<f64>() / logs.len() as f64
                })
                .sum();
            sum / count - center
        })
        .collect();
    // The standard deviation of these, known without resampling: hosts, and rounds within the hosts that were drawn.
    let of_hosts = variance * (count - 1.0) / (count * count);
    let of_rounds =
        parts.iter().map(|p| p.variance * (p.n() - 1.0) / (p.n() * p.n())).sum::<f64>() / (count * count);
    let tail = normal_tail(half / (of_hosts + of_rounds).sqrt());
    let (low, high) = (pick(&mut means, tail), pick(&mut means, 1.0 - tail));
    (-low.min(0.0) / half, high.max(0.0) / half)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::student::normal_quantile;
    use crate::verdict::{Doubt, Verdict};

    fn over(hosts: &[Vec<f64>]) -> OverHosts {
        let hosts: Vec<HostLogs<'_>> = hosts.iter().map(|logs| HostLogs { logs, resolution: 0.0 }).collect();
        over_hosts(&hosts, 1).unwrap()
    }

    #[test]
    fn three_hosts_by_hand() {
        let found = over(&[vec![0.0, 0.2], vec![0.1, 0.3], vec![0.2, 0.4]]);
        // Means 0.1, 0.2, 0.3: sd 0.1, t(0.975, 2) = 4.302653.
        let half = 4.302_653 * 0.1 / 3f64.sqrt();
        let (low, high) = found.interval.unwrap();
        assert!((found.center - 0.2).abs() < 1e-12 && found.uncertainty.df == 2.0);
        assert!((low - (0.2 - half)).abs() < 1e-6 && (high - (0.2 + half)).abs() < 1e-6, "{low} {high}");
        // Within a host the variance is 0.02, of its mean 0.01: all of what is seen between hosts.
        assert!(found.spread.unwrap() < 1e-6 && found.odd.is_empty());
        // F = 1 with 2 and 3 degrees of freedom: (1 + 2/3)^(-3/2).
        assert!((found.same.unwrap() - (5.0f64 / 3.0).powf(-1.5)).abs() < 1e-9, "{:?}", found.same);
        let (_, another) = found.another.unwrap();
        assert!((another - (0.2 + 4.302_653 * (0.01f64 * 4.0 / 3.0).sqrt())).abs() < 1e-6);
        assert_eq!(found.hosts[0], HostTax { center: 0.1, interval: None, rounds: 2 });
    }

    #[test]
    fn rounds_are_no_hosts() {
        // A thousand rounds on each of three hosts that differ don't make the interval narrower than three do.
        let host = |center: f64| (0..1000).map(|i| center + f64::from(i % 3 - 1) * 0.01).collect();
        let (few, many) =
            (over(&[vec![0.1], vec![0.2], vec![0.3]]), over(&[host(0.1), host(0.2), host(0.3)]));
        let width = |o: &OverHosts| o.interval.map(|(l, h)| h - l).unwrap();
        assert!((width(&few) - width(&many)).abs() < 1e-3);
        assert!((many.spread.unwrap() - 0.1).abs() < 1e-3 && many.same.unwrap() < 1e-9);
        assert_eq!((few.spread, few.same), (None, None));
    }

    #[test]
    fn the_odd_one_is_named() {
        let host = |center: f64| vec![center - 0.01, center, center + 0.01];
        assert_eq!(over(&[host(0.1), host(0.1), host(0.5)]).odd, [2]);
        assert_eq!(over(&[host(0.1), host(0.9), host(0.11), host(0.1), host(0.5)]).odd, [1, 4]);
        // Where each differs from all others none is the odd one.
        assert_eq!(over(&[host(0.1), host(0.5), host(0.9)]).odd, [0usize; 0]);
        assert_eq!(over(&[host(0.1), host(0.101), host(0.099)]).odd, [0usize; 0]);
        assert_eq!(over(&[host(0.1), host(0.9)]).odd, [0usize; 0]);
    }

    #[test]
    fn few_hosts_have_no_interval() {
        let found = over(&[vec![0.1, 0.2, 0.3], vec![0.1, 0.3, 0.2]]);
        assert_eq!((found.interval, found.another), (None, None));
        assert!(found.hosts[0].interval.is_some() && found.spread.is_some());
        assert_eq!(found.ratio(Direction::Lower, Bound::Exact).interval, None);
        let alone = over(&[vec![0.1, 0.2, 0.3]]);
        assert_eq!((alone.spread, alone.same, alone.odd.len()), (None, None, 0));
        // Rounds that agree to the digit say as little as in a comparison of their own.
        let same = over(&[vec![0.1; 5], vec![0.1; 6]]);
        assert!(same.hosts[0].interval.is_none() && same.hosts[1].interval.is_some(), "{same:?}");
        assert_eq!(over_hosts(&[], 1), None);
        assert_eq!(over_hosts(&[HostLogs { logs: &[], resolution: 0.0 }], 1), None);
        assert_eq!(over_hosts(&[HostLogs { logs: &[f64::NAN], resolution: 0.0 }], 1), None);
    }

    /// The mean opinion score of calls without a loss is the same on each host.
    #[test]
    fn few_hosts_that_agree_to_the_digit_have_no_interval() {
        for (hosts, logs) in [(3, vec![0.0; 3]), (5, vec![0.1; 4]), (3, vec![0.1, 0.3])] {
            let found = over(&vec![logs.clone(); hosts]);
            assert_eq!((found.interval, found.another), (None, None), "{hosts} of {logs:?}");
            let judged = crate::judge(&found.ratio(Direction::Higher, Bound::Exact), 0.05);
            assert_eq!((judged.verdict, judged.doubt), (Verdict::Inconclusive, Some(Doubt::TooFew)));
            assert!(judged.reason.contains(&format!("all {hosts} agree to the digit")), "{judged:?}");
        }
        // All of six lie on one side of the truth in 3 of 100 cases.
        let six = over(&vec![vec![0.0; 3]; 6]);
        assert_eq!((six.interval, six.another), (Some((0.0, 0.0)), Some((0.0, 0.0))));
        assert_eq!(
            crate::judge(&six.ratio(Direction::Higher, Bound::Exact), 0.05).verdict,
            Verdict::Equivalent
        );
        assert!(over(&[vec![0.0; 3], vec![0.0; 3], vec![0.01; 3]]).interval.is_some());
    }

    #[test]
    fn a_resolution_is_not_cured_by_hosts() {
        let hosts = [[0.1, 0.1]; 5].map(|logs| logs.to_vec());
        let hosts: Vec<HostLogs<'_>> = hosts.iter().map(|logs| HostLogs { logs, resolution: 0.05 }).collect();
        let (low, high) = over_hosts(&hosts, 1).unwrap().interval.unwrap();
        assert!(
            (high - low - 2.0 * normal_quantile(0.975) * 0.05 / 12f64.sqrt()).abs() < 1e-9,
            "{low} {high}"
        );
    }

    #[test]
    fn the_ratio_is_judged_like_any_other() {
        let host = |center: f64| vec![center - 0.01, center, center + 0.01];
        let found = over(&[host(0.5), host(0.52), host(0.48), host(0.5)]);
        let ratio = found.ratio(Direction::Lower, Bound::Exact);
        assert!((ratio.tax - 0.5f64.exp()).abs() < 1e-9 && ratio.candidate_trials == 4);
        assert_eq!(crate::judge(&ratio, 0.05).verdict, crate::Verdict::Worse);
        assert!(ratio.detectable.unwrap() > 1.0 && ratio.detectable.unwrap() < 1.2);
    }

    proptest! {
        #[test]
        fn the_order_of_hosts_changes_nothing_but_theirs(
            hosts in prop::collection::vec(prop::collection::vec(-1.0..1.0f64, 1..6), 2..6),
            turn in 0usize..6,
        ) {
            let mut turned = hosts.clone();
            turned.rotate_left(turn % hosts.len());
            let (a, b) = (over(&hosts), over(&turned));
            prop_assert!((a.center - b.center).abs() < 1e-9);
            prop_assert_eq!(a.odd.len(), b.odd.len());
            if let (Some((l, h)), Some((m, i))) = (a.interval, b.interval) {
                prop_assert!((l - m).abs() < 1e-9 && (h - i).abs() < 1e-9);
            }
        }

        #[test]
        fn the_interval_holds_its_center(
            hosts in prop::collection::vec(prop::collection::vec(-1.0..1.0f64, 1..6), 3..12),
        ) {
            let found = over(&hosts);
            let (low, high) = found.interval.unwrap();
            prop_assert!(low <= found.center + 1e-12 && found.center <= high + 1e-12);
            let (below, above) = found.another.unwrap();
            prop_assert!(below <= low + 1e-6 || hosts.len() >= BOOTSTRAP_HOSTS);
            prop_assert!(below <= found.center && found.center <= above);
        }
    }
}
