//! The index on disk: what was known when the server ended.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use vtax_store::{RunBrief, RunStamp};
use vtax_units::hex;

use super::{Entry, RunId};

/// The first line: what another version means, or another vtax made of a run, is read anew.
const HEAD: &str = concat!("vtax index 2, vtax ", env!("CARGO_PKG_VERSION"));
/// Longest file read, in bytes.
const LONGEST: u64 = 256 << 20;

#[derive(Serialize, Deserialize)]
struct Line {
    place: String,
    stamp: RunStamp,
    brief: RunBrief,
}

/// The file that keeps the index of this root.
pub(super) fn file(cache: &Path, root: &Path) -> PathBuf {
    let digest = Sha256::digest(root.as_os_str().as_encoded_bytes());
    cache.join(format!("index-{}.jsonl", hex(&digest[..8])))
}

/// What was kept, by path; nothing where nothing was, or what is there isn't understood.
pub(super) fn read(file: &Path) -> BTreeMap<PathBuf, Entry> {
    let Ok(open) = File::open(file) else { return BTreeMap::new() };
    let mut lines = BufReader::new(open.take(LONGEST)).lines();
    if !lines.next().is_some_and(|head| head.is_ok_and(|head| head == HEAD)) {
        return BTreeMap::new();
    }
    let understood = lines.map_while(Result::ok).filter_map(|line| serde_json::from_str::<Line>(&line).ok());
    understood
        .map(|line| {
            let place = PathBuf::from(line.place);
            let entry = Entry { id: RunId::of(&place), place, stamp: line.stamp, brief: Ok(line.brief) };
            (entry.place.clone(), entry)
        })
        .collect()
}

/// Keeps these runs; those whose path isn't text are read anew next time, and so are those that couldn't be read: why may be gone by then.
///
/// # Errors
///
/// The system's, where the file can't be written: where its directory was removed, too.
pub(super) fn write(file: &Path, entries: &[Arc<Entry>]) -> std::io::Result<()> {
    // Line by line, as all of it may be many MiB; under another name until it is whole.
    let unfinished = file.with_extension("tmp");
    let mut out = BufWriter::new(File::create(&unfinished)?);
    writeln!(out, "{HEAD}")?;
    for entry in entries {
        let (Some(place), Ok(brief)) = (entry.place.to_str(), &entry.brief) else { continue };
        let line = Line { place: place.to_owned(), stamp: entry.stamp, brief: brief.clone() };
        serde_json::to_writer(&mut out, &line)?;
        out.write_all(b"\n")?;
    }
    out.flush()?;
    std::fs::rename(&unfinished, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_back_and_nonsense_is_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = file(dir.path(), Path::new("/runs"));
        assert!(read(&path).is_empty());
        let entry = |place: &str, brief| {
            let place = PathBuf::from(place);
            Arc::new(Entry { id: RunId::of(&place), place, stamp: RunStamp::default(), brief })
        };
        let brief = RunBrief { plan: "quick".to_owned(), trials: 3, ..RunBrief::default() };
        let entries = [entry("a/b", Ok(brief)), entry("c", Err("no permission".to_owned()))];
        write(&path, &entries).unwrap();
        let back = read(&path);
        assert_eq!(back.values().collect::<Vec<_>>(), [&*entries[0]], "an error may be gone next time");
        // Another vtax may make something else of the same run.
        let kept = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, kept.replacen(env!("CARGO_PKG_VERSION"), "0.0.0-other", 1)).unwrap();
        assert!(read(&path).is_empty());
        // What was removed while the server runs stays removed.
        let removed = file(&dir.path().join("removed"), Path::new("/runs"));
        assert!(write(&removed, &entries).is_err() && !dir.path().join("removed").exists());
        for text in ["", "vtax index 1\n", &format!("{HEAD}\n{{\"place\":7}}\nnonsense\n"), "\u{0}\u{1}"] {
            std::fs::write(&path, text).unwrap();
            assert!(read(&path).is_empty(), "{text:?}");
        }
    }
}
