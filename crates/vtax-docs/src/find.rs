//! Looking a word up.

use std::collections::BTreeSet;

use crate::PAGES;
use crate::read::{Entry, entries, normal};

/// Most places that are quoted.
const ANSWERS: usize = 3;
/// Most words that are offered instead.
const NEAR: usize = 6;
/// How alike two words are at least for one to be offered for the other (Jaro and Winkler, 0 to 1).
const ALIKE: f64 = 0.85;

/// What a page says of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The word as the page has it.
    pub term: String,
    /// What it means: one or more paragraphs, a line each.
    pub text: String,
    /// Where that is: `docs/methodology.md#tax`.
    pub place: String,
}

/// What became of a look-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Explained {
    /// What pages say, the most telling first, and where else it is explained.
    Found {
        /// At least one.
        answers: Vec<Answer>,
        /// Places that aren't quoted.
        also: Vec<String>,
    },
    /// No page defines it; words that are like it.
    Unknown(Vec<String>),
}

/// What the documentation says of a metric, a verdict or any other word; capitals, `_` and `-` don't matter.
#[must_use]
pub fn explain(word: &str) -> Explained {
    let all: Vec<(usize, &str, Entry)> = PAGES
        .iter()
        .enumerate()
        .flat_map(|(at, (page, text))| entries(text).into_iter().map(move |entry| (at, *page, entry)))
        .collect();
    let wanted = normal(word);
    if wanted.is_empty() {
        return Explained::Unknown(Vec::new());
    }
    let one = wanted.strip_suffix('s').filter(|one| !one.is_empty()).unwrap_or(&wanted).to_owned();
    for form in [wanted.clone(), one, format!("{wanted}s")] {
        let mut found: Vec<&(usize, &str, Entry)> =
            all.iter().filter(|(_, _, entry)| normal(&entry.term) == form).collect();
        found.sort_by_key(|(at, _, entry)| (*at, entry.kind));
        if !found.is_empty() {
            return told(&found);
        }
    }
    Explained::Unknown(near(&wanted, &all))
}

/// What is explained, by page: each word on the page that is asked first.
#[must_use]
pub fn terms() -> Vec<(&'static str, Vec<String>)> {
    let mut known = BTreeSet::new();
    let mut of_page = |text: &str| -> Vec<String> {
        let entries = entries(text);
        // Of `wrong data (data-wrong)` both names are listed, and not the whole besides.
        let is_whole = |entry: &&Entry| {
            !entries.iter().any(|other| {
                other.text == entry.text && other.term != entry.term && entry.term.contains(&other.term)
            })
        };
        let terms = entries.iter().filter(is_whole).map(|entry| entry.term.clone());
        let is_new = |term: &String| {
            let word = normal(term);
            !word.is_empty() && known.insert(word)
        };
        terms.filter(is_new).collect()
    };
    PAGES.iter().map(|(page, text)| (*page, of_page(text))).collect()
}

fn told(found: &[&(usize, &str, Entry)]) -> Explained {
    let place = |page: &str, entry: &Entry| match entry.anchor.as_str() {
        "" => page.to_owned(),
        anchor => format!("{page}#{anchor}"),
    };
    let (mut answers, mut also): (Vec<Answer>, Vec<String>) = (Vec::new(), Vec::new());
    for (_, page, entry) in found {
        let place = place(page, entry);
        if answers.iter().any(|a| a.place == place && a.text == entry.text) {
            continue;
        }
        if answers.len() < ANSWERS {
            answers.push(Answer { term: entry.term.clone(), text: entry.text.clone(), place });
        } else if !also.contains(&place) {
            also.push(place);
        }
    }
    Explained::Found { answers, also }
}

