//! Testbeds: nodes, links, switches; deploy and destroy.
//!
//! A [`Lab`] is made inside a controller ([`vtax_sys::controller`]), whose namespaces it fills:
//! [`Lab::build`] makes the [`Testbed`] of one trial, and underneath it native, container and
//! virtual machine nodes are added one by one and plugged into the switches of a [`Fabric`].
//! Everything is a guard: what is dropped is taken down, and what isn't goes with the controller.

pub mod budget;
pub mod cable;
mod container;
pub mod doctor;
mod error;
mod fabric;
pub mod ft;
mod harm;
mod lab;
mod mininet;
mod naming;
mod netns_node;
mod node;
mod ovs;
pub mod path;
mod program;
mod protected;
mod remote;
pub mod residue;
mod scratch;
mod shape;
pub mod star;
mod testbed;

pub use error::{LabError, Result};
pub use fabric::{Fabric, Switch, VmPort, configure_from_outside};
pub use lab::{Isolation, Lab, LabOptions, NodeSpec};
pub use node::{Hypervisor, Node};
pub use path::{Capture, CaptureCounts, CaptureSide, PathSwitch};
pub use protected::unprotectable;
pub use shape::Shape;
pub use testbed::{Seat, Testbed, TestbedSpec};
