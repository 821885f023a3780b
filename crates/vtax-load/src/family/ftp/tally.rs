//! What one worker writes down about transfers and logins, besides what the recorder of requests does.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use vtax_units::Nanos;

use super::result::{FtpDetails, FtpHandshakes, FtpPhase, FtpTransfers, PhaseTimes};
use super::slot::{Kind, Login, Transfer};
use super::tls::Tls;
use crate::LatencyHistogram;
use crate::histogram::bounded;
use crate::requests::Outcome;

/// What one worker writes down.
#[derive(Debug)]
pub(super) struct Tally {
    /// What starts before is not recorded.
    from: u64,
    login: [Histogram<u64>; 3],
    kinds: [OfKind; 3],
    pub(super) logins: u64,
    broken_sessions: u64,
    continued: u64,
    handshakes: FtpHandshakes,
    tls: Option<String>,
    without_close_notify: u64,
    compared: u64,
    /// Of transfers that were right and ended within the recorded time, whenever they began.
    bytes_in_time: u64,
    passive_elsewhere: u64,
    /// Rare, so that it may allocate.
    refusals: BTreeMap<u16, u64>,
    pub(super) first_failure: Option<String>,
}

#[derive(Debug)]
struct OfKind {
    ok: u64,
    failed: u64,
    short: u64,
    corrupt: u64,
    bytes: u64,
    phases: [Histogram<u64>; 6],
}

impl Tally {
    pub(super) fn new(from: u64, timeout: Nanos) -> Self {
        let histogram = || bounded(timeout.0.saturating_add(1_000_000_000));
        let of_kind = || OfKind {
            ok: 0,
            failed: 0,
            short: 0,
            corrupt: 0,
            bytes: 0,
            phases: std::array::from_fn(|_| histogram()),
        };
        Self {
            from,
            login: std::array::from_fn(|_| histogram()),
            kinds: std::array::from_fn(|_| of_kind()),
            logins: 0,
            broken_sessions: 0,
            continued: 0,
            handshakes: FtpHandshakes::default(),
            tls: None,
            without_close_notify: 0,
            compared: 0,
            bytes_in_time: 0,
            passive_elsewhere: 0,
            refusals: BTreeMap::new(),
            first_failure: None,
        }
    }

    /// A session may transfer.
    pub(super) fn logged_in(&mut self, login: &Login, now: u64) {
        if login.begun < self.from {
            return;
        }
        self.logins += 1;
        let connect = login.connected.saturating_sub(login.begun);
        let tls = login.tls_done.saturating_sub(login.tls_begun);
        let rest = now.saturating_sub(login.connected).saturating_sub(tls);
        for (histogram, time) in self.login.iter_mut().zip([connect, tls, rest]) {
            histogram.saturating_record(time);
        }
    }

    /// A handshake is done.
    pub(super) fn handshake(&mut self, tls: &Tls, control: bool, now: u64) {
        if self.tls.is_none() {
            self.tls = tls.agreed();
        }
        if now < self.from {
            return;
        }
        let count = match (control, tls.resumed() == Some(true)) {
            (true, false) => &mut self.handshakes.control_full,
            (true, true) => &mut self.handshakes.control_resumed,
            (false, false) => &mut self.handshakes.data_full,
            (false, true) => &mut self.handshakes.data_resumed,
        };
        *count += 1;
    }

    /// A transfer has ended; the recorded time ends at `until`.
    pub(super) fn transferred(&mut self, transfer: &Transfer, outcome: Outcome, now: u64, until: u64) {
        if outcome == Outcome::Ok && (self.from..until).contains(&now) {
            self.bytes_in_time += transfer.moved;
        }
        if transfer.start < self.from {
            return;
        }
        if transfer.ended && !transfer.clean {
            self.without_close_notify += 1;
        }
        let kind = &mut self.kinds[match transfer.kind {
            Kind::Retr => 0,
            Kind::Stor => 1,
            Kind::List => 2,
        }];
        match outcome {
            Outcome::Ok => {
                kind.ok += 1;
                kind.bytes += transfer.moved;
                let marks = &transfer.marks;
                let moments = [marks.passive, marks.connected, marks.tls, marks.first, marks.last, now];
                let mut before = marks.begun;
                for (histogram, moment) in kind.phases.iter_mut().zip(moments) {
                    // What was skipped, or came earlier than it should, took no time.
                    let moment = moment.max(before);
                    histogram.saturating_record(moment - before);
                    before = moment;
                }
            }
            failure => {
                kind.failed += 1;
                kind.short += u64::from(failure == Outcome::Lost);
                kind.corrupt += u64::from(failure == Outcome::Corrupt);
            }
        }
    }

