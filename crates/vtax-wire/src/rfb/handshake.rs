//! From the first byte to the server's description of its desktop (RFC 6143 sections 7.1 to 7.3), with VeNCrypt.

use super::input::{Input, be16, be32};
use super::{RfbError, vnc_auth};

/// Longest reason or name that is taken; real ones are short.
const MOST_TEXT: u32 = 1024;
const VENCRYPT: u8 = 19;

/// How a client proves who it is, and what hides the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// Nothing.
    None,
    /// A password, by challenge and response.
    Vnc,
    /// TLS without certificates.
    TlsNone,
    /// TLS without certificates, with a password.
    TlsVnc,
    /// TLS with the server's certificate.
    X509None,
    /// TLS with the server's certificate, with a password.
    X509Vnc,
}

impl Security {
    /// The type it is offered as, and its kind within VeNCrypt.
    const fn numbers(self) -> (u8, u32) {
        match self {
            Self::None => (1, 0),
            Self::Vnc => (2, 0),
            Self::TlsNone => (VENCRYPT, 257),
            Self::TlsVnc => (VENCRYPT, 258),
            Self::X509None => (VENCRYPT, 260),
            Self::X509Vnc => (VENCRYPT, 261),
        }
    }

    /// Whether the server asks for a password.
    #[must_use]
    pub const fn asks_password(self) -> bool {
        matches!(self, Self::Vnc | Self::TlsVnc | Self::X509Vnc)
    }

    /// Its name, as servers' options have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Vnc => "VncAuth",
            Self::TlsNone => "TLSNone",
            Self::TlsVnc => "TLSVnc",
            Self::X509None => "X509None",
            Self::X509Vnc => "X509Vnc",
        }
    }
}

/// Who logs in, and how.
#[derive(Debug, Clone)]
pub struct Login {
    /// What is asked of the server; nothing else is accepted.
    pub security: Security,
    /// Where the server asks for one.
    pub password: Option<String>,
    /// Others may be connected at the same time.
    pub shared: bool,
}

/// How far a handshake is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// More bytes must come.
    More,
    /// TLS begins: what is written was sent in the clear, and the bytes that aren't used yet are TLS already. What comes out of it is to
    /// be read by this handshake.
    Tls,
    /// The desktop is open.
    Open(ServerInit),
}

/// What a server says of its desktop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInit {
    /// In pixels.
    pub width: u16,
    /// In pixels.
    pub height: u16,
    /// Its name.
    pub name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Version,
    Types,
    VencryptVersion,
    VencryptAccepted,
    VencryptKinds,
    VencryptKindAccepted,
    Challenge,
    Result,
    Init,
}

/// The client's side of the opening of a connection.
#[derive(Debug)]
pub struct Handshake {
    login: Login,
    state: State,
}

impl Handshake {
    /// Before the first byte.
    #[must_use]
    pub const fn new(login: Login) -> Self {
        Self { login, state: State::Version }
    }

