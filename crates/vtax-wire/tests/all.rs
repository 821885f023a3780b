//! All tests of this crate in one program: linking one for each file takes longer than running them.

mod ftp;
mod http;
mod http2;
mod iscsi;
mod mutations;
mod nfs3;
mod nfs4;
mod pcap;
mod resp;
mod rfb;
mod sip;
mod sip_digest;
mod sip_torture;
mod websocket;
