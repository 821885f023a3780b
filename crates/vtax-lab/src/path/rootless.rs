//! Networks in user space, as containers without root have them: pasta or slirp4netns makes the system's interface, a tap, and
//! passes on to it what the service's port of its host gets.
//!
//! The host is a network namespace with that process and the client's cable in it. The process runs on the system's CPUs, as it
//! works for the system.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Shutdown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vtax_plan::model::{NetPath, UserNetwork};
use vtax_sys::NetNs;
use vtax_sys::cpu_clock::process_cpu;
use vtax_sys::netlink::{Netlink, add_address};

use super::hosts;
use super::passage::{Passage, Passed};
use super::path_builder::{PathBuilder, no_routers, one_system};
use super::site::{Built, Site};
use super::switched::{self, Switches};
use crate::error::{OnPath, Result, While};
use crate::fabric::Fabric;
use crate::lab::Lab;
use crate::naming::{HOP_PREFIX, PREFIX, address, hop_address, mac_of};
use crate::program::{Daemon, Program};
use crate::spec::TestbedSpec;

/// The system's interface.
const INTERFACE: &str = "eth0";
/// The number of the descriptor by which the process enters the system's network: to open the file of another process's
/// namespace, it keeps too few capabilities.
const SYSTEM: i32 = 5;
/// How long the process may take to make it.
const MADE_WITHIN: Duration = Duration::from_secs(10);
/// How long slirp4netns may take to answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// More of an answer is not read.
const MOST_ANSWER: u64 = 4096;
/// The client's last octet on the network that it shares with the host, and the host's.
const CLIENT: u8 = 254;
const HOST: u8 = 1;

/// A network in user space.
pub(super) struct Rootless(pub(super) UserNetwork);

/// The program of a network.
pub(super) const fn program(network: UserNetwork) -> Program {
    match network {
        UserNetwork::Pasta => Program { name: "pasta", package: "passt" },
        UserNetwork::Slirp4netns => Program { name: "slirp4netns", package: "slirp4netns" },
    }
}

/// Why there can be none on this host; `None` where there can.
pub(super) fn obstacle(network: UserNetwork) -> Option<String> {
    if let Err(e) = program(network).find() {
        return Some(e.to_string());
    }
    let tun = Path::new("/dev/net/tun");
    std::fs::File::options()
        .read(true)
        .write(true)
        .open(tun)
        .on("open", tun)
        .err()
        .map(|e| vtax_sys::chain(&e))
}

impl PathBuilder for Rootless {
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String> {
        one_system(spec, "its process has one")?;
        no_routers(spec, "its host has the client's cable")
    }

    fn obstacle(&self, _lab: &Lab) -> Option<String> {
        obstacle(self.0)
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        let port =
            site.spec.suts[0].port.ok_or_else(|| site.refuse("its service has no port to be published"))?;
        let (path, slot) = (site.path(), site.slot.number());
        let host = Arc::new(hosts::create()?);
        let fabric = site.fabric_in(&host)?;
        let mut built = switched::build_on(site, path, fabric, |_, _, _| {
            Ok(Switches { far: Some(Fabric::add_program()), ..Switches::one(Fabric::add_door()) })
        })?;
        let fabric = built.network()?;
        let (door, gateway) = (fabric.own_door()?.to_owned(), address(fabric.take_host()));
        let public = hop_address(slot, 0, HOST);
        let what = || "address the host of a network in user space".to_owned();
        let mut netlink = Netlink::open_in(&host).during(what)?;
        let index = netlink.link(&door).during(what)?.index;
        netlink.send(add_address(index, public, HOP_PREFIX)).during(what)?;
        for setup in built.client.attachment.interfaces.iter_mut().flatten() {
            setup.addresses = vec![(hop_address(slot, 0, CLIENT), HOP_PREFIX)];
        }
        let sut = &mut built.suts[0];
        let inside = sut.node.attachment.own_netns()?.try_clone().during(what)?;
        let system = System { mtu: path.sut_mtu.unwrap_or(path.mtu), port, address: sut.address, gateway };
        let process =
            Process::start(site, self.0, &Outer { host: &host, door: &door, public }, &system, inside)?;
        sut.address = process.address;
        for setup in sut.node.attachment.interfaces.iter_mut().flatten() {
            // It is addressed already.
            setup.addresses = Vec::new();
        }
        built.parts.published = vec![public];
        built.parts.passage = Some(Box::new(process));
        Ok(built)
    }

    fn facts(&self, path: &NetPath) -> Vec<(String, String)> {
        let inside = path.sut_mtu.unwrap_or(path.mtu);
        vec![
            ("path.kind".to_owned(), path.kind.word().to_owned()),
            ("path.mtu".to_owned(), path.mtu.to_string()),
            ("path.mtu.inside".to_owned(), inside.to_string()),
        ]
    }
}

