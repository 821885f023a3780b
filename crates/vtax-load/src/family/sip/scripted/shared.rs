//! What all workers of a load share and never change.

use vtax_plan::model::SipTransport;
use vtax_wire::sip::Transport;
use vtax_wire::sipp::{Injection, Scenario};

use super::spec::{ScriptSettings, ScriptSpec};
use crate::LoadError;

/// The compiled scenario with all it needs.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) scenario: Scenario,
    pub(super) injections: Vec<Injection>,
    pub(super) settings: ScriptSettings,
    pub(super) target: std::net::SocketAddr,
    pub(super) transport: Transport,
    /// How long a message is waited for that has no timeout of its own, in nanoseconds.
    pub(super) timeout: u64,
    /// What names this process in messages.
    pub(super) pid: u32,
}

impl Shared {
    /// Compiles the scenario and reads its injection files.
    ///
    /// # Errors
    /// Everything that is wrong with them, each with its line.
    pub(super) fn new(spec: &ScriptSpec) -> Result<Self, LoadError> {
        spec.check()?;
        let keys = &spec.settings.keys;
        let file = if spec.settings.file.is_empty() { "the scenario" } else { &spec.settings.file };
        let refuse = |reason| LoadError::Spec { field: "scenario", reason };
        let mut scenario = Scenario::compile(spec.scenario.as_bytes(), keys).map_err(|problems| {
            let lines: Vec<String> = problems.iter().map(|problem| format!("{file}, {problem}")).collect();
            refuse(lines.join("\n"))
        })?;
        let mut injections = Vec::new();
        let mut named = scenario.names.files.clone();
        // A file that is given without a name is that of `[field0]`, which may be the only one that is used.
        for name in named.drain(..) {
            let first = name.is_empty();
            let found = spec.injections.iter().enumerate().find(|(i, (own, _))| *own == name || (first && *i == 0));
            let Some((_, (own, text))) = found else {
                let what = if first { "[field0] needs an injection file".to_owned() } else { format!("there is no injection file {name}") };
                // The first of a list is there for the one without a name, whether it is used or not.
                if first && !uses_first(&scenario) {
                    injections.push(Injection::read(b"SEQUENTIAL\n-\n", &mut scenario.names, keys).map_err(|e| refuse(e.to_string()))?);
                    continue;
                }
                return Err(refuse(format!("{file}: {what}")));
            };
            let read = Injection::read(text.as_bytes(), &mut scenario.names, keys);
            injections.push(read.map_err(|e| refuse(format!("{own}: {e}")))?);
        }
        Ok(Self {
            scenario,
            injections,
            settings: spec.settings.clone(),
            target: spec.pool.target,
            transport: match spec.transport {
                SipTransport::Udp => Transport::Udp,
                SipTransport::Tcp => Transport::Tcp,
            },
            timeout: spec.pool.timeout.0,
            pid: std::process::id(),
        })
    }
}

/// Whether a field of the file without a name is used anywhere.
fn uses_first(scenario: &Scenario) -> bool {
    use vtax_wire::sipp::{Keyword, Kind, Part};
    fn any(parts: &[Part]) -> bool {
        parts.iter().any(|part| match part {
            Part::Keyword(Keyword::Field(0, _)) => true,
            Part::Keyword(Keyword::Authentication(user, password)) => any(user) || any(password),
            Part::Line(parts) => any(parts),
            _ => false,
        })
    }
    scenario.commands.iter().any(|command| match &command.kind {
        Kind::Send(send) => any(&send.message.parts),
        // Actions may have one as well; it is asked for then.
        Kind::Receive(receive) => !receive.actions.is_empty(),
        Kind::Nop(actions) => !actions.is_empty(),
        Kind::Pause(_) | Kind::TimeWait(_) => false,
    })
}
