//! HTTP load: GET requests over connections that are kept or closed.

mod dialogue;
mod session;
mod spec;

pub use session::HttpSession;
pub use spec::{HttpRequests, HttpSpec};
