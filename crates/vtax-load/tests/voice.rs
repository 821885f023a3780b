//! Voice between two ends: nothing is lost over loopback, and what a path does to it is counted on its side.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use vtax_load::Control;
use vtax_load::network::{
    NetworkError, NetworkResult, NetworkSpec, NetworkTestKind, ServerOptions, VoiceLaw, VoiceResult,
    VoiceTest, run, serve,
};
use vtax_units::Nanos;

fn voice(streams: u32) -> VoiceTest {
    VoiceTest {
        streams,
        packet: Nanos::from_millis(20),
        law: VoiceLaw::Mu,
        // Longer than a busy machine makes a packet wait.
        jitter_buffer: Nanos::from_secs(5),
        bundled: false,
    }
}

fn spec(target: SocketAddr, test: VoiceTest) -> NetworkSpec {
    NetworkSpec {
        target,
        test: NetworkTestKind::Voice(test),
        seed: 1,
        warmup: Nanos::from_millis(100),
        duration: Nanos::from_millis(1_500),
        interval: Nanos::from_millis(500),
    }
}

fn call(spec: &NetworkSpec, control: &Control) -> Result<VoiceResult, NetworkError> {
    match run(spec, control, &|_| {})? {
        NetworkResult::Voice(result) => Ok(*result),
        other => panic!("{other:?}"),
    }
}

/// Runs `client` against a server on loopback.
fn with_server<T>(client: impl FnOnce(SocketAddr) -> T) -> T {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(&listener, ServerOptions { tests: 4 }, &stop));
        let found = client(address);
        stop.store(true, Relaxed);
        serving.join().unwrap().unwrap();
        found
    })
}

#[test]
fn nothing_is_lost_over_loopback_and_both_ends_agree() {
    for (law, packet, streams, bundled) in [
        (VoiceLaw::Mu, 20, 21, false),
        (VoiceLaw::A, 30, 1, false),
        (VoiceLaw::A, 10, 130, false),
        (VoiceLaw::Mu, 10, 1_500, true),
    ] {
        let test = VoiceTest { law, packet: Nanos::from_millis(packet), bundled, ..voice(streams) };
        let result = with_server(|target| call(&spec(target, test), &Control::new()).unwrap());
        let rounds = 1_600 / packet - 100_u64.div_ceil(packet);
        for (way, from, to) in
            [(&result.up, &result.client, &result.server), (&result.down, &result.server, &result.client)]
        {
            let packets = way.packets;
            assert_eq!(packets.intended, rounds * u64::from(streams), "{packets:?}");
            assert_eq!((packets.sent, packets.lost()), (packets.intended, packets.no_room), "{packets:?}");
            assert_eq!((packets.duplicates, packets.damaged, packets.stray), (0, 0, 0), "{packets:?}");
            // Those of the warm-up are in the totals alone.
            let lost = from.total_sent - to.total_received;
            assert!(lost == 0 || packets.no_room > 0, "{from:?} {to:?}");
            assert_eq!(from.total_sent, 1_600 / packet * u64::from(streams), "{from:?}");
            assert_eq!((from.lateness.len(), from.refused), (packets.sent, 0), "{from:?}");
            assert_eq!((way.jitter.len(), way.jitter_max.len()), (u64::from(streams), u64::from(streams)));
            assert!(way.intervals.len() == 3 && way.intervals.iter().sum::<u64>() <= packets.received);
            // 5 s until it is played is more than anyone would bear.
            assert!(way.rating.delay >= Nanos::from_secs(5) && way.rating.mos < 2.5, "{:?}", way.rating);
        }
        assert!(!result.round_trip.is_empty() && result.unheard() >= result.loss());
    }
}

/// What a [`Relay`] has done to packets of each direction: up, then down.
#[derive(Default)]
struct Done {
    lost: [AtomicU64; 2],
    again: [AtomicU64; 2],
    held: [AtomicU64; 2],
    added: [AtomicU64; 2],
    /// The longest time between two looks, in nanoseconds: a relay that is held up loses what its sockets have no room for.
    away: AtomicU64,
}

/// How long the relay holds a packet back.
const HELD: Duration = Duration::from_millis(800);

