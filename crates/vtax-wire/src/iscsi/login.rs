//! The login phase (RFC 7143 section 6.3): security, then parameters.

use super::chap::{self, CHALLENGE_BYTES, Chap, ChapError, Expected, Heard};
use super::text::{Pairs, push};
use super::write::{LoginRequest, Writer};
use super::{IscsiError, LoginAnswer, TEXT_BYTES_MAX};

/// Responses until a login is given up: a target that never comes to an end must not hold us.
const ROUNDS_MAX: u32 = 20;
/// The stages.
const SECURITY: u8 = 0;
const PARAMETERS: u8 = 1;
const FULL_FEATURE: u8 = 3;

/// Whether segments are followed by their CRC32C.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Digest {
    /// They aren't.
    #[default]
    None,
    /// They are; a target that can't is refused.
    Crc32c,
}

impl Digest {
    const fn word(self) -> &'static str {
        match self {
            Self::None => "None",
            Self::Crc32c => "CRC32C",
        }
    }
}

/// What a session is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Session {
    /// Listing targets.
    Discovery,
    /// Using the target of this name.
    Normal(String),
}

/// Lengths that are offered; the target may shorten all but the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Longest data segment that the initiator takes.
    pub receive: u32,
    /// Longest sequence of data that answers one R2T, or of data that a command reads.
    pub burst: u32,
    /// Most data that is sent without an R2T.
    pub first_burst: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { receive: 256 << 10, burst: 1 << 20, first_burst: 256 << 10 }
    }
}

/// What is logged in with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginOptions {
    /// The initiator's name: `iqn.…`.
    pub initiator: String,
    /// What for.
    pub session: Session,
    /// Proofs; `None`: none are offered.
    pub chap: Option<Chap>,
    /// Of headers.
    pub header_digest: Digest,
    /// Of data segments.
    pub data_digest: Digest,
    /// Data may go with its command.
    pub immediate_data: bool,
    /// All data but the immediate waits for an R2T.
    pub initial_r2t: bool,
    /// Lengths.
    pub limits: Limits,
    /// Session's identifier; the initiator's name and it tell sessions apart.
    pub isid: [u8; 6],
    /// Random: the challenge to a target that is to prove itself.
    pub challenge: [u8; CHALLENGE_BYTES],
}

/// What was agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Negotiated {
    /// The initiator proved that it knows its secret.
    pub authenticated: bool,
    /// Headers have digests.
    pub header_digest: bool,
    /// Data segments have digests.
    pub data_digest: bool,
    /// All data but the immediate waits for an R2T.
    pub initial_r2t: bool,
    /// Data may go with its command.
    pub immediate_data: bool,
    /// Longest data segment that the target takes.
    pub send_segment: u32,
    /// Longest sequence.
    pub burst: u32,
    /// Most data without an R2T.
    pub first_burst: u32,
    /// R2Ts of one command that may be open at once.
    pub open_r2t: u32,
    /// The session's handle at the target.
    pub tsih: u16,
    /// Number of the first command.
    pub cmd_sn: u32,
    /// Number of the next status.
    pub exp_stat_sn: u32,
    /// Largest command number that the target takes.
    pub max_cmd_sn: u32,
}

