//! SIP: subscribers, scenarios and the time profile of the IMS benchmark (ETSI TS 186 008).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use vtax_units::{Bytes, Nanos, Rate, Share};

use super::script::model::is_false;
use crate::model::load::ArrivalProcess;
use crate::tls::TlsVersion;

/// Who a SIP service knows. Subscriber `i` (from 0) has the identities and the password that the
/// formats give for `i`: `%d` or `%06d` stands for it, at most once; `%%` is a percent sign.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Subscribers {
    /// How many.
    pub count: u32,
    /// User part of the public identity, `subs%06d`; the address of record is `sip:USER@DOMAIN`.
    pub public: String,
    /// Private identity: the user name of digest authentication.
    pub private: String,
    /// Password.
    pub password: String,
    /// Realm of digest authentication.
    pub realm: String,
    /// Domain of the addresses of record.
    pub domain: String,
}

/// Options of vtax's own SIP registrar and proxy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SipOptions {
    /// UDP and TCP port.
    pub port: u16,
    /// Worker threads; `None`: one per CPU of the environment.
    pub workers: Option<u32>,
    /// Connections speak TLS, and nothing else, with a certificate made at its start. The workload says so: see
    /// [`ServiceKind::for_workload`](crate::model::ServiceKind::for_workload).
    #[serde(default, skip_serializing_if = "is_false")]
    pub tls: bool,
}

/// Options of Kamailio with MariaDB.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KamailioOptions {
    /// UDP and TCP port.
    pub port: u16,
    /// Worker processes per transport; `None`: Kamailio's usual eight.
    pub children: Option<u32>,
    /// Shared memory of all its processes.
    pub shared_memory: Bytes,
    /// T1 of RFC 3261 section 17; its other timers follow: T2 is 8, T4 10, timers B and F are 64 times this.
    pub t1: Nanos,
    /// When registrations reach the database.
    pub location: LocationMode,
    /// What the sound of calls goes through; `None`: it goes from end to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media_relay: Option<MediaRelay>,
    /// Connections speak TLS, and nothing else, with a certificate made at its start. The workload says so: see
    /// [`ServiceKind::for_workload`](crate::model::ServiceKind::for_workload).
    #[serde(default, skip_serializing_if = "is_false")]
    pub tls: bool,
}

impl KamailioOptions {
    /// What it is in a few words, and the packages that it comes from.
    pub(crate) const fn described(&self) -> (&'static str, &'static [&'static str]) {
        match (self.media_relay, self.tls) {
            (None, false) => (
                "Kamailio with MariaDB, private configuration",
                &["kamailio", "kamailio-mysql-modules", "mariadb-server"],
            ),
            (None, true) => (
                "Kamailio with TLS and MariaDB, private configuration",
                &["kamailio", "kamailio-mysql-modules", "kamailio-tls-modules", "mariadb-server"],
            ),
            (Some(MediaRelay::Rtpengine), false) => (
                "Kamailio with MariaDB and rtpengine, private configuration",
                &["kamailio", "kamailio-mysql-modules", "mariadb-server", "rtpengine-daemon"],
            ),
            (Some(MediaRelay::Rtpengine), true) => (
                "Kamailio with TLS, MariaDB and rtpengine, private configuration",
                &[
                    "kamailio",
                    "kamailio-mysql-modules",
                    "kamailio-tls-modules",
                    "mariadb-server",
                    "rtpengine-daemon",
                ],
            ),
        }
    }
}

/// A relay of calls' sound, which a proxy puts into their session descriptions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MediaRelay {
    /// Sipwise's rtpengine, without its kernel module.
    Rtpengine,
}

/// When registrations reach the database: Kamailio's `usrloc` parameter `db_mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LocationMode {
    /// Kept in memory only (0).
    Memory,
    /// Before the answer (1).
    WriteThrough,
    /// From a timer, as in the study (2).
    WriteBack,
}

