//! A run, read once and reduced to what a report shows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use hdrhistogram::Histogram;
use vtax_load::LatencyHistogram;
use vtax_load::sip::ScriptFigures;
use vtax_plan::model::{Cell, EnvironmentKind, PathKind, Plan};
use vtax_store::record::{JournalEntry, TrialRecord, Validity, left_out_reason};
use vtax_store::{Calibration, Pairs, Provenance, RunDir};

use crate::ReportError;
use crate::consolidation::trial::{self as systems, SystemFound};
use crate::families;
use crate::family::script::trial as script;
use crate::general::trial::of_lifecycle;
use crate::metric::{LIFECYCLE, Percentiles, Value, enough, measure_of_test, needed};

/// Trials that a report takes in, at ten seconds each some two days of them. What comes after is counted and told: a run
/// directory may be anyone's, and the memory and time that its report takes must have an end.
const MOST_TRIALS: usize = 20_000;
/// Different notes that a report takes in.
const MOST_NOTES: usize = 1_000;
/// What TCG is, said beside its first mention.
pub(crate) const SPELT_OUT: &str = ", software emulation";

/// A run without its bulk: per trial some figures, per cell and measure one histogram.
#[derive(Debug)]
pub(crate) struct RunData {
    pub(crate) plan: Plan,
    pub(crate) provenance: Provenance,
    pub(crate) complete: bool,
    /// With the cell they concern, if one.
    pub(crate) notes: Vec<(Option<String>, String)>,
    /// What the run, while it went on, said that it would be able to tell.
    pub(crate) forecasts: Vec<String>,
    /// When it was cut short and when it went on, in milliseconds since 1970.
    pub(crate) interruptions: Vec<(u64, u64)>,
    /// Their histograms are emptied.
    pub(crate) trials: Vec<TrialRecord>,
    /// What this testbed was shown to tell apart, where the run took that along.
    pub(crate) calibration: Option<Calibration>,
    /// Figures of valid trials by cell and measure.
    pub(crate) values: BTreeMap<(String, String), Vec<Figures>>,
    /// Latency of all valid trials by cell and measure.
    pub(crate) latency: BTreeMap<(String, String), Histogram<u64>>,
    /// Cells and measures with a histogram whose buckets differ from those of all others: `latency` of these isn't exact.
    pub(crate) unlike: BTreeSet<(String, String)>,
    /// What calls after a scenario found in all valid trials, by cell and measure.
    pub(crate) calls: BTreeMap<(String, String), ScriptFigures>,
    /// Each system of valid trials on several, trial by trial.
    pub(crate) systems: Vec<SystemFound>,
    /// Names of what is measured: the plan's measures, of network tests each test.
    measures: Vec<String>,
    /// Machines that trials were made on, numbered in the order of their first.
    hosts: HashMap<String, usize>,
    /// Rounds, numbered in the order of their first trials: each is of one machine and, where trials of all measures come together,
    /// of one measure.
    rounds: HashMap<(usize, Option<usize>, u32), u32>,
    /// Where among the figures of its cell and measure each trial's own are.
    own: HashMap<u32, usize>,
    /// Half of a pair whose other half wasn't read yet.
    pairs: Pairs,
    /// Notes that were taken, so that none is twice.
    noted: BTreeSet<(Option<String>, String)>,
    /// Trials and notes that were too many.
    beyond: (usize, usize),
    /// The last moment that is known of a session, in milliseconds since 1970.
    last: u64,
    /// When the run was cut short and went on, as long as no trial was made since.
    resumed: Option<(u64, u64)>,
}

/// The figures of one valid trial.
#[derive(Debug)]
pub(crate) struct Figures {
    /// Number of the trial.
    pub(crate) trial: u32,
    round: u32,
    /// Cell of the trial that was made at the same time.
    partner: Option<String>,
    /// Answers whose latency it has, and the percentiles of it that are metrics.
    answers: u64,
    percentiles: Percentiles,
    pub(crate) values: Vec<Value>,
}

/// One metric of one side of a comparison, trial by trial.
#[derive(Debug, Default)]
pub(crate) struct OneSide {
    /// In the order of time.
    pub(crate) found: Vec<Value>,
    /// The round of each.
    pub(crate) rounds: Vec<u32>,
    /// The number of the trial of each.
    pub(crate) trials: Vec<u32>,
}

