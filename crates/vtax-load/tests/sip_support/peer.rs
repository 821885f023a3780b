//! Peers that misbehave as they are told.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use vtax_wire::sip::{Address, Message, Method, Name, Writer};

/// A UDP socket with a thread that does something with each datagram.
pub(crate) struct Peer {
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Peer {
    pub(crate) fn start(mut act: impl FnMut(&UdpSocket, &[u8], SocketAddr) + Send + 'static) -> Self {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let address = socket.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut buffer = vec![0; 65_536];
            while !flag.load(Relaxed) {
                if let Ok((length, from)) = socket.recv_from(&mut buffer) {
                    act(&socket, &buffer[..length], from);
                }
            }
        });
        Self { address, stop, thread: Some(thread) }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An answer to a request, with a header more where one is given.
pub(crate) fn answer(request: &[u8], status: u16, extra: &str) -> Option<Vec<u8>> {
    let request = Message::parse(request).ok()?;
    if request.method()? == Method::Ack {
        return None;
    }
    let mut out = Vec::new();
    let mut writer = Writer::respond(&mut out, &request, status, "As Told", Some(b"peer"));
    if let Some((name, value)) = extra.split_once(": ") {
        writer = writer.line(name.as_bytes(), &[value.as_bytes()]);
    }
    writer.end();
    Some(out)
}

/// What is done with a message a [`Proxy`] would send.
pub(crate) enum Fate {
    Pass,
    Lose,
    Double,
}

/// A registrar without passwords and a stateless proxy: it sends a request for a user to the user's
/// contact, and any other where its URI says.
pub(crate) struct Proxy<F> {
    bindings: HashMap<Vec<u8>, SocketAddr>,
    /// Call-IDs are others on the callee's side, as behind a back-to-back user agent.
    pub(crate) renames: bool,
    pub(crate) fate: F,
}

impl<F: FnMut(&[u8]) -> Fate> Proxy<F> {
    pub(crate) fn new(renames: bool, fate: F) -> Self {
        Self { bindings: HashMap::new(), renames, fate }
    }

    pub(crate) fn act(&mut self, socket: &UdpSocket, bytes: &[u8], from: SocketAddr) {
        let Ok(message) = Message::parse(bytes) else { return };
        let send = match message.method() {
            None => self.response(&message),
            Some(Method::Register) => self.register(bytes, &message).map(|out| (out, from)),
            Some(_) => self.request(socket.local_addr().unwrap(), bytes, &message, from),
        };
        let Some((out, to)) = send else { return };
        let times = match (self.fate)(&out) {
            Fate::Pass => 1,
            Fate::Lose => 0,
            Fate::Double => 2,
        };
        for _ in 0..times {
            socket.send_to(&out, to).unwrap();
        }
    }

    fn register(&mut self, bytes: &[u8], message: &Message<'_>) -> Option<Vec<u8>> {
        let user = message.to().ok()?.parse_uri().ok()?.user?.to_vec();
        let contact = Address::parse(message.header(Name::Contact)?).ok()?.parse_uri().ok()?;
        let address = SocketAddr::new(contact.address()?, contact.port?);
        if message.expires().ok()? == Some(0) {
            self.bindings.remove(&user);
        } else {
            self.bindings.insert(user, address);
        }
        answer(bytes, 200, "")
    }

    fn request(
        &self,
        own: SocketAddr,
        bytes: &[u8],
        message: &Message<'_>,
        from: SocketAddr,
    ) -> Option<(Vec<u8>, SocketAddr)> {
        let uri = message.request_uri().ok()?;
        let user = uri.user?;
        let to = match uri.address() {
            Some(ip) => Some(SocketAddr::new(ip, uri.port?)),
            None => self.bindings.get(user).copied(),
        };
        let Some(to) = to else { return answer(bytes, 404, "").map(|out| (out, from)) };
        let branch = message.via().ok()?.branch?;
        let method = message.method()?.text();
        let user = String::from_utf8_lossy(user);
        let mut out =
            format!("{method} sip:{user}@{to} SIP/2.0\r\nVia: SIP/2.0/UDP {own};branch=").into_bytes();
        out.extend_from_slice(branch);
        out.extend_from_slice(b"-p\r\n");
        let first_line = bytes.windows(2).position(|w| w == b"\r\n")?;
        let rest = &bytes[first_line + 2..];
        out.extend_from_slice(&if self.renames {
            replace(rest, b"Call-ID: ", b"Call-ID: renamed-")
        } else {
            rest.to_vec()
        });
        Some((out, to))
    }

    fn response(&self, message: &Message<'_>) -> Option<(Vec<u8>, SocketAddr)> {
        let via = message.lines(Name::Via).nth(1)?;
        let via = vtax_wire::sip::Via::parse(via).ok()?;
        let to = SocketAddr::new(vtax_to_ip(via.host)?, via.port?);
        let bytes = message.bytes();
        let own = message.lines(Name::Via).next()?;
        let start = own.as_ptr() as usize - bytes.as_ptr() as usize - b"Via: ".len();
        let end = start + b"Via: ".len() + own.len() + 2;
        let mut out = bytes[..start].to_vec();
        out.extend_from_slice(&bytes[end..]);
        if self.renames {
            out = replace(&out, b"Call-ID: renamed-", b"Call-ID: ");
        }
        Some((out, to))
    }
}

fn vtax_to_ip(host: &[u8]) -> Option<std::net::IpAddr> {
    std::str::from_utf8(host).ok()?.parse().ok()
}

/// Replaces the first occurrence.
fn replace(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    match bytes.windows(old.len()).position(|w| w == old) {
        Some(at) => [&bytes[..at], new, &bytes[at + old.len()..]].concat(),
        None => bytes.to_vec(),
    }
}
