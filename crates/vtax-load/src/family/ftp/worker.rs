//! One worker: an epoll loop over its own sessions, and when what they do begins and ends.
//!
//! Nothing here locks, or allocates for a transfer in the clear. All times are nanoseconds since the load's epoch.

use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use rand::RngExt;
use rand::rngs::Xoshiro256PlusPlus;
use rand_distr::{Distribution, Exp1};
use rustix::event::epoll;
use rustix::io::Errno;
use vtax_plan::model::{FtpArrivals, FtpRequests};
use vtax_sys::{SysError, sched};
use vtax_units::Nanos;

use super::channel::Channel;
use super::content::{self, Contents};
use super::result::FtpDetails;
use super::slot::{Kind, Login, Marks, Slot, Stage, Transfer, Which, parts, token};
use super::tally::Tally;
use super::tls::TlsSettings;
use crate::drive::{EventLoop, Rest};
use crate::requests::{Finding, Lateness, Outcome, Recorder, Timetable, Window, outcome_of, time_since};
use crate::{Control, Part, StartTimes};

/// Events taken from the kernel at once.
const EVENTS: usize = 256;
/// One read's most.
pub(super) const BUFFER_BYTES: usize = 256 * 1024;
/// Starts in a row before events are looked at again.
const STARTS_MAX: u32 = 64;
/// Sessions of a closed loop that wait to be greeted at once: vsftpd's backlog holds 32.
const BEGINNING_MAX: usize = 16;
/// How long a server may take to close after QUIT, and how long a closed loop waits after a session broke.
pub(super) const PAUSE: u64 = 50_000_000;
/// Nothing ends by itself.
const NEVER: u64 = u64::MAX;

/// What all workers of a load have in common.
#[derive(Debug)]
pub(super) struct Job<'a> {
    pub(super) target: SocketAddr,
    pub(super) requests: &'a FtpRequests,
    pub(super) user: &'a str,
    pub(super) password: &'a str,
    pub(super) tls: Option<&'a TlsSettings>,
    pub(super) contents: &'a Contents,
    /// The next file to be stored that others will fetch; `None`: they are there, and this is the load.
    pub(super) fill: Option<&'a AtomicU32>,
    /// Which of those files are stored by this generator, and how many these are.
    pub(super) part: Part,
    pub(super) own_files: u32,
    /// Bytes of files whose transfers have begun and haven't failed, of all workers, as far as they are recorded.
    pub(super) begun: &'a AtomicU64,
    pub(super) window: Window,
    /// How long ends are waited for after the window's.
    pub(super) drain: u64,
    pub(super) timeout: u64,
    /// CLOCK_MONOTONIC at the start of the load.
    pub(super) epoch: Nanos,
}

impl Job<'_> {
    /// What a transfer adds to the bytes with which a load may end: those of its file, unless it belongs to the warm-up.
    fn bytes_of(&self, transfer: &Transfer) -> u64 {
        let counts = transfer.kind != Kind::List && transfer.start >= self.window.from;
        if counts { transfer.size } else { 0 }
    }
}

/// What one worker found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) finding: Finding,
    pub(super) details: FtpDetails,
}

#[derive(Debug)]
pub(super) struct Worker<'a> {
    pub(super) job: &'a Job<'a>,
    pub(super) events: EventLoop,
    pub(super) buffer: Box<[u8]>,
    /// What is about to be sent.
    pub(super) out: Vec<u8>,
    /// What came on a control connection.
    pub(super) text: Vec<u8>,
    pub(super) name: String,
    pub(super) slots: Vec<Slot>,
    /// When each slot's pause or patience ends.
    until: Vec<u64>,
    /// None of these is earlier.
    next_until: u64,
    /// Sessions that wait for a transfer; and slots without one.
    pub(super) idle: Vec<u32>,
    pub(super) free: Vec<u32>,
    /// Connections on which more is to be done before the next wait.
    pub(super) again: Vec<(u32, u32)>,
    /// Since when there was always a session or a slot.
    available_since: u64,
    /// Sessions that aren't greeted yet.
    pub(super) beginning: usize,
    rng: Xoshiro256PlusPlus,
    pub(super) recorder: Recorder,
    pub(super) tally: Tally,
    pub(super) time: Timetable<'a>,
}

