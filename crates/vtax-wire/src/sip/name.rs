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

    /// The name of a header line that begins as nearly all do: with the full form as the RFC writes it, and the
    /// colon right behind it. With the name's length.
    #[inline]
    pub(super) fn usual(line: &[u8]) -> Option<(Self, usize)> {
        let name = match line {
            [b'V', ..] => Self::Via,
            [b'F', ..] => Self::From,
            [b'T', ..] => Self::To,
            [b'C', b'a', ..] => Self::CallId,
            [b'C', b'S', ..] => Self::CSeq,
            [b'C', b'o', b'n', b't', b'a', ..] => Self::Contact,
            [b'C', _, _, _, _, _, _, _, b'L', ..] => Self::ContentLength,
            [b'C', ..] => Self::ContentType,
            [b'M', b'a', ..] => Self::MaxForwards,
            [b'R', b'e', b'c', ..] => Self::RecordRoute,
            [b'R', b'o', ..] => Self::Route,
            [b'E', ..] => Self::Expires,
            [b'A', ..] => Self::Authorization,
            [b'W', ..] => Self::WwwAuthenticate,
            _ => return None,
        };
        let rest = line.strip_prefix(name.text().as_bytes())?;
        (rest.first() == Some(&b':')).then_some((name, name.text().len()))
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Every name there is.
    const ALL: [Name; KNOWN] = [
        Name::Via,
        Name::From,
        Name::To,
        Name::CallId,
        Name::CSeq,
        Name::Contact,
        Name::Expires,
        Name::MaxForwards,
        Name::Route,
        Name::RecordRoute,
        Name::ContentLength,
        Name::ContentType,
        Name::WwwAuthenticate,
        Name::ProxyAuthenticate,
        Name::Authorization,
        Name::ProxyAuthorization,
        Name::ServiceRoute,
        Name::Path,
        Name::Require,
        Name::ProxyRequire,
        Name::Supported,
        Name::Unsupported,
        Name::MinExpires,
        Name::RetryAfter,
    ];

    #[test]
    fn the_short_way_finds_what_the_long_one_finds() {
        for name in ALL {
            assert_eq!(Name::of(name.text().as_bytes()), name);
            let line = format!("{}: x", name.text());
            if let Some((found, length)) = Name::usual(line.as_bytes()) {
                assert_eq!((found, length), (name, name.text().len()));
            }
            // What isn't written as usual goes the long way.
            for other in
                [format!("{} : x", name.text()), format!("{}x: x", name.text()), name.text().to_owned()]
            {
                assert_eq!(Name::usual(other.as_bytes()), None, "{other}");
            }
        }
    }
}
