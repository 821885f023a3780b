//! The measurement of a trial: its load open, probes around it, and what else happened on the machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use vtax_agent::message::Provisioning;
use vtax_agent::{AgentError, Client};
use vtax_lab::{Disk, Testbed};
use vtax_probe::Snapshot;
use vtax_probe::noise::{FOREIGN_SHARE, HostState, disturbance, disturbance_by_the_machine};
use vtax_probe::others::{Census, Others};
use vtax_store::record::{GeneratorRecord, InvalidReason};
use vtax_sys::cgroup::Usage;
use vtax_sys::chain;
use vtax_sys::clock::{ClockChange, WallClock, unix_ms};
use vtax_topology::hops::Hops;
use vtax_units::{Nanos, fact};

use super::agents::Agents;
use super::routers::{RouteChanges, SteadyRoutes};
use super::setting::{Failed, Setting};
use crate::barrier::Party;
use crate::cards::Cards;
use crate::failover::Qemus;
use crate::family::instrument;
use crate::instrument::{Ends, Measured, Site};
use crate::noise::{blame, has_constant_load, is_closed_loop, is_too_much, taken_from_client, with_kernel};
use crate::probes::{Answered, CpuTime, Probes, interval, role};
use crate::systems::{self, facts_of};
use crate::team::Team;
use crate::trial_request::TrialRequest;

/// Sampling where the plan can't tell how long the parts of a measurement are.
const UNKNOWN_PART: Nanos = Nanos::from_secs(8);

/// A measurement that was made.
pub(super) struct Measurement {
    pub(super) measured: Measured,
    pub(super) facts: BTreeMap<String, String>,
    /// Where packets spent their time on the path's routers, where the plan asks for it.
    pub(super) hops: Option<Hops>,
    /// By node.
    pub(super) snapshots: Vec<(String, Vec<Snapshot>)>,
    /// What each generator did, where the load came from hosts of their own.
    pub(super) generators: Vec<GeneratorRecord>,
    /// What took the system under test's CPUs, where it was too much, and what else disturbed it.
    pub(super) disturbed: Option<String>,
}

impl Measurement {
    /// Makes it on a testbed whose services listen at `targets`, at least one; with a partner, at the same time as it.
    pub(super) fn make(
        setting: &Setting<'_>,
        agents: &Agents,
        testbed: &mut Testbed,
        (targets, provisioning): (&[SocketAddr], &Provisioning),
        partner: Option<&Party>,
    ) -> Result<Self, Failed> {
        let request = setting.request;
        let broken = |e| Failed::of(InvalidReason::MeasureFailed, &e);
        let mut instrument = instrument(&request.cell.workload, &request.cell.service.kind);
        let (target, disk) = (targets[0], testbed.the_sut().node.disk().map(Disk::path));
        let ends = Ends { target, sources: &agents.sources, disk };
        let loader = if instrument.is_on_sut() { agents.sut() } else { &agents.client };
        let load = systems::load(&*instrument, request, targets, &ends);
        let team = Team::of(testbed, std::iter::once(&agents.client).chain(&agents.generators));
        team.as_ref().map_or_else(|| loader.open_load(&load), |team| team.open(&load)).map_err(broken)?;
        // Probes start when both of a pair stand, or the other's start would pass for noise.
        wait_for(partner)?;
        // Outside of what is counted: it looks at all processes of the host.
        let census = setting.others.map(|others| (others, others.look()));
        let mut probes = watch(setting, agents, testbed)?;
        wait_for(partner)?;
        let qemus = Qemus::start(&testbed.suts, &probes.sut_cpus);
        let mut site = Site {
            client: &agents.client,
            team: team.as_ref(),
            sut: agents.sut(),
            suts: &agents.suts,
            routers: agents.routers.as_ref(),
            testbed,
            probes: &mut probes,
            target,
            provisioning,
            observer: setting.observer,
            partner,
            started_unix_ms: unix_ms(),
        };
        let limit_start = site.testbed.shared_memory_usage();
        let watching = watch_hops(request, agents);
        // Faults change routes on purpose.
        let steady = agents.routers.as_ref().filter(|_| !request.measure.kind.is_failover());
        let steady = steady.map(SteadyRoutes::watch);
        let (cards, clock) = (Cards::look(site.testbed), WallClock::look());
        let measured = instrument.measure(&mut site, request).map_err(broken)?;
        let clock_change = clock.change();
        let routes = steady.map(SteadyRoutes::end).transpose().map_err(broken)?;
        let hops = watching.map(told_by_hops);
        let mut facts = testbed.path_facts();
        facts.extend(limit_facts(limit_start, testbed.shared_memory_usage()));
        facts.extend(cards.facts(testbed));
        facts.extend(merged_pages());
        if request.cell.has_balloons() {
            facts.extend(balloon_facts(testbed));
        }
        let (snapshots, generators) = (Vec::new(), Vec::new());
        let mut found = Self { measured, facts, hops, snapshots, generators, disturbed: None };
        found.note_probes(probes, (agents, testbed), request, (census, qemus, partner));
        found.judge_clock(clock_change);
        found.judge_routes(routes);
        team.as_ref().map_or_else(|| loader.close_load(), Team::close).map_err(broken)?;
        if let Some(team) = team {
            found.keep(team, request);
        }
        Ok(found)
    }

