//! The kernel's NFS server, told by its own files: versions, a socket, threads (nfsd(7)), and what is exported to whom through the
//! caches that `rpc.mountd` fills elsewhere (kernel document `filesystems/nfs/rpc-cache`).

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};

use super::{Export, KernelError, mount, refused, tell};

/// Its own file system.
const PLACE: &str = "/proc/fs/nfsd";
/// Caches that the kernel asks user space to fill.
const CACHES: &str = "/proc/net/rpc";
/// Everybody: the address tells no clients apart.
const DOMAIN: &str = "*";
/// What is said holds for good, in seconds since 1970.
const FOR_GOOD: &str = "2147483647";
/// Flags of an export (`include/uapi/linux/nfsd/export.h`): any port, no check of subtrees, the root by its number. Writes are durable
/// before they are acknowledged where that was asked for.
const FLAGS: u32 = 0x2 | 0x400 | 0x2000;
/// Longest question that the kernel asks (a page).
const QUESTION_BYTES: usize = 4096;

/// What answers the kernel's questions.
pub(super) struct Answers {
    channels: Vec<(Cache, PathBuf, File)>,
    root: String,
    _listener: TcpListener,
}

#[derive(Clone, Copy)]
enum Cache {
    /// Which domain an address belongs to.
    Addresses,
    /// Which directory a file system's number stands for.
    Handles,
    /// What is exported.
    Exports,
}

impl Cache {
    const ALL: [(Self, &str); 3] =
        [(Self::Addresses, "auth.unix.ip"), (Self::Handles, "nfsd.fh"), (Self::Exports, "nfsd.export")];
}

/// Starts the server.
pub(super) fn start(export: &Export) -> Result<Answers, KernelError> {
    let place = Path::new(PLACE);
    mount("nfsd", place)?;
    let mut channels = Vec::new();
    for (cache, name) in Cache::ALL {
        let path = Path::new(CACHES).join(name).join("channel");
        let file = OpenOptions::new().read(true).write(true).open(&path).map_err(refused("open", &path))?;
        channels.push((cache, path, file));
    }
    tell(&place.join("versions"), "-2 -3 +4 -4.0 +4.1 +4.2\n")?;
    // Without a place for what it must remember of clients it doesn't end its grace period when told to.
    tell(&place.join("nfsv4recoverydir"), &format!("{}\n", export.memory.display()))?;
    // The least that it takes; it is ended below.
    tell(&place.join("nfsv4gracetime"), "10\n")?;
    let listener = TcpListener::bind(export.listen).map_err(refused("listen for", &export.root))?;
    tell(&place.join("portlist"), &format!("{}\n", listener.as_raw_fd()))?;
    tell(&place.join("threads"), &format!("{}\n", export.threads))?;
    // There is nothing to be reclaimed: nobody was served before.
    tell(&place.join("v4_end_grace"), "Y\n")?;
    Ok(Answers { channels, root: escaped(&export.root), _listener: listener })
}

impl Answers {
    /// Answers until the process is ended.
    pub(super) fn answer(mut self) -> Result<(), KernelError> {
        let mut question = vec![0; QUESTION_BYTES];
        loop {
            let ready: Vec<bool> = {
                let mut polled: Vec<PollFd<'_>> = self
                    .channels
                    .iter()
                    .map(|(_, _, file)| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN))
                    .collect();
                if poll(&mut polled, None).is_err() {
                    continue;
                }
                polled.iter().map(|p| !p.revents().is_empty()).collect()
            };
            for ((cache, path, file), ready) in self.channels.iter_mut().zip(ready) {
                if !ready {
                    continue;
                }
                let length = file.read(&mut question).map_err(refused("read from", path))?;
                let text = String::from_utf8_lossy(&question[..length]).into_owned();
                if let Some(answer) = answer(*cache, &text, &self.root) {
                    // What it doesn't like it refuses, and asks again.
                    let _ = file.write_all(answer.as_bytes());
                }
            }
        }
    }
}

/// The answer to a question; `None` where it isn't understood.
fn answer(cache: Cache, question: &str, root: &str) -> Option<String> {
    let words: Vec<&str> = question.split_ascii_whitespace().collect();
    match (cache, words.as_slice()) {
        (Cache::Addresses, [class @ "nfsd", address, ..]) => {
            Some(format!("{class} {address} {FOR_GOOD} {DOMAIN}\n"))
        }
        // Number 0 is the root of all (`fsid=0`); no other is known.
        (Cache::Handles, [domain, kind @ "1", number @ "\\x00000000", ..]) => {
            Some(format!("{domain} {kind} {number} {FOR_GOOD} {root}\n"))
        }
        (Cache::Handles, [domain, kind, number, ..]) => {
            Some(format!("{domain} {kind} {number} {FOR_GOOD}\n"))
        }
        (Cache::Exports, [domain, path, ..]) if *path == root => {
            Some(format!("{domain} {path} {FOR_GOOD} {FLAGS} 65534 65534 0\n"))
        }
        (Cache::Exports, [domain, path, ..]) => Some(format!("{domain} {path} {FOR_GOOD}\n")),
        _ => None,
    }
}

/// A path as the kernel's caches have it: what isn't plain in octal.
fn escaped(path: &Path) -> String {
    let bytes = std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str());
    bytes.iter().fold(String::new(), |mut text, byte| {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => text.push_str(&format!("\\{byte:03o}")),
            plain => text.push(char::from(*plain)),
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_of_one_root_and_nothing_else() {
        let ask = |cache, question: &str| answer(cache, question, "/run/files");
        assert_eq!(ask(Cache::Addresses, "nfsd 10.97.0.1\n").unwrap(), "nfsd 10.97.0.1 2147483647 *\n");
        assert_eq!(
            ask(Cache::Handles, "* 1 \\x00000000\n").unwrap(),
            "* 1 \\x00000000 2147483647 /run/files\n"
        );
        assert_eq!(ask(Cache::Handles, "* 6 \\x0011\n").unwrap(), "* 6 \\x0011 2147483647\n");
        let export = ask(Cache::Exports, "* /run/files\n").unwrap();
        assert_eq!(export, "* /run/files 2147483647 9218 65534 65534 0\n");
        assert_eq!(ask(Cache::Exports, "* /etc\n").unwrap(), "* /etc 2147483647\n");
        assert!(ask(Cache::Addresses, "\n").is_none());
        assert_eq!(escaped(Path::new("/a b\\c")), "/a\\040b\\134c");
    }
}
