//! Probes between the edges of a path's routers while a load is held and things break.

use vtax_agent::{AgentError, Client};
use vtax_store::failover::{TopologyEvent, TopologyOutcome};
use vtax_sys::chain;
use vtax_sys::clock::unix_time;
use vtax_topology::timeline::{Entry, Source};
use vtax_units::Nanos;

use super::inject::OnTopology;

/// Time between two probes each way: what a convergence time is told to within.
const INTERVAL: Nanos = Nanos::from_millis(1);
/// The timeline begins so long before the first thing that is done.
const BEFORE: Nanos = Nanos::from_millis(100);
/// Most entries of a timeline: it is a part of its trial's line in the journal, which would be refused if it were too long.
const MOST_ENTRIES: usize = 40_000;

/// Probes that are under way, or why there are none.
pub(super) struct Probing<'a> {
    routers: &'a Client,
    problem: Option<String>,
}

impl<'a> Probing<'a> {
    /// Begins to send them.
    pub(super) fn start(routers: &'a Client) -> Self {
        let problem = routers.start_streams(INTERVAL).err().map(|e| chain(&e));
        Self { routers, problem }
    }

    /// Ends them; what they and the routers said of what was done, of a load that began at `started_unix_ns`.
    pub(super) fn finish(self, done: &[OnTopology], started_unix_ns: u64) -> TopologyOutcome {
        let none = |problem: Option<String>| TopologyOutcome {
            interval: INTERVAL,
            late: Nanos::ZERO,
            before: None,
            events: Vec::new(),
            timeline: Vec::new(),
            problem,
        };
        if self.problem.is_some() {
            return none(self.problem);
        }
        match self.found(done, started_unix_ns) {
            Ok(outcome) => outcome,
            Err(error) => none(Some(chain(&error))),
        }
    }

    fn found(&self, done: &[OnTopology], started_unix_ns: u64) -> Result<TopologyOutcome, AgentError> {
        let now = unix_time();
        let mut asked = times(done, now);
        asked.extend(before(done, Nanos(started_unix_ns)));
        let mut found = self.routers.stop_streams(asked)?;
        let (interval, late) = (found.interval, found.late);
        let Some(first) = done.first() else {
            let (events, timeline) = (Vec::new(), Vec::new());
            return Ok(TopologyOutcome { interval, late, before: None, events, timeline, problem: None });
        };
        let before = found.convergence.pop();
        let since_start = |at: Nanos| Nanos(at.0.saturating_sub(started_unix_ns));
        let events = done.iter().zip(&found.convergence).map(|(event, [up, down])| TopologyEvent {
            fault: event.fault,
            at: since_start(event.here),
            up: *up,
            down: *down,
        });
        let entries = gathered(stretches(done, now), |from, to| self.routers.timeline(from, to))?.into_iter();
        let timeline =
            entries.map(|entry| Entry { at: since_start(to_here(first, entry.at)), ..entry }).collect();
        let events = events.collect();
        Ok(TopologyOutcome { interval, late, before, events, timeline, problem: None })
    }
}

/// From each event to the next one, the last to the end, on the clock of the routers' node.
fn times(done: &[OnTopology], end: Nanos) -> Vec<(Nanos, Nanos)> {
    let next = done.iter().skip(1).map(|event| event.there);
    let last = done.last().map(|event| to_there(event, end));
    done.iter().map(|event| event.there).zip(next.chain(last)).collect()
}

/// From the start of the load to the first event, on the clock of the routers' node; `None` where nothing was done.
fn before(done: &[OnTopology], started: Nanos) -> Option<(Nanos, Nanos)> {
    done.first().map(|first| (to_there(first, started), first.there))
}

/// What of the timeline belongs to each event, on the clock of the routers' node, both ends included: asked for by itself, it has
/// room however much was said of the events before.
fn stretches(done: &[OnTopology], end: Nanos) -> Vec<(Nanos, Nanos)> {
    let mut times = times(done, end);
    if let Some((from, _)) = times.first_mut() {
        *from = from.saturating_sub(BEFORE);
    }
    let all_but_last = times.len().saturating_sub(1);
    for (_, to) in times.iter_mut().take(all_but_last) {
        *to = to.saturating_sub(Nanos(1));
    }
    times
}