/// A path from 127.0.0.2 to the server that loses, doubles and holds packets, and adds what is none.
fn relay(listener: &TcpListener, server: SocketAddr, stop: &AtomicBool, done: &Done) {
    let (mut near, _) = listener.accept().unwrap();
    let mut far = TcpStream::connect(server).unwrap();
    thread::scope(|scope| {
        let (mut up_from, mut up_to) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        scope.spawn(move || {
            let _ = std::io::copy(&mut up_from, &mut up_to);
            let _ = up_to.shutdown(Shutdown::Both);
        });
        let mut bytes = [0; 65_536];
        let mut opened = false;
        while let Ok(length) = far.read(&mut bytes)
            && length > 0
        {
            // The first answer names the port of the datagrams, which the relay must have before the client hears of it.
            if !std::mem::replace(&mut opened, true) {
                let text = String::from_utf8_lossy(&bytes[..length]).into_owned();
                let digits = text.split("\"port\":").nth(1).expect("it is accepted");
                let port: u16 = digits.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap();
                let near = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), port)).unwrap();
                scope.spawn(move || pass(&near, SocketAddr::new(server.ip(), port), stop, done));
            }
            if near.write_all(&bytes[..length]).is_err() {
                break;
            }
        }
        let _ = near.shutdown(Shutdown::Both);
    });
}

fn pass(near: &UdpSocket, server: SocketAddr, stop: &AtomicBool, done: &Done) {
    let far = UdpSocket::bind("127.0.0.1:0").unwrap();
    near.set_nonblocking(true).unwrap();
    far.set_nonblocking(true).unwrap();
    for socket in [near, &far] {
        // Not granted to everyone.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(socket, 8 << 20);
    }
    let (mut client, mut seen) = (None, [0_u64; 2]);
    let mut held: VecDeque<(Instant, usize, Vec<u8>)> = VecDeque::new();
    // With the first packet: a busy machine may be slow to send it.
    let mut began = None;
    let mut bytes = [0; 2_048];
    let mut looked = Instant::now();
    while !stop.load(Relaxed) {
        let away = std::mem::replace(&mut looked, Instant::now()).elapsed();
        done.away.fetch_max(away.as_nanos() as u64, Relaxed);
        let send = |way: usize, bytes: &[u8], client: Option<SocketAddr>| match way {
            0 => drop(far.send_to(bytes, server)),
            _ => drop(client.map(|client| near.send_to(bytes, client))),
        };
        while held.front().is_some_and(|(at, _, _)| *at <= Instant::now()) {
            let (_, way, packet) = held.pop_front().unwrap();
            send(way, &packet, client);
        }
        let mut idle = true;
        for (way, seen) in seen.iter_mut().enumerate() {
            let socket = if way == 0 { near } else { &far };
            let Ok((length, from)) = socket.recv_from(&mut bytes) else { continue };
            idle = false;
            if way == 0 {
                client = Some(from);
            }
            let packet = &bytes[..length];
            if length < 92 {
                // A greeting, or a question about the round trip.
                send(way, packet, client);
                continue;
            }
            *seen += 1;
            let began = *began.get_or_insert_with(Instant::now);
            if treat(*seen, way, packet, began, done, &|bytes| send(way, bytes, client)) {
                held.push_back((Instant::now() + HELD, way, packet.to_vec()));
            }
        }
        if idle {
            thread::sleep(Duration::from_micros(100));
        }
    }
}

/// Does to a packet what its number says; whether it is to be held.
fn treat(seen: u64, way: usize, packet: &[u8], began: Instant, done: &Done, send: &dyn Fn(&[u8])) -> bool {
    match seen % 40 {
        7 | 17 => _ = done.lost[way].fetch_add(1, Relaxed),
        27 => {
            send(packet);
            send(packet);
            done.again[way].fetch_add(1, Relaxed);
        }
        37 if began.elapsed() < Duration::from_millis(700) => {
            done.held[way].fetch_add(1, Relaxed);
            return true;
        }
        20 => {
            // Cut short, with another number, and of another stream: none of them was sent.
            send(&packet[..11]);
            for at in [3, 8] {
                let mut other = packet.to_vec();
                other[at] ^= 0x55;
                send(&other);
            }
            done.added[way].fetch_add(3, Relaxed);
            send(packet);
        }
        _ => send(packet),
    }
    false
}

