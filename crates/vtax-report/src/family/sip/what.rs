//! What is measured: names, units and words of every measurement of the report.

use vtax_plan::model::{Scenario, SipMetric};

/// One measurement. The order is that of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// Scenario attempts per second.
    Saps,
    /// CPU of the system under test, in percent of its CPUs.
    SutCpu,
    /// CPU of the process that is the virtual machine, as the host sees it.
    HypervisorCpu,
    /// Memory its kernel has left.
    SutMemory,
    /// Memory in use: of its processes, in a guest of the whole guest.
    SutUsed,
    /// CPU of the generator, in percent of its CPUs.
    GeneratorCpu,
    /// Memory the generator's kernel has left.
    GeneratorMemory,
    /// Inadequately handled scenarios, of all or of one.
    Ihs(Option<Scenario>),
    /// Retransmissions of the generator, in all scenarios or in one.
    Retransmissions(Option<Scenario>),
    /// A response time, in all scenarios that have it or in one.
    Delay(SipMetric, Option<Scenario>),
}

/// A group of measurements with a heading of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Topic {
    Load,
    Resources,
    Ihs,
    Retransmissions,
    Calling,
    Messaging,
    Registration,
}

impl Topic {
    pub(crate) const ALL: [Self; 7] = [
        Self::Load,
        Self::Resources,
        Self::Ihs,
        Self::Retransmissions,
        Self::Calling,
        Self::Messaging,
        Self::Registration,
    ];

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Load => "Load",
            Self::Resources => "CPU and memory",
            Self::Ihs => "Inadequately handled scenarios",
            Self::Retransmissions => "Retransmissions",
            Self::Calling => "Calling",
            Self::Messaging => "Messaging",
            Self::Registration => "Registration",
        }
    }

    pub(crate) fn id(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Resources => "resources",
            Self::Ihs => "handling",
            Self::Retransmissions => "resending",
            Self::Calling => "calls",
            Self::Messaging => "messages",
            Self::Registration => "registrations",
        }
    }
}

impl What {
    pub(crate) fn topic(self) -> Topic {
        match self {
            Self::Saps => Topic::Load,
            Self::SutCpu
            | Self::HypervisorCpu
            | Self::SutMemory
            | Self::SutUsed
            | Self::GeneratorCpu
            | Self::GeneratorMemory => Topic::Resources,
            Self::Ihs(_) => Topic::Ihs,
            Self::Retransmissions(_) => Topic::Retransmissions,
            Self::Delay(SipMetric::Ses1 | SipMetric::Ses2 | SipMetric::Ses3 | SipMetric::Rel1, _) => {
                Topic::Calling
            }
            Self::Delay(SipMetric::Pmm1 | SipMetric::Pmm2, _) => Topic::Messaging,
            Self::Delay(SipMetric::Reg1 | SipMetric::Reg2 | SipMetric::Reg4, _) => Topic::Registration,
        }
    }

    /// Name in the page's addresses, sheets and CSV files: `saps`, `ihs-calling`, `reg1-registration`.
    pub(crate) fn id(self) -> String {
        let with = |base: &str, scenario: Option<Scenario>| match scenario {
            Some(s) => format!("{base}-{}", s.name()),
            None => base.to_owned(),
        };
        match self {
            Self::Saps => "saps".to_owned(),
            Self::SutCpu => "sut-cpu".to_owned(),
            Self::HypervisorCpu => "hypervisor-cpu".to_owned(),
            Self::SutMemory => "sut-memory".to_owned(),
            Self::SutUsed => "sut-memory-used".to_owned(),
            Self::GeneratorCpu => "generator-cpu".to_owned(),
            Self::GeneratorMemory => "generator-memory".to_owned(),
            Self::Ihs(s) => with("ihs", s),
            Self::Retransmissions(s) => with("retransmissions", s),
            Self::Delay(m, s) => with(&m.name().trim_start_matches("PX_TRT-").to_lowercase(), s),
        }
    }

    pub(crate) fn title(self) -> String {
        let with = |base: &str, scenario: Option<Scenario>| match scenario {
            Some(s) => format!("{base}, {}", scenario_label(s)),
            None => base.to_owned(),
        };
        match self {
            Self::Saps => "Scenario attempts per second".to_owned(),
            Self::SutCpu => "SUT CPU".to_owned(),
            Self::HypervisorCpu => "SUT CPU as the host sees it".to_owned(),
            Self::SutMemory => "SUT available memory".to_owned(),
            Self::SutUsed => "SUT memory in use".to_owned(),
            Self::GeneratorCpu => "Generator CPU".to_owned(),
            Self::GeneratorMemory => "Generator available memory".to_owned(),
            Self::Ihs(None) => "Inadequately handled scenarios, all".to_owned(),
            Self::Ihs(s) => with("Inadequately handled", s),
            Self::Retransmissions(None) => "Retransmissions, all scenarios".to_owned(),
            Self::Retransmissions(s) => with("Retransmissions", s),
            Self::Delay(m, None) => format!("{}: {}, all scenarios", m.name(), delay_name(m)),
            Self::Delay(m, s) => with(&format!("{}: {}", m.name(), delay_name(m)), s),
        }
    }

