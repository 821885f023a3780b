//! Golden and property tests of the HTTP scanners.

use proptest::prelude::*;
use vtax_wire::http::*;

/// Feeds `input` in pieces cut at `cuts`; the responses and the error, if any.
fn responses(input: &[u8], cuts: &[usize]) -> (Vec<Response>, Option<HttpError>) {
    let mut scanner = ResponseScanner::new();
    let mut found = Vec::new();
    let mut start = 0;
    for end in cuts.iter().copied().chain([input.len()]) {
        let mut piece = &input[start.min(end)..end];
        start = end.max(start);
        while !piece.is_empty() {
            match scanner.scan(piece) {
                Ok(scanned) => {
                    assert!(scanned.consumed <= piece.len());
                    assert!(scanned.response.is_some() || scanned.consumed == piece.len());
                    piece = &piece[scanned.consumed..];
                    found.extend(scanned.response);
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

fn requests(input: &[u8], cuts: &[usize]) -> (Vec<Request>, Option<HttpError>) {
    let mut scanner = RequestScanner::new();
    let mut found = Vec::new();
    let mut start = 0;
    for end in cuts.iter().copied().chain([input.len()]) {
        let mut piece = &input[start.min(end)..end];
        start = end.max(start);
        while !piece.is_empty() {
            match scanner.scan(piece) {
                Ok(scanned) => {
                    assert!(scanned.consumed > 0 && scanned.consumed <= piece.len());
                    assert!(scanned.request.is_some() || scanned.consumed == piece.len());
                    piece = &piece[scanned.consumed..];
                    found.extend(scanned.request);
                }
                Err(error) => return (found, Some(error)),
            }
        }
    }
    (found, None)
}

fn one(input: &str) -> Result<Response, HttpError> {
    match responses(input.as_bytes(), &[]) {
        (_, Some(error)) => Err(error),
        (found, None) => {
            assert_eq!(found.len(), 1, "{input:?}");
            Ok(found[0])
        }
    }
}

const OK: Response = Response { status: 200, keep_alive: true };
const OK_CLOSE: Response = Response { status: 200, keep_alive: false };

#[test]
fn a_response_to_head_has_no_body_and_interim_ones_are_counted() {
    let mut scanner = ResponseScanner::new();
    scanner.expect_no_body();
    let input = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    let first = scanner.scan_part(&input[..25]).unwrap();
    assert_eq!((first.consumed, first.response, scanner.interims()), (25, None, 1));
    assert!(scanner.is_in_head());
    let second = scanner.scan_part(&input[25..]).unwrap();
    assert_eq!((second.consumed, second.response), (input.len() - 25, Some(OK)));
    assert_eq!(scanner.interims(), 0, "the next response has its own");
}

#[test]
fn the_parts_of_a_response_are_told_apart() {
    let mut scanner = ResponseScanner::new();
    let mut rest =
        &b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"[..];
    let (mut body, mut found) = (Vec::new(), None);
    while !rest.is_empty() {
        let run = usize::try_from(scanner.skippable()).unwrap();
        let scanned = scanner.scan_part(rest).unwrap();
        body.extend_from_slice(&rest[..run.min(scanned.consumed)]);
        rest = &rest[scanned.consumed..];
        found = found.or(scanned.response);
    }
    assert_eq!((body.as_slice(), found), (&b"abcde"[..], Some(OK)));
}

#[test]
fn responses_that_are_valid() {
    let cases: &[(&str, Response)] = &[
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", OK),
        ("HTTP/1.1 200 OK\r\ncontent-LENGTH:3 \r\nServer: x\r\n\r\nabc", OK),
        ("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", OK),
        ("HTTP/1.1 200 \nContent-Length: 0\n\n", OK),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 02\r\n\r\nab", OK),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: foo, Close\r\n\r\n", OK_CLOSE),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: closed\r\n\r\n", OK),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n", OK_CLOSE),
        ("HTTP/1.0 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n", OK),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", OK_CLOSE),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nuntil the end", OK_CLOSE),
        ("HTTP/1.1 204 No Content\r\n\r\n", Response { status: 204, keep_alive: true }),
        (
            "HTTP/1.1 304 Not Modified\r\nContent-Length: 10\r\n\r\n",
            Response { status: 304, keep_alive: true },
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", OK),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", OK),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00A;x=\"y\"\r\n0123456789\r\n0 ;z\r\nT: v\r\n\r\n",
            OK,
        ),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
            OK,
        ),
        ("HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n", Response { status: 999, keep_alive: true }),
        ("HTTP/1.1 200 caf\u{e9}\r\nX-\u{7e}: \u{e9}\t\r\nContent-Length: 0\r\n\r\n", OK),
    ];
    for (input, expected) in cases {
        assert_eq!(one(input), Ok(*expected), "{input:?}");
    }
}

