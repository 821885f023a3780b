//! A user-mode Linux as the system under test.

use std::time::{Duration, Instant};

use vtax_lab::{Lab, LabError};
use vtax_plan::model::{EnvironmentKind, NatOptions, NetPath, PathKind};
use vtax_sys::chain;
use vtax_sys::require::{complete, possible};
use vtax_vm::VmError;

use crate::obstacle;
use crate::stage::{Stage, spec};

pub(crate) fn case(lab: &mut Lab) {
    let there = match lab.uml_release() {
        Err(e @ (LabError::UmlUnusable { .. } | LabError::NoUml(VmError::OtherArchitecture { .. }))) => {
            possible(Some(e))
        }
        other => complete(other.err().map(|e| chain(&e))),
    };
    if !there {
        return;
    }
    let nat = PathKind::Nat(NatOptions::default());
    for kind in [PathKind::Bridge, PathKind::Direct, nat] {
        let path = NetPath::new(kind.word(), kind);
        if obstacle(lab, &path) {
            continue;
        }
        let started = Instant::now();
        let mut stage = Stage::build(lab, &spec(EnvironmentKind::Uml, path));
        let sut = &stage.testbed.the_sut().node;
        assert_eq!(sut.kind(), "uml");
        assert!(sut.facts().contains_key("uml.kernel") && sut.facts()["uml.command"].contains("hybrid"));
        assert!(stage.testbed.notes.iter().any(|note| note.contains("no virtual machine")));
        // On a busy machine its packet socket drops what it isn't read in time, and half a second can be one wait for a
        // retransmission.
        let goodput = (0..10).map(|_| stage.tcp(Duration::from_millis(500))).find(|goodput| *goodput > 5e6);
        let goodput = goodput.expect("once in ten times more than 5 Mbit/s");
        println!("  up in {:?}, {:.0} Mbit/s, {}", started.elapsed(), goodput / 1e6, stage.ping());
        assert!(stage.testbed.counters().unwrap().is_none(), "its tap counts what it got as dropped");
        stage.end();
    }
}
