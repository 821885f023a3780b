//! The iSCSI initiator: against a target that misbehaves on purpose, and against the real tgt.

mod fake;
mod hostile;
#[path = "../storage_support/many.rs"]
mod many;
#[path = "../storage_support/proxy.rs"]
mod proxy;
mod real;
#[path = "../service_support/server.rs"]
mod server;

use std::time::{Duration, Instant};

use vtax_load::storage::iscsi::{IscsiSpec, IscsiTarget};
use vtax_load::storage::{Done, Failure, Kind, Operation, Shape, StorageError, Target};

pub(crate) fn shape(depth: u16, record: u32) -> Shape {
    Shape { worker: 0, files: 1, size: 1 << 20, record, depth }
}

pub(crate) fn open(spec: &IscsiSpec, shape: Shape, timeout_ms: u64) -> Result<IscsiTarget, StorageError> {
    IscsiTarget::open(spec, shape, Duration::from_millis(timeout_ms))
}

/// One operation and its end.
pub(crate) fn one(target: &mut IscsiTarget, kind: Kind, offset: u64, length: u32) -> Result<u32, Failure> {
    target.submit(&Operation { slot: 0, kind, file: 0, offset, length }).unwrap();
    let done = until_done(target, 1);
    assert_eq!(done[0].slot, 0);
    done[0].result
}

/// Waits until so many operations are done, at most 20 s.
pub(crate) fn until_done(target: &mut IscsiTarget, count: usize) -> Vec<Done> {
    let until = Instant::now() + Duration::from_secs(20);
    let mut done = Vec::with_capacity(64);
    while done.len() < count {
        target.wait(100_000_000, &mut done).unwrap();
        assert!(Instant::now() < until, "{done:?}");
    }
    assert_eq!(done.len(), count, "{done:?}");
    done
}

/// Bytes that differ from place to place and from round to round.
pub(crate) fn fill(buffer: &mut [u8], round: usize) {
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = (at * 31 + at / 509 + round * 101) as u8;
    }
}