    /// Takes what probes saw, and what that says of the trial.
    fn note_probes(
        &mut self,
        mut probes: Probes,
        (agents, testbed): (&Agents, &Testbed),
        request: &TrialRequest<'_>,
        (census, qemus, partner): (Option<(&Others, Census)>, Qemus, Option<&Party>),
    ) {
        // Probes that fail cost the breakdown, not the trial.
        let answered = Answered {
            whole: self.measured.answered,
            each: &self.measured.answered_each,
            systems: request.cell.environment.count as usize,
        };
        // Both halves of a pair say the same, in turns.
        let of_partner = |ours| partner.and_then(|p| p.exchange(ours)).filter(|_| testbed.allocation.shared);
        match probes.stop(&agents.client, &agents.suts, &answered, of_partner) {
            Ok((cpu, host_end)) => {
                let used = cpu.of_all();
                let theirs = of_partner(used);
                let beyond = qemus.beyond_accounts(&testbed.suts, |number| cpu.of_tasks(number));
                let used = Nanos(used.0.saturating_add(beyond.0));
                let ours = cpu.ours(Nanos(used.0.saturating_add(theirs.unwrap_or_default().0)));
                self.judge_noise((&probes, &host_end, census), testbed, request, Some(ours));
                if testbed.the_sut().node.is_here() {
                    self.note_host(&probes, &host_end, used);
                }
                self.account(request, &cpu);
            }
            Err(error) => {
                self.facts.insert(fact::PROBES.into(), error);
                // A virtual machine that died on the way can't say what it used; what the host itself did is known.
                if let Ok(host_end) = probes.host_now() {
                    self.judge_noise((&probes, &host_end, census), testbed, request, None);
                }
            }
        }
        self.note_members(&probes.series, testbed);
        self.snapshots = probes.series;
    }

    /// Keeps what each generator did.
    fn keep(&mut self, team: Team<'_>, request: &TrialRequest<'_>) {
        let warm_up = self.measured.observations.first().and_then(|first| first.warm_up.as_ref());
        let cut = warm_up.map_or(Nanos::ZERO, |warm_up| warm_up.cut);
        let kept = team.keep(request.measure.kind.has_one_load(), cut, &mut self.measured.validity);
        self.generators = kept.generators;
        self.facts.extend(kept.facts);
    }

    /// Tells what else happened on the CPUs of the generator and on those of the system under test, of which the trial itself used
    /// `ours`. Where it isn't known what the trial used, no time counts as others'.
    fn judge_noise(
        &mut self,
        (probes, host_end, census): (&Probes, &HostState, Option<(&Others, Census)>),
        testbed: &Testbed,
        request: &TrialRequest<'_>,
        ours: Option<Nanos>,
    ) {
        self.judge_generator((probes, host_end), testbed, request);
        if !testbed.the_sut().node.is_here() {
            // What this host's CPUs did says nothing of it.
            return;
        }
        // What died or is silent left its CPUs idle, and their clock followed.
        let is_constant = ours.is_some() && has_constant_load(&request.measure.kind);
        let has_disk = testbed.suts.iter().any(|sut| sut.node.disk().is_some());
        let ours = ours.filter(|_| !testbed.path_is_on_any_cpu());
        let ours = if has_disk { with_kernel(ours, census.as_ref()) } else { ours };
        let noise = match ours {
            Some(ours) => disturbance(&probes.host_start, host_end, &probes.sut_cpus, ours),
            None => disturbance_by_the_machine(&probes.host_start, host_end, &probes.sut_cpus),
        };
        let noise = match is_constant {
            true => noise.with_frequencies(&probes.frequencies),
            false => noise.without_frequency(),
        };
        let closed = is_closed_loop(&request.measure.kind, &request.cell.workload);
        let noise = if closed { noise.of_closed_loop() } else { noise };
        if noise.reasons.is_empty() {
            return;
        }
        let mut detail = noise.reasons.join("; ");
        let told = census.filter(|_| noise.foreign > FOREIGN_SHARE);
        let busiest = told.and_then(|(others, start)| {
            let now = others.look();
            let now = if has_disk { now.without_kernel() } else { now };
            now.busiest_since(&start)
        });
        if let Some(busiest) = busiest {
            detail += &format!("; the busiest process outside of the run: {busiest}");
        }
        self.facts.insert(fact::NOISE.into(), detail.clone());
        if is_too_much(&noise, testbed.allocation.shared) {
            self.disturb(detail);
        }
    }

