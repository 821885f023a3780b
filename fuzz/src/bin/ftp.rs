//! FTP's replies, and the lines of a LIST: any bytes, torn anywhere, mean the same and are never a panic.
//!
//! The first byte says in pieces of what size the rest is fed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::ftp::{self, FtpError, ListScanner, ReplyScanner};

fn replies(input: &[u8], piece: usize) -> (Vec<(u16, Vec<u8>)>, Option<FtpError>) {
    let (mut scanner, mut found) = (ReplyScanner::new(), Vec::new());
    for mut part in input.chunks(piece) {
        while !part.is_empty() {
            match scanner.scan(part) {
                Ok(scanned) => {
                    found.extend(scanned.reply.map(|reply| (reply.code, scanner.text().to_vec())));
                    part = &part[scanned.consumed..];
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fn entries(input: &[u8], piece: usize) -> (Vec<Option<(u64, Option<Vec<u8>>)>>, Option<FtpError>) {
    let (mut scanner, mut found) = (ListScanner::new(), Vec::new());
    for mut part in input.chunks(piece) {
        while !part.is_empty() {
            match scanner.scan(part) {
                Ok(scanned) => {
                    let own = |e: ftp::Entry<'_>| (e.size, e.name.map(<[u8]>::to_vec));
                    found.extend(scanned.line.map(|line| line.ok().map(own)));
                    part = &part[scanned.consumed..];
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fuzz_target!(|data: &[u8]| {
    let [piece, input @ ..] = data else { return };
    let (piece, whole) = (usize::from(*piece) + 1, input.len().max(1));
    assert_eq!(replies(input, piece), replies(input, whole));
    assert_eq!(entries(input, piece), entries(input, whole));
    let _ = (ftp::extended_passive(input), ftp::passive(input), ftp::size(input));
});