    /// A session goes on with what another was fetching.
    pub(super) fn continued(&mut self, transfer: &Transfer) {
        self.continued += u64::from(transfer.start >= self.from);
    }

    /// So many bytes of a transfer were compared.
    pub(super) fn compared(&mut self, transfer: &Transfer, bytes: u64) {
        if transfer.start >= self.from {
            self.compared += bytes;
        }
    }

    /// The reply to PASV for a transfer named another address than the server's.
    pub(super) fn passive_elsewhere(&mut self, transfer: &Transfer) {
        self.passive_elsewhere += u64::from(transfer.start >= self.from);
    }

    /// A session ended before its time. Sessions may last from the warm-up on, so that what counts is when.
    pub(super) fn broke(&mut self, now: u64) {
        self.broken_sessions += u64::from(now >= self.from);
    }

    /// A reply refused something; as of sessions.
    pub(super) fn refused(&mut self, code: u16, now: u64) {
        if now >= self.from {
            *self.refusals.entry(code).or_default() += 1;
        }
    }

    /// All of it, as it is stored.
    pub(super) fn details(self) -> FtpDetails {
        let [retr, stor, list] = self.kinds.map(OfKind::transfers);
        FtpDetails {
            retr,
            stor,
            list,
            login: times(FtpPhase::LOGIN, &self.login),
            logins: self.logins,
            broken_sessions: self.broken_sessions,
            continued: self.continued,
            handshakes: self.handshakes,
            tls: self.tls,
            without_close_notify: self.without_close_notify,
            compared: self.compared,
            passive_elsewhere: self.passive_elsewhere,
            refusals: self.refusals.into_iter().collect(),
            first_failure: self.first_failure,
            bytes_in_time: Some(self.bytes_in_time),
        }
    }
}

impl OfKind {
    fn transfers(self) -> FtpTransfers {
        FtpTransfers {
            ok: self.ok,
            failed: self.failed,
            short: self.short,
            corrupt: self.corrupt,
            bytes: self.bytes,
            phases: times(FtpPhase::TRANSFER, &self.phases),
        }
    }
}

/// The phases that have something to tell, with their times.
fn times<const N: usize>(phases: [FtpPhase; N], histograms: &[Histogram<u64>; N]) -> Vec<PhaseTimes> {
    let of = |(phase, histogram): (FtpPhase, &Histogram<u64>)| {
        let mut times = LatencyHistogram::new();
        for value in histogram.iter_recorded() {
            times.record_n(value.value_iterated_to(), value.count_since_last_iteration());
        }
        (!times.is_empty()).then_some(PhaseTimes { phase, times })
    };
    phases.into_iter().zip(histograms).filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_warm_up_is_left_out() {
        let mut tally = Tally::new(100, Nanos::from_secs(1));
        for (start, now) in [(40, 60), (99, 150), (100, 160), (170, 180)] {
            let transfer = Transfer { start, ..Transfer::new(Kind::Retr, 1, 1, 10) };
            tally.compared(&transfer, 10);
            tally.passive_elsewhere(&transfer);
            tally.refused(450, now);
            tally.broke(now);
        }
        let details = tally.details();
        // Parts of transfers count by when these started, what happens to sessions by when it does.
        assert_eq!((details.compared, details.passive_elsewhere), (20, 2));
        assert_eq!((details.refusals, details.broken_sessions), (vec![(450, 3)], 3));
    }

    /// Goodput was that of all transfers that had begun in time, however late they ended: more than a server did that falls behind.
    #[test]
    fn goodput_is_of_transfers_that_end_in_time() {
        let mut tally = Tally::new(100, Nanos::from_secs(1));
        for (start, now, outcome) in [
            (10, 99, Outcome::Ok),
            (20, 100, Outcome::Ok),
            (120, 299, Outcome::Ok),
            (130, 200, Outcome::Lost),
            (140, 300, Outcome::Ok),
            (150, 9_000, Outcome::Ok),
        ] {
            let transfer = Transfer { start, moved: 10, ..Transfer::new(Kind::Retr, 1, 1, 10) };
            tally.transferred(&transfer, outcome, now, 300);
        }
        let details = tally.details();
        assert_eq!((details.bytes_in_time, details.bytes(), details.retr.failed), (Some(20), 30, 1));
    }
}
