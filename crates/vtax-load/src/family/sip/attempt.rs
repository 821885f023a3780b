//! One attempt at a scenario: what both its sides remember.

use vtax_plan::model::Scenario;
use vtax_wire::sip::{Address, Message, Method, Name};

use super::auth::Auth;
use super::recorder::{Cause, RecordKey};
use super::users::{NONE, Pool};

/// What the caller is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CallerState {
    /// Waiting for the answer to its request.
    #[default]
    Asking,
    /// Its first INVITE is acknowledged; it waits for the callee to have the ACK.
    Acknowledged,
    /// The call is up.
    Holding,
    /// All its own part is done.
    Done,
}

/// What the callee is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum CalleeState {
    /// No request has come.
    #[default]
    Idle,
    /// It has sent 180.
    Ringing,
    /// It has sent the final answer of this status and waits for the ACK.
    Answered(u16),
    /// The ACK has come.
    Confirmed,
}

/// A client transaction. An attempt has one at a time, CANCEL apart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Transaction {
    pub(crate) method: Method,
    pub(crate) active: bool,
    /// A provisional answer has come.
    pub(crate) proceeding: bool,
    /// Last digits of the branch.
    pub(crate) branch: u8,
    pub(crate) cseq: u32,
    /// First sent.
    pub(crate) sent: u64,
    /// Time until it is sent again.
    pub(crate) interval: u64,
    /// Given up at.
    pub(crate) deadline: u64,
}

impl Default for Transaction {
    fn default() -> Self {
        Self {
            method: Method::Other,
            active: false,
            proceeding: false,
            branch: 0,
            cseq: 0,
            sent: 0,
            interval: 0,
            deadline: 0,
        }
    }
}

/// What the caller knows of its dialog (RFC 3261 section 12.1.2), as text.
#[derive(Debug, Default)]
pub(crate) struct Dialog {
    /// Remote target, To, then the Route header with its line end.
    text: Vec<u8>,
    target_end: u16,
    to_end: u16,
}

/// Routes beyond this many are not a proxy's doing.
const ROUTES_MAX: usize = 32;

impl Dialog {
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        (self.target_end, self.to_end) = (0, 0);
    }

    /// Whether there is one.
    pub(crate) fn is_up(&self) -> bool {
        self.target_end > 0
    }

    /// Takes a dialog from the 2xx that makes it; `None` where that lacks a contact or a tag, or has
    /// more routes than can be.
    pub(crate) fn establish(&mut self, response: &Message<'_>) -> Option<()> {
        self.clear();
        let to = response.header(Name::To)?;
        Address::parse(to).ok()?.tag?;
        let contact = Address::parse(response.values(Name::Contact).next()?).ok()?;
        contact.parse_uri().ok()?;
        let mut routes: [&[u8]; ROUTES_MAX] = [b""; ROUTES_MAX];
        let mut count = 0;
        for route in response.values(Name::RecordRoute) {
            *routes.get_mut(count)? = route;
            count += 1;
        }
        self.text.extend_from_slice(contact.uri);
        let target_end = self.text.len();
        self.text.extend_from_slice(to);
        let to_end = self.text.len();
        // The caller's route set is the recorded one reversed.
        for (i, route) in routes[..count].iter().rev().enumerate() {
            self.text.extend_from_slice(if i == 0 { b"Route: " } else { b", " });
            self.text.extend_from_slice(route);
        }
        if count > 0 {
            self.text.extend_from_slice(b"\r\n");
        }
        // A message is at most 64 KiB, so its parts are too.
        (self.target_end, self.to_end) = (target_end as u16, to_end as u16);
        Some(())
    }

    pub(crate) fn target(&self) -> &[u8] {
        &self.text[..usize::from(self.target_end)]
    }

    /// The value of To.
    pub(crate) fn to(&self) -> &[u8] {
        &self.text[usize::from(self.target_end)..usize::from(self.to_end)]
    }

    /// The Route header with its line end, or nothing.
    pub(crate) fn route(&self) -> &[u8] {
        &self.text[usize::from(self.to_end)..]
    }
}

