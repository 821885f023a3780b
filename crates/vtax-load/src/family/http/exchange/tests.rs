//! Sessions as the engine leads them, and the parts of requests and answers.

use vtax_plan::model::{HttpScript, HttpSessionPlan, HttpStep};

use super::super::HttpRequests;
use super::*;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// Sessions of these targets, recorded from then on.
fn sessions(targets: &[&str], from: u64) -> Exchange {
    sessions_of(targets, HttpCompression::None, from)
}

fn sessions_of(targets: &[&str], compression: HttpCompression, from: u64) -> Exchange {
    let steps = targets.iter().map(|target| HttpStep::get(target)).collect();
    let script = HttpScript {
        sessions: vec![HttpSessionPlan { weight: 1, steps }],
        zipf: None,
        compression,
        cookies: false,
    };
    let requests = HttpRequests { script: Some(Box::new(script)), ..HttpRequests::get("/", "test") };
    Exchange::new(Arc::new(Ready::new(&requests).unwrap()), 1, from)
}

/// The next request.
fn next(exchange: &mut Exchange, dialog: &mut Dialog) -> String {
    let mut out = Vec::new();
    exchange.write(dialog, false, &mut out);
    String::from_utf8(out).unwrap()
}

/// What was written down.
fn found(mut exchange: Exchange) -> HttpExchanges {
    let details = exchange.details().and_then(|details| details.http).unwrap();
    details.exchanges.unwrap()
}

/// Such a session went on with the next arrival, and began another one at its end that no arrival had asked for.
#[test]
fn a_session_is_over_where_more_comes_than_was_asked_for() {
    let mut exchange = sessions(&["/one", "/two"], 0);
    let mut dialog = Dialog::default();
    assert!(next(&mut exchange, &mut dialog).starts_with("GET /one "));
    let taken = exchange.read(&mut dialog, &[OK, b"more"].concat()).unwrap();
    assert!(taken.answer.is_some() && taken.bytes == OK.len());
    // What the engine does with the rest.
    exchange.requests_failed(&mut dialog);
    exchange.closed(&mut dialog);
    exchange.renew(&mut dialog);
    assert_eq!(exchange.next_request_in(&mut dialog), None, "nothing follows by itself");
    assert!(next(&mut exchange, &mut dialog).starts_with("GET /one "));
    let found = found(exchange);
    let counts = (found.broken_sessions, found.sessions, found.requests[0].ok, found.response.len());
    assert_eq!(counts, (1, 0, 0, 0), "the answer was none");
}

#[test]
fn a_session_is_over_where_its_next_connection_cant_be_made() {
    let mut exchange = sessions(&["/one", "/two"], 0);
    let mut dialog = Dialog::default();
    // Without a request there is no session yet.
    exchange.requests_failed(&mut dialog);
    assert!(next(&mut exchange, &mut dialog).starts_with("GET /one "));
    assert!(exchange.read(&mut dialog, OK).unwrap().answer.is_some());
    assert_eq!(exchange.next_request_in(&mut dialog), Some(0));
    // The server ends the connection in the pause.
    exchange.closed(&mut dialog);
    exchange.renew(&mut dialog);
    exchange.requests_failed(&mut dialog);
    assert!(next(&mut exchange, &mut dialog).starts_with("GET /one "));
    let found = found(exchange);
    assert_eq!((found.broken_sessions, found.requests[0].ok), (1, 1));
}

/// It was left out, or took all the time since the load's epoch where there was no warm-up.
#[test]
fn an_answer_before_its_request_has_left_counts_from_when_that_was_written() {
    let mut exchange = sessions(&["/"], 50);
    let mut dialog = Dialog::default();
    exchange.set_now(100);
    next(&mut exchange, &mut dialog);
    exchange.set_now(130);
    assert!(exchange.read(&mut dialog, OK).unwrap().answer.is_some());
    assert_eq!(exchange.next_request_in(&mut dialog), None);
    let found = found(exchange);
    assert_eq!((found.requests[0].ok, found.sessions), (1, 1));
    assert_eq!((found.requests[0].times.max(), found.response.max()), (Nanos(30), Nanos(30)));
}

#[test]
fn an_answer_counts_from_when_the_first_piece_of_its_request_has_left() {
    let mut exchange = sessions(&["/"], 50);
    let mut dialog = Dialog::default();
    exchange.set_now(100);
    next(&mut exchange, &mut dialog);
    for now in [110, 120] {
        exchange.set_now(now);
        exchange.write_besides(&mut dialog, &mut Vec::new());
    }
    exchange.set_now(130);
    assert!(exchange.read(&mut dialog, OK).unwrap().answer.is_some());
    exchange.next_request_in(&mut dialog);
    assert_eq!(found(exchange).response.max(), Nanos(20));
}

#[test]
fn numbers_and_chunks_are_written_as_they_are_read() {
    let mut out = Vec::new();
    for number in [0, 7, 10, 12_345, u64::MAX] {
        out.clear();
        decimal(number, &mut out);
        assert_eq!(String::from_utf8(out.clone()).unwrap(), number.to_string());
    }
    out.clear();
    put_text(b"hello", true, &mut out);
    assert_eq!(out, b"5\r\nhello\r\n0\r\n\r\n");
    out.clear();
    put_chunk(&[b'x'; 256], &mut out);
    assert!(out.starts_with(b"100\r\nxx") && out.ends_with(b"x\r\n"));
}

