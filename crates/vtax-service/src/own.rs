//! What a service of the user's own is made of: no version line tells one build from the next.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use vtax_plan::model::ServiceKind;
use vtax_units::hex;

use crate::packages::find_program;

/// Longest file that is read.
const MOST_BYTES: u64 = 1 << 30;

/// What may surround a path in an argument, which may be a shell's script.
const AROUND: [char; 10] = [' ', '\t', '\n', '\'', '"', '=', ';', ':', ',', '&'];

/// SHA-256, in hexadecimal, of each file that the command line of a service of the user's own names: its program, and
/// what arguments name by an absolute path. Empty for other services, whose version line and package tell enough.
#[must_use]
pub fn own_files(kind: &ServiceKind) -> BTreeMap<String, String> {
    let ServiceKind::Command(own) = kind else { return BTreeMap::new() };
    let program = own.command.first().and_then(|program| find_program(program));
    let words = own.command.iter().flat_map(|argument| argument.split(AROUND).chain([argument.as_str()]));
    let named = words.map(PathBuf::from).filter(|path| path.is_absolute());
    let hashed = |path: PathBuf| Some((path.display().to_string(), hash(&path)?));
    program.into_iter().chain(named).filter_map(hashed).collect()
}

/// `None` where it isn't a file, or can't be read to its end.
fn hash(path: &Path) -> Option<String> {
    // To open a pipe could take forever.
    let length = path.metadata().ok().filter(std::fs::Metadata::is_file)?.len();
    let mut file = File::open(path).ok().filter(|_| length <= MOST_BYTES)?.take(MOST_BYTES);
    let (mut digest, mut part) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut part).ok()? {
            0 => break,
            n => digest.update(&part[..n]),
        }
    }
    Some(hex(&digest.finalize()))
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::{CommandService, Ready};

    use super::*;

    fn command(words: &[&str]) -> ServiceKind {
        ServiceKind::Command(CommandService {
            command: words.iter().map(|w| (*w).to_owned()).collect(),
            port: 80,
            ready: Ready::Port,
            env: BTreeMap::new(),
            files: BTreeMap::new(),
        })
    }

    #[test]
    fn programs_and_files_of_arguments_are_hashed() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("app.py");
        std::fs::write(&path, "abc").expect("written");
        let path = path.display().to_string();
        let script = format!("exec python3 '{path}' --port {{port}}");
        let found = own_files(&command(&["sh", "-c", &script, "/nowhere", "/dev/zero", "/"]));
        // The example of FIPS 180-2, B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(found.get(&path).map(String::as_str), Some(abc));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.keys().any(|file| file.ends_with("/sh")), "{found:?}");
        assert_eq!(own_files(&command(&["not-a-program"])), BTreeMap::new());
    }
}
