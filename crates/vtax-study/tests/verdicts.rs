//! Verdicts on claims from made-up figures: what holds, what doesn't, and what can't be told.

use std::collections::BTreeMap;

use vtax_study::{
    Cell, Experiment, Figure, Kind, Loaded, Mode, State, Test, Way, Word, judge, open, reproduce,
};

fn figure(values: &[f64], unit: &str) -> Figure {
    let rounds = (0..).take(values.len()).collect();
    let (values, for_ratios) = (values.to_vec(), values.to_vec());
    Figure { values, for_ratios, rounds, unit: unit.to_owned(), ..Figure::default() }
}

fn cell(environment: &str, path: &str, figures: &[(&str, &str, &[f64])]) -> Cell {
    let figures = figures
        .iter()
        .map(|(measure, metric, values)| (((*measure).to_owned(), (*metric).to_owned()), figure(values, "")));
    Cell {
        id: format!("{environment}.{path}"),
        environment: environment.to_owned(),
        path: path.to_owned(),
        service: "s".to_owned(),
        figures: figures.collect(),
        ..Cell::default()
    }
}

fn run(cells: Vec<Cell>) -> Experiment {
    Experiment { state: State::Complete, cells, ..Experiment::default() }
}

/// Capacities in three environments.
fn capacities(native: &[f64], vm: &[f64], protected: &[f64]) -> Experiment {
    let of = |environment, values| cell(environment, "bridge", &[("ims", "doc", values)]);
    run(vec![of("native", native), of("vm", vm), of("vm-kemari", protected)])
}

fn word(loaded: &Loaded, claim: &str, experiment: &Experiment, way: Way) -> Word {
    let test = loaded.study.claim(claim).unwrap().test.as_ref().unwrap();
    judge(&loaded.study, test, experiment, Mode::Quick, way).word
}

#[test]
fn an_order_is_held_contradicted_or_open() {
    let loaded = open("virtualized-ims").unwrap();
    let properly = |experiment: &Experiment| word(&loaded, "order-of-capacities", experiment, Way::Properly);
    let plain = capacities(&[4000., 4100., 3900.], &[400., 412., 391.], &[100., 101., 99.]);
    assert_eq!(properly(&plain), Word::Held);
    let turned = capacities(&[4000., 4100., 3900.], &[100., 101., 99.], &[400., 412., 391.]);
    assert_eq!(properly(&turned), Word::Contradicted);
    let noisy = capacities(&[4000., 4100., 3900.], &[400., 100., 900.], &[300., 800., 90.]);
    assert_eq!(properly(&noisy), Word::CantTell);
    // Means of one trial always decide.
    assert_eq!(word(&loaded, "order-of-capacities", &noisy, Way::AsPublished), Word::Held);
    let few = capacities(&[4000., 4100.], &[400., 410.], &[100., 101.]);
    assert_eq!(properly(&few), Word::CantTell);
}

#[test]
fn what_was_not_run_or_left_out_can_not_be_run() {
    let loaded = open("virtualized-ims").unwrap();
    let test = loaded.study.claim("machine-costs").unwrap().test.as_ref().unwrap();
    let judged = |experiment: &Experiment| judge(&loaded.study, test, experiment, Mode::Quick, Way::Properly);
    assert_eq!(judged(&Experiment::default()).word, Word::CantRun);
    let failed = Experiment { state: State::Failed("no QEMU".to_owned()), ..Experiment::default() };
    assert_eq!((judged(&failed).word, judged(&failed).why.as_str()), (Word::CantRun, "no QEMU"));
    let mut left = capacities(&[4000., 4100., 3900.], &[], &[]);
    left.cells[1].left_out = Some("no QEMU".to_owned());
    assert_eq!(judged(&left).word, Word::CantRun);
    let none = capacities(&[4000., 4100., 3900.], &[], &[]);
    assert_eq!(judged(&none).word, Word::CantTell, "no trial counts");
    let empty = Experiment { state: State::Empty, ..none };
    assert_eq!(judged(&empty).word, Word::CantTell, "no trial counts at all");
}

/// A ratio that can't be told hides no other that decides by itself.
#[test]
fn one_open_ratio_does_not_hide_what_another_decides() {
    let loaded = open("virtualized-ims").unwrap();
    let test = loaded.study.claim("order-of-capacities").unwrap().test.clone().unwrap();
    let judged = |is: Kind, experiment: &Experiment| {
        let test = Test { is, ..test.clone() };
        judge(&loaded.study, &test, experiment, Mode::Quick, Way::Properly)
    };
    // Nothing of the last, and the first two are the other way round.
    let turned = capacities(&[100., 101., 99.], &[4000., 4100., 3900.], &[]);
    let found = judged(Kind::Order, &turned);
    assert_eq!((found.word, found.why.as_str()), (Word::Contradicted, ""));
    assert_eq!((found.steps.len(), found.steps[1].ours), (2, None));
    assert_eq!(judged(Kind::Falling, &turned).word, Word::Contradicted);
    // The first two as they should be: the last decides.
    let plain = capacities(&[4000., 4100., 3900.], &[100., 101., 99.], &[]);
    assert_eq!(judged(Kind::Order, &plain).word, Word::CantTell);
    assert_eq!(judged(Kind::Falling, &plain).word, Word::CantTell);
    assert_eq!(judged(Kind::Rising, &plain).word, Word::Contradicted);
    // The first is far from the last, of the second nothing is known.
    let apart = capacities(&[4000., 4100., 3900.], &[], &[100., 101., 99.]);
    assert_eq!(judged(Kind::Equal, &apart).word, Word::Contradicted);
    // What can't be run says more than that.
    let mut left = turned;
    left.cells[2].left_out = Some("no QEMU".to_owned());
    assert_eq!(judged(Kind::Order, &left).word, Word::CantRun);
}

