//! One load from several generators, each on a host of its own: its parts, and what they found together.
//!
//! Independent Poisson processes at a part of the rate each are together one at the whole rate (Kingman, Poisson Processes, 1993,
//! section 2.2), also where they begin some milliseconds apart. Evenly spaced starts are not: plans refuse them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Rate};

use crate::spread::longest;
use crate::{LoadAnswer, LoadError, LoadResult, LoadSpec, Model, RequestStep, Segment, merged};

/// Between the seeds of two generators' arrivals: odd, and none that systems or steps of a search are apart.
const SEED_STEP: u64 = 0xD1B5_4A32_D192_ED03;

/// Which of the generators of one load this is. What all have together, such as keys or files, is numbered through, and each has every
/// so many-th of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its number, from 0.
    pub number: u32,
    /// How many there are, at least 1.
    pub of: u32,
}

impl Default for Part {
    /// The only one.
    fn default() -> Self {
        Self { number: 0, of: 1 }
    }
}

impl Part {
    /// How much of so much is its own.
    #[must_use]
    pub fn amount(self, all: u64) -> u64 {
        let of = u64::from(self.of.max(1));
        all / of + u64::from(u64::from(self.number) < all % of)
    }

    /// Number among those of all generators of what is the `own`-th, from 0, of its own.
    #[must_use]
    pub fn place(self, own: u64) -> u64 {
        own.saturating_mul(u64::from(self.of.max(1))).saturating_add(u64::from(self.number))
    }
}

/// Addresses to send from, each that isn't specified replaced by the one of this host that the kernel would send to the target from: who
/// sends a load to another host doesn't know what addresses it has.
pub(crate) fn own_addresses(local: &[IpAddr], target: SocketAddr) -> Result<Vec<IpAddr>, LoadError> {
    let leads_there = || {
        let any: IpAddr =
            if target.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let found = UdpSocket::bind((any, 0)).and_then(|socket| {
            socket.connect(target)?;
            socket.local_addr()
        });
        found.map_err(|source| LoadError::System { operation: "find the way to the target", source })
    };
    let own = |local: &IpAddr| if local.is_unspecified() { Ok(leads_there()?.ip()) } else { Ok(*local) };
    local.iter().map(own).collect()
}

impl RequestStep {
    /// The part of this step that the generator with this number, from 0, makes of so many: of an open loop an equal part of the
    /// rate with arrivals of its own; a closed loop is one on each.
    #[must_use]
    pub fn part(&self, number: usize, of: usize) -> Self {
        let of = of.max(1) as f64;
        let model = match &self.model {
            Model::Closed => Model::Closed,
            Model::Open { arrivals, profile } => {
                let part = |rate: Rate| Rate(rate.0 / of);
                let segment = |s: &Segment| Segment { from: part(s.from), to: part(s.to), ..*s };
                Model::Open { arrivals: *arrivals, profile: profile.iter().map(segment).collect() }
            }
        };
        let seed = self.seed.wrapping_add((number as u64).wrapping_mul(SEED_STEP));
        Self { model, seed, ..self.clone() }
    }
}

impl LoadSpec {
    /// The part of this load that the generator with this number, from 0, makes of so many: its connections are divided, and so is what
    /// all ask for where a generator has to know all writes to it. `None` where a load of this family can't be divided, or where there is
    /// less of something than there are generators.
    #[must_use]
    pub fn part(&self, number: usize, of: usize) -> Option<Self> {
        let of = u32::try_from(of).ok().filter(|of| *of > 0)?;
        let part = Part { number: u32::try_from(number).ok()?, of };
        let mut load = self.clone();
        if of == 1 {
            return Some(load);
        }
        match &mut load {
            Self::Http(_) => {}
            Self::Redis(redis) if redis.requests.keys >= u64::from(of) => redis.part = part,
            Self::Ftp(ftp) => {
                ftp.part = part;
                ftp.requests.bytes = ftp.requests.bytes.map(|bytes| Bytes(part.amount(bytes.0).max(1)));
            }
            Self::Script(script) => script.part = part,
            Self::Redis(_)
            | Self::Sip(_)
            | Self::Network
            | Self::Storage(_)
            | Self::Desktop(_)
            | Self::Spread(_)
            | Self::Beside(_) => return None,
        }
        let pool = load.pool_mut()?;
        let all = pool.connections;
        pool.connections = u32::try_from(part.amount(all.into())).ok()?;
        (all >= of).then_some(load)
    }
}

