//! The one list of the report's chapters: what belongs into it is registered here.

use crate::chapter::Chapter;
use crate::consolidation::Consolidation;
use crate::family::{
    desktop::Desktop, ftp::Ftp, http::Http, network::Network, script::Script, sip::Sip, storage::Storage,
};
use crate::ft::FaultTolerance;
use crate::general::{
    cpu::Cpu, generators::Generators, latency::Latency, provenance::Origin, scalability::Sweeps,
    time::OverTime, trials::Trials, verdicts::Verdicts,
};
use crate::routed::Routed;

/// Every chapter, in the order of tables and sheets. Sections of the page are ordered by their rank first.
pub(crate) fn chapters() -> Vec<Box<dyn Chapter>> {
    vec![
        Box::new(Verdicts),
        Box::new(Trials),
        Box::new(Latency),
        Box::new(Http),
        Box::new(Ftp),
        Box::<Sip>::default(),
        Box::new(Script),
        Box::<FaultTolerance>::default(),
        Box::new(Routed),
        Box::new(Generators),
        Box::new(Network),
        Box::new(Storage),
        Box::new(Desktop),
        Box::new(Consolidation),
        Box::new(Sweeps),
        Box::new(Cpu),
        Box::new(OverTime),
        Box::new(Origin),
    ]
}
