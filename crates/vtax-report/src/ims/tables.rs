//! The tables of the IMS benchmark as CSV: one row per phase, scenario, measurement, cause, parameter.

use vtax_store::ims::ImsPhase;

use super::stats::{QUANTILES, Stats};
use super::steps::{ihs, ratio, steps};
use super::what::{What, old_scenario};
use super::{Bench, Environment, Ims, Standing, outcome, parameters, standing};
use crate::csv::{Cell, Csv, number};
use crate::report::Report;

/// File names and contents; none where the run has no such benchmark.
pub(crate) fn files(report: &Report) -> Vec<(&'static str, String)> {
    let ims = report.ims();
    if ims.benches.is_empty() {
        return Vec::new();
    }
    vec![
        ("ims_steps.csv", steps_file(report, ims)),
        ("ims_scenarios.csv", scenarios_file(report, ims)),
        ("ims_measurements.csv", measurements_file(report, ims)),
        ("ims_causes.csv", causes_file(report, ims)),
        ("ims_stray.csv", stray_file(report, ims)),
        ("ims_parameters.csv", parameters_file(report, ims)),
    ]
}

/// Name of a file's sheet.
pub(crate) fn sheet(file: &str) -> Option<&'static str> {
    Some(match file {
        "ims_steps.csv" => "IMS steps",
        "ims_scenarios.csv" => "IMS scenarios",
        "ims_measurements.csv" => "IMS measurements",
        "ims_causes.csv" => "IMS causes",
        "ims_stray.csv" => "IMS stray",
        "ims_parameters.csv" => "IMS parameters",
        _ => return None,
    })
}

/// `passed`, `failed`, `preparation`.
pub(crate) fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Prepared => "preparation",
        Standing::Passed => "passed",
        Standing::Failed => "failed",
    }
}

/// Environments with every trial's place in the list of records.
fn trials<'a>(ims: &'a Ims) -> impl Iterator<Item = (&'a Bench, &'a Environment, usize)> {
    let of = |b: &'a Bench| b.environments.iter().map(move |e| (b, e));
    ims.benches.iter().flat_map(of).flat_map(|(b, e)| e.trials.iter().map(move |t| (b, e, *t)))
}

fn steps_file(report: &Report, ims: &Ims) -> String {
    let mut csv = Csv::new(
        "cell,measure,trial,phase,kind,requested_saps,effective_saps,standing,reason,doc,started_unix_ms,duration_s,transient_s,\
         sut_cpu_percent,sut_cpu_host_percent,sut_memory_available_mib,sut_memory_used_mib,generator_cpu_percent,\
         generator_memory_available_mib,global_ihs_percent,retransmissions_per_s",
    );
    for (bench, e, t) in trials(ims) {
        let record = &report.data.trials[t];
        let Some(found) = outcome(record) else { continue };
        let detail = (t == e.shown.record).then_some(&e.shown.detail);
        let table = steps(found, detail);
        let row = |name: &str, i: usize| {
            let row = table.rows.iter().find(|r| r.name == name);
            Cell::Number(row.and_then(|r| r.values.get(i).copied().flatten()))
        };
        for (i, (p, c)) in found.phases.iter().zip(&table.columns).enumerate() {
            csv = csv.row(&[
                Cell::Text(&e.cell),
                Cell::Text(&bench.measure),
                number(record.index),
                Cell::Text(&p.name),
                Cell::Text(&kind(p)),
                number(p.requested.0),
                number(p.effective.0),
                Cell::Text(word(standing(p))),
                Cell::Text(p.reason.as_deref().unwrap_or_default()),
                Cell::Text(if c.decisive { "yes" } else { "no" }),
                number(p.started_unix_ms as f64),
                number(p.duration.as_secs_f64()),
                number(p.transient.as_secs_f64()),
                row("CPU SUT", i),
                row("CPU SUT, seen from the host", i),
                row("Memory SUT, available", i),
                row("Memory SUT, in use", i),
                row("CPU generator", i),
                row("Memory generator, available", i),
                number(p.ihs * 100.0),
                row("Retransmissions", i),
            ]);
        }
    }
    csv.finish()
}

