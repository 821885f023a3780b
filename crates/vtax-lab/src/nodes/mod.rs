//! How each kind of node is built.

pub(crate) mod container;
pub(crate) mod native;
pub(crate) mod protected;
pub(crate) mod uml;
pub(crate) mod vm;

pub(crate) use native::Network;
