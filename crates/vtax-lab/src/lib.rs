//! Testbeds: nodes, links, switches; deploy and destroy.
//!
//! A [`Lab`] is made inside a controller ([`vtax_sys::controller`]), whose namespaces it fills:
//! [`Lab::build`] makes the [`Testbed`] of one trial, and underneath it native, container and
//! virtual machine nodes are added one by one and plugged into the switches of a [`Fabric`].
//! Everything is a guard: what is dropped is taken down, and what isn't goes with the controller.

mod agent_program;
mod attachment;
pub mod budget;
mod container;
mod dhcp;
mod disk;
pub mod doctor;
mod error;
mod fabric;
pub mod ft;
mod lab;
mod link;
mod mininet;
mod missing;
mod naming;
mod node;
mod node_faults;
mod nodes;
mod ovs;
pub mod pair_qemu;
pub mod path;
mod process_io;
mod program;
mod remote;
mod scratch;
mod spec;
mod stop;
mod testbed;

pub use attachment::Attachment;
pub use container::PACKAGE as CONTAINER_PACKAGE;
pub use disk::Disk;
pub use error::{LabError, Result};
pub use fabric::{Fabric, Switch, VmPort, configure_from_outside};
pub use lab::{Isolation, Lab, LabOptions};
pub use link::LinkProperties;
pub use missing::missing;
pub use node::{Ender, Hypervisor, Node};
pub use nodes::protected::unprotectable;
pub use path::{Capture, CaptureCounts, CaptureSide, PathSwitch, RoutedSetup};
pub use spec::{CpuHalf, DiskSpec, NodeSpec, SharedMemorySpec, Slot, SutCpus, SutSpec, TestbedSpec};
pub use stop::StopFlag;
pub use testbed::{Sut, Testbed};
