//! Who may ask, and what hostile requests get.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use crate::support::{PATIENCE, Site, make, options};

fn site() -> Site {
    Site::new(|root| drop(make(&root.join("a"))))
}

#[test]
fn without_the_token_nothing_is_shown() {
    let site = site();
    let id = site.first_run();
    let ask = |path: &str, headers: &str| {
        let host = site.address;
        site.raw(
            format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n").as_bytes(),
        )
    };
    for path in [
        "/".to_owned(),
        format!("/run/{id}"),
        format!("/run/{id}/report"),
        format!("/run/{id}/events"),
        "/metrics".to_owned(),
        "/assets/page.js".to_owned(),
        "/nothing".to_owned(),
    ] {
        let answer = ask(&path, "");
        assert_eq!(answer.status, 401, "{path}: {answer:?}");
        assert!(!answer.body.contains("quick"), "{path}");
    }
    assert_eq!(ask(&format!("/?token={}", "0".repeat(32)), "").status, 403);
    let signed_in = ask(&format!("/run/{id}?token={}", site.token), "");
    assert_eq!((signed_in.status, signed_in.header("location")), (303, Some(format!("/run/{id}").as_str())));
    let cookie = signed_in.header("set-cookie").expect("a cookie").to_owned();
    for word in ["HttpOnly", "SameSite=Strict", "Path=/"] {
        assert!(cookie.contains(word), "{cookie}");
    }
    let pair = cookie.split(';').next().expect("a pair");
    assert_eq!(ask("/", &format!("Cookie: {pair}\r\n")).status, 200);
    // A redirection would be followed without the cookie there.
    let by_file = ask(&format!("/run/{id}?token={}&via=file", site.token), "");
    assert_eq!((by_file.status, by_file.header("set-cookie")), (200, Some(cookie.as_str())));
    assert_eq!(by_file.header("refresh"), Some(format!("0; url=/run/{id}").as_str()));
}

/// As many as there are places, so that nobody else is answered before they have lost theirs.
#[test]
fn clients_that_do_not_read_lose_their_places() {
    let site = site();
    let ask = site.request("GET", "/assets/page.js", "", "").replace("Connection: close\r\n", "");
    // More answers than the buffers of a connection take.
    let asks = ask.repeat(500);
    let silent: Vec<TcpStream> = (0..64)
        .map(|_| {
            let mut stream = TcpStream::connect(site.address).expect("a connection");
            stream.write_all(asks.as_bytes()).expect("sent");
            stream
        })
        .collect();
    assert_eq!(site.get("/").status, 200);
    drop(silent);
}

