//! What a trial is made with, and why it may end without a result.

use std::error::Error;

use vtax_plan::model::Budget;
use vtax_probe::others::Others;
use vtax_store::record::InvalidReason;
use vtax_sys::chain;

use crate::observe::{Observer, RunEvent};
use crate::stop::Stop;
use crate::trial_request::TrialRequest;

/// What a trial is made with.
#[derive(Clone, Copy)]
pub(crate) struct Setting<'a> {
    pub(crate) request: &'a TrialRequest<'a>,
    pub(crate) budget: &'a Budget,
    pub(crate) observer: &'a dyn Observer,
    pub(crate) stop: &'a Stop,
    /// The host's other processes, where they can be seen.
    pub(crate) others: Option<&'a Others>,
    /// A link between the cell's routers loses a part of its packets in some measure: all measures have their routers in one place.
    pub(crate) lossy_links: bool,
}

impl Setting<'_> {
    /// Tells that the trial's next part begins.
    pub(super) fn phase(&self, what: &str) {
        self.observer.observe(&RunEvent::Phase { what });
    }
}

/// Why a trial has no result.
#[derive(Debug, Clone)]
pub(crate) struct Failed {
    pub(super) reason: InvalidReason,
    pub(super) detail: String,
}

impl Failed {
    pub(super) fn new(reason: InvalidReason, detail: impl Into<String>) -> Self {
        Self { reason, detail: detail.into() }
    }

    pub(super) fn of(reason: InvalidReason, error: &(dyn Error + 'static)) -> Self {
        Self { reason, detail: chain(error) }
    }
}
