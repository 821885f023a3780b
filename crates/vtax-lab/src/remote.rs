//! Paths over a real interface: the client in the host's own network, the system under test a remote host
//! whose agent is reached by ssh.
//!
//! The agent's stream is ssh's; the agent opens no port. Where vtax isn't there, this program is copied to a
//! fresh directory, which the remote shell removes when the agent has ended, however that comes about.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use vtax_plan::model::{NetPath, NicOptions};
use vtax_sys::netlink::Netlink;
use vtax_sys::spawn::Spawn;
use vtax_sys::{NetNs, chain};

use crate::budget::Enforced;
use crate::error::{LabError, OnPath, Result, While};
use crate::lab::{Lab, NodeSpec};
use crate::netns_node::{DIRECTORY, Network, output_file, stream};
use crate::node::{Host, Node, tail};
use crate::path::End;
use crate::program::Program;

const SSH: Program = Program { name: "ssh", package: "openssh-client" };
/// Never a question, and an end where the other side is gone.
const OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];
/// Copying tens of megabytes over a slow line.
const COPY_WITHIN: Duration = Duration::from_secs(300);
/// Makes a directory that is nobody else's, takes the program from its input, says where it is.
const RECEIVE: &str = r#"umask 077; d=$(mktemp -d "${TMPDIR:-/tmp}/vtax-XXXXXXXX") && cat > "$d/vtax" && chmod 700 "$d/vtax" && echo "$d""#;
/// What of the environment ssh needs beside the usual: keys held by an agent, and whose they are.
const PASSED_ON: [&str; 4] = ["HOME", "USER", "LOGNAME", "SSH_AUTH_SOCK"];

/// A client in the host's network and a remote system under test.
pub(crate) struct Pair {
    pub(crate) client: Node,
    pub(crate) sut: Node,
    pub(crate) address: IpAddr,
    pub(crate) end: End,
    pub(crate) facts: BTreeMap<String, String>,
}

/// Why a path to this host can't be built here; `None` where it can be tried.
pub(crate) fn obstacle(lab: &Lab, nic: &NicOptions) -> Option<String> {
    if let Err(missing) = SSH.find() {
        return Some(missing.to_string());
    }
    let Some(network) = lab.host_network() else {
        return Some("a real interface needs the host's own network, which this lab doesn't have".to_owned());
    };
    if let Err(e) = network.run(|| Ok(())) {
        return Some(format!("the host's own network can't be entered ({}); run as root", chain(&e)));
    }
    resolve(network, nic).and_then(|address| interface(network, nic, address)).err()
}

/// The remote host's address on the network to be measured.
fn resolve(network: &NetNs, nic: &NicOptions) -> Result<IpAddr, String> {
    let name = nic.address.trim_matches(['[', ']']).to_owned();
    let look = || {
        let found = (name.as_str(), 0).to_socket_addrs().map(|mut all| all.next());
        Ok(found.map_err(|e| e.to_string()))
    };
    match network.run(look) {
        Ok(Ok(Some(address))) => Ok(address.ip()),
        Ok(Ok(None)) => Err(format!("`{name}` resolves to no address")),
        Ok(Err(e)) => Err(format!("`{name}` resolves to nothing: {e}")),
        Err(e) => Err(chain(&e)),
    }
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
    match (&nic.interface, leads) {
        (Some(wanted), _) if !names.contains(wanted) => {
            Err(format!("this host has no interface `{wanted}`; it has {}", names.join(", ")))
        }
        (Some(wanted), Some(leads)) if *wanted != leads => {
            Err(format!("the route to {address} leads over {leads}, not over {wanted}"))
        }
        (Some(wanted), _) => Ok(wanted.clone()),
        (None, Some(leads)) => Ok(leads),
        (None, None) => Err(format!("no route of this host leads to {address}; name the `interface`")),
    }
}

/// The interface of the longest prefix that fits, in the form of `/proc/net/route`: addresses as hexadecimal
/// numbers in the machine's byte order.
fn by_route(routes: &str, address: u32) -> Option<String> {
    let fits = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let number =
            |i: usize| Some(u32::from_be_bytes(u32::from_str_radix(words.get(i)?, 16).ok()?.to_ne_bytes()));
        let (destination, mask) = (number(1)?, number(7)?);
        (address & mask == destination).then(|| (mask.count_ones(), words[0].to_owned()))
    };
    routes.lines().skip(1).filter_map(fits).max_by_key(|(length, _)| *length).map(|(_, name)| name)
}

impl Lab {
    /// Starts the client in the host's network, and the agent on the remote host.
    pub(crate) fn build_remote(
        &self,
        path: &NetPath,
        nic: &NicOptions,
        [client, sut]: [&NodeSpec; 2],
    ) -> Result<Pair> {
        let failed = |reason: String| LabError::Path { path: path.name.clone(), reason };
        if let Some(reason) = obstacle(self, nic) {
            return Err(failed(reason));
        }
        let network = self.host_network().ok_or_else(|| failed("no network".to_owned()))?;
        let hold = || network.try_clone().during(|| "hold the host's network".to_owned());
        let address = resolve(network, nic).map_err(failed)?;
        let interface = interface(network, nic, address).map_err(failed)?;
        let ssh = Ssh { words: self.ssh(), host: &nic.host, network };
        let command = match &nic.vtax {
            Some(vtax) => format!(
                "d=$(mktemp -d \"${{TMPDIR:-/tmp}}/vtax-XXXXXXXX\") || exit 1; {vtax} agent --node {} --fd 0 --dir \
                 \"$d/node\"; s=$?; rm -rf \"$d\"; exit $s",
                sut.name
            ),
            None => {
                let directory = ssh.copy(&self.agent_program().program).map_err(failed)?;
                format!(
                    "d={directory}; \"$d/vtax\" {} --node {} --fd 0 --dir \"$d/node\"; s=$?; rm -rf \"$d\"; exit $s",
                    self.agent_program().args[1..].join(" "),
                    sut.name
                )
            }
        };
        let sut = ssh.agent(sut, &command)?;
        let client = self.add_node_on(Network::Host(hold()?), client)?;
        let facts = [
            ("path.switch", "real network".to_owned()),
            ("path.nic.interface", interface.clone()),
            ("path.nic.host", nic.host.clone()),
            ("path.nic.address", address.to_string()),
        ];
        let facts = facts.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        Ok(Pair { client, sut, address, end: End::Inside { netns: hold()?, interface }, facts })
    }
}

