//! Storage workloads.

pub(crate) mod ganesha;
pub mod limits;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;
pub(crate) mod served;
pub(crate) mod tgt;

use std::collections::BTreeSet;

use vtax_units::Nanos;

use super::{Misfit, WorkloadModel};
use crate::assumptions::Assumptions;
use crate::model::{
    EnvironmentKind, MeasureKind, Protocol, SteadyState, StorageMeasure, StorageTest, StorageWorkload,
};

/// Bytes per second that a disk is taken to move where nothing is known: an estimate of time only.
const RATE_OF_DISKS: f64 = 100e6;
/// The same for a guest under emulation.
const RATE_EMULATED: f64 = 25e6;
/// What comes on top of each test: getting files ready, dropping caches, counters.
const AROUND: Nanos = Nanos::from_millis(150);

impl WorkloadModel for StorageWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Storage
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        match measure {
            MeasureKind::Storage(_) => Ok(()),
            _ => Err(Misfit {
                why: "tests of storage have rates and times of their own",
                instead: "write `storage` instead",
            }),
        }
    }

    fn measuring(&self, measure: &MeasureKind, _: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        let MeasureKind::Storage(storage) = measure else { return Nanos::ZERO };
        let rate = if matches!(environment, EnvironmentKind::Vm(_)) { RATE_EMULATED } else { RATE_OF_DISKS };
        self.tests.iter().fold(Nanos::ZERO, |sum, test| {
            let bytes = test.shape.file.0 as f64 * f64::from(test.shape.processes);
            let time = match test.is_timed() {
                true => storage.duration,
                false if test.operation.of_names() => Nanos::from_secs(1),
                false => Nanos::from_secs_f64(bytes / rate).min(storage.longest),
            };
            let one = time.0.saturating_add(AROUND.0);
            // Where nothing is known, a test is taken to be steady as soon as it can be.
            let rounds = storage.rounds(test).map_or(1, |steady| u64::from(steady.window));
            Nanos(sum.0.saturating_add(one.saturating_mul(rounds)))
        })
    }

    fn shortest_part(&self, measure: &MeasureKind) -> Option<Nanos> {
        match measure {
            MeasureKind::Storage(storage) => Some(storage.duration.min(storage.longest)),
            _ => None,
        }
    }

    fn storage_tests(&self) -> &[StorageTest] {
        &self.tests
    }

    fn kernel_modules(&self) -> BTreeSet<String> {
        // Of the guest's disk, on whichever bus it is, and of its file system. Kernels that have one built in don't miss it.
        ["virtio_blk", "virtio_scsi", "sd_mod", "nvme", "ahci", "crc32c_generic", "ext4"]
            .map(str::to_owned)
            .into()
    }
}

impl StorageTest {
    /// Whether it goes on for a time rather than once over all records.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        use crate::model::StorageOperation::{Mix, RandomRead, RandomWrite};
        !self.operation.of_names()
            && (self.rate.is_some() || matches!(self.operation, RandomRead | RandomWrite | Mix { .. }))
    }
}

impl StorageMeasure {
    /// The rounds in which it makes a test; `None` where it makes it once. A rate is what was asked for in every round, and names
    /// can be made or removed only once.
    #[must_use]
    pub fn rounds(&self, test: &StorageTest) -> Option<SteadyState> {
        self.steady_state.filter(|_| test.rate.is_none() && !test.operation.of_names())
    }

    /// In words.
    pub(crate) fn describe(&self) -> String {
        let each = match self.steady_state {
            None => "every test of the workload in turn".to_owned(),
            Some(SteadyState { rounds, window, .. }) => {
                format!("every test of the workload in rounds until {window} are alike, at most {rounds}")
            }
        };
        format!(
            "{each}: random ones for {}, others once over all records, at most {}",
            self.duration, self.longest
        )
    }
}
