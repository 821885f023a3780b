//! A short name that is copied like a number: of links and routers in faults, of which plans have thousands.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The most bytes of a name: two routers' names, a hyphen and a number.
pub const LONGEST: usize = 40;

/// A name of 1 to [`LONGEST`] bytes of UTF-8.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    bytes: [u8; LONGEST],
    length: u8,
}

/// Why a text is no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a name has 1 to {LONGEST} bytes, and this one has {0}")]
pub struct NameError(pub usize);

impl Name {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // It was made from a text.
        std::str::from_utf8(&self.bytes[..usize::from(self.length)]).unwrap_or_default()
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > LONGEST {
            return Err(NameError(text.len()));
        }
        let mut bytes = [0; LONGEST];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Self { bytes, length: text.len() as u8 })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Name {
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
        fn a_name_is_what_it_was_made_from(text in "\\PC{0,50}") {
            match text.parse::<Name>() {
                Ok(name) => prop_assert_eq!(name.as_str(), text),
                Err(_) => prop_assert!(text.is_empty() || text.len() > LONGEST),
            }
        }
    }
}
