//! Two ends of one cable for programs that know nothing of agents: how vtax is compared with others.

use std::io::Read;
use std::net::{IpAddr, Ipv4Addr};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use serde::Serialize;
use serde::de::DeserializeOwned;
use vtax_lab::LinkProperties;
use vtax_sys::controller::{ControllerOptions, start_controller};
use vtax_sys::netlink::{Mac, Netlink, Veth, VethEnd, add_address, add_tbf, create_veth, set_up};
use vtax_sys::reap::{self, Reaped};
use vtax_sys::{NetNs, PidFd, SysError};

use crate::{Result, While};

/// Prefix length of the cable's network.
const PREFIX: u8 = 24;

/// Address of an end, 1 or 2.
const fn address(end: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 97, 0, end))
}

/// A cable with nothing on it but what is [started](Self::start) at its ends.
#[derive(Debug)]
pub struct Cable {
    ends: [NetNs; 2],
    /// Addresses of its ends.
    pub addresses: [IpAddr; 2],
}

/// A program that has ended.
#[derive(Debug)]
pub struct Ran {
    /// What it wrote to its standard output.
    pub output: String,
    /// How it ended and what it used.
    pub reaped: Reaped,
}

impl Cable {
    /// Both ends on one loopback interface.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn loopback() -> Result<Self> {
        let what = || "build a loopback".to_owned();
        let namespace = NetNs::create().during(what)?;
        Netlink::open_in(&namespace).and_then(|mut n| n.send(set_up("lo"))).during(what)?;
        let other = namespace.try_clone().during(what)?;
        Ok(Self { ends: [namespace, other], addresses: [IpAddr::V4(Ipv4Addr::LOCALHOST); 2] })
    }

    /// A pair of Ethernet interfaces, each in a namespace of its own; what leaves an end is shaped.
    ///
    /// # Errors
    ///
    /// Where the kernel refuses.
    pub fn veth(properties: LinkProperties) -> Result<Self> {
        let what = || "build a cable".to_owned();
        let ends = [NetNs::create().during(what)?, NetNs::create().during(what)?];
        let end = |number: u8, inside| VethEnd {
            name: "eth0",
            mac: Mac([0x02, 0x76, 0x74, 0x00, 0x00, number]),
            namespace: Some(inside),
            group: 0,
            switch: None,
        };
        let veth = Veth { ends: [end(1, &ends[0]), end(2, &ends[1])], near_up: false, mtu: properties.mtu };
        Netlink::open().and_then(|mut n| n.send(create_veth(&veth))).during(what)?;
        for (number, inside) in (1..).zip(&ends) {
            let mut netlink = Netlink::open_in(inside).during(what)?;
            let index = netlink.link("eth0").during(what)?.index;
            let up = [set_up("lo"), set_up("eth0"), add_address(index, address(number), PREFIX)];
            netlink
                .send_all(up.into_iter().chain(properties.tbf().map(|t| add_tbf(index, &t))))
                .during(what)?;
        }
        Ok(Self { ends, addresses: [address(1), address(2)] })
    }

    /// Starts a program at an end, 0 or 1; its standard output is kept for [`finish`].
    ///
    /// # Errors
    ///
    /// Where there is no such program or it may not be run.
    pub fn start(&self, end: usize, command: &mut Command) -> Result<Child> {
        let name = command.get_program().to_string_lossy().into_owned();
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let started = self.ends[end].run(|| command.spawn().map_err(|e| SysError::call("start", &name, e)));
        started.during(|| format!("run {name} at an end of a cable"))
    }

    /// Starts a server at an end and waits until it says so on its standard output.
    ///
    /// # Errors
    ///
    /// As [`start`](Self::start), and where it ends without having said it.
    pub fn serve(&self, end: usize, command: &mut Command, says: &str) -> Result<Child> {
        let name = command.get_program().to_string_lossy().into_owned();
        let mut child = self.start(end, command)?;
        let mut said = Vec::new();
        let mut byte = [0];
        // Byte by byte, so that the rest stays in the pipe.
        while let Some(pipe) = &mut child.stdout {
            if !matches!(pipe.read(&mut byte), Ok(1)) {
                let what = format!("it ended; it said {:?}", String::from_utf8_lossy(&said));
                let error = SysError::Unexpected { operation: "wait for a server", what };
                return Err(error).during(|| format!("run {name} at an end of a cable"));
            }
            said.push(byte[0]);
            if byte[0] == b'\n' && String::from_utf8_lossy(&said).contains(says) {
                break;
            }
        }
        Ok(child)
    }
}

/// Waits until a program has ended, and ends it where it hasn't `within` that time.
///
/// # Errors
///
/// Where the kernel refuses.
pub fn finish(mut child: Child, within: Duration) -> Result<Ran> {
    let number = child.id();
    let what = || format!("wait for process {number}");
    let process = PidFd::open(number.cast_signed()).during(what)?;
    let output = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = Vec::new();
        // What was read before an error is what there is.
        let _ = output.map(|mut pipe| pipe.read_to_end(&mut text));
        String::from_utf8_lossy(&text).into_owned()
    });
    if !process.ended_within(within).during(what)? {
        process.kill().during(what)?;
    }
    let reaped = reap::wait(child).during(what)?;
    Ok(Ran { output: reader.join().unwrap_or_default(), reaped })
}

/// Does something in a controller of its own, whose end ends all that was started in it, and returns what
/// it found. Call it from a process with one thread.
///
/// # Errors
///
/// Where the controller can't be started, and with what `work` says.
pub fn apart<T: Serialize + DeserializeOwned>(
    work: impl FnOnce() -> std::result::Result<T, String>,
) -> Result<T> {
    let what = || "work in a controller of its own".to_owned();
    let (read, write) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|e| SysError::call("open", "pipe", e)).during(what)?;
    let controller = start_controller(ControllerOptions::for_this_process(), move |_| {
        let found = work();
        let text = serde_json::to_vec(&found).unwrap_or_default();
        let written = std::io::Write::write_all(&mut std::fs::File::from(write), &text);
        u8::from(found.is_err() || written.is_err())
    });
    let mut text = Vec::new();
    let ended = controller.and_then(|controller| {
        // An answer cut short is no answer.
        let _ = std::fs::File::from(read).read_to_end(&mut text);
        controller.wait()
    });
    ended.during(what)?;
    let found: std::result::Result<T, String> =
        serde_json::from_slice(&text).unwrap_or_else(|_| Err("it ended without an answer".to_owned()));
    found.map_err(|what| SysError::Unexpected { operation: "work in a controller", what }).during(what)
}
