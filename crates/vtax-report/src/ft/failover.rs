//! One fault and what followed.

/// Moments of a failover, in seconds since the fault.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Times {
    pub(crate) detected: Option<f64>,
    pub(crate) fenced: Option<f64>,
    /// The other side runs: its copy, a boot, a restored snapshot, or the guest that moved.
    pub(crate) promoted: Option<f64>,
    pub(crate) answered: Option<f64>,
    pub(crate) normal: Option<f64>,
    pub(crate) rearmed: Option<f64>,
    /// What it had taken away from clients was restored by the plan.
    pub(crate) restored: Option<f64>,
}

/// What a failover did to clients.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Connections that the plan gives clients, at most.
    pub(crate) most: Option<u64>,
    pub(crate) open: Option<u64>,
    pub(crate) kept: Option<u64>,
    pub(crate) lost: Option<u64>,
    pub(crate) attempted: Option<u64>,
    pub(crate) failed: Option<u64>,
    pub(crate) delayed: Option<u64>,
    pub(crate) retransmissions: Option<u64>,
}

impl Counts {
    /// Whether every connection that was open at the fault was kept; `None` where that isn't known, or where none was open: then
    /// none could be lost, whatever became of the service.
    pub(crate) fn kept_all(&self) -> Option<bool> {
        let open = self.open.filter(|open| *open > 0)?;
        Some(self.kept? >= open)
    }
}

/// How a fault ended for the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    /// Somebody answered again, and nothing had been restored before that.
    Survived,
    /// Nobody answered before the plan restored something, and what: `link p1-pe2 was restored`.
    Restored(String),
    /// Nobody runs the guest any more, and why.
    Lost(String),
    /// It never happened, or the next thing broke before anybody had answered.
    Unknown,
}

/// One fault and what followed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Failover {
    /// Index of its trial.
    pub(crate) trial: u32,
    pub(crate) measure: String,
    /// From 1, within its trial.
    pub(crate) number: usize,
    /// `kill: primary-host`; with its measure behind it, `(NAME)`, where others have the same.
    pub(crate) fault: String,
    /// What that did: `the host it ran on was killed`.
    pub(crate) happened: String,
    /// The host of the guest failed, and no other one: what protection is for.
    pub(crate) host_failed: bool,
    /// The guest was moved on purpose: nothing had failed.
    pub(crate) planned: bool,
    /// Seconds since the load began.
    pub(crate) at: f64,
    pub(crate) end: End,
    /// Why it doesn't count.
    pub(crate) excluded: Option<String>,
    pub(crate) times: Times,
    /// Whether anybody had to wait for an answer; `None` where that was not noted yet.
    pub(crate) outage: Option<bool>,
    /// Between two requests, on average.
    pub(crate) spacing_ns: Option<f64>,
    /// From the fault to the end of the load.
    pub(crate) left_ns: Option<f64>,
    /// From the last answer before the outage to the first one after it.
    pub(crate) silence_ns: Option<f64>,
    pub(crate) fencing_ns: Option<f64>,
    pub(crate) takeover_ns: Option<f64>,
    pub(crate) rearm_ns: Option<f64>,
    pub(crate) silence_arming_ns: Option<f64>,
    /// From the replacement of a disk until its RAID was whole.
    pub(crate) rebuild_ns: Option<f64>,
    /// How old the restored state was: what happened in that time is forgotten.
    pub(crate) forgotten_ns: Option<f64>,
    pub(crate) counts: Counts,
}

impl Failover {
    /// Seconds from the fault to the first answer. `None` also where nobody had to wait for it: then it would only say how often
    /// somebody asked.
    pub(crate) fn answered(&self) -> Option<f64> {
        self.times.answered.filter(|_| self.outage != Some(false))
    }

    /// Seconds from the fault until latency was as before. `None` also where it always was.
    pub(crate) fn normal(&self) -> Option<f64> {
        self.times.normal.filter(|normal| self.outage != Some(false) || self.times.answered != Some(*normal))
    }

    /// From what the plan restored to the first answer, where nobody answered before.
    pub(crate) fn after_restore_ns(&self) -> Option<f64> {
        let (answered, restored) = (self.times.answered?, self.times.restored?);
        matches!(self.end, End::Restored(_)).then_some((answered - restored) * 1e9)
    }
}
