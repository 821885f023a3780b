//! Identities made from a format and a number: what provisions a service, calls it and answers for
//! it must agree on every one of them.

use super::model::Subscribers;

/// The longest identity, password, realm or domain in bytes: the columns of the usual `subscriber`
/// table are that wide.
pub const LONGEST_IDENTITY: usize = 64;
/// No benchmark provisions more subscribers.
pub const MOST_SUBSCRIBERS: u32 = 10_000_000;
/// Digits of the largest index.
const MOST_DIGITS: usize = 10;

/// A format such as `subs%06d`, understood: text, at most one number, text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdentityFormat {
    before: String,
    number: Option<Number>,
    after: String,
}

/// How the number is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    width: usize,
    zeros: bool,
}

/// Why a format can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormatError {
    /// A conversion other than `%d` and `%06d`.
    #[error("`%{0}` is no number: use `%d`, `%06d` (at most ten digits), or `%%` for a percent sign")]
    Conversion(String),
    /// Two numbers.
    #[error("it holds a second number; one is enough to tell subscribers apart")]
    SecondNumber,
    /// Nothing at all.
    #[error("it is empty")]
    Empty,
    /// Too long once filled in.
    #[error("it makes identities of up to {0} bytes; the most is {LONGEST_IDENTITY}")]
    TooLong(usize),
    /// A character that can't stand there.
    #[error("it holds `{}`, which can't be part of {what}", .character.escape_debug())]
    Character {
        /// The character.
        character: char,
        /// What it stands in, such as `public identity`.
        what: &'static str,
    },
}

/// Why subscribers can't be provisioned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SubscribersError {
    /// Their number.
    #[error("{0} subscribers: there must be at least 1 and at most {MOST_SUBSCRIBERS}")]
    Count(u32),
    /// A format or name.
    #[error("the {what} `{}`: {source}", .text.escape_debug())]
    Format {
        /// Which, such as `public identity`.
        what: &'static str,
        /// As it was given.
        text: String,
        /// What is wrong with its format.
        #[source]
        source: FormatError,
    },
    /// Several subscribers would be one.
    #[error("the {what} `{text}` holds no number, so all {count} subscribers would share it; add `%06d`")]
    Shared {
        /// What of the subscribers, such as `public identity`.
        what: &'static str,
        /// As it was given.
        text: String,
        /// How many.
        count: u32,
    },
}

impl IdentityFormat {
    /// Understands a format of printable ASCII.
    ///
    /// # Errors
    ///
    /// See [`FormatError`]; beyond that nothing is checked, not even that its characters suit a SIP
    /// URI: [`Subscribers::formats`] does that.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        let mut this = Self { before: String::new(), number: None, after: String::new() };
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            rest = &rest[character.len_utf8()..];
            if !matches!(character, '\x21'..='\x7e') {
                return Err(FormatError::Character { character, what: "an identity" });
            }
            if character != '%' {
                this.text().push(character);
            } else if let Some(after) = rest.strip_prefix('%') {
                this.text().push('%');
                rest = after;
            } else {
                let (number, after) = Number::parse(rest)?;
                if this.number.replace(number).is_some() {
                    return Err(FormatError::SecondNumber);
                }
                rest = after;
            }
            let length = this.longest();
            if length > LONGEST_IDENTITY {
                return Err(FormatError::TooLong(length));
            }
        }
        if this.longest() == 0 { Err(FormatError::Empty) } else { Ok(this) }
    }

    fn text(&mut self) -> &mut String {
        if self.number.is_some() { &mut self.after } else { &mut self.before }
    }

    /// Length in bytes of the longest identity it can make.
    fn longest(&self) -> usize {
        self.before.len() + self.after.len() + self.number.map_or(0, |n| n.width.max(MOST_DIGITS))
    }

    /// Whether it tells subscribers apart.
    #[must_use]
    pub fn is_numbered(&self) -> bool {
        self.number.is_some()
    }

    /// Appends the identity of subscriber `index` to `to`, at most [`LONGEST_IDENTITY`] bytes of
    /// ASCII.
    pub fn write(&self, index: u32, to: &mut Vec<u8>) {
        to.extend_from_slice(self.before.as_bytes());
        if let Some(number) = self.number {
            number.write(index, to);
        }
        to.extend_from_slice(self.after.as_bytes());
    }

    /// The identity of subscriber `index`.
    #[must_use]
    pub fn identity(&self, index: u32) -> String {
        let mut bytes = Vec::with_capacity(LONGEST_IDENTITY);
        self.write(index, &mut bytes);
        // All of it is ASCII.
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The subscriber whose identity this is; `None` where no subscriber has it. Without a number in the
    /// format every subscriber has the same identity, and the answer is the first.
    #[must_use]
    pub fn index(&self, identity: &[u8]) -> Option<u32> {
        let middle = identity.strip_prefix(self.before.as_bytes())?.strip_suffix(self.after.as_bytes())?;
        match self.number {
            Some(number) => number.read(middle),
            None => middle.is_empty().then_some(0),
        }
    }

    fn characters(&self) -> impl Iterator<Item = char> {
        self.before.chars().chain(self.after.chars())
    }
}