#[test]
fn what_levels_off_hangs_on_its_last_step_alone() {
    let loaded = open("virtualized-ims").unwrap();
    let test = loaded.study.claim("order-of-capacities").unwrap().test.clone().unwrap();
    let test = Test { is: Kind::LevelsOff, ..test };
    let judged =
        |experiment: &Experiment| judge(&loaded.study, &test, experiment, Mode::Quick, Way::Properly);
    let found = judged(&capacities(&[], &[100., 102., 99.], &[101., 101.5, 100.]));
    assert_eq!((found.word, found.steps.len()), (Word::Held, 2));
    assert_eq!(judged(&capacities(&[100., 101., 99.], &[100., 102., 99.], &[])).word, Word::CantTell);
}

/// Every claim that the study says of its own printed figures is judged by them. Here the words were worked out from the
/// figures by hand.
#[test]
fn a_studys_own_figures_are_judged_like_any() {
    let printed = |study: &str, claim: &str| {
        let loaded = open(study).unwrap();
        word(&loaded, claim, &Experiment::default(), Way::Printed)
    };
    for (study, claim, expected) in [
        ("virtualized-ims", "order-of-capacities", Word::Held),
        // Medians of 10.1, 17.5, 45.5 and 190.2 ms. Their next step, of 7.3 times, is beyond the capacity.
        ("virtualized-ims", "delay-knee", Word::Held),
        ("virtual-links", "window-helps", Word::Held),
        // At 8K its own tables say the opposite.
        ("virtual-links", "machines-beat-baseline", Word::Contradicted),
        ("virtual-links", "memory-matters-little", Word::Held),
        // 447.7 against 792, 765.5 against 1814.
        ("virtual-links", "sdn-below-at-small", Word::Held),
        ("consolidated-servers", "response-grows", Word::Held),
        // 0.4, 4, 3534, 3925, 8132 and 8399 ms.
        ("consolidated-servers", "response-knee", Word::Held),
        ("consolidated-servers", "response-small-to-two", Word::Held),
        ("consolidated-servers", "single-better", Word::Held),
        // No errors with one and two, thousands with three and more.
        ("consolidated-servers", "no-errors-to-two", Word::Held),
        ("consolidated-servers", "errors-from-three", Word::Held),
        ("consolidated-servers", "replies-fall", Word::Held),
        // 100 % with one, 72 % with six.
        ("consolidated-servers", "replies-constant", Word::Contradicted),
        ("virtual-servers", "ftp-rate-alike", Word::Held),
        // Nothing was lost of four pings.
        ("virtual-servers", "vpn-reaches", Word::Held),
        // Its figures are of different clients.
        ("virtual-servers", "raid-writes", Word::CantRun),
        ("virtual-nas", "reads-slower", Word::CantRun),
    ] {
        assert_eq!(printed(study, claim), expected, "{study} {claim}");
    }
}

#[test]
fn conclusions_that_change_are_named() {
    let loaded = open("virtualized-ims").unwrap();
    let noisy = capacities(&[4000., 4100., 3900.], &[400., 300., 500.], &[300., 800., 90.]);
    let proper = BTreeMap::from([("capacity".to_owned(), noisy)]);
    let found = reproduce(&loaded.study, Mode::Quick, &proper, &BTreeMap::new(), Vec::new());
    let changed: Vec<&str> = found.changes().iter().map(|change| change.claim.id.as_str()).collect();
    assert_eq!(changed, ["order-of-capacities", "protection-costs"]);
    assert_eq!(found.claims.len(), loaded.study.claims.len());
    let total: usize = found.counts().iter().map(|(_, count)| count).sum();
    assert_eq!(total, found.claims.len());
    assert_eq!(found.states["delays"], State::NotRun);
}

#[test]
fn losses_of_nothing_are_small_and_counts_are_shares() {
    let loaded = open("virtualized-ims").unwrap();
    let lost =
        |values: &[f64]| run(vec![cell("vm-kemari", "bridge", &[("failover", "requests_lost", values)])]);
    let word = |values: &[f64]| word(&loaded, "failover-loses-little", &lost(values), Way::Properly);
    assert_eq!(word(&[0.; 6]), Word::Held);
    assert_eq!(word(&[60., 62., 61.]), Word::Contradicted);
    assert_eq!(word(&[0., 9., 1.]), Word::CantTell);
}

