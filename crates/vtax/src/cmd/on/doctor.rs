//! `vtax doctor --on`: the doctor on several hosts.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Mutex;

use anyhow::Context;
use vtax_hosts::{HostRecord, HostState, HostTask, HostsError, Machine, SMALL_FILE_BYTES};
use vtax_sys::locked_dir::LockedDir;
use vtax_sys::signals::SignalFd;
use vtax_sys::sync::{into_inner, lock};

use super::args::{OVERHEAD_MINUTES, OnArgs};
use super::{Todo, work};
use crate::cmd::doctor::DIRECTORIES;
use crate::exit::{Classify, Exit, Failure, Outcome};
use crate::front::ENDING;
use crate::out;

/// `vtax doctor --on`: the doctor on each host; JSON by host, or its lines under each host's name.
pub(crate) fn doctor(on: &OnArgs, json: bool, render: impl Fn(&serde_json::Value) -> String) -> Outcome {
    on.check()?;
    let signals = SignalFd::new(&ENDING).context("receive signals").host_cannot()?;
    let mut engine = on.engine_unless_stopped(OVERHEAD_MINUTES, &signals)?;
    let scratch = LockedDir::create(&std::env::temp_dir(), DIRECTORIES).host_cannot()?;
    let hosts: Vec<(Machine, String)> =
        engine.hosts().iter().map(|host| (host.clone(), host.name.clone())).collect();
    let records = Mutex::new(Vec::new());
    let keep = |record: HostRecord| lock(&records).push(record);
    let todo = Todo { task: &HostTask::Doctor, directory: scratch.path(), hosts: &hosts, barrier: None };
    let interrupted = work(engine.as_ref(), &todo, &signals, &keep);
    let ended = engine.end();
    let mut records: Vec<HostRecord> = into_inner(records);
    records.sort_by(|a, b| a.name.cmp(&b.name));
    let shown = show(scratch.path(), &records, json, render);
    finish(&records, shown, interrupted, ended)
}

/// How it ends once the answers were shown: what failed besides, such as nodes that can't be given back, keeps nobody from them.
fn finish(
    records: &[HostRecord],
    shown: Result<(), Failure>,
    interrupted: Result<bool, Failure>,
    ended: Result<(), HostsError>,
) -> Outcome {
    let interrupted = interrupted?;
    ended?;
    shown?;
    let good = records.iter().all(|record| record.state == HostState::Complete);
    Ok(match (interrupted, good) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::HostCannot,
    })
}

/// Prints what each host answered, and of the others why there is nothing.
fn show(
    directory: &Path,
    records: &[HostRecord],
    json: bool,
    render: impl Fn(&serde_json::Value) -> String,
) -> Result<(), Failure> {
    let mut all = serde_json::Map::new();
    let mut text = String::new();
    for record in records {
        let found = answer(&directory.join(&record.directory).join("doctor.json"));
        let why = || record.why.clone().unwrap_or_else(|| "it told nothing".to_owned());
        text += &match &found {
            Some(found) => format!("{}\n{}\n", record.name, render(found)),
            None => format!("{}: {}\n\n", record.name, why()),
        };
        all.insert(record.name.clone(), found.unwrap_or_else(|| serde_json::json!({ "problem": why() })));
    }
    if json { out::json(&all) } else { out::printable(&text) }
}

/// A host's answer, where it is one of a doctor's length.
fn answer(path: &Path) -> Option<serde_json::Value> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(SMALL_FILE_BYTES).read_to_end(&mut bytes).ok()?;
    serde_json::from_slice(&bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_as_far_as_one_may_be_long() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("doctor.json");
        std::fs::write(&path, "[1]").unwrap();
        assert_eq!(answer(&path), Some(serde_json::json!([1])));
        let spaces = " ".repeat(usize::try_from(SMALL_FILE_BYTES).unwrap());
        std::fs::write(&path, format!("[{spaces}1]")).unwrap();
        assert_eq!(answer(&path), None);
        assert_eq!(answer(&dir.path().join("gone")), None);
    }

    #[test]
    fn what_failed_besides_is_said_after_what_was_found() {
        let record = |state| HostRecord {
            name: "n1".to_owned(),
            directory: "n1".to_owned(),
            state,
            why: None,
            clock_offset_ns: None,
            clock_within_ns: None,
            began_unix_ns: None,
        };
        let records = [record(HostState::Complete)];
        let refused = || HostsError::Refused { why: "they can't be given back".to_owned(), bad_input: false };
        let failure = |shown, interrupted, ended| finish(&records, shown, interrupted, ended).unwrap_err();
        let of_nodes = failure(Ok(()), Ok(false), Err(refused()));
        assert!(of_nodes.to_string().contains("given back"), "{of_nodes}");
        let of_host = failure(Ok(()), Err(Failure::new(Exit::HostCannot, refused())), Ok(()));
        assert_eq!(of_host.exit(), Exit::HostCannot);
        let of_output = failure(Err(Failure::new(Exit::Bug, refused())), Ok(true), Ok(()));
        assert_eq!(of_output.exit(), Exit::Bug);
        assert_eq!(finish(&records, Ok(()), Ok(true), Ok(())).unwrap(), Exit::Interrupted);
        assert_eq!(finish(&records, Ok(()), Ok(false), Ok(())).unwrap(), Exit::Done);
        let lost = [record(HostState::Lost)];
        assert_eq!(finish(&lost, Ok(()), Ok(false), Ok(())).unwrap(), Exit::HostCannot);
    }
}
