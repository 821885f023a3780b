//! A stream of zlib that goes on from rectangle to rectangle, in pieces of bounded size.

use flate2::{Decompress, FlushDecompress, Status};

use super::super::RfbError;

/// What a stream of zlib gives, piece by piece.
pub(super) struct Inflate {
    stream: Decompress,
}

impl std::fmt::Debug for Inflate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inflate").field("total_out", &self.stream.total_out()).finish()
    }
}

impl Inflate {
    pub(super) fn new() -> Self {
        Self { stream: Decompress::new(true) }
    }

    /// Begins anew, as after a mark of the encoder.
    pub(super) fn reset(&mut self) {
        self.stream.reset(true);
    }

    /// Inflates into `room`; how many bytes of `bytes` were used, and how many came out. It comes to an end where the
    /// bytes or the room do.
    pub(super) fn step(
        &mut self,
        bytes: &[u8],
        room: &mut [u8],
        encoding: &'static str,
    ) -> Result<(usize, usize), RfbError> {
        let (used, made) = (self.stream.total_in(), self.stream.total_out());
        let status = self.stream.decompress(bytes, room, FlushDecompress::Sync);
        let used = (self.stream.total_in() - used) as usize;
        let made = (self.stream.total_out() - made) as usize;
        match status {
            // An encoder never ends its stream; more bytes after an end would never be used.
            Ok(Status::StreamEnd) if used < bytes.len() => Err(RfbError::Zlib(encoding)),
            Ok(_) => Ok((used, made)),
            Err(_) => Err(RfbError::Zlib(encoding)),
        }
    }
}
