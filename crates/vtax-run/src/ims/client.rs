//! The SIP session on the client node.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use vtax_agent::message::InterfaceSetup;
use vtax_agent::{AgentError, Client};
use vtax_load::sip::{PhaseKind, PhaseResult, SipProfile, SipResult, SipSpec};
use vtax_load::{LoadSpec, Progress, Step};
use vtax_plan::model::{MeasureKind, SipWorkload};
use vtax_store::record::Finding;
use vtax_units::{CpuSet, Nanos};

use super::{Benchmark, Session};
use crate::measure::{Measured, Site};
use crate::observe::{Observer, RunEvent};
use crate::runner::Order;

/// Adds so many source addresses in all to the client's interface, and gives them. `interfaces` is
/// `None` where nodes share the host's loopback, all of whose addresses are there without asking.
pub(crate) fn sources(interfaces: Option<&mut [InterfaceSetup]>, count: u32) -> Vec<IpAddr> {
    let count = u8::try_from(count.clamp(1, 200)).unwrap_or(1);
    let Some(interfaces) = interfaces else {
        let own = |i: u8| IpAddr::V4(Ipv4Addr::new(127, 0, 0, i));
        return (1..=count).map(own).collect();
    };
    let Some(interface) = interfaces.first_mut() else { return Vec::new() };
    let Some(&(IpAddr::V4(first), prefix)) = interface.addresses.first() else { return Vec::new() };
    // The upper half of the lab's network holds no nodes.
    let [a, b, c, _] = first.octets();
    let more = (1..count).map(|i| IpAddr::V4(Ipv4Addr::new(a, b, c | 128, i)));
    interface.addresses.extend(more.map(|address| (address, prefix)));
    interface.addresses.iter().map(|(address, _)| *address).collect()
}

/// The session of a client node.
struct OnClient<'a> {
    client: &'a Client,
    observer: &'a dyn Observer,
    /// Registrations that pre-registration makes.
    registrations: f64,
}

impl Session for OnClient<'_> {
    fn run(&mut self, profile: &SipProfile, within: Duration) -> Result<SipResult, AgentError> {
        let mut last = Progress::default();
        self.client.run_step(Step::Sip(profile.clone()), within, &mut |progress| {
            let what = self.describe(profile, progress.elapsed, &progress.since(&last));
            self.observer.observe(&RunEvent::Phase { what: &what });
            last = *progress;
        })
    }
}

impl OnClient<'_> {
    /// A line for people: `step 3 · 70/s asked for · 68 succeeded, 2 inadequately handled`.
    fn describe(&self, profile: &SipProfile, elapsed: Nanos, lately: &Progress) -> String {
        let length = |kind: &PhaseKind, rate: f64| match kind {
            PhaseKind::Mix { duration } => duration.as_secs_f64(),
            PhaseKind::PreRegistration => self.registrations / rate.max(1e-9),
        };
        let mut left = elapsed.as_secs_f64();
        let present = profile.phases.iter().find(|phase| {
            left -= length(&phase.kind, phase.rate.0);
            left < 0.0
        });
        let (ok, bad) = (lately.ok, lately.failed);
        let found = format!("{ok} succeeded, {bad} inadequately handled in the last second");
        match present {
            Some(phase) => format!("{} · {:.1}/s asked for · {found}", phase.name, phase.rate.0),
            None => format!("waiting for the last scenarios · {found}"),
        }
    }
}

impl Site<'_> {
    /// Makes the measurement that `order` asks for with SIP subscribers who have these addresses; the
    /// phases with their seconds and histograms come along.
    pub(crate) fn sip(
        &self,
        order: &Order<'_>,
        workload: &SipWorkload,
        local: &[IpAddr],
    ) -> Result<(Measured, Vec<PhaseResult>), AgentError> {
        let spec = SipSpec {
            target: self.target,
            workload: workload.clone(),
            local: local.to_vec(),
            // The client's agent is bound to its CPUs already: one worker on each.
            cpus: CpuSet::default(),
            seed: order.seed,
            moments: matches!(order.measure.kind, MeasureKind::Failover(_)),
        };
        self.client.open_load(&LoadSpec::Sip(Box::new(spec)))?;
        let registrations = workload.registered_count();
        let mut session = OnClient { client: self.client, observer: self.observer, registrations };
        if let MeasureKind::Failover(failover) = &order.measure.kind {
            let found = self.failover_sip(order, workload, &mut session, failover);
            // What is wrong with the load tells more than a session that can't be closed.
            let closed = self.client.close_load();
            return found.and_then(|found| closed.map(|()| found));
        }
        let found = match &order.measure.kind {
            MeasureKind::Ims(ims) => Benchmark::new(&mut session, workload, ims.arrivals, self.observer)
                .find(ims, order.capacity_hint, order.seed)?,
            MeasureKind::Latency(latency) => {
                Benchmark::new(&mut session, workload, latency.arrivals, self.observer)
                    .fixed(latency, order.offered)?
            }
            MeasureKind::Capacity(_)
            | MeasureKind::Throughput(_)
            | MeasureKind::Failover(_)
            | MeasureKind::Network(_) => {
                let error = format!("`{}` is not measured with a SIP workload", order.measure.name);
                return Err(AgentError::Refused { node: "client".to_owned(), error });
            }
        };
        self.client.close_load()?;
        let ims = Finding::Ims(Box::new(found.outcome));
        // Registrations and calls cost differently: CPU time per request would say nothing.
        Ok((Measured::whole(self.started_unix_ms, ims, found.validity), found.phases))
    }
}

#[cfg(test)]
mod tests {
    use vtax_agent::message::FindInterface;

    use super::*;

    #[test]
    fn sources_are_many_and_the_first_is_the_nodes_own() {
        let own = |text: &str| text.parse::<IpAddr>().expect("an address");
        let mut setup = [InterfaceSetup {
            addresses: vec![(own("10.97.1.1"), 16)],
            ..InterfaceSetup::new(FindInterface::Name("x".into()), "eth0".into())
        }];
        let all = sources(Some(&mut setup), 3);
        assert_eq!(all, [own("10.97.1.1"), own("10.97.129.1"), own("10.97.129.2")]);
        assert_eq!(setup[0].addresses.len(), 3);
        assert_eq!(sources(None, 2), [own("127.0.0.1"), own("127.0.0.2")]);
    }
}
