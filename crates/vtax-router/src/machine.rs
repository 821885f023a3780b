//! What this machine has of what a topology needs.

use std::path::Path;

use vtax_sys::NetNs;
use vtax_sys::netlink::{Netem, Netlink, Tbf, add_netem, add_tbf, create_gre, create_vrf};
use vtax_topology::blueprint::Needs;
use vtax_units::BitRate;

/// Debian's package of FRR.
pub const PACKAGE: &str = "frr";
/// Where it has its daemons.
pub(crate) const DAEMONS: &str = "/usr/lib/frr";
/// Its tool that hands configuration to the daemons.
pub(crate) const VTYSH: &str = "/usr/bin/vtysh";
/// Where it looks for its configuration.
pub(crate) const CONFIGURATION: &str = "/etc/frr";

/// Whether FRR is installed.
#[must_use]
pub fn installed() -> bool {
    Path::new(DAEMONS).join("zebra").is_file()
        && Path::new(VTYSH).is_file()
        && Path::new(CONFIGURATION).is_dir()
}

/// What says that FRR isn't installed, with the way to it; `None` where it is.
#[must_use]
pub fn missing() -> Option<String> {
    let way = || {
        format!("FRR is not installed; install it with `apt-get install {PACKAGE}`, or `vtax setup --labs`")
    };
    (!installed()).then(way)
}

/// Why a topology that needs this can't be built on this machine, with the way out; `None` where it can. Features of
/// the kernel are tried in a namespace of their own.
#[must_use]
pub fn obstacle(needs: Needs) -> Option<String> {
    if let Some(missing) = needs.routers.then(missing).flatten() {
        return Some(missing);
    }
    if needs.labels && !Path::new("/proc/sys/net/mpls").is_dir() {
        return Some("this kernel has no MPLS (modules mpls_router and mpls_iptunnel)".to_owned());
    }
    if !needs.vrfs && !needs.tunnels && !needs.wires && !needs.rates {
        return None;
    }
    let tried = NetNs::create().and_then(|namespace| {
        let mut netlink = Netlink::open_in(&namespace)?;
        let lo = netlink.link("lo")?.index;
        if needs.wires {
            netlink.send(add_netem(lo, &Netem::default()))?;
        }
        if needs.rates {
            netlink.send(add_tbf(lo, &Tbf::of_wire(BitRate(1_000_000), 1500, None)))?;
        }
        if !needs.vrfs && !needs.tunnels {
            return Ok(());
        }
        netlink.send(create_vrf("vrf0", 100))?;
        let index = netlink.link("vrf0")?.index;
        if needs.tunnels {
            netlink.send(create_gre("gre9", [192, 0, 2, 1].into(), [192, 0, 2, 2].into(), index))?;
        }
        Ok(())
    });
    tried.err().map(|error| vtax_sys::chain(&error))
}
