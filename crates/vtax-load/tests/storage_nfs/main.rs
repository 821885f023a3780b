//! The NFS client against the real NFS-Ganesha, and against servers that are none, in both versions that it speaks.

mod fake;
mod fake_v3;
mod hostile;
#[path = "../storage_support/many.rs"]
mod many;
#[path = "../storage_support/proxy.rs"]
mod proxy;
mod real;
#[path = "../service_support/server.rs"]
mod server;

use std::time::{Duration, Instant};

use vtax_load::storage::{Done, Failure, Kind, Operation, Shape, Target};

pub(crate) fn shape(depth: u16, record: u32) -> Shape {
    Shape { worker: 3, files: 1, size: 1 << 20, record, depth }
}

pub(crate) fn one(
    target: &mut dyn Target,
    kind: Kind,
    file: u32,
    offset: u64,
    length: u32,
) -> Result<u32, Failure> {
    target.submit(&Operation { slot: 0, kind, file, offset, length }).unwrap();
    until_done(target, 1)[0].result
}

pub(crate) fn until_done(target: &mut dyn Target, count: usize) -> Vec<Done> {
    let until = Instant::now() + Duration::from_secs(30);
    let mut done = Vec::with_capacity(64);
    while done.len() < count {
        target.wait(100_000_000, &mut done).unwrap();
        assert!(Instant::now() < until, "{done:?}");
    }
    assert_eq!(done.len(), count, "{done:?}");
    done
}

pub(crate) fn fill(buffer: &mut [u8], round: usize) {
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = (at * 31 + at / 509 + round * 101) as u8;
    }
}
