//! What becomes of each message: registrar and proxy without the sockets.

use vtax_sys::outgoing::Flow;
use vtax_wire::sip::{Message, Method, Name, Parts, SipError};

use super::guard::Denial;
use super::output::{Output, Peer};
use super::registrar::{Refusal, Registration};
use super::response::{Request, own_tag};
use super::rewrite::{self, Forward};
use super::routing::{self, Status, Target};
use super::shared::Shared;
use super::transactions::{self, Cancel, State, Table};

/// RFC 3261 section 17.1.1.1: estimate of the round-trip time, in milliseconds.
const T1_MS: u64 = 500;
/// Longest time between retransmissions of requests other than INVITE, and of responses.
const T2_MS: u64 = 4_000;
/// 64 T1: how long an answer is waited for.
const GIVE_UP_MS: u64 = 64 * T1_MS;
/// Timer C, how long an INVITE may ring (section 16.6 item 11: more than three minutes).
const RING_MS: u64 = 185_000;
/// How long a transaction that is over absorbs retransmissions after the last one. RFC 3261 has
/// 64 T1 since the first; as none comes later than T2 after the one before, this is as good.
const LINGER_MS: u64 = 5_000;

/// About what this server adds to a request.
const HEADERS_BYTES: usize = 256;

const BAD_REQUEST: Status = (400, "Bad Request");
const OK: Status = (200, "OK");

/// One worker's way of handling messages.
#[derive(Debug)]
pub(super) struct Proxy<'s> {
    shared: &'s Shared,
    worker: usize,
    /// Transactions opened by this worker.
    opened: u64,
    now_ms: u64,
    contact: Vec<u8>,
    record_route: Vec<u8>,
    scratch: Vec<u8>,
    due: Vec<u32>,
}

impl<'s> Proxy<'s> {
    pub(super) fn new(shared: &'s Shared, worker: usize) -> Self {
        let (contact, record_route, scratch, due) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { shared, worker, opened: 0, now_ms: 0, contact, record_route, scratch, due }
    }

    fn now_s(&self) -> u32 {
        u32::try_from(self.now_ms / 1000).unwrap_or(u32::MAX)
    }

    /// Handles what one datagram or one frame of a stream held.
    pub(super) fn message(&mut self, now_ms: u64, bytes: &[u8], source: &Peer, output: &mut Output) {
        self.now_ms = now_ms;
        // What can't be parsed can't be answered: its Via is not to be trusted.
        let Ok(message) = Message::parse(bytes) else { return };
        output.flow = flow(message.header(Name::CallId).unwrap_or_default());
        let Some(method) = message.method() else {
            return self.response(&message, output);
        };
        let Ok(via) = message.via() else { return };
        let request = Request { message: &message, via, source };
        match (message.parts(), method) {
            (Ok(parts), Method::Ack) => self.ack(&request, &parts, output),
            (Ok(parts), Method::Cancel) => self.cancel(&request, &parts, output),
            (Ok(parts), Method::Register) => self.register(&request, &parts, output),
            (Ok(parts), Method::Options) if self.is_for_server(&message, &parts) => {
                request.refuse(self.shared, OK, output);
            }
            (Ok(parts), _) => self.request(&request, &parts, method, output),
            // An ACK is never answered.
            (Err(_), Method::Ack) => {}
            (Err(error), _) => request.refuse(self.shared, (400, reason(error)), output),
        }
    }

    fn is_for_server(&self, message: &Message<'_>, parts: &Parts<'_>) -> bool {
        parts.uri.is_some_and(|uri| uri.user.is_none() && self.shared.is_own(&uri))
            && message.header(Name::Route).is_none()
    }

    /// The transaction a request belongs to (RFC 3261 section 17.2.3): the same for an INVITE and
    /// for its ACK and CANCEL.
    fn key(&self, request: &Request<'_>, parts: &Parts<'_>, method: Method) -> u64 {
        let method = match method {
            Method::Ack | Method::Cancel => b"INVITE",
            _ => parts.cseq.method_text,
        };
        let via = request.via;
        let port = via.port.unwrap_or(5060).to_be_bytes();
        if via.is_branch_unique() {
            let branch = via.branch.unwrap_or_default();
            return self.shared.hash(&[branch, via.host, &port, method]);
        }
        // A client of RFC 2543: its branch, if any, says nothing.
        let from = parts.from.tag.unwrap_or_default();
        let number = parts.cseq.number.to_be_bytes();
        self.shared.hash(&[b"2543", via.host, &port, parts.call_id, from, &number, method])
    }

