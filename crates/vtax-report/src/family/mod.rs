//! Families of workloads: a folder for each, with what it makes of one trial (`trial.rs`) and its chapter (`mod.rs`).

pub(crate) mod desktop;
pub(crate) mod ftp;
pub(crate) mod http;
pub(crate) mod network;
pub(crate) mod script;
pub(crate) mod sip;
pub(crate) mod storage;
