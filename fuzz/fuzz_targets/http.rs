//! HTTP scanners: any bytes, torn anywhere, give the same answer and never a panic.
//!
//! The first byte says in pieces of what size the rest is fed.
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

fuzz_target!(|data: &[u8]| {
    let Some((&piece, input)) = data.split_first() else { return };
    let piece = usize::from(piece) + 1;
    let whole = input.len().max(1);
    assert_eq!(responses(input, piece), responses(input, whole));
    assert_eq!(requests(input, piece), requests(input, whole));
});
