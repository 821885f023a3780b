//! The families of load, each in a folder of its own; [`crate::LoadSpec::open`] chooses among them.

pub mod desktop;
pub mod ftp;
pub mod http;
pub mod network;
pub mod redis;
pub mod sip;
pub mod storage;