    fn register(&mut self, request: &Request<'_>, parts: &Parts<'_>, output: &mut Output) {
        let (shared, now_s) = (self.shared, self.now_s());
        let message = request.message;
        if !parts.uri.is_some_and(|uri| shared.is_own(&uri)) {
            return request.refuse(shared, (403, "Forbidden"), output);
        }
        let to = parts.to.parse_uri().ok();
        let Some(subscriber) = to.and_then(|uri| shared.users.public(&uri)) else {
            return request.refuse(shared, routing::NOT_FOUND, output);
        };
        let who =
            shared.guard.identify(&shared.users, message, Name::Authorization, now_s, &mut self.scratch);
        match who {
            Ok(who) if who == subscriber => {}
            Ok(_) => return request.refuse(shared, (403, "Forbidden"), output),
            Err(denial) => return self.challenge(request, denial, (401, "Unauthorized"), output),
        }
        let flow = match request.source {
            Peer::Tcp(stream) => Some(stream),
            Peer::Udp(_) => None,
        };
        let (call_id, cseq) = (shared.hash(&[parts.call_id]), parts.cseq.number);
        let of = Registration { subscriber, now_s, call_id, cseq, flow };
        let updated = shared.registrar.update(message, &of, |uri| shared.is_own_address(uri));
        match updated {
            Ok(()) => request.answer(shared, OK, output, |writer| {
                writer.lines_with(|out| shared.registrar.write(subscriber, now_s, out))
            }),
            Err(Refusal::Malformed) => request.refuse(shared, (400, "Bad Contact"), output),
            Err(Refusal::OutOfOrder) => request.refuse(shared, (500, "CSeq Out Of Order"), output),
            Err(Refusal::NotAllowed) => request.refuse(shared, (403, "Contact Not Allowed"), output),
        }
    }

    fn challenge(&mut self, request: &Request<'_>, denial: Denial, status: Status, output: &mut Output) {
        let (shared, now_s) = (self.shared, self.now_s());
        if denial == Denial::Malformed {
            return request.refuse(shared, (400, "Bad Credentials"), output);
        }
        let header = if status.0 == 401 { Name::WwwAuthenticate } else { Name::ProxyAuthenticate };
        request.answer(shared, status, output, |writer| {
            writer.header_with(header, |out| {
                shared.guard.challenge(&shared.users.realm, now_s, denial == Denial::Stale, out);
            })
        });
    }

    /// A request to be proxied.
    fn request(&mut self, request: &Request<'_>, parts: &Parts<'_>, method: Method, output: &mut Output) {
        let (shared, key) = (self.shared, self.key(request, parts, method));
        let mut table = shared.table(key as usize);
        if let Some(id) = table.find(key) {
            return self.retransmitted(&mut table, id, output);
        }
        if table.is_full() {
            return request.refuse(shared, (503, "Service Unavailable"), output);
        }
        if let Some(options) = request.message.header(Name::ProxyRequire) {
            return request.answer(shared, (420, "Bad Extension"), output, |writer| {
                writer.header(Name::Unsupported, options)
            });
        }
        let (now_s, is_new) = (self.now_s(), parts.to.tag.is_none());
        if shared.authenticate_calls && is_new {
            let (users, header) = (&shared.users, Name::ProxyAuthorization);
            let who = shared.guard.identify(users, request.message, header, now_s, &mut self.scratch);
            if let Err(denial) = who {
                let status = (407, "Proxy Authentication Required");
                return self.challenge(request, denial, status, output);
            }
        }
        let target = match routing::route(shared, request.message, parts, now_s, &mut self.contact, output) {
            Ok(target) => target,
            Err(status) => return request.refuse(shared, status, output),
        };
        let (is_invite, opens_dialog) = (method == Method::Invite, is_new && opens_dialog(method));
        let id = self.open(&mut table, key, is_invite, request.back(), target.peer.clone());
        let branch = table.get(id).branch();
        let mut forwarded = std::mem::take(&mut table.get(id).request);
        forwarded.reserve(request.message.bytes().len() + HEADERS_BYTES);
        self.forward(&mut forwarded, request, parts, &target, &branch, opens_dialog);
        let transaction = table.get(id);
        // Before the request: what the callee answers to that goes through another thread, and could overtake it.
        if is_invite {
            transaction.response.reserve(request.message.bytes().len());
            request.begin((100, "Trying"), None, &mut transaction.response).end();
            output.send(&transaction.upstream, |out| out.extend_from_slice(&transaction.response));
        }
        output.send(&target.peer, |out| out.extend_from_slice(&forwarded));
        transaction.request = forwarded;
        transaction.give_up_ms = self.now_ms + GIVE_UP_MS;
        transaction.interval_ms = T1_MS;
        let first = if target.peer.is_datagram() { T1_MS } else { GIVE_UP_MS };
        table.schedule(id, self.now_ms + first);
    }

