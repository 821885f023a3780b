//! The first sentence of a report whose run measured only faults.

use vtax_units::counted;

use super::failover::End;
use super::trial::{broken, failover, one};
use crate::data::RunData;
use crate::format::duration;

/// More environments aren't named: the table does that.
const MOST_NAMED: usize = 6;

/// How long clients waited after faults, in each environment; `None` without a fault that counts.
pub(crate) fn headline(data: &RunData) -> Option<String> {
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
            waits.add(&f.end, f.times.answered);
        }
    }
    waits.words()
}

/// Times until the first answer.
#[derive(Debug, Default)]
struct Waits {
    faults: usize,
    /// Faults after which none came.
    lost: usize,
    /// The shortest and the longest, in seconds.
    span: Option<(f64, f64)>,
}

impl Waits {
    fn add(&mut self, end: &End, answered: Option<f64>) {
        self.faults += 1;
        self.lost += usize::from(matches!(end, End::Lost(_)));
        if let Some(seconds) = answered.filter(|_| *end == End::Survived) {
            let (least, most) = self.span.unwrap_or((seconds, seconds));
            self.span = Some((least.min(seconds), most.max(seconds)));
        }
    }

    /// `875 ms to 1.46 s`, `14.6 s to 17.2 s, never after 9 of 12 faults`, `never (12 faults)`.
    fn words(&self) -> Option<String> {
        let Self { faults, lost, span } = self;
        let span = span.map(|(least, most)| {
            let [least, most] = [least, most].map(|seconds| duration(seconds * 1e9));
            if least == most { least } else { format!("{least} to {most}") }
        });
        match (span, lost) {
            (span, 0) => span,
            (None, lost) if lost == faults => Some(format!("never ({})", counted(*faults, "fault"))),
            (None, lost) => Some(format!("never after {lost} of {faults} faults")),
            (Some(span), lost) => Some(format!("{span}, never after {lost} of {faults} faults")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_and_the_longest_are_told_and_how_often_there_was_none() {
        let of = |ends: &[(End, Option<f64>)]| {
            let mut waits = Waits::default();
            ends.iter().for_each(|(end, answered)| waits.add(end, *answered));
            waits.words()
        };
        let (survived, lost) = (|seconds| (End::Survived, Some(seconds)), (End::Lost(String::new()), None));
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(End::Unknown, None)]), None);
        assert_eq!(of(&[survived(0.95)]).as_deref(), Some("950 ms"));
        assert_eq!(of(&[survived(1.46), survived(0.875)]).as_deref(), Some("875 ms to 1.46 s"));
        assert_eq!(of(&[survived(1.0), lost.clone()]).as_deref(), Some("1.00 s, never after 1 of 2 faults"));
        assert_eq!(of(&[lost]).as_deref(), Some("never (1 fault)"));
    }
}
