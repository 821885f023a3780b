//! What a study's file says: `claims.yaml`, key by key.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The version that a study's file names in its key `version`.
pub const STUDY_VERSION: u32 = 1;

/// A published study.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Study {
    /// Format version, 1.
    pub version: u32,
    /// Short name, that of its folder.
    pub name: String,
    /// What was published.
    pub source: Source,
    /// What it asked, in a sentence.
    pub question: String,
    /// Every table and figure of the source, and the passages that claims come from, once each, in its order.
    pub items: Vec<Item>,
    /// Its numbers, as printed, as far as claims and rules use them.
    #[serde(default)]
    pub tables: Vec<Table>,
    /// What repeats it.
    pub experiments: Vec<ExperimentPlan>,
    /// What it says, in words of one's own.
    pub claims: Vec<Claim>,
    /// What its own numbers have to do with each other.
    #[serde(default)]
    pub rules: Vec<Rule>,
    /// What is wrong with it that no rule can find.
    #[serde(default)]
    pub noted: Vec<Noted>,
}

/// What was published.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Title.
    pub title: String,
    /// Authors, in order.
    pub authors: Vec<String>,
    /// Who published it.
    pub publisher: String,
    /// Year, where it is known.
    #[serde(default)]
    pub year: Option<u32>,
    /// What kind of text it is.
    pub kind: SourceKind,
    /// What the copy at hand lacks.
    #[serde(default)]
    pub copy: String,
}

/// Kinds of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SourceKind {
    /// In a journal, at a conference, on a site.
    Article,
    /// A thesis.
    Thesis,
    /// A report.
    Report,
}

/// A table, a figure or a passage of the source.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Item {
    /// As the source calls it: `table 4-1`.
    pub id: String,
    /// Its caption.
    pub title: String,
    /// What of it is at hand.
    pub content: Content,
    /// Claims that come from it.
    #[serde(default)]
    pub claims: Vec<String>,
    /// Why it has none.
    #[serde(default)]
    pub why: Option<String>,
}

/// What of a table or figure is at hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Its numbers or its words are printed.
    Printed,
    /// A picture that isn't at hand, of which the text reads something off.
    Picture,
    /// It isn't at hand.
    Missing,
    /// A passage of the text.
    Text,
}

impl Content {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::Picture => "picture",
            Self::Missing => "missing",
            Self::Text => "text",
        }
    }
}

/// Numbers as printed.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// What places call it.
    pub id: String,
    /// The item that it is of.
    pub item: String,
    /// Unit of its cells, where a row has none of its own.
    pub unit: String,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Row>,
}

/// A row of a table.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Name.
    pub name: String,
    /// Unit of its cells.
    #[serde(default)]
    pub unit: Option<String>,
    /// One for each column; null where nothing is printed.
    pub values: Vec<Option<f64>>,
}

/// A cell of a table. In a rule with `each`, what is left out is that of the row or column at hand.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Table.
    #[serde(default)]
    pub table: Option<String>,
    /// Row.
    #[serde(default)]
    pub row: Option<String>,
    /// Column.
    #[serde(default)]
    pub column: Option<String>,
}

/// A plan that repeats a part of the study.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentPlan {
    /// What claims call it; letters, digits and `-`.
    pub id: String,
    /// What it does.
    pub title: String,
    /// File of the plan that takes minutes, within the study's folder.
    pub quick: String,
    /// File of the whole plan.
    pub full: String,
    /// How many measurements the study made for a figure.
    pub trials: u32,
    /// Whether the study tells that.
    pub trials_from: TrialsFrom,
    /// What else of the plan changes where it is run as the study was (`PATH=VALUE`, as `vtax run --set` has it).
    #[serde(default)]
    pub as_published: Vec<String>,
    /// Where it differs from the study.
    #[serde(default)]
    pub deviations: Vec<String>,
}

impl ExperimentPlan {
    /// File of its plan.
    #[must_use]
    pub fn plan(&self, mode: Mode) -> &str {
        match mode {
            Mode::Quick => &self.quick,
            Mode::Full => &self.full,
        }
    }

    /// What changes in its plan where it is run as the study was, as `vtax run --set` has it.
    #[must_use]
    pub fn published_sets(&self) -> Vec<String> {
        let trials = format!("repeat={}", self.trials);
        [trials].into_iter().chain(self.as_published.iter().cloned()).collect()
    }
}

/// Where something is known from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrialsFrom {
    /// The study tells it.
    Told,
    /// It follows from what the study tells.
    Inferred,
}

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Minutes.
    Quick,
    /// As much as the claims take.
    Full,
}