/// Of a field that went on in the next line only the first was read.
#[test]
fn fields_that_go_on_in_the_next_line_are_read_whole() {
    let mut head =
        b"HTTP/1.1 200 OK\r\nSet-Cookie:\r\n a=1;\r\n\tPath=/\r\nX-Token: abc\n def\r\n\r\n".to_vec();
    let length = head.len();
    unfold(&mut head);
    assert_eq!(head.len(), length);
    let words = |name: &[u8]| {
        let value = field(&head, name).map(|value| String::from_utf8_lossy(value).into_owned());
        value.map(|value| value.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" "))
    };
    assert_eq!(words(b"set-cookie").as_deref(), Some("a=1; Path=/"));
    assert_eq!(words(b"x-token").as_deref(), Some("abc def"));
    let mut cookies = Vec::new();
    take_cookies(&head, &mut cookies);
    assert_eq!(cookies, [(b"a".to_vec(), b"1".to_vec())]);
    let mut plain = OK.to_vec();
    unfold(&mut plain);
    assert_eq!(plain, OK);
}

#[test]
fn cookies_are_set_changed_and_taken_back() {
    let mut cookies = Vec::new();
    let head = b"HTTP/1.1 200 OK\r\nSet-Cookie: a=1; Path=/\r\nset-cookie:b=2\r\nSet-Cookie: none\r\n\r\n";
    take_cookies(head, &mut cookies);
    assert_eq!(cookies, [(b"a".to_vec(), b"1".to_vec()), (b"b".to_vec(), b"2".to_vec())]);
    take_cookies(b"HTTP/1.1 200 OK\r\nSet-Cookie: a=; Max-Age=0\r\nSet-Cookie: b=3\r\n\r\n", &mut cookies);
    assert_eq!(cookies, [(b"b".to_vec(), b"3".to_vec())]);
}

/// Only `Max-Age=0` was known to take a cookie back: sessions sent it on after a logout.
#[test]
fn cookies_are_taken_back_by_a_date_and_by_a_negative_age() {
    let is_kept = |attributes: &str| {
        let mut cookies = vec![(b"a".to_vec(), b"1".to_vec())];
        let head = format!("HTTP/1.1 200 OK\r\nSet-Cookie: a=; Path=/; {attributes}\r\n\r\n");
        take_cookies(head.as_bytes(), &mut cookies);
        !cookies.is_empty()
    };
    for over in [
        "Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        "expires=Thu, 01-Jan-1970 00:00:01 GMT; Max-Age=0",
        "EXPIRES = Thu, 01-Jan-70 00:00:10 GMT; HttpOnly",
        "Max-Age=-1",
        "max-age=-86400; Expires=Wed, 01 Jan 2070 00:00:00 GMT",
    ] {
        assert!(!is_kept(over), "{over}");
    }
    for kept in [
        "Expires=Wed, 01 Jan 2070 00:00:00 GMT",
        "Max-Age=3600; Expires=Thu, 01 Jan 1970 00:00:00 GMT",
        "Max-Age=05",
        "Max-Age=",
        "Secure",
    ] {
        assert!(is_kept(kept), "{kept}");
    }
}

/// An answer that names a coding but has no body was called corrupt.
#[test]
fn an_answer_without_a_body_is_not_decoded() {
    let head = |status: &str, length: usize| {
        format!("HTTP/1.1 {status}\r\nContent-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n")
    };
    let empty = "HTTP/1.1 304 Not Modified\r\nContent-Encoding: gzip\r\n\r\n".to_owned();
    for (answer, outcome) in [
        (head("200 OK", 0), Outcome::Ok),
        (head("302 Found", 0), Outcome::Ok),
        (empty, Outcome::Ok),
        (head("200 OK", 8) + "nonsense", Outcome::Corrupt),
    ] {
        let mut exchange = sessions_of(&["/"], HttpCompression::Decode, 0);
        let mut dialog = Dialog::default();
        next(&mut exchange, &mut dialog);
        let answered = exchange.read(&mut dialog, answer.as_bytes()).unwrap().answer;
        assert_eq!(answered.map(|answered| answered.outcome), Some(outcome), "{answer}");
    }
}

#[test]
fn fields_are_found_whatever_their_case() {
    let head = b"HTTP/1.1 200 OK\r\nX-One:  a b \r\nContent-Encoding: GZIP\r\n\r\n";
    assert_eq!(field(head, b"x-one"), Some(&b"a b"[..]));
    assert_eq!(field(head, b"http/1.1 200 ok"), None);
    assert_eq!(field(head, b"x-two"), None);
}

#[test]
fn what_isnt_decoded_is_an_error() {
    let mut out = Vec::new();
    assert!(decode(b"gzip", b"nonsense", &mut out).is_err_and(|wrong| wrong.outcome == Outcome::Corrupt));
    assert!(decode(b"br", b"", &mut out).is_err_and(|wrong| wrong.outcome == Outcome::Unexpected));
    let mut zlib = flate2::read::ZlibEncoder::new(&b"hello"[..], flate2::Compression::fast());
    let mut body = Vec::new();
    zlib.read_to_end(&mut body).unwrap();
    assert!(decode(b"deflate", &body, &mut out).is_ok() && out == b"hello");
}