    /// Who limited the generator, and whether what a hypervisor took of its CPUs keeps the trial from counting.
    fn judge_generator(
        &mut self,
        (probes, host_end): (&Probes, &HostState),
        testbed: &Testbed,
        request: &TrialRequest<'_>,
    ) {
        if !testbed.client.is_here() {
            return;
        }
        let cpus = &testbed.allocation.client;
        let generator = disturbance_by_the_machine(&probes.host_start, host_end, cpus);
        let validity = std::mem::take(&mut self.measured.validity);
        self.measured.validity = blame(validity, generator.steal);
        // On CPUs of both sides it is judged as the system's.
        if testbed.allocation.shared || *cpus == probes.sut_cpus {
            return;
        }
        let taken = taken_from_client(generator, &request.measure.kind, &request.cell.workload);
        if let Some(why) = taken {
            self.disturb(why);
        }
    }

    /// What the kernel stamps by the wall clock (when a packet came, when a host took over) is wrong across a jump of it.
    fn judge_clock(&mut self, change: Option<ClockChange>) {
        let Some(change) = change else { return };
        self.facts.insert(fact::HOST_CLOCK_SET.into(), format!("{:+.3} s", change.by_seconds()));
        self.disturb(format!("the host's clock was {change}, or the host was suspended"));
    }

    /// What was measured over more than one route tells nothing of either.
    fn judge_routes(&mut self, changes: Option<RouteChanges>) {
        let Some(changes) = changes else { return };
        self.facts.insert(fact::PATH_LAB_ROUTE_CHANGES.into(), changes.count.to_string());
        if let Some(why) = changes.why() {
            self.disturb(why);
        }
    }

    /// Another reason for which the trial doesn't count, before those that there are.
    fn disturb(&mut self, why: String) {
        self.disturbed = Some(match self.disturbed.take() {
            Some(other) => format!("{why}; {other}"),
            None => why,
        });
    }

    /// What there was of the host's CPUs and memory for the systems under test, and how much of it was used: by these, which
    /// took `ours`, and by all.
    fn note_host(&mut self, probes: &Probes, host_end: &HostState, ours: Nanos) {
        let all = disturbance(&probes.host_start, host_end, &probes.sut_cpus, Nanos::ZERO);
        let wall = host_end.snapshot.at.saturating_sub(probes.host_start.snapshot.at);
        let wall = (wall.0 as f64 * probes.sut_cpus.len() as f64).max(1.0);
        let mut facts = vec![
            // Nobody's own taken off, what is others' is all.
            (fact::HOST_SUT_CPUS_BUSY, format!("{:.4}", all.foreign)),
            (fact::HOST_SUT_CPUS_USED, format!("{:.4}", ours.0 as f64 / wall)),
            // Of all time, as the two above.
            (fact::HOST_STEAL, format!("{:.4}", all.stolen.0 as f64 / (all.time.0 as f64).max(1.0))),
            (fact::HOST_SWAPPED_PAGES, all.swapped_pages.to_string()),
        ];
        // Without it nothing is known, which isn't the same as no wait.
        if probes.host_start.memory_waits.is_some() && host_end.memory_waits.is_some() {
            facts.push((fact::HOST_MEMORY_WAIT, format!("{:.4}", all.memory_wait)));
        }
        if probes.host_start.disk_waits.is_some() && host_end.disk_waits.is_some() {
            facts.push((fact::HOST_DISK_WAIT, format!("{:.4}", all.disk_wait)));
        }
        self.facts.extend(facts.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }

    /// Memory and stolen time of each system that has an observation of its own.
    fn note_members(&mut self, series: &[(String, Vec<Snapshot>)], testbed: &Testbed) {
        for observation in &mut self.measured.observations {
            let Some(member) = &observation.member else { continue };
            let own = series.iter().find(|(node, _)| node == member);
            let is_guest =
                testbed.suts.iter().any(|sut| role(sut.node.name()) == member && sut.node.kind() == "vm");
            observation.facts.extend(own.into_iter().flat_map(|(_, samples)| facts_of(samples, is_guest)));
        }
    }

    /// A search passes through overload; its CPU time per request describes no load.
    fn account(&mut self, request: &TrialRequest<'_>, cpu: &CpuTime) {
        if self.measured.answered == 0 || !request.measure.kind.has_one_load() {
            return;
        }
        for observation in &mut self.measured.observations {
            observation.cpu = match &observation.member {
                None => Some(cpu.whole.clone()),
                Some(member) => cpu.each.iter().find(|(of, _)| of == member).map(|(_, cpu)| cpu.clone()),
            };
        }
    }
}

/// Starts the probes of a measurement.
fn watch(setting: &Setting<'_>, agents: &Agents, testbed: &Testbed) -> Result<Probes, Failed> {
    let request = setting.request;
    let part = request.cell.workload.model().shortest_part(&request.measure.kind);
    let every = interval(part.unwrap_or(UNKNOWN_PART));
    Probes::start((&agents.client, &agents.suts), testbed, every, setting.others)
        .map_err(|detail| Failed::new(InvalidReason::MeasureFailed, detail))
}

/// Has the path's routers capture packets at every hop, where the plan asks for it: whether they do, or why not.
fn watch_hops<'a>(
    request: &TrialRequest<'_>,
    agents: &'a Agents,
) -> Option<(&'a Client, Result<(), AgentError>)> {
    let wanted = request.cell.path.kind.routed().is_some_and(|routed| routed.hops);
    let routers = agents.routers.as_ref().filter(|_| wanted)?;
    Some((routers, routers.watch_hops()))
}

