//! A test made in rounds until these are steady.

use vtax_agent::AgentError;
use vtax_load::storage::StorageResult;
use vtax_plan::model::SteadyState;
use vtax_stats::RoundsWindow;
use vtax_store::record::{Finding, InvalidReason, Observation, Validity};
use vtax_store::storage::{StorageRound, StorageRounds};

/// Makes round after round until the last ones are steady, or there were as many as the rule allows: then the test doesn't count. What
/// is observed is the last round, with the figures of all. A round that doesn't count ends the test.
pub(super) fn until_steady(
    rule: SteadyState,
    timed: bool,
    mut make: impl FnMut(u32) -> Result<Observation, AgentError>,
) -> Result<Observation, AgentError> {
    let mut rounds: Vec<StorageRound> = Vec::new();
    let mut started_unix_ms = None;
    loop {
        let mut made = make(rounds.len() as u32)?;
        made.started_unix_ms = *started_unix_ms.get_or_insert(made.started_unix_ms);
        let Some(Finding::Storage(found)) = &mut made.result else { return Ok(made) };
        let counts = made.validity == Validity::Valid;
        if counts {
            rounds.push(round(&found.result, timed));
        }
        let figures: Vec<f64> = rounds.iter().map(|round| round.figure).collect();
        let window = RoundsWindow::last(&figures, rule.window as usize);
        let steady = window.is_some_and(|window| window.is_steady(rule.excursion.0, rule.slope.0));
        let over = rounds.len() >= rule.rounds as usize;
        if counts && !steady && !over {
            continue;
        }
        if counts && !steady {
            let detail = never(rounds.len(), window);
            made.validity = Validity::Invalid { reason: InvalidReason::NoSteadyState, detail };
        }
        found.steady_state = Some(StorageRounds { rule, rounds });
        return Ok(made);
    }
}

fn round(result: &StorageResult, timed: bool) -> StorageRound {
    let latency = &result.load.latency;
    let figure = if timed { result.iops() } else { result.parent() };
    StorageRound { figure, median: latency.quantile(0.5), p99: latency.quantile(0.99) }
}

/// That there was no steady state, and how the last rounds lay.
fn never(rounds: usize, window: Option<RoundsWindow>) -> String {
    let last = window.map_or_else(String::new, |window| {
        format!(
            ": over the last {} the range was {:.0} % of the average, the slope {:.0} %",
            window.rounds,
            100.0 * window.excursion,
            100.0 * window.slope
        )
    });
    format!("no steady state after {rounds} rounds{last}")
}

#[cfg(test)]
mod tests {
    use vtax_load::storage::{CacheEvidence, Facts, IoCounters, Process, Verified};
    use vtax_load::{Counts, LoadResult};
    use vtax_store::storage::{StorageFinding, goes_over_all_once};
    use vtax_units::metric::{STORAGE_RATE, STORAGE_THROUGHPUT};
    use vtax_units::{Nanos, Share};

    use super::*;

    const RULE: SteadyState = SteadyState { rounds: 10, window: 5, excursion: Share(0.2), slope: Share(0.1) };

    /// A round of a second with so many operations.
    fn observation(operations: u64) -> Observation {
        let load = LoadResult {
            duration: Nanos::from_secs(1),
            counts: Counts { ok: operations, ..Counts::default() },
            ..LoadResult::default()
        };
        let process = Process { bytes: 4096 * operations, last: Nanos::from_secs(2), ..Process::default() };
        let result = StorageResult {
            load,
            record: 4096,
            processes: vec![process],
            verified: Verified::default(),
            failures: Vec::new(),
            first_failure: None,
            cache: CacheEvidence::default(),
            io: IoCounters::default(),
            facts: Facts::default(),
            read_back: None,
            beside: Vec::new(),
        };
        let found = StorageFinding {
            result,
            host: None,
            server: None,
            server_cache: None,
            client: None,
            steady_state: None,
        };
        Observation { result: Some(Finding::Storage(Box::new(found))), ..Observation::default() }
    }

    /// What comes of rounds with so many operations per second, and how many of them were made.
    fn made(series: &[u64]) -> (Observation, Vec<f64>) {
        let made = until_steady(RULE, true, |round| {
            Ok(Observation { started_unix_ms: u64::from(round) + 7, ..observation(series[round as usize]) })
        });
        let made = made.unwrap_or_else(|e| panic!("{e}"));
        let figures = made.storage().unwrap().steady_state.as_ref().unwrap().figures();
        (made, figures)
    }

