//! What a protocol of requests and answers must tell the engine.
//!
//! A family that sends requests over TCP connections and waits for an answer to each needs a [`Dialogue`] and
//! nothing else of its own: connections, arrivals, timeouts, records and the proof that the generator kept up
//! are the engine's ([`engine::run`](super::engine::run)). The dialogue does no I/O. It writes requests into a
//! buffer, takes the bytes that came, and says when an answer is whole. The engine is compiled for each
//! dialogue anew, so that no request costs a call through a pointer.
//!
//! **Pipelining**: where [`depth`](Dialogue::depth) is above 1, that many requests may be under way on a
//! connection; answers come in the order of the requests. All that is free in a closed loop is filled up and
//! sent in one piece. **Verification**: what the answer to a request must be is remembered in
//! [`Connection`](Dialogue::Connection) when the request is written, in a queue that holds `depth` entries, and
//! compared when the answer is read; a wrong one is an [`Answer`] with another outcome than
//! [`Outcome::Ok`]. **Random choice** (keys, sizes) needs a generator in the dialogue itself, seeded by the
//! number of its worker. **Sending besides requests**: a dialogue that has more to send than its requests (a handshake, a
//! body in pieces), or whose requests follow each other after pauses, says so
//! ([`SENDS_BESIDES_REQUESTS`](Dialogue::SENDS_BESIDES_REQUESTS)). All that this takes is compiled away for the others.
//! **Streams**: a dialogue whose answers come in any order
//! ([`ANSWERS_IN_ANY_ORDER`](Dialogue::ANSWERS_IN_ANY_ORDER)) gives each request a place in its connection, and tells of
//! what ended by it. It sends besides requests, and all that it sends goes that way, so that the requests of a connection
//! go out together.

use std::fmt::Debug;

use super::recorder::Outcome;
use crate::Details;

/// A protocol of requests and answers on a stream. Each worker has its own.
pub(crate) trait Dialogue: Send {
    /// What is remembered of a connection while it is open.
    type Connection: Default + Debug + Send;

    /// Whether it has more to send than its requests, or requests that follow each other after pauses. Only then the engine
    /// calls [`set_now`](Self::set_now), [`connecting`](Self::connecting), [`connected`](Self::connected),
    /// [`write_besides`](Self::write_besides), [`is_open`](Self::is_open),
    /// [`server_may_send_unasked`](Self::server_may_send_unasked) and [`next_request_in`](Self::next_request_in).
    const SENDS_BESIDES_REQUESTS: bool = false;

    /// Whether answers come in any order. Then [`take`](Self::take) and [`read`](Self::read) use all bytes and have no answer, which
    /// [`next`](Self::next) tells, and what [`write`](Self::write) has to send is asked for by [`write_besides`](Self::write_besides).
    const ANSWERS_IN_ANY_ORDER: bool = false;

    /// Requests that may be under way on one connection at once.
    fn depth(&self) -> u32 {
        1
    }

    /// Appends the next request of a connection to `out`. `last` says that no other follows on it.
    fn write(&mut self, connection: &mut Self::Connection, last: bool, out: &mut Vec<u8>);

    /// Takes bytes that came on a connection, up to the end of the first answer that is whole.
    ///
    /// # Errors
    /// What the requests under way failed of: the bytes are no answer.
    fn read(&mut self, connection: &mut Self::Connection, bytes: &[u8]) -> Result<Taken, Outcome>;

    /// Takes bytes as [`read`](Self::read) does, and may overwrite them, as deciphering in place does.
    ///
    /// # Errors
    /// Those of [`read`](Self::read).
    fn take(&mut self, connection: &mut Self::Connection, bytes: &mut [u8]) -> Result<Taken, Outcome> {
        self.read(connection, bytes)
    }

    /// Bytes to come that needn't be looked at; the kernel drops them uncopied where there are many.
    fn skippable(&self, _connection: &Self::Connection) -> u64 {
        0
    }

    /// So many of the bytes that needn't be looked at have come.
    fn skip(&mut self, _connection: &mut Self::Connection, _bytes: u64) -> Option<Answer> {
        None
    }

    /// The requests under way have failed, also where no connection could be made for them. One that is there is closed next.
    fn requests_failed(&mut self, _connection: &mut Self::Connection) {}

    /// The connection is closed, and what was under way on it has failed. Another one begins anew.
    fn closed(&mut self, _connection: &mut Self::Connection) {}

    /// The server has ended its side of the connection, which ends an answer in some protocols.
    ///
    /// # Errors
    /// What the requests under way failed of.
    fn end(&mut self, _connection: &mut Self::Connection) -> Result<Option<Answer>, Outcome> {
        Ok(None)
    }

    /// What is remembered of a connection that is no more; a session that goes on with another keeps what is its own.
    fn renew(&mut self, connection: &mut Self::Connection) {
        *connection = Self::Connection::default();
    }

    /// What was found besides, once the load is over.
    fn details(&mut self) -> Option<Details> {
        None
    }

    /// Tells it the time, in nanoseconds since the load's epoch.
    fn set_now(&mut self, _now: u64) {}

    /// A connection is being made from now on.
    fn connecting(&mut self, _connection: &mut Self::Connection) {}

    /// The connection is there, and nothing was sent on it.
    fn connected(&mut self, _connection: &mut Self::Connection) {}

    /// Appends what is to be sent next besides requests. Asked after each request and whenever bytes came, until there
    /// is nothing more, as long as the kernel takes what there is.
    fn write_besides(&mut self, _connection: &mut Self::Connection, _out: &mut Vec<u8>) {}

    /// Whether a connection that is there can take requests.
    fn is_open(&self, _connection: &Self::Connection) -> bool {
        true
    }

    /// Whether the server may send what nobody asked for, also behind an answer.
    fn server_may_send_unasked(&self, _connection: &Self::Connection) -> bool {
        false
    }

    /// How long after the last answer its session goes on with a request, in nanoseconds; `None`: it is over. Asked once of each
    /// answer that counts as one: where more came behind it than was asked for, its request has failed instead.
    fn next_request_in(&mut self, _connection: &mut Self::Connection) -> Option<u64> {
        None
    }

    /// The place in its connection of the request that is written next, below [`depth`](Self::depth). Only of one whose answers
    /// come in any order, as all that follows.
    fn place(&mut self, _connection: &mut Self::Connection) -> u32 {
        0
    }

    /// Whether another request may be written now, as far as the connection's peer is concerned.
    fn has_room(&self, _connection: &Self::Connection) -> bool {
        true
    }

    /// The next request that has ended, with its place.
    fn next(&mut self, _connection: &mut Self::Connection) -> Option<(u32, Ended)> {
        None
    }

    /// The request at a place isn't waited for any more. False where the connection is of no use for others either.
    fn give_up(&mut self, _connection: &mut Self::Connection, _place: u32) -> bool {
        false
    }
}

/// How a request of a dialogue whose answers come in any order has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ended {
    /// An answer has come, or what stands for one.
    Answered(Answer),
    /// The server hasn't looked at it: it is sent again on any connection, and counts from when it was to start at first.
    Refused,
}

/// What was made of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Taken {
    /// How many belong to this answer: all of them, where it isn't whole.
    pub(crate) bytes: usize,
    /// The answer, where it is whole.
    pub(crate) answer: Option<Answer>,
}

/// A whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// What it means for its request.
    pub(crate) outcome: Outcome,
    /// Its status, as HTTP counts them; 0 in a protocol without.
    pub(crate) status: u16,
    /// The connection may be used again.
    pub(crate) keep: bool,
}
