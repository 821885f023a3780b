//! One session: the connection to a desktop, what is on it, and the actions that wait for their answers.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, ipproto, sockopt};
use vtax_plan::model::DesktopPace;
use vtax_units::random::worker_seed;
use vtax_wire::desktop::{self, MARKER_HEIGHT};
use vtax_wire::rfb::{
    Decoder, Event, Fence, Handshake, Limits, MOST_UNREAD, Reached, RfbError, ServerInit, Tally, client,
};

use super::result::Kind;
use super::spec::DesktopSpec;
use super::tls::{Tls, TlsSettings};
use super::user::User;
use crate::requests::Outcome;

/// Actions that may wait for their answers where none waits for another's: half of the tags, so that each is known.
const MOST_UNDER_WAY: usize = 8;
/// Actions that are due and wait until they may be taken. A user who is this far behind has given up.
const MOST_DUE: usize = 64;
/// Bytes that a server doesn't take: it has stopped reading.
const MOST_UNSENT: usize = 64 * 1024;

/// How far a session is.
#[derive(Debug)]
pub(super) enum Phase {
    /// Not connected; when to try again.
    Down(u64),
    /// The kernel connects, or the opening is under way.
    Opening(Box<Handshake>),
    /// Connected; the first picture with a marker is still to come.
    First,
    /// The user acts.
    Ready,
}

/// An action that waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnderWay {
    pub(super) number: u16,
    pub(super) start: u64,
    pub(super) kind: Kind,
}

/// Why a session ended.
#[derive(Debug)]
pub(super) enum Broken {
    System(Errno),
    Closed,
    Protocol(RfbError),
    Tls(rustls::Error),
    /// It took no more bytes, or answered nothing in twice the time that an action may take.
    Stuck,
}

impl Broken {
    pub(super) fn words(&self) -> String {
        match self {
            Self::System(error) => error.to_string(),
            Self::Closed => "the server closed the connection".to_owned(),
            Self::Protocol(error) => error.to_string(),
            Self::Tls(error) => format!("TLS: {error}"),
            Self::Stuck => "the desktop answered nothing".to_owned(),
        }
    }
}

/// What became of the bytes that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    /// All is read.
    Nothing,
    /// The picture is there: the user may begin.
    Began,
    /// An update brought the marker with this number. `had_room`: before that an action could have been taken.
    Answered { number: u16, had_room: bool },
}

#[derive(Debug)]
pub(super) struct Desk {
    pub(super) phase: Phase,
    pub(super) socket: Option<OwnedFd>,
    /// When the last attempt to connect began, and when the user was to be connected: that stays, however many attempts it takes.
    pub(super) since: u64,
    pub(super) wanted: u64,
    /// How the last attempt failed, where nothing stands since: what is due fails at once.
    pub(super) failure: Option<Outcome>,
    /// When the user leaves and another comes; the first one's stay is this part of the others', so that not all leave at once.
    pub(super) leaves: u64,
    first_part: f64,
    came: bool,
    /// It is time to leave: nothing new is begun.
    pub(super) leaving: bool,
    pub(super) decoder: Option<Decoder>,
    limits: Limits,
    unread: Vec<u8>,
    /// How to begin TLS, and TLS where it has begun.
    settings: Option<Arc<TlsSettings>>,
    tls: Option<Box<Tls>>,
    pub(super) out: Vec<u8>,
    /// Updates come unasked.
    pub(super) continuous: bool,
    wants_continuous: bool,
    /// Number of the next action, and that of the marker that was seen last.
    next: u16,
    shown: u16,
    pub(super) under_way: VecDeque<UnderWay>,
    /// Intended starts of actions that are due.
    pub(super) due: VecDeque<u64>,
    most_under_way: usize,
    /// Nothing is sent until what is late is there; until when that is waited for, 0 where that isn't decided yet.
    pub(super) late: Option<u64>,
    /// Since when an action could be taken at once.
    pub(super) available_since: u64,
    /// When the user has thought enough.
    pub(super) thinks_until: u64,
    user: User,
    /// What was read on connections that have ended.
    past: Tally,
}