impl Mode {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::Full => "full",
        }
    }
}

/// Something for each mode.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerMode<T> {
    /// Of the quick plan.
    pub quick: T,
    /// Of the full plan.
    pub full: T,
}

impl<T> PerMode<T> {
    /// That of a mode.
    #[must_use]
    pub fn of(&self, mode: Mode) -> &T {
        match mode {
            Mode::Quick => &self.quick,
            Mode::Full => &self.full,
        }
    }
}

/// Something that the study says.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Short name, unique in the study.
    pub id: String,
    /// The claim, in words of one's own.
    pub text: String,
    /// Where the study says it, or what it follows from.
    pub place: String,
    /// Whether the study says it in words.
    pub said: Said,
    /// Where its figures are from.
    pub figures: FiguresFrom,
    /// How much, as the study has it; shown, never judged.
    #[serde(default)]
    pub magnitude: Option<String>,
    /// What a run has to show for it to hold.
    #[serde(default)]
    pub test: Option<Test>,
    /// Why it has no test.
    #[serde(default)]
    pub why_not: Option<String>,
}

/// Whether a study says something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Said {
    /// In words.
    Quoted,
    /// It follows from its figures.
    Inferred,
}

impl Said {
    /// In a word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Quoted => "quoted",
            Self::Inferred => "inferred",
        }
    }
}

/// Where the figures of a claim are from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FiguresFrom {
    /// Printed.
    Printed,
    /// Read off a picture by the study.
    Picture,
    /// Worked out from others that are printed.
    Inferred,
    /// There are none at hand.
    Missing,
}

impl FiguresFrom {
    /// In a few words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Printed => "printed",
            Self::Picture => "read off a picture",
            Self::Inferred => "inferred",
            Self::Missing => "missing",
        }
    }
}

/// What a run has to show for a claim to hold.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Test {
    /// The experiment that shows it.
    pub experiment: String,
    /// Modes in which it does; both unless some are named.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// What its points have to be to each other.
    pub is: Kind,
    /// Of `knee`: the name of the point at the end of the largest step.
    #[serde(default)]
    pub at: Option<String>,
    /// Of `small`: no more than this.
    #[serde(default)]
    pub most: Option<f64>,
    /// Of `large`: no less than this.
    #[serde(default)]
    pub least: Option<f64>,
    /// A ratio within 1 ± this is equality; 0.1 unless given.
    #[serde(default)]
    pub margin: Option<f64>,
    /// How many of the groups have to hold; all unless given.
    #[serde(default)]
    pub enough: Option<usize>,
    /// Of `small` and `large`: how many attempts a count is of, which makes it a share.
    #[serde(default)]
    pub attempts: Option<PerMode<f64>>,
    /// Where all points are found in the experiment.
    #[serde(default)]
    pub of: Selector,
    /// The same, for one mode.
    #[serde(default)]
    pub of_modes: Option<PerMode<Selector>>,
    /// What the study looked at instead, where a better figure is at hand.
    #[serde(default)]
    pub as_published: Selector,
    /// Several of the same kind.
    #[serde(default)]
    pub groups: Vec<Group>,
    /// The points, where there is one group only.
    #[serde(default)]
    pub points: Vec<Point>,
}

/// What points have to be to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The first is higher than the second.
    Higher,
    /// All are as high as the last.
    Equal,
    /// Each is higher than the next.
    Order,
    /// The last is higher than the first, and no step goes down.
    Rising,
    /// The last is lower than the first, and no step goes up.
    Falling,
    /// The last step lies within the margin.
    LevelsOff,
    /// The largest step ends at the point `at`.
    Knee,
    /// The point is at most `most`.
    Small,
    /// The point is at least `least`.
    Large,
}

/// Points that are compared with each other.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// What tells it from the others.
    pub name: String,
    /// Modes in which it is there; both unless some are named.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// It has to be the opposite.
    #[serde(default)]
    pub not: bool,
    /// Where its points are found.
    #[serde(default)]
    pub of: Selector,
    /// What the study looked at instead.
    #[serde(default)]
    pub as_published: Selector,
    /// Its points, in order.
    pub points: Vec<Point>,
}

/// A figure of the study, and the one of a run that repeats it.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// What it is called in the report.
    pub name: String,
    /// Modes in which it is there; both unless some are named.
    #[serde(default)]
    pub modes: Vec<Mode>,
    /// The study's figure.
    #[serde(default)]
    pub study: Option<Place>,
    /// Where ours is found.
    pub ours: Selector,
    /// The same, for one mode.
    #[serde(default)]
    pub ours_modes: Option<PerMode<Selector>>,
    /// What the study looked at instead.
    #[serde(default)]
    pub as_published: Selector,
}

