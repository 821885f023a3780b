//! IPv4 networks, and addresses with their network.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// An address with the length of its network's prefix, `10.0.1.1/30`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix {
    /// The address; of a network its lowest.
    pub address: Ipv4Addr,
    /// 0 to 32.
    pub length: u8,
}

/// Why a text is no address with a prefix length.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no IPv4 address with a prefix length, such as 10.0.1.1/30")]
pub struct PrefixError {
    /// The text, shortened.
    pub text: String,
}

impl Prefix {
    /// An address in a network with this prefix length; more than 32 counts as 32.
    #[must_use]
    pub const fn new(address: [u8; 4], length: u8) -> Self {
        let [a, b, c, d] = address;
        Self { address: Ipv4Addr::new(a, b, c, d), length: if length > 32 { 32 } else { length } }
    }

    /// A single address.
    #[must_use]
    pub const fn host(address: Ipv4Addr) -> Self {
        Self { address, length: 32 }
    }

    const fn mask(self) -> u32 {
        match self.length {
            0 => 0,
            length => u32::MAX << (32 - length as u32),
        }
    }

    /// The network that it is in.
    #[must_use]
    pub fn network(self) -> Self {
        Self { address: Ipv4Addr::from(u32::from(self.address) & self.mask()), length: self.length }
    }

    /// Whether it contains this address.
    #[must_use]
    pub fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & self.mask() == u32::from(self.address) & self.mask()
    }

    /// Whether the two have an address in common.
    #[must_use]
    pub fn overlaps(self, other: Self) -> bool {
        if self.length <= other.length { self.contains(other.address) } else { other.contains(self.address) }
    }

    /// The address that is `number` above its network's lowest, with the same prefix length.
    #[must_use]
    pub fn nth(self, number: u32) -> Self {
        let lowest = u32::from(self.network().address);
        Self { address: Ipv4Addr::from(lowest.wrapping_add(number)), length: self.length }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(text: &str) -> Result<Self, PrefixError> {
        let failed = || PrefixError { text: text.chars().take(40).collect() };
        let (address, length) = text.split_once('/').ok_or_else(failed)?;
        // No sign and no leading zero: `/024` is a slip.
        let plain = length.len() <= 2 && length.bytes().all(|b| b.is_ascii_digit());
        let length: u8 = length.parse().ok().filter(|l| plain && *l <= 32).ok_or_else(failed)?;
        Ok(Self { address: address.parse().map_err(|_| failed())?, length })
    }
}

impl Serialize for Prefix {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Prefix {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_written_is_read_again(bits in any::<u32>(), length in 0_u8..=32) {
            let prefix = Prefix { address: Ipv4Addr::from(bits), length };
            prop_assert_eq!(prefix.to_string().parse::<Prefix>().unwrap(), prefix);
            prop_assert!(prefix.network().contains(prefix.address));
            prop_assert!(prefix.overlaps(prefix.network()));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*") {
            let _ = text.parse::<Prefix>();
        }

        #[test]
        fn two_overlap_where_one_contains_the_other(a in any::<u32>(), b in any::<u32>(), l in 0_u8..=32, m in 0_u8..=32) {
            let (a, b) = (Prefix { address: a.into(), length: l }, Prefix { address: b.into(), length: m });
            prop_assert_eq!(a.overlaps(b), b.overlaps(a));
            prop_assert_eq!(a.overlaps(b), a.contains(b.network().address) || b.contains(a.network().address));
        }
    }

    #[test]
    fn slips_are_refused() {
        for text in [
            "",
            "10.0.0.1",
            "10.0.0.1/33",
            "10.0.0.1/-1",
            "10.0.0/24",
            "10.0.0.1/024",
            "::1/64",
            "10.0.0.1/+8",
        ] {
            assert!(text.parse::<Prefix>().is_err(), "{text}");
        }
        assert_eq!("10.0.1.2/30".parse::<Prefix>().unwrap().network(), Prefix::new([10, 0, 1, 0], 30));
    }
}
