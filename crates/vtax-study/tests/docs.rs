//! docs/studies.md lists every table and figure of every study once, as the data have them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use vtax_study::{Study, names, open};

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/studies.md")
}

/// The rows of a study's list.
fn rows(study: &Study) -> String {
    let mut rows =
        String::from("| item | what it shows | at hand | claims, or why none |\n|---|---|---|---|\n");
    for item in &study.items {
        let claims: Vec<String> = item.claims.iter().map(|claim| format!("`{claim}`")).collect();
        let last = item.why.clone().unwrap_or_else(|| claims.join(", "));
        writeln!(rows, "| {} | {} | {} | {last} |", item.id, item.title, item.content.word()).unwrap();
    }
    rows
}

/// Set `VTAX_BLESS=1` to write the lists after a change that was meant.
#[test]
fn every_table_and_figure_is_listed_once() {
    let mut text = std::fs::read_to_string(page()).unwrap();
    for name in names() {
        let study = open(name).unwrap().study;
        let (begin, end) = (format!("<!-- items of {name} -->\n"), "<!-- end of items -->");
        let from = text.find(&begin).unwrap_or_else(|| panic!("docs/studies.md has no list of {name}"));
        let from = from + begin.len();
        let to = from + text[from..].find(end).unwrap();
        let now = rows(&study);
        if std::env::var_os("VTAX_BLESS").is_some() {
            text.replace_range(from..to, &now);
            std::fs::write(page(), &text).unwrap();
        } else {
            assert!(text[from..to] == now, "the list of {name} differs: run this test with VTAX_BLESS=1");
        }
    }
}

#[test]
fn every_key_of_a_study_is_explained() {
    let text = std::fs::read_to_string(page()).unwrap();
    fn walk(schema: &serde_json::Value, text: &str) {
        for (name, _) in schema["properties"].as_object().into_iter().flatten() {
            assert!(text.contains(&format!("`{name}`")), "docs/studies.md doesn't explain `{name}`");
        }
        for inner in schema.as_object().into_iter().flatten().map(|(_, value)| value) {
            walk(inner, text);
        }
        for inner in schema.as_array().into_iter().flatten() {
            walk(inner, text);
        }
    }
    walk(&vtax_study::schema(), &text);
}
