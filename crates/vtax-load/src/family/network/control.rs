//! What the two ends say to each other: JSON behind a length of four bytes, on one TCP connection;
//! and the token that data connections and datagrams show.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::NetworkCpu;
use super::voice::VoiceReport;
use super::{FailureKind, NetworkError, NetworkSpec, TcpSide, UdpReceiver, UdpSender};

/// Version of this protocol; both ends must have the same.
pub(super) const VERSION: u32 = 5;
/// A result with 100,000 intervals stays below.
const MESSAGE_MAX: usize = 4 << 20;

/// Names a test towards its server; not to be guessed by others.
pub(super) type Token = [u8; 16];

/// A token that can't be guessed.
pub(super) fn new_token() -> Result<Token, NetworkError> {
    let mut token = Token::default();
    rustix::rand::getrandom(&mut token, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| NetworkError::system("draw a random token")(e.into()))?;
    Ok(token)
}

/// What the client says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(super) enum ToServer {
    /// The first message of a control connection.
    Begin {
        /// [`VERSION`].
        version: u32,
        /// The test.
        spec: NetworkSpec,
    },
    /// The first message of a data connection.
    Stream {
        /// Of the test.
        token: Token,
        /// Number of the connection, from 0.
        index: u32,
        /// The client sends on it.
        up: bool,
    },
    /// The client's sending is over.
    Sent {
        /// Its count of datagrams, for UDP.
        datagrams: u64,
    },
    /// The client has called the test off: nothing more is to be sent.
    Stop,
    /// What did you see?
    Report,
}

/// What the server says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "kebab-case")]
pub(super) enum FromServer {
    /// The test may begin.
    Accepted {
        /// To be shown by what belongs to it.
        token: Token,
        /// Where the test's datagrams go, or its connections; 0 where they go to the server's own port.
        port: u16,
    },
    /// It may not.
    Refused {
        /// Why not, in words.
        reason: String,
        /// What kind of failure that is.
        kind: FailureKind,
    },
    /// Everything is there: begin.
    Go,
    /// What the server saw.
    Report(Box<ServerReport>),
}

/// What the server saw.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ServerReport {
    pub(super) received: Option<TcpSide>,
    pub(super) sent: Option<TcpSide>,
    pub(super) udp_received: Option<UdpReceiver>,
    pub(super) udp_sent: Option<UdpSender>,
    pub(super) voice: Option<Box<VoiceReport>>,
    pub(super) cpu: NetworkCpu,
    /// Bytes that the answers of transactions were sent again in, at most.
    #[serde(default)]
    pub(super) again: u64,
}

impl FromServer {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "an acceptance",
            Self::Refused { .. } => "a refusal",
            Self::Go => "a start",
            Self::Report(_) => "a report",
        }
    }
}

/// Sets what every control connection needs.
pub(super) fn prepare(link: &TcpStream, patience: Duration) -> io::Result<()> {
    link.set_nodelay(true)?;
    link.set_read_timeout(Some(patience))?;
    link.set_write_timeout(Some(patience))
}

pub(super) fn send(link: &mut TcpStream, message: &impl Serialize) -> Result<(), NetworkError> {
    let text = serde_json::to_vec(message).map_err(|e| NetworkError::protocol(e.to_string()))?;
    let mut frame = Vec::with_capacity(text.len() + 4);
    frame.extend_from_slice(&(text.len() as u32).to_be_bytes());
    frame.extend_from_slice(&text);
    link.write_all(&frame).map_err(NetworkError::lost("telling it what to do"))
}

pub(super) fn receive<T: DeserializeOwned>(link: &mut TcpStream) -> Result<T, NetworkError> {
    let mut length = [0; 4];
    link.read_exact(&mut length).map_err(NetworkError::lost("waiting for its word"))?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MESSAGE_MAX {
        return Err(NetworkError::protocol(format!("a message of {length} bytes")));
    }
    // Grows with what really comes, not with what a stranger announces.
    let mut text = Vec::new();
    link.take(length as u64).read_to_end(&mut text).map_err(NetworkError::lost("hearing its word"))?;
    if text.len() < length {
        return Err(NetworkError::lost("hearing its word")(io::ErrorKind::UnexpectedEof.into()));
    }
    serde_json::from_slice(&text).map_err(|e| NetworkError::protocol(e.to_string()))
}

/// Waits for the start.
pub(super) fn wait_for_go(link: &mut TcpStream) -> Result<(), NetworkError> {
    match receive(link)? {
        FromServer::Go => Ok(()),
        FromServer::Refused { reason, kind } => Err(NetworkError::Refused { reason, kind }),
        other => Err(NetworkError::protocol(format!("{} instead of a start", other.name()))),
    }
}

/// Asks for what the server saw.
pub(super) fn ask_report(link: &mut TcpStream) -> Result<ServerReport, NetworkError> {
    send(link, &ToServer::Report)?;
    match receive(link)? {
        FromServer::Report(report) => Ok(*report),
        FromServer::Refused { reason, kind } => Err(NetworkError::Refused { reason, kind }),
        other => Err(NetworkError::protocol(format!("{} instead of a report", other.name()))),
    }
}
