//! A session, or the room for one.

use std::net::IpAddr;
use std::os::fd::OwnedFd;

use vtax_wire::ftp::{ListScanner, ReplyScanner};

use super::channel::Channel;
use super::tls::TlsOfSession;
use crate::requests::Outcome;

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// There is none.
    Free,
    /// Its control connection is being made.
    Connecting,
    /// TLS of its control connection is being agreed on.
    ControlTls,
    /// The server's first reply is waited for.
    Greeting,
    /// The reply to AUTH, and so on.
    Auth,
    User,
    Pass,
    Pbsz,
    Prot,
    Type,
    /// It waits for a transfer.
    Ready,
    /// It pauses between two transfers.
    Thinking,
    /// A transfer is under way.
    Transfer,
    /// It has said good-bye; the server is to close first.
    Quit,
    /// It broke; the next one waits a little.
    Paused,
}

/// A kind of transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Retr,
    Stor,
    List,
}

/// Why a transfer that the server acknowledges is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A byte differs, or there are too many.
    Corrupt,
    /// A line of a LIST is no entry.
    NoEntry,
    /// The data connection broke.
    Broken(Outcome),
}

/// Moments of a transfer; 0: it did not come to that.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Marks {
    pub(super) begun: u64,
    pub(super) passive: u64,
    pub(super) connected: u64,
    pub(super) tls: u64,
    pub(super) first: u64,
    pub(super) last: u64,
}

/// A transfer that is under way.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    pub(super) kind: Kind,
    /// What the name is made of: the file's number, or the client's.
    pub(super) file: u32,
    /// It fetches what this client stored.
    pub(super) own: bool,
    /// Which content it has.
    pub(super) content: u32,
    /// Bytes that it has to have; of a LIST, entries.
    pub(super) size: u64,
    /// Bytes of content that came or went.
    pub(super) moved: u64,
    /// Right entries of a LIST.
    pub(super) entries: u64,
    /// When its time began: the intended start of an open loop.
    pub(super) start: u64,
    pub(super) marks: Marks,
    /// The server knows that it is to begin behind what was moved before (REST).
    pub(super) offset_told: bool,
    /// RETR, STOR or LIST has been sent.
    pub(super) commanded: bool,
    /// The preliminary reply has come.
    pub(super) preliminary: bool,
    /// The data connection has ended, or all has been sent.
    pub(super) ended: bool,
    /// It ended with close_notify, or has no TLS.
    pub(super) clean: bool,
    /// The final reply.
    pub(super) reply: Option<u16>,
    pub(super) trouble: Option<Trouble>,
}

impl Transfer {
    pub(super) fn new(kind: Kind, file: u32, content: u32, size: u64) -> Self {
        Self {
            kind,
            file,
            own: false,
            content,
            size,
            moved: 0,
            entries: 0,
            start: 0,
            marks: Marks::default(),
            offset_told: false,
            commanded: false,
            preliminary: false,
            ended: false,
            clean: false,
            reply: None,
            trouble: None,
        }
    }
}

impl Transfer {
    /// What became of it, in words.
    pub(super) fn failure(&self, outcome: Outcome, code: u16, text: &str) -> String {
        let what = match self.kind {
            Kind::Retr => "RETR",
            Kind::Stor => "STOR",
            Kind::List => "LIST",
        };
        let Self { moved, size, entries, .. } = self;
        match (outcome, self.kind, code) {
            (Outcome::Status, _, _) => format!("{what} was refused: {code} {text}"),
            (Outcome::Lost, Kind::List, _) => {
                format!("LIST named {entries} of {size} files, but was acknowledged")
            }
            (Outcome::Lost, _, _) => format!("{what} moved {moved} of {size} bytes, but was acknowledged"),
            (Outcome::Corrupt, Kind::List, _) => "LIST has a wrong line".to_owned(),
            (Outcome::Corrupt, _, _) => format!("{what} has a wrong byte, of {moved} that came"),
            (Outcome::Reset, _, _) => format!(
                "{what}: the server closed the data connection after {moved} of {size} bytes, but acknowledged it"
            ),
            (Outcome::ClientTimeout, _, _) => format!("{what} took too long: {moved} of {size} bytes"),
            _ => format!("{what} failed after {moved} of {size} bytes"),
        }
    }
}

/// Moments of a login.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Login {
    pub(super) begun: u64,
    pub(super) connected: u64,
    /// AUTH was sent, or the handshake began.
    pub(super) tls_begun: u64,
    pub(super) tls_done: u64,
}

