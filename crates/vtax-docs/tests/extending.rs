//! docs/extending.md names files and directories that there are.

use std::path::Path;

/// Where they are.
const PLACES: [&str; 6] = ["bench", "crates", "docs", "fuzz", "plans", "studies"];
/// Directories of what is built or found; hidden ones are left out too, which a test may make and remove meanwhile.
const LEFT_OUT: [&str; 3] = ["target", "corpus", "node_modules"];

/// What is in a directory, by its place in the repository; places of directories end with a slash.
fn below(directory: &Path, place: &str, all: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if !entry.file_type().unwrap().is_dir() {
            all.push(format!("{place}{name}"));
        } else if !name.starts_with('.') && !LEFT_OUT.contains(&name.as_str()) {
            let place = format!("{place}{name}/");
            below(&entry.path(), &place, all);
            all.push(place);
        }
    }
}

/// Whether this is the end of a place, of whole names; `*` stands for one name.
fn is_end(end: &str, place: &str) -> bool {
    let Some((before, after)) = end.split_once('*') else { return place.ends_with(&format!("/{end}")) };
    let rest = place.strip_suffix(after).and_then(|rest| rest.rsplit_once('/'));
    rest.is_some_and(|(front, _)| format!("{front}/").ends_with(&format!("/{before}")))
}

#[test]
fn what_is_named_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/extending.md")).unwrap();
    let mut all = Vec::new();
    for place in PLACES {
        let named = format!("/{place}/");
        below(&root.join(place), &named, &mut all);
        all.push(named);
    }
    let is_place = |word: &&str| {
        let ends = [".rs", ".md", ".yaml", "/"];
        !word.contains(char::is_whitespace) && ends.iter().any(|end| word.ends_with(end))
    };
    let named: Vec<&str> = page.split('`').skip(1).step_by(2).filter(is_place).collect();
    assert!(named.len() > 50, "{named:?}");
    let gone: Vec<&str> =
        named.into_iter().filter(|end| !all.iter().any(|place| is_end(end, place))).collect();
    assert_eq!(gone, Vec::<&str>::new());
}

#[test]
fn a_place_is_known_by_whole_names() {
    let place = "/crates/a/src/family/http/trial.rs";
    for end in ["trial.rs", "http/trial.rs", "family/*/trial.rs", "src/family/http/trial.rs"] {
        assert!(is_end(end, place), "{end}");
    }
    for end in ["rial.rs", "sip/trial.rs", "amily/*/trial.rs", "family/trial.rs", "family/*/rial.rs"] {
        assert!(!is_end(end, place), "{end}");
    }
}
