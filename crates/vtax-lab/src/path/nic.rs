//! A real interface to a remote host: the client in the host's own network, the system under test an agent
//! on another host. Or the load comes from agents on hosts of their own, and this host only leads: it needs no more than streams to them.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::panic::resume_unwind;

use vtax_agent::ssh;
use vtax_agent::streams::Streams;
use vtax_plan::model::NicOptions;
use vtax_sys::netlink::Netlink;
use vtax_sys::{NetNs, chain};

use super::parts::PathParts;
use super::path_builder::{PathBuilder, no_routers, one_system};
use super::{Built, End, Placed, Site};
use crate::agent_program::AgentProgram;
use crate::error::{Result, While};
use crate::lab::Lab;
use crate::node::Node;
use crate::nodes::Network;
use crate::program::Program;
use crate::remote::{RemoteHost, RemoteProgram};
use crate::spec::{NodeSpec, TestbedSpec};

pub(super) const SSH: Program = Program { name: "ssh", package: "openssh-client" };

/// A path over this host's interface.
pub(super) struct Nic<'a>(pub(super) &'a NicOptions);

impl PathBuilder for Nic<'_> {
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String> {
        one_system(spec, "it leads to one remote host")?;
        no_routers(spec, "what lies between is the real network")
    }

    fn obstacle(&self, lab: &Lab) -> Option<String> {
        if let (false, Err(missing)) = (self.0.given, SSH.find()) {
            return Some(missing.to_string());
        }
        let Some(streams) = lab.streams() else {
            return Some("nothing here leads to other hosts".to_owned());
        };
        let names = streams.names();
        let asked = self.0.hosts().count();
        if self.0.given && names.len() < asked {
            return Some(format!("it asks for {asked} hosts of `--on`, which gives {}", names.len()));
        }
        if self.has_generators() {
            // Where roles are drawn, each host has the service in one of so many rounds.
            let rounds = 0..if self.0.draw { asked as u32 } else { 1 };
            let in_round = |round| resolve(streams, &self.0.in_round(0, round).on_hosts(&names));
            return rounds.map(in_round).find_map(Result::err);
        }
        let Some(network) = lab.host_network() else {
            return Some(
                "a client on this host needs the host's own network, which this lab doesn't have".to_owned(),
            );
        };
        if let Err(e) = network.run(|| Ok(())) {
            return Some(format!(
                "the host's own network can't be entered ({}); run as root, or have the load come from other hosts (`generators`)",
                chain(&e)
            ));
        }
        resolve(streams, self.0).and_then(|address| interface(network, self.0, address)).err()
    }

    /// Starts the agent on the remote host, and the client in this host's network, or the generators on theirs.
    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        let whose = if self.has_generators() { "the hosts'" } else { "the remote host's" };
        site.notes.push(format!("path {}: {whose} CPUs and memory are not limited", site.path().name));
        if let Some(reason) = self.obstacle(site.lab) {
            return Err(site.refuse(reason));
        }
        let streams = site.lab.streams().ok_or_else(|| site.refuse("no streams"))?;
        let address = resolve(streams, self.0).map_err(|reason| site.refuse(reason))?;
        let mut parts = PathParts::default();
        parts.add_facts(
            [
                ("path.switch", "real network".to_owned()),
                ("path.nic.host", self.0.host.clone()),
                ("path.nic.address", address.to_string()),
            ]
            .map(|(key, value)| (key.to_owned(), value)),
        );
        let mut nodes = self.agents(site, streams)?;
        let node = nodes.remove(0);
        let mut generators = nodes;
        let (client, client_end) = if generators.is_empty() {
            let (client, end, interface) = self.client_here(site, address)?;
            parts.add_facts([("path.nic.interface".to_owned(), interface)]);
            (client, Some(end))
        } else {
            parts.add_facts([("path.nic.generators".to_owned(), self.0.generators.join(", "))]);
            (generators.remove(0), None)
        };
        let suts = vec![Placed { node, address, ends: Vec::new() }];
        let routers = Vec::new();
        Ok(Built { client, client_end, generators, routers, suts, cable: None, parts, fabric: None })
    }
}

