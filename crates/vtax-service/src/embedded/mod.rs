//! Services that vtax brings itself, so that a measurement needs nothing installed.

mod connection;
mod date;
mod document;
pub mod ftp;
pub mod http;
mod server;
pub mod sip;
mod slots;
