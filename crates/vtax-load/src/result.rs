//! What one burst of load found.

use serde::{Deserialize, Serialize};
use vtax_units::{Nanos, Rate, Share};

use crate::LatencyHistogram;
use crate::family::desktop::DesktopFigures;
use crate::family::ftp::FtpDetails;
use crate::family::http::HttpDetails;
use crate::family::sip::ScriptFigures;

/// What one burst of load found, all workers merged; warm-up excluded everywhere.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LoadResult {
    /// Length of the recorded time.
    pub duration: Nanos,
    /// Its start, in nanoseconds since 1970; 0 in runs of older versions.
    #[serde(default)]
    pub started_unix_ns: u64,
    /// Requests and outcomes over the recorded time.
    pub counts: Counts,
    /// Latency from the intended start (open loop) or from the send (closed loop), successful requests.
    pub latency: LatencyHistogram,
    /// Actual send minus intended start (open loop only): how late the generator itself was.
    pub lateness: LatencyHistogram,
    /// Requests, outcomes and latency of each interval of the recorded time.
    pub intervals: Vec<Interval>,
    /// What became of connections, one value for each of `intervals`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub connections: Vec<ConnectionCounts>,
    /// What the generator itself used.
    pub generator: GeneratorUse,
    /// Every recorded request, where asked for.
    #[serde(skip)]
    pub samples: Vec<Sample>,
    /// What the family found besides, over all of the recorded time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details>,
    /// How long an answer was waited for; 0 where the family has no such limit, and in runs of older versions.
    #[serde(default)]
    pub timeout: Nanos,
    /// Successful answers that came within the recorded time, whenever their requests began. `None` in a closed loop, and where that isn't
    /// known any more: it is in no file of a run.
    #[serde(skip)]
    pub answered_in_time: Option<u64>,
}

/// What a family of requests found besides what all have. Each family has a field of its own: a vtax that doesn't know a later one reads
/// the rest.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Details {
    /// Users of remote desktops.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desktop: Option<Box<DesktopFigures>>,
    /// Transfers of FTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ftp: Option<Box<FtpDetails>>,
    /// Connections, TLS and requests of HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Box<HttpDetails>>,
    /// Calls after a scenario of SIPp's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Box<ScriptFigures>>,
}

impl Details {
    /// Together with what another worker found, of a family whose dialogues find something.
    pub(crate) fn and(mut self, other: Self) -> Self {
        if let Some(more) = other.http {
            self.http.get_or_insert_default().add(*more);
        }
        self
    }
}

/// Requests and outcomes. `intended = sent + missed`, `sent = ok + errors + unfinished`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Starts the arrival process asked for.
    pub intended: u64,
    /// Requests sent.
    pub sent: u64,
    /// Starts that found no free connection until their timeout had passed or the load ended.
    pub missed: u64,
    /// Answers with a 2xx or 3xx status.
    pub ok: u64,
    /// Failed requests by class.
    pub errors: Errors,
    /// Sent but neither answered nor timed out when the load ended.
    pub unfinished: u64,
    /// Of those unfinished or missed: whose time was not over when the load ended, so that an answer might still have come.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub waiting: u64,
    /// Answers by first digit of the status: index 0 is 1xx.
    pub status: [u64; 5],
    /// The status of the answers that failed by it (4xx, 5xx), where all have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_status: Option<u16>,
    /// Connections opened within the recorded time.
    pub connects: u64,
    /// Bytes received within the recorded time, protocol headers included; what came after it is not among them. Storage counts what
    /// operations that began within it read.
    pub bytes_received: u64,
    /// Bytes sent, likewise.
    pub bytes_sent: u64,
    /// Answers of any status that came within the recorded time, whenever their requests began. It is in no file of a run, and 0 where that
    /// isn't known any more.
    #[serde(skip)]
    pub replies_in_time: u64,
}

/// Requests that began in an interval, and what became of them, whenever that was.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Requests sent.
    pub sent: u64,
    /// As of [`Counts`], and so the others.
    pub missed: u64,
    /// Succeeded.
    pub ok: u64,
    /// Failed, by class.
    #[serde(default, skip_serializing_if = "has_none")]
    pub errors: Errors,
    /// Unfinished.
    pub unfinished: u64,
    /// Of those unfinished or missed: might still have succeeded.
    pub waiting: u64,
    /// Answers by first digit of the status.
    pub status: [u64; 5],
}