#[test]
fn every_answer_says_what_may_be_done_with_it() {
    let site = site();
    let id = site.first_run();
    for (path, policy) in [
        ("/".to_owned(), "script-src 'self'"),
        ("/nothing".to_owned(), "script-src 'self'"),
        (format!("/run/{id}"), "connect-src 'self'"),
        (format!("/run/{id}/report"), "sandbox allow-scripts;"),
        (format!("/compare?a={id}&b={id}"), "sandbox allow-scripts;"),
    ] {
        let answer = site.get(&path);
        let found = answer.header("content-security-policy").expect("a policy");
        assert!(found.contains(policy) && found.contains("default-src 'none'"), "{path}: {found}");
        assert!(!found.contains("allow-same-origin") && found.contains("frame-ancestors 'none'"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
        assert_eq!(answer.header("referrer-policy"), Some("same-origin"));
        assert_eq!(answer.header("access-control-allow-origin"), None);
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
        // With a sandbox it would be a network error.
        let opener = (!policy.starts_with("sandbox")).then_some("same-origin");
        assert_eq!(answer.header("cross-origin-opener-policy"), opener, "{path}");
    }
}

#[test]
fn other_names_and_other_methods_are_refused() {
    let site = site();
    let by = |host: &str| {
        let bearer = &site.token;
        let request = format!(
            "GET / HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {bearer}\r\nConnection: close\r\n\r\n"
        );
        site.raw(request.as_bytes()).status
    };
    let port = site.address.port();
    assert_eq!(
        (by(&format!("localhost:{port}")), by(&format!("rebound.example:{port}")), by("")),
        (200, 421, 421)
    );
    for (method, status) in [("POST", 405), ("PUT", 405), ("DELETE", 405), ("OPTIONS", 405), ("TRACE", 405)] {
        assert_eq!(site.raw(site.request(method, "/start", "", "").as_bytes()).status, status, "{method}");
    }
    assert_eq!(site.get("/start").status, 404, "without --allow-run there is no such page");
}

#[test]
fn paths_lead_to_runs_and_to_nothing_else() {
    let site = site();
    let id = site.first_run();
    for path in [
        "/run/../../etc/passwd",
        "/run/..%2f..%2fetc%2fpasswd",
        "/run/%2e%2e",
        "/run/a",
        "/run/0123456789abcdef",
        "/assets/../src/lib.rs",
        "/assets/page.css%00",
        "//etc/passwd",
        "/history?run=../a&cell=c&figure=m/x",
        "/compare?a=/etc/passwd&b=0123456789abcdef",
    ] {
        let answer = site.get(path);
        assert!((400..500).contains(&answer.status), "{path}: {}", answer.status);
        assert!(!answer.body.contains("root:"), "{path}");
    }
    assert_eq!(
        site.get(&format!("/run/{}", id.to_uppercase())).status,
        if id.to_uppercase() == id { 200 } else { 404 }
    );
    assert_eq!(site.get(&format!("/run/{id}")).status, 200);
}

#[test]
fn what_is_too_long_or_no_http_is_refused_and_the_rest_goes_on() {
    let site = site();
    assert_eq!(site.get(&format!("/{}", "a".repeat(300))).status, 414);
    assert_eq!(site.get(&format!("/?plan={}", "a".repeat(5000))).status, 414);
    let headers: String = (0..2000).map(|i| format!("X-{i}: {}\r\n", "y".repeat(50))).collect();
    let many = site.raw(site.request("GET", "/", &headers, "").as_bytes());
    assert!([400, 431, 0].contains(&many.status), "{}", many.status);
    for nonsense in [
        &b"\x00\x01\x02\r\n\r\n"[..],
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ] {
        assert!([400, 0, 421, 505].contains(&site.raw(nonsense).status), "{nonsense:?}");
    }
    // A client that says nothing holds up nobody, and is sent away.
    let mut slow = TcpStream::connect(site.address).expect("a connection");
    slow.write_all(b"GET / HT").expect("sent");
    assert_eq!(site.get("/").status, 200);
    slow.set_read_timeout(Some(PATIENCE)).expect("a limit");
    let ended = slow.read_to_end(&mut Vec::new());
    let kept = |e: &std::io::Error| matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    assert!(!ended.as_ref().is_err_and(kept), "it was kept: {ended:?}");
}

#[test]
fn elsewhere_than_on_loopback_plain_text_must_be_asked_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let with = |listen: &str, plain_text: bool| {
        let listen = listen.parse().expect("an address");
        let options = vtax_serve::Options { listen, plain_text, ..options(dir.path(), dir.path()) };
        vtax_serve::Server::bind(options)
    };
    let error = with("0.0.0.0:0", false).expect_err("refused");
    assert!(error.is_bad_input() && error.to_string().contains("--tls-cert"), "{error}");
    assert!(with("0.0.0.0:0", true).is_ok());
    // Some hosts have no IPv6.
    if let Ok(server) = with("[::1]:0", false) {
        assert!(server.link().starts_with("http://[::1]:"), "{}", server.link());
    }
}

#[test]
fn tls_is_spoken_where_there_is_a_certificate() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (certificate, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    std::fs::write(&certificate, made.cert.pem()).expect("written");
    std::fs::write(&key, made.signing_key.serialize_pem()).expect("written");
    let files = |certificate: &std::path::Path| vtax_serve::TlsFiles {
        certificate: certificate.to_owned(),
        key: key.clone(),
    };
    let with = |tls| {
        vtax_serve::Server::bind(vtax_serve::Options { tls: Some(tls), ..options(dir.path(), dir.path()) })
    };
    let server = with(files(&certificate)).expect("a server");
    assert!(server.link().starts_with("https://127.0.0.1:"));
    let address = server.address();
    std::thread::spawn(move || server.run());
    let mut stream = TcpStream::connect(address).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sent");
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/"), "plain text was answered");
    let error = with(files(&key)).expect_err("a key is no certificate");
    assert!(error.is_bad_input(), "{error}");
}
