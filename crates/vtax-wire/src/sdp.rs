//! Session descriptions (RFC 8866) as calls with G.711 need them: where the other end hears, in which of both laws, how long its packets
//! are, and who speaks (RFC 3264).
//!
//! A description is looked at for its first stream of sound alone; what else is in it is left out. Nothing here touches a socket.

use std::fmt::Write as _;
use std::net::{IpAddr, SocketAddr};

use crate::rtp::Law;

/// Longest description that is read, in bytes.
pub const SDP_BYTES_MAX: usize = 16 << 10;
/// Most lines of one.
const LINES_MAX: usize = 500;
/// Longest packets that `a=ptime` may ask for, in milliseconds.
const PACKET_MAX: u8 = 200;

/// Why a description can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SdpError {
    /// It is longer than [`SDP_BYTES_MAX`], or has too many lines.
    #[error("a session description has more than {SDP_BYTES_MAX} bytes or {LINES_MAX} lines")]
    TooLong,
    /// It doesn't begin with `v=0`, or a line isn't a letter, `=` and a value.
    #[error("not a session description")]
    Malformed,
    /// It has no stream of sound.
    #[error("a session description without m=audio")]
    NoAudio,
    /// Its stream was refused: its port is 0.
    #[error("the stream of sound was refused (port 0)")]
    Refused,
    /// Its stream isn't plain RTP.
    #[error("the stream of sound isn't RTP/AVP")]
    Profile,
    /// None of its formats is G.711.
    #[error("the stream of sound is neither PCMU nor PCMA")]
    Codec,
    /// Its connection is missing, is a name, or is an address that nobody hears at.
    #[error("a session description without a usable address in c=")]
    Address,
}

/// Who speaks, as the end that wrote the description says.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Flow {
    /// Both.
    #[default]
    SendReceive,
    /// That end.
    SendOnly,
    /// The other.
    ReceiveOnly,
    /// Nobody.
    Inactive,
}

impl Flow {
    fn of(attribute: &[u8]) -> Option<Self> {
        Some(match attribute {
            b"sendrecv" => Self::SendReceive,
            b"sendonly" => Self::SendOnly,
            b"recvonly" => Self::ReceiveOnly,
            b"inactive" => Self::Inactive,
            _ => return None,
        })
    }

    /// Whether that end speaks.
    #[must_use]
    pub const fn speaks(self) -> bool {
        matches!(self, Self::SendReceive | Self::SendOnly)
    }

    /// Whether that end hears.
    #[must_use]
    pub const fn hears(self) -> bool {
        matches!(self, Self::SendReceive | Self::ReceiveOnly)
    }
}

/// What a description says of its first stream of sound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Audio {
    /// Where its end hears.
    pub address: SocketAddr,
    /// The law that it names first.
    pub law: Law,
    /// Whether it names both.
    pub both_laws: bool,
    /// How long packets to it are to be, in milliseconds, where it says (`a=ptime`).
    pub packet_ms: Option<u8>,
    /// Who speaks.
    pub flow: Flow,
}

impl Audio {
    /// Reads a description.
    ///
    /// # Errors
    /// It is none, or has no stream of G.711 over plain RTP to an address that can be sent to.
    pub fn parse(text: &[u8]) -> Result<Self, SdpError> {
        if text.len() > SDP_BYTES_MAX {
            return Err(SdpError::TooLong);
        }
        let mut lines = lines(text);
        if lines.next() != Some(Ok((b'v', b"0"))) {
            return Err(SdpError::Malformed);
        }
        // What the session says holds for its streams, where they don't say otherwise (RFC 8866 sections 5.7 and 6.7).
        let (mut said, mut part) = (Said::default(), Part::Session);
        for (number, line) in lines.enumerate() {
            let (kind, value) = line?;
            if number >= LINES_MAX {
                return Err(SdpError::TooLong);
            }
            part = match (kind, part) {
                (b'm', Part::Audio(_)) => break,
                (b'm', _) if value.starts_with(b"audio ") => Part::Audio(value),
                (b'm', _) => Part::Other,
                (_, part) => part,
            };
            if !matches!(part, Part::Other) {
                said.take(kind, value);
            }
        }
        let Part::Audio(media) = part else { return Err(SdpError::NoAudio) };
        said.audio(media)
    }

