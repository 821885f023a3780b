//! NFS 3 and MOUNT: calls byte by byte, answers as a server makes them, and hostile ones.

use proptest::prelude::*;
use vtax_wire::nfs::{Handle, NfsError, Stability, status};
use vtax_wire::nfs3::{Call, MOUNT_PROGRAM, results};
use vtax_wire::rpc::{self, Caller};
use vtax_wire::xdr::{Reader, XdrError, fixed, long, opaque, word};

fn caller() -> Caller {
    Caller { machine: "me".into(), uid: 0, gid: 0, gids: Vec::new() }
}

/// The procedure of a call, and the words of its arguments.
fn sent(call: Call<'_>) -> (u32, Vec<u32>) {
    let mut out = Vec::new();
    call.append(&mut out, 1, &caller());
    let mark = u32::from_be_bytes([out[0], out[1], out[2], out[3]]);
    assert_eq!(mark, (out.len() - 4) as u32 | 1 << 31);
    let called = rpc::called(&out[4..]).unwrap();
    assert_eq!(called.procedure, call.procedure());
    let mut reader = called.arguments;
    (called.procedure.number, std::iter::from_fn(|| reader.word().ok()).collect())
}

fn text(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes)
}

#[test]
fn calls_are_what_the_standard_says() {
    let file = Handle::of(b"abcd").unwrap();
    let handle = [4, text(*b"abcd")];
    let with = |words: &[u32]| [&handle[..], words].concat();
    assert_eq!(sent(Call::Attributes(&file)), (1, with(&[])));
    // Neither mode, owner nor group; the size; neither time; whatever it was.
    assert_eq!(sent(Call::SetSize(&file, 9)), (2, with(&[0, 0, 0, 1, 0, 9, 0, 0, 0])));
    assert_eq!(sent(Call::LookUp(&file, "x")), (3, with(&[1, text(*b"x\0\0\0")])));
    assert_eq!(sent(Call::Read { file: &file, offset: 1 << 32, length: 7 }), (6, with(&[1, 0, 7])));
    let write = Call::Write { file: &file, offset: 3, length: 7, stability: Stability::DataSync };
    assert_eq!(sent(write), (7, with(&[0, 3, 7, 1, 7])));
    let create = |new| Call::Create { directory: &file, name: "x", new };
    let made = [0o644, 0, 0, 0, 0, 0];
    assert_eq!(sent(create(true)), (8, [with(&[1, text(*b"x\0\0\0"), 1, 1]), made.to_vec()].concat()));
    assert_eq!(sent(create(false)).1[4], 0, "unchecked");
    assert_eq!(sent(Call::RemoveDirectory(&file, "x")).0, 13);
    let list = Call::List { directory: &file, cookie: 5, verifier: [0; 8], most: 99 };
    assert_eq!(sent(list), (17, with(&[0, 5, 0, 0, 99, 99])));
    assert_eq!(sent(Call::Commit(&file)), (21, with(&[0, 0, 0])));
    assert_eq!(sent(Call::Mount("/x")), (1, vec![2, text(*b"/x\0\0")]));
    assert_eq!(sent(Call::Port(MOUNT_PROGRAM, 3)), (3, vec![100_005, 3, 6, 0]));
}

#[test]
fn data_counts_to_the_length_wherever_it_is() {
    let file = Handle::of(b"abcd").unwrap();
    let write = Call::Write { file: &file, offset: 0, length: 5, stability: Stability::FileSync };
    let (mut apart, mut together) = (Vec::new(), Vec::new());
    write.append_before(&mut apart, 1, &caller(), 8);
    apart.extend_from_slice(b"hello\0\0\0");
    write.append_with(&mut together, 1, &caller(), b"hello");
    assert_eq!(apart, together);
}