impl<'a> Worker<'a> {
    pub(super) fn new(
        job: &'a Job<'a>,
        control: &'a Control,
        events: EventLoop,
        slots: Vec<Slot>,
        arrivals: Option<StartTimes>,
        rng: Xoshiro256PlusPlus,
        recorder: Recorder,
    ) -> Self {
        let count = slots.len();
        Self {
            job,
            events,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            out: Vec::with_capacity(BUFFER_BYTES),
            text: Vec::with_capacity(BUFFER_BYTES),
            name: String::with_capacity(64),
            slots,
            until: vec![NEVER; count],
            next_until: NEVER,
            idle: Vec::with_capacity(count),
            free: (0..count as u32).rev().collect(),
            again: Vec::with_capacity(2 * count),
            available_since: 0,
            beginning: 0,
            rng,
            recorder,
            tally: Tally::new(job.window.from, Nanos(job.timeout)),
            time: Timetable::new(control, job.window, job.drain, job.epoch, arrivals),
        }
    }

    /// Carries out this worker's share of the load.
    pub(super) fn run(mut self) -> Result<Found, SysError> {
        let epoch = self.job.epoch;
        let clock = || time_since(epoch);
        let mut events = [MaybeUninit::uninit(); EVENTS];
        // A thread that is there before the others has no time to count from yet.
        std::thread::sleep(epoch.saturating_sub(sched::monotonic()).into());
        self.time.now = clock();
        while self.go_on()? {
            self.dispatch();
            self.expire();
            let rest = self.rest();
            let (ready, now) = self.events.wait(&mut events, rest, clock)?;
            self.time.now = now;
            let mut again = std::mem::take(&mut self.again);
            for (id, generation) in again.drain(..) {
                if self.slots[id as usize].generation == generation {
                    self.move_on(id);
                    self.time.now = clock();
                }
            }
            // Those that were added meanwhile stay; there are few.
            again.append(&mut self.again);
            self.again = again;
            for event in ready {
                self.event(event.data.u64(), event.flags);
                self.time.now = clock();
                self.dispatch();
            }
        }
        self.finish()
    }

    /// Passes the marks of the load's course; false once it is over.
    fn go_on(&mut self) -> Result<bool, SysError> {
        let failed = self.job.fill.is_some() && self.tally.first_failure.is_some();
        let enough = failed || self.filled() || self.has_moved_all();
        self.time.pass(&mut self.recorder, self.events.pacer.polled, enough)?;
        if self.time.goes_on() {
            return Ok(true);
        }
        let waits = self.time.next_start().is_some() || self.slots.iter().any(Slot::has_request);
        Ok(waits && self.time.waits())
    }

    /// All files are stored, or being stored, and no session of this worker stores one.
    fn filled(&self) -> bool {
        let Some(next) = self.job.fill else { return false };
        next.load(Relaxed) >= self.job.own_files && !self.slots.iter().any(Slot::has_request)
    }

    /// Whether a closed loop that ends with its bytes has begun the last of them.
    fn begins_no_more(&self) -> bool {
        let all = self.job.requests.bytes.filter(|_| self.job.fill.is_none() && !self.time.is_open());
        all.is_some_and(|all| self.job.begun.load(Relaxed) >= all.0)
    }

    /// Whether no more bytes are to be moved, and no session of this worker moves any.
    fn has_moved_all(&self) -> bool {
        self.begins_no_more() && !self.slots.iter().any(Slot::has_request)
    }

    /// What a start of an open loop is of.
    pub(super) const fn of_sessions(&self) -> bool {
        self.time.is_open() && matches!(self.job.requests.arrivals_of, FtpArrivals::Sessions)
    }

    const fn is_available(&self) -> bool {
        !(self.idle.is_empty() && self.free.is_empty())
    }

    /// Starts all that is due and finds a session.
    fn dispatch(&mut self) {
        if !self.time.is_open() {
            return self.dispatch_closed();
        }
        for _ in 0..STARTS_MAX {
            let Some(start) = self.time.next_start().filter(|start| *start <= self.time.now) else { return };
            if start + self.job.timeout <= self.time.now {
                self.recorder.missed(start, self.is_available() && self.available_since <= start);
            } else {
                if !self.is_available() {
                    return;
                }
                let late = Lateness::of(start, self.available_since, self.time.now);
                self.recorder.started(start, Some(late));
                match self.idle.pop() {
                    Some(id) => self.begin_transfer(id, start),
                    None => {
                        let Some(id) = self.free.pop() else { return };
                        self.begin_session(id, start);
                    }
                }
                self.time.tell();
            }
            self.events.pacer.started(start);
            self.time.started();
        }
    }

    /// Begins a session wherever there is none.
    fn dispatch_closed(&mut self) {
        while self.time.now < self.time.stop && self.beginning < BEGINNING_MAX && !self.begins_no_more() {
            if self.job.fill.is_some_and(|next| next.load(Relaxed) >= self.job.own_files) {
                return;
            }
            let Some(id) = self.free.pop() else { return };
            self.recorder.started(self.time.now, None);
            self.begin_session(id, self.time.now);
        }
    }

