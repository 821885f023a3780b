//! Calls after scenarios as tables.

use vtax_store::record::Validity;

use super::connections;
use super::page::{percentile, sum};
use super::sound;
use super::trial::figures;
use crate::data::RunData;
use crate::table::{Table, count, number, number_or_none, text, text_or_none, yes_no};
use crate::words::invalid;

/// Every trial, then what all trials of a cell together said of timers, commands and failures; none in a run without such calls.
pub(super) fn tables(data: &RunData) -> Vec<Table> {
    let trials = trials(data);
    if data.calls.is_empty() && trials.is_none() {
        return Vec::new();
    }
    let mut all: Vec<Table> = trials.into_iter().collect();
    all.extend([timers(data), commands(data), failures(data)]);
    all.extend(connections::table(data));
    all.extend(sound::tables(data));
    all
}

fn trials(data: &RunData) -> Option<Table> {
    let columns = "trial,cell,measure,valid,reason,scenario,calls,succeeded,failed,requests_sent,responses_sent,sent_again,\
                   requests_received,responses_received,stray";
    let mut table = Table::new("script_trials", "Script trials", columns);
    let mut any = false;
    for trial in &data.trials {
        let Some(found) = figures(trial) else { continue };
        any = true;
        table.push([
            number(trial.index),
            text(&trial.cell),
            text(&trial.measure),
            yes_no(trial.validity == Validity::Valid),
            text_or_none(invalid(&trial.validity).as_deref()),
            text(&found.scenario),
            count(found.calls),
            count(found.succeeded),
            count(sum(found.failed.values())),
            count(found.traffic.requests_sent),
            count(found.traffic.responses_sent),
            count(found.traffic.retransmissions),
            count(found.traffic.requests_received),
            count(found.traffic.responses_received),
            count(sum(found.stray.values())),
        ]);
    }
    any.then_some(table)
}

fn timers(data: &RunData) -> Table {
    let columns = "cell,measure,timer,times,mean_ns,p50_ns,p90_ns,p95_ns,p99_ns,max_ns";
    let mut table = Table::new("script_timers", "Script timers", columns);
    for ((cell, measure), found) in &data.calls {
        let length = ("call length", &found.length);
        let timers = found.timers.iter().map(|timer| (timer.name.as_str(), &timer.times));
        for (name, times) in timers.chain([length]).filter(|(_, times)| !times.is_empty()) {
            let percentile = |quantile| number_or_none(percentile(times, quantile));
            table.push([
                text(cell),
                text(measure),
                text(name),
                count(times.len()),
                count(times.mean().0),
                percentile(0.5),
                percentile(0.9),
                percentile(0.95),
                percentile(0.99),
                count(times.max().0),
            ]);
        }
    }
    table
}

fn commands(data: &RunData) -> Table {
    let columns = "cell,measure,line,command,done,again,timeouts,unexpected,lost";
    let mut table = Table::new("script_commands", "Script commands", columns);
    for ((cell, measure), found) in &data.calls {
        for command in &found.commands {
            table.push([
                text(cell),
                text(measure),
                number(command.line),
                text(&command.label),
                count(command.done),
                count(command.again),
                count(command.timeouts),
                count(command.unexpected),
                count(command.lost),
            ]);
        }
    }
    table
}

fn failures(data: &RunData) -> Table {
    let mut table = Table::new("script_failures", "Script failures", "cell,measure,cause,calls");
    for ((cell, measure), found) in &data.calls {
        for (cause, calls) in &found.failed {
            table.push([text(cell), text(measure), text(cause), count(*calls)]);
        }
    }
    table
}
