//! One result of what all workers found.

use hdrhistogram::Histogram;
use vtax_sys::clock::unix_time;
use vtax_sys::sched;
use vtax_units::Nanos;

use super::recorder::Window;
use super::timetable::Finding;
use crate::limit::{Evidence, FLOOR_IN_LATENCY, judge};
use crate::{
    ConnectionCounts, Counts, Details, GeneratorUse, Interval, LatencyHistogram, LoadError, LoadResult,
};

/// The course of a step, as far as its result depends on it.
#[derive(Debug)]
pub(crate) struct Course {
    /// How long a request may take.
    pub(crate) timeout: Nanos,
    /// Open loop, with intended starts.
    pub(crate) open: bool,
    /// What was to be recorded; it begins with the end of the warm-up.
    pub(crate) window: Window,
    /// CLOCK_MONOTONIC at the start.
    pub(crate) epoch: Nanos,
    /// End of what was recorded.
    pub(crate) end: u64,
}

/// The result of a step from what each worker found.
pub(crate) fn merge(course: &Course, mut findings: Vec<Finding>) -> Result<LoadResult, LoadError> {
    let (from, end) = (course.window.from, course.end);
    if end <= from {
        return Err(LoadError::Cancelled { after: Nanos(end), warmup: Nanos(from) });
    }
    let duration = Nanos(end - from);
    let intervals = merge_intervals(&course.window, duration, &findings);
    let mut counts = Counts::default();
    let mut latency = LatencyHistogram::new();
    for interval in &intervals {
        counts.add(&interval.counts);
        latency.add(&interval.latency);
    }
    let (lateness, generator) = generator(course, &counts, &latency, &findings);
    let connections = connections(intervals.len(), &findings);
    let in_time = || findings.iter().map(|finding| finding.recorder.answered_in_time).sum::<u64>();
    let answered_in_time = course.open.then(in_time);
    let mut details = findings.iter_mut().filter_map(|finding| finding.details.take()).reduce(Details::and);
    if let Some(http) = details.as_mut().and_then(|details| details.http.as_deref_mut()) {
        http.replies_in_time = Some(counts.replies_in_time);
    }
    let mut samples: Vec<_> =
        findings.into_iter().filter_map(|f| f.recorder.samples).flatten().flatten().collect();
    samples.sort_unstable_by_key(|sample| sample.start_ns);
    let started_unix_ns = unix_of(course.epoch.0 + from);
    Ok(LoadResult {
        duration,
        started_unix_ns,
        counts,
        latency,
        lateness,
        intervals,
        connections,
        generator,
        samples,
        details,
        timeout: course.timeout,
        answered_in_time,
    })
}

/// Lateness of the starts, and what the generator used, with the verdict on whether it kept up.
fn generator(
    course: &Course,
    counts: &Counts,
    latency: &LatencyHistogram,
    findings: &[Finding],
) -> (LatencyHistogram, GeneratorUse) {
    let mut lateness = LatencyHistogram::new();
    let mut own_lateness = LatencyHistogram::new();
    let mut generator = GeneratorUse { workers: findings.len() as u32, ..GeneratorUse::default() };
    let mut missed_own = 0;
    for finding in findings {
        add(&mut lateness, &finding.recorder.lateness);
        add(&mut own_lateness, &finding.recorder.own_lateness);
        missed_own += finding.recorder.missed_own;
        generator.cpu_user.0 += finding.used.cpu.user.0;
        generator.cpu_system.0 += finding.used.cpu.system.0;
        generator.busiest = generator.busiest.max(finding.used.busy);
    }
    generator.limited = judge(&Evidence {
        open: course.open,
        busy: findings.iter().map(|f| f.used.busy).collect(),
        displaced: findings.iter().map(|f| f.used.displaced).collect(),
        intended: counts.intended,
        missed: counts.missed,
        missed_own,
        no_descriptors: counts.errors.no_descriptors,
        no_addresses: counts.errors.no_addresses,
        floor: FLOOR_IN_LATENCY,
        latency_p99: p99_with_timeouts(course.timeout, counts, latency),
        lateness_p99: lateness.quantile(0.99),
        own_lateness_p99: own_lateness.quantile(0.99),
    });
    (lateness, generator)
}

/// The time since 1970 of a moment of CLOCK_MONOTONIC, both in nanoseconds.
fn unix_of(monotonic: u64) -> u64 {
    unix_time().0.saturating_sub(sched::monotonic().0.saturating_sub(monotonic))
}

/// Connections of all workers by interval; what came after the last is part of it.
fn connections(length: usize, findings: &[Finding]) -> Vec<ConnectionCounts> {
    let mut all = vec![ConnectionCounts::default(); length];
    for finding in findings {
        let intervals = &finding.recorder.intervals;
        for (i, sum) in all.iter_mut().enumerate() {
            sum.open += intervals.get(i).map_or(0, |interval| interval.connections.open);
        }
        for (i, interval) in intervals.iter().enumerate() {
            if let Some(sum) = all.get_mut(i.min(length.saturating_sub(1))) {
                sum.broken += interval.connections.broken;
            }
        }
    }
    all
}

/// The p99 of latency where requests that timed out or were missed count as their timeout.
fn p99_with_timeouts(timeout: Nanos, counts: &Counts, latency: &LatencyHistogram) -> Nanos {
    let too_late = counts.errors.client_timeout + counts.missed;
    let p99 = latency.quantile(0.99);
    if too_late * 100 > counts.intended { p99.max(timeout) } else { p99 }
}

fn add(to: &mut LatencyHistogram, from: &Histogram<u64>) {
    for value in from.iter_recorded() {
        to.record_n(value.value_iterated_to(), value.count_since_last_iteration());
    }
}

/// The intervals of all workers; where the load was cancelled, up to the one it ended in.
fn merge_intervals(window: &Window, duration: Nanos, findings: &[Finding]) -> Vec<Interval> {
    let length = duration.0.div_ceil(window.interval) as usize;
    let mut intervals: Vec<Interval> = (0..length as u64)
        .map(|i| Interval {
            start: Nanos(i * window.interval),
            counts: Counts::default(),
            latency: LatencyHistogram::new(),
            begun: None,
        })
        .collect();
    for finding in findings {
        for (i, sparse) in finding.recorder.intervals.iter().enumerate() {
            // Workers may see a cancellation some milliseconds apart, across a boundary.
            let Some(interval) = intervals.get_mut(i.min(length - 1)) else { continue };
            interval.counts.add(&sparse.counts);
            for (value, count) in &sparse.latency {
                interval.latency.record_n(*value, *count);
            }
        }
        for (i, begun) in finding.recorder.begun.iter().enumerate() {
            let Some(interval) = intervals.get_mut(i.min(length - 1)) else { continue };
            interval.begun.get_or_insert_default().add(begun);
        }
    }
    intervals
}
