//! The files of the server's directory.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Longest name.
const NAME_MAX: usize = 100;

/// The path of a file; `None` for a name that is none, or leads elsewhere.
pub(super) fn path(directory: &Path, name: &str) -> Option<PathBuf> {
    let name = name.strip_prefix('/').unwrap_or(name);
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let fits =
        !name.is_empty() && name.len() <= NAME_MAX && !name.starts_with('.') && name.chars().all(plain);
    fits.then(|| directory.join(name))
}

/// Opens a file to be read from `offset`; links aren't followed.
pub(super) fn open(path: &Path, offset: u64) -> io::Result<File> {
    let mut file = OpenOptions::new().read(true).custom_flags(nofollow()).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::NotFound.into());
    }
    file.seek(SeekFrom::Start(offset))?;
    Ok(file)
}

/// Opens a file to be written from `offset`, where it is cut; links aren't followed.
pub(super) fn create(path: &Path, offset: u64) -> io::Result<File> {
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(false).custom_flags(nofollow()).open(path)?;
    let offset = offset.min(file.metadata()?.len());
    file.set_len(offset)?;
    file.seek(SeekFrom::Start(offset))?;
    Ok(file)
}

fn nofollow() -> i32 {
    rustix::fs::OFlags::NOFOLLOW.bits() as i32
}

/// Writes the lines of a LIST.
pub(super) fn list(directory: &Path, out: &mut impl Write) -> io::Result<()> {
    let mut text = Vec::with_capacity(64 << 10);
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        if metadata.is_file() {
            // Nobody asks for the time; its field has to be there.
            writeln!(text, "-rw-r--r--    1 ftp      ftp      {:>12} Jan 01 00:00 {name}\r", metadata.len())?;
        }
        if text.len() > 60 << 10 {
            out.write_all(&text)?;
            text.clear();
        }
    }
    out.write_all(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_elsewhere() {
        let of = |name| path(Path::new("/srv"), name);
        assert_eq!(of("/a-b.c_1"), Some(PathBuf::from("/srv/a-b.c_1")));
        let long = "x".repeat(101);
        for wrong in ["", "/", ".", "..", "../a", "a/b", "//a", ".hidden", "a\0b", "ä", &long] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
