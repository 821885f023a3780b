//! How to cite a reproduction, and with it the study: CITATION.cff, version 1.2.0.

use vtax_study::SourceKind;
use vtax_units::utc;

use super::StudyReport;

pub(super) fn render(report: &StudyReport<'_>) -> String {
    let source = &report.study.source;
    let mut out = String::from("cff-version: 1.2.0\n");
    out.push_str("message: Please cite the study as well as its reproduction.\n");
    out.push_str("type: dataset\n");
    out.push_str(&format!("title: {}\n", quoted(&format!("Reproduction of \"{}\"", source.title))));
    out.push_str("authors:\n  - name: Whoever ran vtax; put your name here\n");
    out.push_str(&format!("version: {}\n", quoted(&format!("vtax {}", report.vtax))));
    out.push_str(&format!("date-released: {}\n", utc(report.made_unix_ms / 1000, "%Y-%m-%d")));
    let kind = match source.kind {
        SourceKind::Article => "article",
        SourceKind::Thesis => "thesis",
        SourceKind::Report => "report",
    };
    out.push_str(&format!(
        "references:\n  - type: {kind}\n    title: {}\n    authors:\n",
        quoted(&source.title)
    ));
    for author in &source.authors {
        out.push_str(&format!("      - name: {}\n", quoted(author)));
    }
    out.push_str(&format!("    publisher:\n      name: {}\n", quoted(&source.publisher)));
    if let Some(year) = source.year {
        out.push_str(&format!("    year: {year}\n"));
    }
    out
}

/// A text as YAML takes it in any case: JSON's form of it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
