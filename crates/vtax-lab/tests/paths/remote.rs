//! A path over a real interface, against a real sshd: "host" and "remote" are two namespaces with a cable.

use std::fs;
use std::net::{IpAddr, Ipv4Addr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use vtax_agent::streams::{Carrier, Host, Streams};
use vtax_hosts::{Outside, Ssh, serve_streams, stream_sockets};
use vtax_lab::{Lab, LabOptions};
use vtax_plan::model::{NetPath, NicOptions, PathKind};
use vtax_sys::netlink::{Mac, Netlink, Veth, VethEnd, add_address, create_veth, set_up};
use vtax_sys::sync::lock;
use vtax_sys::{NetNs, PidFd, mount};

use crate::stage::{self, Stage};

const SSHD: &str = "/usr/sbin/sshd";
const KEYS: &str = "/run/keys";
const REMOTE: Ipv4Addr = Ipv4Addr::new(10, 98, 200, 2);

fn address(end: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 98, 200, 1 + end as u8))
}

/// Two namespaces and a cable.
fn world() -> [NetNs; 2] {
    let ends = [NetNs::create().unwrap(), NetNs::create().unwrap()];
    let names = ["lan0", "wan0"];
    let end = |i: usize| VethEnd {
        name: names[i],
        mac: Mac([2, 0, 0, 9, 9, i as u8]),
        namespace: Some(&ends[i]),
        group: 0,
        switch: None,
    };
    let veth = Veth { ends: [end(0), end(1)], near_up: false, mtu: 1500 };
    Netlink::open().unwrap().send(create_veth(&veth)).unwrap();
    for i in 0..2 {
        let mut netlink = Netlink::open_in(&ends[i]).unwrap();
        let index = netlink.link(names[i]).unwrap().index;
        netlink.send_all([set_up("lo"), set_up(names[i]), add_address(index, address(i), 24)]).unwrap();
    }
    ends
}

fn key(name: &str) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(name).status();
    assert!(made.unwrap().success());
}

