//! The tables of the IMS benchmark as CSV: one row per phase, scenario, measurement, cause, parameter.

use vtax_store::ims::ImsPhase;

use super::bench::{Bench, Benches, Environment};
use super::parameters;
use super::stats::{QUANTILES, Stats};
use super::steps::{ihs, ratio, steps};
use super::trial::{Standing, outcome, standing};
use super::what::{What, old_scenario};
use crate::context::Context;
use crate::table::{Cell, Table, count, moment, number, number_or_none, text, text_or_none, yes_no};

/// Every table; none where the run has no such benchmark.
pub(super) fn tables(context: &Context, ims: &Benches) -> Vec<Table> {
    if ims.benches.is_empty() {
        return Vec::new();
    }
    vec![
        steps_table(context, ims),
        scenarios_table(context, ims),
        measurements_table(context, ims),
        causes_table(context, ims),
        stray_table(context, ims),
        parameters_table(context, ims),
    ]
}

/// `passed`, `failed`, `preparation`, `no limit`.
pub(crate) fn word(standing: Standing) -> &'static str {
    match standing {
        Standing::Prepared => "preparation",
        Standing::Passed => "passed",
        Standing::Failed => "failed",
        Standing::Unlimited => "no limit",
    }
}

/// Environments with every trial's place in the list of records.
fn trials<'a>(ims: &'a Benches) -> impl Iterator<Item = (&'a Bench, &'a Environment, usize)> {
    let of = |b: &'a Bench| b.environments.iter().map(move |e| (b, e));
    ims.benches.iter().flat_map(of).flat_map(|(b, e)| e.trials.iter().map(move |t| (b, e, *t)))
}

fn steps_table(context: &Context, ims: &Benches) -> Table {
    let mut table = Table::new(
        "ims_steps",
        "IMS steps",
        "cell,measure,trial,phase,kind,requested_saps,effective_saps,standing,reason,doc,started_unix_ms,duration_s,transient_s,\
         sut_cpu_percent,sut_cpu_host_percent,sut_memory_available_mib,sut_memory_used_mib,generator_cpu_percent,\
         generator_memory_available_mib,global_ihs_percent,retransmissions_per_s",
    );
    for (bench, e, t) in trials(ims) {
        let record = &context.data.trials[t];
        let Some(found) = outcome(record) else { continue };
        let detail = (t == e.shown.record).then_some(&e.shown.detail);
        let found_steps = steps(found, detail);
        let row = |name: &str, i: usize| {
            let row = found_steps.rows.iter().find(|r| r.name == name);
            number_or_none(row.and_then(|r| r.values.get(i).copied().flatten()))
        };
        for (i, (p, c)) in found.phases.iter().zip(&found_steps.columns).enumerate() {
            table.push([
                text(&e.cell),
                text(&bench.measure),
                number(record.index),
                text(&p.name),
                text(kind(p)),
                number(p.requested.0),
                number(p.effective.0),
                text(word(standing(p))),
                text_or_none(p.reason.as_deref()),
                yes_no(c.decisive),
                moment(p.started_unix_ms),
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
    table
}

fn kind(p: &ImsPhase) -> String {
    let text = serde_json::to_value(p.kind).ok();
    text.and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn scenarios_table(context: &Context, ims: &Benches) -> Table {
    let mut table = Table::new(
        "ims_scenarios",
        "IMS scenarios",
        "cell,measure,trial,phase,requested_saps,scenario,study_name,attempts,ratio_percent,succeeded,inadequate,ihs_percent,unfinished,retransmissions",
    );
    for (bench, e, t) in trials(ims) {
        let record = &context.data.trials[t];
        for p in outcome(record).map_or(&[][..], |o| o.phases.as_slice()) {
            for s in &p.scenarios {
                table.push([
                    text(&e.cell),
                    text(&bench.measure),
                    number(record.index),
                    text(&p.name),
                    number(p.requested.0),
                    text(s.scenario.name()),
                    text(old_scenario(s.scenario).unwrap_or_default()),
                    count(s.attempts),
                    number(ratio(p, s.scenario)),
                    count(s.succeeded),
                    count(s.inadequate_total()),
                    number_or_none(ihs(p, s.scenario)),
                    count(s.unfinished),
                    count(s.retransmissions),
                ]);
            }
        }
    }
    table
}

fn measurements_table(context: &Context, ims: &Benches) -> Table {
    let names = QUANTILES.map(|(name, _)| name).join(",");
    let mut table = Table::new(
        "ims_measurements",
        "IMS measurements",
        &format!(
            "cell,measure,trial,phase,requested_saps,standing,measurement,unit,values,mean,variance,sd,min,{names},max"
        ),
    );
    for (bench, e, t) in trials(ims) {
        let record = &context.data.trials[t];
        let Some(found) = outcome(record) else { continue };
        let mut put = |what: What, p: &ImsPhase, s: &Stats| {
            let id = what.id();
            let mut row = vec![
                text(&e.cell),
                text(&bench.measure),
                number(record.index),
                text(&p.name),
                number(p.requested.0),
                text(word(standing(p))),
                text(&id),
                text(what.unit()),
                count(s.count),
                number(s.mean),
                number(s.variance),
                number(s.sd()),
                number(s.min),
            ];
            row.extend(s.percentiles.map(number));
            row.push(number(s.max));
            table.push(row);
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
    table
}

fn causes_table(context: &Context, ims: &Benches) -> Table {
    let mut table =
        Table::new("ims_causes", "IMS causes", "cell,measure,trial,phase,scenario,cause,scenarios");
    for (bench, e, t) in trials(ims) {
        let record = &context.data.trials[t];
        for p in outcome(record).map_or(&[][..], |o| o.phases.as_slice()) {
            for s in &p.scenarios {
                for (cause, scenarios) in &s.inadequate {
                    table.push([
                        text(&e.cell),
                        text(&bench.measure),
                        number(record.index),
                        text(&p.name),
                        text(s.scenario.name()),
                        text(cause),
                        count(*scenarios),
                    ]);
                }
            }
        }
    }
    table
}

fn stray_table(context: &Context, ims: &Benches) -> Table {
    let mut table = Table::new("ims_stray", "IMS stray", "cell,measure,trial,what,count");
    for (bench, e, t) in trials(ims) {
        let record = &context.data.trials[t];
        let Some(found) = outcome(record) else { continue };
        let pools = [
            ("pool: not registered", found.pools.unregistered),
            ("pool: registered", found.pools.registered),
            ("pool: busy", found.pools.busy),
        ];
        let stray = found.stray.iter().map(|(kind, n)| (kind.as_str(), *n));
        for (what, n) in stray.chain(pools) {
            table.push([text(&e.cell), text(&bench.measure), number(record.index), text(what), count(n)]);
        }
    }
    table
}

fn parameters_table(context: &Context, ims: &Benches) -> Table {
    let mut table =
        Table::new("ims_parameters", "IMS parameters", "cell,measure,parameter,study_name,value,meaning");
    for bench in &ims.benches {
        for e in &bench.environments {
            let Some(cell) = context.data.cell(&e.cell) else { continue };
            for p in parameters::all(&context.data.plan, cell, &bench.measure) {
                table.push([
                    text(&e.cell),
                    text(&bench.measure),
                    text(&p.name),
                    text(p.old),
                    Cell::Fact(p.value),
                    text(&p.meaning),
                ]);
            }
        }
    }
    table
}
