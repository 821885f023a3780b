//! The plans of the repository mean what they meant: cells, measures, times, builds, needs.
//!
//! The text tells what a plan comes to; the digest covers everything else of the resolved model.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use vtax_plan::estimate::{Assumptions, cautions, estimate, pieces, requirements};
use vtax_plan::model::Plan;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Set `VTAX_BLESS=1` to write the file after a change that was meant.
#[test]
fn every_plan_of_the_repository_resolves_as_before() {
    let mut plans: Vec<PathBuf> =
        std::fs::read_dir(repository().join("plans")).unwrap().map(|entry| entry.unwrap().path()).collect();
    plans.retain(|path| path.extension().is_some_and(|end| end == "yaml"));
    plans.sort();
    let mut now = String::new();
    for path in plans {
        let plan = vtax_plan::load(&path, &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
        describe(&plan, &mut now);
    }
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/plans.txt");
    if std::env::var_os("VTAX_BLESS").is_some() {
        std::fs::create_dir_all(golden.parent().unwrap()).unwrap();
        std::fs::write(&golden, &now).unwrap();
    }
    let before = std::fs::read_to_string(&golden).unwrap();
    let line = now.lines().zip(before.lines()).position(|(now, before)| now != before);
    assert!(
        now == before,
        "plans resolve differently, first in line {line:?} of {}: run this test with VTAX_BLESS=1 if that is \
         meant\n{now}",
        golden.display()
    );
}

fn describe(plan: &Plan, out: &mut String) {
    let json = serde_json::to_string(plan).unwrap();
    let tcg = estimate(plan, &Assumptions::TCG);
    writeln!(out, "{}: {} cells, digest {:016x}", plan.name, plan.cells.len(), fnv(json.as_bytes())).unwrap();
    for assumptions in [Assumptions::KVM, Assumptions::TCG] {
        let e = estimate(plan, &assumptions);
        let (trials, times) = ((e.trials_min, e.trials_max), (e.time_min, e.time_max));
        writeln!(out, "  trials {} to {}, {} to {}", trials.0, trials.1, times.0, times.1).unwrap();
    }
    for measure in &plan.measures {
        writeln!(out, "  measure {}: {}", measure.name, measure.kind.describe()).unwrap();
    }
    for piece in pieces(plan) {
        writeln!(out, "  builds {}: {}", piece.what, piece.how).unwrap();
    }
    for need in requirements(plan) {
        writeln!(out, "  needs {}: {}", serde_json::to_string(&need).unwrap(), need.text()).unwrap();
    }
    for caution in cautions(plan, &tcg) {
        writeln!(out, "  caution {caution}").unwrap();
    }
}

/// FNV-1a.
fn fnv(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}
