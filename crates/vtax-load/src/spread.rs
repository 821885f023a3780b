//! One generator, several systems: a load for each of them, all at the same time.
//!
//! Each system has a load of its own with connections and recorders of its own, so that one that hangs holds up no other,
//! and systems may be of different families. Those of HTTP are run by the same threads, one on each CPU; each of another
//! family has threads of its own. What they found is merged from their histograms and counts, never from percentiles. How
//! the client's CPUs are divided among those that have threads of their own: [`cpus_of`].

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use vtax_plan::model::MOST_SYSTEMS;
use vtax_sys::sched;
use vtax_units::{CpuSet, Nanos, Rate};

use crate::family::http::HttpSession;
use crate::{
    ArrivalProcess, ConnectionCounts, Control, Details, GeneratorUse, Interval, LoadAnswer, LoadError,
    LoadResult, LoadSpec, Model, Progress, RequestStep, Sample, Segment, Session, Step, StepResult,
};

/// How often progress and a cancellation are handed on.
const WATCH_EVERY: Duration = Duration::from_millis(20);
/// Between the seeds of two systems' arrivals (the golden ratio of 2^64): any odd number would do.
const SEED_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// Loads of requests against several systems at the same time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpreadSpec {
    /// One for each system; at least one is a share of the steps.
    pub parts: Vec<SpreadPart>,
}

/// The load of one system.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SpreadPart {
    /// The system's name; unique.
    pub member: String,
    /// Its load, of a family of requests. The CPUs that it names are replaced.
    pub load: LoadSpec,
    /// How much of a step it is.
    pub pace: PartPace,
}

/// How much of a step goes to one system.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartPace {
    /// This share of the step's rate, 0 to 1; a closed loop where the step is one. It is part of the sum.
    Share(f64),
    /// An open loop at this rate, whatever the step's is. It is no part of the sum.
    Rate(Rate),
    /// A closed loop, whatever the step is. It is no part of the sum.
    Closed,
}

/// What the load of one system found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MemberAnswer {
    /// The system's name.
    pub member: String,
    /// Whether it is part of the sum.
    pub counted: bool,
    /// What the generator recorded of it, without samples. Its CPU time is that of the threads for this system.
    pub result: LoadResult,
    /// Successful answers since the step's start, warm-up included.
    pub answered: u64,
}

impl SpreadSpec {
    /// Checks that the parts can be run at the same time.
    ///
    /// # Errors
    /// [`LoadError::Spec`] naming what makes no sense.
    pub fn check(&self) -> Result<(), LoadError> {
        check_parts(&self.parts)?;
        let refuse = |reason: String| Err(LoadError::Spec { field: "parts", reason });
        let share = |part: &SpreadPart| match part.pace {
            PartPace::Share(share) => Some(share),
            PartPace::Rate(_) | PartPace::Closed => None,
        };
        let mut shares = self.parts.iter().filter_map(share).peekable();
        if shares.peek().is_none() {
            return refuse("none is a share of the step".to_owned());
        }
        match shares.find(|share| !(*share > 0.0 && *share <= 1.0)) {
            Some(share) => refuse(format!("a share of {share} is not above 0 and at most 1")),
            None => Ok(()),
        }
    }
}

/// Checks that these can be run at the same time, whatever their paces are.
pub(crate) fn check_parts(parts: &[SpreadPart]) -> Result<(), LoadError> {
    let refuse = |reason: String| Err(LoadError::Spec { field: "parts", reason });
    let most = MOST_SYSTEMS as usize;
    if parts.is_empty() || parts.len() > most {
        return refuse(format!("{} is not between 1 and {most}", parts.len()));
    }
    let names: BTreeSet<&str> = parts.iter().map(|part| part.member.as_str()).collect();
    if names.len() < parts.len() {
        return refuse("two parts have the same name".to_owned());
    }
    match parts.iter().find(|part| !part.load.is_of_requests()) {
        Some(part) => refuse(format!("the load of {} is not of requests", part.member)),
        None => Ok(()),
    }
}

/// Loads against several systems that are open.
pub struct SpreadSession {
    parts: Vec<OpenPart>,
}

struct OpenPart {
    member: String,
    pace: PartPace,
    /// As [`LoadSpec::ends_with_bytes`].
    ends_with_bytes: bool,
    load: OpenLoad,
}