/// Words that are like this one, or have it in them.
fn near(wanted: &str, all: &[(usize, &str, Entry)]) -> Vec<String> {
    let mut near: Vec<(f64, &str)> = Vec::new();
    for (_, _, entry) in all {
        let known = normal(&entry.term);
        let within = known.split(' ').any(|part| part == wanted);
        let alike = strsim::jaro_winkler(wanted, &known);
        if (within || alike >= ALIKE) && near.iter().all(|(_, term)| normal(term) != known) {
            near.push((if within { alike + 1.0 } else { alike }, entry.term.as_str()));
        }
    }
    near.sort_by(|a, b| b.0.total_cmp(&a.0));
    near.into_iter().take(NEAR).map(|(_, term)| term.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(word: &str) -> Vec<Answer> {
        match explain(word) {
            Explained::Found { answers, .. } => answers,
            Explained::Unknown(near) => panic!("{word} is unknown, near it {near:?}"),
        }
    }

    #[test]
    fn words_of_the_report_are_explained() {
        for word in [
            "tax",
            "worse",
            "better",
            "equivalent",
            "inconclusive",
            "can't tell",
            "too-wide",
            "too-few",
            "latency_p99",
            "capacity",
            "cell",
            "Rounds",
            "duet",
            "TCG",
            "generator-limited",
            "margin",
            "convergence",
            "held",
            "cpu_per_request.vcpu",
            "invalid",
            "p95",
            "p99",
            "smoke test",
            "smoke-test",
            "latency, p99",
            "probes lost",
            "p99.9",
            "lateness",
            "vhost-net",
            "inferred",
        ] {
            let answers = answers(word);
            assert!(
                answers.iter().all(|a| !a.text.is_empty() && a.place.starts_with("docs/")),
                "{answers:?}"
            );
        }
        let tax = answers("tax");
        assert!(tax.iter().any(|a| a.text.contains("ratio")), "{tax:?}");
        assert!(answers("worse").iter().any(|a| a.place == "docs/methodology.md#verdict"));
        // Row by row the methodology's table says little: `anything else, or none`.
        for (word, says) in [
            ("worse", "the candidate costs more"),
            ("better", "the candidate costs less"),
            ("equivalent", "it doesn't matter"),
            ("inconclusive", "what would help"),
            ("can't tell", "what would help"),
        ] {
            let first = &answers(word)[0];
            assert!(first.place.starts_with("docs/words.md") && first.text.contains(says), "{first:?}");
        }
    }

    #[test]
    fn what_is_unknown_is_told_with_what_is_like_it() {
        let Explained::Unknown(near) = explain("latncy_p99") else { panic!("it is known") };
        assert!(near.iter().any(|term| normal(term) == "latency p99"), "{near:?}");
        assert_eq!(explain("zzzqqq"), Explained::Unknown(Vec::new()));
        assert_eq!(explain(""), Explained::Unknown(Vec::new()));
    }

    #[test]
    fn what_is_listed_is_explained_and_listed_once() {
        let listed: Vec<String> = terms().into_iter().flat_map(|(_, terms)| terms).collect();
        let different: BTreeSet<String> = listed.iter().map(|term| normal(term)).collect();
        assert_eq!(different.len(), listed.len());
        for word in ["margin", "latency_p99", "tax"] {
            assert!(different.contains(&normal(word)), "{word}");
        }
        for (word, whole) in [("data-wrong", "wrong data (data-wrong)"), ("at least", "at least, at most")] {
            assert!(different.contains(&normal(word)) && !listed.iter().any(|term| term == whole), "{word}");
        }
        // Of so many some are looked up.
        for term in listed.iter().step_by(50) {
            assert!(matches!(explain(term), Explained::Found { .. }), "{term}");
        }
    }

    #[test]
    fn every_page_is_part_of_the_program() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let mut pages: Vec<String> = std::fs::read_dir(docs)
            .unwrap()
            .map(|entry| format!("docs/{}", entry.unwrap().file_name().to_string_lossy()))
            .filter(|name| name.ends_with(".md"))
            .collect();
        pages.sort();
        let mut known: Vec<&str> = PAGES.iter().map(|(page, _)| *page).collect();
        known.sort_unstable();
        assert_eq!(pages, known);
    }
}
