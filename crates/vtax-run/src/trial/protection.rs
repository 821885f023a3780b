//! Protection of a trial's systems: armed before it measures, and what it did and cost meanwhile.

use std::collections::BTreeMap;

use vtax_lab::Testbed;
use vtax_plan::model::Cell;
use vtax_store::failover::ProtectionRecord;
use vtax_store::record::InvalidReason;

use super::setting::{Failed, Setting};
use crate::failover::{Meter, mode_in};
use crate::probes::role;

/// Arms each pair that is to be protected, one after the other.
pub(super) fn arm(setting: &Setting<'_>, testbed: &Testbed) -> Result<(), Failed> {
    for (sut, environment) in testbed.suts.iter().zip(setting.request.cell.environments()) {
        let Some(pair) = sut.node.pair() else { continue };
        if mode_in(environment).has_secondary() {
            setting.phase("protecting the guest");
        }
        if let Err(error) = pair.arm() {
            let Failed { reason, detail } = Failed::of(InvalidReason::TestbedFailed, &error);
            let detail = match setting.request.cell.is_several() {
                true => format!("{}: {detail}", role(sut.node.name())),
                false => detail,
            };
            return Err(Failed::new(reason, detail));
        }
    }
    Ok(())
}

/// Meters of a trial's pairs, each with its system's number in the testbed.
pub(super) struct Meters(Vec<(usize, Meter)>);

/// Why a measurement tells nothing: what became of the protection of one system.
pub(super) struct Interrupted {
    /// Its name.
    pub(super) system: String,
    pub(super) why: Failed,
}

impl Meters {
    /// Counts from now on.
    pub(super) fn start(testbed: &Testbed, cell: &Cell) -> Self {
        let all = testbed.suts.iter().zip(cell.environments()).enumerate();
        let meter = |(number, (sut, environment)): (usize, (&vtax_lab::Sut, _))| {
            Some((number, Meter::start(&sut.node, mode_in(environment))?))
        };
        Self(all.filter_map(meter).collect())
    }

    /// The first system whose protection was interrupted. With `broken_on_purpose` the first of the testbed is left out: faults
    /// are told each by itself.
    pub(super) fn interruption(&self, testbed: &Testbed, broken_on_purpose: bool) -> Option<Interrupted> {
        let judged = self.0.iter().filter(|(number, _)| !(broken_on_purpose && *number == 0));
        let several = testbed.suts.len() > 1;
        judged
            .filter_map(|(number, meter)| {
                let node = &testbed.suts.get(*number)?.node;
                let (reason, detail) = meter.interruption(node.pair()?)?;
                let system = role(node.name()).to_owned();
                let detail = if several { format!("{system}: {detail}") } else { detail };
                Some(Interrupted { system, why: Failed::new(reason, detail) })
            })
            .next()
    }

    /// What was found, by the name of the system.
    pub(super) fn stop(self, testbed: &Testbed) -> BTreeMap<String, ProtectionRecord> {
        let record = |(number, meter): (usize, Meter)| {
            let node = &testbed.suts.get(number)?.node;
            Some((role(node.name()).to_owned(), meter.stop(node.pair()?)))
        };
        self.0.into_iter().filter_map(record).collect()
    }
}
