//! Replies of an NFS server, calls to one: any bytes are read to their end or refused, and never cause a panic.
#![no_main]

#[path = "../../../crates/vtax-wire/tests/bodies/nfs.rs"]
mod nfs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| nfs::body(data));
