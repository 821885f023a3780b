//! The secret that every request needs.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::process::geteuid;
use vtax_units::hex;

use crate::ServeError;

/// Characters of a token: 128 bits in hexadecimal.
const LENGTH: usize = 32;

/// The secret that every request needs.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(String);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// A new one.
    ///
    /// # Errors
    ///
    /// [`ServeError::System`] where the system gives no random numbers.
    pub fn draw() -> Result<Self, ServeError> {
        let mut bits = [0; LENGTH / 2];
        fs::File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut bits))
            .map_err(|source| ServeError::System { operation: "draw a token", source })?;
        Ok(Self(hex(&bits)))
    }

    /// The one in a file, which is made where it isn't there, for its owner alone.
    ///
    /// # Errors
    ///
    /// [`ServeError::TokenFile`] where the file is another user's or others may read it, it holds no token, or it can't be made.
    pub fn kept(path: &Path) -> Result<Self, ServeError> {
        let wrong = |reason: String| ServeError::TokenFile { path: path.to_owned(), reason };
        let token = Self::draw()?;
        match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
            Ok(mut file) => {
                file.write_all(format!("{}\n", token.0).as_bytes()).map_err(|e| wrong(e.to_string()))?;
                return Ok(token);
            }
            Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
            Err(e) => return Err(wrong(e.to_string())),
        }
        let file = fs::File::open(path).map_err(|e| wrong(e.to_string()))?;
        let meta = file.metadata().map_err(|e| wrong(e.to_string()))?;
        if !is_kept_by(geteuid().as_raw(), &meta) {
            let must = "it must be your own file, which nobody else may read (mode 0600)";
            return Err(wrong(must.to_owned()));
        }
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text).map_err(|e| wrong(e.to_string()))?;
        Self::parse(text.trim()).ok_or_else(|| wrong(format!("it must hold {LENGTH} hexadecimal digits")))
    }

    fn parse(text: &str) -> Option<Self> {
        let plain = text.len() == LENGTH && text.bytes().all(|b| b.is_ascii_hexdigit());
        plain.then(|| Self(text.to_ascii_lowercase()))
    }

    /// The token as it stands in a link.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    /// Whether this is it. How long that takes doesn't depend on where the first difference is.
    #[must_use]
    pub fn is(&self, given: &str) -> bool {
        let (mine, given) = (self.0.as_bytes(), given.as_bytes());
        let differing = mine.iter().zip(given).fold(0, |all, (a, b)| all | (a ^ b));
        mine.len() == given.len() && std::hint::black_box(differing) == 0
    }
}

/// Whether this is a file of that user's which nobody else may read. One of another's is a secret that this other knows.
fn is_kept_by(user: u32, meta: &fs::Metadata) -> bool {
    meta.is_file() && meta.uid() == user && meta.mode() & 0o077 == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_the_token_is_the_token() {
        let token = Token::draw().unwrap();
        assert!(token.is(token.text()));
        assert_ne!(token, Token::draw().unwrap());
        for wrong in ["", "0", &token.text()[1..], &format!("{}0", token.text()), &"g".repeat(LENGTH)] {
            assert!(!token.is(wrong), "{wrong}");
        }
        assert!(!format!("{token:?}").contains(token.text()), "it isn't printed by chance");
    }

    #[test]
    fn a_token_is_kept_for_its_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let first = Token::kept(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(Token::kept(&path).unwrap(), first);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert!(Token::kept(&path).unwrap_err().to_string().contains("0600"));
        let user = geteuid().as_raw();
        assert!(!is_kept_by(user, &fs::metadata(&path).unwrap()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let meta = fs::metadata(&path).unwrap();
        assert!(
            is_kept_by(user, &meta) && !is_kept_by(user + 1, &meta),
            "another's is no secret of one's own"
        );
        // Only root can read such a file of another's, and give one away.
        if user == 0 && std::os::unix::fs::chown(&path, Some(1), None).is_ok() {
            assert!(Token::kept(&path).unwrap_err().to_string().contains("your own file"));
            std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        }
        fs::write(&path, "short\n").unwrap();
        assert!(Token::kept(&path).unwrap_err().is_bad_input());
        assert!(Token::kept(&dir.path().join("no/token")).is_err());
    }
}
