//! Two trials at the same time, each on a testbed of its own.

use vtax_lab::{CpuHalf, Lab, Slot};

use crate::barrier::parties;
use crate::trial::{Trial, enders};

/// Makes both trials; what went wrong is in their records. The first has this half of the CPUs, the second the other.
pub(crate) fn make(pair: &mut [Trial<'_>; 2], lab: &mut Lab, half: CpuHalf) {
    let [one, other] = pair;
    let built = [
        one.build(lab, Slot::Paired { second: false, half }),
        other.build(lab, Slot::Paired { second: true, half: half.other() }),
    ];
    one.setting.stop.watch(built.iter().flatten().flat_map(enders).collect());
    std::thread::scope(|scope| {
        for ((trial, built), party) in pair.iter_mut().zip(built).zip(parties()) {
            scope.spawn(move || {
                let result = built.and_then(|testbed| trial.on_testbed(testbed, Some(party)));
                trial.judge_end(result);
            });
        }
    });
}