impl Desk {
    pub(super) fn new(spec: &DesktopSpec, number: usize, settings: Option<Arc<TlsSettings>>) -> Self {
        let rows = if spec.keep.all_of(number) { 0..u16::MAX } else { 0..MARKER_HEIGHT };
        let seed = worker_seed(spec.seed, number);
        let slow = spec.users.pace == DesktopPace::SlowMotion;
        Self {
            phase: Phase::Down(0),
            socket: None,
            since: 0,
            wanted: 0,
            failure: None,
            leaves: u64::MAX,
            first_part: (number + 1) as f64 / f64::from(spec.sessions.max(1)),
            came: false,
            leaving: false,
            decoder: None,
            limits: Limits { rows, ..Limits::default() },
            unread: Vec::with_capacity(MOST_UNREAD),
            settings,
            tls: None,
            out: Vec::with_capacity(256),
            continuous: false,
            wants_continuous: spec.users.continuous,
            next: 0,
            shown: 0,
            under_way: VecDeque::with_capacity(MOST_UNDER_WAY),
            due: VecDeque::with_capacity(MOST_DUE),
            most_under_way: if slow { 1 } else { MOST_UNDER_WAY },
            late: None,
            available_since: 0,
            thinks_until: 0,
            user: User::new(spec.users.actions, seed),
            past: Tally::default(),
        }
    }

    /// A step begins: its time counts from 0 again. Users stay that long, 0: to the end.
    pub(super) fn begin_step(&mut self, stay: u64) {
        self.under_way.clear();
        self.due.clear();
        (self.available_since, self.thinks_until, self.since, self.wanted) = (0, 0, 0, 0);
        (self.came, self.leaving, self.leaves) = (false, false, u64::MAX);
        self.failure = None;
        if self.is_ready() {
            self.comes(0, stay);
        }
        self.late = None;
        if let Phase::Down(until) = &mut self.phase {
            *until = 0;
        }
        // Answers that the last step didn't wait for are none of this one's.
        if self.next != self.shown.wrapping_add(1) && matches!(self.phase, Phase::Ready) {
            self.late = Some(0);
        }
    }

    /// What was read so far.
    pub(super) fn tally(&self) -> Tally {
        let mut all = self.past;
        if let Some(decoder) = &self.decoder {
            add(&mut all, decoder.tally());
        }
        all
    }

    pub(super) fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// A user comes, and stays that long.
    pub(super) fn comes(&mut self, now: u64, stay: u64) {
        self.available_since = now;
        let part = if std::mem::replace(&mut self.came, true) { 1.0 } else { self.first_part };
        self.leaves = if stay == 0 { u64::MAX } else { now + (stay as f64 * part) as u64 };
    }

    /// Has the user leave whose time is over, as soon as nothing is under way: true where that was now. Another one is to come at the
    /// time at which this one was to leave.
    pub(super) fn leave(&mut self, now: u64) -> bool {
        self.leaving = self.leaves <= now;
        let goes = self.leaving && self.is_ready() && self.under_way.is_empty();
        if goes {
            self.disconnect(self.leaves);
        }
        goes
    }