fn has_none(errors: &Errors) -> bool {
    errors.total() == 0
}

impl Begun {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.sent += other.sent;
        self.missed += other.missed;
        self.ok += other.ok;
        self.errors.add(&other.errors);
        self.unfinished += other.unfinished;
        self.waiting += other.waiting;
        for (sum, more) in self.status.iter_mut().zip(other.status) {
            *sum += more;
        }
    }
}

/// Failures by class, as httperf names them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// No answer in time.
    pub client_timeout: u64,
    /// ECONNREFUSED.
    pub refused: u64,
    /// ECONNRESET, EPIPE, or the peer closed in the middle of an answer.
    pub reset: u64,
    /// EMFILE, ENFILE.
    pub no_descriptors: u64,
    /// EADDRNOTAVAIL: no free local port.
    pub no_addresses: u64,
    /// The answer was not valid in the protocol.
    pub protocol: u64,
    /// Answers with a 4xx or 5xx status.
    pub status: u64,
    /// Anything else.
    pub other: u64,
    /// What was asked for is not there, although it was written and acknowledged.
    #[serde(default)]
    pub lost: u64,
    /// An older content than the one that was acknowledged last.
    #[serde(default)]
    pub stale: u64,
    /// A content that is damaged, or that was never written there.
    #[serde(default)]
    pub corrupt: u64,
    /// Answers that aren't what the plan expects, though their status is no error.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unexpected: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Errors {
    /// All failures.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.client_timeout
            + self.refused
            + self.reset
            + self.no_descriptors
            + self.no_addresses
            + self.protocol
            + self.status
            + self.other
            + self.lost
            + self.stale
            + self.corrupt
            + self.unexpected
    }

    /// The classes with their names, in the order of the fields; [`Sample::outcome`] counts from 1.
    #[must_use]
    pub fn classes(&self) -> [(&'static str, u64); 12] {
        [
            ("client-timeout", self.client_timeout),
            ("refused", self.refused),
            ("reset", self.reset),
            ("no-descriptors", self.no_descriptors),
            ("no-addresses", self.no_addresses),
            ("protocol", self.protocol),
            ("status", self.status),
            ("other", self.other),
            ("lost", self.lost),
            ("stale", self.stale),
            ("corrupt", self.corrupt),
            ("unexpected", self.unexpected),
        ]
    }

    fn add(&mut self, other: &Self) {
        self.client_timeout += other.client_timeout;
        self.refused += other.refused;
        self.reset += other.reset;
        self.no_descriptors += other.no_descriptors;
        self.no_addresses += other.no_addresses;
        self.protocol += other.protocol;
        self.status += other.status;
        self.other += other.other;
        self.lost += other.lost;
        self.stale += other.stale;
        self.corrupt += other.corrupt;
        self.unexpected += other.unexpected;
    }
}

impl Counts {
    /// Adds another's counts.
    pub fn add(&mut self, other: &Self) {
        self.intended += other.intended;
        self.sent += other.sent;
        self.missed += other.missed;
        self.ok += other.ok;
        self.failed_status = self.same_status(other.errors.status, other.failed_status);
        self.errors.add(&other.errors);
        self.unfinished += other.unfinished;
        self.waiting += other.waiting;
        for (sum, more) in self.status.iter_mut().zip(other.status) {
            *sum += more;
        }
        self.connects += other.connects;
        self.bytes_received += other.bytes_received;
        self.bytes_sent += other.bytes_sent;
        self.replies_in_time += other.replies_in_time;
    }

    /// Takes requests and their outcomes from what began, instead of from what happened.
    pub fn set_outcomes(&mut self, begun: Begun) {
        let Begun { sent, missed, ok, errors, unfinished, waiting, status } = begun;
        (self.intended, self.sent, self.missed) = (sent + missed, sent, missed);
        (self.ok, self.unfinished, self.waiting) = (ok, unfinished, waiting);
        self.failed_status = self.failed_status.filter(|_| errors.status > 0);
        (self.errors, self.status) = (errors, status);
    }

    /// An answer failed by its status; 0 in a protocol without.
    pub(crate) fn failed_by_status(&mut self, status: u16) {
        self.failed_status = self.same_status(1, (status > 0).then_some(status));
        self.errors.status += 1;
    }

    /// `failed_status` once so many more answers have failed, all with this status.
    fn same_status(&self, more: u64, status: Option<u16>) -> Option<u16> {
        match (self.errors.status, more) {
            (_, 0) => self.failed_status,
            (0, _) => status,
            _ => self.failed_status.filter(|own| Some(*own) == status),
        }
    }

