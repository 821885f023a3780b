//! A session with a target: connecting, logging in, single commands before anything is timed, logging out.

use std::io;
use std::time::{Duration, Instant};

use vtax_wire::iscsi::{
    Attributes, Chap, Command, Digest, Digests, HEADER_BYTES, IscsiError, Item, Limits, Login, LoginAnswer,
    LoginError, LoginOptions, LoginStep, NO_TAG, Negotiated, PduScanner, Residual, Secret, Session,
    TEXT_BYTES_MAX, TargetPdu, Writer,
};
use vtax_wire::scsi::{self, Cdb, Sense, status};

use super::spec::{ChapSecret, IscsiSpec};
use crate::family::storage::client::{Stream, random};

/// What one read takes.
const INPUT_BYTES: usize = 256 << 10;
/// How long a target may take to say that a session is closed.
const LOGOUT: Duration = Duration::from_secs(1);
/// Times that a unit may say that something has changed before it is taken for not ready.
const ATTENTIONS: u32 = 5;
/// PDUs that may come before the one that answers.
const UNASKED_MAX: u32 = 1000;

/// What ends a session, or keeps one from being made.
#[derive(Debug, thiserror::Error)]
pub(in crate::family::storage) enum LinkError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Wire(#[from] IscsiError),
    #[error("{0}")]
    Login(#[from] LoginError),
    /// A PDU that can't come now.
    #[error("the target does not keep to the protocol: {0}")]
    Order(&'static str),
    /// The target ends the session.
    #[error("the target ended the session: {0}")]
    Ended(&'static str),
    /// A PDU of ours was refused.
    #[error("the target rejected a PDU, reason {0:#04x}")]
    Rejected(u8),
    /// A command before the load failed.
    #[error("{0}: {1}")]
    Command(&'static str, String),
}

/// A session of one connection.
#[derive(Debug)]
pub(in crate::family::storage) struct Link {
    pub(super) stream: Stream,
    pub(super) scanner: PduScanner,
    pub(super) writer: Writer,
    pub(super) agreed: Negotiated,
    pub(super) input: Box<[u8]>,
    /// Number of the next command.
    pub(super) cmd_sn: u32,
    /// Next status number that is expected.
    pub(super) exp_stat_sn: u32,
    /// Largest command number that the target takes.
    pub(super) max_cmd_sn: u32,
}

/// What a single command found.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u8,
    pub(super) sense: Option<Sense>,
    pub(super) data: Vec<u8>,
}

impl Link {
    /// Connects and logs in before `until`. Initiator, `isid` and target make the session: one that is
    /// there already is ended by the target.
    pub(super) fn open(
        spec: &IscsiSpec,
        session: Session,
        isid: [u8; 6],
        until: Instant,
    ) -> Result<Self, LinkError> {
        let stream = Stream::connect(spec.address, until)?;
        let mut link = Self {
            stream,
            scanner: PduScanner::new(),
            writer: Writer::default(),
            agreed: Negotiated {
                authenticated: false,
                header_digest: false,
                data_digest: false,
                initial_r2t: true,
                immediate_data: false,
                send_segment: 0,
                burst: 0,
                first_burst: 0,
                open_r2t: 1,
                tsih: 0,
                cmd_sn: 1,
                exp_stat_sn: 0,
                max_cmd_sn: 1,
            },
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            cmd_sn: 1,
            exp_stat_sn: 0,
            max_cmd_sn: 1,
        };
        let mut login = Login::new(options(spec, session, isid)?);
        let mut out = Vec::with_capacity(1024);
        let agreed = loop {
            out.clear();
            login.request(&mut out);
            link.stream.send_all(&out, until)?;
            let (answer, text) = link.login_answer(until)?;
            if let LoginStep::Done(agreed) = login.response(&answer, &text)? {
                break agreed;
            }
        };
        let digests = Digests { header: agreed.header_digest, data: agreed.data_digest };
        link.scanner.agree(digests, Limits::default().receive);
        link.writer = Writer { header_digest: agreed.header_digest, data_digest: agreed.data_digest };
        (link.cmd_sn, link.exp_stat_sn) = (agreed.cmd_sn, agreed.exp_stat_sn);
        link.max_cmd_sn = agreed.max_cmd_sn;
        link.agreed = agreed;
        Ok(link)
    }

    fn login_answer(&mut self, until: Instant) -> Result<(LoginAnswer, Vec<u8>), LinkError> {
        match self.pdu(until)? {
            (TargetPdu::Login(answer), text) => Ok((answer, text)),
            (TargetPdu::Reject { reason, .. }, _) => Err(LinkError::Rejected(reason)),
            _ => Err(LinkError::Order("a login was answered with something else")),
        }
    }

    /// The next PDU with all of its data. A target answers one request at a time here, so nothing is read
    /// beyond it: what is there would be lost.
    fn pdu(&mut self, until: Instant) -> Result<(TargetPdu, Vec<u8>), LinkError> {
        let mut head = None;
        let mut data = Vec::new();
        loop {
            let most = self.scanner.wanted().clamp(1, self.input.len());
            let got = self.stream.receive_some(&mut self.input[..most], until)?;
            let mut at = 0;
            loop {
                let scanned = self.scanner.scan(&self.input[at..got])?;
                at += scanned.consumed;
                match scanned.item {
                    Item::Incomplete => break,
                    Item::Head(pdu, _) => head = Some(pdu),
                    Item::Data(bytes) if data.len() + bytes.len() > TEXT_BYTES_MAX => {
                        return Err(IscsiError::LongText.into());
                    }
                    Item::Data(bytes) => data.extend_from_slice(bytes),
                    Item::End => {
                        let pdu = head.ok_or(LinkError::Order("a PDU without a head"))?;
                        return Ok((pdu, data));
                    }
                }
            }
        }
    }

    /// Takes the counters of a PDU.
    pub(super) fn count(&mut self, pdu: &TargetPdu) {
        let counters = pdu.counters();
        if pdu.has_status() {
            self.exp_stat_sn = counters.stat_sn.wrapping_add(1);
        }
        // RFC 7143 section 4.2.2.1: compared as serial numbers, and never moved back.
        if (counters.max_cmd_sn.wrapping_sub(self.max_cmd_sn) as i32) > 0 {
            self.max_cmd_sn = counters.max_cmd_sn;
        }
    }

    /// True where the target takes another command.
    pub(super) const fn window_open(&self) -> bool {
        (self.max_cmd_sn.wrapping_sub(self.cmd_sn) as i32) >= 0
    }

    /// One command without data to write, and its answer.
    pub(super) fn ask(
        &mut self,
        lun: u64,
        cdb: Cdb,
        length: u32,
        until: Instant,
    ) -> Result<Answer, LinkError> {
        const TAG: u32 = 1;
        let command = Command {
            lun,
            tag: TAG,
            length,
            reads: length > 0,
            writes: false,
            unsolicited: false,
            attributes: Attributes::Simple,
            cmd_sn: self.cmd_sn,
            exp_stat_sn: self.exp_stat_sn,
            cdb,
        };
        let mut out = Vec::with_capacity(HEADER_BYTES + 8);
        self.writer.command(&mut out, &command, &[]);
        self.stream.send_all(&out, until)?;
        self.cmd_sn = self.cmd_sn.wrapping_add(1);
        let mut answer = Answer { status: status::GOOD, sense: None, data: Vec::new() };
        for _ in 0..UNASKED_MAX {
            let (pdu, data) = self.pdu(until)?;
            self.count(&pdu);
            match pdu {
                TargetPdu::DataIn { tag: TAG, status, offset, .. } => {
                    if offset as usize != answer.data.len()
                        || answer.data.len() + data.len() > length as usize
                    {
                        return Err(LinkError::Order("data that was not asked for"));
                    }
                    answer.data.extend_from_slice(&data);
                    if let Some(status) = status {
                        answer.status = status;
                        return Ok(answer);
                    }
                }
                TargetPdu::ScsiResponse { tag: TAG, response, status, .. } => {
                    if response != 0 {
                        return Err(LinkError::Order("a command failed at the target"));
                    }
                    answer.status = status;
                    answer.sense = Sense::of_response(&data);
                    return Ok(answer);
                }
                TargetPdu::Nop { lun, target_tag, .. } if target_tag != NO_TAG => {
                    out.clear();
                    self.writer.pong(&mut out, lun, target_tag, self.cmd_sn, self.exp_stat_sn);
                    self.stream.send_all(&out, until)?;
                }
                TargetPdu::Nop { .. } | TargetPdu::Async { .. } => {}
                TargetPdu::Reject { reason, .. } => return Err(LinkError::Rejected(reason)),
                _ => return Err(LinkError::Order("an answer to something else")),
            }
        }
        Err(LinkError::Order("it says everything but the answer"))
    }

    /// One command that must succeed. A unit that says that something has changed is asked again.
    pub(super) fn get(
        &mut self,
        what: &'static str,
        (lun, cdb, length): (u64, Cdb, u32),
        until: Instant,
    ) -> Result<Vec<u8>, LinkError> {
        let mut attentions = 0;
        loop {
            let answer = self.ask(lun, cdb, length, until)?;
            match (answer.status, answer.sense) {
                (status::GOOD, _) => return Ok(answer.data),
                (status::CHECK_CONDITION, Some(Sense { key: 6, .. })) if attentions < ATTENTIONS => {
                    attentions += 1;
                }
                (status, sense) => return Err(LinkError::Command(what, words(status, sense))),
            }
        }
    }

    /// The text that answers `SendTargets=All`.
    pub(super) fn send_targets(&mut self, until: Instant) -> Result<Vec<u8>, LinkError> {
        let mut text = Vec::new();
        let (mut continued, mut request) = (NO_TAG, &b"SendTargets=All\0"[..]);
        loop {
            let mut out = Vec::new();
            self.writer.text(&mut out, (1, continued), (self.cmd_sn, self.exp_stat_sn), request);
            self.stream.send_all(&out, until)?;
            self.cmd_sn = self.cmd_sn.wrapping_add(1);
            let (pdu, data) = self.pdu(until)?;
            self.count(&pdu);
            let TargetPdu::Text { last, target_tag, .. } = pdu else {
                return Err(LinkError::Order("a text was answered with something else"));
            };
            if text.len() + data.len() > TEXT_BYTES_MAX {
                return Err(IscsiError::LongText.into());
            }
            text.extend_from_slice(&data);
            if last {
                return Ok(text);
            }
            (continued, request) = (target_tag, &[]);
        }
    }

    /// Says good-bye and waits for the answer, but not long: the target notices the end either way.
    pub(super) fn log_out(&mut self) -> Result<(), LinkError> {
        let until = Instant::now() + LOGOUT;
        let mut out = Vec::with_capacity(HEADER_BYTES + 8);
        self.writer.logout(&mut out, 1, self.cmd_sn, self.exp_stat_sn);
        self.stream.send_all(&out, until)?;
        for _ in 0..UNASKED_MAX {
            match self.pdu(until)?.0 {
                TargetPdu::LogoutResponse { response: 0, .. } => return Ok(()),
                TargetPdu::LogoutResponse { .. } => return Err(LinkError::Order("it refuses to log out")),
                _ => {}
            }
        }
        Err(LinkError::Order("it says everything but good-bye"))
    }
}

/// A status and its sense in words.
pub(super) fn words(status: u8, sense: Option<Sense>) -> String {
    let status_words = match status {
        status::CHECK_CONDITION => "check condition",
        status::BUSY => "busy",
        status::RESERVATION_CONFLICT => "reserved by another initiator",
        status::TASK_SET_FULL => "its queue is full",
        other => return format!("status {other:#04x}"),
    };
    match sense {
        Some(sense) => {
            let Sense { key, code, qualifier } = sense;
            format!("{} (sense {key:x}/{code:02x}/{qualifier:02x})", sense.words())
        }
        None => status_words.to_owned(),
    }
}

fn options(spec: &IscsiSpec, session: Session, isid: [u8; 6]) -> io::Result<LoginOptions> {
    let digest = |on| if on { Digest::Crc32c } else { Digest::None };
    let secret =
        |secret: &ChapSecret| Secret { name: secret.name.clone(), secret: secret.secret.clone().into() };
    Ok(LoginOptions {
        initiator: spec.initiator.clone(),
        session,
        chap: spec
            .chap
            .as_ref()
            .map(|own| Chap { own: secret(own), target: spec.mutual.as_ref().map(secret) }),
        header_digest: digest(spec.header_digest),
        data_digest: digest(spec.data_digest),
        immediate_data: spec.immediate_data,
        initial_r2t: spec.initial_r2t,
        limits: Limits::default(),
        isid,
        challenge: random()?,
    })
}

/// Bytes that a command didn't move.
pub(super) const fn missing(residual: Residual) -> u32 {
    match residual {
        Residual::Underflow(bytes) => bytes,
        Residual::None | Residual::Overflow(_) => 0,
    }
}

/// All there is to know of a unit before it is used.
#[derive(Debug, Clone)]
pub(super) struct Unit {
    pub(super) product: String,
    pub(super) blocks: u64,
    pub(super) block_bytes: u32,
    pub(super) caching: Option<scsi::CachingPage>,
}

impl Unit {
    /// Asks the unit.
    pub(super) fn ask(link: &mut Link, lun: u64, until: Instant) -> Result<Self, LinkError> {
        let data = link.get("INQUIRY", (lun, scsi::inquiry(), 252), until)?;
        let inquiry =
            scsi::inquired(&data).ok_or(LinkError::Command("INQUIRY", "the answer is cut".to_owned()))?;
        if inquiry.qualifier != 0 {
            return Err(LinkError::Command("INQUIRY", "there is no such logical unit".to_owned()));
        }
        if inquiry.kind != 0 {
            let reason = format!("the unit is no disk (type {})", inquiry.kind);
            return Err(LinkError::Command("INQUIRY", reason));
        }
        link.get("TEST UNIT READY", (lun, scsi::test_unit_ready(), 0), until)?;
        let data = link.get("READ CAPACITY(10)", (lun, scsi::read_capacity_10(), 8), until)?;
        let cut = || LinkError::Command("READ CAPACITY", "the answer makes no sense".to_owned());
        let mut capacity = scsi::capacity_10(&data).ok_or_else(cut)?;
        if capacity.blocks.is_none() {
            let data = link.get("READ CAPACITY(16)", (lun, scsi::read_capacity_16(), 32), until)?;
            capacity = scsi::capacity_16(&data).ok_or_else(cut)?;
        }
        // A unit may have no such page: then nothing is known of its cache.
        let caching = link.ask(lun, scsi::mode_sense_caching(), 252, until)?;
        let caching = (caching.status == status::GOOD).then(|| scsi::caching(&caching.data)).flatten();
        Ok(Self {
            product: format!("{} {} {}", inquiry.vendor, inquiry.product, inquiry.revision),
            blocks: capacity.blocks.ok_or_else(cut)?,
            block_bytes: capacity.block_bytes,
            caching,
        })
    }
}
