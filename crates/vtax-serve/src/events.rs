//! What happens to a run, as server-sent events that can be gone on with (docs/serve.md).

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::http::HeaderMap;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::OwnedSemaphorePermit;
use vtax_report::pages::invalid;
use vtax_store::record::Validity;
use vtax_store::{JournalLine, JournalTail, LiveReader, LiveState, is_written};

/// Time between two looks at a run that is written, and at one that isn't.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(3);
/// Looks between two that ask whether somebody writes.
const EVERY: u32 = 4;
/// Time between two signs of life where nothing happens.
const ALIVE: Duration = Duration::from_secs(15);

/// The id of an event: the line of the journal that was told last, and the moment of the last state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct EventId {
    pub(crate) line: u64,
    pub(crate) moment: u64,
}

impl EventId {
    /// Understands the id of an event; `None` where it is none.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (line, moment) = text.split_once('.')?;
        Some(Self { line: line.parse().ok()?, moment: moment.parse().ok()? })
    }

    /// The last one that a client that reconnects was told; else the one that its page has.
    pub(crate) fn of(headers: &HeaderMap, after: Option<&str>) -> Self {
        let last = headers.get("last-event-id").and_then(|id| id.to_str().ok());
        last.and_then(Self::parse).or_else(|| after.and_then(Self::parse)).unwrap_or_default()
    }
}

impl std::fmt::Display for EventId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.line, self.moment)
    }
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Told {
    pub(crate) id: EventId,
    pub(crate) event: &'static str,
    pub(crate) data: Value,
}

/// Follows one run for one client.
#[derive(Debug)]
pub(crate) struct Follower {
    run: PathBuf,
    journal: JournalTail,
    live: LiveReader,
    last: EventId,
    written: Option<bool>,
    looks: u32,
}

impl Follower {
    pub(crate) fn new(run: &Path, last: EventId) -> Self {
        Self {
            run: run.to_owned(),
            journal: JournalTail::after(run, last.line),
            live: LiveReader::new(run),
            last,
            written: None,
            looks: 0,
        }
    }

    /// What happened since the last look; `None` where the run is gone or can't be read any more.
    pub(crate) fn look(&mut self) -> Option<Vec<Told>> {
        let mut told = Vec::new();
        let lines = self.journal.read().ok()?;
        let has_grown = !lines.is_empty();
        for line in lines {
            self.last.line = line.place;
            if let Some((event, data)) = of_line(&line) {
                told.push(Told { id: self.last, event, data });
            }
        }
        self.last.line = self.journal.last_line();
        // A file that can't be read is no reason to end: the journal is what counts.
        let states = self.live.read().unwrap_or_default();
        let newest = states.into_iter().next_back().filter(|state| state.at_unix_ms > self.last.moment);
        let before = self.written;
        // What comes to a run that nobody wrote to says that somebody does again: that is told with it.
        let stirs = before == Some(false) && (has_grown || newest.is_some());
        if stirs || self.looks.is_multiple_of(EVERY) {
            self.written = Some(is_written(&self.run));
        }
        self.looks = self.looks.wrapping_add(1);
        let written = self.written.unwrap_or_default();
        if let Some(state) = newest {
            self.last.moment = state.at_unix_ms;
            told.push(Told { id: self.last, event: "state", data: of_state(&state, written) });
        }
        if before != Some(false) && !written {
            told.push(Told { id: self.last, event: "quiet", data: json!({}) });
        }
        Some(told)
    }

    fn pause(&self) -> Duration {
        if self.written == Some(true) { SOON } else { LATER }
    }
}

/// What a line of the journal is told as; nothing where clients needn't know.
fn of_line(line: &JournalLine) -> Option<(&'static str, Value)> {
    let at = json!({"at_unix_ms": line.at_unix_ms});
    match line.event.as_str() {
        "trial-ended" => {
            let valid = line.validity == Some(Validity::Valid);
            let reason = line.validity.as_ref().and_then(invalid);
            let took = line.timings.unwrap_or_default().total();
            let data = json!({
                "index": line.index, "cell": line.cell, "measure": line.measure, "repetition": line.repetition,
                "valid": valid, "reason": reason, "took_ms": took.0 / 1_000_000,
                "spent_ms": line.spent().0 / 1_000_000,
            });
            Some(("trial", data))
        }
        "note" => Some(("note", json!({"cell": line.cell, "text": line.text}))),
        "resumed" => Some(("resumed", at)),
        "completed" => Some(("completed", at)),
        _ => None,
    }
}

