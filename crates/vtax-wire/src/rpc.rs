//! ONC RPC version 2 (RFC 5531) over TCP: record marking, calls with AUTH_SYS, replies.

use std::ops::Range;

use crate::xdr::{self, Reader, XdrError};

/// Pieces that one message may come in.
const FRAGMENTS_MAX: usize = 64;
/// Longest verifier (RFC 5531 section 8.2).
const AUTH_BYTES_MAX: usize = 400;
/// Longest name of a machine in AUTH_SYS.
const MACHINE_BYTES_MAX: usize = 255;
/// Most groups in AUTH_SYS.
const GROUPS_MAX: usize = 16;
const CALL: u32 = 0;
const REPLY: u32 = 1;
const VERSION: u32 = 2;
const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;
const LAST: u32 = 1 << 31;

/// Why bytes are no replies, or what a reply says instead of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RpcError {
    /// More than was agreed on.
    #[error("a message has more than {0} bytes")]
    Long(usize),
    /// In more pieces than any server makes.
    #[error("a message comes in more than 64 pieces")]
    Fragments,
    /// Malformed.
    #[error("a reply makes no sense: {0}")]
    Xdr(#[from] XdrError),
    /// It is a call.
    #[error("the server sent a call")]
    Call,
    /// The server refuses the caller.
    #[error("the server refuses the caller (authentication error {0})")]
    Denied(u32),
    /// The server speaks another version of RPC.
    #[error("the server speaks another version of RPC")]
    RpcVersion,
    /// There is no such program.
    #[error("the server has no such program")]
    Program,
    /// There is no such version of the program.
    #[error("the server has versions {0} to {1} of the program")]
    ProgramVersion(u32, u32),
    /// The server couldn't make sense of the call, or failed.
    #[error("the server did not carry the call out (status {0})")]
    NotDone(u32),
}

/// What is at the beginning of the bytes that arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Record {
    /// A part of a message.
    Incomplete,
    /// A message: where it is, and where the next one begins.
    Whole {
        /// Its bytes.
        message: Range<usize>,
        /// Bytes of the input that it took.
        consumed: usize,
    },
}

/// Finds a message of at most `most` bytes at the beginning of the input. One in several pieces is put together
/// there, in place.
///
/// # Errors
/// It is longer than `most`, or comes in too many pieces.
pub fn record(input: &mut [u8], most: usize) -> Result<Record, RpcError> {
    let (mut at, mut total, mut pieces) = (0, 0, 0);
    loop {
        let Some(mark) = mark(input, at) else { return Ok(Record::Incomplete) };
        let length = (mark & !LAST) as usize;
        total += length;
        pieces += 1;
        if total > most {
            return Err(RpcError::Long(most));
        }
        if pieces > FRAGMENTS_MAX {
            return Err(RpcError::Fragments);
        }
        at += 4 + length;
        if mark & LAST != 0 {
            break;
        }
    }
    if input.len() < at {
        return Ok(Record::Incomplete);
    }
    if pieces > 1 {
        join(input);
    }
    Ok(Record::Whole { message: 4..4 + total, consumed: at })
}

fn mark(input: &[u8], at: usize) -> Option<u32> {
    input.get(at..)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes))
}

/// Moves the pieces of a message, all of which are there, behind the first one's mark.
fn join(input: &mut [u8]) {
    let (mut from, mut to) = (0, 4);
    while let Some(mark) = mark(input, from) {
        let length = (mark & !LAST) as usize;
        input.copy_within(from + 4..from + 4 + length, to);
        (from, to) = (from + 4 + length, to + length);
        if mark & LAST != 0 {
            break;
        }
    }
}

/// Who calls (AUTH_SYS).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Name of the machine.
    pub machine: String,
    /// User.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Further groups, of which 16 are sent.
    pub gids: Vec<u32>,
}

/// A procedure of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Procedure {
    /// Program.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// Number.
    pub number: u32,
}

