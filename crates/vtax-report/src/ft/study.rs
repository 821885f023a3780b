//! What the study found of failovers, in its own words and figures (chapter 4, graphs 4-4 to 4-10). Its
//! capacities are in `ims::study`. Its product kept two machines in lock-step and was made to fail over twice.

/// How many failovers it looked at.
pub(crate) const FAILOVERS: usize = 2;

/// One of its graphs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Graph {
    /// Its number.
    pub(crate) number: &'static str,
    /// Its title.
    pub(crate) title: &'static str,
    /// What it read off it.
    pub(crate) found: &'static str,
}

const fn graph(number: &'static str, title: &'static str, found: &'static str) -> Graph {
    Graph { number, title, found }
}

pub(crate) const IHS: Graph = graph("4-4", "Inadequately Handled Scenarios", "less than 0.02");
pub(crate) const IHS_CALLING: Graph =
    graph("4-5", "Inadequately Handled Scenarios for ims_uac scenario", "less than 0.02");
pub(crate) const RESENT: Graph = graph("4-6", "Retransmissions for All Scenarios", "less than 0.02");
pub(crate) const RESENT_CALLING: Graph =
    graph("4-7", "Retransmissions for ims_uac scenario", "less than 0.02");
pub(crate) const RESENT_REGISTRATION: Graph =
    graph("4-8", "Retransmissions for ims_reg scenario", "less than 0.02");
pub(crate) const SET_UP: Graph =
    graph("4-9", "Calling Use Case for Session Setup", "10 to 100 ms, in 0.004 to 0.006");
pub(crate) const RELEASE: Graph =
    graph("4-10", "Calling Use Case: Delay between BYE and OK", "1 to 100 ms, in 0.004 to 0.008");
