//! The form of every report, pinned: sections, tables with their columns, sheets, and what a terminal shows.
//!
//! Figures of the page and the workbook are not here: their last digits may depend on the machine's mathematics.
//! `VTAX_BLESS=1 cargo test -p vtax-report` writes the files anew after a change that is meant.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use vtax_fixture::{Options, create, ft, network, sip, storage};
use vtax_report::write_all;
use vtax_store::RunDir;

/// Texts between two marks, in order.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    text.split(from).skip(1).filter_map(|rest| Some(rest.split_once(to)?.0)).collect()
}

/// Names of a workbook's sheets, in order.
fn sheets(path: &Path) -> Vec<String> {
    let mut book = zip::ZipArchive::new(fs::File::open(path).unwrap()).unwrap();
    let text = std::io::read_to_string(book.by_name("xl/workbook.xml").unwrap()).unwrap();
    between(&text, "<sheet name=\"", "\"").into_iter().map(str::to_owned).collect()
}

fn form(run: &RunDir) -> String {
    let report = write_all(run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let mut out = "sections\n".to_owned();
    for section in page.split("<section id=\"").skip(1) {
        let (id, rest) = section.split_once('"').unwrap();
        let body = rest.split("</section>").next().unwrap();
        let title = between(body, "<h2>", "</h2>").join("");
        let (tables, pictures) = (body.matches("<table").count(), body.matches("<svg").count());
        writeln!(out, "  {id}: {title} ({tables} tables, {pictures} pictures)").unwrap();
        for part in between(body, "<h3 id=\"", "</h3>") {
            writeln!(out, "    {}", part.replace("\">", ": ")).unwrap();
        }
    }
    out.push_str("tables\n");
    let mut files: Vec<_> =
        fs::read_dir(run.path().join("csv")).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        writeln!(out, "  {name}, {} rows: {}", text.lines().count() - 1, text.lines().next().unwrap())
            .unwrap();
    }
    writeln!(out, "sheets\n  {}", sheets(&run.path().join("report.xlsx")).join("\n  ")).unwrap();
    writeln!(out, "terminal\n{}", report.table()).unwrap();
    out
}

fn pinned(name: &str, make: impl FnOnce(&Path) -> RunDir) {
    let dir = tempfile::tempdir().unwrap();
    let found = form(&make(&dir.path().join("run")));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    if std::env::var_os("VTAX_BLESS").is_some() {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let differs = found.lines().zip(expected.lines()).find(|(a, b)| a != b);
    assert!(found == expected, "{}: {differs:?}", path.display());
}

#[test]
fn http() {
    let targets = ["100", "1MB"].map(str::to_owned).into();
    let options = Options { repetitions: 3, seconds: 2, rate: 300, targets, ..Options::default() };
    pinned("http", |path| create(path, &options).unwrap());
}

#[test]
fn sip() {
    let options =
        sip::Options { repetitions: 2, step: 10, steps: 4, load: (60.0, 25.0), ..Default::default() };
    pinned("sip", |path| sip::create(path, &options).unwrap());
}

#[test]
fn network() {
    let options = network::Options { repetitions: 3, ..Default::default() };
    pinned("network", |path| network::create(path, &options).unwrap());
}

#[test]
fn fault_tolerance() {
    let options = ft::Options { sip: true, repetitions: 2, ..Default::default() };
    pinned("ft", |path| ft::create(path, &options).unwrap());
}

#[test]
fn disks() {
    pinned("storage", |path| storage::create(path).unwrap());
}

#[test]
fn storage_behind_a_server_in_rounds() {
    pinned("san", |path| storage::create_served(path).unwrap());
}
