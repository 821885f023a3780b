//! What a service is told about its subscribers, and what is made of them once, before the trials.

use vtax_agent::message::Provisioning;
use vtax_plan::model::{Cell, Service, Subscribers};
use vtax_service::Prepared;
use vtax_sys::chain;
use vtax_vm::Cache;

use crate::observe::{Observer, RunEvent};

/// What was made so far; kept until the run ends, so that no other run removes it.
#[derive(Debug, Default)]
pub(crate) struct Provisions {
    made: Vec<(Service, Subscribers, Prepared)>,
}

impl Provisions {
    /// For this cell's service: found, or made now. What took time is told to `notes`.
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
        let Some(subscribers) = cell.workload.model().subscribers() else {
            return Ok(Provisioning::default());
        };
        let known = |(service, of, _): &&(Service, Subscribers, Prepared)| {
            service.kind == cell.service.kind && of == subscribers
        };
        if let Some((_, _, prepared)) = self.made.iter().find(known) {
            return Ok(provisioning(subscribers, Some(prepared)));
        }
        let what = format!("provisioning {} subscribers", subscribers.count);
        observer.observe(&RunEvent::Phase { what: &what });
        let cache = Cache::of_user();
        let prepared =
            vtax_service::prepare(&cell.service, Some(subscribers), cache.dir()).map_err(|e| chain(&e))?;
        let Some(prepared) = prepared else { return Ok(provisioning(subscribers, None)) };
        if let Some(taken) = prepared.taken {
            let (count, name) = (subscribers.count, &cell.service.name);
            notes.push(format!(
                "{name}: a database of {count} subscribers was made in {:.1} s; each trial starts with a copy",
                taken.as_secs_f64()
            ));
        }
        let provisioning = provisioning(subscribers, Some(&prepared));
        self.made.push((cell.service.clone(), subscribers.clone(), prepared));
        Ok(provisioning)
    }
}

fn provisioning(subscribers: &Subscribers, prepared: Option<&Prepared>) -> Provisioning {
    let prepared = prepared.map(|p| p.path.clone());
    Provisioning { subscribers: Some(subscribers.clone()), prepared, ..Provisioning::default() }
}
