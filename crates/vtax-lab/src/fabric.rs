//! Switches and cables in the lab's own network namespace.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use vtax_agent::message::{FindInterface, InterfaceSetup};
use vtax_sys::netlink::{
    BridgeOptions, Mac, Netlink, Veth, VethEnd, add_address, add_tbf, create_bridge, create_veth,
    delete_group, set_group, set_mtu, set_switch, set_up,
};
use vtax_sys::{NetNs, tap};

use crate::error::{LabError, Result, While};
use crate::naming::{PREFIX, address, mac, port_mac, port_name, switch_mac};
use crate::node::Node;
use crate::shape::Shape;

/// The most ports of a Linux bridge (BR_MAX_PORTS of `net/bridge/br_private.h`).
const MOST_PORTS: usize = 1023;

/// A switch.
#[derive(Debug)]
pub struct Switch {
    name: String,
    index: u32,
    ports: usize,
}

impl Switch {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its number in the lab's network namespace.
    pub(crate) const fn index(&self) -> u32 {
        self.index
    }

    fn take_ports(&mut self, count: usize) -> Result<()> {
        if self.ports + count > MOST_PORTS {
            return Err(LabError::SwitchFull { switch: self.name.clone(), ports: self.ports });
        }
        self.ports += count;
        Ok(())
    }
}

/// A virtual machine's end of a cable.
#[derive(Debug)]
pub struct VmPort {
    pub(crate) tap: OwnedFd,
    pub(crate) mac: Mac,
    pub(crate) setup: InterfaceSetup,
}

/// Switches and cables; all go when it is dropped.
#[derive(Debug)]
pub struct Fabric {
    netlink: Netlink,
    group: u32,
    next_host: u16,
    next_switch: u16,
}

impl Fabric {
    pub(crate) fn new(group: u32) -> Result<Self> {
        let netlink = Netlink::open().during(|| "open the lab's network".to_owned())?;
        Ok(Self { netlink, group, next_host: 1, next_switch: 0 })
    }

    /// Counts hosts and switches from where those of another seat's fabric don't reach.
    pub(crate) const fn for_seat(mut self, number: u16) -> Self {
        self.next_host = 1 + number * 256;
        self.next_switch = number;
        self
    }

    const fn take_host(&mut self) -> u16 {
        let number = self.next_host;
        self.next_host += 1;
        number
    }

    /// Adds a switch; the first is `br0`. It forwards once it is [started](Self::start): while it is
    /// off, the kernel doesn't go through all its ports for each that is added.
    ///
    /// # Errors
    ///
    /// Where the kernel has no bridge or the name is taken.
    pub fn add_switch(&mut self, mtu: u32) -> Result<Switch> {
        let number = self.next_switch;
        self.next_switch += 1;
        let name = format!("br{number}");
        let what = || format!("build switch {name}");
        let options = BridgeOptions { mac: switch_mac(number), mtu, ageing_seconds: 300 };
        let requests = [create_bridge(&name, options), set_group(&name, self.group)];
        self.netlink.send_all(requests).during(what)?;
        let index = self.netlink.link(&name).during(what)?.index;
        Ok(Switch { name, index, ports: 0 })
    }

