//! Looks for runs below a directory.

use std::fs;
use std::path::{Path, PathBuf};

use vtax_store::RunStamp;

/// How far below the root a run may be.
const DEPTH: usize = 4;
/// Most runs that are listed.
const RUNS: usize = 100_000;
/// Most directories that are looked into.
const DIRECTORIES: usize = 200_000;

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Runs by their path below the root.
    pub(super) runs: Vec<(PathBuf, RunStamp)>,
    /// There was more than is looked at.
    pub(super) surplus: bool,
}

/// The runs below `root`. Symbolic links aren't followed, and nothing is looked for inside of a run or behind a name
/// that begins with a dot. What can't be read is left out.
pub(super) fn scan(root: &Path) -> Found {
    let mut found = Found::default();
    if let Some(stamp) = RunStamp::of(root) {
        found.runs.push((PathBuf::new(), stamp));
        return found;
    }
    let mut open = vec![(PathBuf::new(), 0)];
    let mut looked = 0;
    while let Some((place, depth)) = open.pop() {
        looked += 1;
        if looked > DIRECTORIES || found.runs.len() >= RUNS {
            found.surplus = true;
            return found;
        }
        let Ok(entries) = fs::read_dir(root.join(&place)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let hidden = name.as_encoded_bytes().first() == Some(&b'.');
            // The type of the entry itself: that of a link is not what it leads to.
            if hidden || !entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                continue;
            }
            let inside = place.join(&name);
            match RunStamp::of(&root.join(&inside)) {
                Some(stamp) => found.runs.push((inside, stamp)),
                None if depth + 1 < DEPTH => open.push((inside, depth + 1)),
                None => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(root: &Path, place: &str) {
        fs::create_dir_all(root.join(place)).unwrap();
        fs::write(root.join(place).join("journal.jsonl"), "{}\n").unwrap();
    }

    #[test]
    fn runs_are_found_and_links_are_not_followed() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let root = dir.path();
        run(other.path(), "secret");
        for place in ["a", "b/c", "b/c/inside", ".hidden", "1/2/3/4", "1/2/3/too/deep"] {
            run(root, place);
        }
        fs::create_dir(root.join("fifo")).unwrap();
        fs::create_dir(root.join("fifo/journal.jsonl")).unwrap();
        std::os::unix::fs::symlink(other.path().join("secret"), root.join("link")).unwrap();
        std::os::unix::fs::symlink(root, root.join("b/loop")).unwrap();
        let found = scan(root);
        let mut places: Vec<String> = found.runs.iter().map(|(p, _)| p.display().to_string()).collect();
        places.sort();
        assert_eq!(places, ["1/2/3/4", "a", "b/c"]);
        assert!(!found.surplus);
        assert_eq!(scan(&root.join("a")).runs[0].0, PathBuf::new(), "the root may be a run itself");
        assert!(scan(&root.join("gone")).runs.is_empty());
    }
}