/// What the captures found; those that fail cost what they would have told, not the trial.
fn told_by_hops((routers, begun): (&Client, Result<(), AgentError>)) -> Hops {
    let found = begun.and_then(|()| routers.hops());
    found.unwrap_or_else(|e| Hops { problem: Some(chain(&e)), ..Hops::default() })
}

/// How much of the memory that systems had together they used, and how often they met its limit between these.
fn limit_facts(start: Option<Usage>, end: Option<Usage>) -> Vec<(String, String)> {
    let Some((start, end)) = start.zip(end) else { return Vec::new() };
    let met = start.at_limit.zip(end.at_limit).map(|(start, end)| end.saturating_sub(start));
    let met = met.map(|times| (fact::SYSTEMS_MEMORY_AT_LIMIT.to_owned(), times.to_string()));
    let used = end.memory.map(|memory| (fact::SYSTEMS_MEMORY_USED.to_owned(), memory.0.to_string()));
    met.into_iter().chain(used).collect()
}

/// Memory that balloons leave the systems now: another than before, where a guest took some back.
fn balloon_facts(testbed: &Testbed) -> impl Iterator<Item = (String, String)> {
    let left = |sut: &vtax_lab::Sut| {
        let left = sut.node.vm()?.memory_left().ok()?;
        Some((fact::of_node(role(sut.node.name()), fact::BALLOON_LEFT_AT_END), left.0.to_string()))
    };
    testbed.suts.iter().filter_map(left)
}

/// Pages of the host that are one with others, where it merges equal ones (the kernel's `Documentation/admin-guide/mm/ksm.rst`).
fn merged_pages() -> Option<(String, String)> {
    let read = |name: &str| std::fs::read_to_string(format!("/sys/kernel/mm/ksm/{name}")).ok();
    let merges = read("run").is_some_and(|run| run.trim() == "1");
    let sharing = read("pages_sharing").filter(|_| merges)?;
    Some((fact::HOST_KSM_PAGES_SHARING.to_owned(), sharing.trim().to_owned()))
}

/// Waits for the partner, where there is one.
fn wait_for(partner: Option<&Party>) -> Result<(), Failed> {
    match partner.map(|p| p.exchange(Nanos::ZERO)) {
        Some(None) => Err(Failed::new(
            InvalidReason::PartnerInvalid,
            "the trial that was to be made at the same time could not be",
        )),
        Some(Some(_)) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use vtax_store::record::Validity;

    use super::*;

    /// A measurement that was disturbed by this, if anything.
    fn found(disturbed: Option<&str>) -> Measurement {
        let measured = Measured {
            observations: Vec::new(),
            validity: Validity::Valid,
            answered: 0,
            answered_each: Vec::new(),
            phases: Vec::new(),
        };
        let (facts, snapshots, generators) = (BTreeMap::new(), Vec::new(), Vec::new());
        let disturbed = disturbed.map(str::to_owned);
        Measurement { measured, facts, hops: None, snapshots, generators, disturbed }
    }

    #[test]
    fn a_clock_that_is_set_disturbs_a_trial() {
        let mut trial = found(None);
        trial.judge_clock(None);
        assert!(trial.disturbed.is_none() && trial.facts.is_empty());
        trial.judge_clock(Some(ClockChange { by_ns: -1_500_000_000 }));
        assert_eq!(trial.facts[fact::HOST_CLOCK_SET], "-1.500 s");
        let why = "the host's clock was set by -1.500 s, or the host was suspended";
        assert_eq!(trial.disturbed.as_deref(), Some(why));
        let mut trial = found(Some("others used 30 %"));
        trial.judge_clock(Some(ClockChange { by_ns: 0 }));
        assert_eq!(trial.facts[fact::HOST_CLOCK_SET], "+0.000 s");
        let why = "the host's clock was set and set back, or the host was suspended; others used 30 %";
        assert_eq!(trial.disturbed.as_deref(), Some(why));
    }
}
