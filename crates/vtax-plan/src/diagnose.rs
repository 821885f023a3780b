//! What is wrong with a plan, where, and the way out.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use serde::Serialize;

use crate::folder::Folder;
use crate::source::{Position, Source, SourceId, Span};

/// More errors than this are counted, not kept: a hostile plan could make millions.
const MAX_ERRORS: usize = 50;
/// Snippets show at most this many characters of a line.
const SNIPPET_WIDTH: usize = 110;

/// Why a plan can't be used, or another file that people write.
#[derive(Debug, thiserror::Error)]
pub enum PlanErrors {
    /// The file could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The reason.
        #[source]
        source: io::Error,
    },
    /// The file is larger than any plan.
    #[error("{} is larger than {limit} bytes", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// The file could be read but says things that make no plan.
    #[error("{}", .0.to_text(false).trim_end())]
    Invalid(Diagnostics),
}

impl PlanErrors {
    /// For people, with snippets; `colour` adds terminal escapes.
    #[must_use]
    pub fn to_text(&self, colour: bool) -> String {
        match self {
            Self::Invalid(diagnostics) => diagnostics.to_text(colour),
            other => {
                let style = Style { colour };
                let cause = std::error::Error::source(other).map_or(String::new(), |e| format!(": {e}"));
                let what = printable(&other.to_string());
                format!("{}{cause}\n", style.bold(&format!("{}: {what}", style.red("error"))))
            }
        }
    }

    /// For programs: `{"errors": [{"file", "line", "column", "message", "help"}]}`; `line` and
    /// `column` are missing where the file could not be read.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        match self {
            Self::Invalid(diagnostics) => {
                serde_json::json!({ "errors": diagnostics.iter().collect::<Vec<_>>() })
            }
            Self::Read { path, .. } | Self::TooLarge { path, .. } => {
                let cause = std::error::Error::source(self).map_or(String::new(), |e| format!(": {e}"));
                serde_json::json!({ "errors": [{ "file": path, "message": format!("{self}{cause}") }] })
            }
        }
    }
}

/// Everything wrong with one plan, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostics {
    sources: Vec<Source>,
    errors: Vec<Entry>,
    left_out: usize,
}

/// One error as programs see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Diagnostic<'a> {
    /// The file as the user named it, or `--set`.
    pub file: &'a str,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
    /// What is wrong.
    pub message: &'a str,
    /// The way out, where there is one to tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<&'a str>,
}

impl Diagnostics {
    /// The errors; never empty.
    pub fn iter(&self) -> impl Iterator<Item = Diagnostic<'_>> {
        self.errors.iter().map(|entry| {
            let source = &self.sources[usize::from(entry.span.source)];
            let Position { line, column } = source.position(entry.span.start);
            Diagnostic {
                file: &source.name,
                line,
                column,
                message: &entry.message,
                help: entry.help.as_deref(),
            }
        })
    }

    /// How many errors there are, those beyond the first fifty included.
    #[must_use]
    pub fn count(&self) -> usize {
        self.errors.len() + self.left_out
    }

    /// For people, with snippets; `colour` adds terminal escapes.
    #[must_use]
    pub fn to_text(&self, colour: bool) -> String {
        let style = Style { colour };
        let mut out = String::new();
        for entry in &self.errors {
            render(entry, &self.sources[usize::from(entry.span.source)], style, &mut out);
        }
        let total = self.count();
        let _ = match (total, self.left_out) {
            (1, _) => Ok(()),
            (_, 0) => writeln!(out, "{total} errors"),
            (_, hidden) => writeln!(out, "{total} errors, {hidden} of them not shown"),
        };
        out
    }
}

/// One error as kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    span: Span,
    message: String,
    help: Option<String>,
    /// Where the same thing was written before.
    first: Option<Span>,
    /// The line that it is about is shown.
    snippet: bool,
}

impl Entry {
    fn new(span: Span, message: String) -> Self {
        Self { span, message, help: None, first: None, snippet: true }
    }

    /// Adds the way out.
    pub(crate) fn help(&mut self, text: impl Into<String>) -> &mut Self {
        self.help = Some(text.into());
        self
    }

    /// Leaves the line out that it is about: nobody could read it.
    pub(crate) fn without_snippet(&mut self) -> &mut Self {
        self.snippet = false;
        self
    }

    /// Adds where the same thing was written before.
    pub(crate) fn first_at(&mut self, span: Span) -> &mut Self {
        self.first = Some(span);
        self
    }
}

/// Collects errors while a plan is read.
#[derive(Debug)]
pub(crate) struct Report {
    sources: Vec<Source>,
    errors: Vec<Entry>,
    /// Where errors beyond [`MAX_ERRORS`] are written, each over the last.
    spill: Entry,
    left_out: usize,
    /// Known keys that unknown ones were probably meant to be.
    pub(crate) guessed: BTreeSet<&'static str>,
    /// Where the files are that the plan names.
    pub(crate) folder: Folder,
}

