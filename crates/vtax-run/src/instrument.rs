//! What a family of workloads must be able to do to be measured, and what it is given for that.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use vtax_agent::message::Provisioning;
use vtax_agent::{AgentError, Client};
use vtax_lab::Testbed;
use vtax_load::LoadSpec;
use vtax_load::sip::PhaseResult;
use vtax_store::record::{Finding, Observation, Validity, WarmUp};

use crate::barrier::Party;
use crate::observe::Observer;
use crate::probes::Probes;
use crate::team::Team;
use crate::trial_request::TrialRequest;

/// A guest under emulation on a busy host has been seen to take 20 s to its first answer.
pub(crate) const BOOT_WITHIN: Duration = Duration::from_secs(90);

/// Measures one workload.
///
/// The load is opened on the client node before the probes start, and closed after they have stopped: what
/// opening costs, such as keys that are written or sessions that are set up, counts for no request.
pub(crate) trait Instrument {
    /// The load that is opened.
    fn load(&self, ends: &Ends<'_>, request: &TrialRequest<'_>) -> LoadSpec;

    /// Whether it is opened on the system under test's own node instead of the client's.
    fn is_on_sut(&self) -> bool {
        false
    }

    /// Makes the measurement that `request` asks for, with the load open.
    ///
    /// # Errors
    ///
    /// [`AgentError`] where a node can't be asked any more, or the measure is none of this family's.
    fn measure(&mut self, site: &mut Site<'_>, request: &TrialRequest<'_>) -> Result<Measured, AgentError>;
}

/// Where a load comes from and where it goes.
pub(crate) struct Ends<'a> {
    /// Where the service listens.
    pub(crate) target: SocketAddr,
    /// The client's addresses, where the workload asks for more than one.
    pub(crate) sources: &'a [IpAddr],
    /// Where the system under test has its disk, as it sees it, where the workload needs one.
    pub(crate) disk: Option<&'a Path>,
}

/// A testbed that stands, with its service running, its load open, and all that watches it.
pub(crate) struct Site<'a> {
    /// The client node's agent.
    pub(crate) client: &'a Client,
    /// The generators on hosts of their own, where the load comes from such; the client is the first of them.
    pub(crate) team: Option<&'a Team<'a>>,
    /// The agent of the system under test.
    pub(crate) sut: &'a Client,
    /// The agents of all systems under test, in the testbed's order.
    pub(crate) suts: &'a [Client],
    /// The agent of the node that holds the path's routers, where it has any.
    pub(crate) routers: Option<&'a Client>,
    pub(crate) testbed: &'a mut Testbed,
    pub(crate) probes: &'a mut Probes,
    /// Where the service listens.
    pub(crate) target: SocketAddr,
    /// What the service is started with.
    pub(crate) provisioning: &'a Provisioning,
    pub(crate) observer: &'a dyn Observer,
    /// The trial that is made at the same time.
    pub(crate) partner: Option<&'a Party>,
    /// When the measurement began.
    pub(crate) started_unix_ms: u64,
}

/// What a measurement found.
pub(crate) struct Measured {
    /// In the order of time.
    pub(crate) observations: Vec<Observation>,
    /// Whether the trial counts, as far as its observations tell.
    pub(crate) validity: Validity,
    /// Successful answers over everything that was sent, for CPU time per request; 0 where that says nothing.
    pub(crate) answered: u64,
    /// Successful answers of each system, where there are several.
    pub(crate) answered_each: Vec<(String, u64)>,
    /// Phases of SIP load with their seconds and histograms, for the trial's files.
    pub(crate) phases: Vec<PhaseResult>,
}

impl Measured {
    /// Of a measure that observes one thing.
    pub(crate) fn whole(started_unix_ms: u64, found: Finding, validity: Validity) -> Self {
        let whole = Observation { validity: validity.clone(), ..Observation::whole(started_unix_ms, found) };
        Self {
            observations: vec![whole],
            validity,
            answered: 0,
            answered_each: Vec::new(),
            phases: Vec::new(),
        }
    }

    /// What was found, with what was cut off its start, and with the successful answers that CPU time was spent on.
    pub(crate) fn with(mut self, warm_up: Option<WarmUp>, answered: u64) -> Self {
        for observation in &mut self.observations {
            observation.warm_up.clone_from(&warm_up);
        }
        Self { answered, ..self }
    }
}

/// The refusal of a measure that a family doesn't make. The plan has refused it before, so it is not seen.
pub(crate) fn not_made(request: &TrialRequest<'_>, workload: &str) -> AgentError {
    let error = format!("`{}` is not measured with {workload}", request.measure.name);
    AgentError::Refused { node: "client".to_owned(), error }
}