    fn open(
        &mut self,
        table: &mut Table,
        key: u64,
        is_invite: bool,
        upstream: Peer,
        downstream: Peer,
    ) -> u32 {
        self.opened += 1;
        let serial = self.opened.to_be_bytes();
        let random = self.shared.hash(&[b"branch", &serial, &self.worker.to_be_bytes()]);
        // The token says which table its transaction is in.
        let tables = self.shared.tables() as u64;
        let token = random - random % tables + key % tables;
        table.open(key, token, is_invite, upstream, downstream)
    }

    /// Appends the request as it goes to its target.
    fn forward(
        &mut self,
        out: &mut Vec<u8>,
        request: &Request<'_>,
        parts: &Parts<'_>,
        target: &Target,
        branch: &[u8],
        opens_dialog: bool,
    ) {
        let protocol = target.peer.protocol();
        if opens_dialog {
            let of_both = match (protocol, request.source.protocol()) {
                ("TCP", "TCP") => Some("tcp"),
                ("TLS", "TLS") => Some("tls"),
                _ => None,
            };
            routing::record_route(self.shared, parts.call_id, of_both, &mut self.record_route);
        }
        let change = Forward {
            uri: target.is_contact.then_some(&self.contact[..]),
            via_protocol: protocol,
            sent_by: &self.shared.sent_by,
            branch,
            source: request.source,
            via: request.via,
            max_forwards: parts.max_forwards.unwrap_or(71).saturating_sub(1),
            routes_passed: target.routes_passed,
            record_route: opens_dialog.then_some(&self.record_route[..]),
            drop_credentials: self.shared.authenticate_calls,
        };
        rewrite::request(out, request.message, &change);
    }

    /// The same request again: it is answered as before, and not forwarded.
    fn retransmitted(&self, table: &mut Table, id: u32, output: &mut Output) {
        let transaction = table.get(id);
        if transaction.state != State::Accepted {
            output.send(&transaction.upstream, |out| out.extend_from_slice(&transaction.response));
        }
        if transaction.state == State::Lingering {
            table.schedule(id, self.now_ms + LINGER_MS);
        }
    }

    fn ack(&mut self, request: &Request<'_>, parts: &Parts<'_>, output: &mut Output) {
        let (shared, key) = (self.shared, self.key(request, parts, Method::Ack));
        let mut table = shared.table(key as usize);
        if let Some(id) = table.find(key) {
            let transaction = table.get(id);
            if transaction.state == State::Completed {
                transaction.state = State::Lingering;
                table.schedule(id, self.now_ms + LINGER_MS);
            }
            // Some clients acknowledge a 2xx under the INVITE's branch.
            if table.get(id).state != State::Accepted {
                return;
            }
        }
        drop(table);
        if parts.to.tag == Some(own_tag(shared, request.message).bytes()) {
            // Of a refusal of this server's own.
            return;
        }
        let now_s = self.now_s();
        let target = routing::route(shared, request.message, parts, now_s, &mut self.contact, output);
        if let Ok(target) = target {
            // The same branch for a retransmission.
            let token = shared.hash(&[b"ack", request.via.text]);
            let branch = transactions::branch(token, u32::MAX);
            output.send(&target.peer, |out| self.forward(out, request, parts, &target, &branch, false));
        }
    }

    fn cancel(&mut self, request: &Request<'_>, parts: &Parts<'_>, output: &mut Output) {
        let (shared, key) = (self.shared, self.key(request, parts, Method::Cancel));
        let mut table = shared.table(key as usize);
        let Some(id) = table.find(key).filter(|id| table.get(*id).is_invite) else {
            return request.refuse(shared, (481, "Call/Transaction Does Not Exist"), output);
        };
        request.refuse(shared, OK, output);
        if table.get(id).cancel != Cancel::No {
            return;
        }
        match table.get(id).state {
            State::Trying => table.get(id).cancel = Cancel::Wanted,
            State::Proceeding => self.send_cancel(&mut table, id, output),
            State::Accepted | State::Completed | State::Lingering => {}
        }
    }

