//! The real tgt: who may log in, what is visible, and that what was written is read back.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use vtax_load::storage::iscsi::{ChapSecret, IscsiSpec, IscsiTarget, discover, visible_units};
use vtax_load::storage::{Failure, Kind, Operation, Target};
use vtax_plan::model::{ChapMode, ServiceKind, TgtOptions};
use vtax_service::RunningService;
use vtax_sys::require::{Need, need};
use vtax_units::{Bytes, Nanos};

use crate::proxy::Proxy;
use crate::{fill, one, open, server, shape, until_done};

/// A tgt of the test's own.
struct Server {
    address: SocketAddr,
    service: Option<RunningService>,
    _directory: tempfile::TempDir,
}

impl Server {
    fn start(chap: ChapMode, initiators: &[&str]) -> Self {
        let options = TgtOptions {
            port: vtax_sys::free_port(),
            luns: 2,
            size: Bytes::from_mib(8),
            chap,
            write_cache: true,
            initiators: initiators.iter().map(|name| (*name).to_owned()).collect(),
            backend: vtax_plan::model::Backend::Files,
        };
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("service");
        let running = server::start(ServiceKind::Tgt(options), Nanos::from_millis(100), place);
        let address = running.address();
        Self { address, service: Some(running), _directory: directory }
    }

    fn spec(&self, lun: u16) -> IscsiSpec {
        IscsiSpec::new(self.address, TgtOptions::TARGET, lun)
    }