/// Appends a record's mark and a call's header; without a caller, none is named. Pass what it gives to
/// [`end_call`] after the arguments.
#[must_use]
pub fn begin_call(out: &mut Vec<u8>, xid: u32, procedure: Procedure, caller: Option<&Caller>) -> usize {
    let begin = out.len();
    let words = [0, xid, CALL, VERSION, procedure.program, procedure.version, procedure.number];
    words.into_iter().for_each(|value| xdr::word(out, value));
    match caller {
        None => [AUTH_NONE, 0].into_iter().for_each(|value| xdr::word(out, value)),
        Some(caller) => {
            xdr::word(out, AUTH_SYS);
            let length = out.len();
            xdr::word(out, 0);
            // A stamp, of no meaning.
            xdr::word(out, 0);
            let machine = caller.machine.as_bytes();
            xdr::opaque(out, &machine[..machine.len().min(MACHINE_BYTES_MAX)]);
            xdr::word(out, caller.uid);
            xdr::word(out, caller.gid);
            let gids = &caller.gids[..caller.gids.len().min(GROUPS_MAX)];
            xdr::word(out, gids.len() as u32);
            gids.iter().for_each(|gid| xdr::word(out, *gid));
            let bytes = (out.len() - length - 4) as u32;
            out[length..length + 4].copy_from_slice(&bytes.to_be_bytes());
        }
    }
    // No verifier.
    [AUTH_NONE, 0].into_iter().for_each(|value| xdr::word(out, value));
    begin
}

/// Writes the length of a call that [`begin_call`] began: what was appended since, and `more` bytes that
/// follow from elsewhere.
pub fn end_call(out: &mut [u8], begin: usize, more: usize) {
    let length = (out.len() - begin - 4 + more) as u32;
    out[begin..begin + 4].copy_from_slice(&(length | LAST).to_be_bytes());
}

/// The call that a reply answers.
///
/// # Errors
/// It isn't a reply.
pub fn answered(message: &[u8]) -> Result<u32, RpcError> {
    let mut reader = Reader::new(message);
    let xid = reader.word()?;
    if reader.word()? == REPLY { Ok(xid) } else { Err(RpcError::Call) }
}

/// The results in a reply.
///
/// # Errors
/// It says something else, or makes no sense.
pub fn results(message: &[u8]) -> Result<Reader<'_>, RpcError> {
    let mut reader = Reader::new(message);
    let _xid = reader.word()?;
    if reader.word()? != REPLY {
        return Err(RpcError::Call);
    }
    if reader.word()? != 0 {
        return Err(match reader.word()? {
            0 => RpcError::RpcVersion,
            _ => RpcError::Denied(reader.word()?),
        });
    }
    let _flavor = reader.word()?;
    let _verifier = reader.opaque(AUTH_BYTES_MAX)?;
    match reader.word()? {
        0 => Ok(reader),
        1 => Err(RpcError::Program),
        2 => Err(RpcError::ProgramVersion(reader.word()?, reader.word()?)),
        status => Err(RpcError::NotDone(status)),
    }
}

/// A call as a server sees it.
#[derive(Debug, Clone, Copy)]
pub struct Called<'a> {
    /// Its number.
    pub xid: u32,
    /// What is called.
    pub procedure: Procedure,
    /// Its arguments.
    pub arguments: Reader<'a>,
}

/// Reads a call. Who calls isn't looked at.
///
/// # Errors
/// It is none, or makes no sense.
pub fn called(message: &[u8]) -> Result<Called<'_>, RpcError> {
    let mut reader = Reader::new(message);
    let xid = reader.word()?;
    if reader.word()? != CALL {
        return Err(XdrError::Value.into());
    }
    if reader.word()? != VERSION {
        return Err(RpcError::RpcVersion);
    }
    let procedure = Procedure { program: reader.word()?, version: reader.word()?, number: reader.word()? };
    for _ in 0..2 {
        let _flavor = reader.word()?;
        reader.opaque(AUTH_BYTES_MAX)?;
    }
    Ok(Called { xid, procedure, arguments: reader })
}

/// What became of a call (RFC 5531 section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It was carried out: results follow.
    Done,
    /// There is no such program here.
    NoProgram,
    /// Of the program there is this version alone.
    OnlyVersion(u32),
    /// There is no such procedure.
    NoProcedure,
    /// Its arguments make no sense.
    Garbage,
}

