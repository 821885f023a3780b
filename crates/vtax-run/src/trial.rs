//! One trial from its testbed to its record.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use vtax_agent::message::{Event, InterfaceSetup, NodeFacts, Provisioning, ServiceId, ServiceReady};
use vtax_agent::{AgentError, Client};
use vtax_lab::{Lab, LabError, Node, Slot, Testbed, TestbedSpec};
use vtax_load::sip::PhaseResult;
use vtax_plan::model::Budget;
use vtax_probe::Snapshot;
use vtax_probe::layers::CpuBreakdown;
use vtax_probe::noise::{Disturbance, disturbance, disturbance_by_the_machine};
use vtax_store::record::{InvalidReason, TrialRecord, Validity};
use vtax_store::{StoreError, TrialEvent, TrialWriter, unix_ms};
use vtax_sys::chain;
use vtax_units::Nanos;

use crate::addresses::sources;
use crate::complaints::Complaints;
use crate::failover::{Meter, Qemus, mode_of};
use crate::family::instrument;
use crate::gate;
use crate::instrument::{BOOT_WITHIN, Measured, Site};
use crate::noise::{blame, is_too_much};
use crate::observe::{Observer, RunEvent};
use crate::order::Order;
use crate::probes::{Probes, interval, role};
use crate::stop::Stop;

/// Why a trial has no result.
struct Failed {
    reason: InvalidReason,
    detail: String,
}

fn failed(reason: InvalidReason) -> impl Fn(&(dyn std::error::Error + 'static)) -> Failed {
    move |error| Failed { reason, detail: chain(error) }
}

/// What the agents said unasked, with the time since the trial's start.
type Heard = Arc<Mutex<Vec<(Nanos, String, Event)>>>;

/// One trial under way.
pub(crate) struct Trial<'a> {
    pub(crate) order: &'a Order<'a>,
    pub(crate) budget: &'a Budget,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) stop: &'a Stop,
    began: Instant,
    heard: Heard,
    record: TrialRecord,
    /// Nodes as they see themselves, and what ran in them: for provenance.
    pub(crate) nodes: BTreeMap<String, NodeFacts>,
    pub(crate) service: Option<ServiceReady>,
    pub(crate) notes: Vec<String>,
    snapshots: Vec<(String, Vec<Snapshot>)>,
    /// What took the SUT's CPUs, where it was too much.
    disturbed: Option<String>,
    /// Whom the service knows, or why that can't be.
    pub(crate) provisioning: Result<Provisioning, String>,
    /// Addresses of the generator.
    sources: Vec<IpAddr>,
    phases: Vec<PhaseResult>,
}

/// The testbed with both agents answering.
struct Stage {
    client: Client,
    sut: Client,
}

impl<'a> Trial<'a> {
    pub(crate) fn new(
        order: &'a Order<'a>,
        budget: &'a Budget,
        observer: &'a dyn Observer,
        stop: &'a Stop,
    ) -> Self {
        let record = TrialRecord {
            round: Some(order.round),
            ..TrialRecord::begin(&order.cell.id, &order.measure.name, order.repetition)
        };
        Self {
            order,
            budget,
            observer,
            stop,
            began: Instant::now(),
            heard: Heard::default(),
            record,
            nodes: BTreeMap::new(),
            service: None,
            notes: Vec::new(),
            snapshots: Vec::new(),
            disturbed: None,
            provisioning: Ok(Provisioning::default()),
            sources: Vec::new(),
            phases: Vec::new(),
        }
    }

    /// Builds, measures, takes down; what went wrong is in the record.
    pub(crate) fn make(&mut self, lab: &mut Lab) {
        let result = self.attempt(lab);
        self.judge_end(result);
    }