/// A part's load: of HTTP those of all parts can be run together, others each by itself.
enum OpenLoad {
    Http(Box<HttpSession>),
    Other(Box<dyn Session>),
}

/// A part of a step that is to be run.
struct Turn<'t> {
    part: &'t mut OpenPart,
    step: &'t RequestStep,
    control: &'t Control,
}

/// What a part found, with its samples.
pub(crate) type Found = (MemberAnswer, Vec<Sample>);

impl SpreadSession {
    /// Opens the loads, one after the other.
    ///
    /// # Errors
    /// The specification makes no sense, or a load can't be opened.
    pub fn open(spec: &SpreadSpec) -> Result<Self, LoadError> {
        spec.check()?;
        Self::of(&spec.parts)
    }

    /// Opens loads that were checked.
    pub(crate) fn of(specs: &[SpreadPart]) -> Result<Self, LoadError> {
        let allowed = sched::allowed_cpus().map_err(|source| LoadError::Worker { worker: 0, source })?;
        // All of HTTP together are one of those that have threads of their own.
        let first_http = specs.iter().position(|part| matches!(part.load, LoadSpec::Http(_)));
        let own_threads =
            |number: &usize| !matches!(specs[*number].load, LoadSpec::Http(_)) || first_http == Some(*number);
        let groups = (0..specs.len()).filter(own_threads).count();
        let mut parts = Vec::with_capacity(specs.len());
        for (number, part) in specs.iter().enumerate() {
            let leader = first_http.filter(|_| matches!(part.load, LoadSpec::Http(_))).unwrap_or(number);
            let group = (0..leader).filter(own_threads).count();
            let mut load = part.load.clone();
            let ends_with_bytes = load.ends_with_bytes();
            load.bind(cpus_of(&allowed, group, groups));
            let load = match &load {
                LoadSpec::Http(http) => OpenLoad::Http(Box::new(HttpSession::open(http)?)),
                other => OpenLoad::Other(other.open()?),
            };
            parts.push(OpenPart { member: part.member.clone(), pace: part.pace, ends_with_bytes, load });
        }
        Ok(Self { parts })
    }

    /// Runs one step against all systems at once; the sum of those that share it, and each system's own.
    ///
    /// # Errors
    /// The step makes no sense or a system's load can't be run; then the others' are cancelled.
    pub fn run_step(&mut self, step: &RequestStep, control: &Control) -> Result<LoadAnswer, LoadError> {
        let ends_with_bytes = self.parts.iter().any(|part| part.is_counted() && part.ends_with_bytes);
        let mut answer = sum(self.run_parts(step, control)?, ends_with_bytes);
        let each = self.parts.iter().zip(&answer.members).filter(|(_, member)| member.counted);
        answer.result.generator.workers =
            workers_of(each.map(|(part, member)| (part.load.shares_as(), member.result.generator.workers)));
        Ok(answer)
    }

