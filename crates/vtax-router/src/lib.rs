//! Routers in network namespaces: what a [`Blueprint`](vtax_topology::Blueprint) asks for, built on this machine.
//!
//! Called inside a lab node, on the host or in a guest: the process must be the first of a PID namespace, or of a
//! guest, and have mounts of its own, so that everything ends with it. [`RouterLab::raise`] builds, starts FRR and proves
//! that the routers agree; [`RouterLab::inject`] breaks and mends; [`RouterLab::timeline`] tells what the routers said of it;
//! [`RouterLab::hops`] where packets spent their time.

mod build;
mod capture;
mod echo;
mod error;
mod events;
mod frr;
mod hops;
mod lab;
mod machine;
mod proof;
mod sieve;
mod stream;
mod vty;
mod watch;

pub use capture::{Capture, full_after};
pub use error::{Result, RouterError};
pub use lab::{CommandOutcome, DoorPlace, ProbeStreamResult, Raised, RouterLab, run_here, run_in};
pub use machine::{PACKAGE, installed, missing, obstacle};
