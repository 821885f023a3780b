//! What a trial says unasked: lines of the service's output, and its end, as agents tell of them; a guest's console.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use vtax_agent::message::Event;
use vtax_store::{StoreError, TrialEvent, TrialWriter};
use vtax_sys::sync::lock;
use vtax_units::Nanos;

use crate::service_log::ServiceErrors;

/// Memory for the output of a node's services, which gets into files when the trial ends. What comes after that is counted.
const MOST_OUTPUT: usize = 32 << 20;
/// What a line takes beside its text.
const OF_A_LINE: usize = 200;

/// Events with the node that they came from and the time since the trial's start.
#[derive(Clone)]
pub(super) struct Heard {
    began: Instant,
    events: Arc<Mutex<Vec<(Nanos, String, Event)>>>,
    /// Logs with the number of lines that were left out of them.
    left_out: Arc<Mutex<BTreeMap<String, u64>>>,
    /// Whether a service's end is among them.
    died: Arc<AtomicBool>,
    /// Nodes, with what their guests wrote to their consoles.
    consoles: Arc<Mutex<Vec<(String, String)>>>,
}

impl Heard {
    /// Nothing yet; times count from now.
    pub(super) fn new() -> Self {
        Self {
            began: Instant::now(),
            events: Arc::default(),
            left_out: Arc::default(),
            died: Arc::default(),
            consoles: Arc::default(),
        }
    }

    /// Time since the trial's start.
    pub(super) fn since_start(&self) -> Nanos {
        self.began.elapsed().into()
    }

    /// Notes the events of a node.
    pub(super) fn listener(&self, node: &str) -> impl Fn(Event) + Send + 'static + use<> {
        self.listener_for(node, MOST_OUTPUT)
    }

    /// Notes the events of a node, and of its services' output as many bytes as this.
    fn listener_for(&self, node: &str, most: usize) -> impl Fn(Event) + Send + 'static + use<> {
        let (heard, node, output) = (self.clone(), node.to_owned(), AtomicUsize::new(0));
        move |event| {
            if let Event::ServiceOutput { service, stream, line, .. } = &event
                && output.fetch_add(line.len() + OF_A_LINE, Ordering::Relaxed) >= most
            {
                *lock(&heard.left_out).entry(log_of(&node, service, stream)).or_default() += 1;
                return;
            }
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
                    files.log(&log_of(&node, &service, &stream), &line)?;
                }
                Event::ServiceDied { service, status, .. } => {
                    let text = ended(&service, &status);
                    files.event(&TrialEvent { at, node, kind: "service-died".into(), text })?;
                }
                Event::Progress { .. } => {}
            }
        }
        for (log, lines) in std::mem::take(&mut *lock(&self.left_out)) {
            files.log(&log, &format!("vtax: {lines} more lines were left out"))?;
        }
        for (node, text) in std::mem::take(&mut *lock(&self.consoles)) {
            for line in text.lines() {
                files.log(&format!("{node}-console"), line)?;
            }
        }
        Ok(())
    }
}

/// The log of a service's stream.
fn log_of(node: &str, service: &str, stream: &str) -> String {
    format!("{node}-{service}-{stream}")
}

fn ended(service: &str, status: &str) -> String {
    format!("{service} ended by itself: {status}")
}

#[cfg(test)]
mod tests {
    use vtax_agent::message::ServiceId;
    use vtax_store::RunDir;
    use vtax_store::provenance::Provenance;
    use vtax_store::record::TrialRecord;

    use super::*;

    /// The logs of a trial into which this was written.
    fn logs(write: impl FnOnce(&mut TrialWriter)) -> Vec<(String, String)> {
        let directory = tempfile::tempdir().unwrap();
        let plan =
            vtax_plan::parse("test", vtax_testkit::runs::SMALL_PLAN.as_bytes(), &[] as &[&str]).unwrap();
        let mut run = RunDir::create(directory.path().join("run"), &plan, &Provenance::default()).unwrap();
        let mut files = run.begin_trial(&plan.cells[0].id, &plan.measures[0].name, 0).unwrap();
        write(&mut files);
        let record = TrialRecord::begin(&plan.cells[0].id, &plan.measures[0].name, 0);
        run.finish_trial(files, record).unwrap();
        walk(directory.path())
    }

    #[test]
    fn what_a_guest_wrote_to_its_console_is_in_a_file_of_the_trial() {
        let found = logs(|files| {
            let heard = Heard::new();
            heard.console("sut", "");
            heard.write(files).unwrap();
            heard.console("sut", "BUG: unable to handle page fault\r\nCPU: 0\n");
            heard.write(files).unwrap();
        });
        let text = "BUG: unable to handle page fault\nCPU: 0\n".to_owned();
        assert_eq!(found, [("sut-console.log".to_owned(), text)]);
    }

    #[test]
    fn a_service_that_writes_without_an_end_is_heard_to_a_limit() {
        let heard = Heard::new();
        let said = |line: &str| Event::ServiceOutput {
            id: ServiceId(1),
            service: "http".to_owned(),
            stream: "stderr".to_owned(),
            line: line.to_owned(),
        };
        let [sut, other] = ["sut", "sut-b"].map(|node| heard.listener_for(node, 2 * OF_A_LINE));
        ["a", "b", "c", "d", "e"].into_iter().for_each(|line| sut(said(line)));
        other(said("f"));
        // How it ended is no output.
        let (id, service, status) = (ServiceId(1), "http".to_owned(), "signal 9".to_owned());
        sut(Event::ServiceDied { id, service, status });
        assert!(heard.has_died());
        let mut found = logs(|files| heard.write(files).unwrap());
        found.sort();
        let log = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        let cut = log("sut-http-stderr.log", "a\nb\nvtax: 3 more lines were left out\n");
        assert_eq!(found, [log("sut-b-http-stderr.log", "f\n"), cut]);
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
