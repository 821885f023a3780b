//! What belonged to nothing or could not be used, counted by kind.

use std::collections::BTreeMap;

/// A kind of such things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Not a SIP message.
    Malformed,
    /// Longer than any message that is expected.
    Oversize,
    /// An answer to nothing this session has asked.
    UnknownTransaction,
    /// An answer or ACK to something that is over.
    Late,
    /// An answer that came before, again.
    RepeatedResponse,
    /// An answer to the right request with another CSeq.
    WrongCSeq,
    /// A request that no scenario has at this point.
    UnexpectedRequest,
    /// A request again that was answered already.
    RepeatedRequest,
    /// ICMP: no program listens at the target.
    Refused,
    /// The kernel dropped what arrived, for want of room.
    ReceiveBufferOverflow,
    /// The kernel had no room for what was to be sent.
    SendBufferOverflow,
    /// Any other error of sending.
    SendFailed,
    /// Any other error of receiving.
    ReceiveFailed,
    /// A connection ended.
    Disconnected,
    /// A handshake of TLS failed.
    HandshakeFailed,
    /// No local port was left for a connection.
    NoPort,
    /// A request that would have begun a call more than this end has room for.
    NoRoom,
}

const KINDS: [(Kind, &str); 17] = [
    (Kind::Malformed, "malformed"),
    (Kind::Oversize, "oversize"),
    (Kind::UnknownTransaction, "unknown-transaction"),
    (Kind::Late, "late"),
    (Kind::RepeatedResponse, "repeated-response"),
    (Kind::WrongCSeq, "wrong-cseq"),
    (Kind::UnexpectedRequest, "unexpected-request"),
    (Kind::RepeatedRequest, "repeated-request"),
    (Kind::Refused, "refused"),
    (Kind::ReceiveBufferOverflow, "receive-buffer-overflow"),
    (Kind::SendBufferOverflow, "send-buffer-overflow"),
    (Kind::SendFailed, "send-failed"),
    (Kind::ReceiveFailed, "receive-failed"),
    (Kind::Disconnected, "disconnected"),
    (Kind::HandshakeFailed, "handshake-failed"),
    (Kind::NoPort, "no-local-port"),
    (Kind::NoRoom, "no-room"),
];

impl Kind {
    /// What it is called in results.
    pub(crate) const fn name(self) -> &'static str {
        KINDS[self as usize].1
    }
}

/// The counts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Unmatched([u64; KINDS.len()]);

impl Unmatched {
    pub(crate) fn count(&mut self, kind: Kind) {
        self.add(kind, 1);
    }

    pub(crate) fn add(&mut self, kind: Kind, times: u64) {
        self.0[kind as usize] += times;
    }

    pub(crate) fn of(&self, kind: Kind) -> u64 {
        self.0[kind as usize]
    }

    /// Adds the counts to those of others.
    pub(crate) fn add_to(&self, all: &mut BTreeMap<String, u64>) {
        for ((_, name), times) in KINDS.iter().zip(self.0).filter(|(_, times)| *times > 0) {
            *all.entry((*name).to_owned()).or_default() += times;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_place() {
        for (i, (kind, _)) in KINDS.iter().enumerate() {
            assert_eq!(*kind as usize, i);
        }
        let mut unmatched = Unmatched::default();
        unmatched.count(Kind::Late);
        unmatched.add(Kind::Refused, 2);
        let mut all = BTreeMap::new();
        unmatched.add_to(&mut all);
        unmatched.add_to(&mut all);
        assert_eq!(all, BTreeMap::from([("late".to_owned(), 2), ("refused".to_owned(), 4)]));
        assert_eq!(all.get(Kind::Refused.name()), Some(&4));
    }
}