impl Nic<'_> {
    /// Whether the load comes from other hosts than this one.
    const fn has_generators(&self) -> bool {
        !self.0.generators.is_empty()
    }

    /// The client in this host's own network, with its end of the path and the interface that leads to the service.
    fn client_here(&self, site: &Site<'_>, address: IpAddr) -> Result<(Node, End, String)> {
        let network = site.lab.host_network().ok_or_else(|| site.refuse("no network"))?;
        let interface = interface(network, self.0, address).map_err(|reason| site.refuse(reason))?;
        let hold = || network.try_clone().during(|| "hold the host's network".to_owned());
        let client = site.lab.add_node(Network::Host(hold()?), &site.client)?;
        Ok((client, End::Inside { netns: hold()?, interface: interface.clone() }, interface))
    }

    /// The agents of the system under test and of the generators, in this order. They are started at the same time, as vtax may have to be
    /// sent to each over a slow line.
    fn agents(&self, site: &Site<'_>, streams: &dyn Streams) -> Result<Vec<Node>> {
        let name = |number| NodeSpec::new(site.slot.node_name("client", number));
        let generators: Vec<_> = (0..self.0.generators.len()).map(name).collect();
        let hosts = std::iter::once(&self.0.host).chain(&self.0.generators);
        let specs = std::iter::once(&site.suts[0]).chain(&generators);
        let agent = site.lab.agent_program();
        std::thread::scope(|scope| {
            let started: Vec<_> = hosts
                .zip(specs)
                .map(|(host, spec)| scope.spawn(move || self.agent(agent, streams, host, spec)))
                .collect();
            // Where one couldn't be started, the others are dropped, and so ended.
            started.into_iter().map(|thread| thread.join().unwrap_or_else(|p| resume_unwind(p))).collect()
        })
    }

    /// Starts the agent of a node on another host, in a directory that is removed when it has ended, whatever ended it.
    fn agent(
        &self,
        agent: &AgentProgram,
        streams: &dyn Streams,
        host: &str,
        spec: &NodeSpec,
    ) -> Result<Node> {
        let there = RemoteHost { streams, host };
        let known = streams.hosts().iter().find(|known| known.name == host);
        let program = match known.and_then(|known| known.program.as_ref()).or(self.0.vtax.as_ref()) {
            Some(vtax) => RemoteProgram::There(vtax),
            None => RemoteProgram::Sent(&agent.program),
        };
        let words = agent.args[1..].iter().map(String::as_str).chain(["--node", &spec.name]);
        let words: Vec<String> = words.map(ssh::quoted).collect();
        there.agent(spec, &program, &format!("{} --fd 0 --lease --dir \"$d/node\"", words.join(" ")))
    }
}

/// The remote host's address on the network to be measured.
fn resolve(streams: &dyn Streams, nic: &NicOptions) -> Result<IpAddr, String> {
    streams.address(nic.address.trim_matches(['[', ']']))
}

/// The interface that leads there.
fn interface(network: &NetNs, nic: &NicOptions, address: IpAddr) -> Result<String, String> {
    let look = || {
        let names = Netlink::open()?.links()?.into_iter().map(|l| l.name).collect::<Vec<_>>();
        let routes = std::fs::read_to_string("/proc/thread-self/net/route").unwrap_or_default();
        Ok((names, routes))
    };
    let (names, routes) = network.run(look).map_err(|e| chain(&e))?;
    let leads = match address {
        IpAddr::V4(v4) => by_route(&routes, v4.into()),
        IpAddr::V6(_) => None,
    };
    chosen(nic.interface.as_ref(), leads, &names, address)
}

/// The interface to be taken of these `names`: the one that is `wanted`, where the route `leads` over no other.
fn chosen(
    wanted: Option<&String>,
    leads: Option<String>,
    names: &[String],
    address: IpAddr,
) -> Result<String, String> {
    match (wanted, leads) {
        (Some(wanted), _) if !names.contains(wanted) => {
            Err(format!("this host has no interface `{wanted}`; it has {}", names.join(", ")))
        }
        (Some(wanted), Some(leads)) if *wanted != leads => {
            Err(format!("the route to {address} leads over {leads}, not over {wanted}"))
        }
        (Some(wanted), _) => Ok(wanted.clone()),
        (None, Some(leads)) => Ok(leads),
        (None, None) if address.is_ipv6() => {
            Err(format!("routes to IPv6 addresses such as {address} aren't looked up: name the `interface`"))
        }
        (None, None) => Err(format!("no route of this host leads to {address}; name the `interface`")),
    }
}