    /// Has a switch forward from now on.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn start(&mut self, switch: &Switch) -> Result<()> {
        self.netlink.send(set_up(&switch.name)).during(|| format!("start switch {}", switch.name))
    }

    /// Plugs a node of namespaces into a switch by its next interface (`eth0`, `eth1`, ...), and
    /// returns its address. The agent brings it up.
    ///
    /// # Errors
    ///
    /// Where the switch is full or the kernel refuses.
    pub fn plug(&mut self, node: &mut Node, switch: &mut Switch, shape: Shape) -> Result<IpAddr> {
        let addresses = self.plug_all(std::slice::from_mut(node), switch, shape)?;
        Ok(addresses[0])
    }

    /// Plugs many nodes into a switch, many cables per system call.
    ///
    /// # Errors
    ///
    /// As [`plug`](Self::plug).
    pub fn plug_all(&mut self, nodes: &mut [Node], switch: &mut Switch, shape: Shape) -> Result<Vec<IpAddr>> {
        switch.take_ports(nodes.len())?;
        let mut requests = Vec::with_capacity(nodes.len());
        let mut addresses = Vec::with_capacity(nodes.len());
        let mut ports = Vec::with_capacity(nodes.len());
        for node in nodes.iter_mut() {
            let number = self.take_host();
            let port = port_name(number);
            let name = next_name(node);
            let inside = node.netns.as_ref().ok_or(LabError::OnlyNative { kind: "networked" })?;
            let near = VethEnd {
                name: &port,
                mac: port_mac(number),
                namespace: None,
                group: self.group,
                switch: Some(switch.index),
            };
            let far =
                VethEnd { name: &name, mac: mac(number), namespace: Some(inside), group: 0, switch: None };
            requests.push(create_veth(&Veth { ends: [near, far], near_up: true, mtu: shape.mtu }));
            addresses.push(address(number));
            ports.push(port);
            add_interface(node, setup(FindInterface::Name(name.clone()), name, number, shape.mtu));
        }
        let what = || format!("plug {} nodes into {}", ports.len(), switch.name);
        self.netlink.send_all(requests).during(what)?;
        if let Some(tbf) = shape.tbf() {
            let links = self.netlink.links().during(what)?;
            let limited = links.iter().filter(|l| ports.contains(&l.name));
            let requests: Vec<_> = limited.map(|l| add_tbf(l.index, &tbf)).collect();
            self.netlink.send_all(requests).during(what)?;
        }
        Ok(addresses)
    }

    /// Plugs a namespace that is no node into a switch, by an interface of this name that is up and has
    /// this address; returns the name of the switch's port.
    pub(crate) fn plug_namespace(
        &mut self,
        inside: &NetNs,
        name: &str,
        switch: &mut Switch,
        shape: Shape,
        (address, prefix): (IpAddr, u8),
    ) -> Result<String> {
        switch.take_ports(1)?;
        let number = self.take_host();
        let port = port_name(number);
        let what = || format!("plug {name} into {}", switch.name);
        let near = VethEnd {
            name: &port,
            mac: port_mac(number),
            namespace: None,
            group: self.group,
            switch: Some(switch.index),
        };
        let far = VethEnd { name, mac: mac(number), namespace: Some(inside), group: 0, switch: None };
        self.netlink
            .send(create_veth(&Veth { ends: [near, far], near_up: true, mtu: shape.mtu }))
            .during(what)?;
        let mut within = Netlink::open_in(inside).during(what)?;
        let index = within.link(name).during(what)?.index;
        let requests = [set_up("lo"), set_up(name), add_address(index, address, prefix)];
        within.send_all(requests).during(what)?;
        if let Some(tbf) = shape.tbf() {
            // Towards the host at the switch, away from it at its own end.
            within.send(add_tbf(index, &tbf)).during(what)?;
            self.limit(&port, shape)?;
        }
        Ok(port)
    }

    /// Address and interface of a guest that takes a number of its own, but no port yet.
    pub(crate) fn guest_interface(&mut self, mtu: u32) -> (Mac, InterfaceSetup, IpAddr) {
        let number = self.take_host();
        let inside = mac(number);
        let setup = setup(FindInterface::Mac(inside.0), "eth0".to_owned(), number, mtu);
        (inside, setup, address(number))
    }

    /// A virtual machine's port on a switch, and its address.
    ///
    /// # Errors
    ///
    /// Where the switch is full or `/dev/net/tun` may not be used.
    pub fn vm_port(&mut self, switch: &mut Switch, shape: Shape) -> Result<(VmPort, IpAddr)> {
        switch.take_ports(1)?;
        let number = self.take_host();
        let name = port_name(number);
        let what = || format!("build a tap on {}", switch.name);
        let tap = tap::create(&name).during(what)?;
        let requests = [
            set_mtu(&name, shape.mtu),
            set_group(&name, self.group),
            set_switch(&name, switch.index),
            set_up(&name),
        ];
        self.netlink.send_all(requests).during(what)?;
        self.limit(&name, shape)?;
        let inside = mac(number);
        let setup = setup(FindInterface::Mac(inside.0), "eth0".to_owned(), number, shape.mtu);
        Ok((VmPort { tap, mac: inside, setup }, address(number)))
    }

    fn limit(&mut self, name: &str, shape: Shape) -> Result<()> {
        let Some(tbf) = shape.tbf() else { return Ok(()) };
        let what = || format!("limit the rate of {name}");
        let index = self.netlink.link(name).during(what)?.index;
        self.netlink.send(add_tbf(index, &tbf)).during(what)
    }

    /// Joins two nodes of namespaces by one cable, without a switch; returns their addresses.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn join(&mut self, one: &mut Node, other: &mut Node, shape: Shape) -> Result<[IpAddr; 2]> {
        let what = format!("join {} and {}", one.name, other.name);
        let numbers = [self.take_host(), self.take_host()];
        let names = [next_name(one), next_name(other)];
        {
            let mut ends = Vec::with_capacity(2);
            for (i, node) in [&*one, &*other].into_iter().enumerate() {
                let inside = node.netns.as_ref().ok_or(LabError::OnlyNative { kind: "networked" })?;
                ends.push(VethEnd {
                    name: &names[i],
                    mac: mac(numbers[i]),
                    namespace: Some(inside),
                    group: 0,
                    switch: None,
                });
            }
            let veth = Veth { ends: [ends[0], ends[1]], near_up: false, mtu: shape.mtu };
            self.netlink.send(create_veth(&veth)).during(|| what.clone())?;
        }
        for ((node, name), number) in [one, other].into_iter().zip(names).zip(numbers) {
            if let (Some(tbf), Some(inside)) = (shape.tbf(), node.netns.as_ref()) {
                let mut netlink = Netlink::open_in(inside).during(|| what.clone())?;
                let index = netlink.link(&name).during(|| what.clone())?.index;
                netlink.send(add_tbf(index, &tbf)).during(|| what.clone())?;
            }
            add_interface(node, setup(FindInterface::Name(name.clone()), name, number, shape.mtu));
        }
        Ok(numbers.map(address))
    }

    /// Takes every switch and cable down.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn destroy(mut self) -> Result<()> {
        self.delete()
    }

    fn delete(&mut self) -> Result<()> {
        let group = std::mem::take(&mut self.group);
        if group == 0 {
            return Ok(());
        }
        match self.netlink.send(delete_group(group)) {
            // No interface is left in it: the nodes took their cables along.
            Err(e) if e.errno() == Some(rustix::io::Errno::NODEV.raw_os_error()) => Ok(()),
            other => other.during(|| "take the network down".to_owned()),
        }
    }
}

