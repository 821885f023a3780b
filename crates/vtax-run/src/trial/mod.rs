//! One trial from its testbed to its record.

mod agents;
mod heard;
mod measurement;
mod memory;
mod protection;
mod routers;
mod service_end;
mod setting;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use vtax_agent::message::{NodeFacts, Provisioning, ServiceReady};
use vtax_lab::{Ender, Lab, LabError, Node, Slot, Testbed};
use vtax_load::sip::PhaseResult;
use vtax_plan::model::ServiceKind;
use vtax_probe::Snapshot;
use vtax_store::failover::{Spell, Unplanned};
use vtax_store::record::{Finding, InvalidReason, Observation, TrialRecord, Validity};
use vtax_store::{StoreError, TrialWriter};
use vtax_sys::chain;
use vtax_units::{Nanos, fact};

use crate::barrier::Party;
use crate::probes::role;
use crate::systems;
use agents::{Agents, Boot, without_server};
use heard::Heard;
use measurement::Measurement;
use protection::{Interrupted, Meters};
use service_end::while_served;

pub(crate) use setting::{Failed, Setting};

/// One trial under way.
pub(crate) struct Trial<'a> {
    pub(crate) setting: Setting<'a>,
    /// Who the service must know, or why that can't be provided.
    provisioning: Result<Provisioning, String>,
    heard: Heard,
    record: TrialRecord,
    pub(crate) learnt: Learnt,
    snapshots: Vec<(String, Vec<Snapshot>)>,
    phases: Vec<PhaseResult>,
}

/// What a trial tells about its run, for provenance and the report.
#[derive(Default)]
pub(crate) struct Learnt {
    /// Nodes as they see themselves.
    pub(crate) nodes: BTreeMap<String, NodeFacts>,
    pub(crate) service: Option<ServiceReady>,
    pub(crate) notes: Vec<String>,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(setting: Setting<'a>, provisioning: Result<Provisioning, String>) -> Self {
        let request = setting.request;
        let record = TrialRecord {
            round: Some(request.round),
            ..TrialRecord::begin(&request.cell.id, &request.measure.name, request.repetition)
        };
        Self {
            setting,
            provisioning,
            heard: Heard::new(),
            record,
            learnt: Learnt::default(),
            snapshots: Vec::new(),
            phases: Vec::new(),
        }
    }

    /// Builds, measures, takes down; what went wrong is in the record.
    pub(crate) fn make(&mut self, lab: &mut Lab) {
        let result = self.build(lab, Slot::Alone).and_then(|testbed| {
            self.setting.stop.watch(enders(&testbed));
            self.on_testbed(testbed, None)
        });
        self.judge_end(result);
    }

    pub(crate) fn judge_end(&mut self, result: Result<(), Failed>) {
        if let Err(Failed { reason, detail }) = result {
            self.record.validity = Validity::Invalid { reason, detail };
            // A testbed that never stood took its time all the same, which a resumed run counts.
            let timings = &mut self.record.timings;
            if timings.testbed == Nanos::ZERO {
                timings.testbed = self.heard.since_start().saturating_sub(timings.teardown);
            }
        }
    }

    /// Writes the trial's files; the record is what is left.
    pub(crate) fn write(self, files: &mut TrialWriter) -> Result<TrialRecord, StoreError> {
        for (node, snapshots) in &self.snapshots {
            for snapshot in snapshots {
                files.snapshot(node, snapshot)?;
            }
        }
        for phase in &self.phases {
            files.phase(phase)?;
        }
        self.heard.write(files)?;
        Ok(self.record)
    }

    pub(crate) fn build(&mut self, lab: &mut Lab, slot: Slot) -> Result<Testbed, Failed> {
        self.setting.phase("building the testbed");
        let cell = self.setting.request.cell;
        let mut spec = systems::testbed(cell, self.setting.budget);
        let request = self.setting.request;
        let given = lab.streams().map(|streams| streams.names()).unwrap_or_default();
        spec.path.kind = spec.path.kind.in_round(request.round_seed, request.round).on_hosts(&given);
        spec.lossy_links = self.setting.lossy_links;
        lab.build_at(&spec, slot).map_err(|e| match e {
            // Of the machine, not of the path: another time it may well stand.
            LabError::PathDisturbed { .. } => Failed::of(InvalidReason::Disturbed, &e),
            _ => Failed::of(InvalidReason::TestbedFailed, &e),
        })
    }

