//! One trial from its testbed to its record.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use vtax_agent::message::{Event, InterfaceSetup, NodeFacts, Provisioning, ServiceReady};
use vtax_agent::{AgentError, Client};
use vtax_lab::{Lab, Node, Seat, Testbed, TestbedSpec};
use vtax_load::sip::PhaseResult;
use vtax_plan::model::{Budget, MeasureKind, Workload};
use vtax_probe::delta::Interval;
use vtax_probe::layers::{CpuBreakdown, Hosting, break_down};
use vtax_probe::noise::{Disturbance, HostProbe, HostState, disturbance};
use vtax_probe::{FrequencyWatch, Probe, Sampler, Scope, Snapshot};
use vtax_store::record::{InvalidReason, Outcome, Timings, TrialRecord, Validity};
use vtax_store::{StoreError, TrialEvent, TrialWriter, unix_ms};
use vtax_sys::chain;
use vtax_units::{CpuSet, Nanos};

use crate::burst::interval;
use crate::gate;
use crate::ims::{Live, Report, sources};
use crate::measure::{Measured, Site};
use crate::observe::{Observer, RunEvent};
use crate::runner::Order;
use crate::stop::Stop;

/// A guest under emulation on a busy host has been seen to take 20 s to its first answer.
const BOOT_WITHIN: Duration = Duration::from_secs(90);

