//! What a trial of desktops comes to: what came over the wire for its users, and the CPU time that each took.

use vtax_load::LatencyHistogram;
use vtax_load::desktop::{DesktopFigures, Kind};
use vtax_store::record::TrialRecord;

use crate::general::trial::load;
use crate::metric::{HISTOGRAM_RESOLUTION, Info, Unanswered, Value, exact, higher, lower, percentiles};

/// The metrics of this family, in the order of tables. Latency itself is that of all loads.
pub(crate) const METRICS: &[Info] = &[
    lower("desktop_cpu_per_session", "CPUs per session", "CPU", 0),
    lower("desktop_type_p50", "typing, median", "ns", 0),
    lower("desktop_scroll_p50", "scrolling, median", "ns", 0),
    lower("desktop_drag_p50", "dragging, median", "ns", 0),
    lower("desktop_film_p50", "film, median", "ns", 0),
    lower("desktop_merged", "answers merged with a later one's", "1", 0),
    lower("desktop_opening", "until the first picture, longest", "ns", 0),
    higher("desktop_updates", "updates", "/s", 0),
    higher("desktop_pixels", "pixels in updates", "px/s", 0),
    lower("desktop_bytes_per_pixel", "bytes per pixel", "B/px", 0),
];

/// The median latency of a kind of action, as a metric.
pub(super) const fn median_of(kind: Kind) -> &'static str {
    match kind {
        Kind::Type => "desktop_type_p50",
        Kind::Scroll => "desktop_scroll_p50",
        Kind::Drag => "desktop_drag_p50",
        Kind::Film => "desktop_film_p50",
    }
}

/// What the generator found of desktops, where the trial is one of them.
pub(super) fn figures(record: &TrialRecord) -> Option<&DesktopFigures> {
    load(record)?.details.as_ref()?.desktop.as_deref()
}

/// The figures of a trial; none where it isn't one of desktops.
pub(crate) fn values(record: &TrialRecord) -> Vec<Value> {
    let (Some(load), Some(found)) = (load(record), figures(record)) else { return Vec::new() };
    let seconds = found.duration.as_secs_f64();
    let answered: u64 = found.by_kind.iter().map(|(_, latency)| latency.len()).sum();
    let mut values = vec![
        exact("desktop_merged", found.merged as f64 / answered as f64),
        exact("desktop_updates", found.updates as f64 / seconds),
        exact("desktop_pixels", found.pixels as f64 / seconds),
        exact("desktop_bytes_per_pixel", found.bytes as f64 / found.pixels as f64),
    ];
    for (kind, latency) in &found.by_kind {
        // Of what kind those were that had no answer isn't recorded: each kind has the share of all.
        values.extend(percentiles(latency, Unanswered::of(load), &[(median_of(*kind), 0.5)]));
    }
    if !found.opening.is_empty() {
        let longest = found.opening.0.max() as f64;
        values.push(Value { resolution: HISTOGRAM_RESOLUTION, ..exact("desktop_opening", longest) });
    }
    if let Some(cpu) = record.cpu().filter(|cpu| cpu.requests > 0 && found.sessions > 0) {
        // CPU time was taken over a longer time than the actions were recorded in: the time per action is what both have.
        let time: u64 = cpu.layers.iter().map(|layer| layer.time.0).sum();
        let per_second = load.counts.ok as f64 / load.duration.as_secs_f64();
        let busy = time as f64 / cpu.requests as f64 * per_second / 1e9;
        values.push(exact("desktop_cpu_per_session", busy / f64::from(found.sessions)));
    }
    values.retain(|value| value.value.is_finite());
    values
}

/// Empties the histograms of actions.
pub(crate) fn forget_histograms(record: &mut TrialRecord) {
    for load in record.observations.iter_mut().filter_map(|o| o.result.as_mut()?.load_mut()) {
        if let Some(found) = load.details.as_mut().and_then(|details| details.desktop.as_deref_mut()) {
            found.by_kind.clear();
            found.opening = LatencyHistogram::new();
        }
    }
}
