//! Generators on hosts of their own: they begin each step at one moment, each in its own clock, and what they found is put together.

use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use vtax_agent::{AgentError, Client, ClockOffset};
use vtax_lab::Testbed;
use vtax_load::{LoadAnswer, LoadSpec, Progress, RequestStep, Step, together};
use vtax_store::record::{GeneratorRecord, InvalidReason, Validity, spread};
use vtax_sys::clock::unix_time;
use vtax_sys::sync::{into_inner, joined, lock};
use vtax_units::Nanos;

use crate::probes::role;
use crate::warm_up::cut_to;

/// From when they are told until they begin, beyond what is known of their clocks: for the message, and a busy host.
const LEAD: Duration = Duration::from_millis(100);
/// Share of the recorded time that they may surely begin apart: what one alone sent then is no part of the load that was asked for.
const MOST_APART: f64 = 0.02;

/// The generators of a trial, in the plan's order.
pub(crate) struct Team<'a> {
    members: Vec<Member<'a>>,
    done: Mutex<Done>,
}

struct Member<'a> {
    node: String,
    host: String,
    client: &'a Client,
}

/// What they did.
#[derive(Debug, Default)]
struct Done {
    /// Whether the load that was opened ends with its bytes.
    ends_with_bytes: bool,
    /// In the last step, with how that went along.
    last: Vec<GeneratorRecord>,
    /// The farthest that they began apart in any step, and how surely that is known, in nanoseconds.
    apart: Option<(u64, u64)>,
    /// Why what they sent isn't what was asked for.
    doubt: Option<String>,
}

/// What there is to keep of a team.
#[derive(Debug, Default)]
pub(crate) struct TeamRecords {
    pub(crate) generators: Vec<GeneratorRecord>,
    pub(crate) facts: Vec<(String, String)>,
}

impl<'a> Team<'a> {
    /// The generators of a testbed, whose agents are in its order; `None` where the load comes from this host.
    pub(crate) fn of(testbed: &Testbed, clients: impl Iterator<Item = &'a Client>) -> Option<Self> {
        let nodes = std::iter::once(&testbed.client).chain(&testbed.generators);
        let member = |((host, node), client): ((&String, &vtax_lab::Node), &'a Client)| Member {
            node: role(node.name()).to_owned(),
            host: host.clone(),
            client,
        };
        let members: Vec<Member<'a>> =
            testbed.generator_hosts.iter().zip(nodes).zip(clients).map(member).collect();
        (!members.is_empty()).then(|| Self { members, done: Mutex::default() })
    }