    /// Cancels the INVITE downstream; from now on it has 64 T1 to end.
    fn send_cancel(&self, table: &mut Table, id: u32, output: &mut Output) {
        let transaction = table.get(id);
        transaction.cancel = Cancel::Sent;
        transaction.give_up_ms = self.now_ms + GIVE_UP_MS;
        transaction.interval_ms = T1_MS;
        derived(transaction, Method::Cancel, None, output);
        let first = if transaction.downstream.is_datagram() { T1_MS } else { GIVE_UP_MS };
        table.schedule(id, self.now_ms + first);
    }

    fn response(&mut self, message: &Message<'_>, output: &mut Output) {
        let (Ok(via), Ok(cseq), Some(code)) = (message.via(), message.cseq(), message.status()) else {
            return;
        };
        let Some((token, id)) = via.branch.and_then(transactions::read_branch) else { return };
        let mut table = self.shared.table(token as usize);
        // To no request of this server's, or to one that is long over: RFC 6026 section 7.3 has
        // such a response dropped.
        let Some(id) = table.find_branch(token, id) else { return };
        let transaction = table.get(id);
        match cseq.method {
            Method::Cancel if transaction.is_invite => {
                if transaction.cancel == Cancel::Sent {
                    transaction.cancel = Cancel::Answered;
                    let until = transaction.give_up_ms;
                    table.schedule(id, until);
                }
            }
            method if (method == Method::Invite) != transaction.is_invite => {}
            _ if code < 200 => self.provisional(&mut table, id, message, code, output),
            _ if transaction.is_invite => self.invite_final(&mut table, id, message, code, output),
            _ => self.other_final(&mut table, id, message, output),
        }
    }

    fn provisional(&self, table: &mut Table, id: u32, message: &Message<'_>, code: u16, output: &mut Output) {
        let transaction = table.get(id);
        if !matches!(transaction.state, State::Trying | State::Proceeding) {
            return;
        }
        transaction.state = State::Proceeding;
        if code > 100 {
            pass_on(transaction, message, output);
        }
        if transaction.cancel == Cancel::Wanted {
            self.send_cancel(table, id, output);
        } else if transaction.is_invite && transaction.cancel == Cancel::No {
            let until = self.now_ms + RING_MS;
            transaction.give_up_ms = until;
            // Each provisional response starts timer C again (section 16.7 item 2).
            table.schedule(id, until);
        } else {
            transaction.interval_ms = T2_MS;
        }
    }

    fn invite_final(
        &self,
        table: &mut Table,
        id: u32,
        message: &Message<'_>,
        code: u16,
        output: &mut Output,
    ) {
        let transaction = table.get(id);
        let is_open = matches!(transaction.state, State::Trying | State::Proceeding);
        if code < 300 {
            if !is_open && transaction.state != State::Accepted {
                return;
            }
            // Also each time it comes again: only the caller's ACK ends that.
            output.send(&transaction.upstream, |out| _ = rewrite::response(out, message));
            if is_open {
                transaction.state = State::Accepted;
                table.drop_request(id);
                table.drop_response(id);
            }
            return table.schedule(id, self.now_ms + LINGER_MS);
        }
        if is_open {
            pass_on(transaction, message, output);
        }
        derived(transaction, Method::Ack, message.header(Name::To), output);
        if is_open {
            self.await_ack(table, id);
        }
    }

    /// A final response other than 2xx went upstream; it is sent again until its ACK comes.
    fn await_ack(&self, table: &mut Table, id: u32) {
        let transaction = table.get(id);
        transaction.state = State::Completed;
        transaction.give_up_ms = self.now_ms + GIVE_UP_MS;
        transaction.interval_ms = T1_MS;
        let first = if transaction.upstream.is_datagram() { T1_MS } else { GIVE_UP_MS };
        table.schedule(id, self.now_ms + first);
    }

    fn other_final(&self, table: &mut Table, id: u32, message: &Message<'_>, output: &mut Output) {
        let transaction = table.get(id);
        if matches!(transaction.state, State::Trying | State::Proceeding) {
            pass_on(transaction, message, output);
            transaction.state = State::Lingering;
            table.drop_request(id);
            table.schedule(id, self.now_ms + LINGER_MS);
        }
    }

