//! What calls after a scenario showed besides what all loads do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::LatencyHistogram;
use crate::family::sip::media::SoundFigures;
use crate::family::sip::{SipConnections, Traffic};

/// What the calls of a step showed, warm-up included.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ScriptFigures {
    /// The scenario's name.
    pub scenario: String,
    /// Calls that began.
    pub calls: u64,
    /// Calls that ended as the scenario says.
    pub succeeded: u64,
    /// Failed calls by cause, with the line of the scenario.
    pub failed: BTreeMap<String, u64>,
    /// What each command did, in their order.
    pub commands: Vec<CommandCounts>,
    /// What `start_rtd` and `rtd` timed, in the order in which the scenario mentions them.
    pub timers: Vec<TimerFigures>,
    /// From the intended start to the end of calls that succeeded.
    pub length: LatencyHistogram,
    /// The scenario's counters.
    pub counters: BTreeMap<String, u64>,
    /// Messages.
    pub traffic: Traffic,
    /// Messages that belonged to no call or could not be used, by kind.
    pub stray: BTreeMap<String, u64>,
    /// Connections; `None` over UDP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections: Option<SipConnections>,
    /// What calls sounded like, where they had sound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sound: Option<Box<SoundFigures>>,
    /// What `<log>` and `<warning>` said, the first lines of each worker.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub log: Vec<String>,
    /// How many more lines there would have been.
    pub log_left_out: u64,
}

/// What a command did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandCounts {
    /// Line of the scenario.
    pub line: u32,
    /// The command in a few words.
    pub label: String,
    /// How often it was carried out; for `recv`, how often its message came.
    pub done: u64,
    /// Messages sent again, or that came again.
    pub again: u64,
    /// How often its message didn't come in time.
    pub timeouts: u64,
    /// Messages that came instead of its own.
    pub unexpected: u64,
    /// Messages lost on purpose.
    pub lost: u64,
}

/// What a timer timed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TimerFigures {
    /// Its name; 1 is that of `rtd="true"`.
    pub name: String,
    /// The times.
    pub times: LatencyHistogram,
}

impl ScriptFigures {
    /// Adds what others found of the same scenario: another worker, or another trial.
    pub fn add(&mut self, other: Self) {
        if self.commands.is_empty() {
            *self = other;
            return;
        }
        // A stored result may say anything.
        let add = |own: &mut u64, more: u64| *own = own.saturating_add(more);
        add(&mut self.calls, other.calls);
        add(&mut self.succeeded, other.succeeded);
        for (own, more) in [
            (&mut self.failed, other.failed),
            (&mut self.counters, other.counters),
            (&mut self.stray, other.stray),
        ] {
            for (name, count) in more {
                add(own.entry(name).or_default(), count);
            }
        }
        for (own, more) in self.commands.iter_mut().zip(other.commands) {
            add(&mut own.done, more.done);
            add(&mut own.again, more.again);
            add(&mut own.timeouts, more.timeouts);
            add(&mut own.unexpected, more.unexpected);
            add(&mut own.lost, more.lost);
        }
        for (own, more) in self.timers.iter_mut().zip(&other.timers) {
            own.times.add(&more.times);
        }
        self.length.add(&other.length);
        self.traffic.add(&other.traffic);
        match (&mut self.sound, other.sound) {
            (Some(own), Some(more)) => own.add(&more),
            (own, more) => *own = own.take().or(more),
        }
        if let Some(more) = other.connections {
            self.connections.get_or_insert_default().add(more);
        }
        self.log.extend(other.log);
        add(&mut self.log_left_out, other.log_left_out);
    }
}