/// A SIP workload: which scenarios, by whom, how long their parts take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SipWorkload {
    /// Transport between generator and service.
    pub transport: SipTransport,
    /// TLS, where that is the transport.
    #[serde(default, skip_serializing_if = "SipTls::is_usual")]
    pub tls: SipTls,
    /// Who may call. The service is provisioned with the same.
    pub subscribers: Subscribers,
    /// Share of the subscribers registered before the first step.
    pub registered: Share,
    /// Scenarios; the shares add up to 1.
    pub mix: Vec<MixPart>,
    /// From the callee's 180 to its 200.
    pub ring_time: Spread,
    /// From the caller's ACK to its BYE.
    pub hold_time: Spread,
    /// Bytes of a page-mode message's text, uniform between the two.
    pub message_bytes: (Bytes, Bytes),
    /// Registration time asked for.
    pub expires: Nanos,
    /// Source addresses of the generator; subscribers are spread over them.
    pub addresses: u32,
    /// Estimate of the round-trip time, T1 of RFC 3261 section 17.1.1.1; all timers follow from it.
    pub t1: Nanos,
    /// The longest a metric may take before its scenario is inadequately handled.
    pub limits: BTreeMap<SipMetric, Nanos>,
}

impl SipWorkload {
    /// Most registrations per second before a given load, for which the plan names no rate; a service that is
    /// slower is given the time.
    pub const REGISTRATION_RATE: Rate = Rate(1_000.0);
    /// Share of the registered subscribers that may be in calls on a service that takes no time. Beyond it a caller may
    /// find nobody free for the plan's reason, and not for the service's.
    pub const MOST_BUSY: Share = Share(0.5);

    /// Subscribers that are to be registered before the first step.
    #[must_use]
    pub fn registered_count(&self) -> f64 {
        f64::from(self.subscribers.count) * self.registered.0
    }

    /// Subscribers in calls at a time where this many scenarios per second are attempted and the
    /// service takes no time: by Little's law, two for each call.
    #[must_use]
    pub fn busy_at(&self, rate: Rate) -> f64 {
        let mean = |spread: Spread| match spread {
            Spread::Constant(time) | Spread::Exponential(time) => time.as_secs_f64(),
        };
        let (ring, hold) = (mean(self.ring_time), mean(self.hold_time));
        let seconds = |scenario| match scenario {
            Scenario::Calling | Scenario::ReInvite => ring + hold,
            Scenario::CallerAbandons => ring,
            _ => 0.0,
        };
        self.mix.iter().map(|p| 2.0 * rate.0 * p.share.0 * seconds(p.scenario)).sum()
    }

    /// The highest rate that the plan's subscribers are enough for: a higher one would have more than
    /// [`MOST_BUSY`](Self::MOST_BUSY) of them in calls. Infinite for a mix without calls.
    #[must_use]
    pub fn most_rate(&self) -> Rate {
        match self.busy_at(Rate(1.0)) {
            0.0 => Rate(f64::INFINITY),
            busy => Rate(self.registered_count() * Self::MOST_BUSY.0 / busy),
        }
    }
}

/// Transport of SIP messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SipTransport {
    /// Datagrams, with retransmission by the transactions.
    Udp,
    /// One connection per source address and worker, unless each call has its own; messages framed by Content-Length.
    Tcp,
    /// The same with TLS.
    Tls,
}

impl SipTransport {
    /// As plans and command lines have it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }
}

/// TLS of SIP, where the transport is that.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SipTls {
    /// The only version that is offered; `None`: TLS 1.2 and 1.3.
    pub version: Option<TlsVersion>,
    /// The only cipher suite that is offered, as IANA names it.
    pub cipher: Option<String>,
    /// Whether connections resume sessions of earlier ones.
    pub resume: bool,
}

impl SipTls {
    /// Whether nothing is said of it.
    #[must_use]
    pub fn is_usual(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for SipTls {
    fn default() -> Self {
        Self { version: None, cipher: None, resume: true }
    }
}

/// One scenario's part in the mix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MixPart {
    /// The scenario.
    pub scenario: Scenario,
    /// Its share of all attempts.
    pub share: Share,
    /// Share of its attempts that may be inadequately handled.
    pub ihs_limit: Share,
}

/// What two subscribers, or one and the registrar, do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scenario {
    /// REGISTER, 401, REGISTER with credentials, 200, by a subscriber who isn't registered.
    Registration,
    /// The same binding again.
    ReRegistration,
    /// Expires 0.
    DeRegistration,
    /// INVITE, 100, 180, ring time, 200, ACK, hold time, BYE, 200.
    Calling,
    /// MESSAGE, 200.
    Messaging,
    /// The callee answers 486.
    CalleeRejects,
    /// The caller cancels while it rings: CANCEL, 200, 487, ACK.
    CallerAbandons,
    /// The callee does not exist: 404.
    CalleeUnknown,
    /// MESSAGE to a subscriber who isn't registered: 404.
    MessageUnregistered,
    /// A call in which the caller sends a second INVITE before the BYE.
    ReInvite,
}