impl RunData {
    /// Reads the journal, one trial in memory at a time.
    pub(crate) fn read(run: &RunDir) -> Result<Self, ReportError> {
        let mut data = Self::begin(run)?;
        for entry in run.journal()? {
            data.take(entry?);
        }
        // Nothing follows: where this is half of a pair, the run ended before the other half.
        data.end_pair();
        Ok(data)
    }

    /// A run of whose journal nothing was read yet.
    pub(crate) fn begin(run: &RunDir) -> Result<Self, ReportError> {
        let mut data = Self {
            plan: run.plan()?,
            provenance: run.provenance()?,
            complete: false,
            notes: Vec::new(),
            interruptions: Vec::new(),
            trials: Vec::new(),
            calibration: run.calibration()?,
            values: BTreeMap::new(),
            latency: BTreeMap::new(),
            unlike: BTreeSet::new(),
            calls: BTreeMap::new(),
            systems: Vec::new(),
            measures: Vec::new(),
            hosts: HashMap::new(),
            rounds: HashMap::new(),
            own: HashMap::new(),
            forecasts: Vec::new(),
            pairs: Pairs::default(),
            noted: BTreeSet::new(),
            beyond: (0, 0),
            last: 0,
            resumed: None,
        };
        data.measures = data.plan.measures.iter().flat_map(|m| families::names_of(&data.plan, m)).collect();
        Ok(data)
    }

    /// Takes the next entry of the journal in. Half of a pair shows in nothing as long as the run may still write the other.
    pub(crate) fn take(&mut self, entry: JournalEntry) {
        match entry {
            JournalEntry::TrialEnded(record) => {
                self.interruptions.extend(self.resumed.take());
                self.last = self.last.max(record.ended_unix_ms());
                let known = self.pairs.take(*record);
                self.add_known(known);
            }
            JournalEntry::Note { cell, text, at_unix_ms, forecast_of } => {
                self.last = self.last.max(at_unix_ms);
                // A resumed run may note the same again.
                let note = (cell, text);
                if self.noted.contains(&note) {
                    return;
                }
                if self.noted.len() == MOST_NOTES {
                    self.beyond.1 += 1;
                    return;
                }
                self.noted.insert(note.clone());
                match forecast_of {
                    Some(_) => self.forecasts.push(note.1),
                    None => self.notes.push(note),
                }
            }
            JournalEntry::Completed { .. } => {
                self.end_pair();
                self.complete = true;
            }
            JournalEntry::Resumed { at_unix_ms } => {
                self.end_pair();
                self.complete = false;
                self.resumed = Some((self.resumed.map_or(self.last, |(from, _)| from), at_unix_ms));
            }
            JournalEntry::Opened { .. } | JournalEntry::TrialStarted { .. } => {}
        }
    }

    /// Takes half of a pair in whose other half won't come.
    fn end_pair(&mut self) {
        let half = self.pairs.end();
        self.add_known(half.into_iter().collect());
    }

    /// Takes trials in as long as all of them fit: half of a pair would tell nothing.
    fn add_known(&mut self, known: Vec<TrialRecord>) {
        if self.beyond.0 > 0 || self.trials.len() + known.len() > MOST_TRIALS {
            self.beyond.0 += known.len();
            return;
        }
        known.into_iter().for_each(|record| self.add(record));
    }

    /// Forgets what was noted of a cell that was left out, as it was measured after all: where a resumed run leaves it out again,
    /// that is told again.
    fn forget_left_out(&mut self, measured: &str) {
        let is_over = |(about, text): &(Option<String>, String)| {
            about.as_deref() == Some(measured) && left_out_reason(text).is_some()
        };
        if self.notes.iter().any(is_over) {
            self.notes.retain(|note| !is_over(note));
            self.noted.retain(|note| !is_over(note));
        }
    }

