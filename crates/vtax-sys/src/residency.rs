//! How much of a file the page cache holds (mincore(2)).

use std::os::fd::AsFd;

use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::error::{Context, Result};

/// Looked at in pieces, so that a file of a terabyte needs no table of its pages.
const PIECE: u64 = 256 << 20;
const PAGE: u64 = 4096;

/// How many bytes of the first `length` of a file the page cache holds, by whole pages.
///
/// # Errors
///
/// The file can't be mapped: it is no regular file or block device, or not readable.
pub fn resident_bytes(file: impl AsFd, length: u64) -> Result<u64> {
    let mut resident = 0;
    let mut table = vec![0_u8; (PIECE / PAGE) as usize];
    let mut offset = 0;
    while offset < length {
        let piece = PIECE.min(length - offset) as usize;
        resident += resident_in(file.as_fd(), offset, piece, &mut table)?;
        offset += PIECE;
    }
    Ok((resident * PAGE).min(length))
}

/// Pages of one piece.
fn resident_in(
    file: std::os::fd::BorrowedFd<'_>,
    offset: u64,
    length: usize,
    table: &mut [u8],
) -> Result<u64> {
    // SAFETY: a new mapping at an address of the kernel's choice; nothing reads through it.
    let start =
        unsafe { mmap(std::ptr::null_mut(), length, ProtFlags::READ, MapFlags::SHARED, file, offset) }
            .context("map", "a file, to see what of it is in memory")?;
    // SAFETY: the range is the mapping just made, and the table has a byte for each of its pages.
    let answer = unsafe { libc::mincore(start, length, table.as_mut_ptr()) };
    let error = std::io::Error::last_os_error();
    // SAFETY: the mapping made above, to which no reference exists.
    let _ = unsafe { munmap(start, length) };
    if answer != 0 {
        return Err(error).context("look at", "pages in memory");
    }
    let pages = length.div_ceil(PAGE as usize);
    Ok(table[..pages].iter().filter(|page| **page & 1 == 1).count() as u64)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn what_was_written_is_in_memory() {
        let path = std::env::temp_dir().join(format!("vtax-residency-{}", std::process::id()));
        let mut file =
            std::fs::File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
        file.write_all(&vec![1; 100_000]).unwrap();
        let resident = resident_bytes(&file, 100_000);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(resident.unwrap(), 100_000);
        assert_eq!(resident_bytes(&file, 0).unwrap(), 0);
    }
}
