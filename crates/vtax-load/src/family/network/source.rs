//! What bulk TCP sends: the same block again and again.

use std::io;
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// Where the block is.
pub(super) enum Source {
    /// In the program's memory: the kernel copies it with each write.
    Program(Vec<u8>),
    /// In a file in memory, whose pages the kernel sends as they are (sendfile(2)).
    Pages(OwnedFd),
}

impl Source {
    /// A block of so many bytes, of no pattern that a link could compress.
    pub(super) fn new(bytes: usize, copied: bool) -> io::Result<Self> {
        let mut state = 0x9e37_79b9_u32;
        let block: Vec<u8> = std::iter::repeat_with(|| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .take(bytes)
        .collect();
        if copied {
            return Ok(Self::Program(block));
        }
        let file = memfd_create("vtax-load", MemfdFlags::CLOEXEC)?;
        let mut written = 0;
        while written < block.len() {
            written += rustix::io::pwrite(&file, &block[written..], written as u64)?;
        }
        Ok(Self::Pages(file))
    }

    /// Sends at most so many bytes of the block, from its beginning; how many went.
    pub(super) fn send(&self, stream: &TcpStream, bytes: usize) -> Result<usize, Errno> {
        match self {
            Self::Program(block) => rustix::net::send(stream, &block[..bytes], SendFlags::NOSIGNAL),
            // There is no flag against SIGPIPE here: Rust's runtime ignores that signal.
            Self::Pages(file) => sendfile(stream, file, Some(&mut 0), bytes),
        }
    }
}
