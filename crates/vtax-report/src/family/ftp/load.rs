//! Every load of FTP in figures, with the columns of curl-loader's log: requests, replies by class, errors, delay, throughput in and out.

use vtax_load::LoadResult;
use vtax_load::ftp::{FtpDetails, FtpTransfers};
use vtax_plan::model::Workload;
use vtax_store::record::{TrialRecord, Validity};

use super::trial::{found, seconds};
use crate::data::RunData;
use crate::format::{duration, quantity};
use crate::html::parts::details;
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::table::{Table, count, number, number_or_none, text, text_or_none, yes_no};
use crate::words::invalid;

const COLUMNS: [(&str, bool); 13] = [
    ("Trial", true),
    ("Cell", false),
    ("Clients", true),
    ("Requests", true),
    ("1xx to 3xx", true),
    ("4xx", true),
    ("5xx", true),
    ("Errors", true),
    ("Timeouts", true),
    ("Delay", true),
    ("In", true),
    ("Out", true),
    ("First failure", false),
];

/// The table of the page, one row for each trial.
pub(super) fn section(data: &RunData) -> Markup {
    let mut table = PlainTable::new("", &COLUMNS);
    for (trial, load, ftp) in all(data) {
        let counts = &load.counts;
        let [first, second, third, fourth, fifth] = counts.status;
        let per_second = |bytes: u64| quantity(bytes as f64 / load.duration.as_secs_f64(), "B/s");
        let timeouts = counts.errors.client_timeout;
        let other = counts.errors.total().saturating_sub(timeouts + counts.errors.status);
        let row = [
            trial.cell.clone(),
            clients(data, trial).map_or_else(|| "-".to_owned(), |clients| clients.to_string()),
            counts.sent.to_string(),
            (first + second + third).to_string(),
            fourth.to_string(),
            fifth.to_string(),
            other.to_string(),
            timeouts.to_string(),
            delay(data, trial).map_or_else(|| "-".to_owned(), duration),
            per_second(counts.bytes_received),
            per_second(counts.bytes_sent),
            ftp.first_failure.clone().unwrap_or_default(),
        ];
        table.push(&format!("{:03}", trial.index), row);
    }
    let mut m = details("As a table", &table.finish());
    m.element(
        "p",
        &[("class", "small-print")],
        "Requests are transfers, with `arrivals_of: sessions` whole sessions; replies are those that ended one. Errors are all other failures: \
         those without a reply, and transfers that the server acknowledged but that were short or wrong (these have a reply, too). Delay is the \
         mean of a trial's requests that were right; one that doesn't count has none. In and out are all bytes, commands and TLS included.",
    );
    m
}

/// Every load of FTP, in the order of trials.
fn all(data: &RunData) -> impl Iterator<Item = (&TrialRecord, &LoadResult, &FtpDetails)> {
    data.trials.iter().filter_map(|trial| found(trial).map(|(load, ftp)| (trial, load, ftp)))
}

fn clients(data: &RunData, trial: &TrialRecord) -> Option<u32> {
    match &data.cell(&trial.cell)?.workload {
        Workload::Ftp(ftp) => Some(ftp.clients),
        _ => None,
    }
}

/// The mean latency of a valid trial.
fn delay(data: &RunData, trial: &TrialRecord) -> Option<f64> {
    let found = data.of_trial(trial).iter().find(|value| value.metric == "latency_mean")?;
    Some(found.value)
}

/// The tables of the run; none where it has no load of FTP.
pub(super) fn tables(data: &RunData) -> Vec<Table> {
    let mut table = Table::new(
        "ftp_loads",
        "FTP loads",
        "trial,cell,measure,valid,reason,duration_s,tls,logins,broken_sessions,continued,retr,stor,list,failed,short,corrupt,file_bytes,\
         goodput_b_per_s,compared_b,control_full,control_resumed,data_full,data_resumed,without_close_notify,passive_elsewhere,refusals,\
         first_failure",
    );
    let mut any = false;
    for (trial, load, ftp) in all(data) {
        any = true;
        let sum = |of: fn(&FtpTransfers) -> u64| ftp.kinds().iter().map(|(_, kind)| of(kind)).sum::<u64>();
        let refusals = ftp.refusals.iter().map(|(code, times)| format!("{code}: {times}"));
        let refusals = refusals.collect::<Vec<_>>().join(", ");
        let seconds = seconds(trial, load);
        let goodput = (seconds > 0.0).then(|| ftp.bytes_in_time() as f64 / seconds);
        table.push([
            number(trial.index),
            text(&trial.cell),
            text(&trial.measure),
            yes_no(trial.validity == Validity::Valid),
            text_or_none(invalid(&trial.validity).as_deref()),
            number(seconds),
            text_or_none(ftp.tls.as_deref()),
            count(ftp.logins),
            count(ftp.broken_sessions),
            count(ftp.continued),
            count(ftp.retr.ok),
            count(ftp.stor.ok),
            count(ftp.list.ok),
            count(sum(|kind| kind.failed)),
            count(sum(|kind| kind.short)),
            count(sum(|kind| kind.corrupt)),
            count(ftp.bytes()),
            number_or_none(goodput),
            count(ftp.compared),
            count(ftp.handshakes.control_full),
            count(ftp.handshakes.control_resumed),
            count(ftp.handshakes.data_full),
            count(ftp.handshakes.data_resumed),
            count(ftp.without_close_notify),
            count(ftp.passive_elsewhere),
            text_or_none(Some(refusals.as_str()).filter(|text| !text.is_empty())),
            text_or_none(ftp.first_failure.as_deref()),
        ]);
    }
    if any { vec![table] } else { Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every trial of a cell had the mean of all.
    #[test]
    fn each_trial_has_a_delay_of_its_own() {
        let directory = tempfile::tempdir().unwrap();
        let options = vtax_fixture::Options {
            repetitions: 3,
            seconds: 2,
            rate: 100,
            ..vtax_fixture::Options::default()
        };
        let run = vtax_fixture::create(&directory.path().join("run"), &options).unwrap();
        let data = RunData::read(&run).unwrap();
        let (cell, measure) = ("native.bridge.http", "latency");
        let own = data.trials.iter().filter(|trial| trial.cell == cell && trial.measure == measure);
        let delays: Vec<f64> = own.filter_map(|trial| delay(&data, trial)).collect();
        let means = data.metric(cell, measure, "latency_mean");
        assert_eq!(delays, means.iter().map(|found| found.value).collect::<Vec<f64>>());
        assert!(delays.len() > 1 && delays[1..].iter().any(|delay| *delay != delays[0]), "{delays:?}");
    }
}
