//! Reading a study: one that is part of the program, or a folder.

use std::fs::File;
use std::io::Read as _;
use std::path::{Component, Path, PathBuf};

use crate::builtin::built_in;
use crate::check::problems;
use crate::model::{STUDY_VERSION, Study};

/// The most bytes that a file of a study may have.
pub const MAX_BYTES: u64 = 1 << 20;

/// The file of a study's folder that says what it is.
const FILE: &str = "claims.yaml";

/// What can be wrong with a study.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// There is none of that name.
    #[error("there is no study `{name}`: give one of {known}, or a folder with {}", FILE)]
    Unknown {
        /// As it was asked for.
        name: String,
        /// Names of those that are part of the program.
        known: String,
    },
    /// A file can't be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: std::io::Error,
    },
    /// A file is larger than any study.
    #[error("{} is larger than {} bytes", path.display(), MAX_BYTES)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file isn't what a study is written as.
    #[error("{file}: {reason}")]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong, with its place.
        reason: String,
    },
    /// It can be read, and says things that don't fit together.
    #[error("{file}: {}", reasons.join("; "))]
    Invalid {
        /// The file.
        file: String,
        /// What is wrong, one sentence each.
        reasons: Vec<String>,
    },
    /// A plan isn't within the study's folder.
    #[error("`{file}` isn't a file within the study's folder")]
    Outside {
        /// As the study names it.
        file: String,
    },
}

/// A study with the files that it names.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// What it says.
    pub study: Study,
    files: Files,
}

/// Where the files of a study are.
#[derive(Debug, Clone)]
enum Files {
    /// In the program: name and content.
    Inside(&'static [(&'static str, &'static str)]),
    Folder(PathBuf),
}

/// The study of a name, or that of a folder (or of the `claims.yaml` in it).
///
/// # Errors
///
/// [`StudyError`]: there is none, or it isn't one.
pub fn open(name: &str) -> Result<Loaded, StudyError> {
    if let Some(files) = built_in(name) {
        let text = files.iter().find(|(file, _)| *file == FILE).map_or("", |(_, text)| *text);
        let study = read(&format!("{name}/{FILE}"), text)?;
        return Ok(Loaded { study, files: Files::Inside(files) });
    }
    let path = Path::new(name);
    if path.is_dir() {
        return open_folder(path);
    }
    if path.is_file() {
        return open_folder(path.parent().unwrap_or(Path::new(".")));
    }
    Err(StudyError::Unknown { name: name.to_owned(), known: crate::builtin::names().join(", ") })
}

/// The study of a folder.
///
/// # Errors
///
/// [`StudyError`]: it isn't one.
pub fn open_folder(folder: &Path) -> Result<Loaded, StudyError> {
    let file = folder.join(FILE);
    let study = read(&file.display().to_string(), &bounded(&file)?)?;
    Ok(Loaded { study, files: Files::Folder(folder.to_owned()) })
}

fn read(file: &str, text: &str) -> Result<Study, StudyError> {
    let study: Study = serde_saphyr::from_str(text)
        .map_err(|e| StudyError::Malformed { file: file.to_owned(), reason: e.to_string() })?;
    if study.version != STUDY_VERSION {
        let reason = format!("version {}, and this vtax reads {STUDY_VERSION}", study.version);
        return Err(StudyError::Malformed { file: file.to_owned(), reason });
    }
    let reasons = problems(&study);
    if reasons.is_empty() { Ok(study) } else { Err(StudyError::Invalid { file: file.to_owned(), reasons }) }
}

/// The text of a file of at most [`MAX_BYTES`].
fn bounded(path: &Path) -> Result<String, StudyError> {
    let failed = |source| StudyError::Read { path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(MAX_BYTES + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(StudyError::TooLarge { path: path.to_owned() });
    }
    Ok(text)
}

impl Loaded {
    /// The text of a plan that the study names.
    ///
    /// # Errors
    ///
    /// [`StudyError::Outside`] where it isn't within the folder, others where it can't be read.
    pub fn plan(&self, file: &str) -> Result<String, StudyError> {
        let outside = || StudyError::Outside { file: file.to_owned() };
        match &self.files {
            Files::Inside(files) => {
                let found = files.iter().find(|(name, _)| *name == file);
                found.map(|(_, text)| (*text).to_owned()).ok_or_else(outside)
            }
            Files::Folder(folder) => {
                let path = Path::new(file);
                let within = path.components().all(|part| matches!(part, Component::Normal(_)));
                if within && !file.is_empty() { bounded(&folder.join(path)) } else { Err(outside()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_within_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let text = "version: 1\nname: n\nsource: {title: T, authors: [A], publisher: P, kind: report}\n\
                    question: Q\nitems: []\nexperiments: []\nclaims: []\n";
        std::fs::write(folder.path().join(FILE), text).unwrap();
        std::fs::write(folder.path().join("p.yaml"), "vtax: 1\n").unwrap();
        let loaded = open(folder.path().to_str().unwrap()).unwrap();
        assert_eq!(loaded.study.name, "n");
        assert_eq!(loaded.plan("p.yaml").unwrap(), "vtax: 1\n");
        for outside in ["../p.yaml", "/etc/passwd", "", "a/../../p.yaml"] {
            assert!(matches!(loaded.plan(outside), Err(StudyError::Outside { .. })), "{outside}");
        }
    }

    #[test]
    fn what_is_no_study_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        let error = |text: &str| {
            std::fs::write(&file, text).unwrap();
            open_folder(folder.path()).unwrap_err().to_string()
        };
        assert!(error("claims: [").contains(FILE));
        assert!(error("version: 1\nname: n\nnonsense: 1\n").contains("nonsense"));
        std::fs::write(&file, vec![b' '; 1 + MAX_BYTES as usize]).unwrap();
        assert!(matches!(open_folder(folder.path()), Err(StudyError::TooLarge { .. })));
        let unknown = open("no-such-study").unwrap_err().to_string();
        assert!(unknown.contains("virtual-links"), "{unknown}");
    }
}
