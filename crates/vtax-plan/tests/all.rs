//! All tests of this crate in one program: linking one for each file takes longer than running them.

mod cards;
mod containerlab;
mod desktop;
mod docs;
mod faults;
mod ftp;
mod golden;
mod har;
mod hostile;
mod http2;
mod net;
mod paths;
mod plans;
mod redis;
mod routed;
mod schema;
mod sip;
mod sip_script;
mod storage;
mod storage_mounted;
mod storage_services;
mod systems;
mod validate;
mod web;
