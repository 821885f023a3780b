//! The kernel's own iSCSI target in a virtual machine: who may log in, and what is hidden.

use std::io::Write;
use std::net::SocketAddr;
use std::path::Path;

use vtax_lab::{Lab, Node};
use vtax_load::storage::iscsi::{ChapSecret, IscsiSpec};
use vtax_load::storage::{StorageResult, StorageSpec, StorageStep, TargetSpec};
use vtax_load::{LoadSpec, Step};
use vtax_plan::model::{
    Backend, ChapMode, LioOptions, NetPath, PathKind, Service, ServiceKind, StorageOperation, StorageShape,
    TgtOptions,
};
use vtax_units::{Bytes, CpuSet, Nanos};

use crate::stage::Stage;

/// Modules that the target is made of, what CHAP hashes with, and the digest without which it lets nobody log in.
pub(crate) const MODULES: [&str; 5] =
    ["target_core_mod", "target_core_file", "iscsi_target_mod", "md5", "crc32c_generic"];

/// The process that sets it up in the guest: `service lio FILE`, as vtax's own.
pub(crate) fn serve(description: &str) {
    let ready = |address: SocketAddr| {
        println!("listening on iscsi://{address}");
        std::io::stdout().flush().unwrap();
    };
    vtax_service::embedded::kernel::serve_target(Path::new(description), ready).unwrap();
}

/// Two units, of which one is hidden; both sides prove themselves.
fn lio(_: &Node) -> Service {
    let options = LioOptions {
        port: 3260,
        luns: 2,
        visible: 1,
        size: Bytes::from_mib(8),
        chap: ChapMode::Mutual,
        write_cache: true,
        initiators: Vec::new(),
        backend: Backend::Files,
    };
    Service {
        name: "lio".to_owned(),
        kind: ServiceKind::Lio(options),
        ready_timeout: Nanos::from_secs(60),
        stop_timeout: Nanos::from_secs(2),
    }
}

/// Reads for a moment.
fn step() -> StorageStep {
    let shape = StorageShape { depth: 4, ..StorageShape::new(Bytes::from_mib(1), Bytes(4096)) };
    StorageStep::new(shape, StorageOperation::RandomRead, Nanos::from_secs(1))
}

/// What a load of this unit comes to: what it found to be there, or why not.
fn tried(stage: &Stage, unit: IscsiSpec) -> String {
    let target = TargetSpec::Iscsi(unit);
    let timeout = Nanos::from_secs(30);
    let spec = StorageSpec { target, cpus: CpuSet::default(), timeout, seed: 1, keep: true };
    stage.client.open_load(&LoadSpec::Storage(spec)).unwrap();
    let step = step();
    let within = step.longest();
    let found = stage.client.run_step::<StorageResult>(Step::Storage(Box::new(step)), within, &mut |_| {});
    stage.client.close_load().unwrap();
    match found {
        Ok(result) => {
            assert_eq!(result.trouble(), None);
            result.facts.what
        }
        Err(error) => vtax_sys::chain(&error),
    }
}

/// What the machines said.
fn output(stage: &Stage) -> String {
    stage.testbed.nodes().map(Node::output).collect()
}

fn secret((name, secret): (&str, &str)) -> Option<ChapSecret> {
    Some(ChapSecret { name: name.into(), secret: secret.into() })
}

/// Who knows the secrets and is named sees the one unit that isn't hidden; everybody else sees nothing.
pub(crate) fn case(lab: &mut Lab) {
    let testbed = lab.build(&crate::vm(NetPath::new("target", PathKind::Bridge)));
    let stage = Stage::with(testbed.unwrap_or_else(|e| panic!("{}", vtax_sys::chain(&e))), lio);
    let right = IscsiSpec {
        chap: secret(TgtOptions::INITIATOR_CHAP),
        mutual: secret(TgtOptions::TARGET_CHAP),
        overwrite: true,
        ..IscsiSpec::new(stage.targets[0], TgtOptions::TARGET, 1)
    };
    let found = tried(&stage, right.clone());
    println!("  {found}");
    assert!(found.contains("mutual CHAP"), "{found}\n{}", output(&stage));
    let wrong = secret((TgtOptions::INITIATOR_CHAP.0, "something else"));
    let refused = [
        (IscsiSpec { chap: wrong, ..right.clone() }, "authentication failure"),
        (IscsiSpec { chap: None, mutual: None, ..right.clone() }, ""),
        (
            IscsiSpec { mutual: secret((TgtOptions::TARGET_CHAP.0, "another secret")), ..right.clone() },
            "doesn't know its secret",
        ),
        (IscsiSpec { initiator: "iqn.2026-11.test:foreign".into(), ..right.clone() }, "refused the login"),
        (IscsiSpec { target: "iqn.2026-11.test:none".into(), ..right.clone() }, "refused the login"),
        (IscsiSpec { lun: 2, ..right.clone() }, "no such logical unit"),
        (IscsiSpec { lun: 3, ..right.clone() }, "no such logical unit"),
    ];
    for (unit, reason) in refused {
        let found = tried(&stage, unit.clone());
        println!("  {found}");
        assert!(found.contains("iscsi://") && found.contains(reason), "{unit:?}: {found}");
    }
    // Having been turned away hurts nobody.
    let found = tried(&stage, right);
    assert!(found.contains("mutual CHAP"), "{found}");
    stage.end();
}
