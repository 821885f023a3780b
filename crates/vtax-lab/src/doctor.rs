//! What this host can do for a lab, each point proved by doing it.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};
use vtax_probe::noise::HostProbe;
use vtax_sys::cgroup::{Limits, RunGroups};
use vtax_sys::check::{Check, State, name};
use vtax_sys::controller::ControllerOptions;
use vtax_sys::mount::{self, Overlay};
use vtax_sys::netlink::{
    BridgeOptions, Mac, Netlink, Request, Tbf, Veth, VethEnd, add_tbf, create_bridge, create_veth,
    delete_link, set_switch, set_up,
};
use vtax_sys::{NetNs, SysError, chain, sched, tap};
use vtax_units::{Bytes, CpuSet};

use crate::budget::quota_note;
use crate::error::LabError;
use crate::lab::{Isolation, Lab, LabOptions};
use crate::scratch::Scratch;

/// What the controller of the checks tells the process that prints them.
#[derive(Serialize, Deserialize)]
struct Line {
    name: String,
    state: u8,
    found: String,
    fix: Option<String>,
}

impl From<Check> for Line {
    fn from(check: Check) -> Self {
        Self { name: check.name, state: check.state as u8, found: check.found, fix: check.fix }
    }
}

impl From<Line> for Check {
    fn from(line: Line) -> Self {
        let states = [State::Ok, State::Degraded, State::Missing];
        let state = states.into_iter().find(|s| *s as u8 == line.state).unwrap_or(State::Missing);
        Self { name: line.name, state, found: line.found, fix: line.fix }
    }
}

/// Checks CPUs, namespaces, network, mounts, control groups and containers. Call it before this
/// process starts its first thread.
#[must_use]
pub fn checks() -> Vec<Check> {
    let mut checks = vec![cpus(), noise(), control_groups()];
    let own = ControllerOptions::for_this_process();
    if !own.user_namespace {
        let inside = ControllerOptions { user_namespace: true, ..own };
        checks.push(match vtax_sys::controller::probe(inside) {
            Ok(()) => Check::ok(name::USER_NAMESPACE, "can be made (not needed: this is root)"),
            Err(e) => refused(name::USER_NAMESPACE, &e, "only ordinary users need it"),
        });
    }
    match inside_checks(own) {
        Ok(more) => {
            let how = if own.user_namespace { "in a user namespace" } else { "as root" };
            let found = format!("network, PID, mount, IPC and UTS namespaces {how}");
            checks.push(Check::ok(name::NAMESPACES, found));
            checks.extend(more);
        }
        Err(e) => {
            let fix = "docs/privileges.md says what may refuse them; without them native nodes are measured over loopback";
            checks.push(refused(name::NAMESPACES, &e, fix));
        }
    }
    checks
}

fn refused(name: &str, error: &SysError, fix: &str) -> Check {
    let fix = match error {
        SysError::NamespacesRefused { fix, .. } => fix.clone(),
        _ => fix.to_owned(),
    };
    Check::missing(name, chain(error), fix)
}

fn cpus() -> Check {
    let name = name::CPUS;
    match sched::allowed_cpus() {
        Err(e) => Check::missing(name, chain(&e), "mount /proc"),
        Ok(cpus) if cpus.len() < 2 => Check::degraded(
            name,
            format!("CPU {cpus}: load generator and system under test share it"),
            "let vtax use a second CPU",
        ),
        Ok(cpus) => {
            let found = format!("{} may be used: {cpus}", cpus.len());
            match quota_note() {
                None => Check::ok(name, found),
                Some(quota) => {
                    let fix =
                        "start vtax in a control group without one (`cpu.max`, in v1 `cpu.cfs_quota_us`)";
                    Check::degraded(name, format!("{found}; {quota}"), fix)
                }
            }
        }
    }
}

