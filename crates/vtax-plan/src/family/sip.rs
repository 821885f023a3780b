//! SIP workloads.

mod estimate;
pub(crate) mod identity;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;
pub(crate) mod script;

use vtax_units::{Nanos, counted};

use super::{Misfit, WorkloadModel};
use crate::assumptions::Assumptions;
use crate::model::{EnvironmentKind, Measure, MeasureKind, Protocol, SipWorkload, Subscribers};

/// What there is to measure with subscribers.
const IMS_OR_LATENCY: &str = "measure `ims`, or `latency` at a rate";

impl WorkloadModel for SipWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Sip
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        match measure {
            MeasureKind::Capacity(_) => Err(Misfit {
                why: "the capacity of a SIP service is found by the IMS benchmark, which registers subscribers \
                      first",
                instead: "write `ims` instead of `capacity`",
            }),
            MeasureKind::Throughput(_) => Err(Misfit {
                why: "SIP subscribers don't wait for each other, so there is no closed loop to measure throughput in",
                instead: IMS_OR_LATENCY,
            }),
            MeasureKind::Latency(latency) if latency.samples => Err(Misfit {
                why: "a SIP workload keeps histograms and seconds, not every request",
                instead: "leave `samples` out",
            }),
            MeasureKind::Latency(_) | MeasureKind::Ims(_) | MeasureKind::Failover(_) => Ok(()),
            MeasureKind::Network(_) => Err(Misfit { instead: IMS_OR_LATENCY, ..Misfit::NETWORK }),
            MeasureKind::Storage(_) => Err(Misfit { instead: IMS_OR_LATENCY, ..Misfit::STORAGE }),
        }
    }

    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        estimate::measuring(measure, self, host.scenarios(environment))
    }

    fn is_of_requests(&self) -> bool {
        false
    }

    fn asked(&self) -> Option<String> {
        let mix = self.mix.iter().map(|part| format!("{} {}", part.scenario.name(), part.share));
        let mix = mix.collect::<Vec<_>>().join(", ");
        let subscribers = counted(self.subscribers.count, "subscriber");
        Some(format!("{subscribers} over {}: {mix}", self.transport.word().to_uppercase()))
    }

    fn client_addresses(&self) -> Option<u32> {
        Some(self.addresses)
    }

    fn subscribers(&self) -> Option<&Subscribers> {
        Some(&self.subscribers)
    }

    fn caution(&self, measure: &Measure) -> Option<String> {
        estimate::caution(measure, self)
    }
}
