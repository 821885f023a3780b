//! What a command names on this host and nodes can't see.

use std::path::{Path, PathBuf};

/// Directories that every node has of its own.
const OF_NODES: [&str; 3] = ["/tmp", "/run", "/dev/shm"];

/// Something that this host has and the nodes of a testbed don't.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hidden {
    /// It is the program itself, so that the service can't start; else an argument, which may be something else than it seems.
    pub program: bool,
    /// What it is, with the way out.
    pub why: String,
}

/// What of a command is hidden from nodes. `written` are the files that the plan writes for it.
pub(crate) fn hidden(command: &[String], written: impl Fn(&str) -> bool) -> Vec<Hidden> {
    let looks = |(i, word): (usize, &String)| {
        // A program without a slash is looked for in the directories of programs.
        let by_name = i == 0 && !word.contains('/');
        let why = if by_name || written(word) { None } else { why_hidden(word) };
        why.map(|why| Hidden { program: i == 0, why })
    };
    command.iter().enumerate().filter_map(looks).collect()
}

fn why_hidden(word: &str) -> Option<String> {
    const WAY_OUT: &str = "or let the plan write it (`files`)";
    let path = Path::new(word);
    let real: PathBuf = path.canonicalize().ok()?;
    if !(real.is_file() || real.is_dir()) {
        return None;
    }
    if path.is_relative() {
        // Words such as `start` may be names of files by chance.
        if !word.contains(['/', '.']) {
            return None;
        }
        let full = real.display();
        return Some(format!(
            "{word} is a relative path, and a service starts in a directory of its own: write {full}, {WAY_OUT}"
        ));
    }
    let below =
        |dir: &&str| [path, real.as_path()].iter().any(|p| p.starts_with(dir) && *p != Path::new(dir));
    OF_NODES.into_iter().find(below).map(|dir| {
        format!("{word} is below {dir}, of which each environment has its own: keep it elsewhere, {WAY_OUT}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(command: &[&str]) -> Vec<Hidden> {
        let command: Vec<String> = command.iter().map(|word| (*word).to_owned()).collect();
        hidden(&command, |word| word == "src/error.rs")
    }

    #[test]
    fn what_nodes_have_of_their_own_is_hidden() {
        let scratch = tempfile::Builder::new().tempdir_in("/tmp").unwrap();
        let file = scratch.path().join("server.py");
        std::fs::write(&file, "").unwrap();
        let file = file.to_str().unwrap();
        let found = of(&["python3", file, "/tmp", "/tmp/not/there", "/bin", "8080"]);
        assert!(
            matches!(&found[..], [one] if !one.program && one.why.contains("is below /tmp")),
            "{found:?}"
        );
        let link = scratch.path().join("link");
        std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
        let found = of(&[link.to_str().unwrap()]);
        assert!(matches!(&found[..], [one] if one.program), "{found:?}");
    }

    #[test]
    fn relative_paths_lead_elsewhere_in_a_node() {
        // Tests run in the crate's directory.
        let found = of(&["./Cargo.toml", "src/lib.rs", "src"]);
        assert_eq!(found.iter().map(|hidden| hidden.program).collect::<Vec<_>>(), [true, false]);
        assert!(found[0].why.contains("vtax-service/Cargo.toml, or"), "{found:?}");
        assert_eq!(of(&["sh", "src/error.rs", "/bin/sh"]), []);
    }
}
