//! Protocol codecs without I/O.
//!
//! A codec here is fed bytes as they arrive, torn wherever the network tore them, and says what
//! they mean. None touches a socket, allocates, panics, or keeps more than a small fixed state:
//! one lives in each of a load generator's connections. Only what happens once in a connection, as
//! the login of iSCSI, may allocate, within bounds; and a desktop ([`rfb`]) has its pixels.

pub mod desktop;
pub mod dhcp;
pub mod ftp;
pub mod http;
pub mod http2;
pub mod iscsi;
pub mod mpls;
pub mod nfs;
pub mod nfs3;
pub mod nfs4;
pub mod packet_id;
pub mod pcap;
pub mod resp;
pub mod rfb;
pub mod rpc;
pub mod rtp;
pub mod scsi;
pub mod sdp;
pub mod sip;
pub mod sipp;
pub mod websocket;
pub mod x11;
pub mod xdr;