/// Appends a record's mark and a reply's header. Pass what it gives to [`end_call`] after the results.
#[must_use]
pub fn begin_reply(out: &mut Vec<u8>, xid: u32, outcome: Outcome) -> usize {
    let begin = out.len();
    // Accepted, without a verifier.
    [0, xid, REPLY, 0, AUTH_NONE, 0].into_iter().for_each(|value| xdr::word(out, value));
    match outcome {
        Outcome::Done => xdr::word(out, 0),
        Outcome::NoProgram => xdr::word(out, 1),
        Outcome::OnlyVersion(version) => {
            [2, version, version].into_iter().for_each(|value| xdr::word(out, value));
        }
        Outcome::NoProcedure => xdr::word(out, 3),
        Outcome::Garbage => xdr::word(out, 4),
    }
    begin
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn marked(pieces: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, piece) in pieces.iter().enumerate() {
            let last = if at + 1 == pieces.len() { LAST } else { 0 };
            xdr::word(&mut out, piece.len() as u32 | last);
            out.extend_from_slice(piece);
        }
        out
    }

    #[test]
    fn a_call_has_its_caller_and_its_length() {
        let caller = Caller { machine: "me".into(), uid: 1, gid: 2, gids: vec![3] };
        let mut out = vec![9; 4];
        let procedure = Procedure { program: 100_003, version: 4, number: 1 };
        let begin = begin_call(&mut out, 7, procedure, Some(&caller));
        end_call(&mut out, begin, 100);
        let mut reader = Reader::new(&out[4..]);
        let words: Vec<u32> = std::iter::from_fn(|| reader.word().ok()).collect();
        let length = (out.len() - 8 + 100) as u32 | LAST;
        assert_eq!(words[..9], [length, 7, 0, 2, 100_003, 4, 1, 1, 28]);
        assert_eq!(words[9..], [0, 2, u32::from_be_bytes(*b"me\0\0"), 1, 2, 1, 3, 0, 0]);
    }

    #[test]
    fn a_server_reads_what_a_client_writes_and_the_other_way_round() {
        let caller = Caller { machine: "me".into(), uid: 1, gid: 2, gids: vec![3] };
        let procedure = Procedure { program: 100_005, version: 3, number: 1 };
        for caller in [None, Some(&caller)] {
            let mut out = Vec::new();
            let begin = begin_call(&mut out, 7, procedure, caller);
            xdr::word(&mut out, 99);
            end_call(&mut out, begin, 0);
            let mut call = called(&out[4..]).unwrap();
            assert_eq!((call.xid, call.procedure, call.arguments.word()), (7, procedure, Ok(99)));
            assert_eq!(called(&out[4..40]).unwrap_err(), RpcError::Xdr(XdrError::Cut));
        }
        for (outcome, error) in [
            (Outcome::Done, None),
            (Outcome::NoProgram, Some(RpcError::Program)),
            (Outcome::OnlyVersion(3), Some(RpcError::ProgramVersion(3, 3))),
            (Outcome::NoProcedure, Some(RpcError::NotDone(3))),
            (Outcome::Garbage, Some(RpcError::NotDone(4))),
        ] {
            let mut out = Vec::new();
            let begin = begin_reply(&mut out, 7, outcome);
            end_call(&mut out, begin, 0);
            assert_eq!(answered(&out[4..]), Ok(7));
            assert_eq!(results(&out[4..]).err(), error, "{outcome:?}");
            assert!(called(&out[4..]).is_err());
        }
    }

    #[test]
    fn replies_that_refuse_have_words() {
        let reply = |words: &[u32]| {
            let mut out = Vec::new();
            [7, REPLY].iter().chain(words).for_each(|value| xdr::word(&mut out, *value));
            results(&out).map(|reader| reader.left())
        };
        assert_eq!(reply(&[0, 0, 0, 0, 5]), Ok(4));
        assert_eq!(reply(&[1, 1, 2]), Err(RpcError::Denied(2)));
        assert_eq!(reply(&[1, 0, 2, 2]), Err(RpcError::RpcVersion));
        assert_eq!(reply(&[0, 0, 0, 1]), Err(RpcError::Program));
        assert_eq!(reply(&[0, 0, 0, 2, 3, 4]), Err(RpcError::ProgramVersion(3, 4)));
        assert_eq!(reply(&[0, 0, 0, 4]), Err(RpcError::NotDone(4)));
        assert_eq!(reply(&[0, 0, 500, 4]), Err(RpcError::Xdr(XdrError::Long)));
    }

    proptest! {
        #[test]
        fn pieces_are_put_together(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..8), cut in 0usize..400,
        ) {
            let whole = marked(&pieces);
            let mut input = [&whole[..], b"next"].concat();
            if cut < whole.len() {
                prop_assert_eq!(record(&mut input[..cut], 1000), Ok(Record::Incomplete));
            }
            let Ok(Record::Whole { message, consumed }) = record(&mut input, 1000) else { panic!("it is whole") };
            prop_assert_eq!(&input[message], &pieces.concat()[..]);
            prop_assert_eq!(&input[consumed..], b"next");
            let length = pieces.concat().len();
            if length > 0 {
                prop_assert_eq!(record(&mut marked(&pieces), length - 1), Err(RpcError::Long(length - 1)));
            }
        }

        #[test]
        fn any_bytes_are_taken_without_harm(mut bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(Record::Whole { message, consumed }) = record(&mut bytes, 100) {
                prop_assert!(message.end <= consumed && consumed <= bytes.len());
                let message = &bytes[message];
                let _ = (answered(message), results(message).map(|r| r.left()), called(message).map(|c| c.xid));
            }
        }
    }
}
