//! What an initiator sends.

use super::{HEADER_BYTES, NO_TAG};

/// What PDUs are appended to.
pub trait Sink {
    /// Appends bytes.
    fn bytes(&mut self, bytes: &[u8]);

    /// Appends data of a command; a sink that can send it from where it is needn't copy it.
    fn data(&mut self, data: &[u8]);
}

impl Sink for Vec<u8> {
    fn bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn data(&mut self, data: &[u8]) {
        self.extend_from_slice(data);
    }
}

/// Appends PDUs, with the digests that were agreed on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Writer {
    /// Every header is followed by its CRC32C.
    pub header_digest: bool,
    /// Every data segment is followed by its CRC32C.
    pub data_digest: bool,
}

/// How a command is queued at its logical unit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Attributes {
    /// In any order.
    #[default]
    Simple = 1,
    /// In the order of their numbers.
    Ordered = 2,
    /// Before all others.
    HeadOfQueue = 3,
}

/// A SCSI command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Command {
    /// Logical unit, as the eight bytes of its address.
    pub lun: u64,
    /// The task's tag.
    pub tag: u32,
    /// Bytes it is expected to move.
    pub length: u32,
    /// It reads.
    pub reads: bool,
    /// It writes.
    pub writes: bool,
    /// Data without R2T follows in PDUs of its own.
    pub unsolicited: bool,
    /// How it is queued.
    pub attributes: Attributes,
    /// Its number.
    pub cmd_sn: u32,
    /// Next status number that is expected.
    pub exp_stat_sn: u32,
    /// What it does.
    pub cdb: [u8; 16],
}

/// Data that a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DataOut {
    /// Logical unit; that of the R2T.
    pub lun: u64,
    /// The task's tag.
    pub tag: u32,
    /// The R2T's; [`NO_TAG`] where none asked.
    pub target_tag: u32,
    /// Next status number that is expected.
    pub exp_stat_sn: u32,
    /// Number within its sequence.
    pub data_sn: u32,
    /// Where in the command's data it begins.
    pub offset: u32,
    /// Last of its sequence.
    pub last: bool,
}

/// What is to be done with tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum TaskFunction {
    /// One task is given up.
    AbortTask = 1,
    /// All of this initiator's on the logical unit.
    AbortTaskSet = 2,
    /// The logical unit is reset.
    LogicalUnitReset = 5,
}

/// A header that is being filled in.
struct Header([u8; HEADER_BYTES]);

impl Header {
    const fn new(opcode: u8, flags: u8) -> Self {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = opcode;
        bytes[1] = flags;
        Self(bytes)
    }

    fn word(mut self, at: usize, value: u32) -> Self {
        self.0[at..at + 4].copy_from_slice(&value.to_be_bytes());
        self
    }

    fn lun(mut self, lun: u64) -> Self {
        self.0[8..16].copy_from_slice(&lun.to_be_bytes());
        self
    }

    const fn byte(mut self, at: usize, value: u8) -> Self {
        self.0[at] = value;
        self
    }
}

impl Writer {
    /// A SCSI command with its immediate data.
    pub fn command(self, out: &mut impl Sink, command: &Command, immediate: &[u8]) {
        let flags = u8::from(!command.unsolicited) << 7
            | u8::from(command.reads) << 6
            | u8::from(command.writes) << 5
            | command.attributes as u8;
        let mut header = Header::new(0x01, flags)
            .lun(command.lun)
            .word(16, command.tag)
            .word(20, command.length)
            .word(24, command.cmd_sn)
            .word(28, command.exp_stat_sn);
        header.0[32..48].copy_from_slice(&command.cdb);
        self.pdu(out, header, immediate);
    }

    /// Data of a command that writes.
    pub fn data_out(self, out: &mut impl Sink, pdu: &DataOut, data: &[u8]) {
        let header = Header::new(0x05, u8::from(pdu.last) << 7)
            .lun(pdu.lun)
            .word(16, pdu.tag)
            .word(20, pdu.target_tag)
            .word(28, pdu.exp_stat_sn)
            .word(36, pdu.data_sn)
            .word(40, pdu.offset);
        self.pdu(out, header, data);
    }