/// The entries of all stretches; of too many the first, and one that says that there were more. Stretches that follow aren't asked
/// for.
fn gathered<E>(
    stretches: Vec<(Nanos, Nanos)>,
    mut ask: impl FnMut(Nanos, Nanos) -> Result<Vec<Entry>, E>,
) -> Result<Vec<Entry>, E> {
    let mut timeline = Vec::new();
    for (from, to) in stretches {
        timeline.extend(ask(from, to)?);
        if timeline.len() > MOST_ENTRIES {
            timeline.truncate(MOST_ENTRIES);
            let at = timeline.last().map_or(from, |entry| entry.at);
            let text = "later entries are left out".to_owned();
            timeline.push(Entry { at, router: "all".to_owned(), source: Source::Fault, text });
            break;
        }
    }
    Ok(timeline)
}

/// A moment on this side's clock as the routers' node has it.
fn to_there(event: &OnTopology, at: Nanos) -> Nanos {
    moved(at, event.here, event.there)
}

/// A moment on the routers' node's clock as this side has it.
fn to_here(event: &OnTopology, at: Nanos) -> Nanos {
    moved(at, event.there, event.here)
}

/// A moment as far from `to` as it was from `from`.
fn moved(at: Nanos, from: Nanos, to: Nanos) -> Nanos {
    let ahead = i128::from(at.0) - i128::from(from.0);
    Nanos(u64::try_from(i128::from(to.0) + ahead).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::TopologyFault;

    use super::*;

    fn event(here: u64, there: u64) -> OnTopology {
        let fault = TopologyFault::CutLink("a-b".parse().unwrap());
        OnTopology { fault, here: Nanos(here), there: Nanos(there) }
    }

    #[test]
    fn an_event_lasts_until_the_next_on_the_routers_clock() {
        let done = [event(100, 1_100), event(150, 1_150)];
        let expected = [(Nanos(1_100), Nanos(1_150)), (Nanos(1_150), Nanos(1_200))];
        assert_eq!(times(&done, Nanos(200)), expected);
        assert!(times(&[], Nanos(200)).is_empty());
        assert_eq!(before(&done, Nanos(30)), Some((Nanos(1_030), Nanos(1_100))));
        assert_eq!(before(&[], Nanos(30)), None);
    }

    #[test]
    fn each_event_has_a_timeline_of_its_own_and_no_moment_has_two() {
        let ms = |ms: u64| Nanos(ms * 1_000_000);
        let done = [(100, 1_100), (150, 1_150)].map(|(here, there)| event(ms(here).0, ms(there).0));
        let expected = [(ms(1_000), Nanos(ms(1_150).0 - 1)), (ms(1_150), ms(1_200))];
        assert_eq!(stretches(&done, ms(200)), expected);
        assert!(stretches(&[], ms(200)).is_empty());
    }

    #[test]
    fn a_timeline_of_many_events_fits_a_line_of_the_journal() {
        // Each stretch has as many entries as one event may have.
        const EACH: u64 = 2_000;
        let gather = |events: u64| {
            let stretches = (0..events).map(|n| (Nanos(n * EACH), Nanos((n + 1) * EACH - 1))).collect();
            let mut asked = 0;
            let entry = |at: u64| {
                let (router, text) = ("r".to_owned(), "x".repeat(300));
                Entry { at: Nanos(at), router, source: Source::Daemon("ospfd".to_owned()), text }
            };
            let timeline = gathered(stretches, |from, to| {
                asked += 1;
                Ok::<_, AgentError>((from.0..=to.0).map(entry).collect())
            });
            (timeline.unwrap(), asked)
        };
        let (all, asked) = gather(20);
        assert_eq!((all.len(), asked), (MOST_ENTRIES, 20));
        assert!(all.iter().all(|entry| entry.source != Source::Fault));
        let (cut, asked) = gather(100);
        assert_eq!((cut.len(), asked), (MOST_ENTRIES + 1, 21));
        assert_eq!(cut[..MOST_ENTRIES], all);
        let last = &cut[MOST_ENTRIES];
        assert_eq!((last.at, last.text.as_str()), (Nanos(39_999), "later entries are left out"));
        let bytes: usize = cut.iter().map(|entry| serde_json::to_string(entry).unwrap().len() + 1).sum();
        assert!(bytes < 16 << 20, "{bytes}");
    }

    #[test]
    fn clocks_that_differ_are_told_apart() {
        let behind = event(1_000, 400);
        assert_eq!(to_here(&behind, Nanos(390)), Nanos(990));
        assert_eq!(to_here(&behind, Nanos(410)), Nanos(1_010));
        assert_eq!(to_there(&behind, Nanos(1_100)), Nanos(500));
    }
}