/// Share of the SUT's CPUs that others may take before a trial no longer counts: as much as the
/// usual margin of a verdict, which a larger one could turn. Less is only told.
const DISTURBED_SHARE: f64 = 0.05;
/// Drop of the clock between a trial's first and last third beyond which it no longer counts: what was
/// measured before and after are two machines.
const DISTURBED_CLOCK: f64 = 0.10;
/// CPU time of others below which nothing is said to be disturbed: the kernel counts in ticks of
/// 10 ms, and a few of them are a large share of a short trial.
const DISTURBED_TIME: Nanos = Nanos::from_millis(50);

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
    live: Live,
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
            index: 0,
            cell: order.cell.id.clone(),
            measure: order.measure.name.clone(),
            repetition: order.repetition,
            round: Some(order.round),
            partner: None,
            warm_up: None,
            started_unix_ms: unix_ms(),
            validity: Validity::Valid,
            outcome: None,
            timings: Timings::default(),
            cpu: None,
            accelerator: None,
            facts: BTreeMap::new(),
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
            live: Live::default(),
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
                Event::ServiceOutput { service, stream, line } => {
                    files.log(&format!("{node}-{service}-{stream}"), &line)?;
                }
                Event::ServiceDied { service, status } => {
                    let text = format!("{service} ended by itself: {status}");
                    files.event(&TrialEvent { at, node, kind: "service-died".into(), text })?;
                }
                Event::LoadProgress { .. } | Event::SipProgress { .. } => {}
            }
        }
        Ok(self.record)
    }

    fn phase(&self, what: &str) {
        self.observer.observe(&RunEvent::Phase { what });
    }

    fn attempt(&mut self, lab: &mut Lab) -> Result<(), Failed> {
        let mut testbed = self.build(lab, Seat::Alone)?;
        self.stop.watch(&[testbed.client.pid(), testbed.sut.pid()]);
        let result = self.on_testbed(&mut testbed, None);
        self.take_down(testbed);
        result
    }

    fn build(&mut self, lab: &mut Lab, seat: Seat) -> Result<Testbed, Failed> {
        self.phase("building the testbed");
        let spec = TestbedSpec {
            environment: self.order.cell.environment.clone(),
            path: self.order.cell.path.clone(),
            budget: self.budget.clone(),
        };
        lab.build_at(&spec, seat).map_err(|e| failed(InvalidReason::TestbedFailed)(&e))
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
        self.note_node(&testbed.sut, "sut");
        self.note_node(&testbed.client, "client");
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
            .start_service(service, testbed.service_address, provisioning)
            .map_err(|e| failed(InvalidReason::ServiceFailed)(&e))?;
        self.record.timings.service = starting.elapsed().into();
        self.record.facts.insert("service.version".into(), ready.version.clone());
        self.record.facts.insert("service.startup_ns".into(), ready.startup.0.to_string());
        let target = ready.address;
        self.service = Some(ready);
        self.phase("measuring");
        let measuring = Instant::now();
        let measured = self.measure(&stage, testbed, target, partner)?;
        self.record.timings.measure = measuring.elapsed().into();
        self.record.validity = measured.validity;
        self.record.outcome = Some(measured.outcome);
        self.record.warm_up = measured.warm_up;
        self.judge_disturbance();
        self.judge_service();
        // Both may be past saying anything; the tear-down ends them either way.
        let _ = stage.sut.stop_service(service.stop_timeout);
        let _ = stage.sut.shutdown();
        let _ = stage.client.shutdown();
        Ok(())
    }

    fn note_node(&mut self, node: &Node, name: &str) {
        for (key, value) in node.facts() {
            self.record.facts.insert(key.clone(), value.clone());
        }
        self.record.facts.insert(format!("{name}.limits"), node.enforced().describe());
        if node.kind() == "vm" {
            self.record.accelerator = node.facts().get("vm.accelerator").cloned();
        }
    }

    /// Says hello to both agents and has them bring up their interfaces.
    fn meet(&mut self, testbed: &mut Testbed) -> Result<Stage, Failed> {
        // The system under test first: a guest boots while the client is spoken to.
        let sut = self.talk(&mut testbed.sut)?;
        let client = self.talk(&mut testbed.client)?;
        self.greet_client(&client, &testbed.client)?;
        if testbed.sut.kind() == "vm" {
            self.phase("booting the guest");
        }
        self.greet(&sut, &testbed.sut)?;
        Ok(Stage { client, sut })
    }

    fn talk(&self, node: &mut Node) -> Result<Client, Failed> {
        let read = node.take_channel().ok_or_else(|| Failed {
            reason: InvalidReason::TestbedFailed,
            detail: format!("node {}: no stream to its agent", node.name()),
        })?;
        let write = read.try_clone().map_err(|e| failed(InvalidReason::TestbedFailed)(&e))?;
        let name = role(node.name()).to_owned();
        let (heard, live, began) = (Arc::clone(&self.heard), Arc::clone(&self.live), self.began);
        let listen = move |event| match event {
            Event::LoadProgress { .. } => {}
            Event::SipProgress { elapsed, succeeded, inadequate } => {
                let report = Report { elapsed, succeeded, inadequate };
                *live.lock().unwrap_or_else(PoisonError::into_inner) = Some(report);
            }
            event => {
                let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
                heard.push((began.elapsed().into(), name.clone(), event));
            }
        };
        Client::start(node.name(), read, write, Box::new(listen))
            .map_err(|e| failed(InvalidReason::TestbedFailed)(&e))
    }

    /// The client may have more addresses than one.
    fn greet_client(&mut self, client: &Client, node: &Node) -> Result<(), Failed> {
        let mut interfaces = node.interfaces().map(<[InterfaceSetup]>::to_vec);
        if let Workload::Sip(workload) = &self.order.cell.workload {
            self.sources = sources(interfaces.as_deref_mut(), workload.addresses);
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
            let detail = match node.vm() {
                Some(vm) => chain(&vm.failure(chain(&e))),
                None => format!("{}: {}", chain(&e), node.output()),
            };
            Failed { reason: InvalidReason::TestbedFailed, detail }
        })?;
        self.nodes.insert(format!("{}/{}", self.order.cell.environment.name, role(node.name())), facts);
        Ok(())
    }

    fn measure(
        &mut self,
        stage: &Stage,
        testbed: &Testbed,
        target: SocketAddr,
        partner: Option<gate::Seat>,
    ) -> Result<Measured, Failed> {
        let broken = failed(InvalidReason::MeasureFailed);
        let every = interval(match &self.order.measure.kind {
            MeasureKind::Latency(latency) => latency.duration,
            MeasureKind::Throughput(throughput) => throughput.duration,
            // A search takes seconds; nobody knows how many.
            MeasureKind::Capacity(_) | MeasureKind::Ims(_) => Nanos::from_secs(8),
        });
        // Probes start when both of a pair stand, or the other's start would pass for noise.
        meet(partner.as_ref())?;
        let mut probes = Probes::start(stage, testbed, every)
            .map_err(|detail| Failed { reason: InvalidReason::MeasureFailed, detail })?;
        meet(partner.as_ref())?;
        let site = Site { client: &stage.client, target, observer: self.observer, partner: partner.as_ref() };
        let measured = match &self.order.cell.workload {
            Workload::Http(http) => site.http(self.order, http),
            Workload::Sip(sip) => {
                site.sip(self.order, sip, &self.sources, &self.live).map(|(measured, phases)| {
                    self.phases = phases;
                    measured
                })
            }
        };
        let mut measured = measured.map_err(|e| broken(&e))?;
        if let Outcome::Ims(ims) = &mut measured.outcome {
            ims.probe_clocks = probes.clocks.clone();
        }
        // Probes that fail cost the breakdown, not the trial.
        match probes.stop(stage, measured.answered) {
            Ok((cpu, host_end)) => {
                let used = cpu.as_ref().map_or(Nanos::ZERO, CpuBreakdown::total);
                let theirs = partner.and_then(|p| p.meet(used)).filter(|_| testbed.allocation.shared);
                let ours = Nanos(used.0.saturating_add(theirs.unwrap_or_default().0));
                let noise = disturbance(&probes.host_start, &host_end, &probes.sut_cpus, ours);
                let shared = testbed.allocation.shared;
                self.judge_noise(&noise.with_frequencies(&probes.frequencies), shared);
                // A search passes through overload; its CPU time per request describes no load.
                if measured.answered > 0 && !matches!(self.order.measure.kind, MeasureKind::Capacity(_)) {
                    self.record.cpu = cpu;
                }
            }
            Err(error) => drop(self.record.facts.insert("probes".into(), error)),
        }
        self.snapshots = probes.series;
        Ok(measured)
    }

    /// Tells what else happened on the SUT's CPUs; where it was much, the trial doesn't count.
    ///
    /// Sides of a duet that share their CPUs share what disturbs them, which is what they are for: load
    /// of others is only told there.
    fn judge_noise(&mut self, noise: &Disturbance, shared: bool) {
        if noise.reasons.is_empty() {
            return;
        }
        let detail = noise.reasons.join("; ");
        self.record.facts.insert("noise".into(), detail.clone());
        let much = |share: f64| {
            share > DISTURBED_SHARE && share * noise.time.as_secs_f64() > DISTURBED_TIME.as_secs_f64()
        };
        let contended = !shared && (much(noise.foreign) || much(noise.steal));
        let slowed = noise.throttles > 0 || noise.frequency_drop > DISTURBED_CLOCK;
        let starved =
            noise.swapped_pages > 0 || (noise.short_of_memory && noise.memory_wait > DISTURBED_SHARE);
        if contended || slowed || starved {
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
        let heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        let died = heard.iter().find_map(|(_, _, event)| match event {
            Event::ServiceDied { service, status } => Some(format!("{service} ended by itself: {status}")),
            _ => None,
        });
        if let Some(detail) = died {
            self.record.validity = Validity::Invalid { reason: InvalidReason::ServiceFailed, detail };
        }
    }
}