#[test]
fn responses_that_are_not() {
    let cases: &[(&str, HttpError)] = &[
        ("", HttpError::Truncated),
        ("HTTX/1.1 200 OK\r\n\r\n", HttpError::StartLine),
        ("\r\nHTTP/1.1 200 OK\r\n\r\n", HttpError::StartLine),
        ("HTTP/2.0 200 OK\r\n\r\n", HttpError::StartLine),
        ("HTTP/1.x 200 OK\r\n\r\n", HttpError::Version),
        ("HTTP/1.1 20 OK\r\n\r\n", HttpError::StartLine),
        ("HTTP/1.1 2000 OK\r\n\r\n", HttpError::StartLine),
        ("HTTP/1.1 099 OK\r\n\r\n", HttpError::StartLine),
        ("HTTP/1.1 200 O\0K\r\n\r\n", HttpError::StartLine),
        ("HTTP/1.1 200 OK\rX\n\r\n", HttpError::LineEnd),
        ("HTTP/1.1 101 Switching\r\n\r\n", HttpError::Upgrade),
        ("HTTP/1.1 200 OK\r\n A: b\r\n\r\n", HttpError::Fold),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 0\r\n\r\n", HttpError::Fold),
        ("HTTP/1.1 200 OK\r\nContent-Length:\r\n 1\r\n\r\n", HttpError::ContentLength),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip,\r\n chunked\r\n\r\n", HttpError::Fold),
        ("HTTP/1.1 200 OK\r\nConnection: foo,\n\tclose\r\n\r\n", HttpError::Fold),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\r\nContent-Length: 1\r\n 0\r\n\r\n", HttpError::Fold),
        ("HTTP/1.1 200 OK\r\nA: b\r\n c\0\r\n\r\n", HttpError::FieldValue),
        ("HTTP/1.1 200 OK\r\nA : b\r\n\r\n", HttpError::FieldName),
        ("HTTP/1.1 200 OK\r\n: b\r\n\r\n", HttpError::FieldName),
        ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", HttpError::FieldName),
        ("HTTP/1.1 200 OK\r\nA: b\0\r\n\r\n", HttpError::FieldValue),
        ("HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", HttpError::LineEnd),
        ("HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\n", HttpError::ContentLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", HttpError::ContentLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1 1\r\n\r\n", HttpError::ContentLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n", HttpError::ContentLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", HttpError::ContentLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", HttpError::ContentLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", HttpError::Framing),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc", HttpError::Truncated),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n", HttpError::ChunkSize),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc", HttpError::ChunkSize),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd", HttpError::ChunkEnd),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n11111111111111111\r\n", HttpError::ChunkSize),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", HttpError::Truncated),
    ];
    for (input, expected) in cases {
        let (found, error) = responses(input.as_bytes(), &[]);
        if input.is_empty() {
            assert_eq!((found.len(), error), (0, None));
        } else {
            assert_eq!(error, Some(*expected), "{input:?} gave {found:?}");
        }
    }
}