    /// A slot or a session can take a start again.
    fn available(&mut self) {
        if !self.is_available() {
            self.available_since = self.time.now;
        }
    }

    /// Begins a session for a start that was counted.
    fn begin_session(&mut self, id: u32, start: u64) {
        let (now, of_sessions) = (self.time.now, self.of_sessions());
        let transfers = self.job.requests.transfers.unwrap_or(u32::MAX);
        let slot = &mut self.slots[id as usize];
        (slot.stage, slot.beginning) = (Stage::Connecting, true);
        slot.login = Login { begun: now, ..Login::default() };
        // The start of what was interrupted was counted, and ends, with that.
        slot.pending = slot.interrupted.is_none().then_some(start);
        slot.arrival = of_sessions.then_some(start);
        (slot.failed, slot.left) = (None, slot.transfers_left(transfers));
        slot.idle_replies = 0;
        slot.replies = vtax_wire::ftp::ReplyScanner::new();
        self.beginning += 1;
        self.set_until(id, start + self.job.timeout);
        let source = self.slots[id as usize].source;
        match Channel::connect(self.job.target, source) {
            Ok(channel) => {
                let added = self.watch(id, Which::Control, &channel);
                self.slots[id as usize].control = Some(channel);
                if let Err(error) = added {
                    self.break_session(id, outcome_of(error), 0, "the control connection can't be watched");
                }
            }
            Err(error) => self.break_session(id, outcome_of(error), 0, "connecting failed"),
        }
    }

    /// Sees to it that events of a connection are told.
    pub(super) fn watch(&self, id: u32, which: Which, channel: &Channel) -> Result<(), Errno> {
        use std::os::fd::AsFd;
        self.watch_fd(id, which, channel.fd.as_fd())
    }

    pub(super) fn watch_fd(&self, id: u32, which: Which, fd: BorrowedFd<'_>) -> Result<(), Errno> {
        let data = epoll::EventData::new_u64(token(id, self.slots[id as usize].generation, which));
        let flags =
            epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::RDHUP | epoll::EventFlags::ET;
        epoll::add(self.events.epoll(), fd, data, flags)
    }

    fn event(&mut self, word: u64, flags: epoll::EventFlags) {
        let (id, generation, which) = parts(word);
        if self.slots[id as usize].generation != generation {
            return;
        }
        let broken = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
        let readable = broken || flags.intersects(epoll::EventFlags::IN | epoll::EventFlags::RDHUP);
        match which {
            Which::Control => self.control_event(id, readable),
            Which::Data => self.data_event(id),
            Which::Listener => self.listener_event(id),
        }
    }

    /// What a session does next that has logged in or ended a transfer.
    pub(super) fn next_of(&mut self, id: u32) {
        let (now, stop) = (self.time.now, self.time.stop);
        let slot = &mut self.slots[id as usize];
        if let Some(transfer) = slot.interrupted.take() {
            return self.go_on_from(id, transfer);
        }
        if let Some(start) = slot.pending {
            return self.begin_transfer(id, start);
        }
        if slot.left == 0 || (now >= stop && !self.of_sessions()) {
            return self.say_good_bye(id);
        }
        if self.time.is_open() && !self.of_sessions() {
            self.available();
            self.slots[id as usize].stage = Stage::Ready;
            self.idle.push(id);
            return self.set_until(id, NEVER);
        }
        let think = self.job.requests.think.0;
        if think == 0 || self.job.fill.is_some() {
            return self.go_on_with(id);
        }
        let pause: f64 = Exp1.sample(&mut self.rng);
        self.slots[id as usize].stage = Stage::Thinking;
        self.set_until(id, now.saturating_add((pause * think as f64) as u64));
    }

    /// The next transfer of a session that makes them by itself.
    fn go_on_with(&mut self, id: u32) {
        if !self.of_sessions() {
            if self.time.now >= self.time.stop || self.begins_no_more() {
                return self.say_good_bye(id);
            }
            if self.job.fill.is_none() {
                self.recorder.started(self.time.now, None);
            }
        }
        self.begin_transfer(id, self.time.now);
    }

    /// Begins a transfer that was counted.
    fn begin_transfer(&mut self, id: u32, start: u64) {
        let Some(mut transfer) = self.choose(id) else {
            self.slots[id as usize].pending = None;
            return self.say_good_bye(id);
        };
        let now = self.time.now;
        transfer.start = start;
        self.job.begun.fetch_add(self.job.bytes_of(&transfer), Relaxed);
        transfer.marks = Marks { begun: now, ..Marks::default() };
        if self.job.fill.is_some() && self.slots[id as usize].pending.is_none() {
            self.recorder.started(start, None);
        }
        self.slots[id as usize].pending = None;
        self.under_way(id, transfer);
    }