    /// What opening it comes to, in words.
    fn try_open(spec: &IscsiSpec) -> String {
        match open(spec, shape(1, 4096), 10_000) {
            Ok(mut target) => {
                let what = target.facts().what;
                target.finish().unwrap();
                what
            }
            Err(error) => error.to_string(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.service.take().map(RunningService::stop);
    }
}

fn secret((name, secret): (&str, &str)) -> Option<ChapSecret> {
    Some(ChapSecret { name: name.into(), secret: secret.into() })
}

/// Writes all over the unit at depth, and reads it back.
fn write_and_read(target: &mut IscsiTarget, length: u32) {
    const DEPTH: u16 = 8;
    for kind in [Kind::Write, Kind::Read] {
        for round in 0..4u64 {
            for slot in 0..DEPTH {
                let number = round * u64::from(DEPTH) + u64::from(slot);
                let buffer = &mut target.buffer(slot)[..length as usize];
                if kind == Kind::Write {
                    fill(buffer, number as usize)
                } else {
                    buffer.fill(0)
                }
                let offset = number * u64::from(length) % (1 << 20);
                target.submit(&Operation { slot, kind, file: 0, offset, length }).unwrap();
            }
            for done in until_done(target, DEPTH.into()) {
                assert_eq!(done.result, Ok(length));
                let number = round * u64::from(DEPTH) + u64::from(done.slot);
                let mut expected = vec![0; length as usize];
                fill(&mut expected, number as usize);
                assert_eq!(target.buffer(done.slot)[..length as usize], expected[..]);
            }
        }
    }
    assert_eq!(one(target, Kind::Flush, 0, 0), Ok(0));
}

#[test]
fn what_is_written_is_read_back_with_and_without_digests() {
    if !need(&[Need::Root]) {
        return;
    }
    let server = Server::start(ChapMode::None, &[]);
    for (digests, immediate, length) in [(false, true, 4096), (true, true, 32768), (true, false, 4608)] {
        let spec = IscsiSpec {
            header_digest: digests,
            data_digest: digests,
            immediate_data: immediate,
            initial_r2t: !immediate,
            overwrite: true,
            ..server.spec(1)
        };
        let mut target = open(&spec, shape(8, 65536), 10_000).unwrap();
        target.prepare().unwrap();
        let facts = target.facts();
        assert_eq!((facts.block, facts.capacity, facts.write_cache), (512, Some(8 << 20), Some(true)));
        assert!(facts.what.starts_with("IET VIRTUAL-DISK"), "{}", facts.what);
        assert_eq!(facts.what.contains("data digests"), digests, "{}", facts.what);
        write_and_read(&mut target, length);
        target.finish().unwrap();
    }
}

#[test]
fn large_records_are_read_back_through_every_segment() {
    if !need(&[Need::Root]) {
        return;
    }
    let server = Server::start(ChapMode::None, &[]);
    let mut target = open(&server.spec(2), shape(2, 1 << 20), 10_000).unwrap();
    target.prepare().unwrap();
    for round in 0..3 {
        fill(target.buffer(0), round);
        let sent = target.buffer(0).to_vec();
        assert_eq!(one(&mut target, Kind::WriteDurable, 0, 1 << 20), Ok(1 << 20));
        target.buffer(0).fill(0);
        assert_eq!(one(&mut target, Kind::Read, 0, 1 << 20), Ok(1 << 20));
        assert!(target.buffer(0) == sent);
    }
}

#[test]
fn chap_lets_in_who_knows_the_secret_and_nobody_else() {
    if !need(&[Need::Root]) {
        return;
    }
    let server = Server::start(ChapMode::OneWay, &[]);
    let right = IscsiSpec { chap: secret(TgtOptions::INITIATOR_CHAP), ..server.spec(1) };
    let found = Server::try_open(&right);
    assert!(found.contains(", CHAP"), "{found}");
    let wrong =
        IscsiSpec { chap: secret((TgtOptions::INITIATOR_CHAP.0, "something else")), ..server.spec(1) };
    let found = Server::try_open(&wrong);
    assert!(found.contains("authentication failure"), "{found}");
    let unknown = IscsiSpec { chap: secret(("somebody", TgtOptions::INITIATOR_CHAP.1)), ..server.spec(1) };
    let found = Server::try_open(&unknown);
    assert!(found.contains("authentication failure"), "{found}");
    let found = Server::try_open(&server.spec(1));
    assert!(found.contains("refused the login") || found.contains("no secret was given"), "{found}");
    // The target can't prove itself without a secret of its own.
    let mutual = IscsiSpec { mutual: secret(TgtOptions::TARGET_CHAP), ..right };
    let found = Server::try_open(&mutual);
    assert!(!found.contains("mutual CHAP"), "{found}");
}

#[test]
fn mutual_chap_tells_a_false_target_from_the_right_one() {
    if !need(&[Need::Root]) {
        return;
    }
    let server = Server::start(ChapMode::Mutual, &[]);
    let spec = IscsiSpec {
        chap: secret(TgtOptions::INITIATOR_CHAP),
        mutual: secret(TgtOptions::TARGET_CHAP),
        ..server.spec(1)
    };
    let found = Server::try_open(&spec);
    assert!(found.contains("mutual CHAP"), "{found}");
    let other = IscsiSpec { mutual: secret((TgtOptions::TARGET_CHAP.0, "another secret")), ..spec };
    let found = Server::try_open(&other);
    assert!(found.contains("doesn't know its secret"), "{found}");
}

#[test]
fn a_foreign_initiator_sees_nothing_and_a_hidden_unit_is_not_there() {
    if !need(&[Need::Root]) {
        return;
    }
    let server = Server::start(ChapMode::None, &["iqn.2026-11.test:known"]);
    let known = IscsiSpec { initiator: "iqn.2026-11.test:known".into(), ..server.spec(1) };
    let timeout = Duration::from_secs(10);
    let found = discover(&known, timeout).unwrap();
    assert_eq!(found.iter().map(|target| target.name.as_str()).collect::<Vec<_>>(), [TgtOptions::TARGET]);
    let address = format!("{},", server.address);
    assert!(found[0].addresses.iter().any(|found| found.starts_with(&address)), "{found:?}");
    assert_eq!(visible_units(&known, timeout).unwrap(), [0, 1, 2]);
    let foreign = server.spec(1);
    assert_eq!(discover(&foreign, timeout).unwrap(), []);
    let found = Server::try_open(&foreign);
    assert!(found.contains("refused the login"), "{found}");
    let hidden = IscsiSpec { lun: 3, ..known.clone() };
    let found = Server::try_open(&hidden);
    assert!(found.contains("no such logical unit"), "{found}");
    let controller = IscsiSpec { lun: 0, ..known.clone() };
    let found = Server::try_open(&controller);
    assert!(found.contains("no disk"), "{found}");
    let other = IscsiSpec { target: "iqn.2026-11.test:none".into(), ..known };
    let found = Server::try_open(&other);
    assert!(found.contains("no such target"), "{found}");
}

#[test]
fn a_connection_cut_in_the_middle_of_writes_loses_them_and_comes_back() {
    if !need(&[Need::Root]) {
        return;
    }
    let server = Server::start(ChapMode::None, &[]);
    let proxy = Proxy::start(server.address);
    let spec = IscsiSpec { address: proxy.address, ..server.spec(1) };
    let mut target = open(&spec, shape(4, 1 << 18), 10_000).unwrap();
    target.prepare().unwrap();
    for round in 0..5 {
        fill(target.buffer(0), round);
        let acknowledged = target.buffer(0).to_vec();
        assert_eq!(one(&mut target, Kind::Write, 0, 1 << 18), Ok(1 << 18));
        proxy.cut.store(true, Ordering::Relaxed);
        for slot in 1..4 {
            let offset = u64::from(slot) << 18;
            let operation = Operation { slot, kind: Kind::Write, file: 0, offset, length: 1 << 18 };
            target.submit(&operation).unwrap();
        }
        let done = until_done(&mut target, 3);
        assert!(done.iter().any(|done| done.result == Err(Failure::Lost)), "{done:?}");
        target.buffer(0).fill(0);
        let again = (0..100).map(|_| one(&mut target, Kind::Read, 0, 1 << 18)).find(Result::is_ok);
        assert_eq!(again, Some(Ok(1 << 18)), "it never comes back");
        assert!(target.buffer(0) == acknowledged, "an acknowledged write is there");
    }
    assert!(target.first_failure().unwrap().contains("connection was lost"));
}
