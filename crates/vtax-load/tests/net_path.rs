//! Network tests over a path that lets them down: a bridge whose ports can be made to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Once};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use vtax_load::network::{
    Direction, FailureKind, Live, NetworkFailure, NetworkResult, NetworkSpec, NetworkTestKind, PingTest,
    Probe, ServerOptions, SocketOptions, TcpTest, UdpTest, Watch, run, serve,
};
use vtax_load::{ArrivalProcess, Control};
use vtax_sys::netlink::{
    BridgeOptions, Mac, Netlink, Request, Tbf, Veth, VethEnd, add_address, add_tbf, create_bridge,
    create_veth, set_mtu, set_up,
};
use vtax_sys::require::{Need, need};
use vtax_sys::{NetNs, SysError};
use vtax_units::{BitRate, Bytes, Nanos, Rate};

/// Two ends with a bridge between them, and a server at the far one.
struct Path {
    near: NetNs,
    middle: NetNs,
    server: SocketAddr,
    stop: Arc<AtomicBool>,
    serving: Option<JoinHandle<()>>,
}

impl Path {
    fn build() -> Self {
        Self::with(address)
    }

    /// With these addresses at its ends.
    fn with(address: fn(u8) -> IpAddr) -> Self {
        let [near, middle, far] = [(); 3].map(|()| NetNs::create().unwrap());
        let mut between = Netlink::open_in(&middle).unwrap();
        let bridge = BridgeOptions { mac: Mac([2, 0, 0, 0, 0, 9]), mtu: 1500, ageing_seconds: 300 };
        between.send(create_bridge("br0", bridge)).unwrap();
        let switch = between.link("br0").unwrap().index;
        let mut interfaces = Vec::new();
        for (number, port, inside) in [(1, "p1", &near), (2, "p2", &far)] {
            let mac = |side| Mac([2, 0, 0, 0, side, number]);
            let ends = [
                VethEnd { name: port, mac: mac(0), namespace: None, group: 0, switch: Some(switch) },
                VethEnd { name: "eth0", mac: mac(1), namespace: Some(inside), group: 0, switch: None },
            ];
            between.send(create_veth(&Veth { ends, near_up: false, mtu: 1500 })).unwrap();
            let mut end = Netlink::open_in(inside).unwrap();
            let index = end.link("eth0").unwrap().index;
            end.send_all([set_up("eth0"), add_address(index, address(number), 24)]).unwrap();
            interfaces.push(index);
            // A bucket this small cuts what an offload would pass as one large packet of any size.
            let tbf = Tbf { rate_bytes: 125_000_000, burst_bytes: 3_000, latency: Duration::from_millis(5) };
            end.send(add_tbf(index, &tbf)).unwrap();
            between.send(set_up(port)).unwrap();
        }
        between.send(set_up("br0")).unwrap();
        // As each end sees it: a link-local address takes an interface.
        let [server, own] = [0, 1].map(|end| match address(2) {
            IpAddr::V4(_) => SocketAddr::new(address(2), 5202),
            IpAddr::V6(address) => SocketAddrV6::new(address, 5202, 0, interfaces[end]).into(),
        });
        let listener = far
            .run(|| TcpListener::bind(own).map_err(|e| SysError::call("listen", own.to_string(), e)))
            .unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let serving = Some(thread::spawn(move || {
            let work = || {
                let served = serve(&listener, ServerOptions { tests: 4 }, &flag);
                assert!(served.is_ok(), "{served:?}");
                Ok(())
            };
            far.run(work).unwrap();
        }));
        Self { near, middle, server, stop, serving }
    }

    /// Changes something at the bridge.
    fn change(&self, request: Request) {
        Netlink::open_in(&self.middle).unwrap().send(request).unwrap();
    }

    fn test(&self, test: NetworkTestKind, millis: u64) -> Result<NetworkResult, NetworkFailure> {
        self.watched(test, millis, &|_| {})
    }

    fn watched(
        &self,
        test: NetworkTestKind,
        millis: u64,
        watch: Watch<'_>,
    ) -> Result<NetworkResult, NetworkFailure> {
        let spec = NetworkSpec {
            target: self.server,
            test,
            seed: 1,
            warmup: Nanos::ZERO,
            duration: Nanos::from_millis(millis),
            interval: Nanos::from_millis(100),
        };
        let made = || Ok(run(&spec, &Control::new(), watch).map_err(|error| NetworkFailure::from(&error)));
        self.near.run(made).unwrap()
    }
}

impl Drop for Path {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(serving) = self.serving.take() {
            let _ = serving.join();
        }
    }
}

fn address(number: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 98, 0, number))
}

fn bulk(window: Option<Bytes>) -> NetworkTestKind {
    transfer(Direction::Up, window)
}