/// One attempt, or the room for one. The buffers keep their memory from one to the next.
#[derive(Debug)]
pub(crate) struct Attempt {
    /// Odd while there is an attempt.
    pub(crate) generation: u32,
    pub(crate) scenario: Scenario,
    pub(crate) key: RecordKey,
    pub(crate) caller: u32,
    /// [`NONE`]: not a subscriber of this session.
    pub(crate) callee: u32,
    /// Where the users go afterwards.
    pub(crate) caller_pool: Pool,
    pub(crate) callee_pool: Pool,
    pub(crate) stage: CallerState,
    pub(crate) transaction: Transaction,
    pub(crate) cancel: Transaction,
    /// Last digits of the last branch.
    pub(crate) branches: u8,
    /// The present request was refused so often for its credentials.
    pub(crate) refused: u8,
    /// The header line with those of the INVITE sent last; empty where it had none.
    pub(crate) credentials: Vec<u8>,
    /// The INVITE acknowledged last: branch and CSeq, for ACKs sent again.
    pub(crate) acknowledged: (u8, u32),
    pub(crate) dialog: Dialog,
    pub(crate) auth: Auth,
    /// First request sent at.
    pub(crate) begun: u64,
    pub(crate) ring_time: u64,
    /// The caller's patience is running out.
    pub(crate) waits: bool,
    /// Bytes of a message's text.
    pub(crate) text_bytes: u32,
    pub(crate) callee_stage: CalleeState,
    /// CSeq of the INVITE the callee is answering.
    pub(crate) callee_cseq: u32,
    /// 180 sent at, and how long it rang.
    pub(crate) rang: u64,
    pub(crate) ring_took: u64,
    /// The callee's answer is sent again after this time, and given up at.
    pub(crate) answer_interval: u64,
    pub(crate) answer_deadline: u64,
    /// ACKs that the callee has got to answers of 200.
    pub(crate) acks: u8,
    /// The callee has answered a BYE or MESSAGE.
    pub(crate) served: bool,
    /// Head lines that the callee's answers copy from its INVITE.
    pub(crate) reply: Vec<u8>,
    /// A metric passed its limit.
    pub(crate) fault: Option<Cause>,
}

impl Attempt {
    /// Room without an attempt.
    pub(crate) fn vacant() -> Self {
        Self {
            generation: 0,
            scenario: Scenario::Calling,
            key: RecordKey::default(),
            caller: NONE,
            callee: NONE,
            caller_pool: Pool::Unregistered,
            callee_pool: Pool::Unregistered,
            stage: CallerState::Done,
            transaction: Transaction::default(),
            cancel: Transaction::default(),
            branches: 0,
            refused: 0,
            credentials: Vec::new(),
            acknowledged: (0, 0),
            dialog: Dialog::default(),
            auth: Auth::default(),
            begun: 0,
            ring_time: 0,
            waits: false,
            text_bytes: 0,
            callee_stage: CalleeState::Idle,
            callee_cseq: 0,
            rang: 0,
            ring_took: 0,
            answer_interval: 0,
            answer_deadline: 0,
            acks: 0,
            served: false,
            reply: Vec::new(),
            fault: None,
        }
    }

    /// Makes room for the next one.
    pub(crate) fn renew(&mut self) {
        let generation = self.generation.wrapping_add(1);
        let mut fresh = Self { generation, ..Self::vacant() };
        std::mem::swap(&mut fresh.dialog, &mut self.dialog);
        std::mem::swap(&mut fresh.auth, &mut self.auth);
        std::mem::swap(&mut fresh.credentials, &mut self.credentials);
        std::mem::swap(&mut fresh.reply, &mut self.reply);
        fresh.dialog.clear();
        fresh.auth.clear();
        fresh.credentials.clear();
        fresh.reply.clear();
        *self = fresh;
    }

    pub(crate) fn is_live(&self) -> bool {
        self.generation & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dialog_reverses_its_routes() {
        let text = b"SIP/2.0 200 OK\r\nVia: SIP/2.0/UDP a;branch=z9hG4bK1\r\nFrom: <sip:a@d>;tag=1\r\n\
            To: <sip:b@d>;tag=2\r\nCall-ID: x\r\nCSeq: 1 INVITE\r\nRecord-Route: <sip:p3;lr>, <sip:p2;lr>\r\n\
            Record-Route: <sip:p1;lr>\r\nContact: <sip:b@host:5061>;q=1\r\nContent-Length: 0\r\n\r\n";
        let mut dialog = Dialog::default();
        assert!(!dialog.is_up());
        dialog.establish(&Message::parse(text).unwrap()).unwrap();
        assert!(dialog.is_up());
        assert_eq!(dialog.target(), b"sip:b@host:5061");
        assert_eq!(dialog.to(), b"<sip:b@d>;tag=2");
        assert_eq!(dialog.route(), b"Route: <sip:p1;lr>, <sip:p2;lr>, <sip:p3;lr>\r\n");
        let untagged = String::from_utf8_lossy(text).replace(";tag=2", "");
        assert!(dialog.establish(&Message::parse(untagged.as_bytes()).unwrap()).is_none());
        assert!(!dialog.is_up());
    }
}
