//! What a load of FTP found besides what all loads of requests do.

use serde::{Deserialize, Serialize};

use crate::LatencyHistogram;

/// What a load of FTP found besides what all loads of requests do. Transfers and logins that began in the warm-up are left out, and so is
/// what happened to sessions in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FtpDetails {
    /// Files fetched.
    pub retr: FtpTransfers,
    /// Files stored.
    pub stor: FtpTransfers,
    /// Directories listed.
    pub list: FtpTransfers,
    /// Times of the parts of a login, of sessions that got through it.
    pub login: Vec<PhaseTimes>,
    /// Sessions that logged in.
    pub logins: u64,
    /// Sessions that ended before all of their transfers had, or before they were logged in.
    pub broken_sessions: u64,
    /// How often a session went on with what another was fetching when it broke (REST).
    #[serde(default)]
    pub continued: u64,
    /// Handshakes of TLS.
    pub handshakes: FtpHandshakes,
    /// Version and cipher suite of TLS that the first session agreed on.
    pub tls: Option<String>,
    /// Transfers whose data connection ended without the word that nothing more comes (close_notify).
    pub without_close_notify: u64,
    /// Bytes of contents that were compared.
    pub compared: u64,
    /// PASV replies that named another address than the server's, which was used all the same.
    pub passive_elsewhere: u64,
    /// Replies that refused something, and how often they came.
    pub refusals: Vec<(u16, u64)>,
    /// Words for the first failure.
    pub first_failure: Option<String>,
    /// Bytes of content of transfers that were right and ended within the recorded time, whenever they began. `None` in runs of older
    /// versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_in_time: Option<u64>,
}

/// Transfers of one kind.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct FtpTransfers {
    /// Transfers that were whole and right.
    pub ok: u64,
    /// Transfers that weren't whole or right.
    pub failed: u64,
    /// Of these, those that were acknowledged but shorter than they should be.
    pub short: u64,
    /// Of these, those that were acknowledged but differed.
    pub corrupt: u64,
    /// Bytes of content of those that were right.
    pub bytes: u64,
    /// Times of their parts, one after the other, of those that were right.
    pub phases: Vec<PhaseTimes>,
}

/// How long one part of a transfer or a login took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PhaseTimes {
    /// Which part.
    pub phase: FtpPhase,
    /// How long it took.
    pub times: LatencyHistogram,
}

/// The parts of a login and of a transfer. Each begins where the one before ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FtpPhase {
    /// Login: until the control connection is there.
    Connect,
    /// Login: from AUTH, or from the connection with implicit TLS, until the handshake is done.
    Tls,
    /// Login: all the rest until the session may transfer.
    Login,
    /// Transfer: EPSV, PASV, EPRT or PORT, and its reply.
    Passive,
    /// Transfer: until the data connection is there.
    DataConnection,
    /// Transfer: until its handshake of TLS is done.
    DataTls,
    /// Transfer: until the first byte of content has come or may be sent.
    FirstByte,
    /// Transfer: from the first byte to the end of the data connection.
    Content,
    /// Transfer: until the final reply.
    FinalReply,
}

impl FtpPhase {
    /// The phases of a login.
    pub const LOGIN: [Self; 3] = [Self::Connect, Self::Tls, Self::Login];
    /// The phases of a transfer.
    pub const TRANSFER: [Self; 6] = [
        Self::Passive,
        Self::DataConnection,
        Self::DataTls,
        Self::FirstByte,
        Self::Content,
        Self::FinalReply,
    ];

    /// Its name in tables.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Tls => "TLS",
            Self::Login => "login",
            Self::Passive => "passive",
            Self::DataConnection => "data connection",
            Self::DataTls => "data TLS",
            Self::FirstByte => "first byte",
            Self::Content => "content",
            Self::FinalReply => "final reply",
        }
    }
}

