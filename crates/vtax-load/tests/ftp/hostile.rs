//! Servers that do what they shouldn't.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use vtax_load::ftp::{FtpDetails, FtpSession};
use vtax_load::{LoadResult, Model};
use vtax_plan::model::{FtpMix, FtpRequests};
use vtax_units::Nanos;

use super::{requests, spec, until};

/// A server that does the same to each connection.
fn server(treat: impl Fn(TcpStream) + Send + Clone + 'static) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let treat = treat.clone();
            std::thread::spawn(move || treat(stream));
        }
    });
    address
}

/// A session that answers each command by what `answer` says; `None` closes.
fn answering(stream: TcpStream, answer: impl Fn(&str) -> Option<String>) {
    let mut out = stream.try_clone().unwrap();
    let _ = out.write_all(b"220 hello\r\n");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let Some(text) = answer(line.split(' ').next().unwrap_or("")) else { return };
        if out.write_all(text.as_bytes()).is_err() {
            return;
        }
    }
}

/// What any server says.
fn usual(verb: &str) -> String {
    match verb {
        "USER" => "331 x\r\n",
        "PASS" => "230 x\r\n",
        "AUTH" => "234 x\r\n",
        "QUIT" => "221 x\r\n",
        _ => "200 x\r\n",
    }
    .to_owned()
}

/// What stores alone find, which need no files beforehand. No server that says anything is late, even on a busy machine.
fn stores(address: SocketAddr) -> (LoadResult, FtpDetails) {
    stores_within(address, Nanos::from_secs(10))
}

fn stores_within(address: SocketAddr, timeout: Nanos) -> (LoadResult, FtpDetails) {
    let mix = FtpMix { retr: 0, stor: 1, list: 0 };
    let mut spec = spec(address, FtpRequests { mix, ..requests() });
    spec.pool.timeout = timeout;
    let session = FtpSession::open(&spec).unwrap();
    let (result, details) = until(&session, Model::Closed, 3);
    assert_eq!(result.counts.ok, 0);
    (result, details)
}

/// A server that says the same for ever: much of it at a time, as line by line a busy machine would be slow.
fn endless(line: &'static str) -> SocketAddr {
    let lines = line.repeat(1000);
    server(move |mut stream| while stream.write_all(lines.as_bytes()).is_ok() {})
}

#[test]
fn endless_replies_end_the_session() {
    let address = endless("220-and on\r\n");
    let (result, details) = stores(address);
    assert!(result.counts.errors.protocol > 0, "{:?}", result.counts);
    assert!(details.first_failure.as_ref().is_some_and(|why| why.contains("64 KiB")), "{details:?}");
    let address = endless("220 x\r\n");
    assert!(stores(address).0.counts.errors.protocol > 0);
    let address = endless("120 wait\r\n");
    let (result, details) = stores(address);
    assert!(result.counts.errors.protocol > 0, "{:?}", result.counts);
    assert!(details.first_failure.as_ref().is_some_and(|why| why.contains("too much")), "{details:?}");
    let address = endless("x");
    assert!(stores(address).0.counts.errors.protocol > 0);
}

#[test]
fn silence_is_a_timeout_and_a_close_a_reset() {
    let address = server(|_stream| std::thread::sleep(Duration::from_secs(5)));
    assert!(stores_within(address, Nanos::from_millis(300)).0.counts.errors.client_timeout > 0);
    let address = server(drop);
    assert!(stores(address).0.counts.errors.reset > 0);
    let address = server(|stream| answering(stream, |verb| (verb != "PASS").then(|| usual(verb))));
    let (result, details) = stores(address);
    assert!(result.counts.errors.reset > 0);
    assert!(details.first_failure.as_ref().is_some_and(|why| why.contains("logged in")), "{details:?}");
}

#[test]
fn refusals_are_counted_by_their_code() {
    let address = server(|stream| {
        answering(stream, |verb| Some(if verb == "EPSV" { "452 full\r\n".to_owned() } else { usual(verb) }));
    });
    let (result, details) = stores(address);
    assert_eq!(result.counts.failed_status, Some(452));
    assert!(matches!(details.refusals[..], [(452, n)] if n > 0), "{details:?}");
    assert_eq!(details.first_failure.as_deref(), Some("STOR was refused: 452 full"));
}

#[test]
fn a_disk_that_fills_up_is_told_by_its_code() {
    let address = server(|stream| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        answering(stream, |verb| match verb {
            "EPSV" => Some(format!("229 (|||{port}|)\r\n")),
            "STOR" => {
                // What comes is not read.
                drop(listener.accept().ok()?);
                Some("150 x\r\n552 full\r\n".to_owned())
            }
            _ => Some(usual(verb)),
        });
    });
    let (result, details) = stores(address);
    assert_eq!(result.counts.failed_status, Some(552), "{:?} {details:?}", result.counts);
    assert_eq!(details.first_failure.as_deref(), Some("STOR was refused: 552 full"));
    assert_eq!((details.wrong(), details.broken_sessions), (0, 0), "{details:?}");
}

#[test]
fn no_port_and_foreign_ports_are_no_data_connection() {
    for reply in ["229 (|||0|)\r\n", "229 x\r\n", "200 x\r\n", "229 (|||99999|)\r\n"] {
        let address = server(move |stream| {
            answering(stream, |verb| Some(if verb == "EPSV" { reply.to_owned() } else { usual(verb) }));
        });
        assert!(stores(address).0.counts.errors.protocol > 0, "{reply}");
    }
    let port = vtax_sys::free_port();
    let address = server(move |stream| {
        answering(stream, |verb| {
            Some(if verb == "EPSV" { format!("229 (|||{port}|)\r\n") } else { usual(verb) })
        });
    });
    assert!(stores(address).0.counts.errors.refused > 0);
}

#[test]
fn tls_that_is_none_is_told() {
    let mix = FtpMix { retr: 0, stor: 1, list: 0 };
    let tls = Some(super::tls(true, true, None));
    for (answer, of) in [("502 no\r\n", "refused"), ("234 go\r\n220 injected\r\n", "out of turn")] {
        let address = server(move |stream| {
            answering(stream, |verb| Some(if verb == "AUTH" { answer.to_owned() } else { usual(verb) }));
        });
        let spec = spec(address, FtpRequests { mix, tls: tls.clone(), ..requests() });
        let session = FtpSession::open(&spec).unwrap();
        let (result, details) = until(&session, Model::Closed, 3);
        assert_eq!(result.counts.ok, 0);
        assert!(details.first_failure.as_ref().is_some_and(|why| why.contains(of)), "{of}: {details:?}");
    }
    let address = server(|stream| {
        let mut out = stream.try_clone().unwrap();
        let _ = out.write_all(b"220 x\r\n");
        let mut lines = BufReader::new(stream);
        let _ = lines.read_line(&mut String::new());
        let _ = out.write_all(b"234 x\r\n");
        std::thread::sleep(Duration::from_millis(20));
        let _ = out.write_all(&[0x41; 4000]);
        std::thread::sleep(Duration::from_millis(500));
    });
    let spec = spec(address, FtpRequests { mix, tls, ..requests() });
    let session = FtpSession::open(&spec).unwrap();
    let (result, _) = until(&session, Model::Closed, 3);
    assert!(result.counts.errors.protocol > 0, "{:?}", result.counts);
}
