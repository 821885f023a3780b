//! Many machines: hosts by ssh, Slurm or Kubernetes, and a whole run on each.
//!
//! An [`Engine`] is three verbs, spoken through the user's own programs: get hosts, open a byte stream to each, end all. On
//! the stream [`serve`] (the host's end, `vtax host-agent`) and [`attend`] (this end) speak frames. Each host makes a whole
//! run by itself, rounds of baseline and candidates alike, and what it stores comes here as it is written.
//! docs/many-machines.md explains it to its users.

mod agent;
mod barrier;
mod engine;
mod error;
pub mod exit_code;
mod inventory;
mod list;
mod message;
mod mirror;
mod outbox;
mod run;
mod session;
mod start;
mod state;
mod streams;
mod watchdog;

pub use agent::{HostAgent, serve};
pub use barrier::StartBarrier;
pub use engine::{Engine, Kubernetes, KubernetesOptions, Machine, Slurm, SlurmOptions, Ssh};
pub use error::HostsError;
pub use list::{HostSpec, On, parse_on};
pub use message::{HostTask, PROTOCOL};
pub use mirror::SMALL_FILE_BYTES;
pub use run::{OnHosts, run_on};
pub use session::Outcome;
pub use state::{HOSTS_LOCK, HOSTS_VERSION, HostRecord, HostState, HostsFile, lock_hosts, run_directories};
pub use streams::{Outside, is_deserted, say_there_are_none, serve_streams, stream_sockets};
