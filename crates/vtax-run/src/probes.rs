//! What watches a measurement: probes inside both nodes, and on the host outside of them.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use vtax_agent::Client;
use vtax_lab::{Node, Testbed};
use vtax_probe::delta::Interval;
use vtax_probe::layers::{CpuBreakdown, Hosting, break_down};
use vtax_probe::noise::{HostProbe, HostState};
use vtax_probe::{FrequencyWatch, Probe, Sampler, Scope, Snapshot};
use vtax_sys::chain;
use vtax_units::{CpuSet, Nanos};

/// Nanoseconds since 1970.
fn unix_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)
}

/// The probes of one measurement: inside the node, and outside on the host.
pub(crate) struct Probes {
    host: HostProbe,
    pub(crate) host_start: HostState,
    hypervisor: Option<Hypervisor>,
    start: Mark,
    pub(crate) sut_cpus: CpuSet,
    clock: Option<FrequencyWatch>,
    pub(crate) frequencies: Vec<u64>,
    pub(crate) series: Vec<(String, Vec<Snapshot>)>,
    /// By node: nanoseconds from its clock to the time since 1970.
    pub(crate) clocks: BTreeMap<String, i64>,
}

/// The system under test at one moment: as it sees itself, and its hypervisor where it has one.
pub(crate) struct Mark {
    inner: Snapshot,
    outer: Option<Snapshot>,
}

/// QEMU as the host sees it.
struct Hypervisor {
    probe: Probe,
    sampler: Sampler,
    vcpus: Vec<u32>,
}

impl Hypervisor {
    fn start(node: &Node, every: Nanos) -> Result<Option<Self>, String> {
        let Some(found) = node.hypervisor().map_err(|e| chain(&e))? else { return Ok(None) };
        let vtax_lab::Hypervisor { pid, vcpus } = found;
        let probe = || Probe::new(Scope::Threads(pid)).map_err(|e| chain(&e));
        let sampler = Sampler::start(probe()?, every).map_err(|e| chain(&e))?;
        Ok(Some(Self { probe: probe()?, sampler, vcpus }))
    }

    fn snapshot(&mut self) -> Result<Snapshot, String> {
        self.probe.snapshot().map_err(|e| chain(&e))
    }
}

impl Probes {
    /// Takes the first snapshots and starts sampling at this interval.
    pub(crate) fn start(
        client: &Client,
        sut: &Client,
        testbed: &Testbed,
        every: Nanos,
    ) -> Result<Self, String> {
        sut.start_probes(every).map_err(|e| chain(&e))?;
        client.start_probes(every).map_err(|e| chain(&e))?;
        let sut_cpus = testbed.the_sut().cpus.clone();
        let mut host = HostProbe::new(sut_cpus.clone()).map_err(|e| chain(&e))?;
        // The inner snapshot last and, at the end, first: it is the one that takes time in a guest.
        let host_start = host.read().map_err(|e| chain(&e))?;
        let mut hypervisor = Hypervisor::start(&testbed.the_sut().node, every)?;
        let outer = hypervisor.as_mut().map(Hypervisor::snapshot).transpose()?;
        let hypervisor_clock = outer.as_ref().map(|outer| unix_ns() - outer.at.0.cast_signed());
        let (_, client_clock) = with_clock(client)?;
        let (inner, sut_clock) = with_clock(sut)?;
        let mut clocks = BTreeMap::from([("sut".to_owned(), sut_clock), ("client".to_owned(), client_clock)]);
        clocks.extend(hypervisor_clock.map(|clock| ("hypervisor".to_owned(), clock)));
        let clock = FrequencyWatch::start(&sut_cpus);
        let (frequencies, series) = (Vec::new(), Vec::new());
        let start = Mark { inner, outer };
        Ok(Self { host, host_start, hypervisor, start, sut_cpus, clock, frequencies, series, clocks })
    }

    /// The system under test now.
    pub(crate) fn mark(&mut self, sut: &Client) -> Result<Mark, String> {
        let inner = sut.snapshot().map_err(|e| chain(&e))?;
        let outer = self.hypervisor.as_mut().map(Hypervisor::snapshot).transpose()?;
        Ok(Mark { inner, outer })
    }

    /// CPU time between two marks by layer, spent on that many requests.
    pub(crate) fn between(&self, start: &Mark, end: &Mark, requests: u64) -> CpuBreakdown {
        let inner = Interval { start: &start.inner, end: &end.inner };
        let hosting = match (&self.hypervisor, &start.outer, &end.outer) {
            (Some(hypervisor), Some(start), Some(end)) => {
                let vcpus = &hypervisor.vcpus;
                Hosting::Guest { guest: inner, hypervisor: Interval { start, end }, vcpus }
            }
            _ => Hosting::Processes { node: inner, runtime: None },
        };
        break_down(&hosting, &self.sut_cpus, requests)
    }

    /// CPU time by layer, and the host as it is now.
    pub(crate) fn stop(
        &mut self,
        client: &Client,
        sut: &Client,
        answered: u64,
    ) -> Result<(Option<CpuBreakdown>, HostState), String> {
        let end = self.mark(sut)?;
        let cpu = self.between(&self.start, &end, answered);
        self.frequencies = self.clock.take().map(FrequencyWatch::stop).unwrap_or_default();
        let host_end = self.host.read().map_err(|e| chain(&e))?;
        self.series.push(("sut".into(), sut.stop_probes().map_err(|e| chain(&e))?));
        self.series.push(("client".into(), client.stop_probes().map_err(|e| chain(&e))?));
        if let Some(hypervisor) = self.hypervisor.take() {
            self.series.push(("hypervisor".into(), hypervisor.sampler.stop().snapshots));
        }
        Ok((Some(cpu), host_end))
    }
}

/// A node's snapshot and its clock: a guest has one of its own, and its answer is as old as half of the time
/// it took.
fn with_clock(node: &Client) -> Result<(Snapshot, i64), String> {
    let asked = unix_ns();
    let snapshot = node.snapshot().map_err(|e| chain(&e))?;
    let clock = asked + (unix_ns() - asked) / 2 - snapshot.at.0.cast_signed();
    Ok((snapshot, clock))
}
