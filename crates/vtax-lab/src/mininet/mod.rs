//! Mininet's own network as a path: two of its hosts on one of its switches, in which agents are started.
//!
//! Mininet runs as the distribution has it, in namespaces of its own with a fresh `/run` and `/tmp`, so
//! that nothing it makes, processes included, outlives it.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::Deserialize;
use vtax_agent::message::{FindInterface, InterfaceSetup};
use vtax_plan::model::{MininetSwitch, NetPath};
use vtax_sys::{Context as _, Namespaces, NetNs};
use vtax_units::CpuSet;

use crate::error::{LabError, Result, While};
use crate::naming::{PREFIX, address};
use crate::process_io::stream;
use crate::program::{Daemon, Program};

const PACKAGE: &str = "mininet";
/// Debian's, for whose Python Mininet is packaged.
const PYTHON: Program = Program { name: "/usr/bin/python3", package: PACKAGE };
pub(crate) const ENTER: Program = Program { name: "mnexec", package: PACKAGE };
/// Mininet's `LinuxBridge` is made by this one.
const BRIDGES: Program = Program { name: "brctl", package: "bridge-utils" };
const NETWORK: &str = include_str!("network.py");
/// Mininet starts shells and calls dozens of programs.
const START_WITHIN: Duration = Duration::from_secs(60);
/// Its message has some hundred bytes.
const MOST: usize = 16 << 10;

/// What the network says of itself once it stands.
#[derive(Debug, Deserialize)]
struct Told {
    version: String,
    hosts: [String; 2],
    ports: [String; 2],
    seconds: f64,
}

/// A running Mininet network.
#[derive(Debug)]
pub(crate) struct Network {
    /// Network namespaces of its hosts.
    pub(crate) hosts: [NetNs; 2],
    /// Names of their interfaces.
    pub(crate) interfaces: [String; 2],
    /// The namespace of its switch, and the switch's port of the first host.
    pub(crate) switch: (Arc<NetNs>, String),
    /// What there is to say about it.
    pub(crate) facts: Vec<(String, String)>,
    daemon: Daemon,
    // Closed, it ends by itself.
    _channel: OwnedFd,
}

/// Why there can be none here; `None` where there can.
pub(crate) fn obstacle(switch: MininetSwitch) -> Option<String> {
    if !vtax_sys::caps::in_initial_user_namespace() {
        return Some("Mininet only runs as root".to_owned());
    }
    let import = PYTHON.command(["-I", "-c", "import mininet.net"]).and_then(|s| PYTHON.run(s, START_WITHIN));
    let missing = LabError::NotInstalled { program: "mininet", package: PACKAGE };
    let found = import.map_err(|_| missing).and_then(|_| ENTER.find().map(drop));
    let found = found.and_then(|()| match switch {
        MininetSwitch::LinuxBridge => BRIDGES.find().map(drop),
        MininetSwitch::OvsUser => Ok(()),
    });
    let ovs = || {
        let wanted = switch == MininetSwitch::OvsUser;
        wanted.then(|| crate::ovs::obstacle(Default::default())).flatten()
    };
    found.err().map(|e| e.to_string()).or_else(ovs)
}

impl Network {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// [`LabError::Tool`] with Mininet's last words.
    pub(crate) fn start(switch: MininetSwitch, path: &NetPath, cpus: &CpuSet) -> Result<Self> {
        let what = || "start Mininet".to_owned();
        let (channel, theirs) = stream()?;
        let kind = match switch {
            MininetSwitch::LinuxBridge => "linux-bridge",
            MininetSwitch::OvsUser => "ovs-user",
        };
        // -I: none of the user's modules; -B: no compiled files; -c: no file of ours either.
        let args = ["-I", "-B", "-c", NETWORK, kind, &path.mtu.to_string()].map(str::to_owned);
        let spawn = PYTHON
            .command(args)?
            .namespaces(Namespaces::NODE)
            .host_name("mininet")
            .mount_proc()
            .mount_tmpfs("/tmp", "mode=1777", false)
            .mount_tmpfs("/run", "mode=755", false)
            .mount_tmpfs("/var/tmp", "mode=1777", true)
            .without_ipv6()
            .fd(theirs, 3);
        let daemon = Daemon::start("mininet", spawn, cpus)?;
        daemon.wait_ready(START_WITHIN, || has_come(&channel))?;
        let (text, namespaces) = receive(&channel).during(what)?;
        let told: Told = serde_json::from_slice(&text)
            .map_err(|e| daemon.told(format!("it said what can't be understood ({e})")))?;
        let hosts = <[OwnedFd; 2]>::try_from(namespaces)
            .map_err(|_| daemon.told("it didn't pass its hosts' namespaces on".to_owned()))?;
        let root = Arc::new(NetNs::of_process(daemon.pid()).during(what)?);
        let [first, _] = &told.ports;
        let facts = [
            (
                "path.switch",
                format!("Mininet's {}", if kind == "ovs-user" { "OVSSwitch (user)" } else { "LinuxBridge" }),
            ),
            ("path.mininet.version", told.version),
            ("path.mininet.up_seconds", format!("{:.3}", told.seconds)),
            ("path.mininet.cpus", cpus.to_string()),
        ];
        Ok(Self {
            hosts: hosts.map(NetNs::from),
            interfaces: told.hosts,
            switch: (root, first.clone()),
            facts: facts.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
            daemon,
            _channel: channel,
        })
    }

    /// What the agent of host `which` has to bring up.
    pub(crate) fn setup(&self, which: usize, number: u16, mtu: u32) -> InterfaceSetup {
        let name = self.interfaces[which].clone();
        let addresses = vec![(address(number), PREFIX)];
        let setup = InterfaceSetup::new(FindInterface::Name(name.clone()), name);
        InterfaceSetup { addresses, mtu, ..setup }
    }

    /// Whether it still stands.
    pub(crate) fn alive(&self) -> bool {
        self.daemon.alive()
    }
}

fn has_come(channel: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::new(channel, PollFlags::IN)], Some(&now)), Ok(1..))
}

/// A message and the descriptors that came with it.
fn receive(channel: &OwnedFd) -> vtax_sys::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let mut text = vec![0; MOST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = recvmsg(channel, &mut [IoSliceMut::new(&mut text)], &mut ancillary, flags)
        .context("hear from", "Mininet")?;
    text.truncate(got.bytes);
    let descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok((text, descriptors.flatten().collect()))
}