    /// Measures on a testbed that stands, with a partner at the same time as it, and takes the testbed down.
    pub(crate) fn on_testbed(&mut self, mut testbed: Testbed, partner: Option<Party>) -> Result<(), Failed> {
        // The partner stops waiting for this trial when that is over, and not only after the tear-down.
        let result = self.attempt(&mut testbed, partner);
        let tearing_down = Instant::now();
        self.setting.phase("taking the testbed down");
        let left: Vec<String> = testbed.destroy().iter().map(|e| chain(e)).collect();
        self.record.timings.teardown = tearing_down.elapsed().into();
        if !left.is_empty() {
            self.record.facts.insert(fact::TEARDOWN.into(), left.join("; "));
        }
        result
    }

    fn attempt(&mut self, testbed: &mut Testbed, partner: Option<Party>) -> Result<(), Failed> {
        self.learnt.notes.append(&mut testbed.notes);
        // Where the client is a virtual machine too, the facts are of the system under test.
        self.note_node(&testbed.client);
        for node in &testbed.generators {
            self.note_node(node);
        }
        for node in testbed.suts.iter().map(|sut| &sut.node).chain(&testbed.routers) {
            self.note_node(node);
        }
        let (nodes, facts) = (&mut self.learnt.nodes, &mut self.record.facts);
        let agents = Agents::meet(testbed, &self.setting, &self.heard, nodes, facts)?;
        if agents.routers.is_some() {
            self.setting.phase("bringing up the routers");
            let raised = agents.raise_routers(testbed)?;
            self.record.facts.extend(raised.iter().flat_map(routers::facts));
            // It is held to fewer CPUs than while they started.
            for node in &testbed.routers {
                self.note_node(node);
            }
        }
        self.record.timings.testbed = self.heard.since_start();
        let provisioning = self.provisioning.clone().map_err(|detail| {
            let detail = format!("its subscribers can't be provided: {detail}");
            Failed::new(InvalidReason::ServiceFailed, detail)
        })?;
        let disk = testbed.the_sut().node.disk().map(|disk| disk.path().to_owned());
        let provisioning = Provisioning { disk, ..provisioning };
        let started = self.start_services(&agents, testbed, &provisioning);
        let budget = self.setting.request.cell.systems.budget;
        let targets = started.map_err(|failed| memory::met(failed, testbed, budget))?;
        testbed.prove_path(&targets).map_err(|e| Failed::of(InvalidReason::TestbedFailed, &e))?;
        self.note_places(testbed, targets[0], &agents.sources);
        self.note_systems(testbed, &agents.boots);
        self.apply_shared_memory_limit(testbed)?;
        self.resize_balloons(testbed)?;
        protection::arm(&self.setting, testbed)?;
        let measured = self.measure(&agents, testbed, (&targets, &provisioning), partner);
        self.keep_console(testbed);
        let of_service = |failed| self.death_of_service().unwrap_or(failed);
        measured.map_err(|failed| memory::killed(of_service(failed), testbed, budget))?;
        self.judge_service(testbed);
        agents.leave(self.setting.request.cell);
        Ok(())
    }

    /// Starts the services, one on each system; where they listen, at least one place.
    fn start_services(
        &mut self,
        agents: &Agents,
        testbed: &Testbed,
        provisioning: &Provisioning,
    ) -> Result<Vec<SocketAddr>, Failed> {
        let cell = self.setting.request.cell;
        if matches!(cell.service.kind, ServiceKind::Disk(_)) {
            // No server: the load has the system's own disk.
            return Ok(vec![without_server(testbed)]);
        }
        self.setting.phase(if cell.is_several() { "starting the services" } else { "starting the service" });
        let starting = Instant::now();
        let all = agents.start_services(testbed, cell, provisioning, self.setting.stop);
        self.record.timings.service = starting.elapsed().into();
        let all = all?;
        for (ready, sut) in all.iter().zip(&testbed.suts) {
            let name = role(sut.node.name());
            let prefix = prefix(name);
            let facts = &mut self.record.facts;
            facts.insert(format!("{prefix}{}", fact::SERVICE_VERSION), ready.version.clone());
            facts.insert(format!("{prefix}{}", fact::SERVICE_STARTUP), ready.startup.0.to_string());
        }
        let reached = |(number, ready): (usize, &ServiceReady)| testbed.reached_at(number, ready.address);
        let targets: Vec<_> = all.iter().enumerate().map(reached).collect();
        self.learnt.service = all.into_iter().next();
        Ok(targets)
    }