/// ssh to one host.
struct Ssh<'a> {
    words: &'a [String],
    host: &'a str,
    network: &'a NetNs,
}

impl Ssh<'_> {
    fn spawn(&self, command: &str) -> Result<Spawn> {
        let own = self.words.iter().skip(1).map(String::as_str);
        let words = own.chain(OPTIONS).chain(["--", self.host, command]);
        let spawn = SSH.command(words)?;
        let spawn = PASSED_ON.iter().fold(spawn, |spawn, name| match std::env::var_os(name) {
            Some(value) => spawn.env(name, value),
            None => spawn,
        });
        let network = self.network.try_clone().during(|| "hold the host's network".to_owned())?;
        Ok(spawn.join_net(network.into()))
    }

    /// Copies this program there; returns the directory it is in.
    fn copy(&self, program: &Path) -> Result<String, String> {
        let run = || -> Result<String> {
            let input: OwnedFd = File::open(program).on("open", program)?.into();
            SSH.run_with(self.spawn(RECEIVE)?, input, COPY_WITHIN)
        };
        let told = run().map_err(|e| format!("vtax can't be copied to {}: {}", self.host, chain(&e)))?;
        let directory = told.lines().last().unwrap_or_default().trim().to_owned();
        // It becomes part of a command: whoever answers there may say anything.
        let plain = |c: char| c.is_ascii_alphanumeric() || "/._-".contains(c);
        if directory.starts_with('/') && directory.len() < 200 && directory.chars().all(plain) {
            return Ok(directory);
        }
        Err(format!("{} said `{}` instead of a directory", self.host, directory.escape_debug()))
    }

    /// Starts the agent there. What goes wrong is told by whoever waits for its answer.
    fn agent(&self, spec: &NodeSpec, command: &str) -> Result<Node> {
        let (channel, theirs) = stream()?;
        let output = output_file(&spec.name)?;
        let place = Path::new("ssh's descriptors");
        let copy = theirs.try_clone().on("duplicate", place)?;
        let errors: OwnedFd = output.try_clone().on("duplicate", place)?.into();
        let spawn = self.spawn(command)?.fd(theirs, 0).fd(copy, 1).fd(errors, 2);
        let process = spawn.start(|_| Ok(())).during(|| format!("start ssh {}", self.host))?;
        Ok(Node {
            name: spec.name.clone(),
            enforced: Enforced::default(),
            host: Some(Host::Remote(process)),
            channel: Some(channel),
            netns: None,
            group: None,
            output: Some(output),
            interfaces: None,
            directory: DIRECTORY.into(),
            facts: BTreeMap::new(),
            on_host: None,
        })
    }
}

impl Program {
    /// As [`run`](Self::run), with this on its standard input.
    fn run_with(self, spawn: Spawn, input: OwnedFd, within: Duration) -> Result<String> {
        let what = || format!("run {}", self.name);
        let [output, errors] = [output_file(self.name)?, output_file(self.name)?];
        let copy = |file: &File| file.try_clone().map(OwnedFd::from).on("duplicate", Path::new("output"));
        let spawn = spawn.fd(input, 0).fd(copy(&output)?, 1).fd(copy(&errors)?, 2);
        let process = spawn.start(|_| Ok(())).during(what)?;
        if !process.ended_within(within).during(what)? {
            process.kill_and_reap(Duration::from_secs(5)).during(what)?;
        }
        let ended = process.wait().during(what)?;
        if ended.success() {
            return Ok(tail(&output));
        }
        Err(LabError::Tool { tool: self.name.to_owned(), how: ended.to_string(), output: tail(&errors) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_prefix_leads() {
        let hex = |address: [u8; 4]| format!("{:08X}", u32::from_ne_bytes(address));
        let line = |name: &str, to: [u8; 4], mask: [u8; 4]| {
            format!("{name}\t{}\t00000000\t0001\t0\t0\t0\t{}\t0\t0\t0\n", hex(to), hex(mask))
        };
        let table = "Iface\tDestination\tGateway\tFlags\n".to_owned()
            + &line("eth0", [0; 4], [0; 4])
            + &line("eth1", [192, 0, 2, 0], [255, 255, 255, 0])
            + "torn\n";
        let to = |address: &str| by_route(&table, u32::from(address.parse::<std::net::Ipv4Addr>().unwrap()));
        assert_eq!(to("192.0.2.7").as_deref(), Some("eth1"));
        assert_eq!(to("198.51.100.1").as_deref(), Some("eth0"));
        assert_eq!(by_route("Iface\n", 0), None);
    }
}