    /// Why no request succeeded, in words; `None` where one did.
    #[must_use]
    pub fn nothing_succeeded(&self) -> Option<String> {
        // A closed loop intends what it sends.
        let n = self.intended.max(self.sent);
        if self.ok > 0 {
            return None;
        }
        if n == 0 {
            return Some("no request was due in the recorded time".to_owned());
        }
        let unanswered = [("missed", self.missed), ("unfinished", self.unfinished)];
        let causes = self.errors.classes().into_iter().chain(unanswered).filter(|(_, n)| *n > 0);
        let mut causes: Vec<(&str, u64)> = causes.collect();
        causes.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        if let [(class, all)] = causes[..] {
            return Some(self.all_alike(class, all));
        }
        let causes: Vec<String> = causes.iter().map(|(c, n)| format!("{n} {}", in_words(c))).collect();
        Some(format!("none of {n} requests succeeded: {}", causes.join(", ")))
    }

    /// What it means that all requests ended in one way.
    fn all_alike(&self, class: &str, n: u64) -> String {
        if n == 1 {
            return self.only_one(class);
        }
        match (class, self.failed_status) {
            ("status", Some(status)) => format!("all {n} answers were {status}: {}", question(status)),
            ("status", None) => format!("all {n} answers were errors"),
            ("refused", _) => format!("all {n} connections were refused: does a server listen there?"),
            ("client-timeout", _) => format!("none of {n} requests was answered in time"),
            ("reset", _) => format!("the connection was closed under all {n} requests"),
            ("protocol", _) => format!("all {n} answers were of another protocol"),
            ("missed", _) => format!("none of {n} requests found a connection in time"),
            ("unexpected", _) => format!("none of {n} answers was what is expected"),
            ("unfinished", _) => format!("none of {n} requests was answered before the end"),
            _ => format!("all {n} requests failed: {}", class.replace('-', " ")),
        }
    }

    /// What it means that the only request ended so.
    fn only_one(&self, class: &str) -> String {
        match (class, self.failed_status) {
            ("status", Some(status)) => format!("the only answer was {status}: {}", question(status)),
            ("status", None) => "the only answer was an error".to_owned(),
            ("refused", _) => "the only connection was refused: does a server listen there?".to_owned(),
            ("client-timeout", _) => "the only request wasn't answered in time".to_owned(),
            ("reset", _) => "the connection was closed under the only request".to_owned(),
            ("protocol", _) => "the only answer was of another protocol".to_owned(),
            ("missed", _) => "the only request found no connection in time".to_owned(),
            ("unexpected", _) => "the only answer wasn't what is expected".to_owned(),
            ("unfinished", _) => "the only request wasn't answered before the end".to_owned(),
            _ => format!("the only request failed: {}", class.replace('-', " ")),
        }
    }

    /// The share of intended starts that did not end in a successful answer, 0 to 1.
    #[must_use]
    pub fn loss(&self) -> f64 {
        if self.intended == 0 { 0.0 } else { 1.0 - self.ok as f64 / self.intended as f64 }
    }
}

/// What a status that all answers have makes one ask.
const fn question(status: u16) -> &'static str {
    if status >= 500 { "is the service in order?" } else { "is the target right?" }
}

/// What became of requests of a class, behind their number.
fn in_words(class: &str) -> String {
    match class {
        "status" => "answered with errors".to_owned(),
        "other" => "failed otherwise".to_owned(),
        "unexpected" => "answered otherwise than expected".to_owned(),
        _ => class.replace('-', " "),
    }
}

/// Why the figures of a load don't count, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Doubt {
    /// No request succeeded.
    NothingSucceeded(String),
    /// The generator could not carry the load.
    GeneratorLimited(String),
}

impl LoadResult {
    /// Why its figures don't count, where they don't.
    #[must_use]
    pub fn doubt(&self) -> Option<Doubt> {
        let Errors { refused, status, protocol, lost, stale, corrupt, unexpected, .. } = self.counts.errors;
        // What the server itself said no to is not the generator's fault, however busy that was.
        let answered = refused + status + protocol + lost + stale + corrupt + unexpected > 0;
        match (self.counts.nothing_succeeded(), &self.generator.limited) {
            (Some(why), limited) if answered || limited.is_none() => Some(Doubt::NothingSucceeded(why)),
            (_, limited) => limited.clone().map(Doubt::GeneratorLimited),
        }
    }

