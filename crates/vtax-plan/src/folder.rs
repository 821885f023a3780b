//! Files that a plan names: in its own folder or below it, and nothing else.
//!
//! A plan may come from a stranger, so a name leads nowhere else: not by `..`, not from the root, not over a symbolic link, and not to a
//! device or a pipe, which could be read for ever.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, fstat, openat};
use rustix::io::Errno;

/// Where the files of a plan are.
#[derive(Debug, Default)]
pub(crate) struct Folder(Option<PathBuf>);

/// Why a file wasn't read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The reason, in a sentence.
    pub(crate) why: String,
    /// The way out.
    pub(crate) instead: &'static str,
}

const COPY: &str = "files that a plan names are in the plan's folder or below it, as they are kept with it: copy the file there";

impl Folder {
    /// The folder of the plan at `path`.
    pub(crate) fn of(path: &Path) -> Self {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        Self(Some(parent.unwrap_or(Path::new(".")).to_owned()))
    }

    /// The text of the file `name`, of at most `most` bytes: UTF-8 or else ISO-8859-1, lines with a line feed at their end.
    pub(crate) fn read(&self, name: &str, most: usize) -> Result<String, Refusal> {
        let refuse = |why: String, instead| Err(Refusal { why, instead });
        let shown = crate::diagnose::shorten(name);
        let Some(folder) = &self.0 else {
            return refuse(
                format!("`{shown}` isn't there: this plan comes without the files beside it"),
                "write what is in the file into the plan",
            );
        };
        let parts: Option<Vec<&Path>> = Path::new(name)
            .components()
            .filter(|part| *part != Component::CurDir)
            .map(|part| match part {
                Component::Normal(part) => Some(Path::new(part)),
                _ => None,
            })
            .collect();
        let Some((file, folders)) = parts.as_ref().and_then(|parts| parts.split_last()) else {
            return refuse(format!("`{shown}` isn't in the plan's folder"), COPY);
        };
        let bytes = match read_below(folder, folders, file, most) {
            Ok(bytes) => bytes,
            Err(Unread::Link) => {
                return refuse(format!("`{shown}` is a symbolic link, or is behind one"), COPY);
            }
            Err(Unread::NoFile) => {
                return refuse(format!("`{shown}` is no ordinary file"), "name the file itself");
            }
            Err(Unread::Failed(error)) => {
                return refuse(
                    format!("cannot read `{shown}`: {error}"),
                    "names of files count from the plan's folder",
                );
            }
        };
        if bytes.len() > most {
            let why = format!("`{shown}` is longer than {most} bytes, which is the most");
            return refuse(why, "a plan is kept with its files: leave out what the load doesn't need");
        }
        text(&shown, bytes)
    }
}

/// Why nothing was read.
enum Unread {
    Link,
    NoFile,
    Failed(std::io::Error),
}

impl From<Errno> for Unread {
    fn from(error: Errno) -> Self {
        match error {
            Errno::LOOP | Errno::NOTDIR => Self::Link,
            other => Self::Failed(other.into()),
        }
    }
}

/// Up to `most` bytes of a file and one more, each folder on the way opened from the one before and none of them a link.
fn read_below(folder: &Path, folders: &[&Path], file: &Path, most: usize) -> Result<Vec<u8>, Unread> {
    let directory = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = openat(CWD, folder, directory, Mode::empty()).map_err(|e| Unread::Failed(e.into()))?;
    for folder in folders {
        at = openat(&at, *folder, directory | OFlags::NOFOLLOW, Mode::empty())?;
    }
    // Opening a pipe must not wait for its other end.
    let ordinary = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let opened = openat(&at, file, ordinary, Mode::empty())?;
    if FileType::from_raw_mode(fstat(&opened)?.st_mode) != FileType::RegularFile {
        return Err(Unread::NoFile);
    }
    let mut bytes = Vec::new();
    File::from(opened).take(most as u64 + 1).read_to_end(&mut bytes).map_err(Unread::Failed)?;
    Ok(bytes)
}

/// Bytes as text that a stored plan gives back as it is.
fn text(shown: &str, bytes: Vec<u8>) -> Result<String, Refusal> {
    let text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => error.as_bytes().iter().map(|byte| char::from(*byte)).collect(),
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text).replace("\r\n", "\n");
    let mut lines = text.split('\n').zip(1_u32..);
    let damaged = lines.find(|(line, _)| line.chars().any(|c| c.is_control() && c != '\t'));
    match damaged {
        Some((_, line)) => Err(Refusal {
            why: format!("`{shown}`, line {line}: a control character"),
            instead: "these files are text; a line ends with a line feed, or with carriage return and line feed",
        }),
        None => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn why(folder: &Folder, name: &str) -> String {
        folder.read(name, 8).expect_err(name).why
    }

    #[test]
    fn only_ordinary_files_below_the_folder_are_read() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        std::fs::create_dir_all(root.join("plans/more")).unwrap();
        std::fs::write(root.join("secret"), "no").unwrap();
        std::fs::write(root.join("plans/a.xml"), "\u{feff}a\r\nb").unwrap();
        std::fs::write(root.join("plans/more/b.xml"), b"\xe9").unwrap();
        std::fs::write(root.join("plans/long"), "123456789").unwrap();
        std::fs::write(root.join("plans/odd"), "a\n\x1b[0m").unwrap();
        symlink("../secret", root.join("plans/link")).unwrap();
        symlink("..", root.join("plans/up")).unwrap();
        let (pipe, mode) = (root.join("plans/pipe"), Mode::RUSR | Mode::WUSR);
        rustix::fs::mknodat(CWD, pipe, FileType::Fifo, mode, 0).unwrap();
        let folder = Folder::of(&root.join("plans/t.yaml"));
        assert_eq!(folder.read("a.xml", 8).unwrap(), "a\nb");
        assert_eq!(folder.read("./more/b.xml", 8).unwrap(), "\u{e9}");
        for name in ["../secret", "/etc/passwd", "more/../../secret", "", ".", "/"] {
            assert!(why(&folder, name).contains("isn't in the plan's folder"), "{name}");
        }
        for name in ["link", "up/secret", "up/plans/a.xml"] {
            assert!(why(&folder, name).contains("symbolic link"), "{name}");
        }
        for name in ["pipe", "more"] {
            assert!(why(&folder, name).contains("no ordinary file"), "{name}");
        }
        assert!(why(&folder, "none").starts_with("cannot read `none`"));
        assert!(why(&folder, "a\0b").starts_with("cannot read"));
        assert!(why(&folder, "long").contains("longer than 8 bytes"));
        assert_eq!(why(&folder, "odd"), "`odd`, line 2: a control character");
        assert!(why(&Folder::default(), "a.xml").contains("without the files beside it"));
    }
}