fn kind(p: &ImsPhase) -> String {
    let text = serde_json::to_value(p.kind).ok();
    text.and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn scenarios_file(report: &Report, ims: &Ims) -> String {
    let mut csv = Csv::new(
        "cell,measure,trial,phase,requested_saps,scenario,study_name,attempts,ratio_percent,succeeded,inadequate,ihs_percent,unfinished,retransmissions",
    );
    for (bench, e, t) in trials(ims) {
        let record = &report.data.trials[t];
        for p in outcome(record).map_or(&[][..], |o| o.phases.as_slice()) {
            for s in &p.scenarios {
                csv = csv.row(&[
                    Cell::Text(&e.cell),
                    Cell::Text(&bench.measure),
                    number(record.index),
                    Cell::Text(&p.name),
                    number(p.requested.0),
                    Cell::Text(s.scenario.name()),
                    Cell::Text(old_scenario(s.scenario).unwrap_or_default()),
                    number(s.attempts as f64),
                    number(ratio(p, s.scenario)),
                    number(s.succeeded as f64),
                    number(s.inadequate_total() as f64),
                    Cell::Number(ihs(p, s.scenario)),
                    number(s.unfinished as f64),
                    number(s.retransmissions as f64),
                ]);
            }
        }
    }
    csv.finish()
}

fn measurements_file(report: &Report, ims: &Ims) -> String {
    let names = QUANTILES.map(|(name, _)| name).join(",");
    let mut csv = Csv::new(&format!(
        "cell,measure,trial,phase,requested_saps,standing,measurement,unit,values,mean,variance,sd,min,{names},max"
    ));
    for (bench, e, t) in trials(ims) {
        let record = &report.data.trials[t];
        let Some(found) = outcome(record) else { continue };
        let mut put = |what: What, p: &ImsPhase, s: &Stats| {
            let id = what.id();
            let mut row = vec![
                Cell::Text(&e.cell),
                Cell::Text(&bench.measure),
                number(record.index),
                Cell::Text(&p.name),
                number(p.requested.0),
                Cell::Text(word(standing(p))),
                Cell::Text(&id),
                Cell::Text(what.unit()),
                number(s.count as f64),
                number(s.mean),
                number(s.variance),
                number(s.sd()),
                number(s.min),
            ];
            row.extend(s.percentiles.map(number));
            row.push(number(s.max));
            csv.push(&row);
        };
        if t == e.shown.record && !e.shown.detail.measurements.is_empty() {
            for m in &e.shown.detail.measurements {
                for (p, stats) in found.phases.iter().zip(&m.steps) {
                    stats.iter().for_each(|s| put(m.what, p, s));
                }
            }
            continue;
        }
        // Of the other trials the journal has the response times.
        for p in &found.phases {
            for m in &p.metrics {
                let stats = Stats::of_journal(m);
                stats.iter().for_each(|s| put(What::Delay(m.metric, Some(m.scenario)), p, s));
            }
        }
    }
    csv.finish()
}

fn causes_file(report: &Report, ims: &Ims) -> String {
    let mut csv = Csv::new("cell,measure,trial,phase,scenario,cause,scenarios");
    for (bench, e, t) in trials(ims) {
        let record = &report.data.trials[t];
        for p in outcome(record).map_or(&[][..], |o| o.phases.as_slice()) {
            for s in &p.scenarios {
                for (cause, count) in &s.inadequate {
                    csv = csv.row(&[
                        Cell::Text(&e.cell),
                        Cell::Text(&bench.measure),
                        number(record.index),
                        Cell::Text(&p.name),
                        Cell::Text(s.scenario.name()),
                        Cell::Text(cause),
                        number(*count as f64),
                    ]);
                }
            }
        }
    }
    csv.finish()
}

fn stray_file(report: &Report, ims: &Ims) -> String {
    let mut csv = Csv::new("cell,measure,trial,what,count");
    for (bench, e, t) in trials(ims) {
        let record = &report.data.trials[t];
        let Some(found) = outcome(record) else { continue };
        let pools = [
            ("pool: not registered", found.pools.unregistered),
            ("pool: registered", found.pools.registered),
            ("pool: busy", found.pools.busy),
        ];
        let stray = found.stray.iter().map(|(kind, n)| (kind.as_str(), *n));
        for (what, n) in stray.chain(pools) {
            csv = csv.row(&[
                Cell::Text(&e.cell),
                Cell::Text(&bench.measure),
                number(record.index),
                Cell::Text(what),
                number(n as f64),
            ]);
        }
    }
    csv.finish()
}

fn parameters_file(report: &Report, ims: &Ims) -> String {
    let mut csv = Csv::new("cell,measure,parameter,study_name,value,meaning");
    for bench in &ims.benches {
        for e in &bench.environments {
            let Some(cell) = report.data.cell(&e.cell) else { continue };
            for p in parameters::all(&report.data.plan, cell, &bench.measure) {
                csv = csv.row(&[
                    Cell::Text(&e.cell),
                    Cell::Text(&bench.measure),
                    Cell::Text(&p.name),
                    Cell::Text(p.old),
                    Cell::Text(&p.value),
                    Cell::Text(&p.meaning),
                ]);
            }
        }
    }
    csv.finish()
}
