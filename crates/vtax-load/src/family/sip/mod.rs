//! SIP load: subscribers who register, call and write to each other through the service.
//!
//! State outlives a step (who is registered, which calls are up), so a load is a session: opened
//! once, then driven through profiles of phases.

mod attempt;
mod auth;
mod barrier;
mod callee;
mod caller;
mod compose;
mod congestion;
mod connections;
mod line;
mod media;
mod merge;
mod recorder;
mod result;
mod scripted;
mod session;
mod setup;
mod spec;
mod stream;
mod token;
mod uas;
mod unmatched;
mod user_agents;
mod users;
mod wheel;
mod worker;

pub use connections::SipConnections;
pub use media::{MediaOptions, Ratings, SoundDirection, SoundFigures, SoundPace};
pub use result::*;
pub use scripted::{
    CommandCounts, ScriptFigures, ScriptSession, ScriptSettings, ScriptSpec, TimerFigures, answer_script,
    answering,
};
pub use session::SipSession;
pub use spec::*;
pub use uas::answer_calls;