/// What several generators found of one step, as one would have: counts added, histograms merged bucket by bucket. `names` are those
/// of their hosts, to say which of them limited the load; `ends_with_bytes` is as [`LoadSpec::ends_with_bytes`] says: each moves
/// bytes of its own, and the last one to have done so ends the load. Times of samples are from each one's own start.
#[must_use]
pub fn together(names: &[String], answers: &[LoadAnswer], ends_with_bytes: bool) -> LoadAnswer {
    let parts: Vec<_> = answers.iter().map(|answer| &answer.result).collect();
    let mut result = merged(&parts);
    if ends_with_bytes {
        result.duration = longest(&parts);
    }
    let limited = |(part, name): (&&LoadResult, &String)| {
        let why = part.generator.limited.as_ref()?;
        Some(format!("{name}: {why}"))
    };
    result.generator.limited = parts.iter().zip(names).find_map(limited);
    result.samples = parts.iter().flat_map(|part| part.samples.iter().copied()).collect();
    result.samples.sort_unstable_by_key(|sample| sample.start_ns);
    let answered = answers.iter().map(|answer| answer.answered).sum();
    LoadAnswer { result, answered, members: Vec::new() }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use vtax_plan::model::{KeyAccess, RedisRequests};
    use vtax_units::{CpuSet, Nanos};

    use super::*;
    use crate::http::{HttpRequests, HttpSpec};
    use crate::redis::RedisSpec;
    use crate::start_times::tests::{KS_LIMIT, ks_uniform};
    use crate::{ArrivalProcess, ConnectionPool, Counts, LatencyHistogram, Sample, StartTimes};

    fn step(rate: f64, seconds: u64) -> RequestStep {
        let segment = Segment { from: Rate(rate), to: Rate(rate), duration: Nanos::from_secs(seconds) };
        RequestStep {
            model: Model::Open { arrivals: ArrivalProcess::Poisson, profile: vec![segment] },
            warmup: Nanos::ZERO,
            duration: Nanos::from_secs(seconds),
            seed: 11,
            samples: true,
            interval: Nanos::from_secs(1),
            drain: Nanos::ZERO,
        }
    }

    /// Starts of all generators with so many workers each, which begin up to 3 ms apart, sorted, in seconds from the first one's
    /// begin and until so many.
    fn starts(whole: &RequestStep, generators: usize, workers: usize, until: f64) -> Vec<f64> {
        let mut all = Vec::new();
        for number in 0..generators {
            let part = whole.part(number, generators);
            let Model::Open { arrivals, profile } = &part.model else { panic!("closed") };
            let skew = number as f64 * 0.003 / generators as f64;
            for worker in 0..workers {
                let own = StartTimes::new(*arrivals, profile, part.seed, worker, workers);
                all.extend(own.map(|at| at.as_secs_f64() + skew).take_while(|at| *at < until));
            }
        }
        all.sort_by(f64::total_cmp);
        all
    }

    #[test]
    fn generators_at_a_part_of_the_rate_are_one_poisson_process_together() {
        let seconds = 20.0;
        for (rate, generators, workers) in
            [(1_000.0, 2, 1), (5_000.0, 2, 2), (5_000.0, 3, 1), (20_000.0, 8, 2), (2_000.0, 64, 1)]
        {
            let all = starts(&step(rate, 20), generators, workers, seconds);
            let n = all.len() as f64;
            assert!((n - seconds * rate).abs() < 4.0 * (seconds * rate).sqrt(), "{n} starts at {rate}");
            assert!(ks_uniform(all.iter().map(|t| t / seconds).collect()) < KS_LIMIT, "times at {rate}");
            let gaps = all.windows(2).map(|w| 1.0 - (-(w[1] - w[0]) * rate).exp()).collect();
            assert!(ks_uniform(gaps) < KS_LIMIT, "gaps at {rate} of {generators}");
            // Index of dispersion of counts in 2,000 windows: 1 ± 4·sqrt(2/1999).
            let mut counts = vec![0.0_f64; 2_000];
            all.iter().for_each(|t| counts[(t * 100.0) as usize] += 1.0);
            let mean = n / 2_000.0;
            let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 1_999.0;
            assert!((variance / mean - 1.0).abs() < 0.127, "dispersion {} at {rate}", variance / mean);
        }
    }

    /// What the tests above are worth: they see generators that share their arrivals, and such that keep even distances.
    #[test]
    fn generators_that_are_not_independent_are_seen() {
        let whole = step(5_000.0, 20);
        let own = whole.part(0, 2);
        let Model::Open { profile, .. } = &own.model else { panic!("closed") };
        let gaps = |process, seeds: [u64; 2]| {
            let of = |seed| StartTimes::new(process, profile, seed, 0, 1).map(Nanos::as_secs_f64);
            let mut all: Vec<f64> = seeds.into_iter().flat_map(|s| of(s).take_while(|t| *t < 20.0)).collect();
            all.sort_by(f64::total_cmp);
            ks_uniform(all.windows(2).map(|w| 1.0 - (-(w[1] - w[0]) * 5_000.0).exp()).collect())
        };
        assert!(gaps(ArrivalProcess::Poisson, [own.seed, own.seed]) > 5.0 * KS_LIMIT, "the same seed");
        let other = whole.part(1, 2).seed;
        assert!(gaps(ArrivalProcess::Constant, [own.seed, other]) > 5.0 * KS_LIMIT, "even distances");
    }

    fn http(connections: u32) -> LoadSpec {
        let pool = ConnectionPool {
            target: ([127, 0, 0, 1], 1).into(),
            connections,
            timeout: Nanos::from_millis(200),
            cpus: CpuSet::default(),
        };
        LoadSpec::Http(HttpSpec { pool, requests: HttpRequests::get("/", "h") })
    }

    #[test]
    fn loads_whose_state_is_the_servers_are_divided_and_others_refused() {
        let pool = ConnectionPool {
            target: ([127, 0, 0, 1], 1).into(),
            connections: 5,
            timeout: Nanos::from_millis(200),
            cpus: CpuSet::default(),
        };
        let requests = RedisRequests {
            keys: 3,
            value: Bytes(16),
            reads: vtax_units::Share(0.5),
            access: KeyAccess::Uniform,
            pipeline: 1,
        };
        let redis = LoadSpec::Redis(RedisSpec { pool, requests, seed: 1, part: Part::default() });
        let part_of = |load: Option<LoadSpec>| match load {
            Some(LoadSpec::Redis(redis)) => Some((redis.part, redis.pool.connections)),
            _ => None,
        };
        assert_eq!(part_of(redis.part(2, 3)), Some((Part { number: 2, of: 3 }, 1)));
        assert_eq!(part_of(redis.part(0, 3)), Some((Part { number: 0, of: 3 }, 2)));
        assert_eq!(redis.part(0, 4), None, "a key each");
        assert_eq!(redis.part(0, 1), Some(redis.clone()));
        assert_eq!(LoadSpec::Network.part(0, 2), None);
        assert_eq!(LoadSpec::Network.part(0, 1), Some(LoadSpec::Network));
    }

    #[test]
    fn an_address_that_is_not_specified_is_the_hosts_own() {
        let target: SocketAddr = ([127, 0, 0, 1], 9).into();
        let [any, other] = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::new(127, 0, 0, 5)].map(IpAddr::V4);
        assert_eq!(own_addresses(&[any, other], target).unwrap(), [target.ip(), other]);
        assert!(own_addresses(&[], target).unwrap().is_empty());
    }

    fn answer(latencies: &[u64], limited: Option<&str>) -> LoadAnswer {
        let mut result = merged(&[]);
        result.duration = Nanos::from_secs(1);
        for (i, ns) in latencies.iter().enumerate() {
            result.latency.record(Nanos(*ns));
            result.samples.push(Sample { start_ns: i as u64 * 1_000, latency_ns: *ns, outcome: 0 });
        }
        let n = latencies.len() as u64;
        result.counts = Counts { intended: n, sent: n, ok: n, ..Counts::default() };
        result.generator.limited = limited.map(str::to_owned);
        LoadAnswer { result, answered: n + 1, members: Vec::new() }
    }

    proptest! {
        #[test]
        fn parts_are_the_whole(
            connections in 1_u32..5_000, generators in 1_usize..65, rate in 0.1..1e6_f64,
        ) {
            let parts: Option<Vec<LoadSpec>> =
                (0..generators).map(|number| http(connections).part(number, generators)).collect();
            prop_assert_eq!(parts.is_some(), connections as usize >= generators);
            let shares: Vec<u32> =
                parts.into_iter().flatten().filter_map(|mut p| Some(p.pool_mut()?.connections)).collect();
            if !shares.is_empty() {
                prop_assert_eq!(shares.iter().sum::<u32>(), connections);
                prop_assert!(shares.iter().all(|share| *share > 0 && share.abs_diff(shares[0]) <= 1));
            }
            let whole = step(rate, 1);
            let rates: f64 = (0..generators)
                .map(|number| match whole.part(number, generators).model {
                    Model::Open { profile, .. } => profile[0].from.0,
                    Model::Closed => f64::NAN,
                })
                .sum();
            prop_assert!((rates / rate - 1.0).abs() < 1e-9);
            let seeds: std::collections::BTreeSet<u64> =
                (0..generators).map(|number| whole.part(number, generators).seed).collect();
            prop_assert_eq!(seeds.len(), generators);
        }

        #[test]
        fn what_all_have_together_is_numbered_through(all in 0_u64..1_000, of in 1_u32..65) {
            let parts: Vec<Part> = (0..of).map(|number| Part { number, of }).collect();
            let mut places: Vec<u64> =
                parts.iter().flat_map(|part| (0..part.amount(all)).map(|own| part.place(own))).collect();
            places.sort_unstable();
            prop_assert_eq!(places, (0..all).collect::<Vec<_>>());
        }

        #[test]
        fn what_generators_found_has_the_percentiles_of_all_values_together(
            parts in proptest::collection::vec(proptest::collection::vec(1_u64..4_000_000_000, 0..100), 1..6),
        ) {
            let names: Vec<String> = (0..parts.len()).map(|n| format!("g{n}")).collect();
            let answers: Vec<LoadAnswer> = parts.iter().map(|values| answer(values, None)).collect();
            let whole = together(&names, &answers, false);
            let all = parts.concat();
            let mut expected = LatencyHistogram::new();
            all.iter().for_each(|ns| expected.record(Nanos(*ns)));
            for q in [0.0, 0.5, 0.9, 0.99, 1.0] {
                prop_assert_eq!(whole.result.latency.quantile(q), expected.quantile(q));
            }
            prop_assert_eq!(whole.result.counts.ok as usize, all.len());
            prop_assert_eq!(whole.answered as usize, all.len() + parts.len());
            prop_assert!(whole.result.samples.is_sorted_by_key(|sample| sample.start_ns));
            prop_assert_eq!(whole.result.samples.len(), all.len());
        }
    }

    #[test]
    fn generators_that_end_with_their_bytes_took_as_long_as_the_last() {
        let names = ["g1".to_owned(), "g2".to_owned()];
        let mut answers = [answer(&[1], None), answer(&[2], None)];
        for (answer, seconds) in answers.iter_mut().zip([50, 80]) {
            answer.result.duration = Nanos::from_secs(seconds);
            answer.result.counts.bytes_received = 1_000_000_000;
        }
        let whole = together(&names, &answers, true).result;
        assert_eq!(whole.duration, Nanos::from_secs(80));
        assert_eq!(whole.counts.bytes_received / whole.duration.0.div_ceil(1_000_000_000), 25_000_000);
        // For a time, and cancelled: up to the first's end it is the load of all.
        assert_eq!(together(&names, &answers, false).result.duration, Nanos::from_secs(50));
    }

    #[test]
    fn the_generator_that_limits_is_named() {
        let names = ["g1".to_owned(), "g2".to_owned()];
        let whole = together(&names, &[answer(&[1], None), answer(&[2], Some("it was late"))], false);
        assert_eq!(whole.result.generator.limited.as_deref(), Some("g2: it was late"));
    }
}
