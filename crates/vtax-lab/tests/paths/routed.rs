//! Routers between client and system under test.

use std::io::ErrorKind;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use vtax_agent::message::{InterfaceSetup, Route};
use vtax_lab::{Lab, Node, TestbedSpec};
use vtax_plan::model::{EnvironmentKind, MininetSwitch, NetPath, PathKind};
use vtax_sys::SysError;
use vtax_sys::require::possible;
use vtax_testkit::build_undisturbed;
use vtax_units::{BitRate, Nanos};

use crate::stage::{Stage, spec};

/// A port that no service has.
const PORT: u16 = 7777;
/// In this time a datagram arrives on any machine.
const SURELY: Duration = Duration::from_secs(10);
/// What hasn't come in this time is believed to be dropped.
const HARDLY: Duration = Duration::from_millis(300);

fn routed(kind: PathKind, routers: usize) -> TestbedSpec {
    let path = NetPath { rate: Some(BitRate(200_000_000)), ..NetPath::new("routed", kind) };
    TestbedSpec { routers, ..spec(EnvironmentKind::Native, path) }
}

pub(crate) fn case(lab: &mut Lab) {
    for (kind, routers) in [(PathKind::Direct, 1), (PathKind::Bridge, 1), (PathKind::Bridge, 3)] {
        let mut stage = Stage::build(lab, &routed(kind.clone(), routers));
        let round_trip = stage.ping();
        let names: Vec<&str> = stage.testbed.routers.iter().map(Node::name).collect();
        println!("  {kind:?}: client, {}, sut; {round_trip}", names.join(", "));
        assert_eq!(names.len(), routers);
        stage.carries(50e6, Duration::from_millis(300));
        let (client, sut) = (&stage.testbed.client, &stage.testbed.the_sut().node);
        let target = SocketAddr::new(stage.testbed.the_sut().service_address, PORT);
        // Each router takes one from the time to live, and drops a packet that has none left.
        let needed = routers as u32 + 1;
        assert!(arrives(client, sut, target, needed, SURELY));
        assert!(!arrives(client, sut, target, needed - 1, HARDLY));
        let switch = stage.testbed.path_switch();
        switch.cut().unwrap();
        assert!(!stage.answers(Duration::from_millis(300)));
        switch.restore().unwrap();
        assert!(stage.answers(Duration::from_secs(5)));
        drop(switch);
        stage.end();
    }
    let delayed = NetPath { delay: Nanos::from_millis(5), ..NetPath::new("delayed", PathKind::Direct) };
    let mut stage = Stage::build(lab, &TestbedSpec { routers: 1, ..spec(EnvironmentKind::Native, delayed) });
    // Only the path has the delay, not the cable before it.
    let range = Nanos::from_millis(10)..Nanos::from_millis(20);
    let round_trip = crate::undisturbed(&range, || stage.ping());
    println!("  5 ms each way behind a router: {round_trip}");
    assert!(range.contains(&round_trip), "{round_trip}");
    stage.end();
    let refused = lab.build(&routed(PathKind::Mininet(MininetSwitch::LinuxBridge), 1)).unwrap_err();
    assert!(refused.to_string().contains("`mininet` can't begin at a router"), "{refused}");
}

/// Whether a datagram with this time to live arrives.
fn arrives(from: &Node, to: &Node, target: SocketAddr, time_to_live: u32, within: Duration) -> bool {
    let failed = |e: std::io::Error| SysError::call("open", "a socket", e);
    let listener = to.netns().unwrap().run(|| UdpSocket::bind(target).map_err(failed)).unwrap();
    listener.set_read_timeout(Some(within)).unwrap();
    let own = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let sender = from.netns().unwrap().run(|| UdpSocket::bind(own).map_err(failed)).unwrap();
    if target.is_ipv4() {
        sender.set_ttl(time_to_live).unwrap();
    } else {
        rustix::net::sockopt::set_ipv6_unicast_hops(&sender, Some(time_to_live as u8)).unwrap();
    }
    sender.send_to(b"hello", target).unwrap();
    let mut buffer = [0; 16];
    match listener.recv_from(&mut buffer) {
        Ok((length, _)) => length == 5,
        Err(e) if e.kind() == ErrorKind::WouldBlock => false,
        Err(e) => panic!("{e}"),
    }
}

/// Address of end `end` (1 or 2) of network `network`; 0 is the network itself.
fn address(network: u16, end: u16) -> IpAddr {
    Ipv6Addr::new(0xfd00, 0x97, network, 0, 0, 0, 0, end).into()
}

/// Adds an IPv6 address and a route to an interface.
fn with_ipv6(mut setup: InterfaceSetup, own: IpAddr, route: Option<(u16, IpAddr)>) -> InterfaceSetup {
    setup.addresses.push((own, 64));
    setup.routes.extend(route.map(|(network, gateway)| Route::new(address(network, 0), 64, Some(gateway))));
    setup
}

pub(crate) fn ipv6(lab: &mut Lab) {
    let there = std::path::Path::new("/proc/net/if_inet6").exists();
    if !possible((!there).then_some("this kernel has no IPv6")) {
        return;
    }
    let mut testbed = build_undisturbed(lab, &routed(PathKind::Direct, 1)).unwrap();
    let setups = |node: &Node| node.interfaces().unwrap().to_vec();
    let [client] = setups(&testbed.client).try_into().unwrap();
    let [near, far]: [InterfaceSetup; 2] = setups(&testbed.routers[0]).try_into().unwrap();
    let [sut] = setups(&testbed.the_sut().node).try_into().unwrap();
    let all = [
        vec![with_ipv6(client, address(0, 1), Some((1, address(0, 2))))],
        vec![with_ipv6(near, address(0, 2), None), with_ipv6(far, address(1, 1), None)],
        vec![with_ipv6(sut, address(1, 2), Some((0, address(1, 1))))],
    ];
    let nodes = [&mut testbed.client, &mut testbed.routers[0]];
    let mut agents: Vec<_> = nodes.into_iter().map(crate::stage::talk).collect();
    agents.push(crate::stage::talk(&mut testbed.the_sut_mut().node));
    for (agent, setup) in agents.iter().zip(all) {
        agent.hello(Duration::from_secs(20)).unwrap();
        agent.configure_network(setup).unwrap_or_else(|e| panic!("{}", vtax_sys::chain(&e)));
    }
    let (client, sut) = (&testbed.client, &testbed.the_sut().node);
    for target in [address(1, 2), testbed.the_sut().service_address] {
        let target = SocketAddr::new(target, PORT);
        assert!(arrives(client, sut, target, 2, SURELY), "{target}");
        assert!(!arrives(client, sut, target, 1, HARDLY), "{target}");
    }
    drop(agents);
    let errors = testbed.destroy();
    assert!(errors.is_empty(), "{errors:?}");
}
