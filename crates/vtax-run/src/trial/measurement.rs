//! The measurement of a trial: its load open, probes around it, and what else happened on the machine.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use vtax_agent::message::Provisioning;
use vtax_lab::{Disk, Testbed};
use vtax_probe::Snapshot;
use vtax_probe::layers::CpuBreakdown;
use vtax_probe::noise::{FOREIGN_SHARE, HostState, disturbance, disturbance_by_the_machine};
use vtax_probe::others::{Census, Others};
use vtax_store::record::InvalidReason;
use vtax_sys::clock::unix_ms;
use vtax_units::Nanos;

use super::agents::Agents;
use super::setting::{Failed, Setting};
use crate::barrier::Party;
use crate::failover::Qemus;
use crate::family::instrument;
use crate::instrument::{Ends, Measured, Site};
use crate::noise::{blame, is_too_much};
use crate::order::Order;
use crate::probes::{Probes, interval};

/// Sampling where the plan can't tell how long the parts of a measurement are.
const UNKNOWN_PART: Nanos = Nanos::from_secs(8);

/// A measurement that was made.
pub(super) struct Measurement {
    pub(super) measured: Measured,
    pub(super) facts: BTreeMap<String, String>,
    /// By node.
    pub(super) snapshots: Vec<(String, Vec<Snapshot>)>,
    /// What took the system under test's CPUs, where it was too much.
    pub(super) disturbed: Option<String>,
}

impl Measurement {
    /// Makes it on a testbed whose service listens at `target`; with a partner, at the same time as it.
    pub(super) fn make(
        setting: &Setting<'_>,
        agents: &Agents,
        testbed: &mut Testbed,
        (target, provisioning): (SocketAddr, &Provisioning),
        partner: Option<&Party>,
    ) -> Result<Self, Failed> {
        let order = setting.order;
        let broken = |e| Failed::of(InvalidReason::MeasureFailed, &e);
        let mut instrument = instrument(&order.cell.workload, &order.cell.service.kind);
        let disk = testbed.the_sut().node.disk().map(Disk::path);
        let ends = Ends { target, sources: &agents.sources, disk };
        let loader = if instrument.is_on_sut() { &agents.sut } else { &agents.client };
        loader.open_load(&instrument.load(&ends, order)).map_err(broken)?;
        // Outside of what is counted: it looks at all processes of the host.
        let census = setting.others.map(|others| (others, others.look()));
        let part = order.cell.workload.model().shortest_part(&order.measure.kind);
        // Probes start when both of a pair stand, or the other's start would pass for noise.
        wait_for(partner)?;
        let every = interval(part.unwrap_or(UNKNOWN_PART));
        let mut probes = Probes::start(&agents.client, &agents.sut, testbed, every)
            .map_err(|detail| Failed::new(InvalidReason::MeasureFailed, detail))?;
        wait_for(partner)?;
        let qemus = Qemus::start(&testbed.the_sut().node, &probes.sut_cpus);
        let mut site = Site {
            client: &agents.client,
            sut: &agents.sut,
            routers: agents.routers.as_ref(),
            testbed,
            probes: &mut probes,
            target,
            provisioning,
            observer: setting.observer,
            partner,
            started_unix_ms: unix_ms(),
        };
        let measured = instrument.measure(&mut site, order).map_err(broken)?;
        let facts = testbed.path_facts();
        let mut found = Self { measured, facts, snapshots: Vec::new(), disturbed: None };
        // Probes that fail cost the breakdown, not the trial.
        match probes.stop(&agents.client, &agents.sut, found.measured.answered) {
            Ok((cpu, host_end)) => {
                let used = cpu.as_ref().map_or(Nanos::ZERO, CpuBreakdown::total);
                let theirs = partner.and_then(|p| p.exchange(used)).filter(|_| testbed.allocation.shared);
                let used = qemus.map_or(used, |qemus| qemus.used(&testbed.the_sut().node).max(used));
                let ours = Nanos(used.0.saturating_add(theirs.unwrap_or_default().0));
                found.judge_noise(&probes, (&host_end, census), testbed, ours);
                found.account(order, cpu);
            }
            Err(error) => drop(found.facts.insert("probes".into(), error)),
        }
        found.snapshots = probes.series;
        loader.close_load().map_err(broken)?;
        Ok(found)
    }

    /// Tells what else happened on the system under test's CPUs, of which the trial itself used `ours`, and
    /// who limited the generator.
    fn judge_noise(
        &mut self,
        probes: &Probes,
        (host_end, census): (&HostState, Option<(&Others, Census)>),
        testbed: &Testbed,
        ours: Nanos,
    ) {
        let noise = disturbance(&probes.host_start, host_end, &probes.sut_cpus, ours);
        let generator = disturbance_by_the_machine(&probes.host_start, host_end, &testbed.allocation.client);
        let validity = std::mem::take(&mut self.measured.validity);
        self.measured.validity = blame(validity, generator.steal);
        let noise = noise.with_frequencies(&probes.frequencies);
        if noise.reasons.is_empty() {
            return;
        }
        let mut detail = noise.reasons.join("; ");
        let told = census.filter(|_| noise.foreign > FOREIGN_SHARE);
        if let Some(busiest) = told.and_then(|(others, start)| others.look().busiest_since(&start)) {
            detail += &format!("; the busiest process outside of the run: {busiest}");
        }
        self.facts.insert("noise".into(), detail.clone());
        if is_too_much(&noise, testbed.allocation.shared) {
            self.disturbed = Some(detail);
        }
    }

    /// A search passes through overload; its CPU time per request describes no load.
    fn account(&mut self, order: &Order<'_>, cpu: Option<CpuBreakdown>) {
        if self.measured.answered > 0 && order.measure.kind.has_one_load() {
            self.measured.observations.iter_mut().for_each(|o| o.cpu.clone_from(&cpu));
        }
    }
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
