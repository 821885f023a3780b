//! Golden and property tests of the RESP2 codec.

use proptest::prelude::*;
use vtax_wire::resp::*;

/// Feeds `input` in pieces cut at `cuts`; the replies with their values, and the error, if any.
fn replies(input: &[u8], cuts: &[usize]) -> (Vec<(Reply, Vec<u8>)>, Option<RespError>) {
    let mut scanner = ReplyScanner::new();
    let (mut found, mut value) = (Vec::new(), Vec::new());
    let mut start = 0;
    for end in cuts.iter().copied().chain([input.len()]) {
        let end = end.min(input.len());
        let mut piece = &input[start.min(end)..end];
        start = end.max(start);
        while !piece.is_empty() {
            match scanner.scan(piece) {
                Ok(scanned) => {
                    assert!(scanned.consumed > 0 && scanned.consumed <= piece.len());
                    match scanned.item {
                        Item::Incomplete => assert_eq!(scanned.consumed, piece.len()),
                        Item::Bytes(bytes) => value.extend_from_slice(bytes),
                        Item::End(reply) => {
                            assert!(scanner.is_between());
                            found.push((reply, std::mem::take(&mut value)));
                        }
                    }
                    piece = &piece[scanned.consumed..];
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fn one(input: &str) -> Result<Reply, RespError> {
    match replies(input.as_bytes(), &[]) {
        (_, Some(error)) => Err(error),
        (found, None) => {
            assert_eq!(found.len(), 1, "{input:?}");
            Ok(found[0].0)
        }
    }
}

#[test]
fn every_type_of_reply_is_read() {
    assert_eq!(one("+OK\r\n"), Ok(Reply::Status));
    assert_eq!(one("+\r\n"), Ok(Reply::Status));
    assert_eq!(one(":42\r\n"), Ok(Reply::Integer(42)));
    assert_eq!(one(":-9223372036854775808\r\n"), Ok(Reply::Integer(i64::MIN)));
    assert_eq!(one("$-1\r\n"), Ok(Reply::Null));
    assert_eq!(one("$0\r\n\r\n"), Ok(Reply::Value(0)));
    let (found, error) = replies(b"$5\r\n\r\n$3\n\r\n$1\r\nx\r\n", &[]);
    assert_eq!(error, None);
    assert_eq!(found, [(Reply::Value(5), b"\r\n$3\n".to_vec()), (Reply::Value(1), b"x".to_vec())]);
}

#[test]
fn an_error_is_known_by_its_first_word() {
    for (line, word) in [
        ("-LOADING Redis is loading the dataset in memory\r\n", "LOADING"),
        ("-ERR\r\n", "ERR"),
        ("-\r\n", ""),
        ("-AVERYLONGWORDTHATISCUT x\r\n", "AVERYLONGWORDTH"),
    ] {
        let Ok(Reply::Error(code)) = one(line) else { panic!("{line:?} is an error") };
        assert_eq!(code.as_str(), word);
    }
}

#[test]
fn what_is_no_reply_is_refused() {
    for (input, error) in [
        ("*1\r\n", RespError::Type),
        ("OK\r\n", RespError::Type),
        ("$x\r\n", RespError::Number),
        ("$\r\n", RespError::Number),
        ("$-2\r\n", RespError::Number),
        ("$--1\r\n", RespError::Number),
        ("$536870913\r\n", RespError::Number),
        (":9223372036854775808\r\n", RespError::Number),
        (":1\n", RespError::Number),
        ("+OK\n", RespError::LineEnd),
        ("+OK\rx", RespError::LineEnd),
        ("$1\r\nxy\r\n", RespError::LineEnd),
        ("$1\r\nx\rx", RespError::LineEnd),
    ] {
        assert_eq!(one(input), Err(error), "{input:?}");
    }
    let long = format!("+{}\r\n", "x".repeat(LINE_BYTES_MAX as usize));
    assert_eq!(one(&long), Ok(Reply::Status));
    let longer = format!("+{}\r\n", "x".repeat(LINE_BYTES_MAX as usize + 3));
    assert_eq!(one(&longer), Err(RespError::LongLine));
}

fn arbitrary_reply() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[ -~]{0,20}".prop_map(|text| format!("+{text}\r\n").into_bytes()),
        "[ -~]{0,20}".prop_map(|text| format!("-{text}\r\n").into_bytes()),
        any::<i64>().prop_map(|number| format!(":{number}\r\n").into_bytes()),
        Just(b"$-1\r\n".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..200).prop_map(|value| {
            [format!("${}\r\n", value.len()).into_bytes(), value, b"\r\n".to_vec()].concat()
        }),
    ]
}

proptest! {
    #[test]
    fn replies_are_the_same_wherever_they_are_torn(
        parts in proptest::collection::vec(arbitrary_reply(), 0..8),
        mut cuts in proptest::collection::vec(0usize..2000, 0..12),
    ) {
        let input = parts.concat();
        cuts.sort_unstable();
        let whole = replies(&input, &[]);
        prop_assert_eq!(whole.1, None);
        prop_assert_eq!(whole.0.len(), parts.len());
        prop_assert_eq!(&whole, &replies(&input, &cuts));
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        input in proptest::collection::vec(any::<u8>(), 0..300),
        mut cuts in proptest::collection::vec(0usize..300, 0..12),
    ) {
        cuts.sort_unstable();
        prop_assert_eq!(replies(&input, &[]), replies(&input, &cuts));
    }

    #[test]
    fn a_command_is_what_its_parts_are(
        key in proptest::collection::vec(any::<u8>(), 0..40),
        value in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let mut out = Vec::new();
        set(&mut out, &key, value.len(), |out| out.extend_from_slice(&value));
        let mut expected = format!("*3\r\n$3\r\nSET\r\n${}\r\n", key.len()).into_bytes();
        expected.extend_from_slice(&key);
        expected.extend_from_slice(format!("\r\n${}\r\n", value.len()).as_bytes());
        expected.extend_from_slice(&value);
        expected.extend_from_slice(b"\r\n");
        prop_assert_eq!(out, expected);
    }
}