fn body(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Of a file of so many bytes.
fn attributes(out: &mut Vec<u8>, size: u64) {
    [1, 0o644, 1, 0, 0].into_iter().for_each(|value| word(out, value));
    long(out, size);
    out.extend_from_slice(&[0; 56]);
}

#[test]
fn answers_are_read() {
    let read = body(|out| {
        [0, 1].into_iter().for_each(|value| word(out, value));
        attributes(out, 77);
        [5, 1].into_iter().for_each(|value| word(out, value));
        opaque(out, b"hello");
    });
    assert_eq!(results::data(Reader::new(&read), 5), Ok((&b"hello"[..], true)));
    assert_eq!(results::data(Reader::new(&read), 4), Err(NfsError::Xdr(XdrError::Long)));
    let mut other = read;
    let at = other.len() - 5 - 3 - 4 - 8 + 3;
    other[at] = 4;
    assert_eq!(results::data(Reader::new(&other), 5), Err(NfsError::Xdr(XdrError::Value)));
    let found = body(|out| {
        word(out, 0);
        attributes(out, 77);
    });
    assert_eq!(results::attributes(Reader::new(&found)).unwrap().size, 77);
    let written = body(|out| {
        // The file before and after, as a server tells that is asked to.
        [0, 1].into_iter().for_each(|value| word(out, value));
        out.extend_from_slice(&[0; 24]);
        word(out, 1);
        attributes(out, 77);
        [5, 2].into_iter().for_each(|value| word(out, value));
        fixed(out, &[9; 8]);
    });
    let written = results::written(Reader::new(&written)).unwrap();
    assert_eq!((written.count, written.committed, written.verifier), (5, 2, [9; 8]));
    let made = body(|out| {
        [0, 1].into_iter().for_each(|value| word(out, value));
        opaque(out, b"abcd");
        [0, 0, 0].into_iter().for_each(|value| word(out, value));
    });
    assert_eq!(results::created(Reader::new(&made)), Ok(Handle::of(b"abcd")));
    let limits = body(|out| {
        [0, 0, 65536, 1, 1, 32768, 1, 1, 1].into_iter().for_each(|value| word(out, value));
        long(out, 1 << 40);
        [0, 0, 0].into_iter().for_each(|value| word(out, value));
    });
    let limits = results::limits(Reader::new(&limits)).unwrap();
    assert_eq!((limits.longest_read, limits.longest_write, limits.largest), (65536, 32768, 1 << 40));
}

#[test]
fn handles_and_ports_are_bounded() {
    let mounted = |length: usize| {
        body(|out| {
            word(out, 0);
            opaque(out, &vec![7; length]);
            [1, 1].into_iter().for_each(|value| word(out, value));
        })
    };
    assert!(results::mounted(Reader::new(&mounted(64))).is_ok());
    assert_eq!(results::mounted(Reader::new(&mounted(65))), Err(NfsError::Xdr(XdrError::Long)));
    let port = |value: u32| results::port(Reader::new(&value.to_be_bytes()));
    assert_eq!((port(0), port(2049)), (Ok(None), Ok(Some(2049))));
    assert_eq!(port(65536), Err(NfsError::Xdr(XdrError::Value)));
}

#[test]
fn failures_have_the_names_of_their_protocol() {
    let of = |status: u32| status.to_be_bytes();
    let error = results::mounted(Reader::new(&of(status::ACCESS))).unwrap_err();
    assert_eq!(error.to_string(), "access denied (MNT3ERR_ACCES) (MNT)");
    let error = results::removed(Reader::new(&of(status::DELAY))).unwrap_err();
    assert_eq!(error.to_string(), "the server needs more time (NFS3ERR_JUKEBOX) (REMOVE)");
    assert_eq!(error.status(), Some(status::DELAY));
}

#[test]
fn directories_are_read_to_their_end_without_themselves() {
    let list = body(|out| {
        [0, 0].into_iter().for_each(|value| word(out, value));
        fixed(out, &[7; 8]);
        for (cookie, name) in [(1, "."), (2, ".."), (3, "a"), (5, "file-2")] {
            word(out, 1);
            long(out, cookie + 100);
            opaque(out, name.as_bytes());
            long(out, cookie);
            [0, 0].into_iter().for_each(|value| word(out, value));
        }
        [0, 1].into_iter().for_each(|value| word(out, value));
    });
    let mut names = Vec::new();
    let found = results::entries(Reader::new(&list), |name| names.push(name.to_vec())).unwrap();
    assert_eq!((found.count, found.any, found.cookie, found.end), (2, true, 5, true));
    assert_eq!((names, found.verifier), (vec![b"a".to_vec(), b"file-2".to_vec()], [7; 8]));
}

/// The messages that NFS-Ganesha sent, one after the other, each as the results of its call.
#[test]
fn a_real_servers_answers_are_read() {
    let mut capture = include_bytes!("captures/ganesha3.bin").to_vec();
    let (mut rest, mut all) = (&mut capture[..], Vec::new());
    while !rest.is_empty() {
        let rpc::Record::Whole { message, consumed } = rpc::record(rest, 1 << 16).unwrap() else { panic!() };
        all.push(rest[message].to_vec());
        rest = &mut rest[consumed..];
    }
    let mut all = all.iter().map(|message| rpc::results(message).unwrap());
    let mut next = || all.next().unwrap();
    assert_eq!(results::mounted(next()).unwrap().as_bytes().len(), 64);
    assert_eq!(results::mounted(next()).unwrap_err().status(), Some(status::ACCESS));
    assert_eq!(next().left(), 0, "NULL");
    assert_eq!(results::limits(next()).unwrap().longest_read, 64 << 20);
    assert!(results::space(next()).is_ok());
    assert_eq!(results::looked_up(next()).unwrap_err().status(), Some(status::NOENT));
    assert!(results::created(next()).unwrap().is_some());
    assert_eq!(results::created(next()).unwrap_err().status(), Some(status::EXIST));
    assert_eq!(results::attributes(next()).map(|found| (found.kind, found.size)), Ok((1, 0)));
    let (unstable, stable) = (results::written(next()).unwrap(), results::written(next()).unwrap());
    assert_eq!((unstable.count, stable.count, stable.committed), (300, 8, 2));
    assert_eq!(results::committed(next()), Ok(unstable.verifier));
    let (data, end) = results::data(next(), 4096).unwrap();
    assert_eq!((data.len(), data.ends_with(b"hellovtaxdata"), end), (308, true, true));
    assert_eq!(results::data(next(), 64), Ok((&b""[..], true)));
    assert_eq!(results::set(next()), Ok(()));
    assert!(results::made_directory(next()).unwrap().is_some());
    assert!((0..3).all(|_| results::created(next()).is_ok()));
    let mut names = Vec::new();
    let found = results::entries(next(), |name| names.push(name.to_vec())).unwrap();
    names.sort();
    assert_eq!((found.count, found.end, names), (3, true, [b"0", b"1", b"2"].map(|n| n.to_vec()).to_vec()));
    assert_eq!(results::entries(next(), |_| ()).unwrap().count, 2);
    assert!((0..3).all(|_| results::removed(next()).is_ok()));
    assert_eq!((results::removed_directory(next()), results::removed(next())), (Ok(()), Ok(())));
    assert_eq!(results::removed(next()).unwrap_err().status(), Some(status::NOENT));
    assert_eq!(results::attributes(next()).unwrap_err().status(), Some(status::STALE));
}

proptest! {
    #[test]
    fn any_answer_is_read_without_harm(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), good: bool,
    ) {
        let bytes = if good { [&[0; 4][..], &bytes].concat() } else { bytes };
        let reader = Reader::new(&bytes);
        let mut longest = 0;
        let _ = (results::attributes(reader), results::set(reader), results::looked_up(reader));
        let _ = (results::data(reader, 100), results::written(reader), results::committed(reader));
        let _ = (results::created(reader), results::made_directory(reader), results::removed(reader));
        let _ = (results::removed_directory(reader), results::limits(reader), results::space(reader));
        let _ = (results::mounted(reader), results::port(reader));
        let _ = results::entries(reader, |name| longest = name.len().max(longest));
        prop_assert!(longest <= 255);
    }
}