/// What is outside of the system, where a process has its other end.
struct Outer<'a> {
    /// The host's network.
    host: &'a NetNs,
    /// The interface of the host that leads to the client.
    door: &'a str,
    /// The host's address there, at which the system's port is published.
    public: IpAddr,
}

/// The system that a process works for.
struct System {
    /// MTU of its interface in bytes.
    mtu: u32,
    /// The port that is published.
    port: u16,
    /// Its address, where that is ours to choose, and its way to everywhere else.
    address: IpAddr,
    gateway: IpAddr,
}

/// The process, and where its counters are.
#[derive(Debug)]
struct Process {
    network: UserNetwork,
    daemon: Daemon,
    /// The system's network, which has the tap in it.
    inside: NetNs,
    /// The system's address.
    address: IpAddr,
}

impl Process {
    fn start(
        site: &mut Site<'_>,
        network: UserNetwork,
        outer: &Outer<'_>,
        system: &System,
        inside: NetNs,
    ) -> Result<Self> {
        let what = || format!("start {}", network.word());
        let socket = site.lab.scratch()?.join(format!("{}-{}.sock", network.word(), site.slot.number()));
        // What a killed one left.
        let _ = std::fs::remove_file(&socket);
        let arguments = match network {
            UserNetwork::Pasta => pasta(outer.door, system),
            UserNetwork::Slirp4netns => slirp4netns(&socket, system),
        };
        let spawn =
            program(network).command(arguments)?.join_net(outer.host.try_clone().during(what)?.into());
        let spawn = spawn.fd(inside.try_clone().during(what)?.into(), SYSTEM);
        let daemon = Daemon::start(network.word(), spawn, &site.suts[0].cpus)?;
        let has_interface = || {
            let look = Netlink::open_in(&inside).and_then(|mut n| n.link(INTERFACE));
            look.is_ok_and(|link| link.up && link.kind == "tun")
        };
        daemon.wait_ready(MADE_WITHIN, has_interface)?;
        let address = match network {
            UserNetwork::Pasta => system.address,
            UserNetwork::Slirp4netns => {
                daemon.wait_ready(MADE_WITHIN, || socket.exists())?;
                publish(&socket, outer.public, system.port).map_err(|how| daemon.told(how))?;
                SLIRP_GUEST
            }
        };
        Ok(Self { network, daemon, inside, address })
    }
}

/// The file of the system's network namespace, as the process opens it.
fn system_file() -> String {
    format!("/proc/self/fd/{SYSTEM}")
}

/// pasta(1)'s arguments.
fn pasta(door: &str, system: &System) -> Vec<String> {
    let port = system.port.to_string();
    let mut arguments: Vec<String> = [
        "--foreground",
        "--stderr",
        "--quiet",
        "--ipv4-only",
        "--config-net",
        "--no-netns-quit",
        "--no-map-gw",
    ]
    .map(str::to_owned)
    .into();
    arguments.extend(
        ["--no-dhcp", "--no-ndp", "--no-ra", "--tcp-ns", "none", "--udp-ns", "none"].map(str::to_owned),
    );
    if vtax_sys::caps::in_initial_user_namespace() {
        // As who started it: as nobody, it could not enter the system's network.
        arguments.extend(["--runas", "0"].map(str::to_owned));
    }
    let mac = mac_of(system.address).unwrap_or_default();
    let pairs = [
        ("--ns-ifname", INTERFACE.to_owned()),
        ("--interface", door.to_owned()),
        ("--address", system.address.to_string()),
        ("--netmask", PREFIX.to_string()),
        ("--gateway", system.gateway.to_string()),
        ("--ns-mac-addr", mac.to_string()),
        ("--mtu", system.mtu.to_string()),
        ("--dns", "none".to_owned()),
        ("--tcp-ports", port.clone()),
        ("--udp-ports", port),
        ("--netns", system_file()),
    ];
    arguments.extend(pairs.into_iter().flat_map(|(key, value)| [key.to_owned(), value]));
    arguments
}

/// The address that slirp4netns(1) gives a system on its usual network, 10.0.2.0/24.
const SLIRP_GUEST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 2, 100));

/// slirp4netns(1)'s arguments. It publishes what it is told to by its socket.
fn slirp4netns(socket: &Path, system: &System) -> Vec<String> {
    let socket: PathBuf = socket.to_owned();
    vec![
        "--configure".to_owned(),
        "--netns-type=path".to_owned(),
        "--disable-host-loopback".to_owned(),
        "--disable-dns".to_owned(),
        format!("--mtu={}", system.mtu),
        format!("--api-socket={}", socket.display()),
        system_file(),
        INTERFACE.to_owned(),
    ]
}

