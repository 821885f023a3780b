//! SIPp's scenario files, carried out: calls that begin when they are due, or that are answered.
//!
//! A [`Machine`](machine::Machine) has the calls and knows no socket; whoever has the sockets gives it what comes, and sends what it says.
//! Nothing here allocates for a message once the memory of as many calls as there are at once has grown to their messages.

mod act;
mod answering;
mod call;
mod client;
mod end;
mod lines;
mod machine;
mod messages;
mod receive;
mod render;
mod result;
mod server;
mod session;
mod shared;
mod sound;
mod spec;

pub use answering::answering;
pub use result::{CommandCounts, ScriptFigures, TimerFigures};
pub use server::answer_script;
pub use session::ScriptSession;
pub use spec::{ScriptSettings, ScriptSpec};
