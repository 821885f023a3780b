//! One value of Via (RFC 3261 section 20.42).

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};

use super::scan::{host_address, is_space, port, split_host_port, split_token, trim, trim_start};
use super::{Name, Params, SipError, decimal};

/// The transport a Via names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// TLS over TCP.
    Tls,
    /// SCTP or another.
    Other,
}

impl Transport {
    /// How it is written in a Via; empty for [`Transport::Other`].
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Udp => "UDP",
            Self::Tcp => "TCP",
            Self::Tls => "TLS",
            Self::Other => "",
        }
    }
}

/// One value of Via.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Via<'a> {
    /// The whole value.
    pub text: &'a [u8],
    /// The transport.
    pub transport: Transport,
    /// sent-by: name or address; an IPv6 address is in brackets.
    pub host: &'a [u8],
    /// sent-by: the port.
    pub port: Option<u16>,
    /// The branch.
    pub branch: Option<&'a [u8]>,
    /// Where the request came from, as the next hop saw it.
    pub received: Option<&'a [u8]>,
    /// RFC 3581: `None` where it is not given, `Some(None)` where it is asked for.
    pub rport: Option<Option<u16>>,
    /// Where responses over multicast go.
    pub maddr: Option<&'a [u8]>,
    params: &'a [u8],
}

/// How branches of RFC 3261 begin; one without is of RFC 2543 and proves nothing.
pub(super) const COOKIE: &[u8] = b"z9hG4bK";

const MALFORMED: SipError = SipError::Value(Name::Via);

impl<'a> Via<'a> {
    /// Takes one value to pieces.
    ///
    /// # Errors
    /// [`SipError::Value`]: it is malformed.
    pub fn parse(value: &'a [u8]) -> Result<Self, SipError> {
        let text = trim(value);
        let (transport, rest) = split_protocol(text).ok_or(MALFORMED)?;
        let (host, port_given, params) = split_host_port(rest).ok_or(MALFORMED)?;
        let mut via = Self {
            text,
            transport,
            host,
            port: port_given,
            branch: None,
            received: None,
            rport: None,
            maddr: None,
            params,
        };
        for param in Params::new(params) {
            let param = param.map_err(|_| MALFORMED)?;
            match param.name.len() {
                6 if param.name.eq_ignore_ascii_case(b"branch") => via.branch = param.value,
                8 if param.name.eq_ignore_ascii_case(b"received") => via.received = param.value,
                5 if param.name.eq_ignore_ascii_case(b"maddr") => via.maddr = param.value,
                5 if param.name.eq_ignore_ascii_case(b"rport") => {
                    via.rport = Some(match param.value {
                        Some(digits) => Some(port(digits).ok_or(MALFORMED)?),
                        None => None,
                    });
                }
                _ => {}
            }
        }
        Ok(via)
    }

    /// True where the branch is one of RFC 3261, unique to its transaction.
    #[must_use]
    pub fn is_branch_unique(&self) -> bool {
        self.branch.is_some_and(|b| b.len() > COOKIE.len() && b[..COOKIE.len()].eq_ignore_ascii_case(COOKIE))
    }

    /// sent-by as an address; `None` where it is a name.
    #[must_use]
    pub fn address(&self) -> Option<IpAddr> {
        host_address(self.host)
    }

    /// Appends the value with what its recipient adds: `received` where sent-by is not the source's
    /// address, and both `received` and `rport` where rport was asked for (RFC 3261 section
    /// 18.2.1, RFC 3581 section 4). What was there of both before is dropped.
    pub fn write_received(&self, source: SocketAddr, out: &mut Vec<u8>) {
        out.extend_from_slice(trim(&self.text[..self.text.len() - self.params.len()]));
        let mut params = Params::new(self.params);
        while let Some((raw, param)) = params.next_raw() {
            let name = param.name;
            if !name.eq_ignore_ascii_case(b"received") && !name.eq_ignore_ascii_case(b"rport") {
                out.extend_from_slice(raw);
            }
        }
        let asks_for_port = self.rport.is_some();
        if asks_for_port || self.address() != Some(source.ip()) {
            out.extend_from_slice(b";received=");
            write_ip(source.ip(), out);
        }
        if asks_for_port {
            out.extend_from_slice(b";rport=");
            decimal(out, source.port().into());
        }
    }
}

/// The frequent kind without the formatting of the standard library, which takes several times as long.
fn write_ip(ip: IpAddr, out: &mut Vec<u8>) {
    match ip {
        IpAddr::V4(v4) => {
            for (at, octet) in v4.octets().into_iter().enumerate() {
                if at > 0 {
                    out.push(b'.');
                }
                decimal(out, octet.into());
            }
        }
        // Writing to a Vec can't fail.
        IpAddr::V6(v6) => _ = write!(out, "{v6}"),
    }
}

/// Splits `SIP/2.0/UDP` and the space behind it off; white space may surround the slashes.
fn split_protocol(text: &[u8]) -> Option<(Transport, &[u8])> {
    if let Some((head, rest)) = text.split_first_chunk::<12>()
        && !rest.first().is_some_and(|b| is_space(*b))
    {
        match head {
            b"SIP/2.0/UDP " => return Some((Transport::Udp, rest)),
            b"SIP/2.0/TCP " => return Some((Transport::Tcp, rest)),
            _ => {}
        }
    }
    let (name, rest) = split_token(text);
    let rest = trim_start(trim_start(rest).strip_prefix(b"/")?);
    let (version, rest) = split_token(rest);
    let rest = trim_start(trim_start(rest).strip_prefix(b"/")?);
    let (transport, rest) = split_token(rest);
    let is_sip = name.eq_ignore_ascii_case(b"SIP") && version == b"2.0";
    if !is_sip || transport.is_empty() || !rest.first().is_some_and(|b| is_space(*b)) {
        return None;
    }
    let transport = if transport.eq_ignore_ascii_case(b"UDP") {
        Transport::Udp
    } else if transport.eq_ignore_ascii_case(b"TCP") {
        Transport::Tcp
    } else if transport.eq_ignore_ascii_case(b"TLS") {
        Transport::Tls
    } else {
        Transport::Other
    };
    Some((transport, trim_start(rest)))
}
