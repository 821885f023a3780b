//! `vtax doctor --on`: the doctor on several hosts.

use std::sync::Mutex;

use anyhow::Context;
use vtax_hosts::{HostRecord, HostState, HostTask, Machine};
use vtax_sys::locked_dir::LockedDir;
use vtax_sys::signals::SignalFd;
use vtax_sys::sync::{into_inner, lock};

use super::args::{OVERHEAD_MINUTES, OnArgs};
use super::{Todo, work};
use crate::cmd::doctor::DIRECTORIES;
use crate::exit::{Classify, Exit, Outcome};
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
    let interrupted = interrupted?;
    ended?;
    let mut records: Vec<HostRecord> = into_inner(records);
    records.sort_by(|a, b| a.name.cmp(&b.name));
    let mut all = serde_json::Map::new();
    let mut text = String::new();
    for record in &records {
        let answer = std::fs::read(scratch.path().join(&record.directory).join("doctor.json")).ok();
        let found: Option<serde_json::Value> = answer.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let why = || record.why.clone().unwrap_or_else(|| "it told nothing".to_owned());
        text += &match &found {
            Some(found) => format!("{}\n{}\n", record.name, render(found)),
            None => format!("{}: {}\n\n", record.name, why()),
        };
        all.insert(record.name.clone(), found.unwrap_or_else(|| serde_json::json!({ "problem": why() })));
    }
    if json {
        out::json(&all)?
    } else {
        out::printable(&text)?
    }
    let good = records.iter().all(|record| record.state == HostState::Complete);
    Ok(match (interrupted, good) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Done,
        (false, false) => Exit::HostCannot,
    })
}
