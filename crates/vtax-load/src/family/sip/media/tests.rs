use std::net::Ipv4Addr;
use std::time::Duration;

use vtax_plan::model::VoiceLaw;
use vtax_sys::free_port;
use vtax_wire::sdp::Flow;

use super::*;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn media(ends_silent: bool) -> Media {
    let options = MediaOptions {
        law: VoiceLaw::A,
        packet: Nanos::from_millis(20),
        // Nothing that comes at all is late, however busy the machine is.
        jitter_buffer: Nanos::from_secs(10),
    };
    let ports = Arc::new(Ports::from(free_port()));
    Media::open(options, 4, ports, &CpuSet::default(), ends_silent).unwrap()
}

fn audio(port: u16, flow: Flow) -> Audio {
    Audio { address: (LOOPBACK, port).into(), law: Law::Mu, both_laws: true, packet_ms: Some(10), flow }
}

/// Waits until it is so, for some seconds.
fn until(mut holds: impl FnMut() -> bool) {
    for _ in 0..1_000 {
        if holds() {
            return;
        }
        thread::sleep(Duration::from_millis(10));
    }
    panic!("not within ten seconds");
}

#[test]
fn both_ends_hear_each_other() {
    let (mut near, mut far) = (media(false), media(false));
    let (near_port, far_port) = (near.port(3, LOOPBACK).unwrap(), far.port(0, LOOPBACK).unwrap());
    assert_eq!((near_port % 2, far_port % 2, near.port(3, LOOPBACK)), (0, 0, Some(near_port)));
    assert_eq!(near.port(4, LOOPBACK), None);
    far.listen(0, &audio(near_port, Flow::SendReceive));
    near.listen(3, &audio(far_port, Flow::SendReceive));
    near.talk(3);
    far.talk(0);
    let told = |media: &Media, slot: u32| media.state.slot(slot).unwrap().talk.as_ref().unwrap().told(0);
    until(|| told(&near, 3).heard.received > 40 && told(&far, 0).heard.received > 40);
    near.hush(3).unwrap();
    let said = far.hush(0).unwrap();
    near.end(3, Some(&said));
    far.end(0, None);
    let found = near.finish();
    assert_eq!((found.calls, found.untold, found.ratings.calls()), (1, 0, 1));
    for direction in [&found.up, &found.down] {
        let packets = direction.packets;
        assert!(packets.received > 40 && packets.damaged == 0 && packets.stray == 0, "{packets:?}");
        assert_eq!((direction.silent, direction.jitter.len()), (0, 1));
    }
    assert!(!found.pace.round_trip.is_empty() && found.pace.lateness.len() == found.pace.sent);
    let found = far.finish();
    assert_eq!((found.untold, found.up.ratings.calls(), found.down.ratings.calls()), (1, 0, 1));
}

#[test]
fn who_is_on_hold_says_nothing_until_it_is_over() {
    let mut near = media(false);
    let port = near.port(0, LOOPBACK).unwrap();
    let far = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let far_port = far.local_addr().unwrap().port();
    near.listen(0, &audio(far_port, Flow::SendOnly));
    near.talk(0);
    assert_eq!(near.hush(0).unwrap().sent, 0);
    near.listen(0, &audio(far_port, Flow::SendReceive));
    near.talk(0);
    let mut bytes = [0; ROOM];
    let (length, from) = far.recv_from(&mut bytes).unwrap();
    let packet = vtax_wire::rtp::Packet::parse(&bytes[..length]).unwrap();
    // Packets as long as the other end asks for, in the law that this one prefers; the first asks for the round trip.
    assert_eq!((from.port(), packet.payload.len(), packet.header.payload_type), (port, 80, 8));
    assert!(packet.extension.is_some() && packet.header.marker);
    // Whatever else comes changes nothing but a count.
    far.send_to(b"not a packet", (LOOPBACK, port)).unwrap();
    until(|| near.state.slot(0).unwrap().talk.as_ref().unwrap().told(0).heard.stray > 0);
    until(|| {
        near.hush(0).unwrap().sent > 0 || {
            near.talk(0);
            false
        }
    });
    near.end(0, None);
    near.end(0, None);
    assert_eq!(near.finish().calls, 1);
}

/// The next call was rated by what a dead one's other end went on to send.
#[test]
fn a_call_without_a_farewell_leaves_its_port() {
    let mut near = media(false);
    let far = UdpSocket::bind((LOOPBACK, 0)).unwrap();
    let far_port = far.local_addr().unwrap().port();
    let mut ports = Vec::new();
    for is_told in [true, false, true] {
        ports.push(near.port(0, LOOPBACK).unwrap());
        near.listen(0, &audio(far_port, Flow::SendReceive));
        let told = near.hush(0).unwrap();
        near.end(0, Some(&told).filter(|_| is_told));
    }
    // One that failed before there was any sound.
    ports.push(near.port(0, LOOPBACK).unwrap());
    near.end(0, None);
    ports.push(near.port(0, LOOPBACK).unwrap());
    assert_eq!(ports[0], ports[1], "who says farewell sends nothing more");
    assert_eq!(ports[2], ports[3]);
    assert!(ports[1] != ports[2] && ports[3] != ports[4], "{ports:?}");
    assert_eq!(near.finish().calls, 3);
}

#[test]
fn who_hears_nothing_for_long_says_so() {
    let mut near = media(true);
    near.port(1, LOOPBACK).unwrap();
    near.listen(1, &audio(9, Flow::SendReceive));
    near.state.slot(1).unwrap().talk.as_mut().unwrap().heard_at = 0;
    near.talk(1);
    let mut silent = Vec::new();
    until(|| {
        near.silent(&mut silent);
        !silent.is_empty()
    });
    assert_eq!(silent, [1]);
    assert!(!near.state.slot(1).unwrap().talk.as_ref().unwrap().speaks);
}

/// A call that came back from hold was ended at once, as nothing had been heard for as long as it was on hold.
#[test]
fn who_comes_back_from_hold_is_there() {
    let mut near = media(true);
    near.port(1, LOOPBACK).unwrap();
    let heard_at = |media: &Media| media.state.slot(1).unwrap().talk.as_ref().unwrap().heard_at;
    for hold in [Flow::Inactive, Flow::SendOnly] {
        near.listen(1, &audio(9, hold));
        near.state.slot(1).unwrap().talk.as_mut().unwrap().heard_at = 0;
        let before = monotonic().0;
        near.listen(1, &audio(9, Flow::SendReceive));
        assert!(heard_at(&near) >= before, "{hold:?}");
    }
}

#[test]
fn only_what_can_be_is_asked_for() {
    let good = MediaOptions {
        law: VoiceLaw::Mu,
        packet: Nanos::from_millis(40),
        jitter_buffer: Nanos::from_secs(10),
    };
    assert!(check(&good).is_ok());
    let packet = MediaOptions { packet: Nanos::from_millis(25), ..good };
    let buffer = MediaOptions { jitter_buffer: Nanos::from_secs(11), ..good };
    assert!(check(&packet).is_err() && check(&buffer).is_err());
    let ports = Ports::from(65_534);
    assert_eq!([ports.next(), ports.next(), ports.next()], [65_534, FIRST_PORT, FIRST_PORT + 2]);
}