    fn add(&mut self, mut record: TrialRecord) {
        if record.validity == Validity::Valid {
            self.forget_left_out(&record.cell);
        }
        if !self.hosts.contains_key(&record.host) {
            self.hosts.insert(record.host.clone(), self.hosts.len());
        }
        for found in families::observed(&record) {
            let measure =
                found.test.map_or_else(|| record.measure.clone(), |t| measure_of_test(&record.measure, t));
            let key = (record.cell.clone(), measure);
            if let Some(latency) = found.latency.filter(|l| !l.is_empty()) {
                let empty = LatencyHistogram::new();
                if latency.parameters() != empty.parameters() {
                    self.unlike.insert(key.clone());
                }
                let merged = self.latency.entry(key.clone()).or_insert_with(|| empty.0);
                // Can't fail: the histogram grows by itself.
                let _ = merged.add(&latency.0);
            }
            let answers = found.latency.map_or(0, LatencyHistogram::len);
            let percentiles = found.percentiles;
            let figures = Figures { answers, percentiles, ..self.figures(&record, false, found.values) };
            let is_own = found.test.is_none();
            let all = self.values.entry(key).or_default();
            if is_own {
                self.own.entry(record.index).or_insert(all.len());
            }
            all.push(figures);
        }
        let of_lifecycle = of_lifecycle(&record);
        if !of_lifecycle.is_empty() {
            let key = (record.cell.clone(), LIFECYCLE.to_owned());
            let figures = self.figures(&record, true, of_lifecycle);
            self.values.entry(key).or_default().push(figures);
        }
        self.systems.extend(systems::read(&record));
        if let Some(found) = script::of_all(&record) {
            let key = (record.cell.clone(), record.measure.clone());
            self.calls.entry(key).or_default().add(found);
        }
        families::forget_histograms(&mut record);
        self.trials.push(record);
    }

    /// `pooled` where trials of all measures come together: then rounds of different measures differ.
    fn figures(&mut self, record: &TrialRecord, pooled: bool, values: Vec<Value>) -> Figures {
        // Runs of before rounds were recorded made them all the same: an attempt each.
        let round = record.round.unwrap_or(record.repetition);
        let place = || self.plan.measures.iter().position(|m| m.name == record.measure).unwrap_or_default();
        let measure = pooled.then(place);
        // A round is of one machine: a tax taken within it must not be the difference between two of them.
        let host = self.hosts.get(&record.host).copied().unwrap_or_default();
        // At most one for each trial that is taken in, and one more.
        let next = self.rounds.len() as u32;
        let round = *self.rounds.entry((host, measure, round)).or_insert(next);
        let partner = record.partner.as_ref().map(|p| p.cell.clone());
        Figures { trial: record.index, round, partner, answers: 0, percentiles: &[], values }
    }

    /// The figures of the valid trials of a cell, in the order of time.
    pub(crate) fn figures_of(&self, cell: &str, measure: &str) -> &[Figures] {
        self.values.get(&(cell.to_owned(), measure.to_owned())).map_or(&[][..], Vec::as_slice)
    }

    /// What a trial found under the name of its measure; none where it doesn't count, or of tests with names of their own.
    pub(crate) fn of_trial(&self, record: &TrialRecord) -> &[Value] {
        let own = self.own.get(&record.index);
        let figures = own.and_then(|place| self.figures_of(&record.cell, &record.measure).get(*place));
        figures.filter(|f| f.trial == record.index).map_or(&[][..], |f| f.values.as_slice())
    }

    /// What the journal has more of than a report takes in, in words.
    pub(crate) fn too_many(&self) -> Option<String> {
        let (trials, notes) = self.beyond;
        let of =
            |n: usize, most: usize, what: &str| (n > 0).then(|| format!("{n} {what} after the first {most}"));
        // A pair that didn't fit as a whole leaves a place free.
        let parts = [of(trials, self.trials.len(), "trials"), of(notes, MOST_NOTES, "notes")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty())
            .then(|| format!("Left out of this report, which has an end: {}.", parts.join(", ")))
    }

