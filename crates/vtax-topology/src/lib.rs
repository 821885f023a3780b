//! Routed topologies: routers and links, what their routers are told, and what must hold once they have agreed.
//!
//! Pure: nothing here does I/O. The way from a plan to what is built:
//!
//! 1. [`options`]: what a plan says, stored in runs;
//! 2. [`model`]: the topology it means, made by [`builtin`] or written out in the plan, and [checked](check::check);
//! 3. [`blueprint`]: nodes, interfaces, files and daemons, the same for FRR's routers of a plan ([`frr`] writes their
//!    configuration) and for containerlab's files ([`containerlab`]);
//! 4. [`expect`]: what must hold before a trial, and [`state`]: whether FRR's answers say so.
//!
//! [`convergence`] judges what a stream of probes saw of a fault, [`hops`] where packets spent their time, and [`graph`] draws.

pub mod address;
pub mod bfd;
pub mod blueprint;
pub mod builtin;
pub mod check;
pub mod containerlab;
pub mod convergence;
pub mod event;
pub mod expect;
pub mod frr;
pub mod graph;
pub mod hops;
pub mod model;
pub mod name;
pub mod options;
pub mod state;
pub mod timeline;

pub use address::Prefix;
pub use blueprint::Blueprint;
pub use model::Topology;
pub use name::Name;
pub use options::RoutedOptions;
