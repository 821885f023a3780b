//! Switches and cables in the lab's own network namespace.

use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use vtax_agent::message::{FindInterface, InterfaceSetup};
use vtax_plan::model::{NicModel, NicTuning};
use vtax_sys::netlink::{
    BridgeOptions, Child, Mac, Netlink, Sharing, Tbf, Veth, VethEnd, add_address, add_tbf, create_bridge,
    create_child, create_veth, delete_group, set_group, set_mtu, set_switch, set_up,
};
use vtax_sys::{NetNs, ethtool, tap};

use crate::attachment::Attachment;
use crate::error::{LabError, Result, While};
use crate::ft::PairNumber;
use crate::link::LinkProperties;
use crate::naming::{PREFIX, address, mac, port_mac, port_name, switch_mac};
use crate::ovs::Ovs;
use crate::path::End;

/// The most ports of a Linux bridge (BR_MAX_PORTS of `net/bridge/br_private.h`).
const MOST_PORTS: usize = 1023;

/// A switch, or what stands in its place.
#[derive(Debug)]
pub struct Switch {
    name: String,
    index: u32,
    ports: usize,
    joint: Joint,
}

/// What joins the ports of a switch.
#[derive(Debug)]
enum Joint {
    /// The kernel's bridge.
    Bridge,
    /// Open vSwitch.
    Ovs(Arc<Ovs>),
    /// Nothing: its one port is an interface of the network namespace that it is in.
    Door,
    /// A card that interfaces share: the port of the fabric's door.
    Card(Sharing),
    /// A program that makes the interfaces of nodes itself.
    Program,
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

    /// What a new interface is told to be plugged into it at once; Open vSwitch plugs it in itself.
    fn master(&self) -> Option<u32> {
        matches!(self.joint, Joint::Bridge).then_some(self.index)
    }

    /// Plugs in what could not be told to be.
    fn adopt(&self, ports: &[String]) -> Result<()> {
        match &self.joint {
            Joint::Ovs(ovs) => ovs.add_ports(ports),
            Joint::Bridge | Joint::Door | Joint::Card(_) | Joint::Program => Ok(()),
        }
    }

    fn take_ports(&mut self, count: usize) -> Result<()> {
        let most = if matches!(self.joint, Joint::Door) { 1 } else { MOST_PORTS };
        if self.ports + count > most {
            return Err(LabError::SwitchFull { switch: self.name.clone(), ports: self.ports });
        }
        self.ports += count;
        Ok(())
    }
}

/// A virtual machine's end of a cable.
#[derive(Debug)]
pub struct VmPort {
    pub(crate) taps: Vec<OwnedFd>,
    pub(crate) name: String,
    pub(crate) mac: Mac,
    pub(crate) setup: InterfaceSetup,
    /// The network namespace of its tap; `None`: the lab's own.
    pub(crate) inside: Option<Arc<NetNs>>,
    /// The card that is plugged in there.
    pub(crate) card: NicModel,
    pub(crate) tuning: NicTuning,
}

impl VmPort {
    /// Where what goes by it is counted.
    pub(crate) fn end(&self) -> End {
        End::Tap { interface: self.name.clone(), inside: self.inside.clone(), card: self.mac }
    }
}

/// A user-mode Linux's end of a cable: a tap, which it opens by its name.
#[derive(Debug)]
pub(crate) struct UmlPort {
    pub(crate) name: String,
    pub(crate) mac: Mac,
    pub(crate) setup: InterfaceSetup,
    /// The network namespace of the tap; `None`: the lab's own.
    pub(crate) inside: Option<Arc<NetNs>>,
}

/// Switches and cables; all go when it is dropped.
#[derive(Debug)]
pub struct Fabric {
    netlink: Netlink,
    group: u32,
    next_host: u16,
    next_switch: u16,
    next_pair: u8,
    /// Where it is; `None`: in the lab's own network namespace.
    inside: Option<Arc<NetNs>>,
    /// The port of its door.
    door: Option<String>,
}