    /// Whether an action can be taken now.
    pub(super) fn has_room(&self) -> bool {
        let free = self.under_way.len() < self.most_under_way;
        self.is_ready() && self.late.is_none() && !self.leaving && free
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, spec: &DesktopSpec, number: usize, now: u64) -> Result<(), Broken> {
        let target = spec.address(number);
        let family = if target.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))
            .map_err(Broken::System)?;
        sockopt::set_tcp_nodelay(&fd, true).map_err(Broken::System)?;
        match rustix::net::connect(&fd, &target) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(Broken::System(error)),
        }
        if spec.tunnel {
            self.begin_tls()?;
        }
        self.socket = Some(fd);
        self.since = now;
        self.phase = Phase::Opening(Box::new(Handshake::new(spec.login())));
        Ok(())
    }

    /// What comes next is TLS; what was said before goes out first.
    fn begin_tls(&mut self) -> Result<(), Broken> {
        // What can't be asked for without TLS doesn't lead to it.
        let settings = self.settings.as_ref().ok_or(Broken::Closed)?;
        let tls = settings.connect(&mut self.out).map_err(Broken::Tls)?;
        self.tls = Some(Box::new(tls));
        Ok(())
    }

    /// The connection is gone, and the next attempt is made then. What is under way and due is the caller's to count.
    pub(super) fn disconnect(&mut self, again: u64) {
        // A user who wasn't there yet is still waiting.
        if self.is_ready() {
            self.wanted = again;
        }
        (self.socket, self.tls) = (None, None);
        if let Some(decoder) = self.decoder.take() {
            add(&mut self.past, decoder.tally());
        }
        self.unread.clear();
        self.out.clear();
        (self.continuous, self.late) = (false, None);
        (self.leaves, self.leaving) = (u64::MAX, false);
        self.phase = Phase::Down(again);
    }

    /// Takes an action. What is to be sent is in `out` then.
    pub(super) fn act(&mut self, start: u64) {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let kind = self.user.act(desktop::tag(number), &mut self.out);
        self.under_way.push_back(UnderWay { number, start, kind });
    }

    /// An action is due. False where too many are.
    pub(super) fn is_due(&mut self, start: u64) -> bool {
        if self.due.len() >= MOST_DUE {
            return false;
        }
        self.due.push_back(start);
        true
    }

    /// The next action that the marker with this number answers.
    pub(super) fn answered(&mut self, number: u16) -> Option<UnderWay> {
        let first = self.under_way.front()?;
        // Numbers go round; a marker is ahead of an action by less than half of them.
        if number.wrapping_sub(first.number) > u16::MAX / 2 {
            return None;
        }
        self.under_way.pop_front()
    }

    /// Sends what there is; how many bytes went.
    pub(super) fn flush(&mut self) -> Result<usize, Broken> {
        let Some(socket) = &self.socket else { return Ok(0) };
        let out = match &mut self.tls {
            Some(tls) => {
                tls.seal(&mut self.out);
                &mut tls.sealed
            }
            None => &mut self.out,
        };
        if out.is_empty() {
            return Ok(0);
        }
        match rustix::net::send(socket, out, SendFlags::NOSIGNAL) {
            Ok(sent) => {
                out.drain(..sent);
                Ok(sent)
            }
            Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) if out.len() > MOST_UNSENT => Err(Broken::Stuck),
            Err(Errno::AGAIN | Errno::INTR | Errno::NOTCONN) => Ok(0),
            Err(error) => Err(Broken::System(error)),
        }
    }

    /// Takes what the kernel has into `buffer`, behind what is unread: how many bytes there are then, and how many came. `None`
    /// where nothing has come.
    pub(super) fn receive(&mut self, buffer: &mut [u8]) -> Result<Option<(usize, usize)>, Broken> {
        let Some(socket) = &self.socket else { return Ok(None) };
        let kept = self.unread.len();
        buffer[..kept].copy_from_slice(&self.unread);
        let room = match &mut self.tls {
            Some(tls) => &mut tls.cipher[..],
            None => &mut buffer[kept..],
        };
        match rustix::net::recv(socket, room, RecvFlags::empty()) {
            Ok((_, 0)) => Err(Broken::Closed),
            Ok((_, got)) => {
                let plain = match &mut self.tls {
                    Some(tls) => tls.open(got, &mut buffer[kept..]).map_err(Broken::Tls)?,
                    None => got,
                };
                self.unread.clear();
                Ok(Some((kept + plain, got)))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(Broken::System(error)),
        }
    }

    /// Keeps what isn't used until more has come. Of a connection that has ended since, nothing: the next one's server would be taken to
    /// have said it.
    pub(super) fn keep(&mut self, unread: &[u8]) {
        if self.socket.is_some() {
            self.unread.extend_from_slice(unread);
        }
    }

    /// Reads up to the next thing that matters; how many bytes were used, and what was told.
    pub(super) fn read(&mut self, spec: &DesktopSpec, bytes: &[u8]) -> Result<(usize, Told), Broken> {
        let mut used = 0;
        if let Phase::Opening(handshake) = &mut self.phase {
            let (taken, reached) = handshake.read(bytes, &mut self.out).map_err(Broken::Protocol)?;
            used = taken;
            match reached {
                Reached::More => return Ok((used, Told::Nothing)),
                // The client speaks first in TLS.
                Reached::Tls if used < bytes.len() => {
                    let early =
                        RfbError::Content { encoding: "VeNCrypt", what: "bytes before TLS has begun" };
                    return Err(Broken::Protocol(early));
                }
                Reached::Tls => {
                    self.begin_tls()?;
                    return Ok((used, Told::Nothing));
                }
                Reached::Open(init) => self.open(spec, &init).map_err(Broken::Protocol)?,
            }
        }
        loop {
            let Some(decoder) = &mut self.decoder else { return Ok((used, Told::Nothing)) };
            let (taken, event) = decoder.read(&bytes[used..]).map_err(Broken::Protocol)?;
            used += taken;
            let Some(event) = event else { return Ok((used, Told::Nothing)) };
            let told = self.event(&event);
            if told != Told::Nothing {
                return Ok((used, told));
            }
        }
    }

    /// The desktop is open: says what is understood, and asks for the first picture.
    fn open(&mut self, spec: &DesktopSpec, init: &ServerInit) -> Result<(), RfbError> {
        let decoder = Decoder::new(init.width, init.height, self.limits.clone())?;
        client::set_pixel_format(&mut self.out);
        let extras = client::Extras { copies: spec.users.copies, continuous: self.wants_continuous };
        client::set_encodings(&mut self.out, spec.encoding(), extras);
        client::request_update(&mut self.out, false, decoder.screen().area());
        self.user.sees(init.width, init.height);
        self.decoder = Some(decoder);
        self.phase = Phase::First;
        Ok(())
    }

    fn event(&mut self, event: &Event) -> Told {
        let Some(decoder) = &self.decoder else { return Told::Nothing };
        let screen = decoder.screen();
        match event {
            Event::Bell => Told::Nothing,
            Event::Fence(fence) => {
                if fence.flags & Fence::REQUEST != 0 {
                    client::answer_fence(&mut self.out, fence);
                }
                Told::Nothing
            }
            Event::EndOfContinuousUpdates => {
                // Said at first to tell that they can be had.
                if self.wants_continuous && !self.continuous {
                    client::continuous_updates(&mut self.out, true, screen.area());
                    self.continuous = true;
                }
                Told::Nothing
            }
            Event::Update(update) => {
                if update.resized {
                    self.user.sees(screen.width(), screen.height());
                    if self.continuous {
                        client::continuous_updates(&mut self.out, true, screen.area());
                    }
                }
                if update.resized || !self.continuous {
                    client::request_update(&mut self.out, !update.resized, screen.area());
                }
                match desktop::read(screen) {
                    Some(number) => self.marked(number),
                    None => Told::Nothing,
                }
            }
        }
    }

    pub(super) fn marked(&mut self, number: u16) -> Told {
        let had_room = self.has_room();
        self.shown = number;
        if matches!(self.phase, Phase::First) {
            self.next = number.wrapping_add(1);
            self.phase = Phase::Ready;
            return Told::Began;
        }
        if self.late.is_some() && self.next == number.wrapping_add(1) {
            self.late = None;
        }
        Told::Answered { number, had_room }
    }
}