    /// Why a cell has no figure of a percentile: its trials had too few answers. `None` where that isn't why.
    pub(crate) fn too_few(&self, cell: &str, measure: &str, metric: &str) -> Option<String> {
        let trials = self.figures_of(cell, measure);
        let mut wanted = trials.iter().flat_map(|t| t.percentiles);
        let (_, q) = wanted.find(|(name, _)| *name == metric)?;
        let most = trials.iter().map(|t| t.answers).max()?;
        (most > 0 && !enough(most, *q)).then(|| {
            format!(
                "trials had {most} answers at most, and this percentile takes {}: a longer duration or a higher load \
                 gives it",
                needed(*q)
            )
        })
    }

    /// The values of one metric, one per valid trial that has it.
    pub(crate) fn metric(&self, cell: &str, measure: &str, metric: &str) -> Vec<Value> {
        self.side(cell, measure, metric, None).found
    }

    /// The values of a metric with their rounds; where trials were made in pairs only of those made with a trial of `with`.
    pub(crate) fn side(&self, cell: &str, measure: &str, metric: &str, with: Option<&str>) -> OneSide {
        let mut side = OneSide::default();
        for trial in self.figures_of(cell, measure) {
            let other = trial.partner.as_deref().is_some_and(|p| with.is_some_and(|w| w != p));
            let value = trial.values.iter().find(|v| v.metric == metric);
            if let Some(value) = value.filter(|_| !other) {
                side.found.push(*value);
                side.rounds.push(trial.round);
                side.trials.push(trial.trial);
            }
        }
        side
    }

    /// Names of the plan's measures, of network tests each test, then [`LIFECYCLE`].
    pub(crate) fn measures(&self) -> impl Iterator<Item = &str> {
        self.measures.iter().map(String::as_str).chain([LIFECYCLE])
    }

    /// The plan's cell of that id.
    pub(crate) fn cell(&self, id: &str) -> Option<&Cell> {
        self.plan.cells.iter().find(|c| c.id == id)
    }

    /// Why a cell was left out, in one line.
    pub(crate) fn left_out(&self, cell: &str) -> Option<&str> {
        let mut notes = self.notes.iter().filter(|(about, _)| about.as_deref() == Some(cell));
        // What a console said last follows the reason, line by line.
        notes.find_map(|(_, text)| left_out_reason(text)?.lines().next())
    }

    /// `tcg` or `kvm` where a cell's figures are a virtual machine's: its own, its client's, or that of the routers on its
    /// path; from its trials or, for an environment, from provenance.
    pub(crate) fn accelerator(&self, cell: &Cell) -> Option<String> {
        let of = |measured: bool| {
            let mut trials =
                self.trials.iter().filter(|t| t.cell == cell.id && t.finding().is_some() == measured);
            trials.find_map(|t| t.accelerator.clone())
        };
        // What nothing came of may have been tried with another.
        let of_trials = of(true).or_else(|| of(false));
        let of_host = || self.provenance.accelerator.as_ref().map(|a| a.kind.clone());
        let is_guest = matches!(cell.environment.kind, EnvironmentKind::Vm(_));
        of_trials.or_else(|| is_guest.then(of_host).flatten())
    }

    /// The accelerator as a label has it: `TCG` of an environment, `path in TCG` or `client in TCG` of what is around one.
    pub(crate) fn accelerated(&self, cell: &Cell) -> Option<String> {
        if cell.environment.kind == EnvironmentKind::Uml {
            // Whatever the plan calls it: it must not be taken for a virtual machine.
            return Some("UML, no VM".to_owned());
        }
        let word = self.accelerator(cell)?.to_uppercase();
        Some(match (&cell.environment.kind, &cell.path.kind) {
            (EnvironmentKind::Vm(_), _) => word,
            (_, PathKind::Routed(_)) => format!("path in {word}"),
            _ => format!("client in {word}"),
        })
    }

    /// Name of a cell's environment, with the accelerator of a VM: `vm (TCG)`; and of its path, where
    /// paths are compared with each other: `vm (TCG) over ovs`; and with what tells it from others of its
    /// name that have the same baseline: `vm-remus 25ms (TCG)`, `native over mpls-vpn (core 3)`.
    pub(crate) fn environment_label(&self, cell: &Cell) -> String {
        self.label(cell, "")
    }

