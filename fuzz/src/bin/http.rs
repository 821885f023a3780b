//! HTTP scanners: any bytes, torn anywhere, give the same answer and never a panic.
//!
//! The first byte says in pieces of what size the rest is fed, the second what it begins with, so
//! that bodies and fields are reached without guessing a whole start line first.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_wire::http::{HttpError, Request, RequestScanner, Response, ResponseScanner};

fn responses(input: &[u8], piece: usize) -> (Vec<Response>, Option<HttpError>) {
    let mut scanner = ResponseScanner::new();
    let mut found = Vec::new();
    for mut part in input.chunks(piece) {
        while !part.is_empty() {
            match scanner.scan(part) {
                Ok(scanned) => {
                    found.extend(scanned.response);
                    part = &part[scanned.consumed..];
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    match scanner.end() {
        Ok(last) => {
            found.extend(last);
            (found, None)
        }
        Err(error) => (found, Some(error)),
    }
}

fn requests(input: &[u8], piece: usize) -> (Vec<Request>, Option<HttpError>) {
    let mut scanner = RequestScanner::new();
    let mut found = Vec::new();
    for mut part in input.chunks(piece) {
        while !part.is_empty() {
            match scanner.scan(part) {
                Ok(scanned) => {
                    found.extend(scanned.request);
                    part = &part[scanned.consumed..];
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

const BEGINNINGS: [&[u8]; 5] = [
    b"",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"HTTP/1.0 200 OK\r\nContent-Length: ",
    b"GET / HTTP/1.1\r\nHost: a\r\n",
];

fuzz_target!(|data: &[u8]| {
    let [piece, beginning, rest @ ..] = data else { return };
    let piece = usize::from(*piece) + 1;
    let input = [BEGINNINGS[usize::from(*beginning) % BEGINNINGS.len()], rest].concat();
    let whole = input.len().max(1);
    assert_eq!(responses(&input, piece), responses(&input, whole));
    assert_eq!(requests(&input, piece), requests(&input, whole));
});