/// Connects to slirp4netns, which refuses that between making its socket and listening on it.
fn connect(socket: &Path) -> std::io::Result<UnixStream> {
    let until = Instant::now() + ANSWER_WITHIN;
    loop {
        match UnixStream::connect(socket) {
            Err(e) if e.kind() == ErrorKind::ConnectionRefused && Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(2));
            }
            connected => return connected,
        }
    }
}

/// Has slirp4netns publish a port for TCP and UDP.
fn publish(socket: &Path, public: IpAddr, port: u16) -> Result<(), String> {
    for protocol in ["tcp", "udp"] {
        let request = serde_json::json!({
            "execute": "add_hostfwd",
            "arguments": {
                "proto": protocol, "host_addr": public.to_string(), "host_port": port, "guest_port": port,
            },
        });
        let ask = || -> std::io::Result<String> {
            let mut stream = connect(socket)?;
            stream.set_read_timeout(Some(ANSWER_WITHIN))?;
            stream.write_all(request.to_string().as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
            let mut answer = String::new();
            stream.take(MOST_ANSWER).read_to_string(&mut answer)?;
            Ok(answer)
        };
        let asked = Instant::now();
        let answer = ask().map_err(|e| format!("it doesn't answer ({e}, after {:?})", asked.elapsed()))?;
        if !is_done(&answer) {
            return Err(format!("it doesn't publish port {port} for {protocol}: {answer}"));
        }
    }
    Ok(())
}

/// Whether slirp4netns did what it was asked: `{"return": ...}`, as in `{"error": ...}` it didn't.
fn is_done(answer: &str) -> bool {
    let answer: Result<serde_json::Value, _> = serde_json::from_str(answer.trim());
    answer.is_ok_and(|answer| answer.get("return").is_some())
}

impl Passage for Process {
    /// What the process put into the system's tap and took out of it.
    fn passed(&self) -> Result<Passed> {
        let look = Netlink::open_in(&self.inside).and_then(|mut n| n.link(INTERFACE));
        let stats = look.during(|| "read the counters of a system's tap".to_owned())?.stats;
        Ok(Passed { up: stats.received_packets, down: stats.sent_packets })
    }

    fn facts(&self) -> Vec<(String, String)> {
        let word = self.network.word();
        let used = u32::try_from(self.daemon.pid()).ok().and_then(process_cpu);
        let used = used.map(|used| (format!("path.{word}.cpu_ns"), used.0.to_string()));
        used.into_iter().chain([(format!("path.{word}.alive"), self.daemon.alive().to_string())]).collect()
    }

    /// Nothing else is published.
    fn asks_the_service(&self) -> bool {
        true
    }

    fn processes(&self) -> Vec<u32> {
        u32::try_from(self.daemon.pid()).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn system() -> System {
        System { mtu: 65_520, port: 8080, address: address(2), gateway: address(3) }
    }

    #[test]
    fn one_port_is_published_and_nothing_of_the_hosts_is_reached() {
        let words = pasta("p1", &system()).join(" ");
        for part in [
            "--tcp-ports 8080",
            "--udp-ports 8080",
            "--tcp-ns none",
            "--no-map-gw",
            "--netns /proc/self/fd/5",
        ] {
            assert!(words.contains(part), "{part} in {words}");
        }
        assert!(words.contains("--ns-mac-addr 02:76:74:00:00:02"), "{words}");
        let words = slirp4netns(Path::new("/scratch/s.sock"), &system()).join(" ");
        assert!(
            words.contains("--api-socket=/scratch/s.sock") && words.ends_with("/proc/self/fd/5 eth0"),
            "{words}"
        );
    }

    #[test]
    fn a_socket_on_which_nobody_listens_yet_is_waited_for() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("api");
        let made = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&made, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        let refused = UnixStream::connect(&path).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        std::thread::scope(|scope| {
            let connected = scope.spawn(|| connect(&path));
            std::thread::sleep(Duration::from_millis(20));
            listen(&made, 1).unwrap();
            assert!(connected.join().unwrap().is_ok());
        });
    }

    #[test]
    fn an_answer_is_understood() {
        assert!(is_done("{\"return\": {\"id\": 1}}\n"));
        assert!(!is_done("{\"error\": {\"desc\": \"bad request: add_hostfwd: slirp_add_hostfwd failed\"}}"));
        assert!(!is_done(""));
    }

    proptest! {
        #[test]
        fn no_answer_is_too_odd(text in ".{0,200}") {
            let _ = is_done(&text);
        }
    }
}