    /// Appends a description with this stream alone.
    pub fn write(&self, out: &mut Vec<u8>) {
        let (ip, port) = (self.address.ip(), self.address.port());
        let version = if ip.is_ipv4() { 4 } else { 6 };
        let payload = self.law.payload_type();
        let mut text = format!(
            "v=0\r\no=vtax 1 1 IN IP{version} {ip}\r\ns=-\r\nc=IN IP{version} {ip}\r\nt=0 0\r\nm=audio {port} RTP/AVP {payload}"
        );
        if self.both_laws {
            let other = if self.law == Law::Mu { Law::A } else { Law::Mu };
            // Writing into a text can't fail.
            let _ = write!(text, " {}", other.payload_type());
        }
        text.push_str("\r\n");
        if let Some(packet) = self.packet_ms {
            let _ = write!(text, "a=ptime:{packet}\r\n");
        }
        text.push_str(match self.flow {
            Flow::SendReceive => "a=sendrecv\r\n",
            Flow::SendOnly => "a=sendonly\r\n",
            Flow::ReceiveOnly => "a=recvonly\r\n",
            Flow::Inactive => "a=inactive\r\n",
        });
        out.extend_from_slice(text.as_bytes());
    }
}

/// Which part of a description a line is of.
#[derive(Clone, Copy)]
enum Part<'a> {
    Session,
    /// The first stream of sound, with its `m=`.
    Audio(&'a [u8]),
    /// Another stream.
    Other,
}

/// What lines say of the stream.
#[derive(Debug, Clone, Copy, Default)]
struct Said {
    address: Option<IpAddr>,
    packet_ms: Option<u8>,
    flow: Flow,
}

impl Said {
    fn take(&mut self, kind: u8, value: &[u8]) {
        match kind {
            b'c' => self.address = connection(value),
            b'a' => match value.strip_prefix(b"ptime:") {
                Some(time) => self.packet_ms = number(time).filter(|ms| (1..=PACKET_MAX).contains(ms)),
                None => self.flow = Flow::of(value).unwrap_or(self.flow),
            },
            _ => {}
        }
    }

    /// The stream of an `m=`: `audio PORT[/COUNT] RTP/AVP FORMAT…`.
    fn audio(self, media: &[u8]) -> Result<Audio, SdpError> {
        let mut words = media.split(|byte| *byte == b' ').skip(1);
        let port = words.next().and_then(|port| port.split(|byte| *byte == b'/').next());
        let port: u16 = port.and_then(number).ok_or(SdpError::Malformed)?;
        if port == 0 {
            return Err(SdpError::Refused);
        }
        if words.next() != Some(b"RTP/AVP") {
            return Err(SdpError::Profile);
        }
        // Payload types 0 and 8 are fixed (RFC 3551 section 6).
        let mut laws = words.filter_map(|format| match format {
            b"0" => Some(Law::Mu),
            b"8" => Some(Law::A),
            _ => None,
        });
        let law = laws.next().ok_or(SdpError::Codec)?;
        let address = SocketAddr::new(self.address.ok_or(SdpError::Address)?, port);
        let both_laws = laws.any(|other| other != law);
        Ok(Audio { address, law, both_laws, packet_ms: self.packet_ms, flow: self.flow })
    }
}

/// The address of `IN IP4 ADDRESS`, where it is one that a single end hears at.
fn connection(value: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(value).ok()?;
    let mut words = text.split(' ');
    let (network, version) = (words.next()?, words.next()?);
    let address: IpAddr = words.next()?.parse().ok()?;
    let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let usable = !address.is_multicast() && !address.is_unspecified() && !broadcast;
    let said = if address.is_ipv4() { "IP4" } else { "IP6" };
    (network == "IN" && version == said && usable).then_some(address)
}

fn number<T: std::str::FromStr>(text: &[u8]) -> Option<T> {
    let digits = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| digits)?.parse().ok()
}

