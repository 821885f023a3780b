//! Transactions: a request, its response, the next request; each connection in a thread of its own.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::Duration;

use vtax_sys::sched::monotonic;
use vtax_sys::tcp::tcp_info;
use vtax_units::Nanos;

use super::control;
use super::meter::{Counter, Timeline, Usage, cancelled_by, count, joined};
use super::tcp::{connect_all, facts};
use super::{Agreed, ConnectionFacts, NetworkCpu, NetworkError, RrResult, RrTest, SocketOptions};
use crate::LatencyHistogram;

/// A transaction that takes longer has lost its peer.
const STUCK: Duration = Duration::from_secs(10);

/// The client's part.
pub(super) fn client(
    session: &Agreed<'_>,
    test: &RrTest,
    mut link: TcpStream,
) -> Result<RrResult, NetworkError> {
    // A request that waits to be sent with others would measure Nagle's algorithm.
    let setup = SocketOptions { no_delay: true, ..test.socket.clone() };
    let streams = connect_all(session, &setup, test.streams, true)?;
    control::wait_for_go(&mut link)?;
    let timeline = Timeline::begin(session.spec);
    let cancelled = cancelled_by(session.control);
    let counters: Vec<Counter> = streams.iter().map(|_| Counter::default()).collect();
    let mut result = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (stream, counter) in streams.into_iter().zip(&counters) {
            let (timeline, cancelled) = (&timeline, &cancelled);
            threads.push(scope.spawn(move || ask(stream, test, timeline, counter, cancelled)));
        }
        let counted = count(&timeline, &counters, &cancelled, Some(session.watch));
        let mut result = RrResult {
            transactions: 0,
            time: counted.time,
            latency: LatencyHistogram::new(),
            intervals: counted.event_intervals,
            client_cpu: NetworkCpu::default(),
            server_cpu: NetworkCpu::default(),
            server_again: 0,
            connections: Vec::new(),
        };
        for thread in threads {
            let (latency, cpu, connection) = joined(thread.join())?;
            result.latency.add(&latency);
            result.client_cpu.add(cpu);
            result.connections.push(connection);
        }
        result.transactions = result.latency.len();
        Ok(result)
    })?;
    let report = control::ask_report(&mut link)?;
    (result.server_cpu, result.server_again) = (report.cpu, report.again);
    Ok(result)
}

fn ask(
    mut stream: TcpStream,
    test: &RrTest,
    timeline: &Timeline,
    counter: &Counter,
    cancelled: &(dyn Fn() -> bool + Sync),
) -> Result<(LatencyHistogram, NetworkCpu, ConnectionFacts), NetworkError> {
    let before = tcp_info(stream.as_fd()).unwrap_or_default();
    let usage = Usage::begin();
    let mut latency = LatencyHistogram::new();
    let transact = || -> io::Result<u64> {
        stream.set_read_timeout(Some(STUCK))?;
        stream.set_write_timeout(Some(STUCK))?;
        let request = vec![0x71; test.request as usize];
        let mut response = vec![0; test.response as usize];
        let (from, to) = (timeline.from(), timeline.to());
        let (mut all, mut sum) = (0, 0);
        loop {
            let start = monotonic();
            if start >= to || cancelled() {
                stream.shutdown(Shutdown::Write)?;
                return Ok(all);
            }
            stream.write_all(&request)?;
            stream.read_exact(&mut response)?;
            let took = monotonic().saturating_sub(start);
            (all, sum) = (all + 1, sum + took.0);
            counter.set(0, all);
            counter.set_rtt_sum(Nanos(sum));
            if start >= from {
                latency.record(took);
            }
        }
    };
    let mut transact = transact;
    let result = transact();
    counter.end();
    let all = result.map_err(NetworkError::lost("waiting for its response"))?;
    let cpu = usage.end();
    Ok((latency, cpu, facts(&stream, &before, all * u64::from(test.request))))
}

/// The server's part, on one connection: answers until the client has no more to ask. What that took, and bytes that were
/// sent again for it, at most.
pub(super) fn answer(mut stream: TcpStream, test: &RrTest) -> Result<(NetworkCpu, u64), NetworkError> {
    let usage = Usage::begin();
    let mut respond = || -> io::Result<()> {
        stream.set_read_timeout(Some(STUCK))?;
        stream.set_write_timeout(Some(STUCK))?;
        let mut request = vec![0; test.request as usize];
        let response = vec![0x52; test.response as usize];
        loop {
            match stream.read_exact(&mut request) {
                Ok(()) => stream.write_all(&response)?,
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
                Err(e) => return Err(e),
            }
        }
    };
    respond().map_err(NetworkError::lost("answering it"))?;
    let kernel = tcp_info(stream.as_fd()).unwrap_or_default();
    Ok((usage.end(), u64::from(kernel.retransmissions) * u64::from(kernel.send_mss)))
}