#[test]
fn responses_may_fold_what_nobody_reads() {
    let head = "HTTP/1.1 200 OK\r\n";
    for (input, expected) in [
        (format!("{head}A: b\r\n c\r\n\td\r\nContent-Length: 1\r\n\r\na"), OK),
        (format!("{head}Content-Length: 1\r\nA:\r\n \r\n c\r\n\r\na"), OK),
        (format!("{head}A: b\n c\nContent-Length: 1\n\na"), OK),
        // What looks like a field is more of the value before.
        (format!("{head}A: b\r\n Content-Length: 9\r\nContent-Length: 1\r\n\r\na"), OK),
        (format!("{head}A: b\r\n Connection: close\r\nContent-Length: 0\r\n\r\n"), OK),
        (format!("{head}A: b\r\n Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n"), OK),
        (format!("{head}A: b\r\n c\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"), OK_CLOSE),
        (format!("{head}Transfer-Encoding: chunked\r\n\r\n0\r\nT: v\r\n w\r\n\r\n"), OK),
        (
            format!(
                "HTTP/1.1 103 Hints\r\nLink: x\r\n y\r\n\r\n{head}A: b\r\n c\r\nContent-Length: 0\r\n\r\n"
            ),
            OK,
        ),
    ] {
        assert_eq!(one(&input), Ok(expected), "{input:?}");
        let bytewise: Vec<usize> = (0..input.len()).collect();
        assert_eq!(responses(input.as_bytes(), &bytewise), (vec![expected], None), "{input:?}");
        // The next response begins afresh: no field of the one before goes on in it.
        let next = format!("{input}{head} c\r\n\r\n");
        assert_eq!(responses(next.as_bytes(), &[]), (vec![expected], Some(HttpError::Fold)), "{next:?}");
    }
    let trailer = format!("{head}Transfer-Encoding: chunked\r\n\r\n0\r\n T: v\r\n\r\n");
    assert_eq!(responses(trailer.as_bytes(), &[]).1, Some(HttpError::Fold));
}

#[test]
fn heads_and_chunk_lines_are_bounded() {
    let long = "x".repeat(HEAD_BYTES_MAX as usize);
    let forever = "HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000);
    let folds = "\r\n x".repeat(HEAD_BYTES_MAX as usize / 4);
    let zeros = "0".repeat(usize::from(CHUNK_LINE_BYTES_MAX) + 1);
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (input, expected) in [
        (format!("HTTP/1.1 200 {long}"), HttpError::HeadTooLarge),
        (format!("HTTP/1.1 200 OK\r\nA: {long}"), HttpError::HeadTooLarge),
        (format!("HTTP/1.1 200 OK\r\n{long}"), HttpError::HeadTooLarge),
        (format!("{chunked}0\r\nA: {long}"), HttpError::HeadTooLarge),
        (format!("HTTP/1.1 200 OK\r\nA: b{folds}"), HttpError::HeadTooLarge),
        (format!("{chunked}0\r\nA: b{folds}"), HttpError::HeadTooLarge),
        (forever, HttpError::HeadTooLarge),
        (format!("{chunked}{zeros}"), HttpError::ChunkSize),
        (format!("{chunked}1;{long}"), HttpError::ChunkSize),
    ] {
        assert_eq!(responses(input.as_bytes(), &[]).1, Some(expected), "{}", &input[..60]);
    }
    assert_eq!(requests(format!("GET /{long}").as_bytes(), &[]).1, Some(HttpError::HeadTooLarge));
}

#[test]
fn requests_that_are_valid() {
    let (found, error) = requests(
        b"\r\nGET /bytes/10 HTTP/1.1\r\nHost: a\r\n\r\nHEAD / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n\
          POST /x HTTP/1.1\r\nhost: b\r\nContent-Length: 3\r\nConnection: close\r\n\r\n",
        &[],
    );
    assert_eq!(error, None);
    let facts: Vec<_> =
        found.iter().map(|r| (r.method, r.target.bytes(), r.keep_alive, r.has_body)).collect();
    assert_eq!(
        facts,
        [
            (Method::Get, Some(&b"/bytes/10"[..]), true, false),
            (Method::Head, Some(&b"/"[..]), true, false),
            (Method::Other, Some(&b"/x"[..]), false, true),
        ]
    );
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(TARGET_BYTES_MAX));
    let (found, _) = requests(long.as_bytes(), &[]);
    assert_eq!(found[0].target.bytes(), None);
}

#[test]
fn requests_that_are_not() {
    for (input, expected) in [
        ("GET / HTTP/1.1\r\n\r\n", HttpError::Host),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", HttpError::Host),
        ("GET /\r\n\r\n", HttpError::StartLine),
        ("GET  / HTTP/1.1\r\n\r\n", HttpError::StartLine),
        (" GET / HTTP/1.1\r\n\r\n", HttpError::StartLine),
        ("G\0T / HTTP/1.1\r\n\r\n", HttpError::StartLine),
        ("PRI * HTTP/2.0\r\n\r\n", HttpError::Version),
        ("GET / HTTP/1.1 \r\n\r\n", HttpError::StartLine),
        ("GET / HTTP/1.1\r\nHost: a\r\n\tb\r\n\r\n", HttpError::Fold),
        ("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n", HttpError::Fold),
        (
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
            HttpError::Framing,
        ),
    ] {
        assert_eq!(requests(input.as_bytes(), &[]).1, Some(expected), "{input:?}");
    }
}

