//! Methods and header names.

/// A request's method. Methods are case-sensitive (RFC 3261 section 7.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the method of its name")]
pub enum Method {
    Invite,
    Ack,
    Bye,
    Cancel,
    Register,
    Options,
    Message,
    Update,
    Prack,
    Info,
    Subscribe,
    Notify,
    Publish,
    Refer,
    /// Any other; the bytes are where the method was read.
    Other,
}

impl Method {
    /// The method that is written so.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        match text {
            b"INVITE" => Self::Invite,
            b"ACK" => Self::Ack,
            b"BYE" => Self::Bye,
            b"CANCEL" => Self::Cancel,
            b"REGISTER" => Self::Register,
            b"OPTIONS" => Self::Options,
            b"MESSAGE" => Self::Message,
            b"UPDATE" => Self::Update,
            b"PRACK" => Self::Prack,
            b"INFO" => Self::Info,
            b"SUBSCRIBE" => Self::Subscribe,
            b"NOTIFY" => Self::Notify,
            b"PUBLISH" => Self::Publish,
            b"REFER" => Self::Refer,
            _ => Self::Other,
        }
    }

    /// How it is written; empty for [`Method::Other`].
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Invite => "INVITE",
            Self::Ack => "ACK",
            Self::Bye => "BYE",
            Self::Cancel => "CANCEL",
            Self::Register => "REGISTER",
            Self::Options => "OPTIONS",
            Self::Message => "MESSAGE",
            Self::Update => "UPDATE",
            Self::Prack => "PRACK",
            Self::Info => "INFO",
            Self::Subscribe => "SUBSCRIBE",
            Self::Notify => "NOTIFY",
            Self::Publish => "PUBLISH",
            Self::Refer => "REFER",
            Self::Other => "",
        }
    }
}

/// A header's name, as far as the codec knows it; compact forms are the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "each is the header of its name")]
#[repr(u8)]
pub enum Name {
    Via,
    From,
    To,
    CallId,
    CSeq,
    Contact,
    Expires,
    MaxForwards,
    Route,
    RecordRoute,
    ContentLength,
    ContentType,
    WwwAuthenticate,
    ProxyAuthenticate,
    Authorization,
    ProxyAuthorization,
    ServiceRoute,
    Path,
    Require,
    ProxyRequire,
    Supported,
    Unsupported,
    MinExpires,
    RetryAfter,
    /// Any other.
    Other,
}

/// How many names there are, [`Name::Other`] not counted.
pub(super) const KNOWN: usize = Name::Other as usize;

impl Name {
    /// The header of that name, in any case, in full or compact.
    #[must_use]
    pub fn of(text: &[u8]) -> Self {
        let Some(first) = text.first() else { return Self::Other };
        let first = first.to_ascii_lowercase();
        let name = match (text.len(), first) {
            (1, _) => return Self::of_compact(first),
            (3, b'v') => Self::Via,
            (4, b'f') => Self::From,
            (2, b't') => Self::To,
            (7, b'c') if text[1].eq_ignore_ascii_case(&b'a') => Self::CallId,
            (7, b'c') => Self::Contact,
            (4, b'c') => Self::CSeq,
            (4, b'p') => Self::Path,
            (7, b'e') => Self::Expires,
            (12, b'm') => Self::MaxForwards,
            (5, b'r') => Self::Route,
            (12, b'r') => Self::RecordRoute,
            (14, b'c') => Self::ContentLength,
            (12, b'c') => Self::ContentType,
            (16, b'w') => Self::WwwAuthenticate,
            (18, b'p') => Self::ProxyAuthenticate,
            (13, b'a') => Self::Authorization,
            (19, b'p') => Self::ProxyAuthorization,
            (13, b's') => Self::ServiceRoute,
            (7, b'r') => Self::Require,
            (13, b'p') => Self::ProxyRequire,
            (9, b's') => Self::Supported,
            (11, b'u') => Self::Unsupported,
            (11, b'm') => Self::MinExpires,
            (11, b'r') => Self::RetryAfter,
            _ => return Self::Other,
        };
        let full = name.text().as_bytes();
        // Nearly everyone writes it as the RFC does, and that is found faster.
        if text == full || text.eq_ignore_ascii_case(full) { name } else { Self::Other }
    }

    const fn of_compact(letter: u8) -> Self {
        match letter {
            b'v' => Self::Via,
            b'f' => Self::From,
            b't' => Self::To,
            b'i' => Self::CallId,
            b'm' => Self::Contact,
            b'l' => Self::ContentLength,
            b'c' => Self::ContentType,
            b'k' => Self::Supported,
            _ => Self::Other,
        }
    }

    /// The full form; empty for [`Name::Other`].
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Via => "Via",
            Self::From => "From",
            Self::To => "To",
            Self::CallId => "Call-ID",
            Self::CSeq => "CSeq",
            Self::Contact => "Contact",
            Self::Expires => "Expires",
            Self::MaxForwards => "Max-Forwards",
            Self::Route => "Route",
            Self::RecordRoute => "Record-Route",
            Self::ContentLength => "Content-Length",
            Self::ContentType => "Content-Type",
            Self::WwwAuthenticate => "WWW-Authenticate",
            Self::ProxyAuthenticate => "Proxy-Authenticate",
            Self::Authorization => "Authorization",
            Self::ProxyAuthorization => "Proxy-Authorization",
            Self::ServiceRoute => "Service-Route",
            Self::Path => "Path",
            Self::Require => "Require",
            Self::ProxyRequire => "Proxy-Require",
            Self::Supported => "Supported",
            Self::Unsupported => "Unsupported",
            Self::MinExpires => "Min-Expires",
            Self::RetryAfter => "Retry-After",
            Self::Other => "",
        }
    }
}
