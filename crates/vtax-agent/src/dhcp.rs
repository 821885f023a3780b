//! A DHCP client (RFC 2131) for one interface: it gets a lease, and says how long that took.
//!
//! It is as small as a node of a testbed needs: it doesn't renew, since a node lives for minutes, and it has no file.

use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use vtax_sys::{SysError, clock, packets, sysctl};
use vtax_wire::dhcp::{Answer, AnswerKind, Asker, CLIENT_PORT, LONGEST, SERVER_PORT};

use crate::message::Lease;

/// How long an answer is waited for at first; twice as long after each message that got none. RFC 2131 (section 4.1) names 4 s
/// for networks of any size, and leaves it to what is known of one: this is a host's own. Its switch may pass over what comes in the
/// moment in which a port's link has come up.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long it may take in all.
pub(crate) const WITHIN: Duration = Duration::from_secs(20);
/// Times that a server may refuse what it offered.
const MOST_REFUSALS: u32 = 3;

/// Why there is no lease.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DhcpError {
    #[error(transparent)]
    Sys(#[from] SysError),
    #[error("ask for an address: {0}")]
    Socket(#[from] io::Error),
    #[error("no DHCP server answered within {} s, asked {asked} times", WITHIN.as_secs())]
    Silence { asked: u32 },
    #[error("the DHCP server {server} refused {MOST_REFUSALS} times what it had offered")]
    Refused { server: Ipv4Addr },
    #[error("the DHCP server {server} doesn't say how long its network's prefix is")]
    NoMask { server: Ipv4Addr },
}

/// Where messages go to and come from.
trait Exchange {
    /// Sends a message to all servers.
    fn send(&mut self, message: &[u8]) -> io::Result<()>;

    /// The next message, waited for at most so long; `None`: there was none.
    fn receive<'b>(&mut self, buffer: &'b mut [u8], within: Duration) -> io::Result<Option<&'b [u8]>>;
}

/// A socket of one interface that has no address yet.
struct Broadcasts(UdpSocket);

impl Broadcasts {
    fn open(interface: &str) -> Result<Self, DhcpError> {
        // A server's address is on no network that this node knows of, so its answer would be taken for forged. What can't be
        // written is the kernel's default, which takes it.
        for which in ["all", interface] {
            let _ = sysctl::set(&format!("ipv4/conf/{which}/rp_filter"), "0");
        }
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, CLIENT_PORT))?;
        socket.set_broadcast(true)?;
        packets::bind_to_interface(socket.as_fd(), interface)?;
        Ok(Self(socket))
    }
}

impl Exchange for Broadcasts {
    fn send(&mut self, message: &[u8]) -> io::Result<()> {
        self.0.send_to(message, SocketAddr::from((Ipv4Addr::BROADCAST, SERVER_PORT))).map(|_| ())
    }

    fn receive<'b>(&mut self, buffer: &'b mut [u8], within: Duration) -> io::Result<Option<&'b [u8]>> {
        // No time at all would be taken for no limit.
        self.0.set_read_timeout(Some(within.max(Duration::from_millis(1))))?;
        match self.0.recv(buffer) {
            Ok(length) => Ok(buffer.get(..length)),
            Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(None),
            Err(e) => Err(e),
        }
    }
}

/// Gets a lease for an interface that is up and has its link.
///
/// # Errors
///
/// Where no server answers, or none keeps to what it offered.
pub(crate) fn lease(interface: &str, mac: [u8; 6]) -> Result<Lease, DhcpError> {
    let exchange = clock::unix_time().0 as u32 ^ u32::from_be_bytes([mac[2], mac[3], mac[4], mac[5]]);
    negotiate(&mut Broadcasts::open(interface)?, exchange, mac, WITHIN)
}

/// From the first DISCOVER to the ACK.
fn negotiate(
    network: &mut impl Exchange,
    exchange: u32,
    mac: [u8; 6],
    within: Duration,
) -> Result<Lease, DhcpError> {
    let started = Instant::now();
    let deadline = started + within;
    let (mut patience, mut asked, mut refused) = (PATIENCE, 0, 0);
    let mut offer: Option<Answer> = None;
    let mut asker = Asker { exchange, mac };
    while Instant::now() < deadline {
        let seconds = started.elapsed().as_secs().min(u64::from(u16::MAX)) as u16;
        match &offer {
            None => network.send(&asker.discover(seconds))?,
            Some(offer) => network.send(&asker.request(seconds, offer))?,
        }
        asked += 1;
        let until = deadline.min(Instant::now() + patience);
        let Some(answer) = answer(network, &asker, offer.as_ref(), until)? else {
            // Nobody there: a server that has gone is not asked for ever for what it offered.
            (offer, patience) = (None, patience * 2);
            continue;
        };
        match answer.kind {
            AnswerKind::Offer => offer = Some(answer),
            AnswerKind::Ack => return bound(&answer, offer.as_ref(), asked, started.elapsed()),
            AnswerKind::Nak => {
                refused += 1;
                if refused == MOST_REFUSALS {
                    return Err(DhcpError::Refused { server: answer.server });
                }
                // From the beginning, in an exchange of its own (section 3.1).
                (offer, asker.exchange) = (None, asker.exchange.wrapping_add(1));
            }
        }
    }
    Err(DhcpError::Silence { asked })
}

