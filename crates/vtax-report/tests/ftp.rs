//! A made-up run of FTP, from the store to every form of the report.

use std::fs;
use std::path::Path;

use vtax_fixture::{Options, create};
use vtax_load::ftp::{FtpDetails, FtpPhase, FtpTransfers, PhaseTimes};
use vtax_load::{Counts, Details, GeneratorUse, LatencyHistogram, LoadResult};
use vtax_plan::model::{Cell, Workload};
use vtax_report::write_all;
use vtax_store::RunDir;
use vtax_store::record::{Finding, Observation, TrialRecord};
use vtax_units::Nanos;

const PLAN: &str = "\
vtax: 1
name: ftp
study: virtual-servers
baseline: native
environments: [native, container]
services: ftp
workload: {ftp: {tls: [none, explicit], protect: [control, all]}}
measure: [throughput]
";
/// Transfers of a trial.
const TRANSFERS: u64 = 2000;
const ROUNDS: u32 = 3;

fn always(time: u64, count: u64) -> LatencyHistogram {
    let mut histogram = LatencyHistogram::new();
    (0..count).for_each(|_| histogram.record(Nanos(time)));
    histogram
}

/// A transfer takes 1 ms in the clear, 1.2 ms with PROT C and 1.8 ms with PROT P.
fn load(cell: &Cell, short: u64) -> LoadResult {
    let Workload::Ftp(ftp) = &cell.workload else { panic!("{:?}", cell.workload) };
    let (tls, time) = match &ftp.requests.tls {
        None => (None, 1_000_000),
        Some(tls) if !tls.protect => (Some("TLS 1.3 X"), 1_200_000),
        Some(_) => (Some("TLS 1.3 X"), 1_800_000),
    };
    // Twice as long where files are on a disk.
    let on_disk = cell.parameters.get("backend").is_some_and(|backend| backend == "disk");
    let time = if on_disk { 2 * time } else { time };
    let of_phase = |phase| PhaseTimes { phase, times: always(time / 6, TRANSFERS) };
    let retr = FtpTransfers {
        ok: TRANSFERS,
        failed: short,
        short,
        bytes: TRANSFERS * 100_000,
        phases: FtpPhase::TRANSFER.map(of_phase).to_vec(),
        ..FtpTransfers::default()
    };
    let details =
        FtpDetails { retr, tls: tls.map(str::to_owned), logins: TRANSFERS / 10, ..FtpDetails::default() };
    LoadResult {
        duration: Nanos::from_secs(10),
        started_unix_ns: 0,
        counts: Counts { sent: TRANSFERS, ok: TRANSFERS, ..Counts::default() },
        latency: always(time, TRANSFERS),
        lateness: LatencyHistogram::new(),
        intervals: Vec::new(),
        connections: Vec::new(),
        generator: GeneratorUse::default(),
        samples: Vec::new(),
        details: Some(Details { ftp: Some(Box::new(details)), ..Details::default() }),
        timeout: Nanos::ZERO,
        answered_in_time: None,
    }
}

/// A run in which so many transfers of each trial were short.
fn made(directory: &Path, plan: &str, short: u64) -> RunDir {
    let options = Options { repetitions: 1, seconds: 1, rate: 10, ..Options::default() };
    let provenance = create(&directory.join("other"), &options).unwrap().provenance().unwrap();
    let plan = vtax_plan::parse("ftp", plan.as_bytes(), &[""; 0]).unwrap_or_else(|e| panic!("{e}"));
    let mut run = RunDir::create(directory.join("run"), &plan, &provenance).unwrap();
    let measure = &plan.measures[0].name;
    for repetition in 0..ROUNDS {
        for cell in &plan.cells {
            let trial = run.begin_trial(&cell.id, measure, repetition).unwrap();
            let found = Finding::Throughput { load: load(cell, short) };
            let record = TrialRecord {
                cell: cell.id.clone(),
                measure: measure.clone(),
                repetition,
                observations: vec![Observation::whole(0, found)],
                ..TrialRecord::default()
            };
            run.finish_trial(trial, record).unwrap();
        }
    }
    run.completed().unwrap();
    run.run().clone()
}

#[test]
fn transfers_are_told_in_every_form() {
    let directory = tempfile::tempdir().unwrap();
    let run = made(directory.path(), PLAN, 0);
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    for place in ["ftp-tls", "ftp-phases", "ftp-study", "ftp-load"] {
        assert!(page.contains(&format!("id=\"{place}\"")), "no section {place}");
    }
    let said = "With TLS on control and data connections a transfer in native takes 80 % longer. \
                With TLS on control connections only a transfer in native takes 20 % longer.";
    let summary = fs::read_to_string(run.path().join("summary.json")).unwrap();
    assert!(summary.contains(said), "{summary}");
    // PROT C adds 20 % to transfers in the clear, PROT P half to that.
    for told in ["1.20x", "1.50x", "data TLS", "Study, table 6", "At 9:54:20", "; 20.0 MB/s of files"] {
        assert!(page.contains(told), "no {told}");
    }
    assert!(!page.contains("data was lost"));
    crate::support::balanced(&page);
    let table = fs::read_to_string(run.path().join("csv/ftp_loads.csv")).unwrap();
    // Two environments: in the clear, PROT C, PROT P.
    assert_eq!(table.lines().count() as u32, 1 + 2 * 3 * ROUNDS);
}

#[test]
fn lost_data_is_said_first() {
    let directory = tempfile::tempdir().unwrap();
    let run = made(directory.path(), PLAN, 2);
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    assert!(
        page.contains("in 3 trials the server acknowledged transfers that were short or wrong, 6 of them")
    );
}

/// What a disk costs may not be taken for what TLS costs.
#[test]
fn what_tls_costs_is_of_the_same_server() {
    let directory = tempfile::tempdir().unwrap();
    let plan = PLAN.replace("services: ftp", "services: {vsftpd: {backend: [files, disk]}}");
    let run = made(directory.path(), &plan, 0);
    write_all(&run).unwrap();
    let page = fs::read_to_string(run.path().join("report.html")).unwrap();
    let section = page.split("id=\"ftp-tls\"").nth(1).expect("a section").split("</table>").next().unwrap();
    // Two environments: what PROT C adds, and what both add together.
    for backend in ["files", "disk"] {
        assert_eq!(section.matches(&format!("backend {backend}<")).count(), 2, "{section}");
    }
    for told in ["1.20x", "1.80x"] {
        assert_eq!(section.matches(told).count(), 4, "{told}: {section}");
    }
}

/// A load that ends with its bytes is about how fast they are moved, and not about how few files they are.
#[test]
fn bulk_is_told_in_bytes_first_and_many_transfers_in_transfers() {
    let first_table = |plan: &str| {
        let directory = tempfile::tempdir().unwrap();
        let run = made(directory.path(), plan, 0);
        write_all(&run).unwrap();
        let page = fs::read_to_string(run.path().join("report.html")).unwrap();
        let table = page.split("<table class=\"verdicts\">").nth(1).expect("a first table");
        table.split("</table>").next().unwrap().to_owned()
    };
    let table = first_table(&PLAN.replace("ftp: {", "ftp: {bytes: 200MB, transfers: 0, "));
    assert!(table.contains("goodput of files") && table.contains("20.0 MB/s"), "{table}");
    assert!(!table.contains("req/s"), "{table}");
    let table = first_table(PLAN);
    assert!(table.contains("200 req/s") && !table.contains("goodput"), "{table}");
}
