//! NFS 4.1: calls byte by byte, answers as a server makes them, and hostile ones.

use proptest::prelude::*;
use vtax_wire::nfs::words;
use vtax_wire::nfs4::{Attributes, Compound, Handle, HowOpen, NfsError, Results, Stability, StateId, status};
use vtax_wire::rpc::Caller;
use vtax_wire::xdr::{Reader, XdrError, fixed, long, opaque, word};

fn caller() -> Caller {
    Caller { machine: "me".into(), uid: 0, gid: 0, gids: Vec::new() }
}

/// The words of a compound behind its call's header.
fn sent(build: impl FnOnce(Compound<'_>) -> Compound<'_>) -> Vec<u32> {
    let mut out = Vec::new();
    build(Compound::begin(&mut out, 1, &caller())).end();
    let mark = u32::from_be_bytes([out[0], out[1], out[2], out[3]]);
    assert_eq!(mark, (out.len() - 4) as u32 | 1 << 31);
    let mut reader = Reader::new(&out[68..]);
    std::iter::from_fn(|| reader.word().ok()).collect()
}

#[test]
fn calls_are_numbered_operations() {
    let handle = Handle::of(b"abcd").unwrap();
    let state = StateId { seqid: 5, other: [0; 12] };
    let read = sent(|c| c.sequence(&[0; 16], (3, 9), 7).file(&handle).read(state, 1 << 32, 4096));
    assert_eq!(read[..3], [0, 1, 3], "no tag, minor version 1, three operations");
    assert_eq!(read[3..12], [53, 0, 0, 0, 0, 9, 3, 7, 0]);
    assert_eq!(read[12..15], [22, 4, u32::from_be_bytes(*b"abcd")]);
    assert_eq!(read[15..], [25, 5, 0, 0, 0, 1, 0, 4096]);
    let open = sent(|c| c.open(HowOpen::CreateNew, 7, b"o", "f"));
    assert_eq!(open[2..9], [1, 18, 0, 0x403, 0, 0, 7]);
    let owner = u32::from_be_bytes(*b"o\0\0\0");
    let name = u32::from_be_bytes(*b"f\0\0\0");
    assert_eq!(open[9..], [1, owner, 1, 1, 2, 0, 2, 4, 0o644, 0, 1, name]);
    assert_eq!(sent(|c| c.set_size(state, 9))[8..], [1, 16, 8, 0, 9]);
}

#[test]
fn data_from_elsewhere_counts_to_the_length() {
    let mut out = Vec::new();
    let state = StateId::CURRENT;
    Compound::begin(&mut out, 1, &caller()).write(state, 0, Stability::FileSync, 100).end_before(100);
    let mark = u32::from_be_bytes([out[0], out[1], out[2], out[3]]) & !(1 << 31);
    assert_eq!(mark as usize, out.len() - 4 + 100);
    assert_eq!(out[out.len() - 8..], [0, 0, 0, 2, 0, 0, 0, 100]);
}

/// An answer of operations.
fn answer(operations: &[(u32, u32, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    word(&mut out, operations.last().map_or(0, |last| last.1));
    opaque(&mut out, b"");
    word(&mut out, operations.len() as u32);
    for (number, status, body) in operations {
        word(&mut out, *number);
        word(&mut out, *status);
        out.extend_from_slice(body);
    }
    out
}

fn body(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

#[test]
fn answers_are_read_in_order() {
    let sequence = body(|out| {
        fixed(out, &[1; 16]);
        [1, 3, 7, 7, 0].into_iter().for_each(|value| word(out, value));
    });
    let data = body(|out| {
        word(out, 1);
        opaque(out, b"hello");
    });
    let bytes = answer(&[(53, 0, sequence), (22, 0, Vec::new()), (25, 0, data)]);
    let mut results = Results::read(Reader::new(&bytes)).unwrap();
    assert_eq!(results.sequence(), Ok(3));
    assert_eq!(results.file(), Ok(()));
    assert_eq!(results.clone().data(4), Err(NfsError::Xdr(XdrError::Long)));
    assert_eq!(results.data(5), Ok((&b"hello"[..], true)));
    assert_eq!(results.removed(), Err(NfsError::Order));
}

#[test]
fn a_failed_operation_is_named() {
    let bytes = answer(&[(24, 0, Vec::new()), (15, status::NOENT, Vec::new())]);
    let mut results = Results::read(Reader::new(&bytes)).unwrap();
    results.root().unwrap();
    let error = results.lookup().unwrap_err();
    assert_eq!(error.to_string(), "there is no such file (NFS4ERR_NOENT) (LOOKUP)");
    let nothing = body(|out| [10021, 0, 0].into_iter().for_each(|value| word(out, value)));
    let error = Results::read(Reader::new(&nothing)).unwrap_err();
    assert!(error.to_string().contains("minor version"), "{error}");
    assert_eq!(words("NFS4", 99_999), "an error of another kind, 99999");
}

#[test]
fn attributes_come_in_the_order_of_their_numbers() {
    let some = body(|out| {
        [2, 1 << 10 | 1 << 31, 1 << 10].into_iter().for_each(|value| word(out, value));
        word(out, 4 + 8 + 8);
        word(out, 90);
        long(out, 1 << 20);
        long(out, 5);
    });
    let bytes = answer(&[(9, 0, some)]);
    let facts = Results::read(Reader::new(&bytes)).unwrap().attributes(Attributes::FileSystem).unwrap();
    assert_eq!((facts.lease, facts.longest_read), (Some(90), None));
    assert_eq!((facts.longest_write, facts.free), (Some(1 << 20), Some(5)));
    // What wasn't asked for can't be skipped: nothing tells its length.
    let error = Results::read(Reader::new(&bytes)).unwrap().attributes(Attributes::File).unwrap_err();
    assert_eq!(error, NfsError::Order);
}

#[test]
fn directories_are_read_to_their_end() {
    let list = body(|out| {
        fixed(out, &[7; 8]);
        for (cookie, name) in [(3, "a"), (5, "file-2")] {
            word(out, 1);
            long(out, cookie);
            opaque(out, name.as_bytes());
            [0, 0].into_iter().for_each(|value| word(out, value));
        }
        [0, 1].into_iter().for_each(|value| word(out, value));
    });
    let bytes = answer(&[(26, 0, list)]);
    let mut names = Vec::new();
    let found =
        Results::read(Reader::new(&bytes)).unwrap().entries(|name| names.push(name.to_vec())).unwrap();
    assert_eq!((found.count, found.cookie, found.end, found.verifier), (2, 5, true, [7; 8]));
    assert_eq!(names, [b"a".to_vec(), b"file-2".to_vec()]);
}

proptest! {
    #[test]
    fn any_answer_is_read_without_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), number in prop::sample::select(vec![4u32, 5, 6, 9, 10, 18, 25, 26, 28, 34, 38, 42, 43, 53]),
    ) {
        let whole = answer(&[(number, 0, bytes.clone())]);
        let results = Results::read(Reader::new(&whole)).unwrap();
        let (mut a, mut b, mut c) = (results, results, results);
        let _ = (a.exchange_id(), b.create_session(), c.sequence());
        let (mut a, mut b, mut c) = (results, results, results);
        let _ = (a.handle(), b.open(), c.close());
        let (mut a, mut b, mut c) = (results, results, results);
        let _ = (a.attributes(Attributes::File), b.data(100), c.written());
        let (mut a, mut b, mut c) = (results, results, results);
        let mut longest = 0;
        let _ = (a.committed(), b.entries(|name| longest = name.len().max(longest)), c.create_directory());
        prop_assert!(longest <= 255);
        let _ = Results::read(Reader::new(&bytes));
    }
}
