//! The same plan on several hosts: each host's tax, how far they are from each other, and the overall one.
//!
//! [`merge`] refuses what can't be taken together and says what would make it possible. A host is one draw, however many
//! rounds it made (docs/many-machines.md): ratios are taken within each host, then over hosts.

mod check;
mod html;
mod missing;
mod model;
mod rows;
mod table;
mod tables;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use vtax_store::record::Validity;

use crate::Report;
use crate::compare::{ALL_METRICS, check_metrics, path};
pub use model::*;

/// Takes runs of one plan together.
///
/// Runs of the same machine, by the name that it has in their provenance, count as one host.
///
/// # Errors
///
/// [`MergeError::Refused`] with every reason where the runs can't be merged, [`MergeError::Alone`] where there is one only,
/// [`MergeError::Metric`] where a metric has another name, [`MergeError::Store`] where a journal can't be read.
pub fn merge(runs: &[Report], options: &MergeOptions) -> Result<Merged, MergeError> {
    check_metrics(&options.metrics)?;
    let [first, _, ..] = runs else { return Err(MergeError::Alone) };
    if let Some(refusal) = check::refused(runs)? {
        return Err(refusal.into());
    }
    let hosts = by_host(runs);
    let latency =
        rows::latency(&hosts).map_err(|unlike| MergeRefusal { reasons: vec![(None, unlike.to_string())] })?;
    let rows = rows::rows(&hosts, options);
    if rows.is_empty() {
        let what = match options.metrics.as_slice() {
            [] => "count".to_owned(),
            names if names.iter().any(|name| name == ALL_METRICS) => "have a figure".to_owned(),
            names => format!("have a figure of {}", names.join(" or ")),
        };
        let text = format!("no host has a round in which a candidate and its baseline both {what}");
        let reasons = std::iter::once(text).chain(missing::missing(&hosts));
        return Err(MergeRefusal { reasons: reasons.map(|reason| (None, reason)).collect() }.into());
    }
    let plan = &first.context.data.plan;
    let mut merged = Merged {
        version: MERGED_VERSION,
        plan: plan.name.clone(),
        headline: String::new(),
        warnings: Vec::new(),
        hosts: hosts.iter().map(host).collect(),
        differences: check::differences(&hosts),
        rows,
        latency,
        margin: plan.margin.0,
    };
    merged.headline = table::headline(&merged);
    merged.warnings = table::warnings(&merged);
    merged.warnings.extend(missing::missing(&hosts));
    merged.warnings.extend(missing::left_out(&hosts, &merged.rows));
    Ok(merged)
}

impl Merged {
    /// As plain text for a terminal, at most 100 columns wide.
    #[must_use]
    pub fn table(&self) -> String {
        table::render(self)
    }

    /// As JSON, this type's own fields.
    #[must_use]
    pub fn json(&self) -> String {
        // Made of finite numbers and strings: this can't fail.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    /// As one self-contained page.
    #[must_use]
    pub fn html(&self) -> String {
        html::render(self)
    }

    /// Writes `merged.json`, `merged.html` and `csv/*.csv` into a directory; returns what was written.
    ///
    /// # Errors
    ///
    /// [`MergeError::Store`] where a file can't be written.
    pub fn write(&self, directory: &Path) -> Result<Vec<PathBuf>, MergeError> {
        let csv = vtax_store::OwnDirectory::create(directory, "csv")?;
        let mut written = Vec::new();
        for (name, text) in [("merged.json", self.json()), ("merged.html", self.html())] {
            let path = directory.join(name);
            vtax_store::write_file(&path, text.as_bytes())?;
            written.push(path);
        }
        for table in tables::all(self) {
            written.push(csv.write(&format!("{}.csv", table.name), &table.csv())?);
        }
        Ok(written)
    }
}

/// Runs by machine, in the order of each machine's first run.
fn by_host(runs: &[Report]) -> Vec<rows::Host<'_>> {
    let mut hosts: Vec<rows::Host<'_>> = Vec::new();
    for run in runs {
        let host = &run.context.data.provenance.host.name;
        let name = if host.is_empty() { path(run) } else { host.clone() };
        match hosts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, runs)) => runs.push(run),
            None => hosts.push((name, vec![run])),
        }
    }
    hosts
}

fn host((name, runs): &rows::Host<'_>) -> MergedHost {
    let facts = runs.last().map(|run| &run.context.data.provenance.host);
    let machine = facts.map(|h| format!("{}, {} CPUs, Linux {}", h.cpu_model, h.cpus, h.kernel));
    let run = |run: &&Report| {
        let data = &run.context.data;
        MergedRun {
            path: path(run),
            run_id: data.provenance.run_id.clone(),
            started_unix_ms: data.provenance.started_unix_ms,
            complete: data.complete,
            valid_trials: data.trials.iter().filter(|t| t.validity == Validity::Valid).count(),
            trials: data.trials.len(),
        }
    };
    MergedHost {
        name: name.clone(),
        machine: machine.unwrap_or_default(),
        runs: runs.iter().map(run).collect(),
    }
}