impl Number {
    /// Parses what follows a percent sign; gives what follows the number.
    fn parse(text: &str) -> Result<(Self, &str), FormatError> {
        let unknown = || FormatError::Conversion(text.chars().take(4).collect());
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let after = text[digits..].strip_prefix('d').ok_or_else(unknown)?;
        let zeros = text.starts_with('0');
        let width = &text[usize::from(zeros)..digits];
        let width = if width.is_empty() { 0 } else { width.parse().map_err(|_| unknown())? };
        // Spaces, which a width without zeros would ask for, can't be part of an identity.
        if width > MOST_DIGITS || (width > 0 && !zeros) {
            return Err(unknown());
        }
        Ok((Self { width, zeros }, after))
    }

    fn write(self, index: u32, to: &mut Vec<u8>) {
        let mut digits = [b'0'; MOST_DIGITS];
        let (mut rest, mut first) = (index, MOST_DIGITS);
        while rest > 0 || first == MOST_DIGITS {
            first -= 1;
            // A digit: `rest % 10` fits.
            digits[first] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        let first = if self.zeros { first.min(MOST_DIGITS - self.width) } else { first };
        to.extend_from_slice(&digits[first..]);
    }

    fn read(self, text: &[u8]) -> Option<u32> {
        if text.is_empty() || text.len() > MOST_DIGITS || !text.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let value = text.iter().fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0'));
        // Leading zeros only up to the width: else many texts would be one subscriber's.
        let spelled = if self.zeros { text.len() >= self.width } else { true };
        let shortest = text.len() <= self.width.max(1) || text[0] != b'0';
        if spelled && shortest { u32::try_from(value).ok() } else { None }
    }
}

/// The formats of subscribers, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubscriberFormats {
    /// User part of the public identity.
    pub public: IdentityFormat,
    /// User name of digest authentication.
    pub private: IdentityFormat,
    /// Password.
    pub password: IdentityFormat,
}

impl Subscribers {
    /// Understands the formats and checks everything else a service relies on: the number, that
    /// subscribers differ, that identities can stand in a SIP URI and in a quoted string
    /// (RFC 3261 section 25.1) as they are, and that realm and domain can.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn formats(&self) -> Result<SubscriberFormats, SubscribersError> {
        if !(1..=MOST_SUBSCRIBERS).contains(&self.count) {
            return Err(SubscribersError::Count(self.count));
        }
        let public = self.numbered("public identity", &self.public, is_user)?;
        let private = self.numbered("private identity", &self.private, is_quotable)?;
        let password = format("password", &self.password, is_quotable)?;
        for (what, text, fits) in [
            ("realm", &self.realm, is_quotable as fn(char) -> bool),
            ("domain", &self.domain, is_host as fn(char) -> bool),
        ] {
            name(text, what, fits).map_err(|source| SubscribersError::Format {
                what,
                text: text.clone(),
                source,
            })?;
        }
        Ok(SubscriberFormats { public, private, password })
    }

    fn numbered(
        &self,
        what: &'static str,
        text: &str,
        fits: fn(char) -> bool,
    ) -> Result<IdentityFormat, SubscribersError> {
        let understood = format(what, text, fits)?;
        if self.count > 1 && !understood.is_numbered() {
            return Err(SubscribersError::Shared { what, text: text.to_owned(), count: self.count });
        }
        Ok(understood)
    }
}

fn format(
    what: &'static str,
    text: &str,
    fits: fn(char) -> bool,
) -> Result<IdentityFormat, SubscribersError> {
    let understood = IdentityFormat::parse(text).and_then(|format| {
        let odd = format.characters().find(|c| !fits(*c));
        odd.map_or(Ok(format), |character| Err(FormatError::Character { character, what }))
    });
    understood.map_err(|source| SubscribersError::Format { what, text: text.to_owned(), source })
}

/// Checks a name that holds no number.
fn name(text: &str, what: &'static str, fits: fn(char) -> bool) -> Result<(), FormatError> {
    match text.chars().find(|c| !fits(*c)) {
        Some(character) => Err(FormatError::Character { character, what }),
        None if text.is_empty() => Err(FormatError::Empty),
        None if text.len() > LONGEST_IDENTITY => Err(FormatError::TooLong(text.len())),
        None => Ok(()),
    }
}

/// What a user part holds unescaped, `unreserved` and `user-unreserved` of RFC 3261 section 25.1;
/// without `;` and `?`, which many programs take for the start of parameters.
fn is_user(character: char) -> bool {
    character.is_ascii_alphanumeric() || "-_.!~*'()&=+$,/".contains(character)
}