    /// Holds virtual machines to the memory that they have together, where the plan limits it.
    fn apply_shared_memory_limit(&mut self, testbed: &Testbed) -> Result<(), Failed> {
        let Some(limit) = self.setting.request.cell.memory_limit(self.setting.budget) else { return Ok(()) };
        self.setting.phase("taking memory away");
        let own =
            testbed.apply_shared_memory_limit().map_err(|e| Failed::of(InvalidReason::TestbedFailed, &e))?;
        let facts = &mut self.record.facts;
        facts.insert(fact::SYSTEMS_MEMORY_LIMIT.into(), limit.0.to_string());
        facts.extend(own.map(|own| (fact::SYSTEMS_MEMORY_OF_QEMUS.to_owned(), own.0.to_string())));
        Ok(())
    }

    /// Has balloons take what virtual machines were promised beyond their part of the budget, where the plan has them do so.
    fn resize_balloons(&mut self, testbed: &Testbed) -> Result<(), Failed> {
        let (cell, budget) = (self.setting.request.cell, self.setting.budget);
        if !cell.has_balloons() {
            return Ok(());
        }
        self.setting.phase("inflating balloons");
        let left: Vec<_> = cell.environments().map(|one| cell.left_by_balloon(one, budget)).collect();
        let took =
            testbed.resize_balloons(&left).map_err(|e| Failed::of(InvalidReason::TestbedFailed, &e))?;
        for ((sut, left), took) in testbed.suts.iter().zip(left).zip(took) {
            let Some((left, took)) = left.zip(took) else { continue };
            let name = role(sut.node.name());
            self.record.facts.insert(fact::of_node(name, fact::BALLOON_LEFT), left.0.to_string());
            self.record.facts.insert(fact::of_node(name, fact::BALLOON_TIME), took.as_nanos().to_string());
        }
        Ok(())
    }

    /// What there is to say of several systems: how many, what they were promised, how long each took to boot; and of any
    /// number what that took of the CPUs.
    fn note_systems(&mut self, testbed: &Testbed, boots: &[Boot]) {
        let cell = self.setting.request.cell;
        for (sut, boot) in testbed.suts.iter().zip(boots) {
            let name = || fact::of_node(role(sut.node.name()), fact::BOOT_CPU);
            self.record.facts.extend(boot.cpu.map(|cpu| (name(), cpu.0.to_string())));
        }
        if !cell.is_several() {
            return;
        }
        let promised = cell.promised(self.setting.budget);
        let facts = &mut self.record.facts;
        // Where it isn't 0, guests' equal pages may be one.
        let merging = std::fs::read_to_string("/sys/kernel/mm/ksm/run").ok();
        facts.extend(merging.map(|run| (fact::HOST_KSM.to_owned(), run.trim().to_owned())));
        facts.insert(fact::SYSTEMS_COUNT.into(), cell.system_count().to_string());
        facts.insert(fact::SYSTEMS_PROMISED.into(), promised.words());
        facts.insert(fact::SYSTEMS_MEMORY_RATIO.into(), format!("{:.3}", promised.memory_ratio()));
        for (sut, boot) in testbed.suts.iter().zip(boots) {
            let name = role(sut.node.name());
            facts.insert(fact::of_node(name, fact::BOOT), boot.took.0.to_string());
            facts.insert(fact::of_node(name, fact::UP), boot.up.0.to_string());
            facts.insert(fact::of_node(name, fact::CPUS), sut.cpus.to_string());
        }
    }