/// Which signs of noise this host shows.
fn noise() -> Check {
    let name = name::NOISE;
    let cpus = sched::allowed_cpus().unwrap_or_default();
    match HostProbe::new(cpus).and_then(|mut probe| probe.coverage()) {
        Err(e) => Check::missing(name, chain(&e), "mount /proc"),
        Ok(found) if found.untold.is_empty() => {
            Check::ok(name, format!("watched: {}", found.told.join(", ")))
        }
        Ok(found) => {
            let (told, untold) = (found.told.join(", "), found.untold.join(", "));
            let fix = "nothing to do: many virtual hosts don't, and what they don't tell goes unseen";
            Check::degraded(name, format!("watched: {told}; this host doesn't tell: {untold}"), fix)
        }
    }
}

/// Makes a group with limits, reads them back, removes it.
fn control_groups() -> Check {
    let name = name::CONTROL_GROUPS;
    let without = "without them CPUs are held by affinity and memory is not limited";
    let mut groups = RunGroups::of_this_process();
    let keeper = match groups.make() {
        Ok(keeper) => keeper,
        Err(e) => return Check::degraded(name, chain(&e), without),
    };
    let cpu = sched::allowed_cpus().ok().and_then(|cpus| cpus.iter().next()).unwrap_or(0);
    let limits = Limits { cpus: Some(CpuSet::of([cpu])), memory: Some(Bytes::from_mib(64)) };
    let held = groups.node("doctor", &limits).and_then(|node| {
        let held = node.enforced();
        node.remove()?;
        held
    });
    let described = groups.describe();
    let notes = groups.notes().join("; ");
    let finished = groups.finish(keeper);
    match held.and_then(|held| finished.map(|()| held)) {
        Err(e) => Check::degraded(name, chain(&e), without),
        Ok(held) if held.cpus == limits.cpus && held.memory == limits.memory => Check::ok(name, described),
        Ok(_) => {
            let fix = "run as root, or with `systemd-run --user --scope -p Delegate=yes vtax ...`";
            Check::degraded(name, format!("{described}; {notes}; {without}"), fix)
        }
    }
}

/// Runs the checks that need namespaces in a controller and brings their results back.
fn inside_checks(options: ControllerOptions) -> Result<Vec<Check>, SysError> {
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| SysError::call("open", "pipe", e))?;
    let mut groups = RunGroups::of_this_process();
    let keeper = groups.make()?;
    let inside_groups = groups.clone();
    let controller = keeper.start_controller(options, move |_| {
        let lines: Vec<Line> = in_namespaces(inside_groups).into_iter().map(Line::from).collect();
        let text = serde_json::to_vec(&lines).unwrap_or_default();
        u8::from(std::io::Write::write_all(&mut std::fs::File::from(write), &text).is_err())
    });
    let mut text = Vec::new();
    let received = controller.and_then(|controller| {
        // The controller's end of the pipe is closed when it ends, whatever happens.
        let read = std::fs::File::from(read).read_to_end(&mut text);
        read.map_err(|e| SysError::call("read", "results of the checks", e))?;
        controller.wait()
    });
    groups.finish(keeper)?;
    received?;
    let lines: Vec<Line> = serde_json::from_slice(&text)
        .map_err(|e| SysError::Unexpected { operation: "check namespaces", what: e.to_string() })?;
    Ok(lines.into_iter().map(Check::from).collect())
}

fn in_namespaces(groups: RunGroups) -> Vec<Check> {
    let mut checks = network();
    checks.extend(crate::path::kernel_checks());
    checks.push(overlay());
    checks.push(container(groups));
    checks.push(crate::nodes::uml::check());
    checks
}

/// A point that a list of requests proves.
fn proved(name: &str, found: &str, fix: &str, done: Result<(), SysError>) -> Check {
    match done {
        Ok(()) => Check::ok(name, found),
        Err(e) => Check::missing(name, chain(&e), fix),
    }
}

fn cable() -> Request {
    let end = |name, last| VethEnd {
        name,
        mac: Mac([2, 0, 0, 0, 0, last]),
        namespace: None,
        group: 0,
        switch: None,
    };
    create_veth(&Veth { ends: [end("vc0", 1), end("vc1", 2)], near_up: true, mtu: 1500 })
}

