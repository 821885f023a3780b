//! A server in this process, and clients that write their messages as text.
#![allow(dead_code, reason = "each test program uses its part of it")]

use std::cell::Cell;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use vtax_plan::model::Subscribers;
use vtax_service::embedded::sip::{NONCE_LIFE, Options, SipServeError, serve};
use vtax_wire::sip::{Algorithm, Answer, Challenge, Credentials, QopAuth, ha1};

const DOMAIN: &str = "vtax.test";
/// Longer than any answer takes, and long enough for a retransmission.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn options(listen: SocketAddr, workers: u32) -> Options {
    let subscribers = Subscribers {
        count: 100,
        public: "subs%06d".into(),
        private: "private%d".into(),
        password: "pw%d".into(),
        realm: "realm.test".into(),
        domain: DOMAIN.into(),
    };
    Options {
        listen,
        workers,
        subscribers,
        authenticate_calls: false,
        nonce_life: NONCE_LIFE,
        certificate: None,
    }
}

pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<thread::JoinHandle<Result<(), SipServeError>>>,
}

impl Server {
    pub(crate) fn start(workers: u32) -> Self {
        Self::start_with(options((Ipv4Addr::LOCALHOST, 0).into(), workers))
    }

    pub(crate) fn start_with(options: Options) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let flag = Arc::clone(&stop);
        let thread = thread::spawn(move || serve(&options, &flag, |address| sender.send(address).unwrap()));
        let address = receiver.recv_timeout(PATIENCE).unwrap();
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        let ended = self.thread.take().unwrap().join().unwrap();
        if !thread::panicking() {
            ended.unwrap();
        }
    }
}

enum Link {
    Udp(UdpSocket),
    Tcp(TcpStream),
}

pub(crate) struct Client {
    pub(crate) local: SocketAddr,
    link: Link,
    requests: Cell<u32>,
}