/// The lines, each a letter and what follows its `=`; an empty one ends the description.
fn lines(text: &[u8]) -> impl Iterator<Item = Result<(u8, &[u8]), SdpError>> {
    let lines = text.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.take_while(|line| !line.is_empty()).map(|line| match line {
        [kind, b'=', value @ ..] if kind.is_ascii_lowercase() => Ok((*kind, value)),
        _ => Err(SdpError::Malformed),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEAD: &str = "v=0\r\no=a 1 1 IN IP4 h\r\ns=-\r\nc=IN IP4 10.0.0.1\r\nt=0 0\r\n";

    fn parse(rest: &str) -> Result<Audio, SdpError> {
        Audio::parse(format!("{HEAD}{rest}").as_bytes())
    }

    #[test]
    fn the_first_stream_of_sound_counts() {
        let audio = parse(
            "a=sendonly\r\nm=video 4000 RTP/AVP 0\r\nc=IN IP4 10.0.0.9\r\na=inactive\r\nm=audio 6000/2 RTP/AVP 101 8 0\r\na=rtpmap:8 \
             PCMA/8000\r\na=ptime:30\r\nm=audio 7000 RTP/AVP 0\r\na=recvonly\r\n",
        );
        let expected = Audio {
            address: ([10, 0, 0, 1], 6000).into(),
            law: Law::A,
            both_laws: true,
            packet_ms: Some(30),
            flow: Flow::SendOnly,
        };
        assert_eq!(audio, Ok(expected));
        let own = parse("m=audio 6000 RTP/AVP 0\nc=IN IP4 10.0.0.2\na=recvonly\n").unwrap();
        assert_eq!((own.address, own.law, own.both_laws), (([10, 0, 0, 2], 6000).into(), Law::Mu, false));
        assert!(own.flow.hears() && !own.flow.speaks());
        let six = b"v=0\r\nc=IN IP6 ::1\r\nm=audio 6000 RTP/AVP 0\r\n";
        assert_eq!(Audio::parse(six).unwrap().address, "[::1]:6000".parse().unwrap());
    }

    #[test]
    fn what_cant_be_sent_to_is_refused() {
        for (rest, error) in [
            ("", SdpError::NoAudio),
            ("m=video 1 RTP/AVP 0\r\n", SdpError::NoAudio),
            ("m=audio 0 RTP/AVP 0\r\n", SdpError::Refused),
            ("m=audio x RTP/AVP 0\r\n", SdpError::Malformed),
            ("m=audio 70000 RTP/AVP 0\r\n", SdpError::Malformed),
            ("m=audio 6000 RTP/SAVP 0\r\n", SdpError::Profile),
            ("m=audio 6000 RTP/AVP 9 96\r\n", SdpError::Codec),
            ("m=audio 6000 RTP/AVP 0\r\nc=IN IP4 0.0.0.0\r\n", SdpError::Address),
            ("m=audio 6000 RTP/AVP 0\r\nc=IN IP4 224.0.0.1/127\r\n", SdpError::Address),
            ("m=audio 6000 RTP/AVP 0\r\nc=IN IP4 255.255.255.255\r\n", SdpError::Address),
            ("m=audio 6000 RTP/AVP 0\r\nc=IN IP6 10.0.0.1\r\n", SdpError::Address),
            ("m=audio 6000 RTP/AVP 0\r\nc=IN IP4 host.example\r\n", SdpError::Address),
            ("m=audio 6000 RTP/AVP 0\r\nnonsense\r\n", SdpError::Malformed),
        ] {
            assert_eq!(parse(rest), Err(error), "{rest}");
        }
        assert_eq!(Audio::parse(b"m=audio 6000 RTP/AVP 0\r\n"), Err(SdpError::Malformed));
        let long = "a=x\r\n".repeat(LINES_MAX + 1);
        assert_eq!(parse(&format!("{long}m=audio 6000 RTP/AVP 0\r\n")), Err(SdpError::TooLong));
        assert_eq!(Audio::parse(&[b'v'; SDP_BYTES_MAX + 1]), Err(SdpError::TooLong));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(ip in any::<std::net::Ipv4Addr>(), six: bool, port in 1_u16.., mu: bool, both_laws: bool, packet_ms in proptest::option::of(1..=PACKET_MAX), flow in 0..4) {
            prop_assume!(connection(format!("IN IP4 {ip}").as_bytes()).is_some());
            let ip = if six { IpAddr::V6(ip.to_ipv6_mapped()) } else { IpAddr::V4(ip) };
            let flow = [Flow::SendReceive, Flow::SendOnly, Flow::ReceiveOnly, Flow::Inactive][flow as usize];
            let law = if mu { Law::Mu } else { Law::A };
            let audio = Audio { address: (ip, port).into(), law, both_laws, packet_ms, flow };
            let mut text = Vec::new();
            audio.write(&mut text);
            prop_assert_eq!(Audio::parse(&text), Ok(audio));
        }

        #[test]
        fn any_bytes_are_refused_or_understood(mut lines in proptest::collection::vec(("[vcamost]", "=?(audio |video |IN IP4 |ptime:)?[0-9./ ]{0,12}(RTP/AVP )?[08 ]{0,4}"), 0..12), cut in 0_usize..200) {
            lines.insert(0, ("v".into(), "=0".into()));
            let mut text: Vec<u8> = lines.iter().flat_map(|(kind, rest)| format!("{kind}{rest}\r\n").into_bytes()).collect();
            text.truncate(cut);
            if let Ok(audio) = Audio::parse(&text) {
                prop_assert!(audio.address.port() > 0 && !audio.address.ip().is_unspecified());
            }
        }
    }
}