impl Fabric {
    pub(crate) fn new(group: u32, inside: Option<Arc<NetNs>>) -> Result<Self> {
        let opened = inside.as_ref().map_or_else(Netlink::open, |inside| Netlink::open_in(inside));
        let netlink = opened.during(|| "open the lab's network".to_owned())?;
        Ok(Self { netlink, group, next_host: 1, next_switch: 0, next_pair: 0, inside, door: None })
    }

    /// Where its switches and ports are; `None`: in the lab's own network namespace.
    pub(crate) const fn inside(&self) -> Option<&Arc<NetNs>> {
        self.inside.as_ref()
    }

    /// Calls `work` where its switches are.
    fn within<T: Send>(&self, work: impl FnOnce() -> vtax_sys::Result<T> + Send) -> vtax_sys::Result<T> {
        match &self.inside {
            Some(inside) => inside.run(work),
            None => work(),
        }
    }

    /// Counts hosts and switches from where those of another slot's fabric don't reach.
    pub(crate) const fn for_slot(mut self, number: u16) -> Self {
        self.next_host = 1 + number * 256;
        self.next_switch = number * 256;
        self
    }

    /// A number for a pair of hosts.
    pub(crate) fn take_pair(&mut self) -> Result<PairNumber> {
        let reason = || "its networks have no room for more pairs of hosts".to_owned();
        let full = || LabError::Pair { operation: "build the hosts", reason: reason() };
        let number = PairNumber::new(self.next_pair).ok_or_else(full)?;
        self.next_pair += 1;
        Ok(number)
    }

    pub(crate) const fn take_host(&mut self) -> u16 {
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
        Ok(Switch { name, index, ports: 0, joint: Joint::Bridge })
    }

    /// A door in place of a switch: what is plugged in has the other end of its cable in the network namespace of this
    /// fabric, as one of its interfaces. There is room for one.
    pub(crate) fn add_door() -> Switch {
        Switch { name: "door".to_owned(), index: 0, ports: 0, joint: Joint::Door }
    }

    /// The port of its door as a card that nodes' interfaces share, in place of a switch.
    pub(crate) fn share_door(sharing: Sharing) -> Switch {
        Switch { name: "the host's card".to_owned(), index: 0, ports: 0, joint: Joint::Card(sharing) }
    }

    /// Gives nodes interfaces that share the port of the door; returns their addresses.
    fn share(
        &mut self,
        nodes: &mut [&mut Attachment],
        sharing: Sharing,
        properties: LinkProperties,
    ) -> Result<Vec<IpAddr>> {
        let door = self.own_door()?.to_owned();
        let parent = self.netlink.link(&door).during(|| format!("find {door}"))?.index;
        let mut addresses = Vec::with_capacity(nodes.len());
        for node in nodes.iter_mut() {
            let number = self.take_host();
            let name = node.next_interface();
            let namespace = Some(node.own_netns()?);
            let child = Child { name: &name, mac: mac(number), namespace, parent, mtu: properties.mtu };
            let made = self.netlink.send(create_child(sharing, &child));
            made.during(|| format!("give {} an interface of kind {}", node.name, sharing.word()))?;
            addresses.push(address(number));
            node.add_interface(setup(FindInterface::Name(name.clone()), name, number, properties));
        }
        Ok(addresses)
    }

    /// A program in place of a switch, which makes the interfaces of nodes that are plugged in.
    pub(crate) fn add_program() -> Switch {
        Switch { name: "a program".to_owned(), index: 0, ports: 0, joint: Joint::Program }
    }

    /// Has the agents of nodes expect interfaces that a program will have made by then; returns their addresses.
    fn expect(&mut self, nodes: &mut [&mut Attachment], properties: LinkProperties) -> Vec<IpAddr> {
        let mut expect = |node: &mut &mut Attachment| {
            let (number, name) = (self.take_host(), node.next_interface());
            node.add_interface(setup(FindInterface::Name(name.clone()), name, number, properties));
            address(number)
        };
        nodes.iter_mut().map(&mut expect).collect()
    }

    /// Plugs an interface into a switch that is in this fabric's network namespace already.
    pub(crate) fn plug_made(
        &mut self,
        name: &str,
        switch: &mut Switch,
        properties: LinkProperties,
    ) -> Result<()> {
        switch.take_ports(1)?;
        self.plug_tap(name, switch, properties).during(|| format!("plug {name} into {}", switch.name))?;
        switch.adopt(&[name.to_owned()])?;
        self.plain(name, properties)
    }

