//! What tests of several kinds of report share.

use std::fs;

use vtax_report::write_all;
use vtax_store::RunDir;

/// Replaces texts of a run's journal by hostile ones, `<img src=x>` among them, and looks whether they stay text.
pub(crate) fn stays_text(run: &RunDir, replaced: &[(&str, &str)]) {
    let journal = run.path().join("journal.jsonl");
    let text = fs::read_to_string(&journal).unwrap();
    let evil = replaced.iter().fold(text.clone(), |text, (from, to)| text.replace(from, to));
    assert_ne!(text, evil);
    fs::write(&journal, evil).unwrap();
    write_all(&RunDir::open(run.path()).unwrap()).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(page.contains("&lt;img src=x&gt;") && !page.contains("<img"));
    assert_eq!(page.matches("</script>").count(), 1);
    balanced(&page);
}

/// A file of a run's workbook.
pub(crate) fn part_of_workbook(run: &RunDir, name: &str) -> String {
    let book = fs::File::open(run.path().join("report.xlsx")).unwrap();
    let mut book = zip::ZipArchive::new(book).unwrap();
    std::io::read_to_string(book.by_name(name).unwrap()).unwrap()
}

/// Every element of a page that opens closes, in order.
pub(crate) fn balanced(page: &str) {
    const VOID: [&str; 2] = ["meta", "!doctype"];
    let script = page.find("<script>").unwrap();
    let mut open: Vec<&str> = Vec::new();
    for piece in page[..script].split('<').skip(1) {
        let (tag, _) = piece.split_once('>').unwrap_or_else(|| panic!("no end: {piece}"));
        let name = tag.split([' ', '/', '\n']).find(|n| !n.is_empty()).unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "before </{name}>");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
    }
    assert_eq!(open, ["html", "body"]);
}