impl Drop for Fabric {
    fn drop(&mut self) {
        // Whoever wants the error calls `destroy`; the namespace's end takes what is left.
        let _ = self.delete();
    }
}

fn next_name(node: &Node) -> String {
    format!("eth{}", node.interfaces.as_ref().map_or(0, Vec::len))
}

fn setup(find: FindInterface, name: String, number: u16, mtu: u32) -> InterfaceSetup {
    InterfaceSetup { find, name, addresses: vec![(address(number), PREFIX)], mtu }
}

fn add_interface(node: &mut Node, setup: InterfaceSetup) {
    node.interfaces.get_or_insert_default().push(setup);
}

/// Brings nodes' interfaces up from outside, for nodes whose agents aren't asked to.
///
/// # Errors
///
/// Where a node has no network namespace here or the kernel refuses.
pub fn configure_from_outside(nodes: &[&Node]) -> Result<()> {
    let namespaces: Option<Vec<&NetNs>> = nodes.iter().map(|node| node.netns.as_ref()).collect();
    let namespaces = namespaces.ok_or(LabError::OnlyNative { kind: "networked" })?;
    let setups: Vec<&[InterfaceSetup]> = nodes.iter().map(|n| n.interfaces().unwrap_or_default()).collect();
    let done = vtax_sys::netns::visit(namespaces, |position| {
        let mut netlink = Netlink::open()?;
        let links = netlink.links()?;
        let mut requests = vec![set_up("lo")];
        for setup in setups[position] {
            let index = links.iter().find(|l| l.name == setup.name).map_or(0, |l| l.index);
            requests.push(set_up(&setup.name));
            requests.extend(setup.addresses.iter().map(|(a, prefix)| add_address(index, *a, *prefix)));
        }
        netlink.send_all(requests)
    });
    done.during(|| format!("configure {} nodes", nodes.len()))
}
