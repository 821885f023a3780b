//! The first sentences of a report whose run measured only faults.

use vtax_units::counted;

use super::failover::{End, Failover};
use super::trial::{broken, failover, one};
use crate::data::RunData;
use crate::format::duration;
use crate::routed;

/// More environments aren't named: the table does that.
const MOST_NAMED: usize = 6;

/// How long routers took to lead around faults, where a path has any, and how long clients waited; `None` without a fault that
/// counts.
pub(crate) fn headline(data: &RunData) -> Option<String> {
    let sentences = [routed::headline(data), callers(data)];
    let said: Vec<String> = sentences.into_iter().flatten().collect();
    (!said.is_empty()).then(|| said.join(" "))
}

/// How long clients waited after faults, in each environment.
fn callers(data: &RunData) -> Option<String> {
    let of_cell = |id: &str| Some(format!("{} {}", data.spelt_out(id)?, waited(data, id)?));
    let mut said: Vec<String> = data.plan.cells.iter().filter_map(|cell| of_cell(&cell.id)).collect();
    let more = said.len().saturating_sub(MOST_NAMED);
    said.truncate(MOST_NAMED);
    let more = if more > 0 { format!("; and {more} more environments") } else { String::new() };
    (!said.is_empty()).then(|| format!("From a fault to the first answer: {}{more}.", said.join("; ")))
}

/// How long clients of a cell waited, over all of its faults that count.
fn waited(data: &RunData, cell: &str) -> Option<String> {
    let mut waits = Waits::default();
    for record in data.trials.iter().filter(|trial| trial.cell == cell) {
        let faults = failover(record).into_iter().flat_map(broken);
        for f in faults.map(|f| one(record, 0, f)).filter(|f| f.excluded.is_none() && !f.planned) {
            waits.add(&f);
        }
    }
    waits.words()
}

/// Times until the first answer.
#[derive(Debug, Default)]
struct Waits {
    faults: usize,
    /// Faults after which nobody had to wait.
    calm: usize,
    /// Faults after which none came before the plan restored something.
    restored: usize,
    /// Faults after which none came.
    lost: usize,
    /// The shortest and the longest, in seconds.
    span: Option<(f64, f64)>,
}

impl Waits {
    fn add(&mut self, f: &Failover) {
        self.faults += 1;
        match (&f.end, f.answered()) {
            (End::Survived, Some(seconds)) => {
                let (least, most) = self.span.unwrap_or((seconds, seconds));
                self.span = Some((least.min(seconds), most.max(seconds)));
            }
            (End::Survived, None) => self.calm += usize::from(f.outage == Some(false)),
            (End::Restored(_), _) => self.restored += 1,
            (End::Lost(_), _) => self.lost += 1,
            (End::Unknown, _) => {}
        }
    }

    /// `875 ms to 1.46 s`, `14.6 s to 17.2 s, never after 9 of 12 faults`, `only once it was restored (12 faults)`.
    fn words(&self) -> Option<String> {
        let span = self.span.map(|(least, most)| {
            let [least, most] = [least, most].map(|seconds| duration(seconds * 1e9));
            if least == most { least } else { format!("{least} to {most}") }
        });
        let part = |count: usize, words: &str| match count {
            0 => None,
            all if all == self.faults => Some(format!("{words} ({})", counted(all, "fault"))),
            some => Some(format!("{words} after {some} of {} faults", self.faults)),
        };
        let parts = [
            span,
            part(self.calm, "no outage"),
            part(self.restored, "only once it was restored"),
            part(self.lost, "never"),
        ];
        let said: Vec<String> = parts.into_iter().flatten().collect();
        (!said.is_empty()).then(|| said.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ft::failover::{Counts, Times};

    fn ended(end: End, answered: Option<f64>, outage: Option<bool>) -> Failover {
        Failover {
            trial: 0,
            measure: String::new(),
            number: 1,
            fault: String::new(),
            happened: String::new(),
            host_failed: false,
            planned: false,
            at: 0.0,
            end,
            excluded: None,
            times: Times { answered, ..Times::default() },
            outage,
            spacing_ns: None,
            left_ns: None,
            silence_ns: None,
            fencing_ns: None,
            takeover_ns: None,
            rearm_ns: None,
            silence_arming_ns: None,
            rebuild_ns: None,
            forgotten_ns: None,
            counts: Counts::default(),
        }
    }

    #[test]
    fn the_shortest_and_the_longest_are_told_and_how_often_there_was_none() {
        let of = |ends: &[Failover]| {
            let mut waits = Waits::default();
            ends.iter().for_each(|f| waits.add(f));
            waits.words()
        };
        let survived = |seconds: f64| ended(End::Survived, Some(seconds), None);
        let lost = || ended(End::Lost(String::new()), None, Some(true));
        let restored = || ended(End::Restored("link a-b was restored".to_owned()), Some(14.7), Some(true));
        let calm = || ended(End::Survived, Some(0.00859), Some(false));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[ended(End::Unknown, None, None)]), None);
        assert_eq!(of(&[survived(0.95)]).as_deref(), Some("950 ms"));
        assert_eq!(of(&[survived(1.46), survived(0.875)]).as_deref(), Some("875 ms to 1.46 s"));
        assert_eq!(of(&[survived(1.0), lost()]).as_deref(), Some("1.00 s, never after 1 of 2 faults"));
        assert_eq!(of(&[lost()]).as_deref(), Some("never (1 fault)"));
        // When the plan restores something isn't how long callers wait, and how often they ask isn't either.
        assert_eq!(of(&[restored(), restored()]).as_deref(), Some("only once it was restored (2 faults)"));
        assert_eq!(of(&[calm(), survived(0.741)]).as_deref(), Some("741 ms, no outage after 1 of 2 faults"));
        assert_eq!(of(&[calm()]).as_deref(), Some("no outage (1 fault)"));
    }
}
