//! What clients saw of faults, counted again from the raw requests.
//!
//! Written from the definitions in docs/methodology.md and docs/failover-report.md alone, to be compared with what vtax says. It shares
//! no code with vtax and does not care how long it takes: every question goes through all requests.

/// One request. Times are nanoseconds from the start of the load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// When it was meant to start.
    pub asked: u64,
    /// When it was answered or given up.
    pub ended: u64,
    /// Whether it was answered as it should be.
    pub answered: bool,
}

/// Something that broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broken {
    /// When it broke.
    pub at: u64,
    /// The time in which the guest is known not to have run.
    pub dead: Option<(u64, u64)>,
    /// When it was mended, if nobody had noticed it before.
    pub mended: Option<u64>,
    /// When the guest was protected again.
    pub armed: Option<u64>,
}

/// What was seen of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counted {
    /// The first answer after its outage, if it came before the next thing broke.
    pub first_answer: Option<u64>,
    /// Back to normal, or the next thing broke, or the load ended.
    pub until: u64,
    /// Requests under way from then till then.
    pub attempts: u64,
    /// Of those, failed.
    pub failed: u64,
    /// Of those, answered late.
    pub delayed: u64,
}

const SECOND: u64 = 1_000_000_000;

/// Counts for each broken thing, in order of time, under a load of this length; answers that took longer than `delayed`
/// are late.
#[must_use]
pub fn recount(requests: &[Request], length: u64, broken: &[Broken], delayed: u64) -> Vec<Counted> {
    let silences = silences(requests, length);
    let mut all: Vec<Counted> = Vec::new();
    // From where on what is usual is taken, and from where on a request isn't the earlier thing's.
    let (mut settled, mut own_from) = (0, 0);
    for (place, this) in broken.iter().enumerate() {
        let next = broken.get(place + 1).map_or(u64::MAX, |next| next.at);
        let usual_from = settled.min(this.at).max(this.at.saturating_sub(5 * SECOND));
        let first_answer = match this.dead {
            Some(dead) => after_death(requests, length, dead),
            None => {
                // What begins later isn't its outage.
                let latest = (this.at + SECOND).min(next - 1).min(this.mended.unwrap_or(u64::MAX));
                after_outage(requests, &silences, (this.at, latest), (usual_from, next), delayed)
            }
        };
        let first_answer = first_answer.filter(|came| *came < next);
        let end = next.min(length);
        let band = band(requests, usual_from, this.at);
        let normal =
            first_answer.zip(band).and_then(|(first, band)| normal(requests, first.max(this.at), end, band));
        let until = normal.unwrap_or(end);
        let own_to = first_answer.unwrap_or(next);
        let mine: Vec<&Request> = requests
            .iter()
            .filter(|r| r.asked < until && r.ended >= this.at)
            .filter(|r| r.asked >= own_from && (r.ended < next || r.asked < own_to))
            .collect();
        let late = |r: &&&Request| r.answered && r.ended - r.asked > delayed;
        all.push(Counted {
            first_answer,
            until,
            attempts: mine.len() as u64,
            failed: mine.iter().filter(|r| !r.answered).count() as u64,
            delayed: mine.iter().filter(late).count() as u64,
        });
        settled = until.max(this.armed.filter(|armed| *armed < next).unwrap_or(0));
        own_from = own_to;
    }
    all
}

/// Answers' times, in order.
fn answers(requests: &[Request]) -> Vec<u64> {
    let mut came: Vec<u64> = requests.iter().filter(|r| r.answered).map(|r| r.ended).collect();
    came.sort_unstable();
    came
}

/// Begin and end of each time in which somebody waited and nobody was answered; the last one's end may be open.
fn silences(requests: &[Request], length: u64) -> Vec<(u64, Option<u64>, u64)> {
    let came = answers(requests);
    let known = requests.iter().filter(|r| !r.answered).map(|r| r.ended).fold(length, u64::max);
    let mut silences = Vec::new();
    for place in 0..=came.len() {
        let begin = if place == 0 { 0 } else { came[place - 1] };
        let end = came.get(place).copied();
        if place > 0 && end == Some(begin) {
            // Several answers at one moment leave nothing between them.
            continue;
        }
        let mut waits: Option<u64> = None;
        for r in requests {
            let waiting = match (r.answered, end) {
                (true, Some(end)) => r.ended > begin && r.ended >= end,
                (true, None) => false,
                (false, _) => r.ended > begin,
            };
            if waiting {
                let from = r.asked.max(begin);
                waits = Some(waits.map_or(from, |known| known.min(from)));
            }
        }
        if let Some(from) = waits {
            silences.push((from, end, end.unwrap_or(known)));
        }
    }
    silences
}

