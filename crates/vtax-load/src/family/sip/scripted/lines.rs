//! The lines of a worker: a socket or a connection for each source address, or a connection for each call.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::epoll;

use super::machine::Port;
use crate::LoadError;
use crate::drive::EventLoop;
use crate::family::sip::connections::Settings;
use crate::family::sip::line::{Line, Wire};
use crate::family::sip::unmatched::{Kind, Unmatched};

/// The lines of a worker.
pub(super) struct Lines {
    /// By number; `None` where the call of a connection is over.
    lines: Vec<Option<Line>>,
    vacant: Vec<u32>,
    target: SocketAddr,
    local: Vec<IpAddr>,
    /// What connections have in common, where there are any.
    pub(super) settings: Option<Settings>,
    per_call: bool,
    /// Lines that have something to send, and those that polling may have to be told of.
    waiting: Vec<u32>,
    touched: Vec<u32>,
    /// One of them has as much waiting as is sent at once.
    pub(super) full: bool,
    /// Whose turn it is to have a call.
    turn: usize,
}

impl Port for Lines {
    fn send(&mut self, line: u32, _to: Option<SocketAddr>, flow: u32, message: &[u8]) {
        let Some(open) = self.at(line) else { return };
        let was_waiting = open.has_waiting();
        open.send(flow, |_, out| out.extend_from_slice(message));
        let full = open.is_full();
        self.full |= full;
        if !was_waiting {
            self.waiting.push(line);
        }
    }

    fn local(&self, line: u32) -> SocketAddr {
        let open = self.lines.get(line as usize).and_then(Option::as_ref);
        open.map_or(SocketAddr::from(([0, 0, 0, 0], 0)), Line::local)
    }
}

impl Lines {
    /// Opens them, but for those of calls, and has the kernel tell what comes.
    pub(super) fn open(
        target: SocketAddr,
        local: &[IpAddr],
        settings: Option<Settings>,
        per_call: bool,
        events: &EventLoop,
    ) -> Result<Self, LoadError> {
        let mut lines = Self {
            lines: Vec::new(),
            vacant: Vec::new(),
            target,
            local: local.to_vec(),
            settings,
            per_call,
            waiting: Vec::new(),
            touched: Vec::new(),
            full: false,
            turn: 0,
        };
        for local in local.iter().filter(|_| !per_call) {
            let line = Line::open(*local, target, lines.settings.as_ref())?;
            let number = lines.lines.len() as u32;
            if let Wire::Udp(socket) = &line.wire {
                epoll::add(events.epoll(), socket.as_fd(), number_of(number), epoll::EventFlags::IN)
                    .map_err(|e| LoadError::System { operation: "watch a socket", source: e.into() })?;
            }
            lines.lines.push(Some(line));
        }
        Ok(lines)
    }

    pub(super) fn at(&mut self, line: u32) -> Option<&mut Line> {
        self.lines.get_mut(line as usize)?.as_mut()
    }

    /// The line of a call that begins; `None`, which is counted, where no socket can be had for it.
    pub(super) fn of_call(&mut self, stray: &mut Unmatched) -> Option<u32> {
        self.turn += 1;
        if !self.per_call {
            return Some((self.turn % self.lines.len().max(1)) as u32);
        }
        let local = self.local[self.turn % self.local.len()];
        let Ok(line) = Line::open(local, self.target, self.settings.as_ref()) else {
            stray.count(Kind::NoPort);
            return None;
        };
        let number = self.vacant.pop().unwrap_or_else(|| {
            self.lines.push(None);
            self.lines.len() as u32 - 1
        });
        self.lines[number as usize] = Some(line);
        Some(number)
    }

    /// Ends the connections of calls that are over.
    pub(super) fn release(&mut self, over: &mut Vec<u32>) {
        for number in over.drain(..) {
            if let Some(Wire::Tcp(stream)) = self.lines[number as usize].take().map(|line| line.wire) {
                stream.close();
            }
            self.vacant.push(number);
        }
    }

    /// Sends what waits.
    pub(super) fn flush(&mut self, now: u64, in_bundles: bool, stray: &mut Unmatched) {
        for number in self.waiting.drain(..) {
            if let Some(line) = &mut self.lines[number as usize] {
                line.flush(now, in_bundles, stray);
            }
            self.touched.push(number);
        }
        self.full = false;
    }

    /// A connection was read from or written to.
    pub(super) fn touch(&mut self, number: u32) {
        self.touched.push(number);
    }

    /// Has the kernel tell what connections wait for, where that has changed.
    pub(super) fn watch(&mut self, events: &EventLoop, stray: &mut Unmatched) {
        for number in self.touched.drain(..) {
            let Some(Wire::Tcp(stream)) = self.lines[number as usize].as_mut().map(|line| &mut line.wire)
            else {
                continue;
            };
            if !std::mem::take(&mut stream.changed) || !stream.is_open() {
                continue;
            }
            let mut flags = epoll::EventFlags::IN;
            flags.set(epoll::EventFlags::OUT, stream.wants_to_write());
            let socket: BorrowedFd<'_> = stream.as_fd();
            // A connection that is new to epoll is added; one that ended has left by itself.
            if epoll::modify(events.epoll(), socket, number_of(number), flags).is_err()
                && epoll::add(events.epoll(), socket, number_of(number), flags).is_err()
            {
                stray.count(Kind::ReceiveFailed);
            }
        }
    }

    /// Datagrams that the kernel dropped since this was last asked.
    pub(super) fn newly_dropped(&mut self) -> u64 {
        self.lines.iter_mut().flatten().map(Line::newly_dropped).sum()
    }
}

fn number_of(line: u32) -> epoll::EventData {
    epoll::EventData::new_u64(u64::from(line))
}
