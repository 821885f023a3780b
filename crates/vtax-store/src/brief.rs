//! A run in brief: what a list of many runs shows of each, read from the few bytes that hold it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};
use vtax_units::shortened;

use crate::record::{InvalidReason, TrialRecord};
use crate::run::{damaged, from_yaml};
use crate::summary::Verdict;
use crate::validity::Validity;
use crate::{JournalLine, JournalTail, Pairs, StoreError, files, tail};

/// Largest provenance and plan read for a brief, in bytes.
const SMALL: u64 = 4 << 20;
/// Largest summary.
const SUMMARY: u64 = 64 << 20;
/// Longest text kept of a name, in characters.
const NAME: usize = 120;
/// Longest text kept of a headline.
const HEADLINE: usize = 240;
/// Most tags kept of a run.
const TAGS: usize = 16;

/// The fact of `provenance.json` that holds the tags of a run, with commas between them.
pub const TAGS_FACT: &str = "tags";

/// A run in brief. Texts are cut to a length that a list can show.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunBrief {
    /// Identity of the run; empty in runs before journal version 3.
    pub run_id: String,
    /// Name of the plan.
    pub plan: String,
    /// Stable name of the machine.
    pub host: String,
    /// What `vtax run --tag` was given, in order.
    pub tags: Vec<String>,
    /// Version of vtax.
    pub vtax: String,
    /// Start, milliseconds since 1970.
    pub started_unix_ms: u64,
    /// End, milliseconds since 1970; `None` while it runs or where it was cut short.
    pub ended_unix_ms: Option<u64>,
    /// True once nothing is missing.
    pub complete: bool,
    /// The verdict in one sentence; empty where there is no summary yet.
    pub headline: String,
    /// Comparisons of the summary by verdict.
    pub verdicts: VerdictCounts,
    /// Trials made.
    pub trials: u32,
    /// Trials that count.
    pub valid: u32,
}

/// How many comparisons came to which verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct VerdictCounts {
    /// The candidate costs less.
    pub better: u32,
    /// The candidate costs more.
    pub worse: u32,
    /// The difference is within the margin.
    pub equivalent: u32,
    /// The data can't tell.
    pub inconclusive: u32,
}

impl VerdictCounts {
    fn add(&mut self, verdict: Verdict) {
        let count = match verdict {
            Verdict::Better => &mut self.better,
            Verdict::Worse => &mut self.worse,
            Verdict::Equivalent => &mut self.equivalent,
            Verdict::Inconclusive => &mut self.inconclusive,
        };
        *count = count.saturating_add(1);
    }

    /// How many came to this one.
    #[must_use]
    pub fn of(&self, verdict: Verdict) -> u32 {
        match verdict {
            Verdict::Better => self.better,
            Verdict::Worse => self.worse,
            Verdict::Equivalent => self.equivalent,
            Verdict::Inconclusive => self.inconclusive,
        }
    }
}

/// What tells whether a run changed since it was looked at: lengths and times of change of the files that a brief is made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RunStamp {
    /// Seconds and nanoseconds since 1970, then the length in bytes, so that the order is that of change.
    journal: (i64, i64, u64),
    summary: (i64, i64, u64),
    /// Without these two a run can't be read, and a copy of one gets them after its journal. That they may be read now is a change
    /// as well, so of these it is the time at which anything about the file changed.
    provenance: (i64, i64, u64),
    plan: (i64, i64, u64),
}

impl RunStamp {
    /// The stamp of the run in this directory; `None` where it is none. Costs four system calls, of what is no run one.
    #[must_use]
    pub fn of(run: &Path) -> Option<Self> {
        let meta = |name: &str| fs::symlink_metadata(run.join(name)).ok().filter(fs::Metadata::is_file);
        let written = |name: &str| meta(name).map(|m| (m.mtime(), m.mtime_nsec(), m.len()));
        let changed = |name: &str| meta(name).map(|m| (m.ctime(), m.ctime_nsec(), m.len()));
        Some(Self {
            journal: written("journal.jsonl")?,
            summary: written("summary.json").unwrap_or_default(),
            provenance: changed("provenance.json").unwrap_or_default(),
            plan: changed("plan.yaml").unwrap_or_default(),
        })
    }

    /// Whether there is a summary.
    #[must_use]
    pub fn has_summary(&self) -> bool {
        self.summary != <(i64, i64, u64)>::default()
    }

    /// Length of the journal in bytes.
    #[must_use]
    pub fn journal_length(&self) -> u64 {
        self.journal.2
    }
}

/// The part of `provenance.json` that a brief needs.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Origin {
    run_id: String,
    vtax_version: String,
    started_unix_ms: u64,
    ended_unix_ms: Option<u64>,
    host: Host,
    facts: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Host {
    name: String,
}