/// The first answer after the longest time without one that reaches into the guest's death.
fn after_death(requests: &[Request], length: u64, (died, ran): (u64, u64)) -> Option<u64> {
    let came = answers(requests);
    let known = requests.iter().filter(|r| !r.answered).map(|r| r.ended).fold(length, u64::max).max(ran);
    let mut longest = None;
    for place in 0..=came.len() {
        let last = if place == 0 { 0 } else { came[place - 1] };
        let first = came.get(place).copied();
        if (place == 0 || last <= ran) && first.is_none_or(|first| first >= died) {
            let silent = first.unwrap_or(known).saturating_sub(last);
            if longest.is_none_or(|(known, _)| silent >= known) {
                longest = Some((silent, first));
            }
        }
    }
    longest.and_then(|(_, first)| first)
}

/// The first answer after an outage that nobody but clients knows of, or the first of all where there was none.
fn after_outage(
    requests: &[Request],
    silences: &[(u64, Option<u64>, u64)],
    (at, latest): (u64, u64),
    (usual_from, next): (u64, u64),
    delayed: u64,
) -> Option<u64> {
    let length = |(from, _, end): (u64, Option<u64>, u64)| end.min(next).saturating_sub(from);
    let mut longest: Option<(u64, Option<u64>)> = None;
    let mut usual = Vec::new();
    for silence in silences {
        let (from, to, _) = *silence;
        if from <= latest && to.is_none_or(|to| to > at) {
            if longest.is_none_or(|(known, _)| length(*silence) >= known) {
                longest = Some((length(*silence), to));
            }
        } else if from >= usual_from && to.is_some_and(|to| to <= at) {
            usual.push(length(*silence));
        }
    }
    let usual_most = usual.iter().max().filter(|_| usual.len() >= 20).copied();
    let most = usual_most.map_or(delayed, |most| 2 * most);
    // The next thing came before this silence could show whether it is an outage.
    let doubtful = |length: u64, to: Option<u64>| {
        next != u64::MAX && to.is_none_or(|to| to >= next) && length > usual_most.unwrap_or(delayed)
    };
    match longest {
        Some((length, to)) if length > most || doubtful(length, to) => to,
        _ => answers(requests).into_iter().find(|came| *came > at),
    }
}

/// The 95th percentile of what was asked and answered in this time.
fn band(requests: &[Request], from: u64, to: u64) -> Option<u64> {
    let usual = requests.iter().filter(|r| r.answered && r.asked >= from && r.ended < to);
    let mut took: Vec<u64> = usual.map(|r| r.ended - r.asked).collect();
    took.sort_unstable();
    let place = (took.len().saturating_sub(1) as f64 * 0.95).round() as usize;
    took.get(place).copied().filter(|_| took.len() >= 20)
}

/// The first moment from which on all is as before for a second.
fn normal(requests: &[Request], from: u64, end: u64, band: u64) -> Option<u64> {
    let mut moments: Vec<u64> =
        requests.iter().filter(|r| r.answered && r.asked >= from).map(|r| r.asked).collect();
    moments.push(from);
    moments.sort_unstable();
    moments.into_iter().find(|moment| {
        let second = *moment..moment.saturating_add(SECOND);
        if second.end > end {
            return false;
        }
        let asked = || requests.iter().filter(|r| second.contains(&r.asked));
        let mut answered: Vec<&Request> = asked().filter(|r| r.answered).collect();
        answered.sort_unstable_by_key(|r| (r.asked, r.ended));
        let slow = answered.iter().filter(|r| r.ended - r.asked > band).count();
        answered.len() >= 3
            && answered[0].ended - answered[0].asked <= band
            && slow as f64 <= 0.1 * answered.len() as f64
            && asked().all(|r| r.answered)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_stalled_second_is_counted_by_hand() {
        // Asked every 100 ms and answered 1 ms later, but for what is asked from 5 s to 6 s: at 6 s, or never.
        let requests: Vec<Request> = (0..100)
            .map(|i| {
                let asked = i * 100 * MS;
                let (ended, answered) = match i {
                    50..55 => (6_000 * MS, true),
                    55..60 => (asked + 2 * SECOND, false),
                    _ => (asked + MS, true),
                };
                Request { asked, ended, answered }
            })
            .collect();
        let broken = |at: u64| Broken { at: at * MS, dead: None, mended: None, armed: None };
        let counted = recount(&requests, 10 * SECOND, &[broken(4_999)], 100 * MS);
        let all = Counted {
            first_answer: Some(6_000 * MS),
            until: 6_000 * MS,
            attempts: 10,
            failed: 5,
            delayed: 5,
        };
        assert_eq!(counted, [all]);
        // The next one comes first: nobody knows what would have become of it.
        let two = recount(&requests, 10 * SECOND, &[broken(4_999), broken(5_150)], 100 * MS);
        assert_eq!((two[0].first_answer, two[0].attempts), (None, 2));
        // Too little came between them to say what is normal, so everything counts from then on.
        assert_eq!((two[1].first_answer, two[1].attempts), (Some(6_000 * MS), 48));
    }
}