#[test]
fn what_a_path_does_is_counted_on_its_side() {
    let (stop, done) = (AtomicBool::new(false), Done::default());
    let listener = TcpListener::bind("127.0.0.2:0").unwrap();
    let result = with_server(|server| {
        thread::scope(|scope| {
            let target = listener.local_addr().unwrap();
            let relay = scope.spawn(|| relay(&listener, server, &stop, &done));
            let test = VoiceTest { jitter_buffer: Nanos::from_millis(300), ..voice(20) };
            // No warm-up: whatever the relay does is counted.
            let result = call(&NetworkSpec { warmup: Nanos::ZERO, ..spec(target, test) }, &Control::new());
            stop.store(true, Relaxed);
            relay.join().unwrap();
            result.unwrap()
        })
    });
    let held_up = done.away.load(Relaxed) > 100_000_000;
    for (number, way) in [&result.up, &result.down].into_iter().enumerate() {
        let packets = way.packets;
        let [lost, again, held, added] =
            [&done.lost, &done.again, &done.held, &done.added].map(|count| count[number].load(Relaxed));
        assert!(lost > 0 && again > 0 && held > 0, "{lost} {again} {held}");
        assert_eq!((packets.sent, packets.damaged), (1_500, 0), "{packets:?}");
        let found = (packets.lost(), packets.duplicates, packets.stray);
        assert!(found == (lost, again, added) || held_up, "{lost} {again} {added}: {packets:?}");
        // A busy machine may hold back others too.
        assert!((packets.late >= held && packets.reordered >= held) || held_up, "{held}: {packets:?}");
        assert!(packets.lost() >= lost && way.rating.worst <= way.rating.mean, "{way:?}");
        assert!(way.rating.mos < 4.0 && way.jitter_max.max() >= Nanos::from_millis(20), "{:?}", way.rating);
    }
    assert!(result.unheard() > result.loss());
}

#[test]
fn a_call_that_is_called_off_has_lost_nothing() {
    let began = Instant::now();
    let result = with_server(|target| {
        let hour = Nanos::from_secs(3_600);
        let spec = NetworkSpec { warmup: Nanos::ZERO, duration: hour, ..spec(target, voice(10)) };
        let control = Control::new();
        let (came, comes) = std::sync::mpsc::channel();
        thread::scope(|scope| {
            let (spec, control) = (&spec, &control);
            let calling =
                scope.spawn(move || run(spec, control, &|live| came.send(live.bytes).unwrap_or(())));
            while comes.recv().unwrap() == 0 {}
            control.cancel();
            match calling.join().unwrap().unwrap() {
                NetworkResult::Voice(found) => *found,
                other => panic!("{other:?}"),
            }
        })
    });
    assert!(began.elapsed() < Duration::from_secs(60));
    for packets in [result.up.packets, result.down.packets] {
        assert_eq!((packets.intended, packets.lost()), (packets.sent, 0), "{packets:?}");
    }
    assert!(result.up.packets.received > 0 && result.limited.is_none(), "{result:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    let refused = |change: fn(&mut NetworkSpec, &mut VoiceTest)| {
        let (mut spec, mut test) = (spec("127.0.0.1:9".parse().unwrap(), voice(1)), voice(1));
        change(&mut spec, &mut test);
        spec.test = NetworkTestKind::Voice(test);
        spec.check().unwrap_err().to_string()
    };
    assert!(refused(|_, test| test.streams = 0).starts_with("streams"));
    assert!(refused(|_, test| test.streams = 5_001).starts_with("streams"));
    assert!(refused(|_, test| test.packet = Nanos::from_millis(25)).contains("none of 10ms, 20ms"));
    assert!(refused(|_, test| test.jitter_buffer = Nanos::from_secs(11)).starts_with("jitter buffer"));
    assert!(refused(|spec, _| spec.duration = Nanos::from_millis(100)).starts_with("duration"));
}
