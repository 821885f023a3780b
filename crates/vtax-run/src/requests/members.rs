//! What each of several systems answered, beside what all did together.

use std::collections::BTreeMap;

use vtax_load::MemberAnswer;
use vtax_plan::model::{BesideLoad, Cell};
use vtax_store::record::{Finding, Observation, Validity};
use vtax_units::{Nanos, Rate, fact};

use super::worth::validity;
use crate::instrument::Measured;
use crate::member::{beside, role_word};
use crate::warm_up::cut_to;

/// Adds what each system's load found to what the whole's did; `offered` is the whole's rate, where it had one. The
/// same time is cut off each as warm-up. A system that answered nothing makes the trial invalid, whatever the others did.
pub(crate) fn with_members(
    mut measured: Measured,
    cell: &Cell,
    members: Vec<MemberAnswer>,
    offered: Option<Rate>,
) -> Measured {
    let Some(whole) = measured.observations.first() else { return measured };
    let (warm_up, started_unix_ms) = (whole.warm_up.clone(), whole.started_unix_ms);
    let cut = warm_up.as_ref().map_or(Nanos::ZERO, |warm_up| warm_up.cut);
    for MemberAnswer { member, counted, mut result, answered } in members {
        cut_to(&mut result, cut);
        let validity = validity(&result);
        if let (Validity::Valid, Validity::Invalid { reason, detail }) = (&measured.validity, &validity) {
            measured.validity = Validity::Invalid { reason: *reason, detail: format!("{member}: {detail}") };
        }
        let beside = beside(cell, &member).filter(|_| !counted);
        let offered = match beside.map(|beside| beside.load) {
            None => offered.map(|offered| Rate(offered.0 / f64::from(cell.environment.count.max(1)))),
            Some(BesideLoad::Rate(rate)) => Some(rate),
            Some(BesideLoad::Closed | BesideLoad::Idle) => None,
        };
        let found = match offered {
            Some(offered) => Finding::Latency { offered, load: result },
            None => Finding::Throughput { load: result },
        };
        let mut facts =
            BTreeMap::from([(fact::ROLE.to_owned(), role_word(beside.map(|b| b.role)).to_owned())]);
        facts.extend(beside.map(|beside| (fact::NAME.to_owned(), beside.name.clone())));
        measured.answered_each.push((member.clone(), answered));
        measured.observations.push(Observation {
            member: Some(member),
            validity,
            warm_up: warm_up.clone(),
            facts,
            ..Observation::whole(started_unix_ms, found)
        });
    }
    measured
}

#[cfg(test)]
mod tests {
    use vtax_load::{Counts, LoadResult, merged};
    use vtax_plan::parse;
    use vtax_store::record::InvalidReason;

    use super::*;
    use crate::systems::tests::PLAN;

    fn cell() -> Cell {
        let none: &[&str] = &[];
        let plan = parse("p", PLAN.as_bytes(), none).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
        plan.cells[0].clone()
    }

    fn answered(ok: u64) -> LoadResult {
        let counts = Counts { intended: 10, sent: 10, ok, unfinished: 10 - ok, ..Counts::default() };
        LoadResult { counts, duration: Nanos::from_secs(1), ..merged(&[]) }
    }

    fn member(name: &str, counted: bool, ok: u64) -> MemberAnswer {
        MemberAnswer { member: name.to_owned(), counted, result: answered(ok), answered: ok + 1 }
    }

    #[test]
    fn each_system_has_an_observation_beside_the_whole() {
        let cell = cell();
        let whole = Finding::Latency { offered: Rate(90.0), load: answered(9) };
        let measured = Measured::whole(7, whole, Validity::Valid);
        let members = vec![member("sut", true, 4), member("sut-2", true, 5), member("sut-4", false, 6)];
        let found = with_members(measured, &cell, members, Some(Rate(90.0)));
        assert_eq!((found.validity, found.observations.len()), (Validity::Valid, 4));
        assert_eq!(found.answered_each[2], ("sut-4".to_owned(), 7));
        let told: Vec<(Option<&str>, &str, f64)> = found.observations[1..]
            .iter()
            .map(|o| match &o.result {
                Some(Finding::Latency { offered, .. }) => {
                    (o.member.as_deref(), o.facts["role"].as_str(), offered.0)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [
            (Some("sut"), "system", 30.0),
            (Some("sut-2"), "system", 30.0),
            (Some("sut-4"), "neighbour", 40.0),
        ];
        assert_eq!(told, expected);
        assert_eq!(found.observations[3].facts["name"], "loud");
    }

    #[test]
    fn a_system_that_answered_nothing_makes_the_trial_invalid() {
        let cell = cell();
        let whole = Finding::Latency { offered: Rate(90.0), load: answered(9) };
        let members = vec![member("sut", true, 9), member("sut-2", true, 0)];
        let found =
            with_members(Measured::whole(7, whole, Validity::Valid), &cell, members, Some(Rate(90.0)));
        let Validity::Invalid { reason, detail } = found.validity else { panic!("valid") };
        assert_eq!(reason, InvalidReason::NothingSucceeded);
        assert!(detail.starts_with("sut-2: none of 10 requests"), "{detail}");
    }
}