    /// What the figures are of, in a sentence.
    pub(crate) fn sentence(self) -> String {
        let of = |s: Option<Scenario>| match s {
            Some(s) => format!("of {} that started", scenario_label(s)),
            None => "of all scenarios that started".to_owned(),
        };
        match self {
            Self::Saps => "Scenarios that the generator started in each second.".to_owned(),
            Self::SutCpu => "CPU time of the system under test in percent of its CPUs: natively of the service's processes and of the interrupts on its CPUs, in a VM of the whole guest as the guest counts it.".to_owned(),
            Self::HypervisorCpu => "CPU time of QEMU, the guest's included, in percent of the CPUs given to the system under test.".to_owned(),
            Self::SutUsed => "Natively the memory of the service's processes: what is each one's own, and what the largest of them shares with others. In a VM all that the guest uses.".to_owned(),
            Self::SutMemory => "Memory available in the system under test: natively in the whole host, in a VM in the guest.".to_owned(),
            Self::GeneratorCpu => "CPU time of the generator's own processes and of the interrupts on its CPUs, in percent of these CPUs.".to_owned(),
            Self::GeneratorMemory => "Memory available where the generator runs.".to_owned(),
            Self::Ihs(s) => format!("Share {} in each second and failed, timed out or took longer than a limit. The mean over seconds isn't the step's IHS, which is in the table of steps.", of(s)),
            Self::Retransmissions(None) => "Requests and responses that the generator sent again in each second.".to_owned(),
            Self::Retransmissions(Some(s)) => format!("Requests and responses of {} that the generator sent again in each second.", scenario_label(s)),
            Self::Delay(m, _) => delay_sentence(m).to_owned(),
        }
    }

    /// Unit of tables and axes.
    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Saps => "SAPS",
            Self::SutCpu | Self::HypervisorCpu | Self::GeneratorCpu | Self::Ihs(_) => "%",
            Self::SutMemory | Self::SutUsed | Self::GeneratorMemory => "MiB",
            Self::Retransmissions(_) => "/s",
            Self::Delay(..) => "ms",
        }
    }

    /// What one value is, where a table counts them.
    pub(crate) fn values(self) -> &'static str {
        match self {
            Self::Delay(..) => "Values",
            Self::Saps | Self::Ihs(_) | Self::Retransmissions(_) => "Seconds",
            _ => "Samples",
        }
    }

    /// Whether values span so many sizes that axes are logarithmic.
    pub(crate) fn logarithmic(self) -> bool {
        matches!(self, Self::Delay(..))
    }
}

/// `calling`, `re-registration`.
pub(crate) fn scenario_label(s: Scenario) -> &'static str {
    s.name()
}

/// Name of the scenario in the test tool of the study, where it had it.
pub(crate) fn old_scenario(s: Scenario) -> Option<&'static str> {
    match s {
        Scenario::Calling => Some("ims_uac"),
        Scenario::Messaging => Some("ims_msgc"),
        Scenario::ReRegistration => Some("ims_rereg"),
        Scenario::Registration => Some("ims_reg"),
        Scenario::DeRegistration => Some("ims_dereg"),
        _ => None,
    }
}

fn delay_name(m: SipMetric) -> &'static str {
    match m {
        SipMetric::Reg1 => "first register transaction",
        SipMetric::Reg2 => "second register transaction",
        SipMetric::Reg4 => "re-register transaction",
        SipMetric::Ses1 => "session set-up time",
        SipMetric::Ses2 => "session initiation transversal time",
        SipMetric::Ses3 => "INVITE and re-INVITE cost",
        SipMetric::Rel1 => "session release",
        SipMetric::Pmm1 => "message transmission time",
        SipMetric::Pmm2 => "message transmission time, error case",
    }
}

fn delay_sentence(m: SipMetric) -> &'static str {
    match m {
        SipMetric::Reg1 => "From REGISTER to 401 Unauthorized.",
        SipMetric::Reg2 => "From the REGISTER with credentials to its 200 OK.",
        SipMetric::Reg4 => "From the REGISTER that renews a binding to its 200 OK.",
        SipMetric::Ses1 => {
            "From the caller's INVITE to the callee's receipt of the ACK, ring time taken out."
        }
        SipMetric::Ses2 => "From the caller's INVITE to its receipt by the callee.",
        SipMetric::Ses3 => {
            "From the caller's first INVITE to the callee's receipt of the second ACK, ring time taken out."
        }
        SipMetric::Rel1 => "From BYE to its 200 OK.",
        SipMetric::Pmm1 => "From MESSAGE to its 200 OK.",
        SipMetric::Pmm2 => "From MESSAGE to 404 Not Found.",
    }
}