/// `RTF_REJECT`: packets are refused instead of sent.
const REJECT: u32 = 0x0200;

/// The interface that the kernel sends by, in the form of `/proc/net/route`: of the longest prefix that fits, that of the lowest
/// metric, and of two like these the first; `None` too where that route refuses. Addresses are hexadecimal numbers in the machine's
/// byte order.
fn by_route(routes: &str, address: u32) -> Option<String> {
    let fits = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let hexadecimal = |i: usize| u32::from_str_radix(words.get(i)?, 16).ok();
        let number = |i: usize| Some(u32::from_be_bytes(hexadecimal(i)?.to_ne_bytes()));
        let (destination, flags, mask) = (number(1)?, hexadecimal(3)?, number(7)?);
        let metric: u32 = words.get(6)?.parse().ok()?;
        // One without an interface drops them.
        let leads = (flags & REJECT == 0 && words[0] != "*").then(|| words[0].to_owned());
        (address & mask == destination).then(|| (Reverse(mask.count_ones()), metric, leads))
    };
    let best = routes.lines().skip(1).filter_map(fits).min_by_key(|(length, metric, _)| (*length, *metric));
    best.and_then(|(_, _, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of `/proc/net/route`.
    fn line(name: &str, to: [u8; 4], mask: [u8; 4], flags: &str, metric: u32) -> String {
        let hex = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        format!("{name}\t{}\t00000000\t{flags}\t0\t0\t{metric}\t{}\t0\t0\t0\n", hex(to), hex(mask))
    }

    #[test]
    fn a_route_that_was_not_looked_up_is_not_said_to_be_missing() {
        let names = ["eth0".to_owned()];
        let told = |address: &str| chosen(None, None, &names, address.parse().unwrap()).unwrap_err();
        assert!(told("2001:db8::1").contains("aren't looked up: name the `interface`"));
        assert!(told("192.0.2.1").starts_with("no route of this host"));
        let wanted = chosen(Some(&names[0]), None, &names, "2001:db8::1".parse().unwrap());
        assert_eq!(wanted.as_deref(), Ok("eth0"));
    }

    #[test]
    fn the_longest_prefix_leads() {
        let table = "Iface\tDestination\tGateway\tFlags\n".to_owned()
            + &line("eth0", [0; 4], [0; 4], "0003", 0)
            + &line("eth1", [192, 0, 2, 0], [255, 255, 255, 0], "0001", 0)
            + "torn\n";
        let to = |address: &str| by_route(&table, u32::from(address.parse::<std::net::Ipv4Addr>().unwrap()));
        assert_eq!(to("192.0.2.7").as_deref(), Some("eth1"));
        assert_eq!(to("198.51.100.1").as_deref(), Some("eth0"));
        assert_eq!(by_route("Iface\n", 0), None);
    }

    #[test]
    fn of_equal_routes_the_lowest_metric_leads_and_one_that_refuses_leads_nowhere() {
        let to_all = |name, flags, metric| line(name, [0; 4], [0; 4], flags, metric);
        let leads = |lines: &[String]| by_route(&format!("Iface\n{}", lines.concat()), 1);
        // The kernel lists them so.
        let [wired, wireless] = [to_all("eth0", "0003", 100), to_all("wlan0", "0003", 600)];
        assert_eq!(leads(&[wired.clone(), wireless.clone()]).as_deref(), Some("eth0"));
        assert_eq!(leads(&[wireless, wired.clone()]).as_deref(), Some("eth0"));
        assert_eq!(leads(&[wired.clone(), to_all("eth1", "0003", 100)]).as_deref(), Some("eth0"));
        for refusing in [to_all("lo", "0200", 50), to_all("*", "0001", 50)] {
            assert_eq!(leads(&[refusing, wired.clone()]), None);
        }
        assert_eq!(leads(&[wired, to_all("*", "0200", 101)]).as_deref(), Some("eth0"));
    }
}
