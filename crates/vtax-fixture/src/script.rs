//! Made-up runs of calls after a scenario of SIPp's, natively and in a virtual machine.

use std::path::Path;

use vtax_load::network::VoicePackets;
use vtax_load::sip::{
    CommandCounts, Ratings, ScriptFigures, SoundDirection, SoundFigures, TimerFigures, Traffic,
};
use vtax_load::{Counts, Details, LatencyHistogram, LoadResult};
use vtax_plan::model::{Cell, Measure};
use vtax_store::record::{Finding, Observation, TrialRecord, Validity};
use vtax_store::{RunDir, StoreError};
use vtax_units::{Nanos, Rate};

const PLAN: &str = "
vtax: 1
name: made-up-calls
baseline: native
environments: [native, vm]
services: uas
workload:
  sip:
    auth_password: not-to-be-shown
    scenario: |
      <scenario name=\"made up\">
        <send start_rtd=\"1\"><![CDATA[
          OPTIONS sip:[remote_ip] SIP/2.0
          Call-ID: [call_id]
          CSeq: 1 OPTIONS
        ]]></send>
        <recv response=\"200\" rtd=\"1\" counter=\"answers\"/>
      </scenario>
measure:
  - latency: {load: 100/s, duration: 10s}
repeat: 3
";

/// Calls of a trial, of which one in a hundred fails.
const CALLS: u64 = 1_000;
/// A native call's response time in nanoseconds; a virtual machine takes twice as long.
const RESPONSE: u64 = 1_000_000;

/// Makes up a run in `path`, which must not exist or be empty.
///
/// # Errors
///
/// The store's, where the run can't be written.
pub fn create(path: &Path) -> Result<RunDir, StoreError> {
    // A plan of this program's own that parses.
    let plan = vtax_plan::parse("made-up-calls", PLAN.as_bytes(), &[] as &[&str])
        .unwrap_or_else(|e| unreachable!("{e}"));
    let provenance = super::provenance(&super::Options::default());
    let mut run = RunDir::create(path, &plan, &provenance)?;
    for repetition in 0..plan.repeat.min {
        for cell in &plan.cells {
            for measure in &plan.measures {
                let trial = run.begin_trial(&cell.id, &measure.name, repetition)?;
                let record = record(cell, measure, repetition);
                run.finish_trial(trial, TrialRecord { repetition, round: Some(repetition), ..record })?;
            }
        }
    }
    run.completed()?;
    Ok(run.run().clone())
}

fn record(cell: &Cell, measure: &Measure, repetition: u32) -> TrialRecord {
    let factor = if cell.environment.name == "vm" { 2 } else { 1 };
    let load = load(factor, u64::from(repetition));
    let offered = Rate(100.0);
    let whole = Observation::whole(1_700_000_000_000, Finding::Latency { offered, load });
    TrialRecord {
        observations: vec![whole],
        validity: Validity::Valid,
        ..TrialRecord::begin(&cell.id, &measure.name, repetition)
    }
}

/// Sound of so many calls, each of 100 packets each way, of which a virtual machine loses more, the calls of a tenth most.
fn sound(factor: u64, calls: u64) -> SoundFigures {
    let ratings = Ratings::from(vec![(700 / factor as u16, calls / 10), (932, calls - calls / 10)]);
    let mut jitter = LatencyHistogram::new();
    (0..calls).for_each(|call| jitter.record(Nanos((100_000 + call) * factor)));
    let direction = |lost| SoundDirection {
        packets: VoicePackets {
            intended: 100 * calls,
            sent: 100 * calls,
            received: 100 * calls - lost * factor,
            ..VoicePackets::default()
        },
        jitter: jitter.clone(),
        jitter_max: jitter.clone(),
        ratings: ratings.clone(),
        silent: factor - 1,
    };
    SoundFigures {
        calls,
        up: direction(20),
        down: direction(30),
        ratings: ratings.clone(),
        ..SoundFigures::default()
    }
}

fn load(factor: u64, repetition: u64) -> LoadResult {
    let (mut times, mut length) = (LatencyHistogram::new(), LatencyHistogram::new());
    let ok = CALLS - CALLS / 100;
    for call in 0..ok {
        let time = (RESPONSE + RESPONSE / 100 * (call % 10 + repetition)) * factor;
        times.record(Nanos(time));
        length.record(Nanos(time * 3));
    }
    let command = |line, label: &str, done| CommandCounts {
        line,
        label: label.to_owned(),
        done,
        ..CommandCounts::default()
    };
    let figures = ScriptFigures {
        scenario: "made up".to_owned(),
        calls: CALLS,
        succeeded: ok,
        failed: [("<recv 200> of line 7: nothing came".to_owned(), CALLS - ok)].into(),
        commands: vec![command(2, "send OPTIONS", CALLS), command(7, "recv 200", ok)],
        timers: vec![TimerFigures { name: "1".to_owned(), times: times.clone() }],
        length,
        counters: [("answers".to_owned(), ok)].into(),
        traffic: Traffic {
            requests_sent: CALLS + CALLS / 50,
            responses_received: ok,
            retransmissions: CALLS / 50,
            ..Traffic::default()
        },
        sound: Some(Box::new(sound(factor, ok))),
        log: vec!["a line of its log".to_owned()],
        ..ScriptFigures::default()
    };
    LoadResult {
        duration: Nanos::from_secs(10),
        started_unix_ns: 1_700_000_000_000_000_000,
        counts: Counts {
            intended: CALLS,
            sent: CALLS,
            ok,
            errors: vtax_load::Errors { client_timeout: CALLS - ok, ..vtax_load::Errors::default() },
            ..Counts::default()
        },
        latency: times,
        lateness: LatencyHistogram::new(),
        intervals: Vec::new(),
        connections: Vec::new(),
        generator: vtax_load::GeneratorUse::default(),
        samples: Vec::new(),
        details: Some(Details { script: Some(Box::new(figures)), ..Details::default() }),
        timeout: Nanos::ZERO,
        answered_in_time: None,
    }
}
