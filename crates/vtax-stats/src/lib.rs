//! Pure statistics: descriptions, intervals over trials, cost ratios and verdicts.
//!
//! The unit of statistics is the trial: requests within one trial share a boot, a memory layout
//! and a noisy neighbour, so their number says nothing about how far the next trial may be off
//! (Kalibera and Jones, "Rigorous benchmarking in reasonable time", ISMM 2013). All work is done
//! on logarithms where values are positive, since taxes are ratios. docs/methodology.md explains
//! every choice to the reader of a report.

mod center;
mod changes;
mod describe;
mod drift;
mod foresight;
mod hosts;
mod interval;
mod levels;
mod margin;
mod moderate;
mod multiple;
mod proportion;
mod ratio;
mod rng;
mod rounds;
mod scalability;
mod settled;
mod steady;
mod student;
mod uncertainty;
mod verdict;

pub use center::ENCLOSING;
pub use changes::{Change, LONGEST_SERIES, MIN_SEGMENT, changes};
pub use describe::{Description, describe, quantile};
pub use drift::{Drift, drift};
pub use foresight::{Family, SoFar, foreseen, further, left_after_looks, plain, scatter_of, tellable};
pub use hosts::{HostLogs, HostTax, MIN_HOSTS, OverHosts, over_hosts};
pub use interval::{Estimate, Group, MIN_TRIALS, estimate, estimate_counts};
pub use levels::{allowing, levels};
pub use margin::Margin;
pub use moderate::{Prior, moderated, prior};
pub use multiple::{above, judge_family, shares, widened};
pub use proportion::{apart_by_chance, proportion};
pub use ratio::{
    Bound, Direction, NoRatio, Ratio, after_either_looked, after_looking, log_ratios, logs_by_round, narrow,
    tax,
};
pub use rng::Rng;
pub use rounds::RoundsWindow;
pub use scalability::{Load, NoScalability, Parameter, Peak, Scalability, scalability};
pub use settled::settled;
pub use steady::{MIN_SERIES, NoSteadyState, Steady, steady};
pub use student::t_quantile;
pub use verdict::{ALPHA, Doubt, FAR, Judgement, Verdict, judge, verdict_of};