    /// Opens each one's part of the load.
    pub(crate) fn open(&self, load: &LoadSpec) -> Result<(), AgentError> {
        let of = self.members.len();
        lock(&self.done).ends_with_bytes = load.ends_with_bytes();
        let open = |number: usize, member: &Member<'_>| match load.part(number, of) {
            Some(part) => member.client.open_load(&part),
            None => {
                let error = format!("{of} generators can't share this load");
                Err(AgentError::Refused { node: member.node.clone(), error })
            }
        };
        self.each(open).map(drop)
    }

    /// Closes them.
    pub(crate) fn close(&self) -> Result<(), AgentError> {
        self.each(|_, member| member.client.close_load()).map(drop)
    }

    /// Has all make their parts of a step, which takes at most `within`; what they found together. Where one fails the others are
    /// ended, and the failure is the first one's. `told` hears about once a second what all have done.
    pub(crate) fn run(
        &self,
        step: &RequestStep,
        within: Duration,
        told: &mut dyn FnMut(&Progress),
    ) -> Result<LoadAnswer, AgentError> {
        let before = self.clocks()?;
        let known = before.iter().map(|clock| clock.uncertainty_ns).max().unwrap_or_default();
        let at = unix_time().0.saturating_add(Nanos::from(LEAD).0).saturating_add(known.saturating_mul(2));
        let times: Vec<Nanos> = before.iter().map(|clock| Nanos(clock.to_remote(at))).collect();
        let answers = self.step(step, &times, within + LEAD, told)?;
        // When each began is told by its clock as it is at the end, so that is when the clock has to be known.
        let after = self.clocks()?;
        self.note(&answers, &before, &after);
        let hosts: Vec<String> = self.members.iter().map(|member| member.host.clone()).collect();
        Ok(together(&hosts, &answers, lock(&self.done).ends_with_bytes))
    }

    /// Each one's clock against this one.
    fn clocks(&self) -> Result<Vec<ClockOffset>, AgentError> {
        self.each(|_, member| member.client.clock())
    }

    /// Does something with all at the same time; what came of it, in their order.
    fn each<T: Send>(
        &self,
        work: impl Fn(usize, &Member<'_>) -> Result<T, AgentError> + Sync,
    ) -> Result<Vec<T>, AgentError> {
        thread::scope(|scope| {
            let work = &work;
            let members = self.members.iter().enumerate();
            let threads: Vec<_> = members
                .map(|(number, member)| {
                    scope.spawn(move || work(number, member).map_err(|error| on_host(error, &member.host)))
                })
                .collect();
            // All of them, before the first error is told.
            let found: Vec<_> = threads.into_iter().map(joined).collect();
            found.into_iter().collect()
        })
    }

    fn step(
        &self,
        step: &RequestStep,
        times: &[Nanos],
        within: Duration,
        told: &mut dyn FnMut(&Progress),
    ) -> Result<Vec<LoadAnswer>, AgentError> {
        let of = self.members.len();
        let latest = Mutex::new(vec![Progress::default(); of]);
        let failure: Mutex<Option<AgentError>> = Mutex::default();
        let make = |number: usize, told: &mut dyn FnMut()| -> Option<LoadAnswer> {
            let member = &self.members[number];
            let (part, at) = (Step::Requests(step.part(number, of)), times.get(number).copied());
            let found = member.client.run_step_at(part, at, within, &mut |progress| {
                lock(&latest)[number] = *progress;
                told();
            });
            let error = match found {
                Ok(answer) => return Some(answer),
                Err(error) => on_host(error, &member.host),
            };
            let mut kept = lock(&failure);
            let is_first = kept.is_none();
            kept.get_or_insert(error);
            drop(kept);
            if is_first {
                self.end_others(number);
            }
            None
        };
        let answers: Vec<Option<LoadAnswer>> = thread::scope(|scope| {
            let make = &make;
            let others: Vec<_> =
                (1..of).map(|number| scope.spawn(move || make(number, &mut || ()))).collect();
            let first = make(0, &mut || told(&Progress::together(lock(&latest).iter().copied())));
            std::iter::once(first).chain(others.into_iter().map(joined)).collect()
        });
        match into_inner(failure) {
            Some(error) => Err(error),
            None => Ok(answers.into_iter().flatten().collect()),
        }
    }

    /// The step can't be what it was to be any more.
    fn end_others(&self, failed: usize) {
        for (_, member) in self.members.iter().enumerate().filter(|(number, _)| *number != failed) {
            // One that is gone as well has ended.
            let _ = member.client.shutdown();
        }
    }

    fn note(&self, answers: &[LoadAnswer], before: &[ClockOffset], after: &[ClockOffset]) {
        let mut done = lock(&self.done);
        let steps = done.last.first().map_or(0, |record| record.steps) + 1;
        let clocks = before.iter().zip(after);
        let record = |((member, answer), (before, after)): (
            (&Member<'_>, &LoadAnswer),
            (&ClockOffset, &ClockOffset),
        )| {
            GeneratorRecord {
                node: member.node.clone(),
                host: member.host.clone(),
                steps,
                clock_offset_ns: after.offset_ns,
                clock_within_ns: after.uncertainty_ns,
                clock_moved_ns: after.offset_ns.saturating_sub(before.offset_ns),
                began_unix_ns: after.to_local(answer.result.started_unix_ns),
                load: Some(vtax_load::LoadResult { samples: Vec::new(), ..answer.result.clone() }),
            }
        };
        done.last = self.members.iter().zip(answers).zip(clocks).map(record).collect();
        let Some((apart, within)) = spread(&done.last) else { return };
        done.apart = done.apart.max(Some((apart, within)));
        let recorded = answers.iter().map(|answer| answer.result.duration.0).min().unwrap_or_default();
        if done.doubt.is_none() {
            done.doubt = too_far_apart(apart, within, recorded);
        }
    }

    /// What there is to keep of it, with this cut off as warm-up; their own loads where the measurement is one step. Where they began too
    /// far apart, the trial doesn't count.
    pub(crate) fn keep(self, one_load: bool, cut: Nanos, validity: &mut Validity) -> TeamRecords {
        let Done { last, apart, doubt, .. } = into_inner(self.done);
        let is_valid = *validity == Validity::Valid;
        if let Some(detail) = doubt.filter(|_| is_valid) {
            *validity = Validity::Invalid { reason: InvalidReason::GeneratorLimited, detail };
        }
        let kept = |mut record: GeneratorRecord| {
            record.load = record.load.filter(|_| one_load).map(|mut load| {
                cut_to(&mut load, cut);
                load.intervals.clear();
                load.connections.clear();
                load
            });
            record
        };
        let hosts: Vec<&str> = self.members.iter().map(|member| member.host.as_str()).collect();
        let mut facts = vec![("generators".to_owned(), hosts.join(", "))];
        if let Some((apart, within)) = apart {
            facts.push(("generators.apart_ns".to_owned(), apart.to_string()));
            facts.push(("generators.apart_within_ns".to_owned(), within.to_string()));
        }
        TeamRecords { generators: last.into_iter().map(kept).collect(), facts }
    }
}

/// Why generators that began so far apart, known to so much, didn't make a load together that was recorded for so long; all in
/// nanoseconds.
fn too_far_apart(apart: u64, within: u64, recorded: u64) -> Option<String> {
    let most = recorded as f64 * MOST_APART;
    (apart.saturating_sub(within) as f64 > most).then(|| {
        let [apart, within, most] = [apart as f64, within as f64, most].map(|ns| ns / 1e6);
        format!(
            "the generators began {apart:.1} ms apart (known to {within:.1} ms), and may {most:.1} ms: are their hosts busy, or \
             were their clocks set meanwhile?"
        )
    })
}

/// With the host's name beside the node's.
fn on_host(error: AgentError, host: &str) -> AgentError {
    let named = |node: String| format!("{node} on {host}");
    match error {
        AgentError::Gone { node } => AgentError::Gone { node: named(node) },
        AgentError::Silent { node, request, waited } => {
            AgentError::Silent { node: named(node), request, waited }
        }
        AgentError::Refused { node, error } => AgentError::Refused { node: named(node), error },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;

    use vtax_agent::{Role, serve};
    use vtax_load::http::{HttpRequests, HttpSpec};
    use vtax_load::{ArrivalProcess, ConnectionPool, Model, Segment, merged};
    use vtax_units::{CpuSet, Rate};

    use super::*;

    /// Agents on threads of their own, and the end by which the second can be cut off.
    fn agents(count: usize, directory: &std::path::Path) -> (Vec<Client>, UnixStream) {
        let mut cut = Vec::new();
        let agent = |number: usize| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let role = Role { init: false, directory: directory.join(number.to_string()) };
            if number == 1 {
                cut.push(theirs.try_clone().unwrap());
            }
            let (read, write) = (theirs.try_clone().unwrap(), theirs);
            thread::spawn(move || serve(read.into(), write.into(), role));
            let read = ours.try_clone().unwrap();
            let name = format!("client-{}", number + 1);
            Client::start(&name, read.into(), ours.into(), Box::new(|_| {})).unwrap()
        };
        let agents = (0..count).map(agent).collect();
        (agents, cut.remove(0))
    }

    fn team(agents: &[Client]) -> Team<'_> {
        let member = |(number, client)| Member {
            node: format!("client-{}", number + 1),
            host: format!("g{}", number + 1),
            client,
        };
        Team { members: agents.iter().enumerate().map(member).collect(), done: Mutex::default() }
    }

    /// A service that takes connections and never answers.
    fn load(listener: &TcpListener) -> LoadSpec {
        let pool = ConnectionPool {
            target: listener.local_addr().unwrap(),
            connections: 8,
            timeout: Nanos::from_millis(100),
            cpus: CpuSet::default(),
        };
        LoadSpec::Http(HttpSpec { pool, requests: HttpRequests::get("/", "h") })
    }

    fn step(rate: f64, duration: Nanos) -> RequestStep {
        let segment = Segment { from: Rate(rate), to: Rate(rate), duration };
        RequestStep {
            model: Model::Open { arrivals: ArrivalProcess::Poisson, profile: vec![segment] },
            warmup: Nanos::ZERO,
            duration,
            seed: 3,
            samples: true,
            interval: Nanos::from_millis(100),
            drain: Nanos::from_secs(1),
        }
    }

    #[test]
    fn generators_make_one_load_and_each_is_kept() {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (agents, _cut) = agents(3, directory.path());
        let team = team(&agents);
        team.open(&load(&listener)).unwrap();
        let step = step(300.0, Nanos::from_millis(500));
        let mut told = Progress::default();
        let whole = team.run(&step, step.longest(), &mut |progress| told = *progress).unwrap();
        team.close().unwrap();
        assert!(whole.result.counts.intended > 50, "{:?}", whole.result.counts);
        assert!(told.failed > 0, "{told:?}");
        let mut validity = Validity::Valid;
        let TeamRecords { generators, facts } = team.keep(true, Nanos::ZERO, &mut validity);
        let own: Vec<&vtax_load::LoadResult> = generators.iter().filter_map(|g| g.load.as_ref()).collect();
        assert_eq!(own.len(), 3);
        assert_eq!(merged(&own).counts, whole.result.counts, "the parts are the whole");
        for (number, record) in (1..).zip(&generators) {
            assert_eq!((&record.node, &record.host), (&format!("client-{number}"), &format!("g{number}")));
            // They have one clock, and what is said of it holds that.
            assert!(record.clock_offset_ns.unsigned_abs() <= record.clock_within_ns + 1_000, "{record:?}");
            assert!(record.began_unix_ns > 0 && record.steps == 1);
        }
        assert_eq!(facts[0], ("generators".to_owned(), "g1, g2, g3".to_owned()));
        assert_eq!(facts[1].0, "generators.apart_ns");
    }

    #[test]
    fn where_one_is_lost_it_is_named_and_the_others_end_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (agents, cut) = agents(3, directory.path());
        let team = team(&agents);
        team.open(&load(&listener)).unwrap();
        let step = step(100.0, Nanos::from_secs(600));
        let mut first = true;
        let error = team
            .run(&step, step.longest(), &mut |_| {
                if std::mem::take(&mut first) {
                    cut.shutdown(std::net::Shutdown::Both).unwrap();
                }
            })
            .unwrap_err();
        assert_eq!(error.to_string(), "the agent of node `client-2 on g2` is gone");
        assert!(agents[0].snapshot().is_err() && agents[2].snapshot().is_err(), "they were ended");
    }

    #[test]
    fn a_load_that_cannot_be_shared_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let (agents, _cut) = agents(2, directory.path());
        let error = team(&agents).open(&LoadSpec::Network).unwrap_err().to_string();
        assert!(error.contains("2 generators can't share this load") && error.contains("on g1"), "{error}");
    }

    #[test]
    fn beginning_apart_counts_only_where_it_is_sure() {
        let second = 1_000_000_000;
        assert_eq!(too_far_apart(20_000_000, 0, second), None);
        assert_eq!(too_far_apart(50_000_000, 40_000_000, second), None, "it may be 10 ms");
        let why = too_far_apart(50_000_000, 4_000_000, second).unwrap();
        assert!(
            why.starts_with("the generators began 50.0 ms apart (known to 4.0 ms), and may 20.0 ms"),
            "{why}"
        );
        let done = Done { doubt: Some(why.clone()), ..Done::default() };
        let mut validity = Validity::Valid;
        Team { members: Vec::new(), done: Mutex::new(done) }.keep(true, Nanos::ZERO, &mut validity);
        let expected = Validity::Invalid { reason: InvalidReason::GeneratorLimited, detail: why };
        assert_eq!(validity, expected);
    }
}
