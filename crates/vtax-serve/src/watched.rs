//! Runs that somebody follows: read once, and then only what comes.

use std::sync::Mutex;

use axum::http::StatusCode;
use vtax_report::markup::Markup;
use vtax_report::pages::Progress;
use vtax_store::{RunDir, RunStamp};
use vtax_sys::sync::lock;

use crate::index::{Entry, Index, RunId};
use crate::refusal::Refusal;

/// Runs that are kept in memory: the one that goes on, and one more to look at beside it.
const KEPT: usize = 2;
/// Longest journal that is drawn, in bytes.
const LONGEST: u64 = 256 << 20;

/// Runs that somebody follows.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    /// The one that was asked for last comes last.
    runs: Mutex<Vec<(RunId, RunStamp, Progress, Markup)>>,
}

impl Watched {
    /// What a run has come to until now, as it is shown.
    ///
    /// # Errors
    ///
    /// Where the run can't be read, or is too long.
    pub(crate) fn markup(&self, index: &Index, entry: &Entry) -> Result<Markup, Refusal> {
        let path = index.path(entry);
        let stamp = not_too_long(RunStamp::of(&path))?;
        let mut runs = lock(&self.runs);
        let at = runs.iter().position(|(id, ..)| *id == entry.id);
        let (progress, markup) = match at.map(|at| runs.remove(at)) {
            Some((_, known, progress, markup)) if known == stamp => (progress, markup),
            Some((_, _, mut progress, _)) => {
                progress.catch_up()?;
                let markup = progress.markup();
                (progress, markup)
            }
            None => {
                let progress = Progress::read(&RunDir::open(&path)?)?;
                let markup = progress.markup();
                (progress, markup)
            }
        };
        let shown = markup.clone();
        runs.push((entry.id, stamp, progress, markup));
        if runs.len() > KEPT {
            runs.remove(0);
        }
        Ok(shown)
    }
}

/// The stamp of a run whose journal can be drawn.
///
/// # Errors
///
/// Where it is gone, or its journal is too long.
pub(crate) fn not_too_long(stamp: Option<RunStamp>) -> Result<RunStamp, Refusal> {
    let stamp = stamp.ok_or_else(|| Refusal::missing("such run any more"))?;
    if stamp.journal_length() > LONGEST {
        let text = format!(
            "Its journal is longer than {} MiB. `vtax report` writes its report all the same.",
            LONGEST >> 20
        );
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, text));
    }
    Ok(stamp)
}