/// Nanoseconds since 1970.
fn unix_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// What a node is in its testbed, whichever of two that is: `client` or `sut`.
fn role(name: &str) -> &str {
    name.split('-').next().unwrap_or(name)
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
        one.build(lab, Seat::Paired { second: false, upper }),
        other.build(lab, Seat::Paired { second: true, upper: !upper }),
    ];
    let pids = built.iter().flatten().flat_map(|t| [t.client.pid(), t.sut.pid()]).collect::<Vec<_>>();
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

/// The probes of one measurement: inside the node, and outside on the host.
struct Probes {
    host: HostProbe,
    host_start: HostState,
    hypervisor: Option<Hypervisor>,
    inner_start: Snapshot,
    sut_cpus: CpuSet,
    clock: Option<FrequencyWatch>,
    frequencies: Vec<u64>,
    series: Vec<(String, Vec<Snapshot>)>,
    /// By node: nanoseconds from its clock to the time since 1970.
    clocks: BTreeMap<String, i64>,
}

/// QEMU as the host sees it.
struct Hypervisor {
    probe: Probe,
    start: Snapshot,
    sampler: Sampler,
    vcpus: Vec<u32>,
}

impl Hypervisor {
    fn start(node: &Node, every: Nanos) -> Result<Option<Self>, String> {
        let Some(vm) = node.vm() else { return Ok(None) };
        let probe = || Probe::new(Scope::Threads(vm.pid())).map_err(|e| chain(&e));
        let sampler = Sampler::start(probe()?, every).map_err(|e| chain(&e))?;
        let threads = vm.threads().map_err(|e| chain(&e))?;
        let is_vcpu = |role: &vtax_vm::ThreadRole| matches!(role, vtax_vm::ThreadRole::Vcpu(_));
        let vcpus = threads.iter().filter(|(_, role)| is_vcpu(role)).map(|(id, _)| *id).collect();
        let mut probe = probe()?;
        let start = probe.snapshot().map_err(|e| chain(&e))?;
        Ok(Some(Self { probe, start, sampler, vcpus }))
    }
}

