//! This server's own answers, none of which it has to remember (RFC 3261 section 8.2.7).

use vtax_wire::sip::{Hex, Message, Name, Via, Writer};

use super::output::{Output, Peer};
use super::routing::Status;
use super::shared::Shared;

/// A request with what answering it takes.
#[derive(Debug)]
pub(super) struct Request<'a> {
    pub(super) message: &'a Message<'a>,
    /// The topmost Via.
    pub(super) via: Via<'a>,
    pub(super) source: &'a Peer,
}

impl<'a> Request<'a> {
    /// Where responses go (RFC 3261 section 18.2.2, RFC 3581 section 4).
    pub(super) fn back(&self) -> Peer {
        match self.source {
            Peer::Udp(address) if self.via.rport.is_some() => Peer::Udp(*address),
            Peer::Udp(address) => Peer::Udp((address.ip(), self.via.port.unwrap_or(5060)).into()),
            Peer::Tcp(stream) => Peer::Tcp(stream.clone()),
        }
    }

    /// Answers, with what `more` adds.
    pub(super) fn answer(
        &self,
        shared: &Shared,
        status: Status,
        output: &mut Output,
        more: impl FnOnce(Writer<'_>) -> Writer<'_>,
    ) {
        let tag = own_tag(shared, self.message);
        output.send(&self.back(), |out| {
            more(self.begin(status, Some(tag.bytes()), out)).end();
        });
    }

    /// Answers with nothing but the status.
    pub(super) fn refuse(&self, shared: &Shared, status: Status, output: &mut Output) {
        self.answer(shared, status, output, |writer| writer);
    }

    /// Begins an answer.
    pub(super) fn begin<'b>(&self, status: Status, tag: Option<&[u8]>, out: &'b mut Vec<u8>) -> Writer<'b> {
        Writer::respond_with(out, self.message, status.0, status.1, tag, |out| {
            self.via.write_received(self.source.address(), out);
        })
    }
}

/// The tag of this server's own answers: the same for a request, its retransmissions and the ACK
/// of its refusal, without having to be remembered.
pub(super) fn own_tag(shared: &Shared, request: &Message<'_>) -> Hex {
    let call_id = request.call_id().unwrap_or_default();
    let from = request.from().ok().and_then(|from| from.tag).unwrap_or_default();
    let cseq = request.header(Name::CSeq).unwrap_or_default();
    let digits = cseq.iter().position(|b| !b.is_ascii_digit()).unwrap_or(cseq.len());
    Hex::of(&shared.hash(&[b"tag", call_id, from, &cseq[..digits]]).to_be_bytes())
}
