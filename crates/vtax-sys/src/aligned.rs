//! Memory that begins at a page: what direct I/O asks of its buffers, whatever the device's block size.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::error::{Context, Result};

/// Zeroed memory at a page boundary, filled into page tables at once so that no fault comes later.
#[derive(Debug)]
pub struct Aligned {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: the mapping is owned by this value alone and bound to no thread.
unsafe impl Send for Aligned {}

impl Aligned {
    /// So many bytes, at least one.
    ///
    /// # Errors
    ///
    /// There is no memory.
    pub fn new(length: usize) -> Result<Self> {
        let length = length.max(1);
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        // SAFETY: a new mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags)
        }
        .context("map", "memory for buffers")?;
        let start = NonNull::new(start.cast()).ok_or_else(|| crate::SysError::Unexpected {
            operation: "map memory for buffers",
            what: "address 0".to_owned(),
        })?;
        Ok(Self { start, length })
    }

    /// Where it begins, for calls into the kernel.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }
}

impl Deref for Aligned {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the mapping is that long, initialised (zeroed by the kernel), and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl Drop for Aligned {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping, of which no reference is left.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_begins_at_a_page_and_is_zero() {
        let mut memory = Aligned::new(10_000).unwrap();
        assert_eq!(memory.as_ptr().addr() % 4096, 0);
        assert!(memory.iter().all(|byte| *byte == 0));
        memory[9_999] = 7;
        assert_eq!((memory.len(), memory[9_999]), (10_000, 7));
        assert_eq!(Aligned::new(0).unwrap().len(), 1);
    }
}
