//! Studies from elsewhere: whatever a folder holds, it is a study or an error, and judging it ends.

use std::collections::BTreeMap;

use proptest::prelude::*;
use vtax_study::{Experiment, Mode, State, StudyError, open_folder, reproduce};

const STUDY: &str = r#"
version: 1
name: small
source: {title: T, authors: [A], publisher: P, kind: report}
question: Q
items:
  - {id: table 1, title: t, content: printed, claims: [c]}
  - {id: figure 1, title: t, content: missing, why: a drawing}
tables:
  - {id: a, item: table 1, unit: KB/s, columns: [x, y], rows: [{name: r1, values: [7, null]}, {name: r2, values: [9, 3]}]}
experiments:
  - {id: e, title: t, quick: p.yaml, full: p.yaml, trials: 1, trials_from: told}
claims:
  - id: c
    text: t
    place: table 1
    said: quoted
    figures: printed
    test:
      experiment: e
      is: knee
      at: two
      of: {measure: m, metric: k}
      points:
        - {name: one, study: {table: a, row: r2, column: x}, ours: {environment: n}}
        - {name: two, ours: {environment: v}}
        - {name: three, ours: {with: {count: ["3"]}, divide: 3}}
rules:
  - {id: r, text: t, each: {table: a}, equals: [{cell: {column: x}}, {quotient: [{value: 1, unit: GB}, {cell: {column: y}}]}]}
"#;

/// Opens a folder with that text; a study is judged by nothing.
fn tried(text: &[u8]) -> Result<(), StudyError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("claims.yaml"), text).unwrap();
    let loaded = open_folder(folder.path())?;
    let empty = Experiment { state: State::Complete, ..Experiment::default() };
    let runs: BTreeMap<String, Experiment> =
        loaded.study.experiments.iter().map(|e| (e.id.clone(), empty.clone())).collect();
    let found = reproduce(&loaded.study, Mode::Quick, &runs, &BTreeMap::new(), Vec::new());
    assert_eq!(found.claims.len(), loaded.study.claims.len());
    Ok(())
}

#[test]
fn the_study_that_is_damaged_below_is_whole() {
    tried(STUDY.as_bytes()).unwrap_or_else(|e| panic!("{e}"));
}

#[test]
fn what_does_not_fit_together_is_named() {
    for (from, to, word) in [
        ("name: small", "name: ../small", "name `../small`: it may have"),
        ("name: small", "name: /small", "name `/small`: it may have"),
        ("name: small", "name: ''", "name ``: it may have"),
        ("claims: [c]", "claims: [d]", "no claim `d`"),
        ("why: a drawing", "claims: []", "neither"),
        ("column: x}, ours", "column: z}, ours", "nothing there"),
        ("at: two", "at: one", "behind the first"),
        ("is: knee", "is: rising", "`at` means nothing"),
        ("values: [9, 3]", "values: [9]", "1 values for 2 columns"),
        ("experiment: e", "experiment: f", "no experiment `f`"),
        ("metric: k", "path: k", "no `metric`"),
        ("each: {table: a}, equals", "each: {table: b}, equals", "no table `b`"),
        ("{value: 1, unit: GB}", "{unit: GB}", "an expression is one of"),
        ("trials: 1,", "trials: 0,", "without a measurement"),
        ("id: e, title", "id: ../e, title", "its id may have"),
        ("divide: 3", "divide: 0", "above 0"),
    ] {
        assert!(STUDY.contains(from), "{from}");
        let error = tried(STUDY.replacen(from, to, 1).as_bytes()).unwrap_err().to_string();
        assert!(error.contains(word), "`{word}` is not in: {error}");
    }
}

/// Of how many a count is isn't known, and a rate is of nothing.
#[test]
fn what_is_small_by_itself_is_a_share() {
    let mut small = STUDY.replacen("is: knee\n      at: two", "is: small\n      most: 0.1", 1);
    let two = "        - {name: two, ours: {environment: v}}\n";
    let three = "        - {name: three, ours: {with: {count: [\"3\"]}, divide: 3}}\n";
    for gone in [two, three] {
        assert!(small.contains(gone), "{gone}");
        small = small.replacen(gone, "", 1);
    }
    for (unit, value, fits) in
        [("KB/s", 9, false), ("\"1\"", 9, false), ("\"1\"", 1, true), ("\"1\"", 0, true), ("\"%\"", 9, true)]
    {
        let text = small.replacen("unit: KB/s", &format!("unit: {unit}"), 1);
        let text = text.replacen("values: [9, 3]", &format!("values: [{value}, 3]"), 1);
        match tried(text.as_bytes()) {
            Ok(()) => assert!(fits, "{value} {unit}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!fits && error.contains("the study's figure is no share"), "{value} {unit}: {error}");
            }
        }
    }
}

#[test]
fn expressions_in_each_other_have_an_end() {
    let deep = format!("{}{{value: 1}}{}", "{sum: [".repeat(40), "]}".repeat(40));
    let error = tried(STUDY.replacen("{value: 1, unit: GB}", &deep, 1).as_bytes()).unwrap_err().to_string();
    assert!(!error.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Cut anywhere, and with bytes exchanged.
    #[test]
    fn damage_is_an_error_or_another_study(cut in 0..STUDY.len(), at in 0..STUDY.len(), byte in any::<u8>()) {
        let _ = tried(&STUDY.as_bytes()[..cut]);
        let mut text = STUDY.as_bytes().to_vec();
        text[at] = byte;
        let _ = tried(&text);
    }
}
