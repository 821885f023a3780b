//! What a trial of FTP comes to besides what all loads do: bytes of files per second, logins, and the phases of transfers.

use vtax_load::ftp::{FtpDetails, FtpPhase, PhaseTimes};
use vtax_load::{LatencyHistogram, LoadResult};
use vtax_plan::model::{Cell, Plan, Workload};
use vtax_store::record::{Finding, TrialRecord};

use crate::format::quantity;
use crate::metric::{HISTOGRAM_RESOLUTION, Info, Value, exact, higher, lower};

/// Bytes of files that were right, per second.
pub(crate) const GOODPUT: &str = "ftp_goodput";

/// The metrics of this family, in the order of tables.
pub(crate) const METRICS: &[Info] = &[
    higher(GOODPUT, "goodput of files", "B/s", 2),
    lower("ftp_login", "login, mean", "ns", 1),
    lower("ftp_login.connect", "… connect", "ns", 0),
    lower("ftp_login.tls", "… TLS", "ns", 0),
    lower("ftp_login.login", "… the rest of the login", "ns", 0),
    lower("ftp_retr", "RETR, mean", "ns", 1),
    lower("ftp_retr.passive", "… passive", "ns", 0),
    lower("ftp_retr.data-connection", "… data connection", "ns", 0),
    lower("ftp_retr.data-tls", "… data TLS", "ns", 0),
    lower("ftp_retr.first-byte", "… first byte", "ns", 0),
    lower("ftp_retr.content", "… content", "ns", 0),
    lower("ftp_retr.final-reply", "… final reply", "ns", 0),
    lower("ftp_stor", "STOR, mean", "ns", 1),
    lower("ftp_stor.passive", "… passive", "ns", 0),
    lower("ftp_stor.data-connection", "… data connection", "ns", 0),
    lower("ftp_stor.data-tls", "… data TLS", "ns", 0),
    lower("ftp_stor.first-byte", "… first byte", "ns", 0),
    lower("ftp_stor.content", "… content", "ns", 0),
    lower("ftp_stor.final-reply", "… final reply", "ns", 0),
    lower("ftp_list", "LIST, mean", "ns", 1),
    lower("ftp_list.passive", "… passive", "ns", 0),
    lower("ftp_list.data-connection", "… data connection", "ns", 0),
    lower("ftp_list.data-tls", "… data TLS", "ns", 0),
    lower("ftp_list.first-byte", "… first byte", "ns", 0),
    lower("ftp_list.content", "… content", "ns", 0),
    lower("ftp_list.final-reply", "… final reply", "ns", 0),
    higher("ftp_resumed", "data handshakes that resumed", "1", 0),
    lower("ftp_wrong", "acknowledged, but short or wrong", "1", 0),
];

/// What takes time in phases.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    /// Words for it.
    pub(super) name: &'static str,
    /// The metric of all of it.
    metric: &'static str,
    /// Its phases, in their order, each with its metric.
    pub(super) phases: &'static [(FtpPhase, &'static str)],
    times: fn(&FtpDetails) -> &[PhaseTimes],
}

/// Logins, and each kind of transfer.
pub(super) const TIMED: [Timed; 4] = [
    Timed {
        name: "login",
        metric: "ftp_login",
        phases: &[
            (FtpPhase::Connect, "ftp_login.connect"),
            (FtpPhase::Tls, "ftp_login.tls"),
            (FtpPhase::Login, "ftp_login.login"),
        ],
        times: |found| &found.login,
    },
    Timed {
        name: "RETR",
        metric: "ftp_retr",
        phases: &[
            (FtpPhase::Passive, "ftp_retr.passive"),
            (FtpPhase::DataConnection, "ftp_retr.data-connection"),
            (FtpPhase::DataTls, "ftp_retr.data-tls"),
            (FtpPhase::FirstByte, "ftp_retr.first-byte"),
            (FtpPhase::Content, "ftp_retr.content"),
            (FtpPhase::FinalReply, "ftp_retr.final-reply"),
        ],
        times: |found| &found.retr.phases,
    },
    Timed {
        name: "STOR",
        metric: "ftp_stor",
        phases: &[
            (FtpPhase::Passive, "ftp_stor.passive"),
            (FtpPhase::DataConnection, "ftp_stor.data-connection"),
            (FtpPhase::DataTls, "ftp_stor.data-tls"),
            (FtpPhase::FirstByte, "ftp_stor.first-byte"),
            (FtpPhase::Content, "ftp_stor.content"),
            (FtpPhase::FinalReply, "ftp_stor.final-reply"),
        ],
        times: |found| &found.stor.phases,
    },
    Timed {
        name: "LIST",
        metric: "ftp_list",
        phases: &[
            (FtpPhase::Passive, "ftp_list.passive"),
            (FtpPhase::DataConnection, "ftp_list.data-connection"),
            (FtpPhase::DataTls, "ftp_list.data-tls"),
            (FtpPhase::FirstByte, "ftp_list.first-byte"),
            (FtpPhase::Content, "ftp_list.content"),
            (FtpPhase::FinalReply, "ftp_list.final-reply"),
        ],
        times: |found| &found.list.phases,
    },
];

/// What a load of FTP found, with the load.
pub(super) fn found(record: &TrialRecord) -> Option<(&LoadResult, &FtpDetails)> {
    let load = record.finding()?.load()?;
    Some((load, load.details.as_ref()?.ftp.as_deref()?))
}