    /// Does what is due in this worker's share of the tables; true where something is still to
    /// come.
    pub(super) fn tick(&mut self, now_ms: u64, workers: usize, output: &mut Output) -> bool {
        let tables = self.shared.tables();
        self.now_ms = now_ms;
        let mut is_busy = false;
        let mut due = std::mem::take(&mut self.due);
        for index in (self.worker..tables).step_by(workers) {
            let mut table = self.shared.table(index);
            table.pass(now_ms, &mut due);
            for id in due.drain(..) {
                self.expired(&mut table, id, output);
            }
            is_busy |= !table.is_idle();
        }
        self.due = due;
        is_busy
    }

    fn expired(&self, table: &mut Table, id: u32, output: &mut Output) {
        let now_ms = self.now_ms;
        let transaction = table.get(id);
        let is_over = now_ms >= transaction.give_up_ms;
        match transaction.state {
            State::Accepted | State::Lingering => return table.close(id),
            State::Completed if is_over => return table.close(id),
            State::Completed => {
                output.send(&transaction.upstream, |out| out.extend_from_slice(&transaction.response));
            }
            // RFC 4320 section 4.1: no 408 is sent for requests other than INVITE.
            State::Trying | State::Proceeding if is_over && !transaction.is_invite => return table.close(id),
            State::Proceeding if is_over && transaction.cancel == Cancel::No => {
                // Timer C.
                return self.send_cancel(table, id, output);
            }
            State::Trying | State::Proceeding if is_over => return self.time_out(table, id, output),
            State::Proceeding if transaction.cancel == Cancel::Sent => {
                derived(transaction, Method::Cancel, None, output);
            }
            State::Trying | State::Proceeding => {
                output.send(&transaction.downstream, |out| out.extend_from_slice(&transaction.request));
            }
        }
        let doubled = transaction.interval_ms * 2;
        let is_capped = transaction.state != State::Trying || !transaction.is_invite;
        transaction.interval_ms = if is_capped { doubled.min(T2_MS) } else { doubled };
        let next = (now_ms + transaction.interval_ms).min(transaction.give_up_ms);
        table.schedule(id, next);
    }

    /// No final response came to an INVITE.
    fn time_out(&self, table: &mut Table, id: u32, output: &mut Output) {
        let transaction = table.get(id);
        let forwarded = std::mem::take(&mut transaction.request);
        let (code, reason) = match transaction.cancel {
            Cancel::No | Cancel::Wanted => (408, "Request Timeout"),
            Cancel::Sent | Cancel::Answered => (487, "Request Terminated"),
        };
        if let Ok(message) = Message::parse(&forwarded) {
            let tag = own_tag(self.shared, &message);
            transaction.response.clear();
            rewrite::own_response(&mut transaction.response, &message, code, reason, tag.bytes());
            output.send(&transaction.upstream, |out| out.extend_from_slice(&transaction.response));
        }
        transaction.request = forwarded;
        self.await_ack(table, id);
    }
}

/// Passes a response on, and keeps it for retransmissions.
fn pass_on(transaction: &mut transactions::Transaction, message: &Message<'_>, output: &mut Output) {
    transaction.response.clear();
    transaction.response.reserve(message.bytes().len());
    if rewrite::response(&mut transaction.response, message) {
        output.send(&transaction.upstream, |out| out.extend_from_slice(&transaction.response));
    }
}

/// Sends the ACK or CANCEL that belongs to the forwarded INVITE.
fn derived(transaction: &transactions::Transaction, method: Method, to: Option<&[u8]>, output: &mut Output) {
    if let Ok(forwarded) = Message::parse(&transaction.request) {
        output.send(&transaction.downstream, |out| rewrite::derived(out, &forwarded, method, to));
    }
}

/// Under which flow messages of a call are sent. Two calls may share one: they then keep an order
/// that they don't need.
fn flow(call_id: &[u8]) -> Flow {
    call_id.iter().fold(0, |flow: Flow, byte| flow.rotate_left(5) ^ Flow::from(*byte))
}

const fn opens_dialog(method: Method) -> bool {
    matches!(method, Method::Invite | Method::Subscribe | Method::Refer)
}

fn reason(error: SipError) -> &'static str {
    match error {
        SipError::Missing(_) => "Missing Header",
        SipError::Repeated(_) => "Repeated Header",
        SipError::MethodMismatch => "CSeq Mismatch",
        _ => BAD_REQUEST.1,
    }
}

#[cfg(test)]
mod tests;
