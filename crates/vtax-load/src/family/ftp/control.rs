//! Control connections: what is sent, what replies mean.

use std::os::fd::AsFd;

use vtax_plan::model::{DataMode, FtpTlsMode};
use vtax_wire::ftp::{self, Reply};

use super::channel::{self, Channel, Got};
use super::content;
use super::slot::{Kind, Stage, Transfer, Which};
use super::worker::{PAUSE, Worker};
use crate::requests::{Outcome, outcome_of};

/// Replies that lead to nothing, of one session.
const IDLE_REPLIES_MAX: u32 = 100;
/// Reads of a control connection that each find something; what a server has to say is less than one.
const READS_MAX: u32 = 1000;
/// Why a session ends whose server keeps the worker from all others.
const TOO_MUCH: &str = "the server says too much";

impl Worker<'_> {
    /// Something happened on a control connection.
    pub(super) fn control_event(&mut self, id: u32, readable: bool) {
        let slot = &mut self.slots[id as usize];
        let Some(control) = &mut slot.control else { return };
        if !control.open {
            match control.connected() {
                Err(error) => return self.break_session(id, outcome_of(error), 0, "connecting failed"),
                // An event for each direction: it may not be there yet.
                Ok(()) if rustix::net::getpeername(&control.fd).is_err() => return,
                Ok(()) => control.open = true,
            }
            self.control_opened(id);
        }
        if let Some(control) = &mut self.slots[id as usize].control
            && !control.unsent.is_empty()
        {
            match control.send_or_keep(&[]) {
                Ok(sent) => self.recorder.sent(self.time.now, sent),
                Err(error) => {
                    return self.break_session(id, outcome_of(error), 0, "sending a command failed");
                }
            }
        }
        if readable {
            self.receive_control(id);
        }
    }

    fn control_opened(&mut self, id: u32) {
        let now = self.time.now;
        self.recorder.connected(now);
        let slot = &mut self.slots[id as usize];
        slot.login.connected = now;
        slot.stage = Stage::Greeting;
        if self.job.requests.tls.as_ref().is_some_and(|tls| tls.mode == FtpTlsMode::Implicit) {
            slot.login.tls_begun = now;
            self.begin_control_tls(id);
        }
    }

    fn begin_control_tls(&mut self, id: u32) {
        let Some(settings) = self.job.tls else { return };
        let slot = &mut self.slots[id as usize];
        slot.stage = Stage::ControlTls;
        let (Some(control), Some(of_session)) = (&mut slot.control, &slot.tls) else { return };
        match of_session.connect(settings, true) {
            Ok(tls) => control.tls = Some(Box::new(tls)),
            Err(error) => return self.break_session(id, Outcome::Other, 0, &format!("TLS: {error}")),
        }
        self.take_control(id, 0);
    }

    /// Reads until there is no more.
    fn receive_control(&mut self, id: u32) {
        let generation = self.slots[id as usize].generation;
        for _ in 0..READS_MAX {
            if self.slots[id as usize].generation != generation {
                return;
            }
            let Some(control) = &self.slots[id as usize].control else { return };
            let torn = control.tls.as_ref().map_or(0, |tls| tls.torn.len());
            match control.receive(&mut self.buffer[torn..]) {
                Ok(Got::Nothing) => return,
                Ok(Got::Bytes(got)) => {
                    self.recorder.received(self.time.now, got);
                    self.take_control(id, got);
                }
                Ok(Got::End) => return self.control_ended(id),
                Err(error) => {
                    return self.break_session(id, outcome_of(error), 0, "the control connection broke");
                }
            }
        }
        self.break_session(id, Outcome::Protocol, 0, TOO_MUCH);
    }

    /// The server has closed the control connection.
    fn control_ended(&mut self, id: u32) {
        match self.slots[id as usize].stage {
            Stage::Quit => {
                self.close(id, false);
                self.release(id);
            }
            Stage::Ready => {
                self.close(id, true);
                self.release(id);
            }
            _ => self.break_session(id, Outcome::Reset, 0, "the server closed the control connection"),
        }
    }

    /// Takes what came, `got` bytes behind those that were torn; with TLS also answers.
    fn take_control(&mut self, id: u32, got: usize) {
        let slot = &mut self.slots[id as usize];
        let Some(control) = &mut slot.control else { return };
        self.text.clear();
        let Some(tls) = &mut control.tls else {
            self.text.extend_from_slice(&self.buffer[..got]);
            return self.read_replies(id);
        };
        let torn = tls.torn.len();
        self.buffer[..torn].copy_from_slice(&tls.torn);
        let (bytes, text) = (&mut self.buffer[..torn + got], &mut self.text);
        self.out.clear();
        let taken = tls.take(bytes, &mut self.out, |plain| text.extend_from_slice(plain));
        let taken = match taken {
            Ok(taken) => taken,
            Err(error) => {
                // The peer is told why.
                let _ = control.send_or_keep(&self.out);
                return self.break_session(id, Outcome::Protocol, 0, &format!("TLS: {error}"));
            }
        };
        tls.torn.clear();
        tls.torn.extend_from_slice(&self.buffer[taken..torn + got]);
        let done = tls.ready && slot.stage == Stage::ControlTls;
        match control.send_or_keep(&self.out) {
            Ok(sent) => self.recorder.sent(self.time.now, sent),
            Err(error) => return self.break_session(id, outcome_of(error), 0, "TLS: sending failed"),
        }
        if done {
            if let Some(tls) = &control.tls {
                self.tally.handshake(tls, true, self.time.now);
            }
            self.control_tls_done(id);
        }
        self.read_replies(id);
    }

    fn control_tls_done(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        slot.login.tls_done = self.time.now;
        let implicit = self.job.requests.tls.as_ref().is_some_and(|tls| tls.mode == FtpTlsMode::Implicit);
        if implicit {
            slot.stage = Stage::Greeting;
        } else {
            self.ask(id, Stage::User, "USER", self.job.user);
        }
    }

    /// Reads replies in `text`.
    fn read_replies(&mut self, id: u32) {
        let generation = self.slots[id as usize].generation;
        let text = std::mem::take(&mut self.text);
        let mut rest = &text[..];
        while !rest.is_empty() && self.slots[id as usize].generation == generation {
            match self.slots[id as usize].replies.scan(rest) {
                Ok(scanned) => {
                    rest = &rest[scanned.consumed..];
                    if let Some(reply) = scanned.reply {
                        self.reply(id, reply, rest.is_empty());
                    }
                }
                Err(error) => {
                    self.break_session(id, Outcome::Protocol, 0, &error.to_string());
                }
            }
        }
        self.text = text;
    }

    /// A reply is whole. `alone`: nothing came behind it.
    fn reply(&mut self, id: u32, reply: Reply, alone: bool) {
        if reply.class() >= 4 {
            self.tally.refused(reply.code, self.time.now);
        }
        match (self.slots[id as usize].stage, reply.code) {
            // The server is not ready yet (120), or has more to say.
            (Stage::Greeting, 100..=199) => self.leads_to_nothing(id),
            (Stage::Greeting, 220) => self.greeted(id),
            // What comes in the clear behind it may be somebody else's.
            (Stage::Auth, 234) if alone => self.begin_control_tls(id),
            (Stage::User, 331) => self.ask(id, Stage::Pass, "PASS", self.job.password),
            (Stage::User | Stage::Pass, 200..=299) => self.accepted(id),
            (Stage::Pbsz, 200..=299) => {
                let protect = self.job.requests.tls.as_ref().is_some_and(|tls| tls.protect);
                self.ask(id, Stage::Prot, "PROT", if protect { "P" } else { "C" });
            }
            (Stage::Prot, 200..=299) => self.ask(id, Stage::Type, "TYPE", "I"),
            (Stage::Type, 200..=299) => {
                let login = self.slots[id as usize].login;
                self.tally.logged_in(&login, self.time.now);
                self.next_of(id);
            }
            (Stage::Transfer, _) => self.reply_in_transfer(id, reply),
            (Stage::Quit, _) => self.leads_to_nothing(id),
            (Stage::Ready, _) => {
                // It is tired of waiting (421).
                self.close(id, true);
                self.release(id);
            }
            (_, code @ 400..) => self.break_session(id, Outcome::Status, code, "the server refused"),
            (_, code) => self.break_session(id, Outcome::Protocol, code, "the server answered out of turn"),
        }
    }

    /// A reply that only says that another comes. Without a bound a server could keep this worker from all others.
    fn leads_to_nothing(&mut self, id: u32) {
        let slot = &mut self.slots[id as usize];
        slot.idle_replies += 1;
        if slot.idle_replies > IDLE_REPLIES_MAX {
            self.break_session(id, Outcome::Protocol, 0, TOO_MUCH);
        }
    }

    fn greeted(&mut self, id: u32) {
        if std::mem::take(&mut self.slots[id as usize].beginning) {
            self.beginning = self.beginning.saturating_sub(1);
        }
        let slot = &mut self.slots[id as usize];
        if self.job.requests.tls.as_ref().is_some_and(|tls| tls.mode == FtpTlsMode::Explicit) {
            slot.login.tls_begun = self.time.now;
            self.ask(id, Stage::Auth, "AUTH", "TLS");
        } else {
            self.ask(id, Stage::User, "USER", self.job.user);
        }
    }

    /// The name and the password were accepted.
    fn accepted(&mut self, id: u32) {
        if self.job.requests.tls.is_some() {
            self.ask(id, Stage::Pbsz, "PBSZ", "0");
        } else {
            self.ask(id, Stage::Type, "TYPE", "I");
        }
    }

    /// Sends a command whose reply belongs to `stage`.
    fn ask(&mut self, id: u32, stage: Stage, verb: &str, argument: &str) {
        self.slots[id as usize].stage = stage;
        self.command(id, |out| ftp::command(out, verb, argument));
    }

    /// Sends a command.
    fn command(&mut self, id: u32, write: impl FnOnce(&mut Vec<u8>)) {
        let Some(control) = &mut self.slots[id as usize].control else { return };
        self.out.clear();
        let sent = match &mut control.tls {
            None => {
                write(&mut self.out);
                control.send_or_keep(&self.out)
            }
            Some(tls) => {
                let mut plain = Vec::with_capacity(64);
                write(&mut plain);
                if !tls.encrypt(&plain, &mut self.out) {
                    return self.break_session(
                        id,
                        Outcome::Reset,
                        0,
                        "TLS: the server has ended the session",
                    );
                }
                control.send_or_keep(&self.out)
            }
        };
        match sent {
            Ok(sent) => self.recorder.sent(self.time.now, sent),
            Err(error) => self.break_session(id, outcome_of(error), 0, "sending a command failed"),
        }
    }

    /// Ends the session: the server is to close first, so that TIME_WAIT is not on this side.
    pub(super) fn say_good_bye(&mut self, id: u32) {
        let until = self.time.now + PAUSE;
        self.set_until(id, until);
        self.ask(id, Stage::Quit, "QUIT", "");
    }

    /// Begins to make a data connection.
    pub(super) fn ask_for_data(&mut self, id: u32) {
        match self.job.requests.data {
            DataMode::Epsv => self.command(id, |out| ftp::command(out, "EPSV", "")),
            DataMode::Pasv => self.command(id, |out| ftp::command(out, "PASV", "")),
            DataMode::Active => self.listen_for_data(id),
        }
    }

    fn listen_for_data(&mut self, id: u32) {
        let slot = &self.slots[id as usize];
        let Some(own) = slot.control.as_ref().and_then(Channel::local) else {
            return self.break_session(id, Outcome::Other, 0, "the control connection has no address");
        };
        let (listener, address) = match channel::listen(own.ip()) {
            Ok(listening) => listening,
            Err(error) => return self.break_session(id, outcome_of(error), 0, "listening for data failed"),
        };
        if let Err(error) = self.watch_fd(id, Which::Listener, listener.as_fd()) {
            return self.break_session(id, outcome_of(error), 0, "the data connection can't be watched");
        }
        self.slots[id as usize].listener = Some(listener);
        self.command(id, |out| {
            if !ftp::port(out, address) {
                ftp::eprt(out, address);
            }
        });
    }

    /// A reply while a transfer is under way.
    fn reply_in_transfer(&mut self, id: u32, reply: Reply) {
        let Some(transfer) = self.slots[id as usize].transfer else { return };
        match (transfer.commanded, reply.class()) {
            (false, 2) if transfer.marks.passive == 0 => self.data_agreed(id, reply),
            (false, 3) if transfer.needs_offset() && transfer.marks.passive > 0 => {
                if let Some(transfer) = &mut self.slots[id as usize].transfer {
                    transfer.offset_told = true;
                }
                self.send_transfer(id);
            }
            (true, 1) if !transfer.preliminary => self.may_move(id),
            (true, 2) => {
                if let Some(transfer) = &mut self.slots[id as usize].transfer {
                    transfer.reply = Some(reply.code);
                }
                self.complete(id);
            }
            (_, 4 | 5) if reply.code == 421 => {
                self.break_session(id, Outcome::Status, 421, "the server closes the session");
            }
            (_, 4 | 5) => self.end_transfer(id, Outcome::Status, reply.code),
            _ => self.break_session(id, Outcome::Protocol, reply.code, "the server answered out of turn"),
        }
    }

    /// Both know where data go: what is to be done with them is sent.
    fn data_agreed(&mut self, id: u32, reply: Reply) {
        if let Some(transfer) = &mut self.slots[id as usize].transfer {
            transfer.marks.passive = self.time.now;
        }
        if self.job.requests.data != DataMode::Active {
            let text = self.slots[id as usize].replies.text();
            let port = match reply.code {
                229 => ftp::extended_passive(text),
                227 => ftp::passive(text).map(|(ip, port)| {
                    if let Some(transfer) = self.slots[id as usize].transfer.as_ref()
                        && self.job.target.ip() != ip
                    {
                        self.tally.passive_elsewhere(transfer);
                    }
                    port
                }),
                _ => None,
            };
            let Some(port) = port else {
                return self.break_session(
                    id,
                    Outcome::Protocol,
                    reply.code,
                    "the reply names no port for data",
                );
            };
            self.connect_data(id, port);
        }
        self.send_transfer(id);
    }

    /// Sends RETR, STOR or LIST; before that, where the file's begin is there already, what is to be left out.
    fn send_transfer(&mut self, id: u32) {
        if let Some(transfer) = self.slots[id as usize].transfer.filter(Transfer::needs_offset) {
            let offset = transfer.moved.to_string();
            return self.command(id, |out| ftp::command(out, "REST", &offset));
        }
        let mut name = std::mem::take(&mut self.name);
        if let Some(transfer) = &mut self.slots[id as usize].transfer {
            transfer.commanded = true;
            match transfer.kind {
                Kind::List => name.clear(),
                _ if transfer.own => content::upload_name(&mut name, transfer.file),
                _ => content::file_name(&mut name, transfer.file),
            }
            let verb = match transfer.kind {
                Kind::Retr => "RETR",
                Kind::Stor => "STOR",
                Kind::List => "LIST",
            };
            self.command(id, |out| ftp::command(out, verb, &name));
        }
        self.name = name;
    }

    /// A transfer whose final reply and whose data are there is over.
    pub(super) fn complete(&mut self, id: u32) {
        let Some(transfer) = self.slots[id as usize].transfer else { return };
        let Some(code) = transfer.reply.filter(|_| transfer.ended) else { return };
        self.end_transfer(id, transfer.verdict(), code);
    }
}