#[test]
fn skipping_equals_scanning() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
    let mut scanner = ResponseScanner::new();
    assert_eq!(scanner.scan(head).unwrap().response, None);
    assert_eq!(scanner.skippable(), 100_000);
    assert_eq!(scanner.skip(99_999), None);
    assert_eq!(scanner.skip(5), Some(OK));
    assert!(scanner.is_between());
}

#[test]
fn the_state_stays_small() {
    // Ten thousand connections must not need megabytes.
    assert!(size_of::<ResponseScanner>() <= 96, "{}", size_of::<ResponseScanner>());
    assert!(size_of::<RequestScanner>() <= 160, "{}", size_of::<RequestScanner>());
}

/// Pieces that make up messages, right and wrong.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        Just(b"HTTP/1.1 200 OK\r\n".to_vec()),
        Just(b"HTTP/1.0 404 Not Found\r\n".to_vec()),
        Just(b"HTTP/1.1 100 Continue\r\n\r\n".to_vec()),
        Just(b"GET /bytes/100 HTTP/1.1\r\nHost: a\r\n".to_vec()),
        Just(b"Content-Length: 5\r\n".to_vec()),
        Just(b"Transfer-Encoding: chunked\r\n".to_vec()),
        Just(b"Connection: keep-alive, close\r\n".to_vec()),
        Just(b"X: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n".to_vec()),
        Just(b" Content-Length: 7\r\n".to_vec()),
        Just(b"\r\n".to_vec()),
        Just(b"5\r\nhello\r\n".to_vec()),
        Just(b"0\r\n\r\n".to_vec()),
        Just(b"hello".to_vec()),
        proptest::collection::vec(any::<u8>(), 0..8),
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn cut_places(length: usize, seeds: &[prop::sample::Index]) -> Vec<usize> {
    let mut cuts: Vec<usize> = seeds.iter().map(|i| i.index(length + 1)).collect();
    cuts.sort_unstable();
    cuts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_split_gives_the_same(input in message(), seeds in proptest::collection::vec(any::<prop::sample::Index>(), 0..12)) {
        let cuts = cut_places(input.len(), &seeds);
        let bytewise: Vec<usize> = (0..input.len()).collect();
        prop_assert_eq!(responses(&input, &cuts), responses(&input, &[]));
        prop_assert_eq!(responses(&input, &bytewise), responses(&input, &[]));
        prop_assert_eq!(requests(&input, &cuts), requests(&input, &[]));
        prop_assert_eq!(requests(&input, &bytewise), requests(&input, &[]));
    }

    #[test]
    fn a_valid_response_is_always_found(
        status in 200_u16..600,
        body in proptest::collection::vec(any::<u8>(), 0..400),
        chunks in proptest::collection::vec(1_usize..60, 0..8),
        chunked in any::<bool>(),
        // More of the value before, whatever it looks like.
        folds in proptest::collection::vec("[ \t](Content-Length: 3|Transfer-Encoding: chunked|Connection: close|x{0,40})\r?\n", 0..4),
        seeds in proptest::collection::vec(any::<prop::sample::Index>(), 0..8),
    ) {
        prop_assume!(!matches!(status, 204 | 304));
        let folds = folds.concat();
        let mut input = format!("HTTP/1.1 {status} Reason\r\nServer: test\r\n{folds}").into_bytes();
        if chunked {
            input.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
            let mut rest = &body[..];
            for size in chunks {
                let (now, later) = rest.split_at(size.min(rest.len()));
                rest = later;
                if !now.is_empty() {
                    input.extend_from_slice(format!("{:x}\r\n", now.len()).as_bytes());
                    input.extend_from_slice(now);
                    input.extend_from_slice(b"\r\n");
                }
            }
            input.extend_from_slice(b"0\r\n\r\n");
        } else {
            input.extend_from_slice(format!("Content-Length: {}\r\n\r\n", body.len()).as_bytes());
            input.extend_from_slice(&body);
        }
        let twice = [&input[..], &input[..]].concat();
        let expected = Response { status, keep_alive: true };
        let cuts = cut_places(twice.len(), &seeds);
        prop_assert_eq!(responses(&twice, &cuts), (vec![expected; 2], None));
    }
}
