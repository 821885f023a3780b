//! What a target sends: basic header segments (RFC 7143 section 11).

use super::{HEADER_BYTES, IscsiError};

/// The target's counters, which nearly every PDU carries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Number of this status; 0 and without meaning where the PDU carries none.
    pub stat_sn: u32,
    /// Next command number that the target expects.
    pub exp_cmd_sn: u32,
    /// Largest command number that it takes.
    pub max_cmd_sn: u32,
}

/// Data that a command didn't move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Residual {
    /// All of it moved.
    #[default]
    None,
    /// So many bytes less than were expected.
    Underflow(u32),
    /// So many bytes more would have been there.
    Overflow(u32),
}

impl Residual {
    const fn of(flags: u8, count: u32) -> Self {
        match flags & 0x06 {
            0x02 => Self::Underflow(count),
            0x04 => Self::Overflow(count),
            _ => Self::None,
        }
    }
}

/// The header of a login response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginAnswer {
    /// The target goes to the next stage.
    pub transit: bool,
    /// The text goes on in the next response.
    pub more: bool,
    /// Present stage.
    pub stage: u8,
    /// Next stage, where `transit` is set.
    pub next: u8,
    /// Highest version of the target.
    pub version_max: u8,
    /// Version in use.
    pub version: u8,
    /// The session's handle at the target.
    pub tsih: u16,
    /// The task.
    pub tag: u32,
    /// 0 success, 1 moved, 2 the initiator's error, 3 the target's.
    pub status_class: u8,
    /// What exactly.
    pub status_detail: u8,
    /// Counters.
    pub counters: Counters,
}

/// What a target tells by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AsyncEvent {
    /// Sense data of a logical unit is in the data segment.
    Sense,
    /// The initiator is to log out.
    LogoutWanted {
        /// Seconds it may take.
        within: u16,
    },
    /// The target drops the connection.
    ConnectionDropped,
    /// The target drops all connections of the session.
    SessionDropped,
    /// Parameters are to be negotiated again.
    Negotiate,
    /// Another, whose number it is.
    Other(u8),
}

/// A PDU of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetPdu {
    /// NOP-In: an answer to a NOP-Out, or a ping that wants one where `target_tag` names something.
    Nop {
        /// Logical unit.
        lun: u64,
        /// The initiator's task.
        tag: u32,
        /// To be echoed.
        target_tag: u32,
        /// Counters.
        counters: Counters,
    },
    /// The end of a SCSI command.
    ScsiResponse {
        /// The task.
        tag: u32,
        /// 0: completed at the target, and `status` counts.
        response: u8,
        /// SCSI status.
        status: u8,
        /// What didn't move.
        residual: Residual,
        /// Data and R2T PDUs that were sent for it.
        exp_data_sn: u32,
        /// Counters.
        counters: Counters,
    },
    /// An answer to a task management request.
    TaskResponse {
        /// The task.
        tag: u32,
        /// 0: done.
        response: u8,
        /// Counters.
        counters: Counters,
    },
    /// An answer to a login request.
    Login(LoginAnswer),
    /// Text.
    Text {
        /// The text ends with this PDU.
        last: bool,
        /// The text goes on in the next one.
        more: bool,
        /// The task.
        tag: u32,
        /// To be sent with the request for more.
        target_tag: u32,
        /// Counters.
        counters: Counters,
    },
    /// Data that a command reads.
    DataIn {
        /// Last of its sequence.
        last: bool,
        /// SCSI status, where this PDU ends the command.
        status: Option<u8>,
        /// What didn't move; only with a status.
        residual: Residual,
        /// The task.
        tag: u32,
        /// Number among the PDUs of this command.
        data_sn: u32,
        /// Where in the command's data it goes.
        offset: u32,
        /// Counters.
        counters: Counters,
    },
    /// An answer to a logout.
    LogoutResponse {
        /// The task.
        tag: u32,
        /// 0: closed.
        response: u8,
        /// Counters.
        counters: Counters,
    },
    /// The target is ready to take data of a command that writes.
    R2t {
        /// Logical unit.
        lun: u64,
        /// The task.
        tag: u32,
        /// To be sent with the data.
        target_tag: u32,
        /// Number among the PDUs of this command.
        r2t_sn: u32,
        /// First byte wanted.
        offset: u32,
        /// How many.
        length: u32,
        /// Counters.
        counters: Counters,
    },
    /// The target has something to say.
    Async {
        /// What it says.
        event: AsyncEvent,
        /// Counters.
        counters: Counters,
    },
    /// A PDU was refused; its header is the data segment.
    Reject {
        /// The reason code (RFC 7143 section 11.17.1).
        reason: u8,
        /// Counters.
        counters: Counters,
    },
}

/// Fields of a header by their places.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub(super) &'a [u8; HEADER_BYTES]);

