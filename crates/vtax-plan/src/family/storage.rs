//! Storage workloads.

pub(crate) mod access;
pub(crate) mod ganesha;
pub mod limits;
pub(crate) mod lio;
pub(crate) mod model;
pub(crate) mod mounted;
pub(crate) mod nfsd;
pub(crate) mod raw;
pub(crate) mod resolve;
pub(crate) mod samba;
pub(crate) mod served;
pub(crate) mod tgt;
pub(crate) mod volume;

use std::collections::BTreeSet;

use vtax_units::Nanos;

use super::{Misfit, WorkloadModel};
use crate::assumptions::Assumptions;
use crate::model::{
    EnvironmentKind, Measure, MeasureKind, Protocol, SteadyState, StorageAccess, StorageMeasure,
    StorageOperation, StorageSync, StorageTest, StorageWorkload,
};

/// Bytes per second that a disk is taken to move where nothing is known: an estimate of time only.
const RATE_OF_DISKS: f64 = 100e6;
/// What it usually takes to read everything back after a load with faults.
const READ_BACK: Nanos = Nanos::from_secs(3);
/// What comes on top of each test: getting files ready, dropping caches, counters.
const AROUND: Nanos = Nanos::from_millis(150);

impl WorkloadModel for StorageWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Storage
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        match measure {
            MeasureKind::Storage(_) => Ok(()),
            MeasureKind::Failover(_) => self.may_break(),
            _ => Err(Misfit {
                why: "tests of storage have rates and times of their own",
                instead: "write `storage` instead, or `failover` where things break",
            }),
        }
    }

    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        let storage = match measure {
            MeasureKind::Storage(storage) => storage,
            MeasureKind::Failover(_) => return Nanos(measure.timing().least().0.saturating_add(READ_BACK.0)),
            _ => return Nanos::ZERO,
        };
        let in_vm = matches!(environment, EnvironmentKind::Vm(_));
        let (each, rate) = match self.access {
            // By the kernel of a client that is a virtual machine.
            Some(StorageAccess::Mounted) => (host.mounted_record_in_vm, host.mounted_in_vm),
            _ if in_vm => (Nanos::ZERO, host.disk_in_vm),
            _ => (Nanos::ZERO, RATE_OF_DISKS),
        };
        self.tests.iter().fold(Nanos::ZERO, |sum, test| {
            let bytes = test.shape.file.0 as f64 * f64::from(test.shape.processes);
            let time = match test.is_timed() {
                true => storage.duration,
                false if test.operation.of_names() => Nanos::from_secs(1),
                false => {
                    let records = bytes / test.shape.record.0.max(1) as f64;
                    Nanos::from_secs_f64(bytes / rate + records * each.as_secs_f64()).min(storage.longest)
                }
            };
            let one = time.0.saturating_add(AROUND.0);
            // Where nothing is known, a test is taken to be steady as soon as it can be.
            let rounds = storage.rounds(test).map_or(1, |steady| u64::from(steady.window));
            Nanos(sum.0.saturating_add(one.saturating_mul(rounds)))
        })
    }

    fn is_of_requests(&self) -> bool {
        false
    }

    fn asked(&self) -> Option<String> {
        None
    }

    fn shortest_part(&self, measure: &MeasureKind) -> Option<Nanos> {
        match measure {
            MeasureKind::Storage(storage) => Some(storage.duration.min(storage.longest)),
            MeasureKind::Failover(failover) => Some(failover.duration),
            _ => None,
        }
    }

    fn storage_tests(&self) -> &[StorageTest] {
        &self.tests
    }

    fn caution(&self, measure: &Measure) -> Option<String> {
        let unsynced = |test: &StorageTest| {
            let writes = test.operation.writes() && !test.operation.of_names();
            writes && test.shape.sync == StorageSync::None
        };
        let told = matches!(measure.kind, MeasureKind::Storage(_)) && self.tests.iter().any(unsynced);
        told.then(|| {
            "with `sync: none` nothing is asked to be durable: the throughput of writes is that until the last was acknowledged"
                .to_owned()
        })
    }

    fn kernel_modules(&self) -> BTreeSet<String> {
        // Of the guest's disk, on whichever bus it is, and of its file system. Kernels that have one built in don't miss it.
        ["virtio_blk", "virtio_scsi", "sd_mod", "nvme", "ahci", "crc32c_generic", "ext4"]
            .map(str::to_owned)
            .into()
    }
}

impl StorageWorkload {
    /// Whether it may be held while things break: one test, whose writes can be told apart when they are read back.
    fn may_break(&self) -> Result<(), Misfit> {
        let refuse = |why, instead| Err(Misfit { why, instead });
        let [test] = &self.tests[..] else {
            return refuse(
                "the load that is held while things break is one test",
                "give it one operation, such as `operations: mix-50`, and no lists",
            );
        };
        let writes = match test.operation {
            StorageOperation::RandomWrite => true,
            StorageOperation::Mix { reads } => reads < 100,
            _ => false,
        };
        if !writes {
            return refuse(
                "the load that is held while things break writes at random places",
                "write `operations: random-write`, or a `mix` such as `mix-50`",
            );
        }
        if test.rate.is_some() {
            return refuse("the measure says the rate of its load", "leave the workload's `rate` out");
        }
        if test.shape.dedupe.0 > 0.0 {
            return refuse(
                "blocks with the contents of others don't tell which write they are of",
                "leave `dedupe` out",
            );
        }
        Ok(())
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