/// Where a figure is found in a run. What is left out is taken from the group, then from the test; exactly one cell must be left.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Selector {
    /// Name of the environment.
    #[serde(default)]
    pub environment: Option<String>,
    /// Name of the path.
    #[serde(default)]
    pub path: Option<String>,
    /// Name of the service.
    #[serde(default)]
    pub service: Option<String>,
    /// Parameters that vary, each with the values that it may have.
    #[serde(default)]
    pub with: BTreeMap<String, Vec<String>>,
    /// Name of the measure, of tests `MEASURE/TEST`.
    #[serde(default)]
    pub measure: Option<String>,
    /// Name of the metric, as in `summary.json`.
    #[serde(default)]
    pub metric: Option<String>,
    /// The figure is of so many together.
    #[serde(default)]
    pub divide: Option<f64>,
}

impl Selector {
    /// This one, with what `over` says instead.
    #[must_use]
    pub fn under(&self, over: &Self) -> Self {
        let chosen = |own: &Option<String>, other: &Option<String>| other.clone().or_else(|| own.clone());
        let mut with = self.with.clone();
        with.extend(over.with.iter().map(|(key, values)| (key.clone(), values.clone())));
        Self {
            environment: chosen(&self.environment, &over.environment),
            path: chosen(&self.path, &over.path),
            service: chosen(&self.service, &over.service),
            with,
            measure: chosen(&self.measure, &over.measure),
            metric: chosen(&self.metric, &over.metric),
            divide: over.divide.or(self.divide),
        }
    }
}

/// What the study's own numbers have to do with each other; exactly one of `equals`, `at_most` and `above`.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Short name, unique in the study.
    pub id: String,
    /// What must hold, in words.
    pub text: String,
    /// It must hold in each row, or in each column, of a table.
    #[serde(default)]
    pub each: Option<Each>,
    /// Both are the same.
    #[serde(default)]
    pub equals: Option<[Expression; 2]>,
    /// The first is no more than the second.
    #[serde(default)]
    pub at_most: Option<[Expression; 2]>,
    /// The first is more than the second.
    #[serde(default)]
    pub above: Option<[Expression; 2]>,
    /// Of `equals`: how far apart they may be, which is what rounding may do.
    #[serde(default)]
    pub within: Option<Expression>,
    /// Of `equals`: the same as a share of the second.
    #[serde(default)]
    pub within_share: Option<f64>,
}

/// Rows or columns of a table; without names, all rows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Each {
    /// Table.
    pub table: String,
    /// Names of rows.
    #[serde(default)]
    pub rows: Vec<String>,
    /// Names of columns.
    #[serde(default)]
    pub columns: Vec<String>,
}

/// A number with its unit; exactly one of its keys, `unit` apart.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expression {
    /// A cell of a table.
    #[serde(default)]
    pub cell: Option<Place>,
    /// A number of the text.
    #[serde(default)]
    pub value: Option<f64>,
    /// Its unit.
    #[serde(default)]
    pub unit: Option<String>,
    /// All of them together.
    #[serde(default)]
    pub sum: Option<Vec<Expression>>,
    /// Their mean.
    #[serde(default)]
    pub mean: Option<Vec<Expression>>,
    /// The largest of them.
    #[serde(default)]
    pub most: Option<Vec<Expression>>,
    /// One times the other.
    #[serde(default)]
    pub product: Option<Vec<Expression>>,
    /// The first divided by the second.
    #[serde(default)]
    pub quotient: Option<Vec<Expression>>,
}

/// Something that a reader finds wrong.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Noted {
    /// Where.
    pub place: String,
    /// What.
    pub text: String,
}

/// Whether something with these modes is there in one.
#[must_use]
pub(crate) fn in_mode(modes: &[Mode], mode: Mode) -> bool {
    modes.is_empty() || modes.contains(&mode)
}

impl Study {
    /// The table of that name.
    #[must_use]
    pub fn table(&self, id: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.id == id)
    }

    /// The experiment of that name.
    #[must_use]
    pub fn experiment(&self, id: &str) -> Option<&ExperimentPlan> {
        self.experiments.iter().find(|experiment| experiment.id == id)
    }

    /// The claim of that name.
    #[must_use]
    pub fn claim(&self, id: &str) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.id == id)
    }
}