    /// Runs one step against all systems at once; what each found, in their order.
    pub(crate) fn run_parts(
        &mut self,
        step: &RequestStep,
        control: &Control,
    ) -> Result<Vec<Found>, LoadError> {
        let places = places(&self.parts);
        let parts = self.parts.iter().zip(places).enumerate();
        let steps: Vec<RequestStep> =
            parts.map(|(number, (part, place))| part.step(step, number, place)).collect();
        let controls: Vec<Control> = self.parts.iter().map(|_| Control::new()).collect();
        let counted: Vec<&Control> = self
            .parts
            .iter()
            .zip(&controls)
            .filter(|(part, _)| part.is_counted())
            .map(|(_, own)| own)
            .collect();
        let failed = AtomicBool::new(false);
        let mut groups: Vec<Vec<(usize, Turn<'_>)>> = Vec::new();
        let turns = self.parts.iter_mut().zip(&steps).zip(&controls);
        for (number, ((part, step), control)) in turns.enumerate() {
            let own = part.load.shares_as();
            let shares = |other: &OpenLoad| own.is_some() && other.shares_as() == own;
            let with = groups.iter_mut().find(|group| shares(&group[0].1.part.load));
            let turn = (number, Turn { part, step, control });
            match with {
                Some(group) => group.push(turn),
                None => groups.push(vec![turn]),
            }
        }
        let found = thread::scope(|scope| {
            let run = |group| {
                let failed = &failed;
                scope.spawn(move || run_group(group).inspect_err(|_| failed.store(true, Relaxed)))
            };
            let threads: Vec<_> = groups.into_iter().map(run).collect();
            let mut handed_on = Progress::default();
            while !threads.iter().all(thread::ScopedJoinHandle::is_finished) {
                hand_on(&counted, control, &mut handed_on);
                if control.is_cancelled() || failed.load(Relaxed) {
                    controls.iter().for_each(Control::cancel);
                }
                thread::sleep(WATCH_EVERY);
            }
            hand_on(&counted, control, &mut handed_on);
            // All of them, before the first error is told.
            let joined: Vec<_> = threads.into_iter().map(thread::ScopedJoinHandle::join).collect();
            let each = joined.into_iter().enumerate();
            each.map(|(group, found)| {
                found.map_err(|payload| LoadError::panicked(group, &*payload)).and_then(|found| found)
            })
            .collect::<Result<Vec<_>, LoadError>>()
        })?;
        let mut found: Vec<(usize, Found)> = found.into_iter().flatten().collect();
        found.sort_by_key(|(number, _)| *number);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }
}

/// Runs parts that share threads, or one by itself.
fn run_group(group: Vec<(usize, Turn<'_>)>) -> Result<Vec<(usize, Found)>, LoadError> {
    let http: Vec<&HttpSession> = group.iter().filter_map(|(_, turn)| turn.part.load.http()).collect();
    if http.len() == group.len() {
        let steps: Vec<&RequestStep> = group.iter().map(|(_, turn)| turn.step).collect();
        let controls: Vec<&Control> = group.iter().map(|(_, turn)| turn.control).collect();
        let results = HttpSession::run_together(&http, &steps, &controls)?;
        let each = group.iter().zip(results);
        return Ok(each.map(|((number, turn), result)| (*number, turn.found(result))).collect());
    }
    let each = group.into_iter().map(|(number, turn)| {
        let bytes = turn.part.load.run(turn.step, turn.control)?;
        let Some(LoadAnswer { result, .. }) = LoadAnswer::from_bytes(&bytes) else {
            let reason = format!("the load of {} found something else than requests", turn.part.member);
            return Err(LoadError::Spec { field: "parts", reason });
        };
        Ok((number, turn.found(result)))
    });
    each.collect()
}

impl OpenLoad {
    const fn http(&self) -> Option<&HttpSession> {
        match self {
            Self::Http(session) => Some(session),
            Self::Other(_) => None,
        }
    }

    /// What loads that share threads have in common, their version of HTTP; `None`: it has threads of its own.
    fn shares_as(&self) -> Option<bool> {
        self.http().map(HttpSession::is_http2)
    }

    fn run(&mut self, step: &RequestStep, control: &Control) -> Result<Vec<u8>, LoadError> {
        let step = Step::Requests(step.clone());
        match self {
            Self::Http(session) => session.run(&step, control),
            Self::Other(session) => session.run(&step, control),
        }
    }
}

impl Turn<'_> {
    /// What its system's load found.
    fn found(&self, mut result: LoadResult) -> Found {
        let samples = std::mem::take(&mut result.samples);
        let answered = self.control.progress().ok;
        let (member, counted) = (self.part.member.clone(), self.part.is_counted());
        (MemberAnswer { member, counted, result, answered }, samples)
    }
}

impl Session for SpreadSession {
    fn run(&mut self, step: &Step, control: &Control) -> Result<Vec<u8>, LoadError> {
        let Step::Requests(step) = step else {
            let reason = "loads against several systems run requests".to_owned();
            return Err(LoadError::Spec { field: "step", reason });
        };
        self.run_step(step, control)?.to_bytes()
    }
}

impl OpenPart {
    const fn is_counted(&self) -> bool {
        matches!(self.pace, PartPace::Share(_))
    }

