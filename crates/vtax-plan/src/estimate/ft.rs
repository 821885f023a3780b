//! What protected virtual machines are made of.

use vtax_units::Bytes;

use crate::model::{FaultTolerance, FtMode};

/// A virtual machine of a plan that protects some, in a line.
pub(super) fn piece(ft: &FaultTolerance, vcpus: &str, memory: Bytes) -> String {
    let guest = format!("QEMU guest that can be protected; {vcpus}, {memory}");
    let detail = match ft.mode {
        FtMode::None => return format!("{guest}; it isn't"),
        FtMode::Kemari => "checkpoint at each output".to_owned(),
        FtMode::Remus { interval } => format!("checkpoint every {interval}"),
        FtMode::Colo => "two guests in lock-step".to_owned(),
        FtMode::Restart => "booted again elsewhere".to_owned(),
        FtMode::Snapshot { interval } => format!("snapshot every {interval}"),
    };
    let link = ft.link.map_or(String::new(), |rate| format!(" over {rate}"));
    format!("{guest}; {} on {} hosts, {detail}{link}", ft.mode.word(), ft.hosts)
}