/// The part of `summary.json`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Judged {
    plan: String,
    headline: String,
    comparisons: Vec<OneVerdict>,
    trials: Vec<OneTrial>,
}

#[derive(Debug, Deserialize)]
struct OneVerdict {
    verdict: Verdict,
}

#[derive(Debug, Deserialize)]
struct OneTrial {
    valid: bool,
}

/// The part of `plan.yaml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named {
    name: String,
}

impl RunBrief {
    /// Reads the run in this directory, in brief. What a summary judged counts as long as trials that came later
    /// have no summary yet; trials are those of the journal until the run is complete.
    ///
    /// # Errors
    ///
    /// [`StoreError::Io`] where provenance or journal can't be read, [`StoreError::Damaged`] where a file isn't what
    /// vtax wrote.
    pub fn read(run: &Path) -> Result<Self, StoreError> {
        let path = run.join("provenance.json");
        let origin: Origin = parse(&path, &files::read_text(&path, SMALL)?)?;
        let path = run.join("summary.json");
        let complete = tail::ends_completed(&run.join("journal.jsonl"));
        let judged = match path.exists() {
            true => {
                let mut judged = parse::<Judged>(&path, &files::read_text(&path, SUMMARY)?)?;
                // A run that was resumed has trials that its summary doesn't know.
                if !complete {
                    judged.trials = trials_so_far(run)?;
                }
                judged
            }
            false => judged_so_far(run)?,
        };
        let mut verdicts = VerdictCounts::default();
        judged.comparisons.iter().for_each(|c| verdicts.add(c.verdict));
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let tags = origin.facts.get(TAGS_FACT).map(String::as_str).unwrap_or_default();
        Ok(Self {
            run_id: shortened(&origin.run_id, NAME),
            plan: shortened(&judged.plan, NAME),
            host: shortened(&origin.host.name, NAME),
            tags: tags
                .split(',')
                .map(|t| shortened(t.trim(), NAME))
                .filter(|t| !t.is_empty())
                .take(TAGS)
                .collect(),
            vtax: shortened(&origin.vtax_version, NAME),
            started_unix_ms: origin.started_unix_ms,
            ended_unix_ms: origin.ended_unix_ms,
            complete,
            headline: shortened(&judged.headline, HEADLINE),
            verdicts,
            trials: count(judged.trials.len()),
            valid: count(judged.trials.iter().filter(|t| t.valid).count()),
        })
    }
}

/// What the journal tells of a run that has no summary yet.
fn judged_so_far(run: &Path) -> Result<Judged, StoreError> {
    let path = run.join("plan.yaml");
    let text = files::read_text(&path, SMALL)?;
    let named: Named = from_yaml(&text).map_err(|e| damaged(&path, &e))?;
    Ok(Judged { plan: named.name, trials: trials_so_far(run)?, ..Judged::default() })
}

/// The trials of the journal.
fn trials_so_far(run: &Path) -> Result<Vec<OneTrial>, StoreError> {
    let mut trials = Vec::new();
    let mut journal = JournalTail::after(run, 0);
    let mut pairs = Pairs::default();
    let counted = |trial: TrialRecord| OneTrial { valid: trial.validity == Validity::Valid };
    loop {
        let lines = journal.read()?;
        if lines.is_empty() {
            trials.extend(pairs.end().map(counted));
            return Ok(trials);
        }
        for line in lines.into_iter().filter(|line| line.event == "trial-ended") {
            trials.extend(pairs.take(trial_of(line)).into_iter().map(counted));
        }
    }
}

/// As much of a trial as its line says that tells whether it counts.
fn trial_of(line: JournalLine) -> TrialRecord {
    let unknown = || Validity::Invalid { reason: InvalidReason::MeasureFailed, detail: String::new() };
    TrialRecord {
        index: line.index,
        partner: line.partner,
        validity: line.validity.unwrap_or_else(unknown),
        ..TrialRecord::default()
    }
}

