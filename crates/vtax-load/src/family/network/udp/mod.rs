//! UDP at a rate: what goes out, when, and what of it comes in.

mod datagram;
mod numbers;
mod receive;
mod schedule;
mod send;

use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use super::control::{self, ToServer};
use super::meter::{Counter, Timeline, cancelled_by, count, joined};
use super::{Agreed, Direction, NetworkError, UdpResult, UdpTest};

pub(super) use datagram::{Head, LOOK, await_greeting, greet, open, wait_for};
pub(super) use numbers::{Numbers, Seen};
pub(super) use receive::receive;
pub(super) use send::send;

/// The client's part.
pub(super) fn client(
    session: &Agreed<'_>,
    test: &UdpTest,
    mut link: TcpStream,
) -> Result<UdpResult, NetworkError> {
    let socket = greet(session, test.buffer, &mut link)?;
    let timeline = Timeline::begin(session.spec);
    let cancelled = cancelled_by(session.control);
    let counters = [Counter::default()];
    if test.direction == Direction::Up {
        let sender = thread::scope(|scope| {
            let sending = || send(&socket, session.token, test, &timeline, &counters[0], &cancelled);
            let thread = scope.spawn(sending);
            count(&timeline, &counters, &cancelled, Some(session.watch));
            joined(thread.join())
        })?;
        control::send(&mut link, &ToServer::Sent { datagrams: sender.sent })?;
        let receiver = control::ask_report(&mut link)?.udp_received;
        let receiver = receiver.ok_or_else(|| NetworkError::protocol("a report without datagrams".into()))?;
        return Ok(UdpResult::of(sender, receiver));
    }
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let receiving = || receive(&socket, session.token, test, &timeline, &counters[0], &over);
        let thread = scope.spawn(receiving);
        count(&timeline, &counters, &cancelled, Some(session.watch));
        if cancelled() {
            // So that the other end, which sends, stops as well.
            let _ = control::send(&mut link, &ToServer::Stop);
        }
        let report = control::ask_report(&mut link);
        over.store(true, Relaxed);
        let receiver = joined(thread.join())?;
        let sender = report?.udp_sent;
        let sender = sender.ok_or_else(|| NetworkError::protocol("a report without datagrams".into()))?;
        Ok(UdpResult::of(sender, receiver))
    })
}