    #[test]
    fn rounds_end_as_soon_as_they_are_steady() {
        let (level, figures) = made(&[100; 10]);
        assert_eq!((level.validity, figures.len(), level.started_unix_ms), (Validity::Valid, 5, 7));
        let (declining, figures) = made(&[900, 700, 500, 300, 301, 299, 300, 300, 300, 300]);
        assert_eq!(declining.storage().unwrap().result.load.counts.ok, 300, "the last round");
        assert_eq!((declining.validity, figures.len()), (Validity::Valid, 8));
    }

    #[test]
    fn what_never_becomes_steady_does_not_count_and_says_so() {
        let series: Vec<u64> = (0..10).map(|round| 1000 - 90 * round).collect();
        let (falling, figures) = made(&series);
        assert_eq!(figures.len(), 10);
        let Validity::Invalid { reason: InvalidReason::NoSteadyState, detail } = falling.validity else {
            panic!("{:?}", falling.validity)
        };
        // 550 to 190: a range of 360 over an average of 370.
        assert_eq!(
            detail,
            "no steady state after 10 rounds: over the last 5 the range was 97 % of the average, the slope 97 %"
        );
    }

    #[test]
    fn a_round_that_does_not_count_ends_the_test() {
        let mut rounds = 0;
        let wrong = Validity::Invalid { reason: InvalidReason::DataWrong, detail: "so".to_owned() };
        let made = until_steady(RULE, true, |round| {
            rounds += 1;
            let validity = if round == 2 { wrong.clone() } else { Validity::Valid };
            Ok(Observation { validity, ..observation(100) })
        });
        let made = made.unwrap_or_else(|e| panic!("{e}"));
        assert_eq!((rounds, &made.validity), (3, &wrong));
        assert_eq!(made.storage().unwrap().steady_state.as_ref().unwrap().rounds.len(), 2);
    }

    #[test]
    fn sequential_rounds_are_bytes_until_durable() {
        let made = until_steady(RULE, false, |_| Ok(observation(100))).unwrap_or_else(|e| panic!("{e}"));
        let figures = made.storage().unwrap().steady_state.as_ref().unwrap().figures();
        assert_eq!(figures, [4096.0 * 100.0 / 2.0; 5]);
    }

    /// Plans say it by the operation, stored runs by the test's name.
    #[test]
    fn the_name_of_a_test_says_whether_it_goes_over_all_once() {
        let plan = "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: disk\nmeasure: [storage]\n\
                    workload: {storage: {size: 1MiB, operations: [write, rewrite, read, re-read, random-read, \
                    random-write, backward-read, strided-read, mix-70]}}\n";
        let plan = vtax_plan::parse("t", plan.as_bytes(), &[] as &[&str]).unwrap_or_else(|e| panic!("{e}"));
        let tests = plan.cells[0].workload.model().storage_tests();
        assert_eq!(tests.len(), 9);
        for test in tests {
            assert_eq!(goes_over_all_once(&test.name), !test.is_timed(), "{}", test.name);
        }
    }

    #[test]
    fn a_test_comes_to_what_became_durable_or_to_its_operations() {
        let of = |observation: &Observation, name| observation.storage().unwrap().figure(name);
        let mut synced = observation(100);
        let Some(Finding::Storage(found)) = &mut synced.result else { unreachable!() };
        found.result.processes[0].durable = Some(Nanos::from_secs(4));
        assert_eq!(of(&synced, "write.file-1mib"), (STORAGE_THROUGHPUT, 4096.0 * 100.0 / 4.0));
        assert_eq!(of(&synced, "random-write.file-1mib"), (STORAGE_RATE, 100.0));
        let Some(Finding::Storage(found)) = &mut synced.result else { unreachable!() };
        found.result.load.lateness.record(Nanos(1));
        assert_eq!(of(&synced, "write.file-1mib"), (STORAGE_RATE, 100.0), "at a rate that was asked for");

        let (rounds, _) = made(&[900, 310, 300, 290, 300, 300]);
        assert_eq!(
            of(&rounds, "random-read"),
            (STORAGE_RATE, 300.0),
            "the average of the rounds that are steady"
        );
    }
}