fn add(sum: &mut Tally, more: &Tally) {
    sum.updates += more.updates;
    sum.pixels += more.pixels;
    sum.bytes += more.bytes;
    for (sum, more) in sum.rects.iter_mut().zip(more.rects) {
        *sum += more;
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::super::worker::tests::spec;
    use super::*;

    /// They were read as what the next server greets with.
    #[test]
    fn bytes_of_a_connection_that_has_ended_are_not_kept() {
        let mut desk = Desk::new(&spec(), 0, None);
        desk.socket = Some(UnixStream::pair().unwrap().0.into());
        desk.keep(b"RFB 003.");
        assert_eq!(desk.unread, b"RFB 003.");
        // While what came is being read an action is taken, and where its bytes can't be sent the connection has ended.
        desk.disconnect(7);
        desk.keep(b"the rest of an update");
        assert!(desk.unread.is_empty(), "{:?}", desk.unread);
    }

    /// A login that took several attempts was timed from its last.
    #[test]
    fn a_user_waits_from_when_the_login_was_due() {
        let mut desk = Desk::new(&spec(), 0, None);
        desk.begin_step(0);
        for attempt in [100, 200] {
            desk.phase = Phase::First;
            desk.disconnect(attempt);
            assert_eq!(desk.wanted, 0, "nobody was there yet");
        }
        // The next one comes when a user leaves, also if that isn't at once.
        desk.phase = Phase::Ready;
        desk.disconnect(300);
        for attempt in [400, 500] {
            desk.phase = Phase::First;
            desk.disconnect(attempt);
            assert_eq!(desk.wanted, 300);
        }
    }
}