/// The answer to what was sent last: an offer, or the server's word on what it had offered. All else is passed over.
fn answer(
    network: &mut impl Exchange,
    asker: &Asker,
    offer: Option<&Answer>,
    until: Instant,
) -> io::Result<Option<Answer>> {
    let mut buffer = [0; LONGEST + 1];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(None);
        }
        let Some(message) = network.receive(&mut buffer, left)? else { continue };
        let Some(answer) = asker.read(message) else { continue };
        let fits = match offer {
            None => answer.kind == AnswerKind::Offer,
            Some(offer) => answer.kind != AnswerKind::Offer && answer.server == offer.server,
        };
        if fits {
            return Ok(Some(answer));
        }
    }
}

/// A lease as its ACK says it; what that leaves out holds as it was offered.
fn bound(ack: &Answer, offer: Option<&Answer>, messages: u32, took: Duration) -> Result<Lease, DhcpError> {
    let prefix = ack.prefix.or(offer.and_then(|offer| offer.prefix));
    Ok(Lease {
        address: ack.address,
        prefix: prefix.ok_or(DhcpError::NoMask { server: ack.server })?,
        server: ack.server,
        seconds: ack.seconds.or(offer.and_then(|offer| offer.seconds)),
        messages,
        took: took.into(),
    })
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    const MAC: [u8; 6] = [2, 0x76, 0x74, 0, 0, 2];
    const SERVER: [u8; 4] = [10, 97, 0, 9];

    /// A server that says these things in turn, each to one message; 0: nothing.
    struct Script {
        says: VecDeque<u8>,
        asked: Vec<u8>,
        answers: VecDeque<Vec<u8>>,
    }

    impl Script {
        fn new(says: &[u8]) -> Self {
            Self { says: says.iter().copied().collect(), asked: Vec::new(), answers: VecDeque::new() }
        }
    }

    impl Exchange for Script {
        fn send(&mut self, message: &[u8]) -> io::Result<()> {
            // The kind of message is the first option.
            self.asked.push(message[242]);
            let mut answer = message.to_vec();
            answer[0] = 2;
            answer[16..20].copy_from_slice(&[10, 97, 0, 2]);
            let kind = self.says.pop_front().unwrap_or(0);
            let [a, b, c, d] = SERVER;
            let options = [53, 1, kind, 54, 4, a, b, c, d, 1, 4, 255, 255, 0, 0, 255];
            answer.splice(240.., options);
            self.answers.extend((kind != 0).then_some(answer));
            Ok(())
        }

        fn receive<'b>(&mut self, buffer: &'b mut [u8], within: Duration) -> io::Result<Option<&'b [u8]>> {
            let Some(answer) = self.answers.pop_front() else {
                std::thread::sleep(within);
                return Ok(None);
            };
            buffer[..answer.len()].copy_from_slice(&answer);
            Ok(Some(&buffer[..answer.len()]))
        }
    }

    fn ask(says: &[u8]) -> (Result<Lease, DhcpError>, Vec<u8>) {
        let mut script = Script::new(says);
        let lease = negotiate(&mut script, 7, MAC, Duration::from_millis(2500));
        (lease, script.asked)
    }

    #[test]
    fn an_offer_is_taken_and_bound() {
        let (lease, asked) = ask(&[2, 5]);
        let lease = lease.expect("a lease");
        assert_eq!((asked, lease.messages), (vec![1, 3], 2));
        assert_eq!((lease.address.octets(), lease.prefix), ([10, 97, 0, 2], 16));
        assert_eq!((lease.server.octets(), lease.seconds), (SERVER, None));
    }

    #[test]
    fn silence_is_asked_again_and_a_refusal_begins_anew() {
        let (lease, asked) = ask(&[0, 2, 6, 2, 5]);
        assert_eq!(lease.expect("a lease").messages, 5);
        assert_eq!(asked, [1, 1, 3, 1, 3]);
    }

    #[test]
    fn what_was_not_asked_for_is_no_answer() {
        // An ACK to a DISCOVER, and then nothing.
        let (lease, asked) = ask(&[5]);
        assert!(matches!(lease, Err(DhcpError::Silence { asked: 2.. })), "{lease:?}");
        assert!(asked.iter().all(|kind| *kind == 1), "{asked:?}");
    }

    #[test]
    fn a_server_that_refuses_again_and_again_is_named() {
        let (lease, asked) = ask(&[2, 6, 2, 6, 2, 6]);
        assert!(lease.unwrap_err().to_string().contains("10.97.0.9 refused 3 times"), "{asked:?}");
    }
}