impl Client {
    pub(crate) fn new(server: &Server) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.connect(server.address).unwrap();
        Self { local: socket.local_addr().unwrap(), link: Link::Udp(socket), requests: Cell::new(0) }
    }

    pub(crate) fn tcp(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { local: stream.local_addr().unwrap(), link: Link::Tcp(stream), requests: Cell::new(0) }
    }

    fn transport(&self) -> &'static str {
        match self.link {
            Link::Udp(_) => "UDP",
            Link::Tcp(_) => "TCP",
        }
    }

    pub(crate) fn send(&self, text: &str) {
        self.send_bytes(text.as_bytes());
    }

    pub(crate) fn send_bytes(&self, bytes: &[u8]) {
        match &self.link {
            Link::Udp(socket) => assert_eq!(socket.send(bytes).unwrap(), bytes.len()),
            Link::Tcp(stream) => (&*stream).write_all(bytes).unwrap(),
        }
    }

    /// The next message, within `patience`.
    fn try_receive(&self, patience: Duration) -> Option<String> {
        let mut buffer = vec![0; 65_536];
        let got = match &self.link {
            Link::Udp(socket) => {
                socket.set_read_timeout(Some(patience)).unwrap();
                socket.recv(&mut buffer).ok()?
            }
            Link::Tcp(stream) => {
                stream.set_read_timeout(Some(patience)).unwrap();
                // Byte by byte up to the end of the head, then the body: tests send little.
                let mut got = 0;
                while !buffer[..got].ends_with(b"\r\n\r\n") {
                    (&*stream).read_exact(&mut buffer[got..=got]).ok()?;
                    got += 1;
                }
                let head = String::from_utf8_lossy(&buffer[..got]).into_owned();
                let body: usize = header(&head, "Content-Length").unwrap().parse().unwrap();
                (&*stream).read_exact(&mut buffer[got..got + body]).ok()?;
                got + body
            }
        };
        buffer.truncate(got);
        Some(String::from_utf8(buffer).unwrap())
    }

    pub(crate) fn receive(&self) -> String {
        self.try_receive(PATIENCE).expect("a message")
    }

    /// The next message that is none of these once more: where a busy machine answers late, the server asks again.
    pub(crate) fn receive_other(&self, before: &[&str]) -> String {
        loop {
            let message = self.receive();
            if !before.contains(&message.as_str()) {
                return message;
            }
        }
    }

    pub(crate) fn status(&self) -> u16 {
        let message = self.receive();
        let code = message.strip_prefix("SIP/2.0 ").unwrap_or_else(|| panic!("{message}"));
        code[..3].parse().unwrap()
    }

    pub(crate) fn expect_silence(&self) {
        self.expect_silence_for(Duration::from_millis(50));
    }

    pub(crate) fn expect_silence_for(&self, time: Duration) {
        assert_eq!(self.try_receive(time), None);
    }

    /// Nothing comes within this time, but these once more.
    pub(crate) fn expect_nothing_but(&self, before: &[&str], time: Duration) {
        while let Some(message) = self.try_receive(time) {
            assert!(before.contains(&message.as_str()), "{message}");
        }
    }

    /// What begins so comes no more, but for what was sent before a busy machine got here. The server waits for 4 s at most
    /// before it says something again, and says it ten times in all.
    pub(crate) fn expect_no_more(&self, beginning: &str) {
        let mut more = 0;
        while let Some(message) = self.try_receive(Duration::from_secs(5)) {
            more += 1;
            assert!(message.starts_with(beginning) && more < 6, "{message}");
        }
    }

    pub(crate) fn expect_end(&self) {
        let Link::Tcp(stream) = &self.link else { panic!("datagrams don't end") };
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!((&*stream).read(&mut [0; 1]).unwrap(), 0);
    }

    fn via(&self) -> String {
        self.requests.set(self.requests.get() + 1);
        let (transport, local, n) = (self.transport(), self.local, self.requests.get());
        format!("Via: SIP/2.0/{transport} {local};branch=z9hG4bK{}x{n};rport\r\n", local.port())
    }

    /// A request to a subscriber; `{local}` in `headers` is this client's address.
    pub(crate) fn request(
        &self,
        method: &str,
        to: u32,
        id: &str,
        cseq: u32,
        headers: &str,
        body: &str,
    ) -> String {
        let headers = headers.replace("{local}", &self.local.to_string());
        format!(
            "{method} sip:subs{to:06}@{DOMAIN} SIP/2.0\r\n{}Max-Forwards: 70\r\n\
             From: <sip:alice@{DOMAIN}>;tag=a{}\r\nTo: <sip:subs{to:06}@{DOMAIN}>\r\nCall-ID: {id}\r\n\
             CSeq: {cseq} {method}\r\n{headers}Content-Length: {}\r\n\r\n{body}",
            self.via(),
            self.local.port(),
            body.len(),
        )
    }

    /// A request within a dialog.
    pub(crate) fn in_dialog(
        &self,
        method: &str,
        target: &str,
        route: &str,
        to: &str,
        id: &str,
        cseq: u32,
    ) -> String {
        format!(
            "{method} {target} SIP/2.0\r\n{}Route: {route}\r\nMax-Forwards: 70\r\n\
             From: <sip:alice@{DOMAIN}>;tag=a{}\r\nTo: {to}\r\nCall-ID: {id}\r\nCSeq: {cseq} {method}\r\n\
             Content-Length: 0\r\n\r\n",
            self.via(),
            self.local.port(),
        )
    }

    pub(crate) fn register_request(
        &self,
        user: u32,
        cseq: u32,
        headers: &str,
        credentials: Option<&str>,
    ) -> String {
        let headers = headers.replace("{local}", &self.local.to_string());
        let authorization = credentials.map(|c| format!("Authorization: {c}\r\n")).unwrap_or_default();
        format!(
            "REGISTER sip:{DOMAIN} SIP/2.0\r\n{}Max-Forwards: 70\r\nFrom: <sip:subs{user:06}@{DOMAIN}>;tag=r\r\n\
             To: <sip:subs{user:06}@{DOMAIN}>\r\nCall-ID: reg{user}\r\nCSeq: {cseq} REGISTER\r\n\
             {headers}{authorization}Content-Length: 0\r\n\r\n",
            self.via(),
        )
    }

    /// Registers this client as a subscriber.
    pub(crate) fn register(&self, user: u32, expires: u32) {
        let transport = if let Link::Tcp(_) = self.link { ";transport=tcp" } else { "" };
        let contact = format!("Contact: <sip:subs{user:06}@{{local}}{transport}>\r\nExpires: {expires}\r\n");
        self.register_contact(user, &contact);
    }

    /// Registers a subscriber with the headers given.
    pub(crate) fn register_contact(&self, user: u32, contact: &str) {
        self.send(&self.register_request(user, 1, contact, None));
        let challenge = self.receive();
        let challenge = header(&challenge, "WWW-Authenticate").unwrap();
        let credentials = credentials(challenge, user, &format!("pw{user}"), "REGISTER", true);
        self.send(&self.register_request(user, 2, contact, Some(&credentials)));
        assert_eq!(self.status(), 200);
    }

    fn response(&self, request: &str, code: u16, reason: &str, headers: &str) -> String {
        let mut lines = String::new();
        for line in request.split("\r\n").skip(1).take_while(|line| !line.is_empty()) {
            let name = line.split(':').next().unwrap();
            if ["Via", "From", "Call-ID", "CSeq", "Record-Route"].contains(&name) {
                lines += &format!("{line}\r\n");
            } else if name == "To" {
                let tag = if line.contains(";tag=") { "" } else { ";tag=bob" };
                lines += &format!("{line}{tag}\r\n");
            }
        }
        format!("SIP/2.0 {code} {reason}\r\n{lines}{headers}Content-Length: 0\r\n\r\n")
    }

    /// Answers a request as a callee does.
    pub(crate) fn answer(&self, request: &str, code: u16, reason: &str, headers: &str) {
        self.send(&self.response(request, code, reason, headers));
    }

    /// Answers byte by byte.
    pub(crate) fn answer_torn(&self, request: &str, code: u16, reason: &str) {
        for byte in self.response(request, code, reason, "").as_bytes() {
            self.send_bytes(&[*byte]);
        }
    }
}

/// The value of the first header of that name.
pub(crate) fn header<'a>(message: &'a str, name: &str) -> Option<&'a str> {
    message.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// What answers a challenge.
pub(crate) fn credentials(
    challenge: &str,
    user: u32,
    password: &str,
    method: &str,
    with_qop: bool,
) -> String {
    let challenge = Challenge::parse(challenge.as_bytes()).unwrap();
    let (user, uri) = (format!("private{user}"), format!("sip:{DOMAIN}"));
    let secret = ha1(Algorithm::Md5, user.as_bytes(), challenge.realm, password.as_bytes());
    let qop = with_qop.then_some(QopAuth { nc: b"00000001", cnonce: b"c" });
    let answer = Answer {
        algorithm: Algorithm::Md5,
        ha1: &secret,
        method: method.as_bytes(),
        uri: uri.as_bytes(),
        nonce: challenge.nonce,
        qop,
    };
    let response = answer.response();
    let credentials = Credentials {
        username: user.as_bytes(),
        realm: challenge.realm,
        nonce: challenge.nonce,
        uri: uri.as_bytes(),
        response: response.bytes(),
        algorithm: None,
        opaque: None,
        qop,
    };
    let mut out = Vec::new();
    credentials.write(&mut out);
    String::from_utf8(out).unwrap()
}