    /// True where the generator sent 99 % of the requests no later than this after they were due, missed none, and lacked neither
    /// descriptors nor ports.
    #[must_use]
    pub fn on_time(&self, within: Nanos) -> bool {
        let Errors { no_descriptors, no_addresses, .. } = self.counts.errors;
        self.counts.missed + no_descriptors + no_addresses == 0 && self.lateness.quantile(0.99) <= within
    }

    /// Share of requests that had no successful answer: those that failed, weren't answered in time or were never sent.
    /// Those whose time was not over when the load ended are left out: an answer might still have come.
    #[must_use]
    pub fn unanswered(&self) -> f64 {
        // In a closed loop nothing is intended beforehand.
        let asked = self.counts.intended.max(self.counts.sent).saturating_sub(self.counts.waiting);
        if asked == 0 { 0.0 } else { asked.saturating_sub(self.counts.ok) as f64 / asked as f64 }
    }

    /// The share of what was asked for by which answers fell behind: so many more were answered of the requests that began in the recorded
    /// time than came within it. `None` where that is no more than `tolerance` and what chance does to the number under way, or isn't known.
    #[must_use]
    pub fn behind(&self, tolerance: Share) -> Option<f64> {
        let (ok, intended) = (self.counts.ok as f64, self.counts.intended as f64);
        let behind = ok - self.answered_in_time? as f64;
        // By Little's law. At two moments far from each other their number is Poisson's, so that the difference has twice its variance.
        let under_way = ok / self.duration.as_secs_f64().max(1e-9) * self.latency.mean().as_secs_f64();
        let allowed = tolerance.0 * intended + 3.0 * (2.0 * under_way).sqrt();
        (behind > allowed).then_some(behind / intended)
    }

    /// Successful answers per second: in an open loop, where that is known, of those that came within the recorded time. Answers that were
    /// waited for after it would be more than a service did that falls behind. Else of the requests that began within it.
    #[must_use]
    pub fn throughput(&self) -> Rate {
        let answered = self.answered_in_time.unwrap_or(self.counts.ok);
        Rate(answered as f64 / self.duration.as_secs_f64().max(1e-9))
    }
}

/// One interval of the recorded time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Start, from the start of the recorded time.
    pub start: Nanos,
    /// Counts of requests whose outcome fell into it.
    pub counts: Counts,
    /// Latency of those that succeeded.
    pub latency: LatencyHistogram,
    /// What became of the requests that began in it, whenever that was; in no file of a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<Box<Begun>>,
}

/// Connections in one interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// Established at its end.
    pub open: u64,
    /// Established ones that ended against the generator's will: reset, closed by the server while idle or in
    /// the middle of an answer, or given up because an answer didn't come in time.
    pub broken: u64,
}

/// What the generator itself used, over the recorded time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct GeneratorUse {
    /// Workers.
    pub workers: u32,
    /// CPU time in user mode, all workers.
    pub cpu_user: Nanos,
    /// CPU time in the kernel, all workers.
    pub cpu_system: Nanos,
    /// The busiest worker's share of its CPU, 0 to 1.
    pub busiest: f64,
    /// Why the generator could not carry the load, where it could not.
    pub limited: Option<String>,
}

