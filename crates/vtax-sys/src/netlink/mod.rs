//! rtnetlink: interfaces, addresses, routes and queueing disciplines, without calling `ip`.
//!
//! A [`Request`] is one message; [`Netlink`] sends many in one go and hands back the first
//! refusal with the words of the request it belongs to. Message layouts: rtnetlink(7) and the
//! kernel's `include/uapi/linux/{rtnetlink,if_link,pkt_sched}.h`.

mod address;
mod link;
mod links;
mod message;
mod news;
mod qdisc;
mod socket;
mod tunnel;

pub use address::{add_address, add_route, add_route_by_several};
pub use link::{
    BridgeOptions, Mac, Veth, VethEnd, create_bridge, create_dummy, create_veth, delete_group, delete_link,
    leave_switch, move_to, rename, set_down, set_group, set_mac, set_mtu, set_switch, set_up,
};
pub use links::{Link, LinkStats};
pub use message::Request;
pub use news::News;
pub use qdisc::{
    ETHERNET_HEADER, Netem, Tbf, WIRE_ONLY, add_black_hole, add_netem, add_tbf, add_tbf_below,
    delete_root_qdisc,
};
pub use socket::Netlink;
pub use tunnel::{
    Child, Sharing, Vxlan, create_child, create_gre, create_vrf, create_vxlan, create_wireguard, set_vrf,
};