    fn measure(
        &mut self,
        agents: &Agents,
        testbed: &mut Testbed,
        services: (&[SocketAddr], &Provisioning),
        partner: Option<Party>,
    ) -> Result<(), Failed> {
        self.setting.phase("measuring");
        let measuring = Instant::now();
        let meters = Meters::start(testbed, self.setting.request.cell);
        let is_failover = self.setting.request.measure.kind.is_failover();
        // What dies in a failover is part of it, and comes back.
        let load: Vec<Ender> = load_enders(testbed).filter(|_| !is_failover).collect();
        let made = while_served(
            &self.heard,
            move || load.iter().for_each(Ender::end),
            || Measurement::make(&self.setting, agents, testbed, services, partner.as_ref()),
        );
        let interrupted = meters.interruption(testbed, is_failover);
        let mut found = meters.stop(testbed);
        self.record.timings.measure = measuring.elapsed().into();
        self.record.protection = found.remove(role(testbed.the_sut().node.name())).map(Box::new);
        self.record.further_protection = found;
        // What went wrong because of it is no reason of its own.
        let made =
            made.map_err(|failed| interrupted.as_ref().map_or(failed, |interrupted| interrupted.why.clone()));
        let Measurement { measured, mut facts, hops, snapshots, generators, disturbed } =
            self.note_problems(made, interrupted.as_ref())?;
        self.record.generators = generators;
        self.record.facts.append(&mut facts);
        self.record.hops = hops.map(Box::new);
        (self.snapshots, self.phases) = (snapshots, measured.phases);
        self.record.observations = measured.observations;
        self.record.validity = judge_disturbance(measured.validity, disturbed);
        interrupted.map_or(Ok(()), |interrupted| Err(interrupted.why))
    }

    /// Notes what went wrong with the protection without being asked to.
    fn note_problems(
        &mut self,
        made: Result<Measurement, Failed>,
        interrupted: Option<&Interrupted>,
    ) -> Result<Measurement, Failed> {
        let record = &mut self.record;
        if let Some(Interrupted { system, why }) = interrupted {
            let of = match record.further_protection.get_mut(system) {
                Some(further) => Some(further),
                None => record.protection.as_deref_mut(),
            };
            if let Some(of) = of {
                of.problems.push(why.detail.clone());
            }
        }
        if let Some(first) = &mut record.protection {
            let unplanned = made.iter().flat_map(|made| unplanned_failures(&made.measured.observations));
            first.problems.extend(unplanned);
        }
        let cell = &self.setting.request.cell.id;
        let problems = record.protections().flat_map(|(_, of)| &of.problems);
        self.learnt.notes.extend(problems.map(|problem| format!("{cell}: {problem}")));
        made
    }

    /// What there is to say about a node. Facts of the client and of the first system under test have no prefix;
    /// those of every other node begin with its name.
    fn note_node(&mut self, node: &Node) {
        let name = role(node.name());
        let prefix = prefix(name);
        for (key, value) in node.facts() {
            self.record.facts.insert(format!("{prefix}{key}"), value.clone());
        }
        self.record.facts.insert(fact::of_node(name, fact::LIMITS), node.enforced().describe());
        // A guest that holds routers is as fast as its accelerator too.
        let counts = prefix.is_empty() || (name == "routers" && self.record.accelerator.is_none());
        if node.kind() == "vm" && counts {
            self.record.accelerator = node.facts().get(fact::VM_ACCELERATOR).cloned();
        }
    }

    /// Who was where: the service's address, those that the load comes from, and both nodes' CPUs.
    fn note_places(&mut self, testbed: &Testbed, target: SocketAddr, sources: &[IpAddr]) {
        let facts = &mut self.record.facts;
        facts.insert(fact::ADDRESS.into(), target.to_string());
        let (sut, client) = (&testbed.the_sut().node, &testbed.client);
        for (name, node, cpus) in
            [("sut", sut, &testbed.allocation.sut), ("client", client, &testbed.allocation.client)]
        {
            // CPUs of another host have numbers of their own.
            if node.is_here() {
                facts.insert(fact::cpus_of(name), cpus.to_string());
            }
        }
        // Of hosts with addresses of their own it isn't known here which they are.
        if let Some((first, more)) = sources.split_first().filter(|(first, _)| !first.is_unspecified()) {
            let text = match more.last() {
                None => first.to_string(),
                Some(last) => format!("{first} to {last}, {} addresses", more.len() + 1),
            };
            facts.insert(fact::CLIENT_ADDRESSES.into(), text);
        }
    }

    /// Keeps what a protected guest wrote to its console since its present host runs it. Where it didn't survive a fault, its kernel may
    /// say why.
    fn keep_console(&self, testbed: &Testbed) {
        let node = &testbed.the_sut().node;
        if let Some(pair) = node.pair() {
            self.heard.console(role(node.name()), &pair.console());
        }
    }