/// All of three trials lie on one side of the median in a quarter of all cases, all of six in 3 of 100.
#[test]
fn few_trials_that_agree_to_the_digit_can_not_tell() {
    let loaded = open("virtualized-ims").unwrap();
    let judged = |claim: &str, metric: &str, values: &[f64]| {
        let test = loaded.study.claim(claim).unwrap().test.as_ref().unwrap();
        let run = run(vec![cell("vm-kemari", "bridge", &[("failover", metric, values)])]);
        judge(&loaded.study, test, &run, Mode::Quick, Way::Properly)
    };
    for (claim, metric, value) in
        [("failover-loses-little", "requests_lost", 0.0), ("failover-survived", "survived", 1.0)]
    {
        let few = judged(claim, metric, &[value; 3]);
        assert_eq!(few.word, Word::CantTell, "{claim}");
        assert_eq!(few.why, "all 3 trials agree to the digit, maybe by chance: that takes 6", "{claim}");
        assert_eq!(judged(claim, metric, &[value; 6]).word, Word::Held, "{claim}");
    }
}

/// No share is below nothing or above the whole, however its trials scatter.
#[test]
fn a_share_has_the_interval_of_one() {
    let loaded = open("virtualized-ims").unwrap();
    let interval = |claim: &str, metric: &str, values: &[f64]| {
        let test = loaded.study.claim(claim).unwrap().test.as_ref().unwrap();
        let run = run(vec![cell("vm-kemari", "bridge", &[("failover", metric, values)])]);
        let judged = judge(&loaded.study, test, &run, Mode::Quick, Way::Properly);
        judged.steps[0].ours.unwrap().interval.unwrap()
    };
    let (low, high) = interval("failover-loses-little", "requests_lost", &[0., 0., 0., 50., 0.]);
    assert!(low == 0.0 && high > 0.1 && high < 1.0, "{low} {high}");
    // Of 150, as counts: 4 are 2.091650 as a root, and 3, 4 and 8 reach from 0.146 to 12.907.
    let (low, high) = interval("failover-loses-little", "requests_lost", &[4., 3., 8.]);
    assert!((low * 150.0 - 0.1455).abs() < 1e-3 && (high * 150.0 - 12.9069).abs() < 1e-3, "{low} {high}");
    let (low, high) = interval("failover-survived", "survived", &[1., 1., 1., 0.5, 1.]);
    assert!(low < 0.6 && high == 1.0, "{low} {high}");
}

/// One side that never loses anything beside one that always does makes no ratio, and is told all the same.
#[test]
fn nothing_against_something_is_told() {
    let loaded = open("virtual-servers").unwrap();
    let lost = |without: &[f64], with: &[f64]| {
        run(vec![
            cell("native", "no-backdoor", &[("failover", "requests_lost", without)]),
            cell("native", "mpls-vpn", &[("failover", "requests_lost", with)]),
        ])
    };
    let word = |experiment: &Experiment| word(&loaded, "backdoor-saves", experiment, Way::Properly);
    assert_eq!(word(&lost(&[500., 510., 490.], &[0., 0., 0.])), Word::Held);
    assert_eq!(word(&lost(&[0., 0., 0.], &[500., 510., 490.])), Word::Contradicted);
    assert_eq!(word(&lost(&[500., 510., 490.], &[0., 3., 0.])), Word::CantTell);
}

/// An experiment that has the fewest trials for an interval, however they scatter, is never judged without one.
#[test]
fn full_mode_only_claims_say_so() {
    let loaded = open("virtual-links").unwrap();
    let test = loaded.study.claim("memory-matters-little").unwrap().test.as_ref().unwrap();
    let judged = judge(&loaded.study, test, &run(Vec::new()), Mode::Quick, Way::Properly);
    assert_eq!((judged.word, judged.why.as_str()), (Word::CantRun, "it takes the full mode"));
}

/// Points of the full mode only make no ratios in the quick one, so nothing is allowed for them.
#[test]
fn verdicts_are_corrected_for_the_ratios_that_there_are() {
    let loaded = open("virtualized-ims").unwrap();
    let test = loaded.study.claim("order-of-capacities").unwrap().test.clone().unwrap();
    let figures = capacities(&[4000., 4100., 3900.], &[400., 412., 391.], &[100., 101., 99.]);
    let judged = |test: &_, mode| judge(&loaded.study, test, &figures, mode, Way::Properly);
    let mut longer = test.clone();
    let mut last = longer.points.last().unwrap().clone();
    last.modes = vec![Mode::Full];
    longer.points.push(last);
    assert_eq!(judged(&longer, Mode::Quick), judged(&test, Mode::Quick));
    // Where they are measured they are allowed for, and all intervals are wider.
    let first = |test: &_| judged(test, Mode::Full).steps[0].ours.unwrap().interval.unwrap();
    let (narrow, wide) = (first(&test), first(&longer));
    assert!(wide.0 < narrow.0 && narrow.1 < wide.1, "{narrow:?} {wide:?}");
}