/// Why a login came to nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    /// What it sent isn't text.
    #[error(transparent)]
    Wire(#[from] IscsiError),
    /// The target's own words, by status class and detail.
    #[error("the target refused the login: {}", status(*class, *detail))]
    Refused {
        /// Status class.
        class: u8,
        /// Status detail.
        detail: u8,
    },
    /// The target is elsewhere.
    #[error("the target has moved to {0}")]
    Moved(String),
    /// The proofs failed.
    #[error("the target can't be authenticated with: {0}")]
    Chap(#[from] ChapError),
    /// It didn't ask for the proofs that were to be made.
    #[error("the target does not authenticate, but is to prove itself")]
    NotAuthenticating,
    /// It speaks CHAP without having been offered it.
    #[error("the target wants CHAP, for which no secret was given")]
    NoSecret,
    /// It agreed to something that wasn't offered.
    #[error("the target answered {key}={value}, which was not offered")]
    Parameter {
        /// Key.
        key: &'static str,
        /// Its answer, cut.
        value: String,
    },
    /// It doesn't keep to the order of a login.
    #[error("the target does not keep to the order of a login")]
    Order,
    /// It never comes to an end.
    #[error("the login has no end after {ROUNDS_MAX} responses")]
    Endless,
}

/// The words of a login's status (RFC 7143 section 11.13.5).
const fn status(class: u8, detail: u8) -> &'static str {
    match (class, detail) {
        (2, 0) => "initiator error",
        (2, 1) => "authentication failure",
        (2, 2) => "the initiator may not use this target",
        (2, 3) => "there is no such target",
        (2, 4) => "the target was removed",
        (2, 5) => "unsupported version",
        (2, 6) => "too many connections",
        (2, 7) => "a parameter is missing",
        (2, 8) => "can't be part of this session",
        (2, 9) => "unsupported type of session",
        (2, 10) => "there is no such session",
        (2, 11) => "invalid request during login",
        (2, _) => "initiator error of unknown kind",
        (3, 0) => "target error",
        (3, 1) => "service unavailable",
        (3, 2) => "out of resources",
        (3, _) => "target error of unknown kind",
        _ => "status of an unknown class",
    }
}

/// What is to be done after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginStep {
    /// Send what [`Login::request`] appends, and wait for its response.
    Send,
    /// The login is over.
    Done(Negotiated),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first request is to be sent.
    Begin,
    /// A method is offered.
    Offered,
    /// Hashes are offered.
    Hashes,
    /// The proof is sent.
    Proved,
    /// Parameters are offered.
    Parameters,
    /// It is over, well or not.
    Over,
}

/// A login under way: [`Login::request`] and [`Login::response`] in turn.
#[derive(Debug, Clone)]
pub struct Login {
    options: LoginOptions,
    state: State,
    stage: u8,
    tag: u32,
    tsih: u16,
    exp_stat_sn: u32,
    rounds: u32,
    /// The text of a response that comes in several.
    text: Vec<u8>,
    /// The text of the next request.
    next: Vec<u8>,
    transit: bool,
    expected: Option<Expected>,
    agreed: Negotiated,
}

impl Login {
    /// A login that begins.
    #[must_use]
    pub fn new(options: LoginOptions) -> Self {
        let agreed = Negotiated {
            authenticated: false,
            header_digest: false,
            data_digest: false,
            // What holds where a target doesn't answer a key (RFC 7143 section 13).
            initial_r2t: true,
            immediate_data: options.immediate_data,
            send_segment: super::DATA_BEFORE_LOGIN,
            burst: options.limits.burst.min(262_144),
            first_burst: options.limits.first_burst.min(65_536),
            open_r2t: 1,
            tsih: 0,
            cmd_sn: 1,
            exp_stat_sn: 0,
            max_cmd_sn: 1,
        };
        Self {
            options,
            state: State::Begin,
            stage: SECURITY,
            tag: 1,
            tsih: 0,
            exp_stat_sn: 0,
            rounds: 0,
            text: Vec::new(),
            next: Vec::new(),
            transit: true,
            expected: None,
            agreed,
        }
    }

    /// Appends the next request.
    pub fn request(&mut self, out: &mut Vec<u8>) {
        if self.state == State::Begin {
            self.offer_method();
        }
        let next = if self.stage == SECURITY { PARAMETERS } else { FULL_FEATURE };
        let request = LoginRequest {
            transit: self.transit,
            more: false,
            stage: self.stage,
            next,
            isid: self.options.isid,
            tsih: self.tsih,
            tag: self.tag,
            cmd_sn: 1,
            exp_stat_sn: self.exp_stat_sn,
        };
        Writer::login(out, &request, &self.next);
        self.next.clear();
    }