    /// That a service ended by itself, which is the reason of all that went wrong afterwards.
    fn death_of_service(&self) -> Option<Failed> {
        // What dies of a fault is what was asked for, and said with the fault.
        let counts = !self.setting.request.measure.kind.is_failover();
        self.heard.died().filter(|_| counts).map(|detail| Failed::new(InvalidReason::ServiceFailed, detail))
    }

    /// A service that died in the middle makes the trial invalid, whatever was counted.
    fn judge_service(&mut self, testbed: &Testbed) {
        let request = self.setting.request;
        if request.measure.kind.is_failover() {
            return;
        }
        let errors = self.heard.errors();
        if let Some(words) = errors.fact() {
            self.record.facts.insert(fact::SERVICE_ERRORS.into(), words);
        }
        let advice = errors.advice(&request.cell.service);
        self.learnt.notes.extend(advice.map(|advice| format!("{}: {advice}", request.cell.id)));
        if let Some(died) = self.death_of_service() {
            let Failed { reason, detail } = memory::killed(died, testbed, request.cell.systems.budget);
            self.record.validity = Validity::Invalid { reason, detail };
        }
    }
}

/// What facts of a node begin with; nothing for the client and the first system under test.
fn prefix(name: &str) -> String {
    if ["client", "sut"].contains(&name) { String::new() } else { format!("{name}.") }
}

/// What ends all nodes of a testbed.
pub(crate) fn enders(testbed: &Testbed) -> Vec<Ender> {
    let suts = testbed.suts.iter().map(|sut| &sut.node);
    load_enders(testbed).chain(suts.chain(&testbed.routers).filter_map(Node::ender)).collect()
}

/// What ends the nodes that make the load.
fn load_enders(testbed: &Testbed) -> impl Iterator<Item = Ender> {
    std::iter::once(&testbed.client).chain(&testbed.generators).filter_map(Node::ender)
}

/// What failed in a load with faults without being one of them, in words.
fn unplanned_failures(observations: &[Observation]) -> impl Iterator<Item = String> {
    let found = observations.iter().filter_map(|o| match &o.result {
        Some(Finding::Failover(found)) => Some(found),
        _ => None,
    });
    found.flat_map(|found| found.unplanned.iter().map(|failure| unplanned_failure(failure, &found.down)))
}

/// One of them, of a load in which nobody ran the guest at these times.
fn unplanned_failure(failure: &Unplanned, down: &[Spell]) -> String {
    let at = failure.at.as_secs_f64();
    let to_the_end = || down.iter().any(|spell| spell.from <= failure.at && spell.to.is_none());
    let after = match &failure.lost {
        Some(why) => format!("; the service was lost: {why}"),
        None if failure.guest && to_the_end() => "; nobody answered after that".to_owned(),
        None => String::new(),
    };
    format!("{} {at:.2} s into the load, which was no fault of the plan{after}", failure.what)
}

/// What disturbed a trial explains why it never became steady or fell behind, so it goes first.
fn judge_disturbance(validity: Validity, disturbed: Option<String>) -> Validity {
    use InvalidReason::{Disturbed, NoSteadyState, Overloaded};
    match (validity, disturbed) {
        (Validity::Valid | Validity::Invalid { reason: NoSteadyState | Overloaded, .. }, Some(detail)) => {
            Validity::Invalid { reason: Disturbed, detail }
        }
        (validity, _) => validity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_said_to_have_answered_only_where_nobody_did() {
        let failure = Unplanned {
            at: Nanos::from_millis(1_000),
            host: None,
            what: "host-a fell silent by itself".to_owned(),
            guest: true,
            dead: None,
            // The next thing broke before anybody answered.
            first_answer: None,
            lost: None,
            armed: None,
        };
        let down = |to: Option<u64>| Spell {
            from: Nanos::from_millis(990),
            to: to.map(Nanos::from_millis),
            reason: String::new(),
        };
        let words = "host-a fell silent by itself 1.00 s into the load, which was no fault of the plan";
        assert_eq!(unplanned_failure(&failure, &[down(Some(1_280))]), words);
        assert_eq!(
            unplanned_failure(&failure, &[down(None)]),
            format!("{words}; nobody answered after that")
        );
    }
}