    /// The interface that its door is.
    ///
    /// # Errors
    ///
    /// [`LabError::Defect`] before something is plugged in.
    pub(crate) fn own_door(&self) -> Result<&str> {
        let missing = || {
            let what = "nothing is plugged into the door of a path's network".to_owned();
            LabError::Defect { what }
        };
        self.door.as_deref().ok_or_else(missing)
    }

    /// Remembers which port a door has.
    fn remember(&mut self, switch: &Switch, port: &str) {
        if matches!(switch.joint, Joint::Door) {
            self.door = Some(port.to_owned());
        }
    }

    /// The bridge of an Open vSwitch, to be plugged into like any other.
    pub(crate) fn add_ovs(&self, ovs: &Arc<Ovs>) -> Switch {
        Switch { name: ovs.bridge().to_owned(), index: 0, ports: 0, joint: Joint::Ovs(Arc::clone(ovs)) }
    }

    /// Has a switch forward from now on.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn start(&mut self, switch: &Switch) -> Result<()> {
        if !matches!(switch.joint, Joint::Bridge) {
            // It has forwarded since it was made, or doesn't forward at all.
            return Ok(());
        }
        self.netlink.send(set_up(&switch.name)).during(|| format!("start switch {}", switch.name))
    }

    /// Plugs a node of namespaces into a switch by its next interface (`eth0`, `eth1`, ...), and
    /// returns its address. The agent brings it up.
    ///
    /// # Errors
    ///
    /// Where the switch is full or the kernel refuses.
    pub fn plug(
        &mut self,
        node: &mut impl AsMut<Attachment>,
        switch: &mut Switch,
        properties: LinkProperties,
    ) -> Result<IpAddr> {
        let addresses = self.plug_each(&mut [node.as_mut()], switch, properties)?;
        Ok(addresses[0])
    }

    /// As [`plug`](Self::plug); returns the name of the switch's port as well.
    pub(crate) fn plug_named(
        &mut self,
        node: &mut impl AsMut<Attachment>,
        switch: &mut Switch,
        properties: LinkProperties,
    ) -> Result<(IpAddr, String)> {
        let port = port_name(self.next_host);
        Ok((self.plug(node, switch, properties)?, port))
    }

    /// Plugs many nodes into a switch, many cables per system call.
    ///
    /// # Errors
    ///
    /// As [`plug`](Self::plug).
    pub fn plug_all<N: AsMut<Attachment>>(
        &mut self,
        nodes: &mut [N],
        switch: &mut Switch,
        properties: LinkProperties,
    ) -> Result<Vec<IpAddr>> {
        let mut attachments: Vec<&mut Attachment> = nodes.iter_mut().map(AsMut::as_mut).collect();
        self.plug_each(&mut attachments, switch, properties)
    }

    fn plug_each(
        &mut self,
        nodes: &mut [&mut Attachment],
        switch: &mut Switch,
        properties: LinkProperties,
    ) -> Result<Vec<IpAddr>> {
        switch.take_ports(nodes.len())?;
        match switch.joint {
            Joint::Card(sharing) => return self.share(nodes, sharing, properties),
            Joint::Program => return Ok(self.expect(nodes, properties)),
            Joint::Bridge | Joint::Ovs(_) | Joint::Door => {}
        }
        let mut requests = Vec::with_capacity(nodes.len());
        let mut addresses = Vec::with_capacity(nodes.len());
        let mut ports = Vec::with_capacity(nodes.len());
        for node in nodes.iter_mut() {
            let number = self.take_host();
            let port = port_name(number);
            let name = node.next_interface();
            let inside = node.own_netns()?;
            let near = VethEnd {
                name: &port,
                mac: port_mac(number),
                namespace: None,
                group: self.group,
                switch: switch.master(),
            };
            let far =
                VethEnd { name: &name, mac: mac(number), namespace: Some(inside), group: 0, switch: None };
            requests.push(create_veth(&Veth { ends: [near, far], near_up: true, mtu: properties.mtu }));
            addresses.push(address(number));
            ports.push(port);
            node.add_interface(setup(FindInterface::Name(name.clone()), name, number, properties));
        }
        let what = || format!("plug {} nodes into {}", ports.len(), switch.name);
        self.netlink.send_all(requests).during(what)?;
        switch.adopt(&ports)?;
        ports.iter().for_each(|port| self.remember(switch, port));
        ports.iter().try_for_each(|port| self.plain(port, properties))?;
        if let Some(tbf) = properties.tbf() {
            let links = self.netlink.links().during(what)?;
            let limited = links.iter().filter(|l| ports.contains(&l.name));
            let requests: Vec<_> = limited.map(|l| add_tbf(l.index, &tbf)).collect();
            self.netlink.send_all(requests).during(what)?;
            for node in nodes.iter() {
                let newest = node.interfaces.iter().flatten().last();
                let Some((inside, setup)) = node.netns.as_ref().zip(newest) else { continue };
                limit_inside(inside, &setup.name, &tbf).during(what)?;
            }
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
        properties: LinkProperties,
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
            switch: switch.master(),
        };
        let far = VethEnd { name, mac: mac(number), namespace: Some(inside), group: 0, switch: None };
        self.netlink
            .send(create_veth(&Veth { ends: [near, far], near_up: true, mtu: properties.mtu }))
            .during(what)?;
        switch.adopt(std::slice::from_ref(&port))?;
        self.plain(&port, properties)?;
        let mut within = Netlink::open_in(inside).during(what)?;
        let index = within.link(name).during(what)?.index;
        let requests = [set_up("lo"), set_up(name), add_address(index, address, prefix)];
        within.send_all(requests).during(what)?;
        if let Some(tbf) = properties.tbf() {
            // Towards the host at the switch, away from it at its own end.
            within.send(add_tbf(index, &tbf)).during(what)?;
            self.limit(&port, properties)?;
        }
        Ok(port)
    }

    /// Address and interface of a guest that takes a number of its own, but no port yet.
    pub(crate) fn guest_interface(&mut self, mtu: u32) -> (Mac, InterfaceSetup, IpAddr) {
        let number = self.take_host();
        let inside = mac(number);
        let properties = LinkProperties { mtu, ..LinkProperties::default() };
        let setup = setup(FindInterface::Mac(inside.0), "eth0".to_owned(), number, properties);
        (inside, setup, address(number))
    }

    /// A virtual machine's port on a switch, for the usual card, and its address.
    ///
    /// # Errors
    ///
    /// Where the switch is full or `/dev/net/tun` may not be used.
    pub(crate) fn vm_port(
        &mut self,
        switch: &mut Switch,
        properties: LinkProperties,
    ) -> Result<(VmPort, IpAddr)> {
        self.vm_port_for(switch, properties, (NicModel::default(), NicTuning::USUAL))
    }

    /// As [`vm_port`](Self::vm_port), for this card.
    ///
    /// # Errors
    ///
    /// As [`vm_port`](Self::vm_port).
    pub(crate) fn vm_port_for(
        &mut self,
        switch: &mut Switch,
        properties: LinkProperties,
        (card, tuning): (NicModel, NicTuning),
    ) -> Result<(VmPort, IpAddr)> {
        switch.take_ports(1)?;
        let number = self.take_host();
        let name = port_name(number);
        let what = || format!("build a tap on {}", switch.name);
        let taps = self.within(|| tap::create_queues(&name, tuning.queues)).during(what)?;
        self.plug_tap(&name, switch, properties).during(what)?;
        switch.adopt(std::slice::from_ref(&name))?;
        self.plain(&name, properties)?;
        self.limit(&name, properties)?;
        let inside = mac(number);
        let setup = setup(FindInterface::Mac(inside.0), "eth0".to_owned(), number, properties);
        let setup = InterfaceSetup { moderation: tuning.moderation, ..setup };
        let port = VmPort { taps, name, mac: inside, setup, inside: self.inside.clone(), card, tuning };
        Ok((port, address(number)))
    }

    /// A user-mode Linux's port on a switch, and its address.
    pub(crate) fn uml_port(
        &mut self,
        switch: &mut Switch,
        properties: LinkProperties,
    ) -> Result<(UmlPort, IpAddr)> {
        let number = self.take_host();
        let (name, mac) = (port_name(number), mac(number));
        let made = self.within(|| tap::create_lasting(&name));
        made.during(|| format!("build a tap on {}", switch.name))?;
        self.plug_made(&name, switch, properties)?;
        self.limit(&name, properties)?;
        let setup = setup(FindInterface::Mac(mac.0), "eth0".to_owned(), number, properties);
        Ok((UmlPort { name, mac, setup, inside: self.inside.clone() }, address(number)))
    }

    fn plug_tap(&mut self, name: &str, switch: &Switch, properties: LinkProperties) -> vtax_sys::Result<()> {
        let mut requests = vec![set_mtu(name, properties.mtu), set_group(name, self.group)];
        requests.extend(switch.master().map(|master| set_switch(name, master)));
        requests.push(set_up(name));
        self.netlink.send_all(requests)
    }

    /// Joins two switches by a cable; returns the names of its ends.
    ///
    /// # Errors
    ///
    /// Where a switch is full or the kernel refuses.
    pub(crate) fn uplink(
        &mut self,
        one: &mut Switch,
        other: &mut Switch,
        properties: LinkProperties,
    ) -> Result<[String; 2]> {
        let numbers = [self.take_host(), self.take_host()];
        let names = numbers.map(port_name);
        let ends = [&mut *one, &mut *other];
        for switch in ends {
            switch.take_ports(1)?;
        }
        let end = |i: usize, switch: &Switch| VethEnd {
            name: &names[i],
            mac: port_mac(numbers[i]),
            namespace: None,
            group: self.group,
            switch: switch.master(),
        };
        let far = VethEnd { switch: None, ..end(1, other) };
        let veth = Veth { ends: [end(0, one), far], near_up: true, mtu: properties.mtu };
        let what = || format!("join {} and {}", one.name, other.name);
        let mut requests = vec![create_veth(&veth)];
        // The kernel doesn't plug a far end in as it makes it.
        requests.extend(other.master().map(|master| set_switch(&names[1], master)));
        requests.push(set_up(&names[1]));
        self.netlink.send_all(requests).during(what)?;
        for (switch, name) in [&*one, &*other].into_iter().zip(&names) {
            switch.adopt(std::slice::from_ref(name))?;
            self.plain(name, properties)?;
            self.limit(name, properties)?;
        }
        Ok(names)
    }

    /// Joins two switches by taps, whose frames the caller has to pass on; returns their descriptors and
    /// names. Where `whole` holds, segments of up to 64 KiB come with a header that says what they are;
    /// otherwise every frame is at most as long as the MTU says.
    pub(crate) fn taps(
        &mut self,
        switches: [&mut Switch; 2],
        properties: LinkProperties,
        whole: bool,
    ) -> Result<[(OwnedFd, String); 2]> {
        let [one, other] = switches;
        Ok([self.tap_on(one, properties, whole)?, self.tap_on(other, properties, whole)?])
    }

    /// A tap that is plugged into a switch: its descriptor and name.
    fn tap_on(
        &mut self,
        switch: &mut Switch,
        properties: LinkProperties,
        whole: bool,
    ) -> Result<(OwnedFd, String)> {
        switch.take_ports(1)?;
        let name = port_name(self.take_host());
        let what = || format!("build a tap on {}", switch.name);
        let create = || if whole { tap::create(&name) } else { tap::create_bare(&name) };
        let tap = self.within(create).during(what)?;
        self.plug_tap(&name, switch, properties).during(what)?;
        switch.adopt(std::slice::from_ref(&name))?;
        self.remember(switch, &name);
        Ok((tap, name))
    }

    /// Has an interface of its own leave nothing to others, where the path says so.
    fn plain(&self, name: &str, properties: LinkProperties) -> Result<()> {
        if properties.offloads {
            return Ok(());
        }
        let off = || ethtool::set_all(name, false);
        self.within(off).during(|| format!("switch the offloads of {name} off"))
    }

    fn limit(&mut self, name: &str, properties: LinkProperties) -> Result<()> {
        let Some(tbf) = properties.tbf() else { return Ok(()) };
        let what = || format!("limit the rate of {name}");
        let index = self.netlink.link(name).during(what)?.index;
        self.netlink.send(add_tbf(index, &tbf)).during(what)
    }

    /// Joins two nodes of namespaces by one cable, without a switch; returns their addresses.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn join<A: AsMut<Attachment>, B: AsMut<Attachment>>(
        &mut self,
        one: &mut A,
        other: &mut B,
        properties: LinkProperties,
    ) -> Result<[IpAddr; 2]> {
        let numbers = [self.take_host(), self.take_host()];
        let ends = [one.as_mut(), other.as_mut()];
        self.join_at(ends, numbers, (numbers.map(address), PREFIX), properties)?;
        Ok(numbers.map(address))
    }

    /// As [`join`](Self::join), with these addresses on the cable.
    pub(crate) fn join_by(
        &mut self,
        ends: [&mut Attachment; 2],
        addresses: ([IpAddr; 2], u8),
        properties: LinkProperties,
    ) -> Result<()> {
        let numbers = [self.take_host(), self.take_host()];
        self.join_at(ends, numbers, addresses, properties)
    }

    fn join_at(
        &mut self,
        ends: [&mut Attachment; 2],
        numbers: [u16; 2],
        (addresses, prefix): ([IpAddr; 2], u8),
        properties: LinkProperties,
    ) -> Result<()> {
        let what = format!("join {} and {}", ends[0].name, ends[1].name);
        let names = [ends[0].next_interface(), ends[1].next_interface()];
        let insides = [ends[0].own_netns()?, ends[1].own_netns()?];
        let end = |i: usize| VethEnd {
            name: &names[i],
            mac: mac(numbers[i]),
            namespace: Some(insides[i]),
            group: 0,
            switch: None,
        };
        let veth = Veth { ends: [end(0), end(1)], near_up: false, mtu: properties.mtu };
        self.netlink.send(create_veth(&veth)).during(|| what.clone())?;
        for (inside, name) in insides.into_iter().zip(&names) {
            let Some(tbf) = properties.tbf() else { break };
            limit_inside(inside, name, &tbf).during(|| what.clone())?;
        }
        for (i, (node, name)) in ends.into_iter().zip(names).enumerate() {
            let (mtu, offloads) = (properties.mtu, properties.offloads);
            let find = FindInterface::Name(name.clone());
            let setup = InterfaceSetup { mtu, offloads, ..InterfaceSetup::new(find, name) };
            node.add_interface(InterfaceSetup { addresses: vec![(addresses[i], prefix)], ..setup });
        }
        Ok(())
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
        // `destroy` returns the error; the namespace's end takes what is left.
        let _ = self.delete();
    }
}