/// A session, or the room for one.
#[derive(Debug)]
pub(super) struct Slot {
    /// Its number among all sessions of the load.
    pub(super) client: u32,
    /// Where it comes from; `None`: the kernel's choice.
    pub(super) source: Option<IpAddr>,
    /// Tells events of this session from those of the one before.
    pub(super) generation: u32,
    pub(super) stage: Stage,
    pub(super) control: Option<Channel>,
    pub(super) data: Option<Channel>,
    /// Where the server is to connect to.
    pub(super) listener: Option<OwnedFd>,
    pub(super) replies: ReplyScanner,
    pub(super) lines: ListScanner,
    pub(super) tls: Option<TlsOfSession>,
    pub(super) login: Login,
    /// It wasn't greeted yet.
    pub(super) beginning: bool,
    /// Replies of the session that lead to nothing.
    pub(super) idle_replies: u32,
    /// The start of what waits for the session: a transfer, or its first.
    pub(super) pending: Option<u64>,
    /// The start of the session, where sessions are what arrives.
    pub(super) arrival: Option<u64>,
    /// How the first of its transfers failed that did.
    pub(super) failed: Option<(Outcome, u16)>,
    /// Transfers that it still makes.
    pub(super) left: u32,
    pub(super) transfer: Option<Transfer>,
    /// What the session before was fetching when it broke.
    pub(super) interrupted: Option<Transfer>,
    /// Files that this client has stored; the content of the last has this number.
    pub(super) uploads: u32,
    /// The next transfer fetches what was stored last.
    pub(super) reads_back: bool,
}

impl Slot {
    pub(super) fn new(client: u32, source: Option<IpAddr>, tls: Option<TlsOfSession>) -> Self {
        Self {
            client,
            source,
            generation: 0,
            stage: Stage::Free,
            control: None,
            data: None,
            listener: None,
            replies: ReplyScanner::new(),
            lines: ListScanner::new(),
            tls,
            login: Login::default(),
            beginning: false,
            idle_replies: 0,
            pending: None,
            arrival: None,
            failed: None,
            left: 0,
            transfer: None,
            interrupted: None,
            uploads: 0,
            reads_back: false,
        }
    }

    /// Why the session ends before its time, in words.
    pub(super) fn why_broken(&self, why: &str, outcome: Outcome, code: u16) -> String {
        let of = match (self.stage, self.transfer) {
            (_, Some(_)) => "in a transfer",
            (Stage::Connecting | Stage::Greeting, _) => "before it was greeted",
            (Stage::Auth | Stage::ControlTls, _) => "when TLS was agreed on",
            (Stage::User | Stage::Pass, _) => "when it logged in",
            _ => "before its transfer",
        };
        let how = match outcome {
            Outcome::Refused => ": connection refused",
            Outcome::NoDescriptors => ": no descriptors are left",
            Outcome::NoAddresses => ": no addresses are left",
            _ => "",
        };
        match code {
            0 => format!("a session broke {of}: {why}{how}"),
            _ => {
                let text = String::from_utf8_lossy(self.replies.text());
                let text: String = text.chars().filter(|c| !c.is_control()).collect();
                format!("a session broke {of}: {why} ({code} {text})")
            }
        }
    }

    /// Whether something was counted as started that hasn't ended.
    pub(super) const fn has_request(&self) -> bool {
        self.pending.is_some()
            || self.arrival.is_some()
            || self.transfer.is_some()
            || self.interrupted.is_some()
    }
}

/// Which descriptor of a slot an event is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    Control,
    Data,
    Listener,
}

/// The word that epoll gives back: slot, generation, descriptor.
pub(super) fn token(id: u32, generation: u32, which: Which) -> u64 {
    u64::from(generation) << 32 | u64::from(id) << 2 | which as u64
}

/// What [`token`] was made of.
pub(super) const fn parts(token: u64) -> (u32, u32, Which) {
    let which = match token & 3 {
        0 => Which::Control,
        1 => Which::Data,
        _ => Which::Listener,
    };
    ((token as u32) >> 2, (token >> 32) as u32, which)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_became_of_a_transfer_is_told_in_words() {
        let transfer = Transfer { moved: 70, ..Transfer::new(Kind::Stor, 0, 0, 100) };
        let told = |outcome| transfer.failure(outcome, 0, "");
        let closed = "STOR: the server closed the data connection after 70 of 100 bytes, but acknowledged it";
        assert_eq!(told(Outcome::Reset), closed);
        assert_eq!(told(Outcome::ClientTimeout), "STOR took too long: 70 of 100 bytes");
        assert_eq!(told(Outcome::Other), "STOR failed after 70 of 100 bytes");
    }
}