    /// With more behind the word for the accelerator.
    fn label(&self, cell: &Cell, behind: &str) -> String {
        let mut name = cell.environment.name.clone();
        let of_environment = |key: &str| self.varies_in_group(cell, key) && !self.is_of_path(cell, key);
        for (key, value) in cell.parameters.iter().filter(|(key, _)| of_environment(key)) {
            let words = match (key.as_str(), value.as_str()) {
                ("count", value) => format!(" × {value}"),
                // What is on or off doesn't say what it is.
                (key, value @ ("true" | "false")) => format!(" {key} {value}"),
                (_, value) => format!(" {value}"),
            };
            name.push_str(&words);
        }
        let environment = match self.accelerated(cell) {
            Some(accelerated) => format!("{name} ({accelerated}{behind})"),
            None => name,
        };
        self.with_compared(cell, environment, &self.path_label(cell))
    }

    /// Whether a parameter tells a cell from others of its names that have the same baseline.
    fn varies_in_group(&self, cell: &Cell, key: &str) -> bool {
        fn group(c: &Cell) -> &str {
            c.baseline.as_deref().unwrap_or(&c.id)
        }
        let alike = |c: &&Cell| {
            c.environment.name == cell.environment.name
                && c.path.name == cell.path.name
                && c.service.name == cell.service.name
                && group(c) == group(cell)
        };
        self.plan.cells.iter().filter(alike).any(|c| c.parameters.get(key) != cell.parameters.get(key))
    }

    /// Whether a parameter that varies is an option of a path that is compared with others: the same environment hasn't it over these.
    fn is_of_path(&self, cell: &Cell, key: &str) -> bool {
        let elsewhere = || {
            let cells = self.plan.cells.iter();
            cells.filter(|c| c.environment.name == cell.environment.name && c.path.name != cell.path.name)
        };
        let is_elsewhere = || elsewhere().any(|c| c.parameters.contains_key(key));
        self.compares(|c| &c.path.name) && elsewhere().next().is_some() && !is_elsewhere()
    }

    /// A path with those of its options that tell it from others of its name: `mpls-vpn (core 3)`.
    fn path_label(&self, cell: &Cell) -> String {
        let own = |key: &str| self.varies_in_group(cell, key) && self.is_of_path(cell, key);
        let options = cell.parameters.iter().filter(|(key, _)| own(key));
        let options: Vec<String> = options.map(|(key, value)| format!("{key} {value}")).collect();
        match options.is_empty() {
            true => cell.path.name.clone(),
            false => format!("{} ({})", cell.path.name, options.join(", ")),
        }
    }

    /// Adds a cell's service and path to the name of its environment, where such are compared with each other:
    /// `v2 in vm (TCG) over ovs`. Where all is in one environment that needs no explanation, it isn't named.
    fn with_compared(&self, cell: &Cell, environment: String, path: &str) -> String {
        let mut name = environment;
        if self.compares(|c| &c.service.name) {
            let service = &cell.service.name;
            let one = self.plan.cells.iter().all(|c| c.environment == cell.environment);
            name = match one && name == cell.environment.name {
                true => service.clone(),
                false => format!("{service} in {name}"),
            };
        }
        if self.compares(|c| &c.path.name) {
            name = format!("{name} over {path}");
        }
        if self.compares(|c| &c.systems.name) {
            name = format!("{name} beside {}", cell.systems.name);
        }
        name
    }

    /// The same with software emulation spelt out, for a sentence that stands alone; `None` without such a cell.
    pub(crate) fn spelt_out(&self, cell: &str) -> Option<String> {
        self.cell(cell).map(|c| match self.accelerator(c).as_deref() {
            Some("tcg") => self.label(c, SPELT_OUT),
            _ => self.environment_label(c),
        })
    }