fn parse<T: serde::de::DeserializeOwned>(path: &Path, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|e| damaged(path, &e))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn write(run: &Path, name: &str, text: &str) {
        fs::write(run.join(name), text).unwrap();
    }

    #[test]
    fn a_run_in_brief_with_and_without_a_summary() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        assert_eq!(RunStamp::of(run), None);
        write(
            run,
            "provenance.json",
            r#"{"run_id":"ab","host":{"name":"box"},"started_unix_ms":5,"facts":{"tags":"a, b,,"}}"#,
        );
        write(run, "plan.yaml", "version: 1\nname: quick\ncells: []\n");
        let journal = "{\"event\":\"opened\",\"version\":3}\n\
            {\"event\":\"trial-ended\",\"index\":0,\"cell\":\"c\",\"validity\":{\"validity\":\"valid\"}}\n";
        write(run, "journal.jsonl", journal);
        let stamp = RunStamp::of(run).unwrap();
        let brief = RunBrief::read(run).unwrap();
        assert_eq!(
            (brief.plan.as_str(), brief.host.as_str(), brief.trials, brief.valid),
            ("quick", "box", 1, 1)
        );
        assert_eq!(brief.tags, ["a", "b"]);
        assert!(!brief.complete && brief.headline.is_empty());
        let summary = r#"{"version":1,"plan":"quick","complete":true,"headline":"HEAD","comparisons":[{"verdict":"worse","tax":2},
            {"verdict":"inconclusive"}],"trials":[{"valid":true},{"valid":false}],"cells":[],"notes":[]}"#;
        write(run, "summary.json", &summary.replace("HEAD", &"x".repeat(1000)));
        assert!(!stamp.has_summary() && RunStamp::of(run).unwrap().has_summary());
        assert_ne!(RunStamp::of(run), Some(stamp));
        write(run, "journal.jsonl", &format!("{journal}{{\"event\":\"completed\"}}\n"));
        let brief = RunBrief::read(run).unwrap();
        assert_eq!((brief.verdicts.worse, brief.verdicts.of(Verdict::Inconclusive)), (1, 1));
        assert_eq!((brief.trials, brief.valid, brief.headline.chars().count()), (2, 1, HEADLINE));
    }

    /// They stood still from the resumption to the end.
    #[test]
    fn the_trials_of_a_resumed_run_are_those_of_its_journal() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        write(run, "provenance.json", "{}");
        let summary = r#"{"plan":"quick","headline":"so far","comparisons":[{"verdict":"worse"}],"trials":[{"valid":true}]}"#;
        write(run, "summary.json", summary);
        let ended = |index: u32| {
            format!(
                "{{\"event\":\"trial-ended\",\"index\":{index},\"validity\":{{\"validity\":\"valid\"}}}}\n"
            )
        };
        let mut journal = format!("{{\"event\":\"opened\",\"version\":3}}\n{}", ended(0));
        for (index, trials) in [(1, 2), (2, 3)] {
            journal.push_str(&ended(index));
            write(run, "journal.jsonl", &journal);
            let brief = RunBrief::read(run).unwrap();
            assert!(!brief.complete);
            assert_eq!((brief.trials, brief.valid, brief.verdicts.worse), (trials, trials, 1));
            assert_eq!((brief.plan.as_str(), brief.headline.as_str()), ("quick", "so far"));
        }
    }

    /// A run that is copied, or whose files are made readable, isn't what it was while it couldn't be read.
    #[test]
    fn files_that_come_after_the_journal_are_a_change() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        write(run, "journal.jsonl", "{\"event\":\"opened\",\"version\":3}\n");
        let mut stamp = RunStamp::of(run).unwrap();
        assert!(RunBrief::read(run).is_err());
        let plans = [("plan.yaml", "name: quick\n"), ("plan.yaml", "name: q\n")];
        for (name, text) in [("provenance.json", "{}")].into_iter().chain(plans) {
            write(run, name, text);
            let after = RunStamp::of(run).unwrap();
            assert_ne!(after, stamp, "{name}");
            stamp = after;
        }
        assert!(RunBrief::read(run).is_ok());
        // A clock of files may have ticks of some milliseconds.
        let mode = fs::Permissions::from_mode(0o640);
        let changed = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(5));
            fs::set_permissions(run.join("provenance.json"), mode.clone()).unwrap();
            RunStamp::of(run) != Some(stamp)
        });
        assert!(changed, "who may read it is no part of the stamp");
    }

    #[test]
    fn what_is_no_run_is_an_error_that_names_the_file() {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "provenance.json", "7");
        let error = RunBrief::read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("provenance.json") && error.contains("damaged"), "{error}");
    }

    proptest! {
        /// Files of others are read or refused, and nothing else.
        #[test]
        fn any_files_are_read_or_refused(texts in prop::array::uniform4("[\\[\\]{}\":,0-9a-z\n \u{fe}-\u{100}]{0,60}")) {
            let dir = tempfile::tempdir().unwrap();
            for (name, text) in ["provenance.json", "summary.json", "plan.yaml", "journal.jsonl"].iter().zip(&texts) {
                write(dir.path(), name, text);
            }
            let _ = RunBrief::read(dir.path());
            fs::remove_file(dir.path().join("summary.json")).unwrap();
            let _ = RunBrief::read(dir.path());
        }
    }
}
