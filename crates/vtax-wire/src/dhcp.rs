//! DHCP as a client speaks it (RFC 2131, RFC 2132): what it sends is written, what a server answers is read.
//!
//! A message is a fixed header of 236 bytes, a cookie, and options. Two fields of the header may hold options too, where one of
//! the options says so (option 52).

use std::net::Ipv4Addr;

/// UDP port of servers.
pub const SERVER_PORT: u16 = 67;
/// UDP port of clients.
pub const CLIENT_PORT: u16 = 68;
/// Longest message that is read, in bytes: what fits into a frame of Ethernet.
pub const LONGEST: usize = 1472;
/// Length of a message that is written, in bytes: the least that a BOOTP relay takes (RFC 1542, section 2.1).
pub const WRITTEN: usize = 300;

/// Where the options begin, their cookie before them.
const COOKIE_AT: usize = 236;
/// What tells DHCP's options from others (RFC 2131, section 3).
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Ethernet, and the length of its addresses.
const ETHERNET: [u8; 2] = [1, 6];
/// The client can't be reached by its address yet: answers are to be broadcast.
const BROADCAST: u16 = 0x8000;
/// Fields of the header that may hold options: the server's name, the file to boot.
const NAME: std::ops::Range<usize> = 44..108;
const FILE: std::ops::Range<usize> = 108..236;

/// Options (RFC 2132).
mod option {
    pub(super) const PAD: u8 = 0;
    pub(super) const MASK: u8 = 1;
    pub(super) const ASKED_ADDRESS: u8 = 50;
    pub(super) const LEASE: u8 = 51;
    pub(super) const OVERLOAD: u8 = 52;
    pub(super) const KIND: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const WANTED: u8 = 55;
    pub(super) const CLIENT: u8 = 61;
    pub(super) const END: u8 = 255;
}

/// What a server says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// It would lease this address.
    Offer,
    /// The address is leased.
    Ack,
    /// It isn't.
    Nak,
}

/// A server's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// What it says.
    pub kind: AnswerKind,
    /// The address that it is about; unspecified in [`AnswerKind::Nak`].
    pub address: Ipv4Addr,
    /// The server that leases it.
    pub server: Ipv4Addr,
    /// Prefix length of its network; `None` where the server doesn't say.
    pub prefix: Option<u8>,
    /// For how long it is leased, in seconds; `None` where the server doesn't say.
    pub seconds: Option<u32>,
}

/// Who asks, and in which exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asker {
    /// Number of the exchange, which answers repeat.
    pub exchange: u32,
    /// MAC address.
    pub mac: [u8; 6],
}

impl Asker {
    /// The message that looks for servers; `seconds` is how long the client has tried.
    #[must_use]
    pub fn discover(&self, seconds: u16) -> [u8; WRITTEN] {
        self.message(1, seconds, None)
    }

    /// The message that takes an offer, and with it tells all other servers that theirs isn't.
    #[must_use]
    pub fn request(&self, seconds: u16, offer: &Answer) -> [u8; WRITTEN] {
        self.message(3, seconds, Some(offer))
    }

    fn message(&self, kind: u8, seconds: u16, offer: Option<&Answer>) -> [u8; WRITTEN] {
        let mut message = [0; WRITTEN];
        message[0] = 1;
        message[1..3].copy_from_slice(&ETHERNET);
        message[4..8].copy_from_slice(&self.exchange.to_be_bytes());
        message[8..10].copy_from_slice(&seconds.to_be_bytes());
        message[10..12].copy_from_slice(&BROADCAST.to_be_bytes());
        message[28..34].copy_from_slice(&self.mac);
        message[COOKIE_AT..COOKIE_AT + 4].copy_from_slice(&COOKIE);
        let mut at = COOKIE_AT + 4;
        let mut put = |code: u8, value: &[u8]| {
            message[at..at + 2].copy_from_slice(&[code, value.len() as u8]);
            message[at + 2..at + 2 + value.len()].copy_from_slice(value);
            at += 2 + value.len();
        };
        put(option::KIND, &[kind]);
        let [a, b, c, d, e, f] = self.mac;
        put(option::CLIENT, &[ETHERNET[0], a, b, c, d, e, f]);
        put(option::WANTED, &[option::MASK, option::LEASE, option::SERVER]);
        if let Some(offer) = offer {
            put(option::ASKED_ADDRESS, &offer.address.octets());
            put(option::SERVER, &offer.server.octets());
        }
        message[at] = option::END;
        message
    }