fn network() -> Vec<Check> {
    let mut netlink = match Netlink::open() {
        Ok(netlink) => netlink,
        Err(e) => return vec![Check::missing(name::NETLINK, chain(&e), "use a kernel with rtnetlink")],
    };
    let mut checks = vec![proved(
        name::NETWORK_NAMESPACE,
        "can be made and entered",
        "see `namespaces` above",
        NetNs::create().and_then(|n| n.run(|| Netlink::open()?.send(set_up("lo")))),
    )];
    let made = netlink.send(cable());
    checks.push(proved(name::VETH, "a virtual cable was made", "sudo modprobe veth", made));
    let options = BridgeOptions { mac: Mac([2, 0, 0, 0, 0, 3]), mtu: 1500, ageing_seconds: 300 };
    let bridge = netlink.send(create_bridge("vb0", options)).and_then(|()| {
        let index = netlink.link("vb0")?.index;
        netlink.send_all([set_switch("vc0", index), set_up("vb0")])
    });
    checks.push(proved(name::BRIDGE, "a cable was plugged into a bridge", "sudo modprobe bridge", bridge));
    let index = netlink.link("vc0").map_or(0, |l| l.index);
    let tbf = Tbf { rate_bytes: 12_500_000, burst_bytes: 16_384, latency: Duration::from_millis(10) };
    let limited = netlink.send(add_tbf(index, &tbf));
    checks.push(match limited {
        Ok(()) => Check::ok(name::RATE_LIMIT, "tbf limits a cable"),
        Err(e) => Check::degraded(name::RATE_LIMIT, chain(&e), "sudo modprobe sch_tbf"),
    });
    checks.push(tap_check());
    // They end with the namespace anyway.
    let _ = netlink.send_all([delete_link("vc0"), delete_link("vb0")]);
    checks
}

fn tap_check() -> Check {
    let fix = if Path::new("/dev/net/tun").exists() {
        "sudo chmod 0666 /dev/net/tun; without it no virtual machine can be plugged in"
    } else {
        "sudo modprobe tun; in a container, start it with `--device /dev/net/tun`"
    };
    proved(name::TAP, "a tap was made from /dev/net/tun", fix, tap::create("vt0").map(|_| ()))
}

fn overlay() -> Check {
    let name = name::OVERLAY;
    let fix = "sudo modprobe overlay, or use a kernel from 5.11 on; containers need it";
    let scratch = match Scratch::mount() {
        Ok(scratch) => scratch,
        Err(e) => return Check::missing(name, chain(&e), fix),
    };
    let [upper, work, target] = ["upper", "work", "target"].map(|d| scratch.path().join(d));
    for dir in [&upper, &work, &target] {
        if let Err(e) = std::fs::create_dir(dir) {
            return Check::missing(name, format!("create {}: {e}", dir.display()), fix);
        }
    }
    // In a user namespace `/` as a whole is refused where something is mounted below it.
    let layer =
        |lower| mount::overlay(Overlay { lower: Path::new(lower), upper: &upper, work: &work }, &target);
    let (found, made) = match layer("/") {
        Ok(()) => ("a private layer over the host's root", Ok(())),
        Err(_) => ("private layers over the directories of the host's root", layer("/usr")),
    };
    if made.is_ok() {
        // It ends with the mount namespace anyway.
        let _ = mount::detach(&target);
    }
    proved(name, found, fix, made)
}

fn container(groups: RunGroups) -> Check {
    let name = name::CONTAINERS;
    let mut options = LabOptions::new(Isolation::Namespaces);
    options.groups = Some(groups);
    let runtime = Lab::new(options).and_then(|mut lab| lab.container_runtime());
    match runtime {
        Ok(runtime) => Check::ok(name, format!("{runtime} ran `true`")),
        Err(LabError::NoContainers { reason, fix }) => Check::missing(name, reason, fix),
        Err(e) => Check::missing(name, chain(&e), "see the points above"),
    }
}