impl Scenario {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 10] = [
        Self::Calling,
        Self::Messaging,
        Self::ReRegistration,
        Self::Registration,
        Self::DeRegistration,
        Self::CalleeRejects,
        Self::CallerAbandons,
        Self::CalleeUnknown,
        Self::MessageUnregistered,
        Self::ReInvite,
    ];

    /// Its name in plans and reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Registration => "registration",
            Self::ReRegistration => "re-registration",
            Self::DeRegistration => "de-registration",
            Self::Calling => "calling",
            Self::Messaging => "messaging",
            Self::CalleeRejects => "callee-rejects",
            Self::CallerAbandons => "caller-abandons",
            Self::CalleeUnknown => "callee-unknown",
            Self::MessageUnregistered => "message-unregistered",
            Self::ReInvite => "re-invite",
        }
    }
}

/// What is timed (ETSI TS 186 008-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SipMetric {
    /// REGISTER to 401.
    Reg1,
    /// REGISTER with credentials to 200.
    Reg2,
    /// Re-REGISTER to 200.
    Reg4,
    /// INVITE sent to ACK received by the callee, ring time taken out.
    Ses1,
    /// INVITE sent to INVITE received.
    Ses2,
    /// First INVITE sent to second ACK received, ring time taken out.
    Ses3,
    /// BYE to 200.
    Rel1,
    /// MESSAGE to 200.
    Pmm1,
    /// MESSAGE to 404.
    Pmm2,
}

impl SipMetric {
    /// All of them, in the order of the standard.
    pub const ALL: [Self; 9] = [
        Self::Reg1,
        Self::Reg2,
        Self::Reg4,
        Self::Ses1,
        Self::Ses2,
        Self::Ses3,
        Self::Rel1,
        Self::Pmm1,
        Self::Pmm2,
    ];

    /// Its name in the standard.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Reg1 => "PX_TRT-REG1",
            Self::Reg2 => "PX_TRT-REG2",
            Self::Reg4 => "PX_TRT-REG4",
            Self::Ses1 => "PX_TRT-SES1",
            Self::Ses2 => "PX_TRT-SES2",
            Self::Ses3 => "PX_TRT-SES3",
            Self::Rel1 => "PX_TRT-REL1",
            Self::Pmm1 => "PX_TRT-PMM1",
            Self::Pmm2 => "PX_TRT-PMM2",
        }
    }
}

/// A random length of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "spread", content = "mean", rename_all = "kebab-case")]
pub enum Spread {
    /// Exponential with this mean.
    Exponential(Nanos),
    /// Always this.
    Constant(Nanos),
}

/// The IMS benchmark: pre-registration, stir, then the load that finds the design objective
/// capacity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImsMeasure {
    /// Most registrations per second before the first step.
    pub registration_rate: Rate,
    /// Share of those registrations that may be inadequately handled.
    pub registration_ihs_limit: Share,
    /// Time over which the load rises to that of the first step; zero: none.
    pub stir: Nanos,
    /// Steps of that rise.
    pub stir_steps: u32,
    /// Share of the stir's scenarios that may be inadequately handled.
    pub stir_ihs_limit: Share,
    /// How the capacity is found.
    pub ramp: Ramp,
    /// Length of one step.
    pub step: Nanos,
    /// Time at the start of each step that doesn't count.
    pub transient: Nanos,
    /// Arrival process.
    pub arrivals: ArrivalProcess,
    /// Share of a step's scenarios that may be inadequately handled, all kinds together.
    pub ihs_limit: Share,
}

/// How the design objective capacity is found.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Ramp {
    /// Equal steps until one breaks a limit, as in the standard.
    Steps {
        /// Scenario attempts per second of the first step.
        initial: Rate,
        /// What each step adds.
        increase: Rate,
        /// At most this many.
        count: u32,
    },
    /// A search, then a step of confirmation at the rate found.
    Search {
        /// Scenario attempts per second of the first step of a cell's first trial; later ones begin at what was found.
        start: Rate,
        /// No step goes above this rate.
        max: Rate,
        /// The search ends when the bracket is narrower than this share of its lower bound.
        precision: Share,
        /// Length of one step of the search, transient included; the confirmation has the measure's own.
        step: Nanos,
    },
}