    /// Reads what has come and appends what is to be said; how many bytes were used, and how far it is.
    ///
    /// # Errors
    /// The server speaks something else, declines, or asks for what isn't there.
    pub fn read(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(usize, Reached), RfbError> {
        let mut input = Input::new(bytes);
        loop {
            let before = input.used();
            match self.step(&mut input, out)? {
                Some(Reached::More) => {}
                Some(reached) => return Ok((input.used(), reached)),
                // A step that wants for bytes has used none.
                None => return Ok((before, Reached::More)),
            }
        }
    }

    /// One message; `None` where it isn't whole.
    fn step(&mut self, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<Option<Reached>, RfbError> {
        let next = match self.state {
            State::Version => version(input, out)?,
            State::Types => self.types(input, out)?,
            State::VencryptVersion => vencrypt_version(input, out)?,
            State::VencryptAccepted => accepted(input, 0, State::VencryptKinds)?,
            State::VencryptKinds => self.kinds(input, out)?,
            State::VencryptKindAccepted => {
                // The number of this answer is 1 for yes, unlike the version's.
                let Some(next) = accepted(input, 1, self.after_security())? else { return Ok(None) };
                self.state = next;
                return Ok(Some(Reached::Tls));
            }
            State::Challenge => self.challenge(input, out)?,
            State::Result => self.result(input, out)?,
            State::Init => return init(input).map(|init| init.map(Reached::Open)),
        };
        Ok(next.map(|next| {
            self.state = next;
            Reached::More
        }))
    }

    fn after_security(&self) -> State {
        if self.login.security.asks_password() { State::Challenge } else { State::Result }
    }

    fn types(&self, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<Option<State>, RfbError> {
        let Some(&[count]) = input.array() else { return Ok(None) };
        if count == 0 {
            return match reason(input)? {
                Some(reason) => Err(RfbError::Declined { reason }),
                None => Ok(None),
            };
        }
        let Some(types) = input.take(count.into()) else { return Ok(None) };
        let (number, _) = self.login.security.numbers();
        if !types.contains(&number) {
            return Err(self.not_offered(types.iter().map(|t| u32::from(*t)).collect()));
        }
        out.push(number);
        Ok(Some(if number == VENCRYPT { State::VencryptVersion } else { self.after_security() }))
    }

    fn kinds(&self, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<Option<State>, RfbError> {
        let Some(&[count]) = input.array() else { return Ok(None) };
        let Some(kinds) = input.take(usize::from(count) * 4) else { return Ok(None) };
        let kinds: Vec<u32> = kinds.as_chunks::<4>().0.iter().map(|kind| u32::from_be_bytes(*kind)).collect();
        let (_, number) = self.login.security.numbers();
        if !kinds.contains(&number) {
            return Err(self.not_offered(kinds));
        }
        out.extend_from_slice(&number.to_be_bytes());
        Ok(Some(State::VencryptKindAccepted))
    }

    fn not_offered(&self, numbers: Vec<u32>) -> RfbError {
        let names: Vec<String> = numbers.into_iter().take(16).map(name_of).collect();
        let offered = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
        RfbError::Security { offered, wanted: self.login.security.name() }
    }

    fn challenge(&self, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<Option<State>, RfbError> {
        let Some(challenge) = input.array::<16>() else { return Ok(None) };
        let password = self.login.password.as_ref().ok_or(RfbError::NoPassword)?;
        out.extend_from_slice(&vnc_auth::response(password, challenge));
        Ok(Some(State::Result))
    }

    fn result(&self, input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<Option<State>, RfbError> {
        let Some(word) = input.array::<4>() else { return Ok(None) };
        if be32(word, 0) == 0 {
            out.push(u8::from(self.login.shared));
            return Ok(Some(State::Init));
        }
        Ok(match reason(input)? {
            Some(reason) => return Err(RfbError::Login { reason }),
            None => None,
        })
    }
}

fn version(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<Option<State>, RfbError> {
    let Some(greeting) = input.array::<12>() else {
        // What doesn't begin like it won't become it: who says less and waits would be waited for.
        let rest = input.rest();
        let alike = rest.iter().zip(b"RFB ").all(|(got, want)| got == want);
        return if alike { Ok(None) } else { Err(not_rfb(rest)) };
    };
    let number = |digits: &[u8]| {
        digits.iter().try_fold(0, |number, digit| {
            digit.is_ascii_digit().then(|| number * 10 + u32::from(digit - b'0'))
        })
    };
    let framed = greeting.starts_with(b"RFB ") && greeting[7] == b'.' && greeting[11] == b'\n';
    let (Some(major), Some(minor), true) = (number(&greeting[4..7]), number(&greeting[8..11]), framed) else {
        return Err(not_rfb(greeting));
    };
    if (major, minor) < (3, 8) {
        return Err(declined_in_old_words(input).unwrap_or(RfbError::Version { major, minor }));
    }
    out.extend_from_slice(b"RFB 003.008\n");
    Ok(Some(State::Types))
}

/// A server that wants nothing to do with a client, as TigerVNC after too many wrong passwords, may say so at once and as in RFB 3.3: a security
/// type of four bytes that is 0, and its reason.
fn declined_in_old_words(input: &mut Input<'_>) -> Option<RfbError> {
    let word = input.array::<4>()?;
    let reason = if be32(word, 0) == 0 { reason(input).ok()?? } else { return None };
    Some(RfbError::Declined { reason })
}

fn not_rfb(greeting: &[u8]) -> RfbError {
    RfbError::NotRfb { greeting: String::from_utf8_lossy(&greeting[..greeting.len().min(12)]).into_owned() }
}

fn vencrypt_version(input: &mut Input<'_>, out: &mut Vec<u8>) -> Result<Option<State>, RfbError> {
    let Some(version) = input.array::<2>() else { return Ok(None) };
    if version != &[0, 2] {
        return Err(RfbError::Content { encoding: "VeNCrypt", what: "a version other than 0.2" });
    }
    out.extend_from_slice(&[0, 2]);
    Ok(Some(State::VencryptAccepted))
}

fn accepted(input: &mut Input<'_>, yes: u8, next: State) -> Result<Option<State>, RfbError> {
    match input.array() {
        None => Ok(None),
        Some(&[answer]) if answer == yes => Ok(Some(next)),
        Some(_) => Err(RfbError::Content { encoding: "VeNCrypt", what: "the server declined" }),
    }
}

fn init(input: &mut Input<'_>) -> Result<Option<ServerInit>, RfbError> {
    let Some(head) = input.array::<20>() else { return Ok(None) };
    // Its own format of pixels doesn't matter: another is asked for.
    let Some(name) = text(input, "name")? else { return Ok(None) };
    Ok(Some(ServerInit { width: be16(head, 0), height: be16(head, 2), name }))
}

fn reason(input: &mut Input<'_>) -> Result<Option<String>, RfbError> {
    Ok(text(input, "reason")?.map(|text| text.chars().filter(|c| !c.is_control()).take(200).collect()))
}

fn text(input: &mut Input<'_>, what: &'static str) -> Result<Option<String>, RfbError> {
    let Some(length) = input.array::<4>() else { return Ok(None) };
    let length = be32(length, 0);
    if length > MOST_TEXT {
        return Err(RfbError::Length { what, length: i64::from(length.cast_signed()), most: MOST_TEXT });
    }
    Ok(input.take(length as usize).map(|bytes| String::from_utf8_lossy(bytes).into_owned()))
}

fn name_of(number: u32) -> String {
    match number {
        1 => "None".to_owned(),
        2 => "VncAuth".to_owned(),
        16 => "Tight".to_owned(),
        18 => "TLS".to_owned(),
        19 => "VeNCrypt".to_owned(),
        256 => "Plain".to_owned(),
        257 => "TLSNone".to_owned(),
        258 => "TLSVnc".to_owned(),
        259 => "TLSPlain".to_owned(),
        260 => "X509None".to_owned(),
        261 => "X509Vnc".to_owned(),
        262 => "X509Plain".to_owned(),
        other => format!("type {other}"),
    }
}
