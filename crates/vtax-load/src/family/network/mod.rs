//! Network tests: bulk TCP, UDP at a rate, request/response transactions, echo, and voice.
//!
//! Two ends take part: [`run`] on the client, [`serve`] on the other. A test has one control
//! connection, over which the client says what is to be done and the server, at the end, what it
//! saw; data goes over connections and datagrams of their own that carry the test's token. Only
//! ICMP echo needs no server: the peer's kernel answers.
//!
//! What is counted is counted on both sides and compared: a test whose ends disagree says so.

mod agreed;
mod control;
mod echo;
mod error;
mod meter;
mod result;
mod rr;
mod server;
mod session;
mod source;
mod spec;
mod tcp;
mod udp;
mod voice;

use std::net::TcpStream;

pub use error::{FailureKind, NetworkError, NetworkFailure};
pub use result::*;
pub use server::{ServerOptions, serve};
pub use session::{NetworkAnswer, NetworkSession};
pub use spec::*;
pub(crate) use voice::{SOUND_BYTES_MAX, Sound, share};
pub use voice::{VoiceDirection, VoiceEnd, VoicePackets, VoiceRating, VoiceResult};
pub use vtax_plan::model::{
    Direction, NetworkTestKind, PingTest, Probe, RrTest, SocketOptions, TcpTest, UdpTest, VoiceLaw, VoiceTest,
};

use crate::Control;
use agreed::Agreed;
use control::{FromServer, ToServer};

/// Carries out a test against a server, or against the peer's kernel for ICMP echo.
///
/// Takes about `warmup + duration`, and some seconds more where a peer stops answering.
///
/// # Errors
///
/// The specification is invalid, no server answers there, the peer went away, or the kernel refuses
/// something the test needs.
pub fn run(spec: &NetworkSpec, control: &Control, watch: Watch<'_>) -> Result<NetworkResult, NetworkError> {
    spec.check()?;
    if let NetworkTestKind::Ping(ping) = &spec.test
        && ping.probe == Probe::Icmp
    {
        return echo::icmp(spec, ping, control, watch).map(NetworkResult::Ping);
    }
    let mut link = TcpStream::connect_timeout(&spec.target, PATIENCE)
        .map_err(|source| NetworkError::Connect { target: spec.target, source })?;
    control::prepare(&link, PATIENCE).map_err(NetworkError::system("prepare the control connection"))?;
    control::send(&mut link, &ToServer::Begin { version: control::VERSION, spec: spec.clone() })?;
    let (token, port) = match control::receive(&mut link)? {
        FromServer::Accepted { token, port } => (token, port),
        FromServer::Refused { reason, kind } => return Err(NetworkError::Refused { reason, kind }),
        other => return Err(NetworkError::protocol(format!("{} before the test", other.name()))),
    };
    let session = Agreed { spec, token, port, control, watch };
    match &spec.test {
        NetworkTestKind::Tcp(test) => tcp::client(&session, test, link).map(NetworkResult::Tcp),
        NetworkTestKind::Udp(test) => udp::client(&session, test, link).map(NetworkResult::Udp),
        NetworkTestKind::Rr(test) => rr::client(&session, test, link).map(NetworkResult::Rr),
        NetworkTestKind::Ping(test) => echo::udp(&session, test, link).map(NetworkResult::Ping),
        NetworkTestKind::Voice(test) => {
            voice::client(&session, test, link).map(|found| NetworkResult::Voice(Box::new(found)))
        }
    }
}
