//! Which record a process goes to next.

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt as _, SeedableRng};
use vtax_plan::model::StorageOperation;
use vtax_units::random::worker_seed;

/// Records between two of a strided pass, as iozone has it.
const STRIDE: u64 = 17;

/// The records that one process goes to, in their order.
#[derive(Debug)]
pub(super) struct Course {
    operation: StorageOperation,
    records: u64,
    /// Operations left; `None`: until the time is over.
    left: Option<u64>,
    position: u64,
    rng: Xoshiro256PlusPlus,
}

/// The next operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Next {
    pub(super) write: bool,
    pub(super) record: u64,
}

impl Course {
    /// Over so many records; `once`: as many operations as there are records.
    pub(super) fn new(
        operation: StorageOperation,
        records: u64,
        once: bool,
        seed: u64,
        worker: usize,
    ) -> Self {
        let position = if operation == StorageOperation::BackwardRead { records - 1 } else { 0 };
        let rng = Xoshiro256PlusPlus::seed_from_u64(worker_seed(seed, worker));
        Self { operation, records, left: once.then_some(records), position, rng }
    }

    /// Whether it has come to its end.
    pub(super) fn is_over(&self) -> bool {
        self.left == Some(0)
    }

    /// Whether it may come to a record again while the record is under way.
    pub(super) fn may_meet(&self) -> bool {
        let is_random =
            matches!(self.operation, StorageOperation::RandomWrite | StorageOperation::Mix { .. });
        // In order it comes again to where it began, unless it goes over each once.
        is_random || (self.operation.writes() && self.left.is_none())
    }

    /// The next record; `None` at the end.
    pub(super) fn next(&mut self) -> Option<Next> {
        match &mut self.left {
            Some(0) => return None,
            Some(left) => *left -= 1,
            None => {}
        }
        Some(self.draw())
    }

    /// A record, without counting it.
    pub(super) fn draw(&mut self) -> Next {
        use StorageOperation as Op;
        match self.operation {
            Op::Write | Op::Rewrite | Op::Create => Next { write: true, record: self.forward() },
            Op::Read | Op::ReRead | Op::Remove | Op::List => Next { write: false, record: self.forward() },
            Op::BackwardRead => {
                let record = self.position;
                self.position = record.checked_sub(1).unwrap_or(self.records - 1);
                Next { write: false, record }
            }
            Op::StridedRead => Next { write: false, record: self.strided() },
            Op::RandomRead => Next { write: false, record: self.random() },
            Op::RandomWrite => Next { write: true, record: self.random() },
            Op::Mix { reads } => {
                let write = self.rng.random_range(0..100_u8) >= reads;
                Next { write, record: self.random() }
            }
        }
    }

    fn random(&mut self) -> u64 {
        self.rng.random_range(0..self.records)
    }

    fn forward(&mut self) -> u64 {
        let record = self.position;
        self.position = if record + 1 == self.records { 0 } else { record + 1 };
        record
    }

    /// All records, each once: those of one remainder after the other.
    fn strided(&mut self) -> u64 {
        let record = self.position;
        let next = record + STRIDE;
        self.position = if next < self.records {
            next
        } else {
            let lane = record % STRIDE + 1;
            if lane < STRIDE.min(self.records) { lane } else { 0 }
        };
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(operation: StorageOperation, records: u64) -> Vec<u64> {
        let mut course = Course::new(operation, records, true, 1, 0);
        let all = std::iter::from_fn(|| course.next().map(|next| next.record)).collect();
        assert!(course.is_over());
        all
    }

    #[test]
    fn ordered_courses_go_over_each_record_once() {
        for records in [1, 5, 17, 18, 100] {
            for operation in
                [StorageOperation::Write, StorageOperation::BackwardRead, StorageOperation::StridedRead]
            {
                let mut sorted = all(operation, records);
                sorted.sort_unstable();
                assert!(sorted.iter().copied().eq(0..records), "{operation:?} {records}: {sorted:?}");
            }
        }
        assert_eq!(all(StorageOperation::BackwardRead, 3), [2, 1, 0]);
        assert_eq!(all(StorageOperation::StridedRead, 40)[..4], [0, 17, 34, 1]);
    }

    #[test]
    fn a_course_without_end_begins_again() {
        let mut course = Course::new(StorageOperation::Write, 3, false, 1, 0);
        let records: Vec<u64> = (0..7).filter_map(|_| course.next()).map(|next| next.record).collect();
        assert_eq!(records, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn a_mix_reads_its_share_evenly() {
        let mut course = Course::new(StorageOperation::Mix { reads: 70 }, 100, false, 5, 2);
        let (mut reads, mut seen) = (0, [0_u32; 100]);
        for _ in 0..100_000 {
            let next = course.draw();
            reads += u32::from(!next.write);
            seen[next.record as usize] += 1;
        }
        assert!((69_000..71_000).contains(&reads), "{reads}");
        assert!(seen.iter().all(|count| (800..1_200).contains(count)), "{seen:?}");
    }
}
