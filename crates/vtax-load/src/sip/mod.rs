//! SIP load: subscribers who register, call and write to each other through the service.
//!
//! State outlives a step (who is registered, which calls are up), so a load is a session: opened
//! once, then driven through profiles of phases.

mod result;
mod spec;

pub use result::*;
pub use spec::*;
