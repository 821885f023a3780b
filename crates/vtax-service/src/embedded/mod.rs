//! Services that vtax brings itself, so that a measurement needs nothing installed.

mod certificate;
mod connection;
mod date;
pub mod desktop;
mod document;
pub mod ftp;
pub mod http;
pub mod kernel;
pub mod port_mapper;
mod server;
pub mod sip;
mod slots;
mod tls;

pub use certificate::ServerCertificate;
