//! What a trial says unasked: lines of the service's output, and its end, as agents tell of them; a guest's console.

use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Whether a service's end is among them.
    died: Arc<AtomicBool>,
    /// Nodes, with what their guests wrote to their consoles.
    consoles: Arc<Mutex<Vec<(String, String)>>>,
}

impl Heard {
    /// Nothing yet; times count from now.
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), events: Arc::default(), died: Arc::default(), consoles: Arc::default() }
    }

    /// Time since the trial's start.
    pub(super) fn since_start(&self) -> Nanos {
        self.began.elapsed().into()
    }

    /// Notes the events of a node.
    pub(super) fn listener(&self, node: &str) -> impl Fn(Event) + Send + 'static {
        let (heard, node) = (self.clone(), node.to_owned());
        move |event| {
            let died = matches!(event, Event::ServiceDied { .. });
            lock(&heard.events).push((heard.since_start(), node.clone(), event));
            heard.died.fetch_or(died, Ordering::Relaxed);
        }
    }

    /// Notes what a node's guest wrote to its console.
    pub(super) fn console(&self, node: &str, text: &str) {
        lock(&self.consoles).push((node.to_owned(), text.to_owned()));
    }

    /// Whether a service ended by itself.
    pub(super) fn has_died(&self) -> bool {
        self.died.load(Ordering::Relaxed)
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
        for (node, text) in std::mem::take(&mut *lock(&self.consoles)) {
            for line in text.lines() {
                files.log(&format!("{node}-console"), line)?;
            }
        }
        Ok(())
    }
}

fn ended(service: &str, status: &str) -> String {
    format!("{service} ended by itself: {status}")
}

#[cfg(test)]
mod tests {
    use vtax_store::RunDir;
    use vtax_store::provenance::Provenance;
    use vtax_store::record::TrialRecord;

    use super::*;

    #[test]
    fn what_a_guest_wrote_to_its_console_is_in_a_file_of_the_trial() {
        let directory = tempfile::tempdir().unwrap();
        let plan =
            vtax_plan::parse("test", vtax_testkit::runs::SMALL_PLAN.as_bytes(), &[] as &[&str]).unwrap();
        let mut run = RunDir::create(directory.path().join("run"), &plan, &Provenance::default()).unwrap();
        let mut files = run.begin_trial(&plan.cells[0].id, &plan.measures[0].name, 0).unwrap();
        let heard = Heard::new();
        heard.console("sut", "");
        heard.write(&mut files).unwrap();
        heard.console("sut", "BUG: unable to handle page fault\r\nCPU: 0\n");
        heard.write(&mut files).unwrap();
        let record = TrialRecord::begin(&plan.cells[0].id, &plan.measures[0].name, 0);
        run.finish_trial(files, record).unwrap();
        assert_eq!(
            walk(directory.path()),
            [("sut-console.log".to_owned(), "BUG: unable to handle page fault\nCPU: 0\n".to_owned())]
        );
    }

    /// Names and contents of the logs below a directory.
    fn walk(directory: &std::path::Path) -> Vec<(String, String)> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(directory).unwrap().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if path.is_dir() {
                found.extend(walk(&path));
            } else if name.ends_with(".log") {
                found.push((name, std::fs::read_to_string(path).unwrap()));
            }
        }
        found
    }
}