fn of_state(state: &LiveState, written: bool) -> Value {
    let mut data = serde_json::to_value(state).unwrap_or_default();
    if let Some(fields) = data.as_object_mut() {
        fields.insert("written".to_owned(), json!(written));
    }
    data
}

/// A follower with what it has to tell.
struct Feed {
    follower: Follower,
    waiting: VecDeque<Told>,
    first: bool,
    /// One of few places: it is given back when the client goes.
    _place: OwnedSemaphorePermit,
}

/// The next event; `None` where there will be none any more.
async fn next(mut feed: Feed) -> Option<(Result<Event, Infallible>, Feed)> {
    loop {
        if let Some(told) = feed.waiting.pop_front() {
            let event =
                Event::default().event(told.event).id(told.id.to_string()).data(told.data.to_string());
            return Some((Ok(event), feed));
        }
        if !std::mem::take(&mut feed.first) {
            tokio::time::sleep(feed.follower.pause()).await;
        }
        feed = tokio::task::spawn_blocking(move || {
            let found = feed.follower.look()?;
            feed.waiting.extend(found);
            Some(feed)
        })
        .await
        .ok()??;
    }
}

/// The answer that follows a run.
pub(crate) fn follow(run: &Path, last: EventId, permit: OwnedSemaphorePermit) -> Response {
    let follower = Follower::new(run, last);
    let feed = Feed { follower, waiting: VecDeque::new(), first: true, _place: permit };
    let stream = futures_util::stream::unfold(feed, next);
    Sse::new(stream).keep_alive(KeepAlive::new().interval(ALIVE)).into_response()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use vtax_store::{LiveWriter, lock_journal};

    use super::*;

    fn append(run: &Path, line: &str) {
        let path = run.join("journal.jsonl");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
        writeln!(file, "{line}").unwrap();
    }

    fn words(told: &[Told]) -> Vec<(String, &'static str)> {
        told.iter().map(|t| (t.id.to_string(), t.event)).collect()
    }

    #[test]
    fn who_comes_back_gets_what_came_after() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        append(run, r#"{"event":"opened","version":3,"at_unix_ms":1}"#);
        append(run, r#"{"event":"note","cell":null,"text":"one"}"#);
        let mut first = Follower::new(run, EventId::default());
        let told = first.look().unwrap();
        assert_eq!(words(&told), [("2.0".to_owned(), "note"), ("2.0".to_owned(), "quiet")]);
        assert!(first.look().unwrap().is_empty());
        append(
            run,
            r#"{"event":"trial-ended","index":4,"cell":"vm","measure":"m","validity":{"validity":"valid"}}"#,
        );
        let mut live = LiveWriter::create(run).unwrap();
        live.append(&LiveState { at_unix_ms: 70, ..LiveState::default() }).unwrap();
        live.append(&LiveState { at_unix_ms: 80, phase: "measuring".to_owned(), ..LiveState::default() })
            .unwrap();
        let told = first.look().unwrap();
        assert_eq!(words(&told), [("3.0".to_owned(), "trial"), ("3.80".to_owned(), "state")]);
        assert_eq!((told[0].data["index"].as_u64(), told[0].data["valid"].as_bool()), (Some(4), Some(true)));
        assert_eq!(told[1].data["phase"], "measuring");
        // Another server, which knows nothing but the id that the client has.
        append(run, r#"{"event":"resumed","at_unix_ms":9}"#);
        append(run, r#"{"event":"completed","at_unix_ms":10}"#);
        let mut again = Follower::new(run, EventId::parse("3.80").unwrap());
        let told: Vec<Told> = again.look().unwrap().into_iter().filter(|t| t.event != "quiet").collect();
        assert_eq!(words(&told), [("4.80".to_owned(), "resumed"), ("5.80".to_owned(), "completed")]);
        std::fs::remove_file(run.join("journal.jsonl")).unwrap();
        assert!(again.look().is_none(), "the run is gone");
    }

    /// It was asked at every fourth look alone, so that pages called a run that went on interrupted for up to twelve seconds.
    #[test]
    fn a_run_that_is_gone_on_with_is_told_with_its_first_state() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        append(run, r#"{"event":"opened","version":3,"at_unix_ms":1}"#);
        let mut follower = Follower::new(run, EventId::default());
        assert_eq!(words(&follower.look().unwrap()), [("1.0".to_owned(), "quiet")]);
        assert_eq!(follower.pause(), LATER);
        let journal = std::fs::File::open(run.join("journal.jsonl")).unwrap();
        lock_journal(&journal, run).unwrap();
        let mut live = LiveWriter::create(run).unwrap();
        live.append(&LiveState { at_unix_ms: 70, ..LiveState::default() }).unwrap();
        let told = follower.look().unwrap();
        assert_eq!(words(&told), [("1.70".to_owned(), "state")]);
        assert_eq!((told[0].data["written"].as_bool(), follower.pause()), (Some(true), SOON));
    }

    /// Its journal may say so before there is a state.
    #[test]
    fn a_run_is_looked_at_soon_once_its_journal_goes_on() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path();
        append(run, r#"{"event":"opened","version":3,"at_unix_ms":1}"#);
        let mut follower = Follower::new(run, EventId::default());
        follower.look().unwrap();
        let journal = std::fs::File::open(run.join("journal.jsonl")).unwrap();
        lock_journal(&journal, run).unwrap();
        append(run, r#"{"event":"resumed","at_unix_ms":2}"#);
        assert_eq!(words(&follower.look().unwrap()), [("2.0".to_owned(), "resumed")]);
        assert_eq!(follower.pause(), SOON);
    }

    /// Both trials of a pair are told, each with its own length; together they spent the time of one.
    #[test]
    fn a_pair_spends_its_time_once() {
        let dir = tempfile::tempdir().unwrap();
        let timings = r#"{"testbed":"1s","service":"1s","measure":"8s","teardown":"0ns"}"#;
        append(dir.path(), &format!(r#"{{"event":"trial-ended","index":0,"timings":{timings}}}"#));
        for (index, partner) in [(1, 2), (2, 1)] {
            let partner = format!(r#"{{"index":{partner},"cell":"vm"}}"#);
            let line = format!(
                r#"{{"event":"trial-ended","index":{index},"partner":{partner},"timings":{timings}}}"#
            );
            append(dir.path(), &line);
        }
        let told = Follower::new(dir.path(), EventId::default()).look().unwrap();
        let ms = |name: &str| -> Vec<Option<u64>> {
            told.iter().filter(|t| t.event == "trial").map(|t| t.data[name].as_u64()).collect()
        };
        assert_eq!(ms("took_ms"), [Some(10_000); 3]);
        assert_eq!(ms("spent_ms"), [Some(10_000), Some(5_000), Some(5_000)]);
        assert!(include_str!("assets/page.js").contains("spend(t.spent_ms)"), "the script adds these up");
    }

    #[test]
    fn ids_of_others_are_no_ids() {
        assert_eq!(EventId::parse("3.80"), Some(EventId { line: 3, moment: 80 }));
        for wrong in ["", "3", "3.", ".5", "-1.2", "3.80.1", "99999999999999999999.0", "a.b"] {
            assert_eq!(EventId::parse(wrong), None, "{wrong}");
        }
        let mut headers = HeaderMap::new();
        assert_eq!(EventId::of(&headers, Some("2.7")).to_string(), "2.7");
        headers.insert("last-event-id", "5.9".parse().unwrap());
        assert_eq!(EventId::of(&headers, Some("2.7")).to_string(), "5.9");
    }
}