    /// Its own part of a step. Arrivals of constant gaps begin `place` of a gap later, 0 to 1.
    fn step(&self, step: &RequestStep, number: usize, place: f64) -> RequestStep {
        let model = match (self.pace, &step.model) {
            (PartPace::Closed, _) | (PartPace::Share(_), Model::Closed) => Model::Closed,
            (PartPace::Share(share), Model::Open { arrivals, profile }) => {
                let part = |rate: Rate| Rate(rate.0 * share);
                let segment = |s: &Segment| Segment { from: part(s.from), to: part(s.to), ..*s };
                let own: Vec<Segment> = profile.iter().map(segment).collect();
                let later = later(*arrivals, &own, place);
                Model::Open { arrivals: *arrivals, profile: later.into_iter().chain(own).collect() }
            }
            (PartPace::Rate(rate), _) => Model::Open {
                arrivals: ArrivalProcess::Poisson,
                profile: vec![Segment {
                    from: rate,
                    to: rate,
                    duration: Nanos(step.warmup.0.saturating_add(step.duration.0)),
                }],
            },
        };
        let seed = step.seed.wrapping_add((number as u64).wrapping_mul(SEED_STEP));
        RequestStep { model, seed, samples: step.samples && self.is_counted(), ..step.clone() }
    }
}

/// Where each load's grid of constant gaps is in those of all that share a step: theirs are as far from each other as they can be, so
/// that together they are one where all have the same rate. Were they in step, what all systems have in common would get bursts.
fn places(parts: &[OpenPart]) -> Vec<f64> {
    let all = parts.iter().filter(|part| part.is_counted()).count().max(1) as f64;
    let mut before = 0.0;
    let place = |part: &OpenPart| {
        let own = before / all;
        before += f64::from(u8::from(part.is_counted()));
        own
    };
    parts.iter().map(place).collect()
}

/// The time without a start that brings a grid of constant gaps to its place. A load that begins with a ramp has no gap yet.
fn later(arrivals: ArrivalProcess, profile: &[Segment], place: f64) -> Option<Segment> {
    let rate = profile.first().map_or(0.0, |segment| segment.from.0);
    (arrivals == ArrivalProcess::Constant && rate > 0.0 && place > 0.0).then(|| Segment {
        from: Rate(0.0),
        to: Rate(0.0),
        duration: Nanos::from_secs_f64(place / rate),
    })
}

/// CPUs of the load with this number among so many. Where there are CPUs enough, each load has some of its own, one
/// worker on each; otherwise loads take turns, with one worker each.
fn cpus_of(allowed: &CpuSet, number: usize, count: usize) -> CpuSet {
    let all: Vec<usize> = allowed.iter().collect();
    match all.len() {
        0 => CpuSet::default(),
        cpus if cpus >= count => CpuSet::of(all.into_iter().skip(number).step_by(count)),
        cpus => CpuSet::of([all[number % cpus]]),
    }
}

/// Adds what the loads did since the last time to what the whole has done.
fn hand_on(parts: &[&Control], to: &Control, handed_on: &mut Progress) {
    let sum = Progress::together(parts.iter().map(|part| part.progress()));
    to.add(&Progress { elapsed: sum.elapsed, ..sum.since(handed_on) });
    *handed_on = sum;
}

/// The whole of what the loads found: the sum of those that share the step, with each one's own. `ends_with_bytes`: whether any
/// of these ends with its bytes.
fn sum(found: Vec<Found>, ends_with_bytes: bool) -> LoadAnswer {
    let (mut members, samples): (Vec<MemberAnswer>, Vec<Vec<Sample>>) = found.into_iter().unzip();
    let counted: Vec<&LoadResult> =
        members.iter().filter(|member| member.counted).map(|member| &member.result).collect();
    let mut result = merged(&counted);
    if ends_with_bytes {
        result.duration = longest(&counted);
    }
    // Also where it is the load of a system beside them: what was to disturb them then didn't.
    result.generator.limited = members.iter().find_map(|member| {
        let why = member.result.generator.limited.as_ref()?;
        Some(format!("{}: {why}", member.member))
    });
    result.samples = samples.into_iter().flatten().collect();
    result.samples.sort_unstable_by_key(|sample| sample.start_ns);
    let answered = members.iter().filter(|member| member.counted).map(|member| member.answered).sum();
    // It goes to the controller for the whole alone.
    members.iter_mut().for_each(|member| member.result.answered_in_time = None);
    // What stays in this process is in the details by now.
    for found in std::iter::once(&mut result).chain(members.iter_mut().map(|member| &mut member.result)) {
        found.counts.replies_in_time = 0;
        found.intervals.iter_mut().for_each(|interval| interval.counts.replies_in_time = 0);
    }
    LoadAnswer { result, answered, members }
}

/// Workers of loads with what each shares its threads by, and how many it has: a thread that several share is one.
fn workers_of(loads: impl Iterator<Item = (Option<bool>, u32)>) -> u32 {
    let mut groups: Vec<(Option<bool>, u32)> = Vec::new();
    for (own, workers) in loads {
        match groups.iter_mut().find(|(shared, _)| own.is_some() && *shared == own) {
            Some((_, most)) => *most = workers.max(*most),
            None => groups.push((own, workers)),
        }
    }
    groups.iter().map(|(_, workers)| workers).sum()
}

/// How long it took until the last of loads that end with their bytes had moved its own.
pub(crate) fn longest(parts: &[&LoadResult]) -> Nanos {
    parts.iter().map(|part| part.duration).max().unwrap_or_default()
}

/// The sum of results of the same time: counts added, histograms merged, interval by interval. Without samples.
///
/// Loads for a time are all recorded for that time. Where they were cancelled, each saw it some milliseconds after the other, and
/// what is surely of all of them is the shortest. Loads that end with their bytes end apart, and took as long as the longest:
/// who has such sets the duration.
#[must_use]
pub fn merged(parts: &[&LoadResult]) -> LoadResult {
    let mut whole = LoadResult {
        duration: parts.iter().map(|part| part.duration).min().unwrap_or_default(),
        started_unix_ns: parts.iter().map(|part| part.started_unix_ns).min().unwrap_or_default(),
        timeout: parts.iter().map(|part| part.timeout).max().unwrap_or_default(),
        // What one part doesn't tell isn't known of the whole.
        answered_in_time: parts
            .iter()
            .map(|part| part.answered_in_time)
            .reduce(|sum, more| sum.zip(more).map(|(sum, more)| sum + more))
            .flatten(),
        ..LoadResult::default()
    };
    for part in parts {
        whole.counts.add(&part.counts);
        whole.latency.add(&part.latency);
        whole.lateness.add(&part.lateness);
        add_intervals(&mut whole.intervals, &part.intervals);
        add_connections(&mut whole.connections, &part.connections);
        add_use(&mut whole.generator, &part.generator);
        add_details(&mut whole.details, part.details.as_ref());
    }
    whole
}

fn add_intervals(whole: &mut Vec<Interval>, part: &[Interval]) {
    for (i, more) in part.iter().enumerate() {
        match whole.get_mut(i) {
            Some(own) => {
                own.counts.add(&more.counts);
                own.latency.add(&more.latency);
                // What one part doesn't tell isn't known of the whole.
                own.begun = own.begun.take().zip(more.begun.as_deref()).map(|(mut sum, more)| {
                    sum.add(more);
                    sum
                });
            }
            None => whole.push(more.clone()),
        }
    }
}

fn add_connections(whole: &mut Vec<ConnectionCounts>, part: &[ConnectionCounts]) {
    for (i, more) in part.iter().enumerate() {
        match whole.get_mut(i) {
            Some(own) => {
                own.open += more.open;
                own.broken += more.broken;
            }
            None => whole.push(*more),
        }
    }
}

fn add_use(whole: &mut GeneratorUse, part: &GeneratorUse) {
    whole.workers += part.workers;
    whole.cpu_user.0 += part.cpu_user.0;
    whole.cpu_system.0 += part.cpu_system.0;
    whole.busiest = whole.busiest.max(part.busiest);
    if whole.limited.is_none() {
        whole.limited.clone_from(&part.limited);
    }
}

/// Transfers of FTP and requests of HTTP add up; what users of desktops saw doesn't.
fn add_details(whole: &mut Option<Details>, part: Option<&Details>) {
    let Some(part) = part else { return };
    if let Some(more) = &part.ftp {
        let own = whole.get_or_insert_default();
        own.ftp.get_or_insert_default().add((**more).clone());
    }
    if let Some(more) = &part.http {
        let own = whole.get_or_insert_default();
        own.http.get_or_insert_default().add((**more).clone());
    }
    if let Some(more) = &part.script {
        let own = whole.get_or_insert_default();
        own.script.get_or_insert_default().add((**more).clone());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::http::{HttpRequests, HttpSpec};
    use crate::{ConnectionPool, Counts, StartTimes};

    fn part(member: &str, pace: PartPace) -> SpreadPart {
        let pool = ConnectionPool {
            target: ([127, 0, 0, 1], 1).into(),
            connections: 2,
            timeout: Nanos::from_millis(200),
            cpus: CpuSet::default(),
        };
        let requests = HttpRequests::get("/", "h");
        let load = LoadSpec::Http(HttpSpec { pool, requests });
        SpreadPart { member: member.to_owned(), load, pace }
    }

    fn result(latencies: &[u64]) -> LoadResult {
        let mut load = merged(&[]);
        load.duration = Nanos::from_secs(1);
        for ns in latencies {
            load.latency.record(Nanos(*ns));
        }
        let n = latencies.len() as u64;
        load.counts = Counts { intended: n, sent: n, ok: n, ..Counts::default() };
        let interval = Interval {
            start: Nanos::ZERO,
            counts: load.counts.clone(),
            latency: load.latency.clone(),
            begun: None,
        };
        load.intervals = vec![interval];
        load
    }

    proptest! {
        #[test]
        fn the_whole_has_the_percentiles_of_all_values_together(
            parts in proptest::collection::vec(
                proptest::collection::vec(1_u64..10_000_000_000, 0..200), 1..7,
            ),
        ) {
            let results: Vec<LoadResult> = parts.iter().map(|values| result(values)).collect();
            let whole = merged(&results.iter().collect::<Vec<_>>());
            let together = result(&parts.concat());
            prop_assert_eq!(&whole.counts, &together.counts);
            prop_assert_eq!(&whole.intervals[0].counts, &together.counts);
            for q in [0.0, 0.01, 0.1, 0.5, 0.9, 0.95, 0.99, 0.999, 1.0] {
                prop_assert_eq!(whole.latency.quantile(q), together.latency.quantile(q));
                prop_assert_eq!(whole.intervals[0].latency.quantile(q), together.latency.quantile(q));
            }
        }

        #[test]
        fn every_load_has_a_cpu_and_none_is_idle(cpus in 1_usize..9, count in 1_usize..9) {
            let allowed = CpuSet::of(10..10 + cpus);
            let sets: Vec<CpuSet> = (0..count).map(|number| cpus_of(&allowed, number, count)).collect();
            prop_assert!(sets.iter().all(|set| !set.is_empty()));
            for cpu in allowed.iter() {
                prop_assert!(sets.iter().any(|set| set.contains(cpu)) || cpus < count);
            }
            let workers: usize = sets.iter().map(CpuSet::len).sum();
            prop_assert_eq!(workers, cpus.max(count));
        }
    }

    #[test]
    fn a_whole_that_ends_with_its_bytes_takes_as_long_as_its_last_part() {
        let found = |member: &str, counted: bool, seconds: u64| -> Found {
            let result = LoadResult { duration: Nanos::from_secs(seconds), ..result(&[1, 2]) };
            (MemberAnswer { member: member.to_owned(), counted, result, answered: 2 }, Vec::new())
        };
        let all = || vec![found("sut", true, 50), found("sut-2", true, 80), found("disturbs", false, 300)];
        assert_eq!(sum(all(), true).result.duration, Nanos::from_secs(80));
        assert_eq!(sum(all(), false).result.duration, Nanos::from_secs(50), "what was cancelled");
    }

    /// Six systems under one load had six times the workers that there were.
    #[test]
    fn threads_that_systems_share_are_counted_once() {
        let (http1, http2, own) = (Some(false), Some(true), None);
        let workers = |loads: &[(Option<bool>, u32)]| workers_of(loads.iter().copied());
        assert_eq!(workers(&[(http1, 4), (http1, 4), (http1, 2)]), 4);
        assert_eq!(workers(&[(own, 2), (own, 2)]), 4);
        assert_eq!(workers(&[(http1, 2), (own, 1), (http2, 3), (http1, 2), (own, 1)]), 7);
        assert_eq!(workers(&[]), 0);
    }

    #[test]
    fn answers_in_time_are_those_of_all_parts_where_all_tell_them() {
        let of = |answered_in_time| LoadResult { answered_in_time, ..result(&[1]) };
        let whole = |parts: &[LoadResult]| merged(&parts.iter().collect::<Vec<_>>()).answered_in_time;
        assert_eq!(whole(&[of(Some(3)), of(Some(4))]), Some(7));
        assert_eq!((whole(&[of(Some(3)), of(None)]), whole(&[])), (None, None));
    }

    #[test]
    fn shares_of_a_step_add_up_to_it() {
        let step = RequestStep {
            model: Model::Open {
                arrivals: ArrivalProcess::Poisson,
                profile: vec![Segment { from: Rate(90.0), to: Rate(90.0), duration: Nanos::from_secs(2) }],
            },
            warmup: Nanos::from_secs(1),
            duration: Nanos::from_secs(1),
            seed: 7,
            samples: true,
            interval: Nanos::from_secs(1),
            drain: Nanos::ZERO,
        };
        let session = SpreadSession::open(&SpreadSpec {
            parts: vec![
                part("sut", PartPace::Share(1.0 / 3.0)),
                part("sut-2", PartPace::Share(2.0 / 3.0)),
                part("sut-3", PartPace::Rate(Rate(5.0))),
            ],
        })
        .unwrap();
        let rate = |step: &RequestStep| match &step.model {
            Model::Open { profile, .. } => profile[0].from.0,
            Model::Closed => f64::NAN,
        };
        let steps: Vec<RequestStep> =
            session.parts.iter().enumerate().map(|(i, part)| part.step(&step, i, 0.0)).collect();
        assert!((rate(&steps[0]) - 30.0).abs() < 1e-9 && (rate(&steps[1]) - 60.0).abs() < 1e-9);
        assert!((rate(&steps[2]) - 5.0).abs() < 1e-9);
        assert_eq!(steps.iter().map(|s| s.samples).collect::<Vec<_>>(), [true, true, false]);
        assert_ne!(steps[0].seed, steps[1].seed);
    }

    /// All systems got a request in the same nanosecond, and their host as many at once as there were systems.
    #[test]
    fn constant_arrivals_of_several_systems_are_one_constant_process() {
        let profile = vec![Segment { from: Rate(90.0), to: Rate(90.0), duration: Nanos::from_secs(2) }];
        let step = RequestStep {
            model: Model::Open { arrivals: ArrivalProcess::Constant, profile },
            warmup: Nanos::from_secs(1),
            duration: Nanos::from_secs(1),
            seed: 7,
            samples: false,
            interval: Nanos::from_secs(1),
            drain: Nanos::ZERO,
        };
        let third = PartPace::Share(1.0 / 3.0);
        let parts = vec![
            part("sut", third),
            part("sut-2", third),
            part("beside", PartPace::Closed),
            part("sut-3", third),
        ];
        let session = SpreadSession::open(&SpreadSpec { parts }).unwrap();
        let mut starts: Vec<f64> = Vec::new();
        for (number, (part, place)) in session.parts.iter().zip(places(&session.parts)).enumerate() {
            let Model::Open { arrivals, profile } = part.step(&step, number, place).model else { continue };
            for worker in 0..2 {
                let own = StartTimes::new(arrivals, &profile, 7, worker, 2).map(Nanos::as_secs_f64);
                starts.extend(own.take_while(|start| *start < 2.0 - 1e-6));
            }
        }
        starts.sort_by(f64::total_cmp);
        assert_eq!(starts.len(), 180);
        for (i, start) in starts.iter().enumerate() {
            assert!((start - i as f64 / 90.0).abs() < 1e-7, "{i}: {start}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let refused = |parts: Vec<SpreadPart>| SpreadSpec { parts }.check().unwrap_err().to_string();
        assert!(refused(Vec::new()).contains("0 is not between 1 and"));
        let twice = vec![part("a", PartPace::Share(0.5)), part("a", PartPace::Share(0.5))];
        assert!(refused(twice).contains("same name"));
        assert!(refused(vec![part("a", PartPace::Closed)]).contains("none is a share"));
        assert!(refused(vec![part("a", PartPace::Share(f64::NAN))]).contains("a share of NaN"));
        let network = SpreadPart { load: LoadSpec::Network, ..part("a", PartPace::Share(1.0)) };
        assert!(refused(vec![network]).contains("is not of requests"));
    }
}
