//! What the agents of a trial say unasked: lines of the service's output, and its end.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use vtax_agent::message::Event;
use vtax_store::{StoreError, TrialEvent, TrialWriter};
use vtax_sys::sync::lock;
use vtax_units::Nanos;

use crate::service_log::ServiceErrors;

/// Events with the node that they came from and the time since the trial's start.
#[derive(Clone)]
pub(super) struct Heard {
    began: Instant,
    events: Arc<Mutex<Vec<(Nanos, String, Event)>>>,
}

impl Heard {
    /// Nothing yet; times count from now.
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), events: Arc::default() }
    }

    /// Time since the trial's start.
    pub(super) fn since_start(&self) -> Nanos {
        self.began.elapsed().into()
    }

    /// Notes the events of a node.
    pub(super) fn listener(&self, node: &str) -> impl Fn(Event) + Send + 'static {
        let (heard, node) = (self.clone(), node.to_owned());
        move |event| lock(&heard.events).push((heard.since_start(), node.clone(), event))
    }

    /// Which service ended by itself, and how.
    pub(super) fn died(&self) -> Option<String> {
        lock(&self.events).iter().find_map(|(_, node, event)| match event {
            Event::ServiceDied { service, status, .. } => {
                // Which of several it was; where there is one, that needs no word.
                let of = if node == "sut" { String::new() } else { format!("{node}: ") };
                Some(of + &ended(service, status))
            }
            _ => None,
        })
    }

    /// The errors that services wrote.
    pub(super) fn errors(&self) -> ServiceErrors {
        let events = lock(&self.events);
        ServiceErrors::among(events.iter().filter_map(|(_, _, event)| match event {
            Event::ServiceOutput { line, .. } => Some(line.as_str()),
            _ => None,
        }))
    }

    /// Writes everything to the trial's files.
    pub(super) fn write(&self, files: &mut TrialWriter) -> Result<(), StoreError> {
        let events = std::mem::take(&mut *lock(&self.events));
        for (at, node, event) in events {
            match event {
                Event::ServiceOutput { service, stream, line, .. } => {
                    files.log(&format!("{node}-{service}-{stream}"), &line)?;
                }
                Event::ServiceDied { service, status, .. } => {
                    let text = ended(&service, &status);
                    files.event(&TrialEvent { at, node, kind: "service-died".into(), text })?;
                }
                Event::Progress { .. } => {}
            }
        }
        Ok(())
    }
}

fn ended(service: &str, status: &str) -> String {
    format!("{service} ended by itself: {status}")
}
