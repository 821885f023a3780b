//! A web server is ready when it answers a request.

use crate::recipe::{Condition, Heard, Judge};

impl Condition {
    /// A GET of `path` is answered with 200.
    pub(crate) fn http(path: &str) -> Self {
        Self::get(path, judge)
    }

    /// A GET of `path`, which PHP answers and says so, is answered with 200.
    pub(crate) fn http_of_php(path: &str) -> Self {
        Self::get(path, judge_php)
    }

    fn get(path: &str, judge: Judge) -> Self {
        Self::Answer {
            what: format!("GET {path}"),
            ask: format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").into_bytes(),
            judge,
        }
    }
}

/// The Server field is the server's own name and version.
fn judge(answer: &[u8]) -> Heard {
    if !answer.windows(4).any(|window| window == b"\r\n\r\n") {
        return Heard::Incomplete;
    }
    let head = String::from_utf8_lossy(answer);
    match parse_head(&head) {
        ("200", server) => Heard::Ready(server),
        (status, _) => Heard::NotYet(format!("it was answered with status `{status}`")),
    }
}

/// The X-Powered-By field is PHP's name and version, and nobody else writes it.
fn judge_php(answer: &[u8]) -> Heard {
    match judge(answer) {
        Heard::Ready(server) => match field(&String::from_utf8_lossy(answer), "x-powered-by") {
            Some(php) => Heard::Ready(Some(server.map_or(php.clone(), |server| format!("{server}, {php}")))),
            None => Heard::NotYet("it was answered, but not by PHP".to_owned()),
        },
        other => other,
    }
}

/// Status code and Server field of an answer's head (RFC 9112 section 4, RFC 9110 section 10.2.4).
pub(super) fn parse_head(head: &str) -> (&str, Option<String>) {
    let line = head.split("\r\n\r\n").next().unwrap_or("").lines().next();
    let status = line.and_then(|line| line.split_whitespace().nth(1)).unwrap_or("");
    (status, field(head, "server"))
}

/// The value of a field of an answer's head.
fn field(head: &str, wanted: &str) -> Option<String> {
    let head = head.split("\r\n\r\n").next().unwrap_or("");
    head.lines()
        .skip(1)
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
        .map(|(_, value)| value.trim().chars().take(100).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_read_whatever_they_are() {
        let head = "HTTP/1.1 200 OK\r\nserver: nginx/1.22.1 \r\n\r\nServer: no\r\n";
        assert_eq!(parse_head(head), ("200", Some("nginx/1.22.1".into())));
        assert_eq!(parse_head("HTTP/1.1 403 Forbidden\r\n\r\nServer: x"), ("403", None));
        assert_eq!(parse_head("SSH-2.0"), ("", None));
        assert_eq!(parse_head(""), ("", None));
    }

    #[test]
    fn php_says_that_it_answered() {
        let head = "HTTP/1.1 200 OK\r\nServer: a/1\r\nX-Powered-By: PHP/8.2.36\r\n\r\n";
        assert_eq!(judge_php(head.as_bytes()), Heard::Ready(Some("a/1, PHP/8.2.36".into())));
        assert_eq!(judge_php(&head.as_bytes()[..40]), Heard::Incomplete);
        let static_file = b"HTTP/1.1 200 OK\r\nServer: a/1\r\n\r\nX-Powered-By: PHP/8\r\n";
        assert!(matches!(judge_php(static_file), Heard::NotYet(why) if why.contains("not by PHP")));
    }

    #[test]
    fn only_a_whole_head_with_200_is_an_answer() {
        assert_eq!(judge(b"HTTP/1.1 200 OK\r\nServer: x"), Heard::Incomplete);
        assert_eq!(judge(b"HTTP/1.1 200 OK\r\n\r\n"), Heard::Ready(None));
        assert!(matches!(judge(b"HTTP/1.1 503 Busy\r\n\r\n"), Heard::NotYet(why) if why.contains("`503`")));
    }
}
