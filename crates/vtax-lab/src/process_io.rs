//! What a process of the lab's is connected to: its environment, its stream, and the file its words go to.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

use crate::error::{OnPath, Result};

/// How much of what a process wrote is shown in an error.
const TAIL: u64 = 4096;

/// All that an agent, and so a service, inherits of the environment.
pub(crate) const ENVIRONMENT: [(&str, &str); 3] = [
    ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"),
    ("HOME", "/"),
    ("LANG", "C.UTF-8"),
];

/// A file in memory for what a process writes to stderr.
pub(crate) fn output_file(name: &str) -> Result<File> {
    use rustix::fs::{MemfdFlags, OFlags, fcntl_setfl, memfd_create};
    let make = || -> io::Result<File> {
        let memory = memfd_create(format!("vtax-{name}-output"), MemfdFlags::CLOEXEC)?;
        // Several processes write to it.
        fcntl_setfl(&memory, OFlags::APPEND)?;
        Ok(File::from(memory))
    };
    make().on("create", Path::new("a file in memory"))
}

/// Both ends of a stream.
pub(crate) fn stream() -> Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = UnixStream::pair().on("create", Path::new("a socket pair"))?;
    Ok((ours.into(), theirs.into()))
}

/// At most `most` bytes of a file that others write to, from its beginning.
pub(crate) fn head(file: &File, most: u64) -> String {
    let read = || -> io::Result<String> {
        let mut bytes = vec![0; usize::try_from(file.metadata()?.len().min(most)).unwrap_or_default()];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    read().unwrap_or_default()
}

/// The last lines of a file that others write to.
pub(crate) fn tail(file: &File) -> String {
    let read = || -> io::Result<String> {
        let length = file.metadata()?.len();
        let mut bytes = vec![0; usize::try_from(length.min(TAIL)).unwrap_or_default()];
        // Not by seeking: the writer shares the position.
        let read = file.read_at(&mut bytes, length.saturating_sub(TAIL))?;
        bytes.truncate(read);
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    };
    read().unwrap_or_default()
}
