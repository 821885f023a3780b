//! FTP: clients who log in, move files and leave, in the clear or with TLS; every byte that comes is compared.
//!
//! A worker is a thread with an epoll of its own and its share of the sessions. A session has a control connection and, while a transfer
//! is under way, a data connection ([`slot`]). What replies mean is in [`control`], what happens on data connections in [`data`].

mod channel;
mod content;
mod control;
mod data;
mod engine;
mod interrupted;
mod result;
mod session;
mod slot;
mod spec;
mod tally;
mod tls;
mod worker;

pub use result::{FtpDetails, FtpHandshakes, FtpPhase, FtpTransfers, PhaseTimes};
pub use session::FtpSession;
pub use spec::{FtpSpec, FtpVerify};