impl Fields<'_> {
    const fn byte(self, at: usize) -> u8 {
        self.0[at]
    }

    const fn half(self, at: usize) -> u16 {
        u16::from_be_bytes([self.0[at], self.0[at + 1]])
    }

    pub(super) const fn word(self, at: usize) -> u32 {
        u32::from_be_bytes([self.0[at], self.0[at + 1], self.0[at + 2], self.0[at + 3]])
    }

    fn long(self, at: usize) -> u64 {
        u64::from(self.word(at)) << 32 | u64::from(self.word(at + 4))
    }

    const fn counters(self) -> Counters {
        Counters { stat_sn: self.word(24), exp_cmd_sn: self.word(28), max_cmd_sn: self.word(32) }
    }

    /// Bytes of additional header segments.
    pub(super) fn more_header(self) -> usize {
        usize::from(self.byte(4)) * 4
    }

    /// Bytes of the data segment.
    pub(super) const fn data(self) -> u32 {
        u32::from_be_bytes([0, self.0[5], self.0[6], self.0[7]])
    }
}

impl TargetPdu {
    /// Reads a header.
    ///
    /// # Errors
    /// The operation code is none that targets send.
    pub fn read(header: &[u8; HEADER_BYTES]) -> Result<Self, IscsiError> {
        let f = Fields(header);
        let (flags, tag, counters) = (f.byte(1), f.word(16), f.counters());
        let last = flags & 0x80 != 0;
        Ok(match f.byte(0) & 0x3f {
            0x20 => Self::Nop { lun: f.long(8), tag, target_tag: f.word(20), counters },
            0x21 => Self::ScsiResponse {
                tag,
                response: f.byte(2),
                status: f.byte(3),
                residual: Residual::of(flags, f.word(44)),
                exp_data_sn: f.word(36),
                counters,
            },
            0x22 => Self::TaskResponse { tag, response: f.byte(2), counters },
            0x23 => Self::Login(LoginAnswer {
                transit: last,
                more: flags & 0x40 != 0,
                stage: flags >> 2 & 3,
                next: flags & 3,
                version_max: f.byte(2),
                version: f.byte(3),
                tsih: f.half(14),
                tag,
                status_class: f.byte(36),
                status_detail: f.byte(37),
                counters,
            }),
            0x24 => Self::Text { last, more: flags & 0x40 != 0, tag, target_tag: f.word(20), counters },
            0x25 => Self::data_in(f),
            0x26 => Self::LogoutResponse { tag, response: f.byte(2), counters },
            0x31 => Self::R2t {
                lun: f.long(8),
                tag,
                target_tag: f.word(20),
                r2t_sn: f.word(36),
                offset: f.word(40),
                length: f.word(44),
                counters,
            },
            0x32 => Self::Async { event: Self::event(f), counters },
            0x3f => Self::Reject { reason: f.byte(2), counters },
            other => return Err(IscsiError::Opcode(other)),
        })
    }

    fn data_in(f: Fields<'_>) -> Self {
        let flags = f.byte(1);
        let status = flags & 0x01 != 0;
        Self::DataIn {
            last: flags & 0x80 != 0,
            status: status.then_some(f.byte(3)),
            residual: if status { Residual::of(flags, f.word(44)) } else { Residual::None },
            tag: f.word(16),
            data_sn: f.word(36),
            offset: f.word(40),
            counters: f.counters(),
        }
    }

    const fn event(f: Fields<'_>) -> AsyncEvent {
        match f.byte(36) {
            0 => AsyncEvent::Sense,
            1 => AsyncEvent::LogoutWanted { within: f.half(42) },
            2 => AsyncEvent::ConnectionDropped,
            3 => AsyncEvent::SessionDropped,
            4 => AsyncEvent::Negotiate,
            other => AsyncEvent::Other(other),
        }
    }

    /// Its counters.
    #[must_use]
    pub const fn counters(&self) -> Counters {
        match self {
            Self::Nop { counters, .. }
            | Self::ScsiResponse { counters, .. }
            | Self::TaskResponse { counters, .. }
            | Self::Text { counters, .. }
            | Self::DataIn { counters, .. }
            | Self::LogoutResponse { counters, .. }
            | Self::R2t { counters, .. }
            | Self::Async { counters, .. }
            | Self::Reject { counters, .. } => *counters,
            Self::Login(answer) => answer.counters,
        }
    }

    /// True where its status number counts: the initiator acknowledges it (RFC 7143 section 4.2.2.3).
    #[must_use]
    pub const fn has_status(&self) -> bool {
        match self {
            Self::DataIn { status, .. } => status.is_some(),
            Self::R2t { .. } => false,
            // A ping of the target carries the next number and doesn't use it up.
            Self::Nop { tag, .. } => *tag != super::NO_TAG,
            _ => true,
        }
    }
}
