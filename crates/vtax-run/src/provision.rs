//! What a service starts from: what is made of its subscribers once, before the trials, or found in the cache.

use std::fs;

use vtax_agent::message::Provisioning;
use vtax_plan::model::{Cell, Service, Subscribers};
use vtax_service::{Prepared, PrivateProgram};
use vtax_sys::chain;
use vtax_vm::Cache;

use crate::observe::{Observer, RunEvent};

/// What was made so far; kept until the run ends, so that no other run removes it.
#[derive(Debug, Default)]
pub(crate) struct Provisions {
    made: Vec<(Service, Option<Subscribers>, Prepared)>,
}

impl Provisions {
    /// For this cell's service: found, or made now. What took time, and what isn't the host's own, is told to `notes`.
    ///
    /// # Errors
    ///
    /// Why it can't be made, in words.
    pub(crate) fn for_cell(
        &mut self,
        cell: &Cell,
        observer: &dyn Observer,
        notes: &mut Vec<String>,
    ) -> Result<Provisioning, String> {
        let subscribers = cell.workload.model().subscribers();
        let known = |(service, of, _): &&(Service, Option<Subscribers>, Prepared)| {
            service.kind == cell.service.kind && of.as_ref() == subscribers
        };
        if let Some((_, _, prepared)) = self.made.iter().find(known) {
            return Ok(provisioning(subscribers, Some(prepared)));
        }
        if let Some(subscribers) = subscribers {
            let what = format!("provisioning {} subscribers", subscribers.count);
            observer.observe(&RunEvent::Phase { what: &what });
        }
        let cache = Cache::of_user();
        let prepared =
            vtax_service::prepare(&cell.service, subscribers, cache.dir()).map_err(|e| chain(&e))?;
        let Some(prepared) = prepared else { return Ok(provisioning(subscribers, None)) };
        notes.extend(note(&cell.service.name, subscribers, &prepared));
        let provisioning = provisioning(subscribers, Some(&prepared));
        self.made.push((cell.service.clone(), subscribers.cloned(), prepared));
        Ok(provisioning)
    }
}

/// What a reader should know of it.
fn note(service: &str, subscribers: Option<&Subscribers>, prepared: &Prepared) -> Option<String> {
    let Some(subscribers) = subscribers else {
        let list = fs::read_to_string(prepared.path.join(PrivateProgram::LIST)).ok()?;
        let packages = list.lines().collect::<Vec<_>>().join(", ");
        return Some(format!("{service}: a private copy, unpacked from {packages}"));
    };
    let taken = prepared.taken?.as_secs_f64();
    let count = subscribers.count;
    Some(format!(
        "{service}: a database of {count} subscribers was made in {taken:.1} s; each trial starts with a copy"
    ))
}

fn provisioning(subscribers: Option<&Subscribers>, prepared: Option<&Prepared>) -> Provisioning {
    let prepared = prepared.map(|p| p.path.clone());
    Provisioning { subscribers: subscribers.cloned(), prepared, ..Provisioning::default() }
}
