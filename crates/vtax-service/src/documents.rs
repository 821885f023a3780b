//! The documents every web server of the catalogue serves.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use vtax_units::random::noise;

/// Names and sizes in bytes. The second names are those of the embedded server, so that one plan's
/// target works with all of them.
pub const DOCUMENTS: &[(&str, &str, usize)] =
    &[("100b", "bytes/100", 100), ("10k", "bytes/10000", 10_000), ("1m", "bytes/1000000", 1_000_000)];

const INDEX: &str = "<!doctype html>\n<title>vtax</title>\n<p>Documents: /100b, /10k, /1m\n";

/// Writes the documents into `root`, readable for every user.
///
/// Their bytes are the same in every run and don't compress, so that no layer in between can
/// carry fewer of them than the next.
pub(crate) fn write(root: &Path) -> io::Result<()> {
    make_directory(root)?;
    make_directory(&root.join("bytes"))?;
    for (name, second_name, size) in DOCUMENTS {
        write_file(&root.join(name), &noise(*size))?;
        fs::hard_link(root.join(name), root.join(second_name))?;
    }
    write_file(&root.join("index.html"), INDEX.as_bytes())
}

/// Makes a directory that every user may enter, whatever the umask.
pub(crate) fn make_directory(path: &Path) -> io::Result<()> {
    fs::create_dir(path)?;
    fs::set_permissions(path, Permissions::from_mode(0o755))
}

/// Writes a file that every user may read, whatever the umask.
pub(crate) fn write_file(path: &Path, content: &[u8]) -> io::Result<()> {
    fs::write(path, content)?;
    fs::set_permissions(path, Permissions::from_mode(0o644))
}

/// Writes a file that no other user can read at any moment. Whoever has one open that was there before doesn't see it.
pub(crate) fn write_secret(path: &Path, content: &[u8]) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_secret_is_its_owners_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key.pem");
        write_file(&path, b"old").unwrap();
        let mut open_before = File::open(&path).unwrap();
        write_secret(&path, b"new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let mut seen = String::new();
        open_before.read_to_string(&mut seen).unwrap();
        assert_eq!(seen, "old", "who could read the file of before can't read this one");
    }
}
