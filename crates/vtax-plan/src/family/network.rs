//! Network tests.

mod estimate;
pub mod limits;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;

use std::collections::BTreeSet;

use vtax_units::Nanos;

use super::{Misfit, WorkloadModel};
use crate::assumptions::Assumptions;
use crate::model::{
    EnvironmentKind, MeasureKind, NetworkMeasure, NetworkTest, NetworkTestKind, NetworkWorkload, Protocol,
};

impl WorkloadModel for NetworkWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Network
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        match measure {
            MeasureKind::Network(_) => Ok(()),
            MeasureKind::Capacity(_)
            | MeasureKind::Latency(_)
            | MeasureKind::Throughput(_)
            | MeasureKind::Ims(_)
            | MeasureKind::Storage(_)
            | MeasureKind::Failover(_) => Err(Misfit {
                why: "network tests have rates and times of their own, and no service behind them",
                instead: "write `network` instead",
            }),
        }
    }

    fn measuring(&self, measure: &MeasureKind, _: &Assumptions, _: &EnvironmentKind) -> Nanos {
        match measure {
            MeasureKind::Network(network) => estimate::measuring(network, self),
            _ => Nanos::ZERO,
        }
    }

    fn is_of_requests(&self) -> bool {
        false
    }

    fn asked(&self) -> Option<String> {
        None
    }

    fn least_time(&self, measure: &MeasureKind) -> Nanos {
        let longest = self.times(measure).max();
        longest.unwrap_or_else(|| measure.timing().least())
    }

    fn shortest_part(&self, measure: &MeasureKind) -> Option<Nanos> {
        self.times(measure).min().or_else(|| Some(measure.timing().least()))
    }

    fn tests(&self) -> &[NetworkTest] {
        &self.tests
    }

    fn kernel_modules(&self) -> BTreeSet<String> {
        let congestion = |test: &NetworkTest| match &test.kind {
            NetworkTestKind::Tcp(tcp) => tcp.socket.congestion.clone(),
            NetworkTestKind::Rr(rr) => rr.socket.congestion.clone(),
            NetworkTestKind::Udp(_) | NetworkTestKind::Ping(_) | NetworkTestKind::Voice(_) => None,
        };
        self.tests.iter().filter_map(congestion).map(|name| format!("tcp_{name}")).collect()
    }
}

impl NetworkWorkload {
    /// How long each test takes; none with a measure that isn't made of tests.
    fn times(&self, measure: &MeasureKind) -> impl Iterator<Item = Nanos> {
        let network = match measure {
            MeasureKind::Network(network) => Some(network),
            _ => None,
        };
        network
            .into_iter()
            .flat_map(|network: &NetworkMeasure| self.tests.iter().map(|test| network.of(test).test_time()))
    }
}
