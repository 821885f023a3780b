//! What a trial of calls after a scenario comes to.

use vtax_load::LatencyHistogram;
use vtax_load::sip::{ScriptFigures, SoundFigures};
use vtax_store::record::{TrialRecord, Validity};
use vtax_units::metric::VOICE_MOS;

use crate::general::trial::load;
use crate::metric::{HISTOGRAM_RESOLUTION, Info, VOICE_MOS_WORST, Value, enough, exact, higher, lower};

/// Share of the calls that are the worst.
const WORST: f64 = 0.05;

/// The metrics of this family, in the order of tables. Latency itself is that of all loads.
pub(crate) const METRICS: &[Info] = &[
    lower("call_length_p50", "length of a call, median", "ns", 0),
    lower("call_sent_again", "messages sent again per call", "", 0),
    higher(VOICE_MOS_WORST, "voice, estimated MOS that 5 % of calls don't exceed", "", 1),
    lower("voice_silent", "calls without sound one way", "1", 0),
];

/// What the generator found of calls, where the trial is one of them.
pub(super) fn figures(record: &TrialRecord) -> Option<&ScriptFigures> {
    load(record)?.details.as_ref()?.script.as_deref()
}

/// The figures of a trial; none where it isn't one of calls.
pub(crate) fn values(record: &TrialRecord) -> Vec<Value> {
    let Some(found) = figures(record) else { return Vec::new() };
    let mut values = Vec::new();
    if enough(found.length.len(), 0.5) {
        let median = exact("call_length_p50", found.length.quantile(0.5).0 as f64);
        values.push(Value { resolution: HISTOGRAM_RESOLUTION, ..median });
    }
    if found.calls > 0 {
        values.push(exact("call_sent_again", found.traffic.retransmissions as f64 / found.calls as f64));
    }
    if let Some(sound) = found.sound.as_deref() {
        values.extend(of_sound(sound));
    }
    values
}

/// What calls sounded like, in the metrics of the network test `voice` where they are the same.
fn of_sound(sound: &SoundFigures) -> Vec<Value> {
    let Some(mos) = sound.mos() else { return Vec::new() };
    let mut values = vec![
        exact(VOICE_MOS.name, mos),
        exact("voice_jitter", sound.jitter().0 as f64),
        exact("voice_loss", sound.loss()),
        exact("voice_unheard", sound.unheard()),
        exact("voice_silent", sound.up.silent.max(sound.down.silent) as f64 / sound.calls.max(1) as f64),
    ];
    // One call of a few says nothing of the worst.
    if enough(sound.ratings.calls(), 1.0 - WORST) {
        values.push(exact(VOICE_MOS_WORST, sound.ratings.mos_quantile(WORST)));
    }
    values
}

/// What a valid trial adds to all of its cell and measure; the lines of its log stay with the trial.
pub(crate) fn of_all(record: &TrialRecord) -> Option<ScriptFigures> {
    let found = figures(record).filter(|_| record.validity == Validity::Valid)?;
    let mut found = found.clone();
    found.log.clear();
    Some(found)
}

/// Empties the histograms of calls.
pub(crate) fn forget_histograms(record: &mut TrialRecord) {
    for load in record.observations.iter_mut().filter_map(|o| o.result.as_mut()?.load_mut()) {
        let found = load.details.as_mut().and_then(|details| details.script.as_deref_mut());
        let Some(found) = found else { continue };
        found.length = LatencyHistogram::new();
        if let Some(connections) = &mut found.connections {
            connections.forget_histograms();
        }
        if let Some(sound) = &mut found.sound {
            sound.forget_histograms();
        }
        for timer in &mut found.timers {
            timer.times = LatencyHistogram::new();
        }
    }
}
