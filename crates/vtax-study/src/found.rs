//! A study reproduced: every claim judged in every way, and which conclusions that changes.

use std::collections::BTreeMap;

use crate::figures::{Experiment, State};
use crate::judge::{Judged, Way, Word, judge};
use crate::model::{Claim, Mode, Study};
use crate::rules::{RuleFound, rules};

/// A study reproduced.
#[derive(Debug, Clone, PartialEq)]
pub struct Reproduction {
    /// Which plans were run.
    pub mode: Mode,
    /// Its claims, in the study's order.
    pub claims: Vec<FoundClaim>,
    /// Its rules, in the study's order.
    pub rules: Vec<RuleFound>,
    /// How far each experiment came, by its id.
    pub states: BTreeMap<String, State>,
    /// Experiments that were also run as the study ran them.
    pub published: Vec<String>,
    /// The machines.
    pub hosts: Vec<Host>,
}

/// A machine that experiments ran on, and when.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Host {
    /// CPU, number of CPUs and kernel.
    pub text: String,
    /// How virtual machines were executed.
    pub accelerator: Option<String>,
    /// Version of vtax.
    pub vtax: String,
}

/// A claim with its verdicts.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundClaim {
    /// Its id.
    pub id: String,
    /// By the study's own figures; `None` where it has none at hand.
    pub printed: Option<Judged>,
    /// By our run, judged as the study judged its own.
    pub published: Judged,
    /// Whether that run was made as the study made its own, or is the first trials of the other.
    pub published_run: bool,
    /// By our run, properly.
    pub properly: Judged,
}

/// What is concluded of a claim in one way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conclusion {
    /// In which way.
    pub way: Way,
    /// What is concluded.
    pub word: Word,
}

/// A claim of which different ways conclude different things.
#[derive(Debug, Clone, PartialEq)]
pub struct Change<'a> {
    /// The claim.
    pub claim: &'a FoundClaim,
    /// What each way that could be taken concludes.
    pub conclusions: Vec<Conclusion>,
}

/// Judges every claim of a study. `proper` has the run of each experiment, `published` those that were run as the study ran them.
#[must_use]
pub fn reproduce(
    study: &Study,
    mode: Mode,
    proper: &BTreeMap<String, Experiment>,
    published: &BTreeMap<String, Experiment>,
    hosts: Vec<Host>,
) -> Reproduction {
    let none = Experiment::default();
    let claims = study.claims.iter().map(|claim| {
        let id = claim.test.as_ref().map_or("", |test| test.experiment.as_str());
        let run = proper.get(id).unwrap_or(&none);
        found(study, claim, mode, (run, published.get(id)))
    });
    let states = study.experiments.iter().map(|experiment| {
        let state = proper.get(&experiment.id).map(|run| run.state.clone()).unwrap_or_default();
        (experiment.id.clone(), state)
    });
    Reproduction {
        mode,
        claims: claims.collect(),
        rules: rules(study),
        states: states.collect(),
        published: published.keys().cloned().collect(),
        hosts,
    }
}

fn found(
    study: &Study,
    claim: &Claim,
    mode: Mode,
    (run, published): (&Experiment, Option<&Experiment>),
) -> FoundClaim {
    let Some(test) = &claim.test else {
        let why = claim.why_not.clone().unwrap_or_default();
        let open = Judged { word: Word::CantRun, why, steps: Vec::new(), emulated: false };
        return FoundClaim {
            id: claim.id.clone(),
            printed: None,
            published: open.clone(),
            published_run: false,
            properly: open,
        };
    };
    let in_way = |experiment, way| judge(study, test, experiment, mode, way);
    let printed = in_way(run, Way::Printed);
    FoundClaim {
        id: claim.id.clone(),
        printed: (printed.word != Word::CantRun).then_some(printed),
        published: in_way(published.unwrap_or(run), Way::AsPublished),
        published_run: published.is_some(),
        properly: in_way(run, Way::Properly),
    }
}

impl FoundClaim {
    /// What each way that could be taken concludes.
    #[must_use]
    pub fn conclusions(&self) -> Vec<Conclusion> {
        let ways = [
            (Way::Printed, self.printed.as_ref()),
            (Way::AsPublished, Some(&self.published)),
            (Way::Properly, Some(&self.properly)),
        ];
        let judged = ways.into_iter().filter_map(|(way, judged)| Some((way, judged?.word)));
        judged
            .filter(|(_, word)| *word != Word::CantRun)
            .map(|(way, word)| Conclusion { way, word })
            .collect()
    }
}

impl Reproduction {
    /// Claims of which different ways conclude different things.
    #[must_use]
    pub fn changes(&self) -> Vec<Change<'_>> {
        let all = self.claims.iter().map(|claim| Change { claim, conclusions: claim.conclusions() });
        // Means always decide: where they don't, figures are missing, and that is no matter of the method.
        let decided = |claim: &FoundClaim| matches!(claim.published.word, Word::Held | Word::Contradicted);
        all.filter(|change| decided(change.claim))
            .filter(|change| change.conclusions.windows(2).any(|pair| pair[0].word != pair[1].word))
            .collect()
    }

    /// How many claims came to each word, properly: held, contradicted, can't tell, can't be run.
    #[must_use]
    pub fn counts(&self) -> [(Word, usize); 4] {
        let count = |word: Word| self.claims.iter().filter(|claim| claim.properly.word == word).count();
        [Word::Held, Word::Contradicted, Word::CantTell, Word::CantRun].map(|word| (word, count(word)))
    }
}