/// Limits what a node sends by this interface, as a card does: what it can't send yet waits in its own
/// kernel, where TCP sees it, and not in the switch.
fn limit_inside(inside: &NetNs, name: &str, tbf: &Tbf) -> vtax_sys::Result<()> {
    let mut netlink = Netlink::open_in(inside)?;
    let index = netlink.link(name)?.index;
    netlink.send(add_tbf(index, tbf))
}

fn setup(find: FindInterface, name: String, number: u16, properties: LinkProperties) -> InterfaceSetup {
    let addresses = vec![(address(number), PREFIX)];
    let (mtu, offloads) = (properties.mtu, properties.offloads);
    InterfaceSetup { addresses, mtu, offloads, ..InterfaceSetup::new(find, name) }
}

/// Brings nodes' interfaces up from outside, for nodes whose agents aren't asked to.
///
/// # Errors
///
/// Where a node has no network namespace here or the kernel refuses.
pub fn configure_from_outside<N: AsRef<Attachment>>(nodes: &[&N]) -> Result<()> {
    let namespaces = nodes.iter().map(|node| node.as_ref().own_netns()).collect::<Result<Vec<&NetNs>>>()?;
    let setups: Vec<&[InterfaceSetup]> =
        nodes.iter().map(|node| node.as_ref().interfaces.as_deref().unwrap_or_default()).collect();
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
