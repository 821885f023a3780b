//! The embedded HTTP server over loopback.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use vtax_service::embedded::http::{ServeError, serve};
use vtax_wire::websocket::{Event, FrameHead, Mask, Opcode, Receiver, Role};

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
        let address = receiver.recv_timeout(Duration::from_secs(30)).unwrap();
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

/// A head that asks for a WebSocket.
const UPGRADE: &str = "GET /echo?a=1 HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
                       Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

/// A frame as clients send it.
fn masked(opcode: Opcode, last: bool, payload: &[u8]) -> Vec<u8> {
    let (mut out, key) = (Vec::new(), [1, 2, 3, 4]);
    FrameHead { last, opcode, key: Some(key), length: payload.len() as u64 }.write(&mut out);
    let start = out.len();
    out.extend_from_slice(payload);
    Mask::new(key).apply(&mut out[start..]);
    out
}

/// The head of an answer, and what came behind it as messages, pongs and the status of the end.
type Echoed = (String, Vec<(bool, Vec<u8>)>, Vec<Vec<u8>>, Option<Option<u16>>);

fn echoed(server: &Server, requests: &[&[u8]]) -> Echoed {
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    for request in requests {
        stream.write_all(request).unwrap();
    }
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap() + 4;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let (mut receiver, mut rest) = (Receiver::new(Role::Client, 1 << 30), &answer[end..]);
    let (mut messages, mut pongs, mut closed) = (Vec::<(bool, Vec<u8>)>::new(), Vec::new(), None);
    while !rest.is_empty() {
        let scanned = receiver.scan(rest).unwrap();
        let (done, after) = rest.split_at(scanned.consumed);
        rest = after;
        match scanned.event {
            Some(Event::Data { length, text, first, .. }) => {
                if first {
                    messages.push((text, Vec::new()));
                }
                messages.last_mut().unwrap().1.extend_from_slice(&done[done.len() - length..]);
            }
            Some(Event::Pong(pong)) => pongs.push(pong.bytes().to_vec()),
            Some(Event::Close(status)) => closed = Some(status),
            Some(Event::Ping(_)) | None => {}
        }
    }
    assert!(closed.is_none() || receiver.is_between());
    (head, messages, pongs, closed)
}

#[test]
fn a_websocket_sends_back_what_comes() {
    let server = Server::start(1);
    let large: Vec<u8> = (0..100_000_u32).map(|i| i as u8).collect();
    let all = [
        UPGRADE.as_bytes().to_vec(),
        masked(Opcode::Text, true, b"hello"),
        masked(Opcode::Binary, false, b"in "),
        masked(Opcode::Ping, true, b"there?"),
        masked(Opcode::Continuation, true, b"parts"),
        masked(Opcode::Binary, true, &large),
        masked(Opcode::Binary, true, b""),
        masked(Opcode::Close, true, &1000_u16.to_be_bytes()),
    ]
    .concat();
    let bytes: Vec<&[u8]> = all[..260].chunks(1).chain([&all[260..]]).collect();
    for requests in [vec![all.as_slice()], bytes] {
        let (head, messages, pongs, closed) = echoed(&server, &requests);
        assert_eq!(status(&head), "HTTP/1.1 101 Switching Protocols");
        assert!(head.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"), "{head}");
        let told: Vec<(bool, &[u8])> =
            messages.iter().map(|(text, bytes)| (*text, bytes.as_slice())).collect();
        assert_eq!(told, [(true, &b"hello"[..]), (false, b"in parts"), (false, &large), (false, b"")]);
        assert_eq!((pongs, closed), (vec![b"there?".to_vec()], Some(Some(1000))));
    }
}

/// A client of others: Python's.
const CLIENT: &str = r#"
import asyncio, sys, websockets
async def main(url):
    async with websockets.connect(url, max_size=2**25) as socket:
        for message in ["hello", "", b"\x00\x01" * 5000, "x" * 300000, ["in ", "three ", "parts"]]:
            await socket.send(message)
            back = await asyncio.wait_for(socket.recv(), 20)
            assert back == ("".join(message) if isinstance(message, list) else message)
        await asyncio.wait_for(await socket.ping(b"there?"), 20)
    assert socket.close_code == 1000, socket.close_code
asyncio.run(main(sys.argv[1]))
"#;

#[test]
fn a_client_of_others_gets_back_what_it_sends() {
    if !vtax_sys::require::installed(&["/usr/lib/python3/dist-packages/websockets"]) {
        return;
    }
    let server = Server::start(1);
    let url = format!("ws://{}/echo", server.address);
    let mut client = std::process::Command::new("timeout");
    let output = client.args(["60", "/usr/bin/python3", "-c", CLIENT, &url]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_websocket_that_breaks_the_standard_is_told_and_closed() {
    let server = Server::start(1);
    let unmasked = [UPGRADE.as_bytes(), &[0x81, 1, b'x']].concat();
    let (_, messages, _, closed) = echoed(&server, &[&unmasked]);
    assert_eq!((messages.len(), closed), (0, Some(Some(1002))));
    // Longer than it takes.
    let long = [UPGRADE.as_bytes(), &[0x82, 0xff, 0, 0, 0, 0, 2, 0, 0, 0, 1, 2, 3, 4]].concat();
    assert_eq!(echoed(&server, &[&long]).3, Some(Some(1009)));
    let silent = [UPGRADE.as_bytes(), &masked(Opcode::Close, true, b"")].concat();
    assert_eq!(echoed(&server, &[&silent]).3, Some(None));
    for head in [
        "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n".to_owned(),
        UPGRADE.replace("Version: 13", "Version: 8"),
        UPGRADE.replace("GET", "HEAD"),
    ] {
        let answer = server.exchange(&head);
        assert_eq!(status(&answer), "HTTP/1.1 426 Upgrade Required");
        assert!(answer.contains("Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"), "{answer}");
    }
    assert_eq!(status(&server.exchange(&UPGRADE.replace("/echo", "/bytes/1"))), "HTTP/1.1 404 Not Found");
}

#[test]
fn a_port_in_use_is_an_error() {
    let server = Server::start(1);
    let stop = AtomicBool::new(true);
    let error = serve(server.address, 1, &stop, |_| ()).unwrap_err();
    assert!(matches!(error, ServeError::Listen { .. }), "{error}");
    assert!(matches!(serve(server.address, 0, &stop, |_| ()), Err(ServeError::Workers { .. })));
}
