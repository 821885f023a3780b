//! A page to watch, browse, compare and start runs: `vtax serve` (docs/serve.md).
//!
//! It reads run directories and writes nothing into them. What a request costs is done on threads for that, and one
//! thread of tokio waits for all connections. Nothing here measures.

mod app;
mod cost;
mod events;
mod guard;
mod index;
mod jobs;
mod link_page;
mod metrics;
mod net;
mod options;
mod pages;
mod refusal;
mod token;
mod watched;
mod write_deadline;

pub use link_page::LinkPage;
pub use net::Server;
pub use options::{Check, Options, ServeError, StartOptions, TlsFiles};
pub use token::Token;