/// What a quoted string holds unescaped, without spaces.
fn is_quotable(character: char) -> bool {
    matches!(character, '\x21'..='\x7e') && !matches!(character, '"' | '\\')
}

/// What a host name or an IPv4 address holds.
fn is_host(character: char) -> bool {
    character.is_ascii_alphanumeric() || matches!(character, '-' | '.')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> IdentityFormat {
        IdentityFormat::parse(text).expect(text)
    }

    #[test]
    fn numbers_are_written_as_printf_would() {
        for (format, index, identity) in [
            ("subs%06d", 3544, "subs003544"),
            ("subs%06d", 12_345_678, "subs12345678"),
            ("%d", 0, "0"),
            ("%0d", 7, "7"),
            ("u%d@x", u32::MAX, "u4294967295@x"),
            ("%010d", 1, "0000000001"),
            ("100%%%02d", 5, "100%05"),
            ("abcdefgh", 5, "abcdefgh"),
        ] {
            assert_eq!(parse(format).identity(index), identity);
        }
    }

    #[test]
    fn hostile_formats_are_refused() {
        for text in ["%s", "%n", "%", "%6d", "%011d", "%99999999999999999999d", "%-6d", "%06x", "% d", "%ld"]
        {
            let refused = IdentityFormat::parse(text);
            let expected = text == "% d" || matches!(refused, Err(FormatError::Conversion(_)));
            assert!(refused.is_err() && expected, "{text}: {refused:?}");
        }
        assert_eq!(IdentityFormat::parse("%d-%d"), Err(FormatError::SecondNumber));
        assert_eq!(IdentityFormat::parse(""), Err(FormatError::Empty));
        assert!(matches!(IdentityFormat::parse(&"x".repeat(1 << 20)), Err(FormatError::TooLong(65))));
        for text in ["a b", "a\n", "a\0", "ä"] {
            assert!(matches!(IdentityFormat::parse(text), Err(FormatError::Character { .. })), "{text:?}");
        }
    }

    #[test]
    fn only_the_spelling_of_the_format_is_an_identity() {
        let format = parse("subs%06d");
        assert_eq!(format.index(b"subs003544"), Some(3544));
        assert_eq!(format.index(b"subs1234567"), Some(1_234_567));
        for other in ["subs3544", "subs0003544", "subs00354x", "subs", "", "sub003544", "subs4294967296"] {
            assert_eq!(format.index(other.as_bytes()), None, "{other}");
        }
        assert_eq!(parse("%d").index(b"007"), None);
        assert_eq!(parse("same").index(b"same"), Some(0));
    }

    fn subscribers() -> Subscribers {
        Subscribers {
            count: 100_000,
            public: "subs%06d".into(),
            private: "subs%06d".into(),
            password: "abcdefgh".into(),
            realm: "open-ims.test".into(),
            domain: "open-ims.test".into(),
        }
    }

    #[test]
    fn what_would_end_a_header_or_a_statement_is_refused() {
        assert!(subscribers().formats().is_ok());
        let refused = |change: fn(&mut Subscribers)| {
            let mut changed = subscribers();
            change(&mut changed);
            changed.formats().expect_err("refused").to_string()
        };
        assert!(refused(|s| s.count = 0).contains("at least 1"));
        assert!(refused(|s| s.count = u32::MAX).contains("at most 10000000"));
        assert!(refused(|s| s.public = "same".into()).contains("add `%06d`"));
        assert!(refused(|s| s.public = "a%d@b".into()).contains("holds `@`"));
        assert!(refused(|s| s.private = "a\"%d".into()).contains("`\\\"`"));
        assert!(refused(|s| s.password = "x\\".into()).contains("password"));
        assert!(refused(|s| s.realm = "a\r\nX: y".into()).contains("\\r"));
        assert!(refused(|s| s.domain = "a;b".into()).contains("domain"));
        assert!(refused(|s| s.domain.clear()).contains("empty"));
    }

    proptest! {
        #[test]
        fn any_text_is_refused_or_bounded(text in "[ -~]{0,40}|\\PC{0,20}", index: u32) {
            if let Ok(format) = IdentityFormat::parse(&text) {
                prop_assert!(format.identity(index).len() <= LONGEST_IDENTITY);
            }
        }

        #[test]
        fn reading_undoes_writing(before in "[a-z0-9]{0,8}", width in 0usize..=10, after in "[a-z]{0,8}", index: u32) {
            let width = if width == 0 { String::new() } else { format!("0{width}") };
            let format = parse(&format!("{before}%{width}d{after}"));
            prop_assert_eq!(format.index(format.identity(index).as_bytes()), Some(index));
        }
    }
}