    /// What this message says to the asker; `None` where it is no answer to it, or one that a client can't use: an offer of
    /// no address, a mask that is none, a server that doesn't say who it is.
    #[must_use]
    pub fn read(&self, message: &[u8]) -> Option<Answer> {
        let header = message.get(..COOKIE_AT)?;
        let mine = header[0] == 2
            && header[1..3] == ETHERNET
            && header[4..8] == self.exchange.to_be_bytes()
            && header[28..34] == self.mac;
        let options = message.get(COOKIE_AT..)?.strip_prefix(&COOKIE)?;
        if !mine || message.len() > LONGEST {
            return None;
        }
        let mut found = Found::default();
        found.take(options);
        // Fields that hold options say nothing about fields.
        let overload = found.overload.unwrap_or(0);
        for (bit, field) in [(1, FILE), (2, NAME)] {
            if overload & bit != 0 {
                found.take(&header[field]);
            }
        }
        let kind = match found.kind? {
            2 => AnswerKind::Offer,
            5 => AnswerKind::Ack,
            6 => AnswerKind::Nak,
            _ => return None,
        };
        let address = Ipv4Addr::from(<[u8; 4]>::try_from(&header[16..20]).ok()?);
        let usable = !address.is_unspecified() && !address.is_broadcast() && !address.is_multicast();
        if kind != AnswerKind::Nak && !usable {
            return None;
        }
        let prefix = found.mask.map(prefix_of);
        if prefix == Some(None) {
            return None;
        }
        Some(Answer {
            kind,
            address: if kind == AnswerKind::Nak { Ipv4Addr::UNSPECIFIED } else { address },
            server: Ipv4Addr::from(found.server?),
            prefix: prefix.flatten(),
            seconds: found.lease.map(u32::from_be_bytes),
        })
    }
}

/// The options of a message that matter here, each as it is said first.
#[derive(Debug, Default)]
struct Found {
    kind: Option<u8>,
    server: Option<[u8; 4]>,
    mask: Option<[u8; 4]>,
    lease: Option<[u8; 4]>,
    overload: Option<u8>,
}

impl Found {
    /// Takes the options of a field. One that is cut short ends them.
    fn take(&mut self, mut options: &[u8]) {
        while let [code, rest @ ..] = options {
            match *code {
                option::PAD => {
                    options = rest;
                    continue;
                }
                option::END => return,
                _ => {}
            }
            let [length, rest @ ..] = rest else { return };
            let Some((value, rest)) = rest.split_at_checked(usize::from(*length)) else { return };
            self.note(*code, value);
            options = rest;
        }
    }

    fn note(&mut self, code: u8, value: &[u8]) {
        let four = || <[u8; 4]>::try_from(value).ok();
        let one = || <[u8; 1]>::try_from(value).ok().map(|[byte]| byte);
        match code {
            option::KIND => self.kind = self.kind.or_else(one),
            option::OVERLOAD => self.overload = self.overload.or_else(one),
            option::SERVER => self.server = self.server.or_else(four),
            option::MASK => self.mask = self.mask.or_else(four),
            option::LEASE => self.lease = self.lease.or_else(four),
            _ => {}
        }
    }
}

