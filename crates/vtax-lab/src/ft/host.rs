//! One emulated host.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use rustix::process::Signal;
use vtax_sys::cgroup::{NodeGroup, Usage};
use vtax_sys::sched::{cpus_of, last_cpu_of};
use vtax_sys::spawn::Spawn;
use vtax_sys::sync::lock;
use vtax_sys::watchers::cpu_of_thread;
use vtax_sys::{Context, NetNs, PidFd};
use vtax_units::{CpuSet, Nanos};
use vtax_vm::ft::heartbeat::DetectorSettings;

use super::network::{HEARTBEAT_PORT, PairNetwork};
use crate::agent_program::AgentProgram;
use crate::budget::Enforced;
use crate::error::{OnPath, Result, While};

/// How long a killed process may take to be gone.
const GONE_WITHIN: Duration = Duration::from_secs(2);

/// What became of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostState {
    /// It runs.
    Up,
    /// Everything on it is stopped (SIGSTOP); it doesn't know.
    Hung,
    /// It is off: it failed or was fenced.
    Off,
}

/// One emulated host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) cpus: CpuSet,
    pub(crate) netns: NetNs,
    /// Its address on the link for checkpoints.
    pub(crate) address: Ipv4Addr,
    /// Ports of the switches its cables lead to: link for checkpoints, second path.
    pub(crate) ports: [String; 2],
    /// The control group of everything on it.
    group: Option<NodeGroup>,
    life: Mutex<Life>,
}

#[derive(Debug)]
struct Life {
    state: HostState,
    heart: Option<PidFd>,
    /// CPU time of the hearts before.
    spent: Nanos,
}

impl Host {
    pub(crate) fn new(
        name: String,
        cpus: CpuSet,
        netns: NetNs,
        address: Ipv4Addr,
        ports: [String; 2],
        group: Option<NodeGroup>,
    ) -> Self {
        let life = Mutex::new(Life { state: HostState::Off, heart: None, spent: Nanos::ZERO });
        Self { name, cpus, netns, address, ports, group, life }
    }

    /// What a process that is to run on it joins.
    pub(crate) fn control_groups(&self) -> Result<Vec<OwnedFd>> {
        let files = self.group.as_ref().map_or(Ok(Vec::new()), NodeGroup::procs_files);
        files.during(|| format!("enter the control group of host {}", self.name))
    }

    /// What everything on it is held to, by the kernel's word; its CPUs are those asked for while it is off.
    pub(crate) fn enforced(&self) -> Result<Enforced> {
        let what = || format!("read back the limits of host {}", self.name);
        let held = self.group.as_ref().map_or_else(|| Ok(Default::default()), NodeGroup::enforced);
        let held = held.during(what)?;
        let beating = self.life().heart.as_ref().map(PidFd::pid);
        let cpus = beating.map_or_else(|| Ok(self.cpus.clone()), cpus_of).during(what)?;
        let cpus_by_group = held.cpus.as_ref() == Some(&cpus);
        Ok(Enforced { cpus, cpus_by_group, memory: held.memory })
    }

    /// What its control group has counted.
    pub(crate) fn usage(&self) -> Usage {
        self.group.as_ref().map(NodeGroup::usage).unwrap_or_default()
    }

