//! Voice: streams of G.711 in both directions at once, each packet at its time.
//!
//! Both ends do the same ([`Endpoint`]): they send their streams by one timetable ([`Timetable`]), hear the other's, and tell what came. All streams of a direction
//! go from one port to one port and are told apart by their SSRC, whose first number and tick both ends know, as they know every packet's sound: whatever comes is
//! known by its number, and whether it is as it was sent. Beside the streams the client asks now and then how long a round trip takes.

mod endpoint;
mod result;
mod sound;
mod timetable;

use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use super::control::{self, ServerReport, ToServer, Token};
use super::meter::{Counter, Timeline, cancelled_by, count, joined};
use super::udp::greet;
use super::{Agreed, NetworkError, NetworkSpec, VoiceTest};
use endpoint::{Endpoint, Side};
pub(super) use result::VoiceReport;
pub(crate) use result::share;
pub use result::{VoiceDirection, VoiceEnd, VoicePackets, VoiceRating, VoiceResult};
pub(crate) use sound::{SOUND_BYTES_MAX, Sound};
use timetable::Timetable;

/// Room of a socket for what comes, where the kernel gives it: a third of a second of as many streams as there may be.
pub(super) const BUFFER: vtax_units::Bytes = vtax_units::Bytes(16 << 20);

/// The client's part.
pub(super) fn client(
    session: &Agreed<'_>,
    test: &VoiceTest,
    mut link: TcpStream,
) -> Result<VoiceResult, NetworkError> {
    let socket = greet(session, Some(BUFFER), &mut link)?;
    let timeline = Timeline::begin(session.spec);
    let cancelled = cancelled_by(session.control);
    let counters = [Counter::default()];
    let endpoint = Endpoint::new(&socket, session.token, test, timeline, Side::Client);
    let found = thread::scope(|scope| {
        let calling = || endpoint.run(&counters[0], &cancelled, &|| true);
        let thread = scope.spawn(calling);
        count(&timeline, &counters, &cancelled, Some(session.watch));
        if cancelled() {
            // So that the other end stops as well, and both count the same packets.
            let _ = control::send(&mut link, &ToServer::Stop);
        }
        joined(thread.join().map(|found| found.map_err(NetworkError::lost("talking to it"))))
    })?;
    if !cancelled() {
        control::send(&mut link, &ToServer::Sent { datagrams: found.end.sent })?;
    }
    let report = control::ask_report(&mut link)?.voice;
    let report = report.ok_or_else(|| NetworkError::protocol("a report without voice".into()))?;
    VoiceResult::of(test, Timetable::new(test, &timeline), !cancelled(), found, *report)
}

/// The server's part: the same on a socket that is connected to the client.
pub(super) fn host(
    spec: &NetworkSpec,
    test: &VoiceTest,
    token: Token,
    socket: &UdpSocket,
    link: &mut TcpStream,
    stop: &AtomicBool,
) -> Result<ServerReport, NetworkError> {
    let endpoint = Endpoint::new(socket, token, test, Timeline::begin(spec), Side::Server);
    let (over, broken_off) = (AtomicBool::new(false), AtomicBool::new(false));
    let found = thread::scope(|scope| {
        let counter = Counter::default();
        let stopped = || stop.load(Relaxed) || broken_off.load(Relaxed);
        let (over, broken_off) = (&over, &broken_off);
        let thread = scope.spawn(move || endpoint.run(&counter, &stopped, &|| over.load(Relaxed)));
        let said = control::receive::<ToServer>(link);
        // Whoever has sent all is waited for; whoever has gone, or called the test off, isn't sent to any more.
        broken_off.store(!matches!(said, Ok(ToServer::Sent { .. })), Relaxed);
        over.store(true, Relaxed);
        let found = joined(thread.join().map(|found| found.map_err(NetworkError::lost("talking to it"))))?;
        match said? {
            ToServer::Sent { .. } | ToServer::Stop => Ok(found),
            _ => Err(NetworkError::protocol("not a word about what was sent".to_owned())),
        }
    })?;
    Ok(ServerReport { voice: Some(Box::new(found)), ..ServerReport::default() })
}