    fn offer_method(&mut self) {
        push(&mut self.next, "InitiatorName", &self.options.initiator);
        match &self.options.session {
            Session::Discovery => push(&mut self.next, "SessionType", "Discovery"),
            Session::Normal(target) => {
                push(&mut self.next, "SessionType", "Normal");
                push(&mut self.next, "TargetName", target);
            }
        }
        let methods = match &self.options.chap {
            None => "None",
            Some(Chap { target: Some(_), .. }) => "CHAP",
            Some(_) => "CHAP,None",
        };
        push(&mut self.next, "AuthMethod", methods);
        self.state = State::Offered;
    }

    fn offer_parameters(&mut self) {
        let options = &self.options;
        let yes = |on| if on { "Yes" } else { "No" };
        let limits = options.limits;
        let number = |n: u32| n.to_string();
        let next = &mut self.next;
        push(next, "HeaderDigest", options.header_digest.word());
        push(next, "DataDigest", options.data_digest.word());
        push(next, "MaxRecvDataSegmentLength", &number(limits.receive));
        push(next, "DefaultTime2Wait", "2");
        push(next, "DefaultTime2Retain", "0");
        push(next, "ErrorRecoveryLevel", "0");
        if options.session != Session::Discovery {
            push(next, "InitialR2T", yes(options.initial_r2t));
            push(next, "ImmediateData", yes(options.immediate_data));
            push(next, "MaxBurstLength", &number(limits.burst));
            push(next, "FirstBurstLength", &number(limits.first_burst.min(limits.burst)));
            push(next, "MaxOutstandingR2T", "1");
            push(next, "MaxConnections", "1");
            push(next, "DataPDUInOrder", "Yes");
            push(next, "DataSequenceInOrder", "Yes");
        }
        self.state = State::Parameters;
        self.stage = PARAMETERS;
        self.transit = true;
    }

    /// Takes a response, whole: its header and all of its data.
    ///
    /// # Errors
    /// The target refuses the login, doesn't prove itself, or doesn't keep to the protocol.
    pub fn response(&mut self, answer: &LoginAnswer, data: &[u8]) -> Result<LoginStep, LoginError> {
        let step = self.step(answer, data);
        if !matches!(step, Ok(LoginStep::Send)) {
            self.state = State::Over;
        }
        step
    }

    fn step(&mut self, answer: &LoginAnswer, data: &[u8]) -> Result<LoginStep, LoginError> {
        self.rounds += 1;
        if self.rounds > ROUNDS_MAX {
            return Err(LoginError::Endless);
        }
        if matches!(self.state, State::Begin | State::Over) || answer.tag != self.tag {
            return Err(LoginError::Order);
        }
        self.check_status(answer, data)?;
        self.exp_stat_sn = answer.counters.stat_sn.wrapping_add(1);
        self.tsih = answer.tsih;
        if self.text.len() + data.len() > TEXT_BYTES_MAX {
            return Err(IscsiError::LongText.into());
        }
        self.text.extend_from_slice(data);
        if answer.more {
            // An empty request asks for the rest (RFC 7143 section 6.2).
            self.transit = false;
            return Ok(LoginStep::Send);
        }
        let text = std::mem::take(&mut self.text);
        if answer.stage != self.stage || (answer.transit && answer.next <= answer.stage) {
            return Err(LoginError::Order);
        }
        match self.state {
            State::Offered => self.method(&text, answer)?,
            State::Hashes => self.challenged(&text, answer)?,
            State::Proved => self.proved(&text, answer)?,
            State::Parameters => {
                self.parameters(&text)?;
                if answer.transit && answer.next == FULL_FEATURE {
                    return Ok(LoginStep::Done(self.agreed(answer)));
                }
                // It has more to say; it is asked again.
                self.transit = true;
            }
            State::Begin | State::Over => return Err(LoginError::Order),
        }
        Ok(LoginStep::Send)
    }

