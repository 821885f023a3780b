//! The rows of a benchmark, printed and written as they come.

use anyhow::{Context, Result};
use serde::Serialize;

use crate::place::root;

/// One row of `target/bench.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) ours: f64,
    pub(crate) peer: Option<f64>,
    pub(crate) unit: String,
    pub(crate) ratio: Option<f64>,
    pub(crate) goal: String,
    pub(crate) ok: bool,
}

impl Row {
    /// A figure of ours alone, with a goal that it must not exceed.
    pub(crate) fn at_most(name: &str, ours: f64, unit: &str, most: f64) -> Self {
        Self {
            name: name.to_owned(),
            ours,
            peer: None,
            unit: unit.to_owned(),
            ratio: Some(ours / most),
            goal: format!("at most {most}"),
            ok: ours <= most,
        }
    }

    fn print(&self) {
        let number = |v: Option<f64>| v.map_or_else(|| "-".to_owned(), |v| format!("{v:.4}"));
        println!(
            "{:<58} {:>12} {:>12} {:>7}  {:<14} {} {}",
            self.name,
            number(Some(self.ours)),
            number(self.peer),
            self.ratio.map_or_else(|| "-".to_owned(), |r| format!("{r:.2}")),
            self.unit,
            self.goal,
            if self.ok { "ok" } else { "MISSED" },
        );
    }
}

/// `target/bench.json`. Each row is printed and written as it comes: a suite takes minutes, and one that fails
/// or is stopped must not lose what the others found.
#[derive(Default)]
pub(crate) struct Sheet {
    rows: Vec<Row>,
}

impl Sheet {
    pub(crate) fn add(&mut self, row: Row) -> Result<()> {
        row.print();
        self.rows.push(row);
        let path = root().join("target/bench.json");
        std::fs::write(&path, serde_json::to_vec_pretty(&self.rows)?)
            .with_context(|| format!("writing {}", path.display()))
    }

    pub(crate) fn add_all(&mut self, rows: impl IntoIterator<Item = Row>) -> Result<()> {
        rows.into_iter().try_for_each(|row| self.add(row))
    }
}