fn transfer(direction: Direction, window: Option<Bytes>) -> NetworkTestKind {
    NetworkTestKind::Tcp(TcpTest {
        streams: 1,
        direction,
        socket: SocketOptions { window, ..SocketOptions::default() },
        bytes: None,
        block: Bytes(64 << 10),
        copy: false,
    })
}

fn datagrams(size: u32) -> NetworkTestKind {
    let rate = Some(BitRate(1_000_000));
    NetworkTestKind::Udp(UdpTest { rate, size, direction: Direction::Up, buffer: None })
}

#[test]
fn a_window_is_kept_from_the_first_packet_on() {
    if !need(&[Need::Root]) {
        return;
    }
    let path = Path::build();
    // A busy machine may hold up the start of one test; a window that isn't kept stalls each.
    let stalls = (0..10).take_while(|_| first_interval(&path) == 0).count();
    assert!(stalls < 10, "each test stalls at its start");
}

/// Bytes that arrive in the first interval of a test with a small window.
fn first_interval(path: &Path) -> u64 {
    let Ok(NetworkResult::Tcp(result)) = path.test(bulk(Some(Bytes(4 << 10))), 500) else {
        panic!("no result")
    };
    let flow = result.up.unwrap();
    assert_eq!(flow.receiver.connections[0].receive_buffer, 8 << 10);
    flow.receiver.intervals[0]
}

/// Of a test in milliseconds: a thread that starts after the end sends nothing, and on a busy machine that may be late.
const TIME: u64 = 2_000;

#[test]
fn link_local_addresses_are_on_their_interface() {
    if !need(&[Need::Root]) {
        return;
    }
    let path = Path::with(|number| Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, number.into()).into());
    let down =
        UdpTest { rate: Some(BitRate(1_000_000)), size: 500, direction: Direction::Down, buffer: None };
    let ping = PingTest {
        probe: Probe::Udp,
        rate: Rate(100.0),
        arrivals: ArrivalProcess::Constant,
        size: 64,
        timeout: Nanos::from_secs(2),
    };
    for test in
        [bulk(Some(Bytes(64 << 10))), datagrams(500), NetworkTestKind::Udp(down), NetworkTestKind::Ping(ping)]
    {
        match path.test(test, TIME).unwrap() {
            NetworkResult::Tcp(found) => assert!(found.up.unwrap().receiver.total_bytes > 0),
            NetworkResult::Udp(found) => assert!(found.receiver.received > 0, "{found:?}"),
            NetworkResult::Ping(found) => assert!(found.answered > 0, "{found:?}"),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_path_too_narrow_for_full_packets_is_named() {
    if !need(&[Need::Root]) {
        return;
    }
    let path = Path::build();
    assert!(path.test(bulk(None), TIME).is_ok());
    path.change(set_mtu("p2", 1_000));
    let failure = path.test(bulk(None), TIME).expect_err("nothing gets through");
    assert_eq!(failure.kind, FailureKind::MtuMismatch, "{failure:?}");
    assert!(failure.detail.contains("segments of 1448 bytes"), "{failure:?}");
    // Where the far end sends, it finds out as well, and doesn't wait for this one's word to say so.
    let failure = path.test(transfer(Direction::Down, None), TIME).expect_err("nothing gets through");
    assert_eq!(failure.kind, FailureKind::MtuMismatch, "{failure:?}");
    // Small ones do, and a datagram as large as a segment doesn't.
    let Ok(NetworkResult::Udp(udp)) = path.test(datagrams(500), TIME) else {
        panic!("small ones get through")
    };
    assert!(udp.receiver.received > 0, "{udp:?}");
    let Ok(NetworkResult::Udp(udp)) = path.test(datagrams(1_400), TIME) else {
        panic!("the test itself is made")
    };
    assert_eq!(udp.receiver.received, 0, "{udp:?}");
}

#[test]
fn a_path_that_is_cut_for_good_is_given_up() {
    if !need(&[Need::Root]) {
        return;
    }
    // Both at once: each waits for what doesn't come.
    thread::scope(|scope| {
        for test in [bulk(None), datagrams(500)] {
            scope.spawn(|| given_up(test));
        }
    });
}

fn given_up(test: NetworkTestKind) {
    let path = Path::build();
    let (began, cut) = (Instant::now(), Once::new());
    // Where it is cut when it has carried something, it isn't over: it waits for the one that watches it.
    let watch = |live: &Live| {
        if live.bytes > 0 {
            cut.call_once(|| path.change(vtax_sys::netlink::set_down("p2")));
        }
    };
    let failure = path.watched(test, 1_000, &watch).expect_err("there is no way back");
    assert!(cut.is_completed(), "nothing was carried: {failure:?}");
    assert_eq!(failure.kind, FailureKind::PeerLost, "{failure:?}");
    assert!(began.elapsed() < Duration::from_secs(120), "{:?}: {failure:?}", began.elapsed());
}