/// One recorded request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Intended start, from the start of the recorded time, in nanoseconds.
    pub start_ns: u64,
    /// Latency in nanoseconds. In samples that were stored by older versions 4.29 s (`u32::MAX`) means that or more.
    pub latency_ns: u64,
    /// 0 for success, else the class of failure in the order of [`Errors`], from 1.
    pub outcome: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(failures: &[(u64, u16)]) -> Counts {
        let mut counts = Counts::default();
        for (n, status) in failures {
            let mut more = Counts { intended: *n, sent: *n, ..Counts::default() };
            (0..*n).for_each(|_| more.failed_by_status(*status));
            counts.add(&more);
        }
        counts
    }

    #[test]
    fn that_nothing_succeeded_is_told_with_its_cause() {
        let told = |counts: &Counts| counts.nothing_succeeded().unwrap();
        assert_eq!(told(&of(&[(200, 404), (25, 404)])), "all 225 answers were 404: is the target right?");
        assert_eq!(told(&of(&[(3, 503)])), "all 3 answers were 503: is the service in order?");
        assert_eq!(told(&of(&[(3, 404), (2, 403), (1, 403)])), "all 6 answers were errors");
        assert_eq!(told(&of(&[(2, 0)])), "all 2 answers were errors", "a protocol without statuses");
        assert_eq!(told(&Counts::default()), "no request was due in the recorded time");
        let refused = Errors { refused: 9, ..Errors::default() };
        let counts = Counts { intended: 9, sent: 9, errors: refused, ..Counts::default() };
        assert_eq!(told(&counts), "all 9 connections were refused: does a server listen there?");
        let counts = Counts { intended: 12, missed: 3, ..counts };
        assert_eq!(told(&counts), "none of 12 requests succeeded: 9 refused, 3 missed");
        let errors = Errors { status: 5, other: 3, unexpected: 2, client_timeout: 1, ..Errors::default() };
        let mixed = Counts { intended: 11, sent: 11, errors, ..Counts::default() };
        let words = "5 answered with errors, 3 failed otherwise, 2 answered otherwise than expected, 1 client timeout";
        assert_eq!(told(&mixed), format!("none of 11 requests succeeded: {words}"));
        assert_eq!(told(&of(&[(1, 503)])), "the only answer was 503: is the service in order?");
        assert_eq!(told(&of(&[(1, 404)])), "the only answer was 404: is the target right?");
        let one = Counts { intended: 1, missed: 1, ..Counts::default() };
        assert_eq!(told(&one), "the only request found no connection in time");
        assert_eq!(Counts { ok: 1, ..counts }.nothing_succeeded(), None);
    }

    #[test]
    fn details_of_an_unknown_family_are_left_out_and_damage_is_damage() {
        let read = |text: &str| serde_json::from_str::<Details>(text);
        assert_eq!(read("{}").unwrap(), Details::default());
        assert_eq!(read(r#"{"chess":{"games":3}}"#).unwrap(), Details::default());
        assert!(read(r#"{"desktop":{}}"#).is_err());
        let known = Details { desktop: Some(Box::default()), ..Details::default() };
        assert_eq!(read(&serde_json::to_string(&known).unwrap()).unwrap(), known);
    }

    fn result(errors: Errors) -> LoadResult {
        LoadResult {
            duration: Nanos::from_secs(1),
            counts: Counts { intended: 5, sent: 5, errors, ..Counts::default() },
            ..LoadResult::default()
        }
    }

    /// A service that carried 1000/s and was offered 1200/s was said to answer 1200/s, as what was left came after the end.
    #[test]
    fn what_comes_after_the_end_is_no_throughput_of_an_open_loop() {
        let counts = Counts { intended: 12_000, sent: 12_000, ok: 12_000, ..Counts::default() };
        let load = LoadResult { duration: Nanos::from_secs(10), counts, ..LoadResult::default() };
        assert_eq!(load.throughput(), Rate(1_200.0));
        let open = LoadResult { answered_in_time: Some(10_000), ..load };
        assert_eq!(open.throughput(), Rate(1_000.0));
        // It is stored nowhere.
        let stored = serde_json::to_value(&open).unwrap();
        assert!(stored.get("answered_in_time").is_none(), "{stored}");
    }

    #[test]
    fn a_generator_is_on_time_where_it_sent_all_and_hardly_one_late() {
        let within = Nanos::from_millis(1);
        let mut load = result(Errors::default());
        (0..99).for_each(|_| load.lateness.record(Nanos(200_000)));
        load.lateness.record(Nanos::from_millis(80));
        assert!(load.on_time(within));
        assert!(!load.on_time(Nanos(100_000)));
        assert!(!result(Errors { no_addresses: 1, ..Errors::default() }).on_time(within));
        load.counts.missed = 1;
        assert!(!load.on_time(within));
    }

    #[test]
    fn what_the_server_refused_is_not_the_generators_fault() {
        let doubt = |errors: Errors, limited: Option<&str>| {
            let mut result = result(errors);
            result.generator.limited = limited.map(str::to_owned);
            result.doubt()
        };
        let refused = || Errors { refused: 5, ..Errors::default() };
        let late = || Errors { client_timeout: 5, ..Errors::default() };
        assert!(matches!(doubt(refused(), Some("busy")), Some(Doubt::NothingSucceeded(_))));
        assert!(matches!(doubt(late(), None), Some(Doubt::NothingSucceeded(_))));
        assert_eq!(doubt(late(), Some("busy")), Some(Doubt::GeneratorLimited("busy".to_owned())));
    }
}