/// Starts sshd in the remote namespace.
fn sshd(network: &NetNs) -> PidFd {
    fs::create_dir_all("/run/sshd").unwrap();
    fs::create_dir_all(KEYS).unwrap();
    key(&format!("{KEYS}/host"));
    key(&format!("{KEYS}/user"));
    let server = format!(
        "HostKey {KEYS}/host\nAuthorizedKeysFile {KEYS}/user.pub\nStrictModes no\nPidFile none\nUsePAM no\n\
         PermitRootLogin yes\nListenAddress {REMOTE}\n"
    );
    fs::write(format!("{KEYS}/sshd_config"), server).unwrap();
    let client =
        format!("IdentityFile {KEYS}/user\nUserKnownHostsFile {KEYS}/known\nStrictHostKeyChecking yes\n");
    fs::write(format!("{KEYS}/config"), client).unwrap();
    let public = fs::read_to_string(format!("{KEYS}/host.pub")).unwrap();
    fs::write(format!("{KEYS}/known"), format!("{REMOTE} {public}")).unwrap();
    let config = format!("{KEYS}/sshd_config");
    let spawn = vtax_sys::spawn::Spawn::new(Path::new(SSHD), [SSHD, "-D", "-e", "-f", &config])
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .join_net(network.try_clone().unwrap().into());
    let process = spawn.start(|_| Ok(())).unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    let listens = || network.run(|| Ok(std::net::TcpStream::connect((REMOTE, 22)).is_ok())).unwrap();
    while !listens() {
        assert!(Instant::now() < until, "sshd doesn't listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    process
}

/// ssh as the host's user has it, from outside of the lab.
fn streams(host: &NetNs) -> Arc<dyn Streams> {
    let (ours, theirs) = stream_sockets().unwrap();
    let host = host.try_clone().unwrap();
    std::thread::spawn(move || {
        let engine = Ssh::new(Vec::new(), Some(format!("{KEYS}/config").into()));
        host.run(|| Ok(serve_streams(&engine, &theirs))).unwrap().unwrap();
    });
    Arc::new(Outside::meet(ours).unwrap())
}

/// Streams that open only once so many are asked for at the same time.
#[derive(Debug)]
struct AtOnce {
    streams: Arc<dyn Streams>,
    wanted: usize,
    asked: Mutex<usize>,
    more: Condvar,
}

impl Streams for AtOnce {
    fn hosts(&self) -> &[Host] {
        self.streams.hosts()
    }

    fn address(&self, name: &str) -> Result<IpAddr, String> {
        self.streams.address(name)
    }

    fn open(&self, host: &str, script: &str, stream: OwnedFd, errors: OwnedFd) -> Result<Carrier, String> {
        let mut asked = lock(&self.asked);
        *asked += 1;
        self.more.notify_all();
        let too_few = |asked: &mut usize| *asked < self.wanted;
        let (asked, waited) = self.more.wait_timeout_while(asked, Duration::from_secs(30), too_few).unwrap();
        if waited.timed_out() {
            return Err(format!("{asked} of {} were asked for", self.wanted));
        }
        drop(asked);
        self.streams.open(host, script, stream, errors)
    }
}

/// A service and two generators on the remote host: their agents are started at the same time.
fn several_agents(options: LabOptions, path: &NetPath) {
    let streams = options.streams.clone().expect("streams");
    let at_once = AtOnce { streams, wanted: 3, asked: Mutex::default(), more: Condvar::new() };
    let mut lab = Lab::new(LabOptions { streams: Some(Arc::new(at_once)), ..options }).unwrap();
    let PathKind::Nic(nic) = &path.kind else { panic!("{path:?}") };
    let vtax = std::env::current_exe().unwrap().to_str().map(str::to_owned);
    let nic = NicOptions { generators: vec![nic.host.clone(); 2], vtax, ..nic.clone() };
    let path = NetPath::new("generators", PathKind::Nic(nic));
    let testbed = lab.build(&stage::spec(vtax_plan::model::EnvironmentKind::Native, path)).unwrap();
    assert_eq!((testbed.client.kind(), testbed.generators.len()), ("remote", 1));
}

fn nic(address: &str, interface: Option<&str>) -> NetPath {
    let nic = NicOptions {
        host: format!("root@{REMOTE}"),
        address: address.to_owned(),
        interface: interface.map(str::to_owned),
        vtax: None,
        generators: Vec::new(),
        draw: false,
        given: false,
    };
    NetPath::new("nic", PathKind::Nic(nic))
}

pub(crate) fn case(options: LabOptions) {
    if !vtax_sys::require::installed(&[SSHD]) {
        return;
    }
    mount::tmpfs(Path::new("/run"), "mode=755").unwrap();
    mount::tmpfs(Path::new("/tmp"), "mode=1777").unwrap();
    let [host, remote] = world();
    let server = sshd(&remote);
    let streams = Some(streams(&host));
    let options = LabOptions { host_network: Some(Arc::new(host)), streams, ..options };
    let mut lab = Lab::new(options.clone()).unwrap();
    let own = REMOTE.to_string();
    for (path, expected) in [
        (nic("no-such-host.invalid", None), "`no-such-host.invalid` resolves to nothing"),
        (nic(&own, Some("eth7")), "this host has no interface `eth7`; it has lo, lan0"),
        (nic("192.0.2.1", None), "no route of this host leads to 192.0.2.1"),
    ] {
        let obstacle = lab.path_obstacle(&path).unwrap();
        assert!(obstacle.contains(expected), "{obstacle}");
    }
    let path = nic(&own, Some("lan0"));
    assert_eq!(lab.path_obstacle(&path), None);
    let start = Instant::now();
    let mut stage =
        Stage::build(&mut lab, &stage::spec(vtax_plan::model::EnvironmentKind::Native, path.clone()));
    println!("  copied and answering after {:?}", start.elapsed());
    assert_eq!((stage.testbed.the_sut().node.kind(), stage.testbed.client.kind()), ("remote", "native"));
    let goodput = stage.carries(50e6, Duration::from_millis(300));
    println!("  {:.0} Mbit/s; {:?}", goodput / 1e6, stage.testbed.path_facts());
    assert!(stage.testbed.path_switch().cut().unwrap_err().to_string().contains("vtax can't cut it"));
    let capture = stage.testbed.start_capture().unwrap();
    assert!(stage.answers(Duration::from_secs(5)));
    assert!(capture.stop().unwrap().up.packets > 0);
    assert!(fs::read_dir("/tmp").unwrap().count() == 1, "the copy");
    stage.end();
    assert_eq!(fs::read_dir("/tmp").unwrap().count(), 0, "nothing stays on the remote host");
    several_agents(options, &path);
    server.kill_and_reap(Duration::from_secs(5)).unwrap();
    let PathKind::Nic(there) = path.kind else { return };
    let gone = NetPath::new("gone", PathKind::Nic(there));
    let refused = lab.build(&stage::spec(vtax_plan::model::EnvironmentKind::Native, gone)).unwrap_err();
    let text = vtax_sys::chain(&refused);
    assert!(
        text.contains("host root@10.98.200.2: vtax can't be started there")
            && text.contains("Connection refused"),
        "{text}"
    );
}
