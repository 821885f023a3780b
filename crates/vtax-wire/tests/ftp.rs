//! FTP's replies and lists: torn anywhere they mean the same.

use proptest::prelude::*;
use vtax_wire::ftp::{FtpError, ListScanned, ListScanner, ReplyScanned, ReplyScanner};

type Found = (Vec<(u16, Vec<u8>)>, Option<FtpError>);

fn replies(parts: &[&[u8]]) -> Found {
    let (mut scanner, mut found) = (ReplyScanner::new(), Vec::new());
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            match scanner.scan(rest) {
                Ok(ReplyScanned { consumed, reply }) => {
                    found.extend(reply.map(|reply| (reply.code, scanner.text().to_vec())));
                    rest = &rest[consumed..];
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

/// Size and name of an entry; `None`: the line is none.
type Line = Option<(u64, Option<Vec<u8>>)>;

fn entries(parts: &[&[u8]]) -> (Vec<Line>, Option<FtpError>) {
    let (mut scanner, mut found) = (ListScanner::new(), Vec::new());
    for part in parts {
        let mut rest = *part;
        while !rest.is_empty() {
            match scanner.scan(rest) {
                Ok(ListScanned { consumed, line }) => {
                    let own = line.map(|line| line.ok().map(|e| (e.size, e.name.map(<[u8]>::to_vec))));
                    found.extend(own);
                    rest = &rest[consumed..];
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

/// The input in pieces that are as long as `cuts` say, in turn.
fn torn<'a>(input: &'a [u8], cuts: &[usize]) -> Vec<&'a [u8]> {
    let (mut rest, mut parts) = (input, Vec::new());
    for cut in cuts.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (part, more) = rest.split_at((*cut).clamp(1, rest.len()));
        parts.push(part);
        rest = more;
    }
    parts
}

/// A reply as RFC 959 has it: its code, the texts of its lines.
fn reply() -> impl Strategy<Value = (u16, Vec<String>)> {
    (100_u16..600, proptest::collection::vec("[ -~]{0,40}", 1..5))
}

fn written(replies: &[(u16, Vec<String>)]) -> Vec<u8> {
    let mut out = String::new();
    for (code, lines) in replies {
        let (last, first) = lines.split_last().expect("a line");
        for (place, line) in first.iter().enumerate() {
            // Lines in between have a space in front, as RFC 959 advises where they may begin with numbers.
            out += &if place == 0 { format!("{code}-{line}\r\n") } else { format!(" {line}\r\n") };
        }
        out += &format!("{code} {last}\r\n");
    }
    out.into_bytes()
}

proptest! {
    #[test]
    fn replies_are_the_same_however_they_are_torn(
        sent in proptest::collection::vec(reply(), 0..5),
        cuts in proptest::collection::vec(1_usize..30, 1..10),
    ) {
        let bytes = written(&sent);
        let expected: Vec<(u16, Vec<u8>)> =
            sent.iter().map(|(code, lines)| (*code, lines.last().unwrap().clone().into_bytes())).collect();
        prop_assert_eq!(replies(&torn(&bytes, &cuts)), (expected, None));
    }

    #[test]
    fn any_bytes_mean_the_same_however_they_are_torn(
        bytes in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'\n'), Just(b'2'), Just(b'0'), Just(b'-'), Just(b' ')], 0..400),
        cuts in proptest::collection::vec(1_usize..30, 1..10),
    ) {
        prop_assert_eq!(replies(&torn(&bytes, &cuts)), replies(&[&bytes]));
        prop_assert_eq!(entries(&torn(&bytes, &cuts)), entries(&[&bytes]));
    }

    #[test]
    fn entries_come_back(
        files in proptest::collection::vec(("[a-z][a-z0-9. ]{0,20}", any::<u32>()), 0..8),
        cuts in proptest::collection::vec(1_usize..60, 1..10),
    ) {
        let line = |(name, size): &(String, u32)| format!("-rw-r--r--   1 ftp ftp {size:>8} Nov 22 12:00 {name}\r\n");
        let text: String = files.iter().map(line).collect();
        let expected = files.iter().map(|(name, size)| Some((u64::from(*size), Some(name.clone().into_bytes()))));
        prop_assert_eq!(entries(&torn(text.as_bytes(), &cuts)), (expected.collect(), None));
    }

    #[test]
    fn texts_of_replies_never_panic(text in proptest::collection::vec(any::<u8>(), 0..100), port in 1_u16..) {
        let _ = vtax_wire::ftp::extended_passive(&text);
        let _ = vtax_wire::ftp::passive(&text);
        let _ = vtax_wire::ftp::size(&text);
        let (high, low) = (port >> 8, port & 255);
        let six = format!("Entering Passive Mode (10,1,2,3,{high},{low})");
        prop_assert_eq!(vtax_wire::ftp::passive(six.as_bytes()), Some(([10, 1, 2, 3].into(), port)));
        let extended = format!("Entering (|||{port}|)");
        prop_assert_eq!(vtax_wire::ftp::extended_passive(extended.as_bytes()), Some(port));
    }
}