/// The length of a mask's prefix; `None` where its ones aren't all at its beginning.
fn prefix_of(mask: [u8; 4]) -> Option<u8> {
    let mask = u32::from_be_bytes(mask);
    (mask.leading_ones() + mask.trailing_zeros() == 32).then_some(mask.leading_ones() as u8)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ASKER: Asker = Asker { exchange: 0x0102_0304, mac: [2, 0x76, 0x74, 0, 0, 2] };

    /// An answer with these options.
    fn answer(address: [u8; 4], options: &[u8]) -> Vec<u8> {
        let mut message = vec![0; COOKIE_AT];
        message[..3].copy_from_slice(&[2, 1, 6]);
        message[4..8].copy_from_slice(&ASKER.exchange.to_be_bytes());
        message[16..20].copy_from_slice(&address);
        message[28..34].copy_from_slice(&ASKER.mac);
        message.extend(COOKIE);
        message.extend(options);
        message
    }

    const OFFER: [u8; 22] = [53, 1, 2, 54, 4, 10, 97, 0, 9, 0, 1, 4, 255, 255, 0, 0, 51, 4, 0, 1, 0x51, 0x80];

    fn of_offer() -> Answer {
        Answer {
            kind: AnswerKind::Offer,
            address: Ipv4Addr::new(10, 97, 0, 2),
            server: Ipv4Addr::new(10, 97, 0, 9),
            prefix: Some(16),
            seconds: Some(86_400),
        }
    }

    #[test]
    fn an_offer_is_read_and_taken() {
        let offer = ASKER.read(&answer([10, 97, 0, 2], &OFFER)).expect("an offer");
        assert_eq!(offer, of_offer());
        let request = ASKER.request(3, &offer);
        assert_eq!((request[0], &request[4..12]), (1, &[1, 2, 3, 4, 0, 3, 0x80, 0][..]));
        let options = &request[COOKIE_AT + 4..];
        let expected: &[u8] = &[
            53, 1, 3, 61, 7, 1, 2, 0x76, 0x74, 0, 0, 2, 55, 3, 1, 51, 54, 50, 4, 10, 97, 0, 2, 54, 4, 10, 97,
            0, 9, 255,
        ];
        assert_eq!(&options[..expected.len()], expected);
        assert_eq!(ASKER.discover(0)[COOKIE_AT + 4..][..3], [53, 1, 1]);
        assert_eq!(ASKER.read(&request), None, "what a client says is no answer");
    }

    #[test]
    fn what_is_not_for_the_asker_or_of_no_use_is_no_answer() {
        let good = answer([10, 97, 0, 2], &OFFER);
        for other in [Asker { exchange: 1, ..ASKER }, Asker { mac: [2; 6], ..ASKER }] {
            assert_eq!(other.read(&good), None);
        }
        assert_eq!(ASKER.read(&good[..good.len() - 40]), None, "cut in its header");
        for address in [[0; 4], [255; 4], [224, 0, 0, 1]] {
            assert_eq!(ASKER.read(&answer(address, &OFFER)), None, "{address:?}");
        }
        let mut torn = OFFER;
        torn[14] = 1;
        assert_eq!(ASKER.read(&answer([10, 97, 0, 2], &torn)), None, "255.255.1.0 with a hole");
        assert_eq!(ASKER.read(&answer([10, 97, 0, 2], &OFFER[..3])), None, "no server");
        let mut long = good;
        long.resize(LONGEST + 1, 0);
        assert_eq!(ASKER.read(&long), None);
    }

    #[test]
    fn options_in_the_headers_fields_are_found_where_they_are_announced() {
        let mut message = answer([10, 97, 0, 2], &[52, 1, 3, 54, 4, 10, 97, 0, 9, 255]);
        message[FILE.start..FILE.start + 4].copy_from_slice(&[53, 1, 5, 255]);
        message[NAME.start..NAME.start + 7].copy_from_slice(&[51, 4, 0, 0, 0, 60, 255]);
        let found = ASKER.read(&message).expect("an answer");
        assert_eq!((found.kind, found.seconds, found.prefix), (AnswerKind::Ack, Some(60), None));
        message[COOKIE_AT + 6] = 0;
        assert_eq!(ASKER.read(&message), None, "what isn't announced is a name");
    }

    #[test]
    fn a_refusal_needs_no_address() {
        let nak = ASKER.read(&answer([0; 4], &[53, 1, 6, 54, 4, 10, 97, 0, 9, 255])).expect("a refusal");
        assert_eq!((nak.kind, nak.address), (AnswerKind::Nak, Ipv4Addr::UNSPECIFIED));
    }

    #[test]
    fn masks_are_prefixes_or_nothing() {
        for (mask, prefix) in [
            ([0, 0, 0, 0], Some(0)),
            ([255, 255, 0, 0], Some(16)),
            ([255, 255, 255, 254], Some(31)),
            ([255; 4], Some(32)),
            ([0, 255, 0, 0], None),
            ([255, 0, 255, 0], None),
        ] {
            assert_eq!(prefix_of(mask), prefix, "{mask:?}");
        }
    }

    proptest! {
        /// Whatever comes, what is taken for an answer is one that can be used.
        #[test]
        fn any_options_are_survived(
            options in prop::collection::vec(any::<u8>(), 0..400),
            address in any::<[u8; 4]>(),
            fields in prop::collection::vec(any::<u8>(), 192),
        ) {
            let mut message = answer(address, &options);
            message[NAME.start..FILE.end].copy_from_slice(&fields);
            if let Some(found) = ASKER.read(&message) {
                prop_assert!(found.prefix.is_none_or(|prefix| prefix <= 32));
                prop_assert_eq!(found.address.is_unspecified(), found.kind == AnswerKind::Nak);
            }
        }

        #[test]
        fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..1600)) {
            prop_assert_eq!(ASKER.read(&bytes), None);
        }

        /// An answer that was cut anywhere is none, or the same with less said.
        #[test]
        fn a_cut_answer_says_no_more_than_the_whole(cut in 0..262_usize) {
            let whole = answer([10, 97, 0, 2], &OFFER);
            if let Some(found) = ASKER.read(&whole[..cut]) {
                let expected = of_offer();
                prop_assert_eq!((found.kind, found.address, found.server), (expected.kind, expected.address, expected.server));
                prop_assert!(found.prefix.is_none() || found.prefix == expected.prefix);
            }
        }
    }
}