    /// A ping that is answered with its tag; it is immediate and takes no number.
    pub fn ping(self, out: &mut Vec<u8>, tag: u32, cmd_sn: u32, exp_stat_sn: u32) {
        let header =
            Header::new(0x40, 0x80).word(16, tag).word(20, NO_TAG).word(24, cmd_sn).word(28, exp_stat_sn);
        self.pdu(out, header, &[]);
    }

    /// The answer to a target's ping.
    pub fn pong(self, out: &mut Vec<u8>, lun: u64, target_tag: u32, cmd_sn: u32, exp_stat_sn: u32) {
        let header = Header::new(0x40, 0x80)
            .lun(lun)
            .word(16, NO_TAG)
            .word(20, target_tag)
            .word(24, cmd_sn)
            .word(28, exp_stat_sn);
        self.pdu(out, header, &[]);
    }

    /// A task management request about the task with the tag `referenced`, whose command had the number `ref_cmd_sn`; it is
    /// immediate.
    pub fn manage(
        self,
        out: &mut Vec<u8>,
        (function, lun): (TaskFunction, u64),
        tag: u32,
        (referenced, ref_cmd_sn): (u32, u32),
        (cmd_sn, exp_stat_sn): (u32, u32),
    ) {
        let header = Header::new(0x42, 0x80 | function as u8)
            .lun(lun)
            .word(16, tag)
            .word(20, referenced)
            .word(24, cmd_sn)
            .word(28, exp_stat_sn)
            // By it a target that hasn't seen the command knows that it is never to come (RFC 7143 section 11.5.5).
            .word(32, ref_cmd_sn);
        self.pdu(out, header, &[]);
    }

    /// Text; `target_tag` is that of the answer that is to be continued.
    pub fn text(self, out: &mut Vec<u8>, tags: (u32, u32), (cmd_sn, exp_stat_sn): (u32, u32), text: &[u8]) {
        let header =
            Header::new(0x44, 0x80).word(16, tags.0).word(20, tags.1).word(24, cmd_sn).word(28, exp_stat_sn);
        self.pdu(out, header, text);
    }

    /// The end of the session; it is immediate.
    pub fn logout(self, out: &mut Vec<u8>, tag: u32, cmd_sn: u32, exp_stat_sn: u32) {
        let header = Header::new(0x46, 0x80).word(16, tag).word(24, cmd_sn).word(28, exp_stat_sn);
        self.pdu(out, header, &[]);
    }

    /// A login request. Logins have no digests.
    pub(super) fn login(out: &mut Vec<u8>, login: &LoginRequest, text: &[u8]) {
        let flags = u8::from(login.transit) << 7
            | u8::from(login.more) << 6
            | login.stage << 2
            | if login.transit { login.next } else { 0 };
        let mut header = Header::new(0x43, flags)
            .word(16, login.tag)
            .word(24, login.cmd_sn)
            .word(28, login.exp_stat_sn)
            .byte(14, login.tsih.to_be_bytes()[0])
            .byte(15, login.tsih.to_be_bytes()[1]);
        header.0[8..14].copy_from_slice(&login.isid);
        Self::default().pdu(out, header, text);
    }

    fn pdu(self, out: &mut impl Sink, header: Header, data: &[u8]) {
        debug_assert!(data.len() < 1 << 24, "a data segment's length has 24 bits");
        let mut header = header.0;
        header[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        out.bytes(&header);
        if self.header_digest {
            out.bytes(&crc32c::crc32c(&header).to_le_bytes());
        }
        if data.is_empty() {
            return;
        }
        let padding = &[0; 3][..data.len().wrapping_neg() & 3];
        out.data(data);
        out.bytes(padding);
        if self.data_digest {
            let crc = crc32c::crc32c_append(crc32c::crc32c(data), padding);
            out.bytes(&crc.to_le_bytes());
        }
    }
}

/// The header of a login request.
pub(super) struct LoginRequest {
    pub(super) transit: bool,
    pub(super) more: bool,
    pub(super) stage: u8,
    pub(super) next: u8,
    pub(super) isid: [u8; 6],
    pub(super) tsih: u16,
    pub(super) tag: u32,
    pub(super) cmd_sn: u32,
    pub(super) exp_stat_sn: u32,
}