/// Handshakes of TLS that were done, by connection and kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FtpHandshakes {
    /// Full ones of control connections.
    pub control_full: u64,
    /// Handshakes of control connections that resumed a session.
    pub control_resumed: u64,
    /// Full ones of data connections.
    pub data_full: u64,
    /// Handshakes of data connections that resumed the session of their control connection.
    pub data_resumed: u64,
}

impl FtpDetails {
    /// The kinds of transfers by their command.
    #[must_use]
    pub const fn kinds(&self) -> [(&'static str, &FtpTransfers); 3] {
        [("RETR", &self.retr), ("STOR", &self.stor), ("LIST", &self.list)]
    }

    /// Transfers that were right.
    #[must_use]
    pub const fn ok(&self) -> u64 {
        self.retr.ok + self.stor.ok + self.list.ok
    }

    /// Bytes of content of transfers that were right.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.retr.bytes + self.stor.bytes + self.list.bytes
    }

    /// Bytes that make the goodput: of transfers that were right and ended within the recorded time. What ends after it would be more than
    /// its time had. Older versions wrote down those of transfers that began within it alone.
    #[must_use]
    pub fn bytes_in_time(&self) -> u64 {
        self.bytes_in_time.unwrap_or_else(|| self.bytes())
    }

    /// Transfers that were acknowledged but not whole, or not right.
    #[must_use]
    pub fn wrong(&self) -> u64 {
        self.kinds().iter().map(|(_, kind)| kind.short + kind.corrupt).sum()
    }

    /// Adds what another worker found.
    pub(crate) fn add(&mut self, other: Self) {
        self.retr.add(other.retr);
        self.stor.add(other.stor);
        self.list.add(other.list);
        add_phases(&mut self.login, other.login);
        self.logins += other.logins;
        self.broken_sessions += other.broken_sessions;
        self.continued += other.continued;
        self.handshakes.control_full += other.handshakes.control_full;
        self.handshakes.control_resumed += other.handshakes.control_resumed;
        self.handshakes.data_full += other.handshakes.data_full;
        self.handshakes.data_resumed += other.handshakes.data_resumed;
        self.tls = self.tls.take().or(other.tls);
        self.without_close_notify += other.without_close_notify;
        self.compared += other.compared;
        self.passive_elsewhere += other.passive_elsewhere;
        for (code, count) in other.refusals {
            match self.refusals.iter_mut().find(|(own, _)| *own == code) {
                Some((_, sum)) => *sum += count,
                None => self.refusals.push((code, count)),
            }
        }
        self.refusals.sort_unstable();
        self.first_failure = self.first_failure.take().or(other.first_failure);
        let bytes = self.bytes_in_time.into_iter().chain(other.bytes_in_time);
        self.bytes_in_time = bytes.reduce(|sum, more| sum + more);
    }
}

impl FtpTransfers {
    fn add(&mut self, other: Self) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.short += other.short;
        self.corrupt += other.corrupt;
        self.bytes += other.bytes;
        add_phases(&mut self.phases, other.phases);
    }
}

fn add_phases(all: &mut Vec<PhaseTimes>, more: Vec<PhaseTimes>) {
    for phase in more {
        match all.iter_mut().find(|own| own.phase == phase.phase) {
            Some(own) => own.times.add(&phase.times),
            None => all.push(phase),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_time_add_up_and_older_runs_have_those_of_what_began() {
        let retr = FtpTransfers { bytes: 70, ..FtpTransfers::default() };
        let old = FtpDetails { retr, ..FtpDetails::default() };
        let mut stored = serde_json::to_value(&old).unwrap();
        assert!(stored.get("bytes_in_time").is_none(), "{stored}");
        assert_eq!(serde_json::from_value::<FtpDetails>(stored.clone()).unwrap().bytes_in_time(), 70);
        stored["bytes_in_time"] = 40.into();
        let new: FtpDetails = serde_json::from_value(stored).unwrap();
        assert_eq!((new.bytes(), new.bytes_in_time()), (70, 40));
        let mut sum = FtpDetails::default();
        sum.add(new.clone());
        sum.add(new);
        assert_eq!((sum.bytes(), sum.bytes_in_time()), (140, 80));
    }
}
