//! What the rest of vtax asks of a workload, whichever family it is of.
//!
//! Each family answers in a folder of its own; [`Workload::model`] is the one place that tells them apart.

pub(crate) mod desktop;
pub(crate) mod ftp;
pub(crate) mod http;
pub(crate) mod network;
pub(crate) mod redis;
pub(crate) mod sip;
pub(crate) mod storage;

use std::collections::BTreeSet;

use vtax_units::Nanos;

use crate::assumptions::Assumptions;
use crate::model::{
    EnvironmentKind, Measure, MeasureKind, NetworkTest, Protocol, StorageTest, Subscribers, Timing, Workload,
};

/// Why a measure can't be made with a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Misfit {
    /// The reason, in a sentence.
    pub why: &'static str,
    /// What to write instead.
    pub instead: &'static str,
}

impl Misfit {
    /// The IMS benchmark with a workload other than SIP.
    const IMS: Self = Self {
        why: "the IMS benchmark is for SIP services",
        instead: "measure `capacity`, or use the workload `sip`",
    };
    /// Network tests with a workload that has none.
    const NETWORK: Self = Self {
        why: "`network` makes the tests of a workload `tcp`, `udp`, `ping`, `rr` or `voice`",
        instead: "measure `capacity`, `latency` or `throughput`, or use one of these workloads",
    };

    /// Tests of storage with a workload that has none.
    const STORAGE: Self = Self {
        why: "`storage` makes the tests of a workload `storage`",
        instead: "measure `capacity`, `latency` or `throughput`, or use this workload",
    };

    /// Which measures the families of requests and answers have.
    fn unless_of_requests(measure: &MeasureKind) -> Result<(), Self> {
        match measure {
            MeasureKind::Capacity(_)
            | MeasureKind::Latency(_)
            | MeasureKind::Throughput(_)
            | MeasureKind::Failover(_) => Ok(()),
            MeasureKind::Ims(_) => Err(Self::IMS),
            MeasureKind::Network(_) => Err(Self::NETWORK),
            MeasureKind::Storage(_) => Err(Self::STORAGE),
        }
    }
}

/// A workload as the rest of vtax sees it.
pub trait WorkloadModel {
    /// What its service must speak.
    fn protocol(&self) -> Protocol;

    /// Whether the measure can be made with it.
    ///
    /// # Errors
    /// Why it can't, and what could be measured instead.
    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit>;

    /// Estimated time of one measurement in an environment of this kind, without building the testbed; zero
    /// for a measure that is not [accepted](Self::accepts).
    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos;

    /// No trial takes less.
    fn least_time(&self, measure: &MeasureKind) -> Nanos {
        measure.timing().least()
    }

    /// The shortest time that a figure is made of, which probes must resolve; `None` where the plan can't
    /// tell, as of a search.
    fn shortest_part(&self, measure: &MeasureKind) -> Option<Nanos> {
        match measure.timing() {
            Timing::Fixed { duration, .. } => Some(duration),
            Timing::Search { .. } => None,
            Timing::Suite { .. } => Some(measure.timing().least()),
        }
    }

    /// Whether its load is of requests, each with a latency of its own. Several such loads can run side by side.
    fn is_of_requests(&self) -> bool;

    /// What is asked of the service, in a line; `None` where it has tests, which say so.
    fn asked(&self) -> Option<String>;

    /// Source addresses that the generator spreads its load over; `None`: its node's own, whatever that is.
    fn client_addresses(&self) -> Option<u32> {
        None
    }

    /// Who the service must know before it is started.
    fn subscribers(&self) -> Option<&Subscribers> {
        None
    }

    /// The tests that a trial is made of; none where it is one load or search.
    fn tests(&self) -> &[NetworkTest] {
        &[]
    }

    /// The tests of storage that a trial is made of, in their order.
    fn storage_tests(&self) -> &[StorageTest] {
        &[]
    }

    /// Kernel modules that both ends need; kernels that have their content built in don't miss them.
    fn kernel_modules(&self) -> BTreeSet<String> {
        BTreeSet::new()
    }

    /// What is allowed but probably not meant, in a sentence.
    fn caution(&self, _measure: &Measure) -> Option<String> {
        None
    }
}

impl Workload {
    /// The workload as the rest of vtax sees it. Only this tells the families apart.
    #[must_use]
    pub fn model(&self) -> &dyn WorkloadModel {
        match self {
            Self::Http(http) => http,
            Self::Sip(sip) => sip.as_ref(),
            Self::Script(script) => script.as_ref(),
            Self::Network(network) => network,
            Self::Redis(redis) => redis,
            Self::Storage(storage) => storage,
            Self::Ftp(ftp) => ftp.as_ref(),
            Self::Desktop(desktop) => desktop,
        }
    }
}
