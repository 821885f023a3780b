//! From a plan's network test to the instrument's specification.

use std::net::SocketAddr;

use vtax_load::ArrivalProcess;
use vtax_load::network as load;
use vtax_plan::model::{
    Arrivals, Direction, NetTest, NetTestKind, NetworkMeasure, PingTest, Probe, RrTest, SocketOptions,
    TcpTest, UdpTest,
};
use vtax_units::Nanos;

/// More intervals than this of one test say no more and make a record large.
const MOST_INTERVALS: u64 = 1_000;

/// The instrument's specification of this test.
pub(super) fn spec(test: &NetTest, target: SocketAddr, measure: &NetworkMeasure, seed: u64) -> load::NetSpec {
    let interval = crate::settle::interval(measure.duration);
    load::NetSpec {
        target,
        test: match &test.kind {
            NetTestKind::Tcp(test) => load::NetTest::Tcp(tcp(test)),
            NetTestKind::Udp(test) => load::NetTest::Udp(udp(test)),
            NetTestKind::Ping(test) => load::NetTest::Ping(ping(test, seed)),
            NetTestKind::Rr(test) => load::NetTest::Rr(rr(test)),
        },
        warmup: measure.warmup,
        duration: measure.duration,
        interval: interval.max(Nanos(measure.duration.0.div_ceil(MOST_INTERVALS))),
    }
}

fn tcp(test: &TcpTest) -> load::TcpTest {
    load::TcpTest {
        streams: test.streams,
        direction: direction(test.direction),
        socket: socket(&test.socket),
        bytes: test.bytes,
        block: test.block,
        copy: test.copy,
    }
}

fn udp(test: &UdpTest) -> load::UdpTest {
    load::UdpTest {
        rate: test.rate,
        size: test.size,
        direction: direction(test.direction),
        buffer: test.buffer,
    }
}

fn ping(test: &PingTest, seed: u64) -> load::PingTest {
    load::PingTest {
        probe: match test.probe {
            Probe::Icmp => load::Probe::Icmp,
            Probe::Udp => load::Probe::Udp,
        },
        rate: test.rate,
        arrivals: match test.arrivals {
            Arrivals::Poisson => ArrivalProcess::Poisson,
            Arrivals::Constant => ArrivalProcess::Constant,
        },
        size: test.size,
        timeout: test.timeout,
        seed,
    }
}

fn rr(test: &RrTest) -> load::RrTest {
    load::RrTest {
        streams: test.streams,
        request: test.request,
        response: test.response,
        socket: socket(&test.socket),
    }
}

fn direction(direction: Direction) -> load::Direction {
    match direction {
        Direction::Up => load::Direction::Up,
        Direction::Down => load::Direction::Down,
        Direction::Both => load::Direction::Both,
    }
}

fn socket(options: &SocketOptions) -> load::SocketSetup {
    load::SocketSetup {
        window: options.window,
        mss: options.mss,
        congestion: options.congestion.clone(),
        no_delay: options.no_delay,
    }
}