impl Report {
    pub(crate) fn new(sources: Vec<Source>) -> Self {
        let spill = Entry::new(Span::default(), String::new());
        let (guessed, folder) = (BTreeSet::new(), Folder::default());
        Self { sources, errors: Vec::new(), spill, left_out: 0, guessed, folder }
    }

    /// Notes an error; the result takes the way out.
    pub(crate) fn error(&mut self, span: Span, message: impl Into<String>) -> &mut Entry {
        let entry = Entry::new(span, message.into());
        if self.errors.iter().any(|kept| kept.span == span && kept.message == entry.message) {
            // What many things of a plan refer to is looked at with each of them, and told once.
            self.spill = entry;
            return &mut self.spill;
        }
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(entry);
            self.errors.last_mut().unwrap_or(&mut self.spill)
        } else {
            self.left_out += 1;
            self.spill = entry;
            &mut self.spill
        }
    }

    /// Adds a file that the plan names, in which errors have places of their own; `None` where there are too many.
    pub(crate) fn add_source(&mut self, name: &str, text: &str) -> Option<SourceId> {
        let id = SourceId::try_from(self.sources.len()).ok()?;
        self.sources.push(Source { name: name.to_owned(), text: text.to_owned() });
        Some(id)
    }

    /// The text of a source.
    pub(crate) fn text(&self, source: usize) -> String {
        self.sources[source].text.clone()
    }

    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Everything that was noted, in the order of the text.
    pub(crate) fn finish(mut self) -> Diagnostics {
        self.errors.sort_by_key(|e| (e.span.source, e.span.start));
        self.errors.dedup();
        // Only now: finding lines takes time, and errors are few only here.
        for entry in &mut self.errors {
            let Some(first) = entry.first else { continue };
            let source = &self.sources[usize::from(first.source)];
            let place = format!("first at {}:{}", source.name, source.position(first.start).line);
            entry.help =
                Some(entry.help.take().map_or_else(|| place.clone(), |help| format!("{place}; {help}")));
        }
        Diagnostics { sources: self.sources, errors: self.errors, left_out: self.left_out }
    }
}

/// Terminal escapes, or none.
#[derive(Debug, Clone, Copy)]
struct Style {
    colour: bool,
}

impl Style {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn blue(self, text: &str) -> String {
        self.wrap("1;34", text)
    }

    fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }
}

/// Writes one error with its snippet.
fn render(entry: &Entry, source: &Source, style: Style, out: &mut String) {
    let Position { line, column } = source.position(entry.span.start);
    let number = line.to_string();
    let margin = " ".repeat(number.len());
    let _ = writeln!(
        out,
        "{}{}\n{margin}{} {}:{line}:{column}",
        style.red("error"),
        style.bold(&format!(": {}", printable(&entry.message))),
        style.blue("-->"),
        printable(&source.name),
    );
    if entry.snippet {
        let bar = style.blue("|");
        let (text, lead) = snippet(source.line_at(entry.span.start), column - 1);
        let carets = "^".repeat(caret_count(entry.span, source, text.chars().count().saturating_sub(lead)));
        let _ = writeln!(
            out,
            "{margin} {bar}\n{} {bar} {text}\n{margin} {bar} {}{}",
            style.blue(&number),
            " ".repeat(lead),
            style.red(&carets),
        );
    }
    if let Some(help) = &entry.help {
        let _ = writeln!(out, "{margin} {} {}", style.blue("="), printable(help));
    }
    out.push('\n');
}

/// How many characters of the first line the span covers, at least one, at most `room`.
fn caret_count(span: Span, source: &Source, room: usize) -> usize {
    let covered = source.text.get(span.start as usize..span.end as usize).unwrap_or("");
    covered.lines().next().unwrap_or("").chars().count().clamp(1, room.max(1))
}

/// The part of a line around a character, safe to print, and where in it the character is.
fn snippet(line: &str, at: usize) -> (String, usize) {
    let skip = if at > SNIPPET_WIDTH - 30 { at - 30 } else { 0 };
    let shown: String = line.chars().skip(skip).take(SNIPPET_WIDTH).collect();
    let (shown, lead) = if skip > 0 { (format!("...{shown}"), at - skip + 3) } else { (shown, at) };
    (printable(&shown), lead)
}

/// Replaces what could move the cursor or recolour the terminal, in one line.
fn printable(text: &str) -> String {
    vtax_units::printable(text).replace('\n', "\u{fffd}")
}

/// At most 60 characters of a text that came from outside, on one line.
pub(crate) fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(60).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(60).is_some() {
        short.push_str("...");
    }
    short
}

/// The known word that `word` was probably meant to be.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase().replace('-', "_");
    known
        .into_iter()
        .map(|k| (strsim::damerau_levenshtein(&lower, k), k))
        .filter(|(distance, k)| *distance <= 1 + k.len().max(lower.len()) / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, k)| k)
}

/// `a, b and c`.
pub(crate) fn listed<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(|w| format!("`{w}`")).collect();
    match words.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}