    fn life(&self) -> MutexGuard<'_, Life> {
        // Nothing is half-done where a thread panicked.
        lock(&self.life)
    }

    pub(crate) fn state(&self) -> HostState {
        self.life().state
    }

    /// Switches it on: its heart beats.
    pub(crate) fn start(
        &self,
        program: &AgentProgram,
        listeners: [IpAddr; 2],
        detector: DetectorSettings,
    ) -> Result<()> {
        let what = || format!("start host {}", self.name);
        let sockets = self.netns.run(|| {
            let connect = |listener: IpAddr| {
                let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
                socket.connect((listener, HEARTBEAT_PORT))?;
                Ok::<_, std::io::Error>(OwnedFd::from(socket))
            };
            let open = || Ok::<_, std::io::Error>([connect(listeners[0])?, connect(listeners[1])?]);
            open().context("open", "heartbeat sockets")
        });
        let [link, second] = sockets.during(what)?;
        let null = Path::new("/dev/null");
        let quiet = || std::fs::OpenOptions::new().read(true).write(true).open(null).on("open", null);
        let (input, output, errors) = (quiet()?, quiet()?, quiet()?);
        let microseconds = (detector.interval.0 / 1000).to_string();
        let name = program.args.first().map_or("vtax", String::as_str);
        let arguments = [name, "heartbeat", "--interval-us", &microseconds];
        let mut spawn = Spawn::new(&program.program, arguments);
        if !self.cpus.is_empty() {
            spawn = spawn.cpus(&self.cpus);
        }
        let heart = spawn
            .fd(input.into(), 0)
            .fd(output.into(), 1)
            .fd(errors.into(), 2)
            .fd(link, 3)
            .fd(second, 4)
            .start(|pid| self.group.as_ref().map_or(Ok(()), |group| group.attach(pid)))
            .during(what)?;
        let mut life = self.life();
        (life.state, life.heart) = (HostState::Up, Some(heart));
        Ok(())
    }

    /// Stops or wakes its own processes; those of guests are the pair's.
    pub(crate) fn signal(&self, signal: Signal, state: HostState) -> Result<()> {
        let mut life = self.life();
        // One that is off stays off.
        let Some(heart) = &life.heart else { return Ok(()) };
        heart.signal(signal).during(|| format!("signal host {}", self.name))?;
        life.state = state;
        Ok(())
    }

    /// The CPU on which its heart last ran; `None` where it has none.
    pub(crate) fn heart_runs_on(&self) -> Option<usize> {
        last_cpu_of(self.life().heart.as_ref()?.pid()).ok()
    }

    /// CPU time of its heartbeats, of all its lives.
    pub(crate) fn heart_cpu(&self) -> Nanos {
        let life = self.life();
        Nanos(life.spent.0 + life.heart.as_ref().map_or(0, |heart| cpu_of_heart(heart).0))
    }

    /// Ends its own processes and waits for the kernel to confirm it; false where it doesn't.
    pub(crate) fn power_off(&self) -> bool {
        let mut life = self.life();
        life.state = HostState::Off;
        let Some(heart) = life.heart.take() else { return true };
        life.spent.0 += cpu_of_heart(&heart).0;
        heart.kill_and_reap(GONE_WITHIN).is_ok()
    }

    /// A stream from this host to another over the link for checkpoints. Small messages leave at once:
    /// Nagle's algorithm against delayed acknowledgements costs 40 ms for each checkpoint.
    pub(crate) fn connect(&self, other: &Self) -> Result<(OwnedFd, OwnedFd)> {
        let what = || format!("connect host {} to host {}", self.name, other.name);
        let listener = other.netns.run(|| TcpListener::bind((other.address, 0)).context("listen on", "link"));
        let listener = listener.during(what)?;
        let place = listener.local_addr().context("ask for", "address").during(what)?;
        let near = self.netns.run(|| {
            TcpStream::connect_timeout(&place, Duration::from_secs(2))
                .context("connect to", place.to_string())
        });
        let near = near.during(what)?;
        let (far, _) = listener.accept().context("accept on", "link").during(what)?;
        for stream in [&near, &far] {
            stream.set_nodelay(true).context("set option of", "link").during(what)?;
        }
        Ok((near.into(), far.into()))
    }

    /// Where its disk server listens, a port that is free now.
    pub(crate) fn disk_address(&self) -> Result<SocketAddr> {
        let what = || format!("find a free port of host {}", self.name);
        let free = || TcpListener::bind((self.address, 0)).and_then(|l| l.local_addr());
        self.netns.run(|| free().context("listen on", "link")).during(what)
    }

    /// The cables of a host that is off carry nothing; the ones of another do.
    pub(crate) fn cables(&self, network: &PairNetwork, in_use: [bool; 2]) -> Result<()> {
        let states = self.ports.iter().zip(in_use);
        network.switch_ports(states.map(|(port, on)| (port.as_str(), on)))
    }
}

fn cpu_of_heart(heart: &PidFd) -> Nanos {
    // The process has one thread.
    cpu_of_thread(&format!("{0}/task/{0}", heart.pid()))
}

impl Drop for Host {
    fn drop(&mut self) {
        self.power_off();
        // What can't be removed now is removed at the end of the run.
        let _ = self.group.take().map(|group| group.remove());
    }
}

#[cfg(test)]
mod tests {
    use vtax_sys::require::{Need, need};
    use vtax_sys::sched::allowed_cpus;

    use super::*;

    /// Without a control group nothing but its affinity keeps a heart from the CPUs of others.
    #[test]
    fn a_heart_is_bound_to_its_hosts_cpus() {
        if !need(&[Need::Root]) {
            return;
        }
        let cpus = CpuSet::of(allowed_cpus().unwrap().iter().last());
        let ports = ["link".to_owned(), "second".to_owned()];
        let netns = NetNs::current().unwrap();
        let host = Host::new("one".to_owned(), cpus.clone(), netns, Ipv4Addr::LOCALHOST, ports, None);
        // It ends at once; until it is reaped the kernel says what it was bound to.
        let program = AgentProgram { program: "/bin/true".into(), args: vec!["true".to_owned()] };
        let detector =
            DetectorSettings { interval: Nanos::from_millis(10), timeout: Nanos::from_millis(100) };
        host.start(&program, [IpAddr::V4(Ipv4Addr::LOCALHOST); 2], detector).unwrap();
        let heart = host.life().heart.as_ref().map(PidFd::pid).unwrap();
        assert_eq!(cpus_of(heart).unwrap(), cpus);
        let held = host.enforced().unwrap();
        assert_eq!((held.cpus, held.cpus_by_group), (cpus.clone(), false));
        assert!(host.power_off());
        assert_eq!(host.enforced().unwrap().cpus, cpus, "as asked for");
    }

    #[test]
    fn what_a_host_is_held_to_is_what_the_kernel_says() {
        let netns = NetNs::current().unwrap();
        let ports = ["link".to_owned(), "second".to_owned()];
        let asked = CpuSet::of([8000]);
        let host = Host::new("one".to_owned(), asked, netns, Ipv4Addr::LOCALHOST, ports, None);
        let heart = Spawn::new(Path::new("/bin/true"), ["true"]).start(|_| Ok(())).unwrap();
        let really = cpus_of(heart.pid()).unwrap();
        host.life().heart = Some(heart);
        assert_eq!(host.enforced().unwrap().cpus, really);
    }
}