    fn check_status(&self, answer: &LoginAnswer, data: &[u8]) -> Result<(), LoginError> {
        match answer.status_class {
            0 => Ok(()),
            1 => {
                let address = Pairs::of(data).flatten().find(|(key, _)| *key == "TargetAddress");
                Err(LoginError::Moved(address.map_or("nowhere".to_owned(), |(_, value)| cut(value))))
            }
            class => Err(LoginError::Refused { class, detail: answer.status_detail }),
        }
    }

    /// Takes the choice of a method.
    fn method(&mut self, text: &[u8], answer: &LoginAnswer) -> Result<(), LoginError> {
        let mut method = None;
        for pair in Pairs::of(text) {
            match pair? {
                ("AuthMethod", value) => method = Some(value),
                pair => self.unknown(pair),
            }
        }
        match (method, &self.options.chap) {
            (Some("CHAP"), Some(_)) => {
                push(&mut self.next, "CHAP_A", chap::OFFER);
                self.state = State::Hashes;
                self.transit = false;
                Ok(())
            }
            (Some("CHAP"), None) => Err(LoginError::NoSecret),
            (Some("None") | None, Some(Chap { target: Some(_), .. })) => Err(LoginError::NotAuthenticating),
            // Without a choice it must go on to parameters, and so has none to make.
            (Some("None") | None, _) if answer.transit && answer.next == PARAMETERS => {
                self.offer_parameters();
                Ok(())
            }
            (Some("None") | None, _) => Err(LoginError::Order),
            (Some(value), _) => Err(LoginError::Parameter { key: "AuthMethod", value: cut(value) }),
        }
    }

    fn heard(&mut self, text: &[u8]) -> Result<Heard, LoginError> {
        let mut heard = Heard::default();
        for pair in Pairs::of(text) {
            let pair = pair?;
            let place = match pair.0 {
                "CHAP_A" => &mut heard.algorithm,
                "CHAP_I" => &mut heard.id,
                "CHAP_C" => &mut heard.challenge,
                "CHAP_N" => &mut heard.name,
                "CHAP_R" => &mut heard.response,
                _ => {
                    self.unknown(pair);
                    continue;
                }
            };
            *place = Some(pair.1.to_owned());
        }
        Ok(heard)
    }

    fn challenged(&mut self, text: &[u8], answer: &LoginAnswer) -> Result<(), LoginError> {
        let heard = self.heard(text)?;
        let Some(chap) = &self.options.chap else { return Err(LoginError::Order) };
        if answer.transit {
            return Err(LoginError::Order);
        }
        self.expected = chap::answer(chap, &heard, self.options.challenge, &mut self.next)?;
        self.state = State::Proved;
        self.transit = true;
        Ok(())
    }

    fn proved(&mut self, text: &[u8], answer: &LoginAnswer) -> Result<(), LoginError> {
        let heard = self.heard(text)?;
        let wanted = self.options.chap.as_ref().and_then(|chap| chap.target.as_ref());
        if let Some(target) = wanted {
            let expected = self.expected.as_ref().ok_or(LoginError::Order)?;
            chap::verify(target, expected, &heard)?;
        }
        if !answer.transit || answer.next != PARAMETERS {
            return Err(LoginError::Order);
        }
        self.agreed.authenticated = true;
        self.offer_parameters();
        Ok(())
    }

