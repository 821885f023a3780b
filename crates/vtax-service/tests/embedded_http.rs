//! The embedded HTTP server over loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use vtax_service::embedded::http::{ServeError, serve};

struct Server {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Result<(), ServeError>>>,
}

impl Server {
    fn start(workers: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let flag = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let address = (Ipv4Addr::LOCALHOST, 0).into();
            serve(address, workers, &flag, |address| sender.send(address).unwrap())
        });
        let address = receiver.recv_timeout(Duration::from_secs(5)).unwrap();
        Self { address, stop, thread: Some(thread) }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        stream
    }

    /// Sends everything, closes the sending side, returns all that comes.
    fn exchange(&self, request: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        String::from_utf8(answer).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().unwrap().join().unwrap().unwrap();
    }
}

fn status(answer: &str) -> &str {
    answer.lines().next().unwrap_or_default()
}

#[test]
fn it_serves_bytes_and_pages() {
    let server = Server::start(2);
    let answer = server.exchange("GET /bytes/10 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(status(&answer), "HTTP/1.1 200 OK");
    assert!(answer.contains("Content-Length: 10\r\n") && answer.ends_with("\r\n\r\nxxxxxxxxxx"), "{answer}");
    let page = server.exchange("GET /page/5 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(page.matches("<tr>").count(), 5);
    let head = server.exchange("HEAD /bytes/10 HTTP/1.1\r\nHost: a\r\n\r\n");
    assert!(head.contains("Content-Length: 10\r\n") && head.ends_with("\r\n\r\n"));
    assert_eq!(status(&server.exchange("GET /x HTTP/1.1\r\nHost: a\r\n\r\n")), "HTTP/1.1 404 Not Found");
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let server = Server::start(1);
    let many = "GET /bytes/100000 HTTP/1.1\r\nHost: a\r\n\r\nGET /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n"
        .repeat(50)
        + "GET /bytes/1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nGET /bytes/2 HTTP/1.1\r\nHost: a\r\n\r\n";
    let answer = server.exchange(&many);
    let lengths: Vec<&str> = answer.lines().filter_map(|l| l.strip_prefix("Content-Length: ")).collect();
    assert_eq!(lengths.len(), 101);
    assert!(lengths.chunks(2).take(50).all(|pair| pair == ["100000", "3"]));
    // Nothing after the request that closes.
    assert_eq!(lengths[100], "1");
    // One more in each `Server: vtax`.
    assert_eq!(answer.matches('x').count(), 50 * 100_003 + 1 + 101);
}

#[test]
fn a_slow_reader_gets_everything() {
    let server = Server::start(1);
    let mut stream = server.connect();
    stream.write_all(b"GET /page/100000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    thread::sleep(Duration::from_millis(100));
    // Others are served meanwhile.
    assert_eq!(status(&server.exchange("GET /bytes/1 HTTP/1.1\r\nHost: a\r\n\r\n")), "HTTP/1.1 200 OK");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert_eq!(answer.matches("<tr>").count(), 100_000);
    assert!(answer.ends_with("</html>\n"));
}

#[test]
fn requests_torn_at_any_byte_are_understood() {
    let server = Server::start(1);
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    for byte in b"GET /bytes/4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.ends_with("\r\n\r\nxxxx"));
}

#[test]
fn bad_requests_are_refused_and_the_server_lives_on() {
    let server = Server::start(1);
    let long = format!("GET /bytes/1 HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(70_000));
    for (request, expected) in [
        ("nonsense\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request"),
        ("GET / HTTP/2.0\r\n\r\n", "HTTP/1.1 505 HTTP Version Not Supported"),
        ("POST /bytes/1 HTTP/1.1\r\nHost: a\r\n\r\n", "HTTP/1.1 405 Method Not Allowed"),
        (
            "GET /bytes/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            "HTTP/1.1 413 Content Too Large",
        ),
        (&long, "HTTP/1.1 431 Request Header Fields Too Large"),
        ("", ""),
    ] {
        assert_eq!(status(&server.exchange(request)), expected);
    }
    assert_eq!(status(&server.exchange("GET /bytes/1 HTTP/1.0\r\n\r\n")), "HTTP/1.1 200 OK");
}

#[test]
fn a_port_in_use_is_an_error() {
    let server = Server::start(1);
    let stop = AtomicBool::new(true);
    let error = serve(server.address, 1, &stop, |_| ()).unwrap_err();
    assert!(matches!(error, ServeError::Listen { .. }), "{error}");
    assert!(matches!(serve(server.address, 0, &stop, |_| ()), Err(ServeError::Workers { .. })));
}
