//! What a chapter of the report is: its sections of the page, its tables, its sheets and its part of the terminal's text.

use rust_xlsxwriter::{Workbook, XlsxError};
use vtax_store::summary::Comparison;

use crate::context::Context;
use crate::data::RunData;
use crate::markup::Markup;
use crate::table::Table;

/// A part of the report that is about one thing. `chapters.rs` lists them all.
///
/// Whatever a chapter has nothing to say about it leaves to the defaults, which add nothing.
pub(crate) trait Chapter: std::fmt::Debug + Send + Sync {
    /// Its part of the page.
    fn page(&self, _context: &Context) -> Page {
        Page::default()
    }

    /// Its tables, each a CSV file and a sheet of the workbook.
    fn tables(&self, _context: &Context) -> Vec<Table> {
        Vec::new()
    }

    /// Adds sheets whose layout is their own; they come before those of the tables.
    ///
    /// # Errors
    ///
    /// The library's, where a sheet can't be written.
    fn sheets(&self, _context: &Context, _book: &mut Workbook) -> Result<(), XlsxError> {
        Ok(())
    }

    /// Its part of what a terminal shows.
    fn terminal(&self, _context: &Context) -> Terminal {
        Terminal::default()
    }

    /// What the run found about what isn't an environment, where its plan compares such: sentences that come before the headline.
    fn asked(&self, _data: &RunData) -> Option<String> {
        None
    }

    /// The verdict in one sentence, where its first metric is told in another way than by environment.
    fn headline(&self, _data: &RunData, _metric: &str, _found: &[&Comparison]) -> Option<String> {
        None
    }
}

/// Where a section stands on the page, in the reader's order: what was found, the pictures that support it, the trials behind
/// them, then what is needed to repeat or to doubt it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// What the run was made to find out.
    Findings,
    /// What each environment costs.
    Taxes,
    /// What happened at faults.
    Faults,
    /// Why each verdict is what it is.
    Reasons,
    /// Pictures of what was measured.
    Pictures,
    /// A family's measurements in full.
    Details,
    /// Every trial.
    Trials,
    /// Every figure.
    Figures,
    /// Where the numbers come from, and what the words mean.
    Origin,
}

/// A section of the page.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) rank: Rank,
    /// Its address within the page.
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) body: Markup,
}

/// What chapters add to the page.
#[derive(Debug, Default)]
pub(crate) struct Page {
    pub(crate) sections: Vec<Section>,
    /// What couldn't be read of the run.
    pub(crate) damage: Vec<String>,
    /// Style sheets, in order.
    pub(crate) styles: Vec<&'static str>,
    /// Scripts, in order.
    pub(crate) scripts: Vec<&'static str>,
    /// Words to explain, with what they mean.
    pub(crate) words: Vec<(&'static str, &'static str)>,
}

impl Page {
    /// Adds a section; one without a body is none.
    pub(crate) fn put(&mut self, rank: Rank, id: &'static str, title: &'static str, body: Markup) {
        if !body.is_empty() {
            self.sections.push(Section { rank, id, title, body });
        }
    }

    /// Adds what another chapter has.
    pub(crate) fn append(&mut self, other: Self) {
        self.sections.extend(other.sections);
        self.damage.extend(other.damage);
        self.styles.extend(other.styles);
        self.scripts.extend(other.scripts);
        self.words.extend(other.words);
    }
}

/// What a chapter adds to the terminal's text.
#[derive(Debug, Default)]
pub(crate) struct Terminal {
    /// Names of measures that it shows itself: their rows are left out of the table of verdicts.
    pub(crate) measures: Vec<String>,
    /// After the table of verdicts.
    pub(crate) table: String,
    /// After the notes.
    pub(crate) end: String,
}