    /// Takes the target's answers to what was offered, and what it declares.
    fn parameters(&mut self, text: &[u8]) -> Result<(), LoginError> {
        for pair in Pairs::of(text) {
            let (key, value) = pair?;
            let limits = self.options.limits;
            let agreed = &mut self.agreed;
            match key {
                "HeaderDigest" => {
                    agreed.header_digest = digest("HeaderDigest", value, self.options.header_digest)?;
                }
                "DataDigest" => {
                    agreed.data_digest = digest("DataDigest", value, self.options.data_digest)?;
                }
                "InitialR2T" => agreed.initial_r2t = yes("InitialR2T", value)? || self.options.initial_r2t,
                "ImmediateData" => {
                    agreed.immediate_data = yes("ImmediateData", value)? && self.options.immediate_data;
                }
                "MaxRecvDataSegmentLength" => {
                    agreed.send_segment = number("MaxRecvDataSegmentLength", value, 512..=(1 << 24) - 1)?;
                }
                "MaxBurstLength" => agreed.burst = number("MaxBurstLength", value, 512..=limits.burst)?,
                // A target whose other answers rule such data out has no use for its length (RFC 7143 sections 6.2 and 13.14).
                "FirstBurstLength" if value == "Irrelevant" => {}
                "FirstBurstLength" => {
                    agreed.first_burst = number("FirstBurstLength", value, 512..=limits.first_burst)?;
                }
                "MaxOutstandingR2T" => agreed.open_r2t = number("MaxOutstandingR2T", value, 1..=1)?,
                "MaxConnections" => drop(number("MaxConnections", value, 1..=1)?),
                "ErrorRecoveryLevel" => drop(number("ErrorRecoveryLevel", value, 0..=0)?),
                "DataPDUInOrder" => in_order("DataPDUInOrder", value)?,
                "DataSequenceInOrder" => in_order("DataSequenceInOrder", value)?,
                _ => self.unknown((key, value)),
            }
        }
        Ok(())
    }

    /// Answers a key that isn't understood, where it wants an answer.
    fn unknown(&mut self, (key, value): (&str, &str)) {
        const NO_ANSWER: &[&str] = &[
            "TargetAlias",
            "TargetAddress",
            "TargetPortalGroupTag",
            "DefaultTime2Wait",
            "DefaultTime2Retain",
        ];
        let answered = ["NotUnderstood", "Irrelevant", "Reject"].contains(&value);
        // A target that asks without end gets no more answers than a request holds.
        if !answered && !NO_ANSWER.contains(&key) && self.next.len() < 4096 {
            push(&mut self.next, key, "NotUnderstood");
        }
    }

    const fn agreed(&self, answer: &LoginAnswer) -> Negotiated {
        let mut agreed = self.agreed;
        agreed.tsih = answer.tsih;
        agreed.exp_stat_sn = self.exp_stat_sn;
        agreed.cmd_sn = 1;
        agreed.max_cmd_sn = answer.counters.max_cmd_sn;
        if agreed.first_burst > agreed.burst {
            agreed.first_burst = agreed.burst;
        }
        agreed
    }
}

/// A value for an error, cut to what can be read.
fn cut(value: &str) -> String {
    value.chars().filter(|c| !c.is_control()).take(80).collect()
}

fn refuse(key: &'static str, value: &str) -> LoginError {
    LoginError::Parameter { key, value: cut(value) }
}

fn digest(key: &'static str, value: &str, wanted: Digest) -> Result<bool, LoginError> {
    if value == wanted.word() { Ok(wanted == Digest::Crc32c) } else { Err(refuse(key, value)) }
}

fn yes(key: &'static str, value: &str) -> Result<bool, LoginError> {
    match value {
        "Yes" => Ok(true),
        "No" => Ok(false),
        // It has no use for the key where another rules it out.
        "Irrelevant" => Ok(key == "InitialR2T"),
        other => Err(refuse(key, other)),
    }
}

fn in_order(key: &'static str, value: &str) -> Result<(), LoginError> {
    if yes(key, value)? || value == "Irrelevant" { Ok(()) } else { Err(refuse(key, value)) }
}

fn number(key: &'static str, value: &str, range: std::ops::RangeInclusive<u32>) -> Result<u32, LoginError> {
    let digits = value.strip_prefix("0x").map(|hex| u32::from_str_radix(hex, 16));
    let number = digits.unwrap_or_else(|| value.parse()).map_err(|_| refuse(key, value))?;
    if range.contains(&number) { Ok(number) } else { Err(refuse(key, value)) }
}