impl Probes {
    /// Takes the first snapshots and starts sampling at this interval.
    fn start(stage: &Stage, testbed: &Testbed, every: Nanos) -> Result<Self, String> {
        stage.sut.start_probes(every).map_err(|e| chain(&e))?;
        stage.client.start_probes(every).map_err(|e| chain(&e))?;
        let sut_cpus = testbed.allocation.sut.clone();
        let mut host = HostProbe::new(sut_cpus.clone()).map_err(|e| chain(&e))?;
        // The inner snapshot last and, at the end, first: it is the one that takes time in a guest.
        let host_start = host.read().map_err(|e| chain(&e))?;
        let hypervisor = Hypervisor::start(&testbed.sut, every)?;
        let outer = stage.client.snapshot().map_err(|e| chain(&e))?;
        let asked = unix_ns();
        let inner_start = stage.sut.snapshot().map_err(|e| chain(&e))?;
        // A guest has a clock of its own: its answer is as old as half of the time it took.
        let answered = asked + (unix_ns() - asked) / 2;
        let host_clock = asked - outer.at.0.cast_signed();
        let clocks = BTreeMap::from([
            ("sut".to_owned(), answered - inner_start.at.0.cast_signed()),
            ("client".to_owned(), host_clock),
            ("hypervisor".to_owned(), host_clock),
        ]);
        let clock = FrequencyWatch::start(&sut_cpus);
        let (frequencies, series) = (Vec::new(), Vec::new());
        Ok(Self { host, host_start, hypervisor, inner_start, sut_cpus, clock, frequencies, series, clocks })
    }

    /// CPU time by layer, and the host as it is now.
    fn stop(&mut self, stage: &Stage, answered: u64) -> Result<(Option<CpuBreakdown>, HostState), String> {
        let inner_end = stage.sut.snapshot().map_err(|e| chain(&e))?;
        let inner = Interval { start: &self.inner_start, end: &inner_end };
        let cpu = match &mut self.hypervisor {
            None => {
                let hosting = Hosting::Processes { node: inner, runtime: None };
                break_down(&hosting, &self.sut_cpus, answered)
            }
            Some(hypervisor) => {
                let end = hypervisor.probe.snapshot().map_err(|e| chain(&e))?;
                let hypervisor_interval = Interval { start: &hypervisor.start, end: &end };
                let vcpus = &hypervisor.vcpus;
                let hosting = Hosting::Guest { guest: inner, hypervisor: hypervisor_interval, vcpus };
                break_down(&hosting, &self.sut_cpus, answered)
            }
        };
        self.frequencies = self.clock.take().map(FrequencyWatch::stop).unwrap_or_default();
        let host_end = self.host.read().map_err(|e| chain(&e))?;
        self.series.push(("sut".into(), stage.sut.stop_probes().map_err(|e| chain(&e))?));
        self.series.push(("client".into(), stage.client.stop_probes().map_err(|e| chain(&e))?));
        if let Some(hypervisor) = self.hypervisor.take() {
            self.series.push(("hypervisor".into(), hypervisor.sampler.stop().snapshots));
        }
        Ok((Some(cpu), host_end))
    }
}