    /// Carries out a transfer.
    pub(super) fn under_way(&mut self, id: u32, transfer: Transfer) {
        let slot = &mut self.slots[id as usize];
        slot.stage = Stage::Transfer;
        slot.transfer = Some(transfer);
        slot.lines = vtax_wire::ftp::ListScanner::new();
        self.set_until(id, transfer.start + self.job.timeout);
        self.ask_for_data(id);
    }

    /// Chooses what is moved; `None` where there is nothing left to fill.
    fn choose(&mut self, id: u32) -> Option<Transfer> {
        let requests = self.job.requests;
        let files = requests.files;
        if let Some(next) = self.job.fill {
            if self.fills_no_more(id) {
                return None;
            }
            let own = next.fetch_add(1, Relaxed);
            let file = u32::try_from(self.job.part.place(own.into())).ok().filter(|file| *file < files)?;
            let content = content::content_of_file(file);
            let size = content::size_of(requests.size, file);
            return Some(Transfer::new(Kind::Stor, file, content, size));
        }
        let mix = requests.mix;
        let slot = &mut self.slots[id as usize];
        let client = slot.client;
        if std::mem::take(&mut slot.reads_back) {
            let upload = slot.uploads;
            let content = content::content_of_upload(client, upload);
            let size = content::size_of(requests.size, content);
            return Some(Transfer { own: true, ..Transfer::new(Kind::Retr, client, content, size) });
        }
        let draw = self.rng.random_range(0..mix.retr + mix.stor + mix.list);
        Some(if draw < mix.retr {
            let file = self.rng.random_range(0..files);
            let size = content::size_of(requests.size, file);
            Transfer::new(Kind::Retr, file, content::content_of_file(file), size)
        } else if draw < mix.retr + mix.stor {
            slot.uploads += 1;
            let content = content::content_of_upload(client, slot.uploads);
            let size = content::size_of(requests.size, content);
            Transfer { own: true, ..Transfer::new(Kind::Stor, client, content, size) }
        } else {
            Transfer::new(Kind::List, 0, 0, u64::from(files))
        })
    }

    /// Whether a session that stores what others will fetch must log in again before it stores more.
    fn fills_no_more(&self, id: u32) -> bool {
        let slot = &self.slots[id as usize];
        let protect = self.job.requests.tls.as_ref().is_some_and(|tls| tls.protect);
        let (Some(settings), Some(of_session), true) = (self.job.tls, &slot.tls, protect) else {
            return false;
        };
        // A server that gives no ticket at all is to say so itself.
        let has_stored = slot.left < self.job.requests.transfers.unwrap_or(u32::MAX);
        has_stored && of_session.is_spent(settings)
    }

    /// A transfer has ended; the session goes on.
    pub(super) fn end_transfer(&mut self, id: u32, outcome: Outcome, code: u16) {
        self.account(id, outcome, code);
        let every = self.job.requests.read_back;
        let filling = self.job.fill.is_some();
        let slot = &mut self.slots[id as usize];
        if let Some(transfer) = slot.transfer.take()
            && transfer.kind == Kind::Stor
            && outcome == Outcome::Ok
            && every > 0
            && !filling
        {
            slot.reads_back = slot.uploads.is_multiple_of(every);
        }
        (slot.data, slot.listener) = (None, None);
        slot.left = slot.left.saturating_sub(1);
        if slot.left == 0
            && let Some(arrival) = slot.arrival.take()
        {
            let (outcome, code) = slot.failed.unwrap_or((Outcome::Ok, 0));
            self.recorder.ended(arrival, self.time.now, outcome, code);
        }
        self.next_of(id);
    }

    /// Writes down how the transfer under way ended.
    fn account(&mut self, id: u32, outcome: Outcome, code: u16) {
        let now = self.time.now;
        let slot = &mut self.slots[id as usize];
        if outcome != Outcome::Ok {
            slot.failed.get_or_insert((outcome, code));
            if let (Some(transfer), None) = (&slot.transfer, &self.tally.first_failure) {
                let text = String::from_utf8_lossy(slot.replies.text());
                let text: String = text.chars().filter(|c| !c.is_control()).collect();
                self.tally.first_failure = Some(transfer.failure(outcome, code, &text));
            }
        }
        if let Some(transfer) = &slot.transfer {
            if outcome != Outcome::Ok {
                // Others have to move them.
                self.job.begun.fetch_sub(self.job.bytes_of(transfer), Relaxed);
            }
            self.tally.transferred(transfer, outcome, now, self.time.stop);
            if slot.arrival.is_none() {
                self.recorder.ended(transfer.start, now, outcome, code);
            }
        }
    }

