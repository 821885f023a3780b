//! The report of a reproduction as JSON (docs/formats.md, `claims.json`).

use serde_json::{Value, json};
use vtax_study::{Judged, Outcome, State};

use super::StudyReport;

/// Version of `claims.json`.
const VERSION: u32 = 1;

pub(super) fn render(report: &StudyReport<'_>) -> String {
    let found = report.found;
    let claims: Vec<Value> = found
        .claims
        .iter()
        .map(|claim| {
            let said = report.study.claim(&claim.id);
            json!({
                "claim": claim.id,
                "text": said.map(|claim| claim.text.as_str()),
                "place": said.map(|claim| claim.place.as_str()),
                "said": said.map(|claim| claim.said.word()),
                "figures": said.map(|claim| claim.figures.words()),
                "printed": claim.printed.as_ref().map(judged),
                "as_published": judged(&claim.published),
                "as_published_run": claim.published_run,
                "properly": judged(&claim.properly),
            })
        })
        .collect();
    let rules: Vec<Value> = found
        .rules
        .iter()
        .map(|rule| {
            let cases = rule.cases.iter().map(|case| {
                let (word, why) = match &case.outcome {
                    Outcome::Holds => ("holds", None),
                    Outcome::Broken => ("broken", None),
                    Outcome::Unknown(why) => ("unknown", Some(why.as_str())),
                };
                json!({"at": case.name, "left": case.sides.0, "right": case.sides.1, "outcome": word, "why": why})
            });
            json!({"rule": rule.id, "text": rule.text, "cases": cases.collect::<Vec<Value>>()})
        })
        .collect();
    let states: serde_json::Map<String, Value> =
        found.states.iter().map(|(experiment, state)| (experiment.clone(), state_of(state))).collect();
    let value = json!({
        "version": VERSION,
        "study": report.study.name,
        "mode": found.mode.word(),
        "vtax": report.vtax,
        "made_unix_ms": report.made_unix_ms,
        "experiments": states,
        "claims": claims,
        "rules": rules,
        "changes": found.changes().iter().map(|change| change.claim.id.as_str()).collect::<Vec<&str>>(),
    });
    // Made of strings and finite numbers: this can't fail.
    serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
}

fn judged(judged: &Judged) -> Value {
    let steps = judged.steps.iter().map(|step| {
        json!({
            "group": step.group,
            "what": step.what,
            "ratio": step.is_ratio,
            "study": step.study,
            "ours": step.ours.map(|ours| ours.ratio),
            "interval": step.ours.and_then(|ours| ours.interval),
        })
    });
    json!({
        "verdict": judged.word.words(),
        "why": judged.why,
        "emulated": judged.emulated,
        "steps": steps.collect::<Vec<Value>>(),
    })
}

fn state_of(state: &State) -> Value {
    match state {
        State::NotRun => json!("not run"),
        State::Failed(why) => json!(format!("failed: {why}")),
        State::Incomplete => json!("incomplete"),
        State::Empty => json!("empty"),
        State::Complete => json!("complete"),
    }
}
