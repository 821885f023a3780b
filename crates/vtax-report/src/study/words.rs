//! What several forms of the report say in the same words.

use vtax_study::{
    Compared, Conclusion, FoundClaim, Kind, MARGIN, Mode, Reproduction, State, Step, Test, Way, Word,
};

use crate::format::{quantity, tax, tax_range, tick};

/// From here on a ratio is one to nothing.
const ENDLESS: f64 = 1e11;

/// A ratio, or a share, for people.
pub(super) fn amount(step: &Step, value: f64) -> String {
    match (step.is_ratio, value) {
        (true, v) if v >= ENDLESS => "∞".to_owned(),
        (true, v) if v <= 1.0 / ENDLESS => "0x".to_owned(),
        (true, v) => tax(v),
        (false, v) => quantity(v, "1"),
    }
}

/// Ours with its interval: `1.39x (1.21–1.60)`.
pub(super) fn ours(step: &Step) -> String {
    let Some(Compared { ratio, interval }) = step.ours else { return "—".to_owned() };
    let center = amount(step, ratio);
    match interval {
        None => center,
        Some((low, high)) if step.is_ratio && high < ENDLESS && low > 1.0 / ENDLESS => {
            format!("{center} ({})", tax_range(low, high))
        }
        Some((low, high)) => format!("{center} ({} to {})", amount(step, low), amount(step, high)),
    }
}

/// The study's.
pub(super) fn studys(step: &Step) -> String {
    match step.study {
        None => "—".to_owned(),
        // No share is more than all: the study counted.
        Some(count) if !step.is_ratio && count > 1.0 => quantity(count, ""),
        Some(value) => amount(step, value),
    }
}

/// `4K: virtual machines over baseline`.
pub(super) fn what(step: &Step) -> String {
    // A group of one figure has its name.
    if step.group.is_empty() || step.group == step.what {
        step.what.clone()
    } else {
        format!("{}: {}", step.group, step.what)
    }
}

/// Ratios within 1 ± this count as equal.
pub(super) fn margin(test: Option<&Test>) -> f64 {
    test.and_then(|test| test.margin).unwrap_or(MARGIN)
}

/// What a test asks, in words.
pub(super) fn asks(test: &Test) -> String {
    let kind = match test.is {
        Kind::Higher => "direction: the first is higher".to_owned(),
        Kind::Equal => "equality".to_owned(),
        Kind::Order => "order: each is higher than the next".to_owned(),
        Kind::Rising => "shape: it rises".to_owned(),
        Kind::Falling => "shape: it falls".to_owned(),
        Kind::LevelsOff => "shape: it levels off".to_owned(),
        Kind::Knee => format!("knee: the largest step ends at {}", test.at.as_deref().unwrap_or("—")),
        Kind::Small => format!("share: at most {}", quantity(test.most.unwrap_or_default(), "1")),
        Kind::Large => format!("share: at least {}", quantity(test.least.unwrap_or_default(), "1")),
    };
    let equal = match test.is {
        // A share has a limit of its own.
        Kind::Small | Kind::Large => String::new(),
        _ => format!("; 1 ± {} counts as equal", tick(margin(Some(test)), "1")),
    };
    match test.enough {
        Some(enough) => format!("{kind}{equal}; {enough} of {} groups are enough", test.groups.len()),
        None => kind + &equal,
    }
}

/// A way of judging, as a column's head.
pub(super) fn way(way: Way) -> &'static str {
    match way {
        Way::Printed => "the study's own figures",
        Way::AsPublished => "here, judged as published",
        Way::Properly => "here, properly",
    }
}

/// What a way concludes of a claim; `—` where it couldn't be taken.
pub(super) fn concluded(claim: &FoundClaim, wanted: Way) -> &'static str {
    let found: Option<Conclusion> = claim.conclusions().into_iter().find(|c| c.way == wanted);
    found.map_or("—", |found| found.word.words())
}

/// A verdict with what qualifies it: `held (TCG)`.
pub(super) fn verdict(claim: &FoundClaim) -> String {
    let word = claim.properly.word.words();
    let decided = matches!(claim.properly.word, Word::Held | Word::Contradicted);
    if claim.properly.emulated && decided { format!("{word} (TCG)") } else { word.to_owned() }
}

/// How many claims came to what, in a sentence.
pub(super) fn headline(found: &Reproduction) -> String {
    let counts: Vec<String> = found
        .counts()
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(word, count)| format!("{count} {}", word.words()))
        .collect();
    let broken = found.rules.iter().filter(|rule| rule.is_broken()).count();
    let changed = match found.changes().len() {
        1 => "1 conclusion depends on how it is drawn".to_owned(),
        several => format!("{several} conclusions depend on how they are drawn"),
    };
    format!(
        "Of {} claims: {}. {broken} of {} rules find a defect in the study's own numbers. {changed}.",
        found.claims.len(),
        counts.join(", "),
        found.rules.len()
    )
}

/// What must be read first.
pub(super) fn warnings(found: &Reproduction) -> Vec<String> {
    let mut all = Vec::new();
    if found.mode == Mode::Quick {
        all.push(
            "Quick mode: small amounts, few trials, stand-ins for some services. It shows whether a claim can be told here, and what \
             is plain; the full mode is the experiment."
                .to_owned(),
        );
    }
    if found.hosts.iter().any(|host| host.accelerator.as_deref() == Some("tcg")) {
        all.push(
            "Virtual machines ran under software emulation (TCG), ten to twenty times slower than with hardware support. Verdicts \
             marked TCG say nothing about hardware virtualization."
                .to_owned(),
        );
    }
    for (experiment, state) in &found.states {
        match state {
            State::NotRun => all.push(format!("Experiment {experiment} wasn't run.")),
            State::Failed(why) => all.push(format!("Experiment {experiment} couldn't be run: {why}")),
            State::Incomplete => {
                all.push(format!("Experiment {experiment} was cut short; trials are missing."))
            }
            State::Empty => all.push(format!(
                "Experiment {experiment} was run, and no trial counts; the notes of its run say why."
            )),
            State::Complete => {}
        }
    }
    all
}

/// Both sides of a rule's case: `8.500 Mbit/s and 59.54 Mbit/s`.
pub(super) fn sides(sides: &(String, String)) -> String {
    if sides.0.is_empty() { String::new() } else { format!("{} and {}", sides.0, sides.1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_margin_of_a_test_s_own_is_told() {
        let loaded = vtax_study::open("virtual-servers").unwrap();
        let test = |id: &str| loaded.study.claim(id).and_then(|claim| claim.test.clone()).unwrap();
        let alike = test("san-rate-alike");
        assert!(asks(&alike).contains("; 1 ± 15 % counts as equal"), "{}", asks(&alike));
        let usual = Test { margin: None, ..alike.clone() };
        assert!(asks(&usual).contains("; 1 ± 10 % counts as equal"), "{}", asks(&usual));
        let share = Test { is: Kind::Small, ..alike };
        assert!(!asks(&share).contains("equal"), "{}", asks(&share));
    }
}