/// Whether its loads are about the bytes they move, of which they end with a given number, rather than about transfers.
pub(crate) fn is_about_bytes(plan: &Plan) -> bool {
    let of_bytes = |cell: &Cell| matches!(&cell.workload, Workload::Ftp(ftp) if ftp.requests.bytes.is_some());
    !plan.cells.is_empty() && plan.cells.iter().all(of_bytes)
}

/// The time that its details are of, in seconds: what was cut off as warm-up is in them.
pub(super) fn seconds(record: &TrialRecord, load: &LoadResult) -> f64 {
    let cut = record.warm_up().map_or(0.0, |warm_up| warm_up.cut.as_secs_f64());
    load.duration.as_secs_f64() + cut
}

/// Bytes of files that were right, per second: of transfers that ended within the recorded time.
fn goodput(record: &TrialRecord, load: &LoadResult, ftp: &FtpDetails) -> f64 {
    ftp.bytes_in_time() as f64 / seconds(record, load)
}

/// `; 542 MB/s of files`, where a load moved any.
pub(crate) fn describe(record: &TrialRecord) -> String {
    let moved = found(record).filter(|(_, ftp)| ftp.bytes() > 0);
    let rate = moved.map(|(load, ftp)| quantity(goodput(record, load, ftp), "B/s"));
    rate.map_or_else(String::new, |rate| format!("; {rate} of files"))
}

/// The figures of a load in an open or a closed loop.
pub(crate) fn values(record: &TrialRecord) -> Vec<Value> {
    if !matches!(record.finding(), Some(Finding::Latency { .. } | Finding::Throughput { .. })) {
        return Vec::new();
    }
    let Some((load, ftp)) = found(record) else { return Vec::new() };
    let mut values = vec![exact(GOODPUT, goodput(record, load, ftp))];
    for timed in TIMED {
        let times = (timed.times)(ftp);
        let mut sum = 0.0;
        for (phase, metric) in timed.phases {
            let mean = |times: &PhaseTimes| times.times.0.mean();
            let Some(mean) = times.iter().find(|times| times.phase == *phase).map(mean) else { continue };
            sum += mean;
            values.push(of_histogram(metric, mean));
        }
        if !times.is_empty() {
            values.push(of_histogram(timed.metric, sum));
        }
    }
    let done = ftp.handshakes;
    let data = done.data_full + done.data_resumed;
    if data > 0 {
        values.push(exact("ftp_resumed", done.data_resumed as f64 / data as f64));
    }
    let acknowledged = ftp.ok() + ftp.wrong();
    if acknowledged > 0 {
        values.push(exact("ftp_wrong", ftp.wrong() as f64 / acknowledged as f64));
    }
    values.retain(|value| value.value.is_finite());
    values
}

fn of_histogram(metric: &'static str, value: f64) -> Value {
    Value { resolution: HISTOGRAM_RESOLUTION, ..exact(metric, value) }
}

/// Empties the histograms of phases.
pub(crate) fn forget_histograms(record: &mut TrialRecord) {
    for load in record.observations.iter_mut().filter_map(|o| o.result.as_mut()?.load_mut()) {
        let Some(ftp) = load.details.as_mut().and_then(|details| details.ftp.as_deref_mut()) else {
            continue;
        };
        let phases = [&mut ftp.login, &mut ftp.retr.phases, &mut ftp.stor.phases, &mut ftp.list.phases];
        for times in phases.into_iter().flatten() {
            times.times = LatencyHistogram::new();
        }
    }
}

/// What a reader must know of each cell whose server acknowledged what wasn't so.
pub(crate) fn cautions(plan: &Plan, trials: &[TrialRecord]) -> Vec<String> {
    let of_cell = |cell: &str| {
        let own = trials.iter().filter(|trial| trial.cell == cell);
        let (mut trials, mut wrong) = (0, 0);
        for (_, ftp) in own.filter_map(found).filter(|(_, ftp)| ftp.wrong() > 0) {
            trials += 1;
            wrong += ftp.wrong();
        }
        let trials = if trials == 1 { "one trial".to_owned() } else { format!("{trials} trials") };
        (wrong > 0).then(|| {
            format!(
                "{cell}: in {trials} the server acknowledged transfers that were short or wrong, {wrong} of them: data was lost."
            )
        })
    };
    plan.cells.iter().filter_map(|cell| of_cell(&cell.id)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_phase_has_a_metric() {
        let declared = |name: &str| METRICS.iter().any(|info| info.name == name);
        for timed in TIMED {
            assert!(declared(timed.metric), "{}", timed.metric);
            for (phase, metric) in timed.phases {
                assert!(declared(metric) && metric.starts_with(timed.metric), "{metric}");
                let name = serde_json::to_string(phase).unwrap();
                assert!(metric.ends_with(&format!(".{}", name.trim_matches('"'))), "{metric} {name}");
            }
        }
        let phases = |at: usize| TIMED[at].phases.iter().map(|(phase, _)| *phase).collect::<Vec<_>>();
        assert_eq!(phases(0), FtpPhase::LOGIN);
        assert!((1..4).all(|at| phases(at) == FtpPhase::TRANSFER));
    }
}
