//! Calls after SIPp's scenarios: a call is a request.

pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;

use vtax_units::Nanos;
use vtax_wire::sipp::{Duration, Kind, Scenario};

use crate::assumptions::{Assumptions, searching};
use crate::family::{Misfit, WorkloadModel};
use crate::model::{EnvironmentKind, Measure, MeasureKind, Protocol, ScriptWorkload, Subscribers};

/// What there is to measure with calls.
const CAPACITY_OR_LATENCY: &str = "measure `capacity` or `latency`";

impl WorkloadModel for ScriptWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Sip
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        match measure {
            MeasureKind::Throughput(_) => Err(Misfit {
                why: "calls begin when they are due and don't wait for each other, so there is no closed loop to measure throughput in",
                instead: "measure `capacity`, or `latency` at a rate",
            }),
            MeasureKind::Ims(_) => Err(Misfit {
                why: "the IMS benchmark has scenarios of its own",
                instead: "measure `capacity` or `latency`, or leave the scenario out",
            }),
            MeasureKind::Network(_) => Err(Misfit { instead: CAPACITY_OR_LATENCY, ..Misfit::NETWORK }),
            MeasureKind::Storage(_) => Err(Misfit { instead: CAPACITY_OR_LATENCY, ..Misfit::STORAGE }),
            other => Misfit::unless_of_requests(other),
        }
    }

    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        match measure {
            MeasureKind::Capacity(search) => {
                // The last step, which fails, waits for its calls for nothing.
                Nanos(searching(search, host.scenarios(environment)).0.saturating_add(self.drain.0))
            }
            other => other.timing().least(),
        }
    }

    fn is_of_requests(&self) -> bool {
        true
    }

    fn asked(&self) -> Option<String> {
        let scenario = match self.scenario.base() {
            "" => "the plan's own scenario",
            file => file,
        };
        let (transport, calls) = (self.transport.word().to_uppercase(), self.calls);
        Some(format!("calls after {scenario} over {transport}, at most {calls} at once"))
    }

    fn client_addresses(&self) -> Option<u32> {
        Some(self.addresses)
    }

    fn subscribers(&self) -> Option<&Subscribers> {
        self.subscribers.as_ref()
    }

    fn caution(&self, _measure: &Measure) -> Option<String> {
        let may_be_silent = self.media.is_some() && self.pause == Nanos::ZERO;
        (may_be_silent && self.pauses_as_the_plan_says()).then(|| {
            "a `<pause/>` of the scenario has no length, and `pause` is 0s: calls of less than 200ms have no figures of sound; give \
             `pause` the length of a call, such as `pause: 10s`"
                .to_owned()
        })
    }
}

impl ScriptWorkload {
    /// Whether a pause of the scenario is as long as `pause` says.
    fn pauses_as_the_plan_says(&self) -> bool {
        let scenario = Scenario::compile(self.scenario.text.as_bytes(), &self.keywords());
        let usual = |kind: &Kind| matches!(kind, Kind::Pause(Duration::Default));
        scenario.is_ok_and(|scenario| scenario.commands.iter().any(|command| usual(&command.kind)))
    }
}