    /// Environments of cells as [`Self::spelt_out`] has them, each once, in order.
    pub(crate) fn environments<'a>(&self, cells: impl Iterator<Item = &'a str>) -> Vec<String> {
        let mut names = Vec::new();
        for name in cells.filter_map(|id| self.spelt_out(id)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }

    /// True where that isn't the same in a cell and its baseline: paths or services are compared with each other.
    fn compares(&self, of: impl Fn(&Cell) -> &str) -> bool {
        let other = |c: &Cell| self.plan.baseline_of(c).is_some_and(|b| of(b) != of(c));
        self.plan.cells.iter().any(other)
    }

    /// Cells that are compared with each other: each baseline with its candidates, in plan order.
    pub(crate) fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for cell in &self.plan.cells {
            let baseline = cell.baseline.as_deref().unwrap_or(&cell.id);
            match groups.iter_mut().find(|g| g.baseline == baseline) {
                Some(g) => g.cells.push(cell),
                None => groups.push(Group { baseline, label: String::new(), cells: vec![cell] }),
            }
        }
        for group in &mut groups {
            // The baseline first, so that it leads every table and has the first colour.
            group.cells.sort_by_key(|c| c.id != group.baseline);
            group.label = self.group_label(group.cells[0]);
        }
        groups
    }

    /// A cell's environment as [`environment_label`](Self::environment_label) has it, with service and path where the plan has several
    /// that aren't compared with each other.
    pub(crate) fn place_label(&self, cell: &Cell) -> String {
        let mut label = self.environment_label(cell);
        let cells = &self.plan.cells;
        if !self.compares(|c| &c.service.name) && cells.iter().any(|c| c.service.name != cell.service.name) {
            label = format!("{} in {label}", cell.service.name);
        }
        if !self.compares(|c| &c.path.name) && cells.iter().any(|c| c.path.name != cell.path.name) {
            label = format!("{label} over {}", cell.path.name);
        }
        label
    }

    /// The same with all else that tells a cell from others, but for these parameters, which stand beside it.
    pub(crate) fn place_but_for(&self, cell: &Cell, left_out: &[&str]) -> String {
        let mut label = self.place_label(cell);
        let systems = &cell.systems.name;
        let vary = self.plan.cells.iter().any(|c| c.systems.name != *systems);
        if !self.compares(|c| &c.systems.name) && vary && !systems.is_empty() {
            label = format!("{label} beside {systems}");
        }
        let wanted = |key: &str| !left_out.contains(&key) && !self.varies_in_group(cell, key);
        for (name, value) in self.varying(cell).filter(|(name, _)| wanted(name)) {
            label = format!("{label}, {name} {value}");
        }
        label
    }

    /// The parameters of a cell that vary; the options of a path or a service belong to its name where such are compared.
    fn varying<'a>(&'a self, cell: &'a Cell) -> impl Iterator<Item = (&'a str, &'a str)> {
        let paths = self.compares(|c| &c.path.name);
        let services = self.compares(|c| &c.service.name);
        let among = move |c: &&Cell| {
            (!paths || c.path.name == cell.path.name) && (!services || c.service.name == cell.service.name)
        };
        let varies = move |name: &str, value: &String| {
            self.plan.cells.iter().filter(among).any(|c| c.parameters.get(name) != Some(value))
        };
        cell.parameters
            .iter()
            .filter(move |(name, value)| {
                varies(name, value) && **value != cell.service.name && **value != cell.path.name
            })
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// What tells a group from the others: those of path, service and parameters that vary.
    fn group_label(&self, cell: &Cell) -> String {
        let cells = &self.plan.cells;
        let mut parts = Vec::new();
        if !self.compares(|c| &c.service.name) && cells.iter().any(|c| c.service.name != cell.service.name) {
            parts.push(cell.service.name.clone());
        }
        if !self.compares(|c| &c.path.name) && cells.iter().any(|c| c.path.name != cell.path.name) {
            parts.push(cell.path.name.clone());
        }
        if !self.compares(|c| &c.systems.name) && cells.iter().any(|c| c.systems.name != cell.systems.name) {
            parts.push(cell.systems.name.clone());
        }
        parts.extend(self.varying(cell).map(|(name, value)| format!("{name} {value}")));
        parts.join(", ")
    }
}

/// Cells that are compared with each other.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    /// Id of the baseline cell.
    pub(crate) baseline: &'a str,
    /// What tells this group from the others; empty where there is one only.
    pub(crate) label: String,
    /// Baseline first, then candidates in plan order.
    pub(crate) cells: Vec<&'a Cell>,
}

#[cfg(test)]
mod tests {
    use vtax_fixture::Options;
    use vtax_store::RunWriter;
    use vtax_store::record::{InvalidReason, Partner, Timings, left_out_note};
    use vtax_units::Nanos;

