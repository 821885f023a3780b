//! Every test of every trial as a table.

use vtax_store::record::Validity;

use crate::data::RunData;
use crate::table::{Table, count, number, number_or_none, text, text_or_none, yes_no};
use crate::words::invalid;

/// The table; none where the run has no tests of storage.
pub(super) fn tables(data: &RunData) -> Vec<Table> {
    let mut table = Table::new(
        "storage_tests",
        "Storage tests",
        "trial,cell,measure,test,valid,reason,operations,bytes,parent_b_per_s,children_b_per_s,until_durable_ns,records_compared,\
         records_wrong,cached_before_b,fetched_b,device_reads,device_writes,host_fetched_b,host_cached_before_b,answered,processes,\
         slowest_process_b_per_s,fastest_process_b_per_s,server_read_b,server_written_b,sut_cpu_ns,client_cpu_ns",
    );
    let mut any = false;
    for trial in &data.trials {
        for observation in &trial.observations {
            let Some(found) = observation.storage() else { continue };
            any = true;
            let result = &found.result;
            let bytes = |value: Option<u64>| number_or_none(value.map(|value| value as f64));
            let device = result.io.device.as_ref();
            let reason = invalid(&trial.validity).or_else(|| invalid(&observation.validity));
            let counts = trial.validity == Validity::Valid && observation.validity == Validity::Valid;
            table.push([
                number(trial.index),
                text(&trial.cell),
                text(&trial.measure),
                text(&observation.name),
                yes_no(counts),
                text_or_none(reason.as_deref()),
                count(result.load.counts.ok),
                count(result.bytes()),
                number(result.parent()),
                number(result.children()),
                bytes(result.until_durable().map(|time| time.0)),
                count(result.verified.records),
                count(result.verified.wrong()),
                bytes(result.cache.before),
                bytes(result.io.fetched),
                bytes(device.map(|device| device.reads)),
                bytes(device.map(|device| device.writes)),
                bytes(found.host.and_then(|host| host.fetched)),
                bytes(found.host.and_then(|host| host.cached_before)),
                text_or_none(found.answered().as_deref()),
                count(result.processes.len()),
                number(result.slowest_and_fastest().0),
                number(result.slowest_and_fastest().1),
                bytes(found.server.map(|server| server.read)),
                bytes(found.server.map(|server| server.written)),
                bytes(observation.cpu.as_ref().map(|cpu| cpu.total().0)),
                bytes(found.client.as_ref().map(|cpu| cpu.total().0)),
            ]);
        }
    }
    if any { vec![table] } else { Vec::new() }
}