    fn judge_end(&mut self, result: Result<(), Failed>) {
        if let Err(Failed { reason, detail }) = result {
            self.record.validity = Validity::Invalid { reason, detail };
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
        let heard = std::mem::take(&mut *self.heard.lock().unwrap_or_else(PoisonError::into_inner));
        for (at, node, event) in heard {
            match event {
                Event::ServiceOutput { service, stream, line, .. } => {
                    files.log(&format!("{node}-{service}-{stream}"), &line)?;
                }
                Event::ServiceDied { service, status, .. } => {
                    let text = format!("{service} ended by itself: {status}");
                    files.event(&TrialEvent { at, node, kind: "service-died".into(), text })?;
                }
                Event::Progress { .. } => {}
            }
        }
        Ok(self.record)
    }

    fn phase(&self, what: &str) {
        self.observer.observe(&RunEvent::Phase { what });
    }

    fn attempt(&mut self, lab: &mut Lab) -> Result<(), Failed> {
        let mut testbed = self.build(lab, Slot::Alone)?;
        self.stop.watch(&[testbed.client.pid(), testbed.the_sut().node.pid()]);
        let result = self.on_testbed(&mut testbed, None);
        self.take_down(testbed);
        result
    }

    fn build(&mut self, lab: &mut Lab, slot: Slot) -> Result<Testbed, Failed> {
        self.phase("building the testbed");
        let cell = self.order.cell;
        let (environment, path) = (cell.environment.clone(), cell.path.clone());
        let spec = TestbedSpec::of_one(environment, path, self.budget.clone());
        lab.build_at(&spec, slot).map_err(|e| match e {
            // Of the machine, not of the path: another time it may well stand.
            LabError::PathDisturbed { .. } => failed(InvalidReason::Disturbed)(&e),
            _ => failed(InvalidReason::TestbedFailed)(&e),
        })
    }

    fn take_down(&mut self, testbed: Testbed) {
        let tearing_down = Instant::now();
        self.phase("taking the testbed down");
        let left: Vec<String> = testbed.destroy().iter().map(|e| chain(e)).collect();
        self.record.timings.teardown = tearing_down.elapsed().into();
        if !left.is_empty() {
            self.record.facts.insert("teardown".into(), left.join("; "));
        }
    }

    /// Measures on a testbed that stands; with a partner, at the same time as it.
    fn on_testbed(&mut self, testbed: &mut Testbed, partner: Option<gate::Seat>) -> Result<(), Failed> {
        self.notes.append(&mut testbed.notes);
        for node in testbed.suts.iter().map(|sut| &sut.node).chain(&testbed.between) {
            self.note_node(node);
        }
        self.note_node(&testbed.client);
        let stage = self.meet(testbed)?;
        self.record.timings.testbed = self.began.elapsed().into();
        self.phase("starting the service");
        let starting = Instant::now();
        let service = &self.order.cell.service;
        let unprovided = |detail: &String| Failed {
            reason: InvalidReason::ServiceFailed,
            detail: format!("its subscribers can't be provided: {detail}"),
        };
        let provisioning = self.provisioning.as_ref().map_err(unprovided)?;
        let ready = stage
            .sut
            .start_service(ServiceId::ONLY, service, testbed.the_sut().service_address, provisioning)
            .map_err(|e| failed(InvalidReason::ServiceFailed)(&e))?;
        self.record.timings.service = starting.elapsed().into();
        self.record.facts.insert("service.version".into(), ready.version.clone());
        self.record.facts.insert("service.startup_ns".into(), ready.startup.0.to_string());
        let target = ready.address;
        self.note_places(testbed, target);
        self.service = Some(ready);
        self.protect(&testbed.the_sut().node)?;
        self.phase("measuring");
        let measuring = Instant::now();
        let meter = Meter::start(&testbed.the_sut().node, mode_of(self.order.cell));
        let measured = self.measure(&stage, testbed, target, partner);
        self.record.protection =
            meter.zip(testbed.the_sut().node.pair()).map(|(meter, pair)| Box::new(meter.stop(pair)));
        let measured = measured?;
        self.record.timings.measure = measuring.elapsed().into();
        self.record.validity = measured.validity;
        self.record.observations = measured.observations;
        self.judge_disturbance();
        self.judge_service();
        // Both may be past saying anything; the tear-down ends them either way.
        let _ = stage.sut.stop_service(ServiceId::ONLY, service.stop_timeout);
        let _ = stage.sut.shutdown();
        let _ = stage.client.shutdown();
        Ok(())
    }

    /// Arms the pair, where the system under test is one that is to be protected.
    fn protect(&self, sut: &Node) -> Result<(), Failed> {
        let Some(pair) = sut.pair() else { return Ok(()) };
        if mode_of(self.order.cell).has_secondary() {
            self.phase("protecting the guest");
        }
        pair.arm().map(|_| ()).map_err(|e| failed(InvalidReason::TestbedFailed)(&e))
    }

    /// What there is to say about a node. Facts of the client and of the first system under test have no prefix;
    /// those of every other node begin with its name.
    fn note_node(&mut self, node: &Node) {
        let name = role(node.name());
        let prefix = if ["client", "sut"].contains(&name) { String::new() } else { format!("{name}.") };
        for (key, value) in node.facts() {
            self.record.facts.insert(format!("{prefix}{key}"), value.clone());
        }
        self.record.facts.insert(format!("{name}.limits"), node.enforced().describe());
        if node.kind() == "vm" && prefix.is_empty() {
            self.record.accelerator = node.facts().get("vm.accelerator").cloned();
        }
    }

    /// Who was where: the service's address, those of the SIP subscribers, and both nodes' CPUs.
    fn note_places(&mut self, testbed: &Testbed, target: SocketAddr) {
        let facts = &mut self.record.facts;
        facts.insert("address".into(), target.to_string());
        for (name, cpus) in
            [("sut_cpus", &testbed.allocation.sut), ("client_cpus", &testbed.allocation.client)]
        {
            facts.insert(name.into(), cpus.to_string());
        }
        if let Some((first, more)) = self.sources.split_first() {
            let text = match more.last() {
                None => first.to_string(),
                Some(last) => format!("{first} to {last}, {} addresses", more.len() + 1),
            };
            facts.insert("client_addresses".into(), text);
        }
    }

    /// Says hello to both agents and has them bring up their interfaces.
    fn meet(&mut self, testbed: &mut Testbed) -> Result<Stage, Failed> {
        // The system under test first: a guest boots while the client is spoken to.
        let sut = self.talk(&mut testbed.the_sut_mut().node)?;
        let client = self.talk(&mut testbed.client)?;
        self.greet_client(&client, &testbed.client)?;
        if testbed.the_sut().node.kind() == "vm" {
            self.phase("booting the guest");
        }
        self.greet(&sut, &testbed.the_sut().node)?;
        Ok(Stage { client, sut })
    }

    fn talk(&self, node: &mut Node) -> Result<Client, Failed> {
        let read = node.take_channel().ok_or_else(|| Failed {
            reason: InvalidReason::TestbedFailed,
            detail: format!("node {}: no stream to its agent", node.name()),
        })?;
        let write = read.try_clone().map_err(|e| failed(InvalidReason::TestbedFailed)(&e))?;
        let name = role(node.name()).to_owned();
        let (heard, began) = (Arc::clone(&self.heard), self.began);
        let listen = move |event| {
            let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
            heard.push((began.elapsed().into(), name.clone(), event));
        };
        Client::start(node.name(), read, write, Box::new(listen))
            .map_err(|e| failed(InvalidReason::TestbedFailed)(&e))
    }

    /// The client may have more addresses than one.
    fn greet_client(&mut self, client: &Client, node: &Node) -> Result<(), Failed> {
        let mut interfaces = node.interfaces().map(<[InterfaceSetup]>::to_vec);
        if let Some(count) = self.order.cell.workload.model().client_addresses() {
            self.sources = sources(interfaces.as_deref_mut(), count);
        }
        self.greet_with(client, node, interfaces)
    }

    fn greet(&mut self, client: &Client, node: &Node) -> Result<(), Failed> {
        self.greet_with(client, node, node.interfaces().map(<[InterfaceSetup]>::to_vec))
    }

    fn greet_with(
        &mut self,
        client: &Client,
        node: &Node,
        interfaces: Option<Vec<InterfaceSetup>>,
    ) -> Result<(), Failed> {
        let meet = || -> Result<NodeFacts, AgentError> {
            let facts = client.hello(BOOT_WITHIN)?;
            if let Some(interfaces) = interfaces {
                client.configure_network(interfaces)?;
            }
            Ok(facts)
        };
        let facts = meet().map_err(|e| {
            let primary = node.pair().and_then(vtax_lab::ft::FtPair::primary);
            let detail = match (node.vm(), primary) {
                (Some(vm), _) => chain(&vm.failure(chain(&e))),
                (None, Some(primary)) => chain(&primary.failure(chain(&e))),
                (None, None) => format!("{}: {}", chain(&e), node.output()),
            };
            Failed { reason: InvalidReason::TestbedFailed, detail }
        })?;
        self.nodes.insert(format!("{}/{}", self.order.cell.environment.name, role(node.name())), facts);
        Ok(())
    }

    fn measure(
        &mut self,
        stage: &Stage,
        testbed: &mut Testbed,
        target: SocketAddr,
        partner: Option<gate::Seat>,
    ) -> Result<Measured, Failed> {
        let broken = failed(InvalidReason::MeasureFailed);
        let provisioning = self.provisioning.clone().unwrap_or_default();
        let mut instrument = instrument(&self.order.cell.workload);
        let load = instrument.load(target, &self.sources, self.order);
        stage.client.open_load(&load).map_err(|e| broken(&e))?;
        // A search takes seconds; how many is found out by making it.
        let part = self.order.cell.workload.model().shortest_part(&self.order.measure.kind);
        let every = interval(part.unwrap_or(Nanos::from_secs(8)));
        // Probes start when both of a pair stand, or the other's start would pass for noise.
        meet(partner.as_ref())?;
        let mut probes = Probes::start(&stage.client, &stage.sut, testbed, every)
            .map_err(|detail| Failed { reason: InvalidReason::MeasureFailed, detail })?;
        meet(partner.as_ref())?;
        let qemus = Qemus::start(&testbed.the_sut().node, &probes.sut_cpus);
        let mut site = Site {
            client: &stage.client,
            sut: &stage.sut,
            testbed,
            probes: &mut probes,
            target,
            provisioning: &provisioning,
            observer: self.observer,
            partner: partner.as_ref(),
            started_unix_ms: unix_ms(),
        };
        let mut measured = instrument.measure(&mut site, self.order).map_err(|e| broken(&e))?;
        self.phases = std::mem::take(&mut measured.phases);
        self.record.facts.append(&mut testbed.path_facts());
        // Probes that fail cost the breakdown, not the trial.
        match probes.stop(&stage.client, &stage.sut, measured.answered) {
            Ok((cpu, host_end)) => {
                let used = cpu.as_ref().map_or(Nanos::ZERO, CpuBreakdown::total);
                let theirs = partner.and_then(|p| p.meet(used)).filter(|_| testbed.allocation.shared);
                let used = qemus.map_or(used, |qemus| qemus.used(&testbed.the_sut().node).max(used));
                let ours = Nanos(used.0.saturating_add(theirs.unwrap_or_default().0));
                let noise = disturbance(&probes.host_start, &host_end, &probes.sut_cpus, ours);
                let clients = &testbed.allocation.client;
                let generator = disturbance_by_the_machine(&probes.host_start, &host_end, clients);
                measured.validity = blame(measured.validity, generator.steal);
                let shared = testbed.allocation.shared;
                self.judge_noise(&noise.with_frequencies(&probes.frequencies), shared);
                // A search passes through overload; its CPU time per request describes no load.
                if measured.answered > 0 && self.order.measure.kind.has_one_load() {
                    measured.observations.iter_mut().for_each(|o| o.cpu.clone_from(&cpu));
                }
            }
            Err(error) => drop(self.record.facts.insert("probes".into(), error)),
        }
        self.snapshots = probes.series;
        stage.client.close_load().map_err(|e| broken(&e))?;
        Ok(measured)
    }

    /// Tells what else happened on the SUT's CPUs; where it was much, the trial doesn't count.
    fn judge_noise(&mut self, noise: &Disturbance, shared: bool) {
        if noise.reasons.is_empty() {
            return;
        }
        let detail = noise.reasons.join("; ");
        self.record.facts.insert("noise".into(), detail.clone());
        if is_too_much(noise, shared) {
            self.disturbed = Some(detail);
        }
    }

    /// What disturbed a trial explains why it never became steady, so it goes first.
    fn judge_disturbance(&mut self) {
        use InvalidReason::{Disturbed, NoSteadyState};
        let open =
            matches!(self.record.validity, Validity::Valid | Validity::Invalid { reason: NoSteadyState, .. });
        if let (true, Some(detail)) = (open, self.disturbed.take()) {
            self.record.validity = Validity::Invalid { reason: Disturbed, detail };
        }
    }

    /// A service that died in the middle makes the trial invalid, whatever was counted.
    fn judge_service(&mut self) {
        if self.order.measure.kind.is_failover() {
            // What dies of a fault is what was asked for, and said with the fault.
            return;
        }
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let died = heard.iter().find_map(|(_, _, event)| match event {
            Event::ServiceDied { service, status, .. } => {
                Some(format!("{service} ended by itself: {status}"))
            }
            _ => None,
        });
        let lines = heard.iter().filter_map(|(_, _, event)| match event {
            Event::ServiceOutput { line, .. } => Some(line.as_str()),
            _ => None,
        });
        let complaints = Complaints::among(lines);
        if let Some(fact) = complaints.fact() {
            self.record.facts.insert("service.errors".into(), fact);
        }
        let cell = &self.order.cell;
        self.notes.extend(complaints.advice(&cell.service).map(|advice| format!("{}: {advice}", cell.id)));
        if let Some(detail) = died {
            self.record.validity = Validity::Invalid { reason: InvalidReason::ServiceFailed, detail };
        }
    }
}

/// Waits for the partner, where there is one.
fn meet(partner: Option<&gate::Seat>) -> Result<(), Failed> {
    match partner.map(|p| p.meet(Nanos::ZERO)) {
        Some(None) => Err(Failed {
            reason: InvalidReason::PartnerInvalid,
            detail: "the trial that was to be made at the same time could not be".to_owned(),
        }),
        Some(Some(_)) | None => Ok(()),
    }
}

/// Makes two trials at the same time, each on a testbed of its own; what went wrong is in their records. The
/// first has the upper half of the CPUs where `upper` says so.
pub(crate) fn make_pair(pair: &mut [Trial<'_>; 2], lab: &mut Lab, upper: bool) {
    let [one, other] = pair;
    let built = [
        one.build(lab, Slot::Paired { second: false, upper }),
        other.build(lab, Slot::Paired { second: true, upper: !upper }),
    ];
    let pids =
        built.iter().flatten().flat_map(|t| [t.client.pid(), t.the_sut().node.pid()]).collect::<Vec<_>>();
    one.stop.watch(&pids);
    std::thread::scope(|scope| {
        for ((trial, built), seat) in pair.iter_mut().zip(built).zip(gate::seats()) {
            scope.spawn(move || {
                let result = built.and_then(|mut testbed| {
                    let result = trial.on_testbed(&mut testbed, Some(seat));
                    trial.take_down(testbed);
                    result
                });
                trial.judge_end(result);
            });
        }
    });
}