    use super::*;

    /// Rounds of the 33rd machine and all after it were one, and those with high numbers as well.
    #[test]
    fn rounds_of_any_number_of_machines_stay_apart() {
        const HOSTS: u32 = 40;
        const ROUNDS: [u32; 3] = [0, 1 << 28, u32::MAX];
        let directory = tempfile::tempdir().unwrap();
        let options = Options { repetitions: 1, seconds: 1, rate: 10, ..Options::default() };
        let run = vtax_fixture::create(&directory.path().join("run"), &options).unwrap();
        let mut data = RunData::begin(&run).unwrap();
        let plan = data.plan.clone();
        for (host, round) in (0..HOSTS).flat_map(|host| ROUNDS.map(|round| (host, round))) {
            for (measure, cell) in plan.measures.iter().flat_map(|m| plan.cells.iter().map(move |c| (m, c))) {
                let record = TrialRecord {
                    host: format!("n{host}"),
                    round: Some(round),
                    timings: Timings { service: Nanos::from_millis(1), ..Timings::default() },
                    ..TrialRecord::begin(&cell.id, &measure.name, round)
                };
                data.take(JournalEntry::TrialEnded(Box::new(record)));
            }
        }
        let rounds = |cell: &Cell| data.side(&cell.id, LIFECYCLE, "startup", None).rounds;
        let (one, other) = (rounds(&plan.cells[0]), rounds(&plan.cells[1]));
        let expected = plan.measures.len() * ROUNDS.len() * HOSTS as usize;
        assert_eq!(one.iter().collect::<BTreeSet<_>>().len(), expected);
        assert_eq!(one, other, "trials of one round have its number");
        assert!(one.is_sorted(), "in the order of time");
    }

    const PAIRS: &str = "
vtax: 1
name: pairs
baseline: native
environments: [native, container]
services: http
workload:
  http: {target: /bytes/100}
measure: [throughput]
repeat: {min: 3, max: 3, trials: duet}
";

    /// Begins a pair of that round, whose services take so long to start, and ends so many of its halves.
    fn write_pair(run: &mut RunWriter, plan: &Plan, round: u32, millis: [u64; 2], halves: usize) {
        let cells = [&plan.cells[0].id, &plan.cells[1].id];
        let first = run.next_index();
        let trials = cells.map(|cell| run.begin_trial(cell, "throughput", round).unwrap());
        for (place, trial) in trials.into_iter().enumerate().take(halves) {
            let other = 1 - place;
            let service = Nanos::from_millis(millis[place]);
            let record = TrialRecord {
                partner: Some(Partner { index: first + other as u32, cell: cells[other].clone() }),
                round: Some(round),
                timings: Timings { service, ..Timings::default() },
                ..TrialRecord::begin(cells[place], "throughput", round)
            };
            run.finish_trial(trial, record).unwrap();
        }
    }

    fn a_run(directory: &std::path::Path) -> RunDir {
        let options = Options { repetitions: 1, seconds: 1, rate: 10, ..Options::default() };
        vtax_fixture::create(directory, &options).unwrap()
    }