    /// A session can't go on; what it was doing has failed.
    pub(super) fn break_session(&mut self, id: u32, outcome: Outcome, code: u16, why: &str) {
        let now = self.time.now;
        if self.interrupt(id, outcome) {
            self.tally.broke(now);
            self.close(id, true);
            self.slots[id as usize].stage = Stage::Paused;
            return self.set_until(id, now + PAUSE);
        }
        if self.tally.first_failure.is_none() {
            self.tally.first_failure = Some(self.slots[id as usize].why_broken(why, outcome, code));
        }
        self.account(id, outcome, code);
        self.tally.broke(now);
        let slot = &mut self.slots[id as usize];
        slot.transfer = None;
        let waiting = slot.pending.take();
        let failed = slot.failed.unwrap_or((outcome, code));
        match slot.arrival.take() {
            Some(arrival) => self.recorder.ended(arrival, now, failed.0, failed.1),
            None => {
                if let Some(start) = waiting {
                    self.recorder.ended(start, now, outcome, code);
                }
            }
        }
        self.close(id, true);
        if self.time.is_open() {
            self.release(id);
        } else {
            self.slots[id as usize].stage = Stage::Paused;
            self.set_until(id, now + PAUSE);
        }
    }

    /// Closes a session's connections.
    pub(super) fn close(&mut self, id: u32, broken: bool) {
        let now = self.time.now;
        let slot = &mut self.slots[id as usize];
        if std::mem::take(&mut slot.beginning) {
            self.beginning = self.beginning.saturating_sub(1);
        }
        if slot.control.take().is_some_and(|control| control.open) {
            self.recorder.disconnected(now, broken);
        }
        (slot.data, slot.listener) = (None, None);
        slot.generation = slot.generation.wrapping_add(1);
        if slot.stage == Stage::Ready {
            self.idle.retain(|other| *other != id);
        }
    }

    /// A slot without a session can have one.
    pub(super) fn release(&mut self, id: u32) {
        self.available();
        self.slots[id as usize].stage = Stage::Free;
        self.set_until(id, NEVER);
        self.free.push(id);
    }

    pub(super) fn set_until(&mut self, id: u32, until: u64) {
        self.until[id as usize] = until;
        self.next_until = self.next_until.min(until);
    }

    /// Ends what took too long, and pauses that are over.
    fn expire(&mut self) {
        if self.time.now < self.next_until {
            return;
        }
        self.next_until = NEVER;
        for id in 0..self.slots.len() as u32 {
            let until = self.until[id as usize];
            if until > self.time.now {
                self.next_until = self.next_until.min(until);
                continue;
            }
            self.until[id as usize] = NEVER;
            match self.slots[id as usize].stage {
                Stage::Thinking => self.go_on_with(id),
                Stage::Paused => match self.slots[id as usize].interrupted {
                    Some(transfer) => self.begin_session(id, transfer.start),
                    None => self.release(id),
                },
                Stage::Quit => {
                    self.close(id, false);
                    self.release(id);
                }
                Stage::Free | Stage::Ready => {}
                _ => self.break_session(id, Outcome::ClientTimeout, 0, "it took too long"),
            }
        }
    }

    /// How long to wait for events.
    fn rest(&mut self) -> Rest {
        let now = self.time.now;
        if !self.again.is_empty() {
            return Rest { now, sleep: 0, for_start: false };
        }
        let wake = self.time.next_mark(&self.recorder).min(self.next_until);
        if let Some(start) = self.time.next_start() {
            let available = self.is_available();
            let due = if available { start } else { start + self.job.timeout };
            if due <= wake {
                let for_start = available && due > now;
                return Rest { now, sleep: self.events.pacer.sleep(now, due), for_start };
            }
        }
        Rest { now, sleep: wake.saturating_sub(now), for_start: false }
    }

    /// Counts what is left over.
    fn finish(mut self) -> Result<Found, SysError> {
        self.expire();
        for slot in &self.slots {
            let transfer = slot.transfer.or(slot.interrupted);
            let start = slot.arrival.or(transfer.map(|transfer| transfer.start)).or(slot.pending);
            if let Some(start) = start {
                self.recorder.cut_short(start);
            }
        }
        self.time.cut_short(&mut self.recorder, self.job.timeout);
        let finding = self.time.finish(self.recorder, self.events.pacer.polled)?;
        Ok(Found { finding, details: self.tally.details() })
    }
}
