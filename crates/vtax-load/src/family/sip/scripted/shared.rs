//! What all workers of a load share and never change.

use vtax_plan::model::SipTransport;
use vtax_wire::sip::Transport;
use vtax_wire::sipp::{Injection, Scenario};

use super::spec::{ScriptSettings, ScriptSpec};
use crate::{LoadError, Part};

/// The compiled scenario with all it needs.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) scenario: Scenario,
    pub(super) injections: Vec<Injection>,
    pub(super) settings: ScriptSettings,
    pub(super) password: String,
    pub(super) target: std::net::SocketAddr,
    pub(super) transport: Transport,
    /// A connection for each call.
    pub(super) connection_per_call: bool,
    /// How long a message is waited for that has no timeout of its own, in nanoseconds.
    pub(super) timeout: u64,
    /// What names this process in messages.
    pub(super) pid: u32,
    /// Which of several generators' calls these are.
    pub(super) part: Part,
}

impl Shared {
    /// Compiles the scenario and reads its injection files.
    ///
    /// # Errors
    /// Everything that is wrong with them, each with its line.
    pub(super) fn new(spec: &ScriptSpec) -> Result<Self, LoadError> {
        spec.check()?;
        let keys = &spec.settings.keys;
        let file = if spec.settings.file.is_empty() { "the scenario" } else { spec.settings.file.as_str() };
        let refuse = |reason| LoadError::Spec { field: "scenario", reason };
        let mut scenario = Scenario::compile(spec.scenario.as_bytes(), keys).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(|problem| format!("{file}, {problem}")).collect();
            refuse(lines.join("\n"))
        })?;
        let mut injections = Vec::new();
        for name in scenario.names.files.clone() {
            // The file without a name is the first that is given.
            let found = spec.injections.iter().find(|(own, _)| *own == name || name.is_empty());
            let Some((own, text)) = found else {
                let which = if name.is_empty() { String::new() } else { format!(" {name}") };
                return Err(refuse(format!(
                    "{file}: a field needs an injection file{which}, which isn't there"
                )));
            };
            let read = Injection::read(text.as_bytes(), &mut scenario.names, keys);
            injections.push(read.map_err(|e| refuse(format!("{own}: {e}")))?);
        }
        Ok(Self {
            scenario,
            injections,
            settings: spec.settings.clone(),
            password: spec.password.clone(),
            target: spec.pool.target,
            transport: match spec.transport {
                SipTransport::Udp => Transport::Udp,
                SipTransport::Tcp => Transport::Tcp,
                SipTransport::Tls => Transport::Tls,
            },
            connection_per_call: spec.connection_per_call,
            timeout: spec.pool.timeout.0,
            pid: std::process::id(),
            part: spec.part,
        })
    }
}