    /// Killed between the two lines of a pair, a run makes the pair again, in the same round.
    #[test]
    fn half_of_a_pair_counts_nowhere() {
        let directory = tempfile::tempdir().unwrap();
        let provenance = a_run(&directory.path().join("other")).provenance().unwrap();
        let plan = vtax_plan::parse("pairs", PAIRS.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
        let path = directory.path().join("run");
        let mut run = RunDir::create(&path, &plan, &provenance).unwrap();
        write_pair(&mut run, &plan, 0, [10, 20], 2);
        write_pair(&mut run, &plan, 1, [900, 20], 1);
        let invalid = |data: &RunData| -> Vec<u32> {
            data.trials.iter().filter(|t| t.validity != Validity::Valid).map(|t| t.index).collect()
        };
        let startup = |data: &RunData| -> Vec<f64> {
            data.metric(&plan.cells[0].id, LIFECYCLE, "startup").iter().map(|v| v.value).collect()
        };
        // Where the run may still go on, the other half may be about to be written.
        let mut following = RunData::begin(run.run()).unwrap();
        for entry in run.run().journal().unwrap() {
            following.take(entry.unwrap());
        }
        assert_eq!((following.trials.len(), startup(&following)), (2, vec![10e6]));
        let ended = RunData::read(run.run()).unwrap();
        assert_eq!((ended.trials.len(), invalid(&ended), startup(&ended)), (3, vec![2], vec![10e6]));
        let detail = format!("the trial of {} at the same time was not finished", plan.cells[1].id);
        let lost = Validity::Invalid { reason: InvalidReason::PartnerInvalid, detail };
        assert_eq!(ended.trials[2].validity, lost);
        drop(run);
        let mut run = RunDir::resume(&path).unwrap();
        write_pair(&mut run, &plan, 1, [10, 20], 2);
        run.completed().unwrap();
        for entry in run
            .run()
            .journal()
            .unwrap()
            .skip_while(|entry| !matches!(entry.as_ref().unwrap(), JournalEntry::Resumed { .. }))
        {
            following.take(entry.unwrap());
        }
        for data in [following, RunData::read(run.run()).unwrap()] {
            let made: Vec<u32> = data.trials.iter().map(|t| t.index).collect();
            assert_eq!((made, invalid(&data)), (vec![0, 1, 2, 4, 5], vec![2]));
            assert_eq!((startup(&data), data.interruptions.len()), (vec![10e6; 2], 1));
        }
    }

    #[test]
    fn a_pair_that_does_not_fit_is_left_out_as_a_whole() {
        let directory = tempfile::tempdir().unwrap();
        let mut data = RunData::begin(&a_run(&directory.path().join("run"))).unwrap();
        data.trials = vec![TrialRecord::default(); MOST_TRIALS - 1];
        for (index, other) in [(0, Some(1)), (1, Some(0)), (2, None)] {
            let partner = other.map(|index| Partner { index, cell: "vm".to_owned() });
            let record = TrialRecord { index, partner, ..TrialRecord::default() };
            data.take(JournalEntry::TrialEnded(Box::new(record)));
        }
        assert_eq!(data.trials.len(), MOST_TRIALS - 1);
        let told = data.too_many().unwrap();
        assert!(told.contains("3 trials after the first 19999"), "{told}");
    }

    /// A run without QEMU leaves the VM out; resumed with one, it measures it.
    #[test]
    fn what_was_left_out_and_measured_after_all_is_told_no_longer() {
        let directory = tempfile::tempdir().unwrap();
        let mut data = RunData::begin(&a_run(&directory.path().join("run"))).unwrap();
        let (measured, other) = (data.plan.cells[0].id.clone(), data.plan.cells[1].id.clone());
        let note = |cell: &str, text: &str| JournalEntry::Note {
            at_unix_ms: 1,
            cell: Some(cell.to_owned()),
            text: text.to_owned(),
            forecast_of: None,
        };
        let missing = left_out_note("no QEMU");
        let hopeless =
            left_out_note("no trial of `latency` counted, so no more trials of any measure are made");
        for text in [missing.as_str(), hopeless.as_str(), "its clock is slow"] {
            data.take(note(&measured, text));
            data.take(note(&other, text));
        }
        let end = |validity: Validity| {
            let record = TrialRecord { validity, ..TrialRecord::begin(&measured, "latency", 0) };
            JournalEntry::TrialEnded(Box::new(record))
        };
        let told = |data: &RunData, cell: &str| -> Vec<String> {
            let of_cell = data.notes.iter().filter(|(about, _)| about.as_deref() == Some(cell));
            of_cell.map(|(_, text)| text.clone()).collect()
        };
        data.take(end(Validity::Invalid { reason: InvalidReason::Disturbed, detail: String::new() }));
        assert_eq!(told(&data, &measured).len(), 3);
        data.take(end(Validity::Valid));
        assert_eq!(told(&data, &measured), ["its clock is slow"]);
        assert_eq!((told(&data, &other).len(), data.left_out(&measured)), (3, None));
        // It may be left out once more.
        data.take(note(&measured, &missing));
        assert_eq!(data.left_out(&measured), Some("no QEMU"));
    }
}
