//! The tables of network tests as CSV: transfers, the study's tables, datagrams, round trips, counts,
//! sockets, paths.

use vtax_load::network::ConnectionFacts;
use vtax_plan::model::NetTestKind;
use vtax_store::record::Validity;

use super::checks::{Witness, agreement};
use super::study::TABLES;
use super::transfers::{grid, in_30_s};
use super::{Bench, Link, Links, Test, flow};
use crate::csv::{Cell, Csv, number};
use crate::report::Report;
use crate::summarise::invalid;

/// File names and contents; none where the run has no network tests.
pub(crate) fn files(report: &Report) -> Vec<(&'static str, String)> {
    let links = super::of(&report.data);
    if links.benches.is_empty() {
        return Vec::new();
    }
    vec![
        ("links_study.csv", study_file(&links)),
        ("links_transfers.csv", transfers_file(&links)),
        ("links_udp.csv", udp_file(&links)),
        ("links_latency.csv", latency_file(report, &links)),
        ("links_counts.csv", counts_file(&links)),
        ("links_sockets.csv", sockets_file(&links)),
        ("links_paths.csv", paths_file(&links)),
    ]
}

/// Name of a file's sheet.
pub(crate) fn sheet(file: &str) -> Option<&'static str> {
    Some(match file {
        "links_study.csv" => "Links study",
        "links_transfers.csv" => "Links transfers",
        "links_udp.csv" => "Links UDP",
        "links_latency.csv" => "Links round trips",
        "links_counts.csv" => "Links counts",
        "links_sockets.csv" => "Links sockets",
        "links_paths.csv" => "Links paths",
        _ => return None,
    })
}

/// Every link with every test of that kind.
fn each<'a>(
    links: &'a Links<'a>,
    kind: &'static str,
) -> impl Iterator<Item = (&'a Bench<'a>, &'a Link<'a>, &'a Test<'a>)> {
    let of =
        move |b: &'a Bench<'a>| b.links.iter().flat_map(move |l| b.of_kind(kind).map(move |t| (b, l, t)));
    links.benches.iter().flat_map(of)
}

fn study_file(links: &Links<'_>) -> String {
    let mut csv = Csv::new("measure,table,source,scenario,cell,window,mean_mb_in_30s,sd_mb,transfers");
    for bench in &links.benches {
        for table in &TABLES {
            let Some(grid) = grid(bench, table) else { continue };
            for (block, source) in grid.blocks.iter().zip(["study", "here"]) {
                for column in &block.columns {
                    for (window, amount) in grid.windows.iter().zip(&column.amounts) {
                        let Some(amount) = amount else { continue };
                        csv.push(&[
                            Cell::Text(&bench.measure.name),
                            Cell::Text(table.number),
                            Cell::Text(source),
                            Cell::Text(&column.name),
                            Cell::Text(column.cell.as_deref().unwrap_or_default()),
                            Cell::Text(window),
                            number(amount.mean),
                            Cell::Number(amount.sd),
                            Cell::Number(amount.count.map(|n| n as f64)),
                        ]);
                    }
                }
            }
        }
    }
    csv.finish()
}

fn transfers_file(links: &Links<'_>) -> String {
    let mut csv = Csv::new(
        "cell,environment,accelerator,path,measure,test,window,variant,trial,valid,reason,goodput_bit_per_s,mb_in_30s,\
         counted_bytes,counted_s,sent_bytes,retransmissions,sender_cpu_s,receiver_cpu_s",
    );
    for (bench, link, test) in each(links, "tcp") {
        for (trial, o) in link.all(&test.test.name) {
            let reason = invalid(&trial.validity).or_else(|| invalid(&o.validity));
            let counts = trial.validity == Validity::Valid && o.validity == Validity::Valid;
            let flow = flow(o);
            let of = |value: fn(&vtax_load::network::TcpFlow) -> f64| Cell::Number(flow.map(value));
            csv.push(&[
                Cell::Text(&link.cell.id),
                Cell::Text(&link.cell.environment.name),
                Cell::Text(link.accelerator.as_deref().unwrap_or_default()),
                Cell::Text(&link.cell.path.name),
                Cell::Text(&bench.measure.name),
                Cell::Text(&test.test.name),
                Cell::Text(&test.window.map_or_else(String::new, super::Window::name)),
                Cell::Text(&test.variant),
                number(trial.index),
                Cell::Text(if counts { "yes" } else { "no" }),
                Cell::Text(reason.as_deref().unwrap_or_default()),
                of(|f| f.goodput()),
                of(|f| in_30_s(f.goodput())),
                of(|f| f.receiver.counted_bytes as f64),
                of(|f| f.receiver.counted_time.as_secs_f64()),
                of(|f| f.sender.total_bytes as f64),
                of(|f| f.sender.connections.iter().map(|c| f64::from(c.retransmissions)).sum()),
                of(|f| f.sender.cpu.total().as_secs_f64()),
                of(|f| f.receiver.cpu.total().as_secs_f64()),
            ]);
        }
    }
    csv.finish()
}

fn udp_file(links: &Links<'_>) -> String {
    let mut csv = Csv::new(
        "cell,accelerator,path,test,offered_bit_per_s,size_bytes,sent,received,loss,goodput_bit_per_s,jitter_end_ns,\
         jitter_mean_ns,reordered,duplicates,no_room,sender_limited",
    );
    for (_, link, test) in each(links, "udp") {
        let NetTestKind::Udp(asked) = &test.test.kind else { continue };
        for udp in link.udp(&test.test.name) {
            csv.push(&[
                Cell::Text(&link.cell.id),
                Cell::Text(link.accelerator.as_deref().unwrap_or_default()),
                Cell::Text(&link.cell.path.name),
                Cell::Text(&test.test.name),
                Cell::Number(asked.rate.map(|r| r.0 as f64)),
                number(asked.size),
                number(udp.sender.sent as f64),
                number(udp.receiver.received as f64),
                number(udp.loss()),
                number(udp.goodput()),
                number(udp.receiver.jitter.0 as f64),
                number(udp.receiver.jitter_mean.0 as f64),
                number(udp.receiver.reordered as f64),
                number(udp.receiver.duplicates as f64),
                number(udp.receiver.no_room as f64),
                Cell::Text(udp.sender.limited.as_deref().unwrap_or_default()),
            ]);
        }
    }
    csv.finish()
}

/// Quantiles of round trips in tables.
pub(crate) const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999)];

fn latency_file(report: &Report, links: &Links<'_>) -> String {
    let names = QUANTILES.map(|(name, _)| format!("{name}_ns")).join(",");
    let mut csv =
        Csv::new(&format!("cell,accelerator,path,test,trials,asked,answered,lost,mean_ns,{names},max_ns"));
    for (_, link, test) in each(links, "ping").chain(each(links, "rr")) {
        let key = (link.cell.id.clone(), test.measure.clone());
        let Some(h) = report.data.latency.get(&key) else { continue };
        let (pings, rrs) = (link.ping(&test.test.name), link.rr(&test.test.name));
        let asked = pings.iter().map(|p| p.intended).chain(rrs.iter().map(|r| r.transactions)).sum::<u64>();
        let answered =
            pings.iter().map(|p| p.answered).chain(rrs.iter().map(|r| r.transactions)).sum::<u64>();
        let mut row = vec![
            Cell::Text(&link.cell.id),
            Cell::Text(link.accelerator.as_deref().unwrap_or_default()),
            Cell::Text(&link.cell.path.name),
            Cell::Text(&test.test.name),
            number((pings.len() + rrs.len()) as f64),
            number(asked as f64),
            number(answered as f64),
            number(asked.saturating_sub(answered) as f64),
            number(h.mean()),
        ];
        row.extend(QUANTILES.map(|(_, q)| number(h.value_at_quantile(q) as f64)));
        row.push(number(h.max() as f64));
        csv.push(&row);
    }
    csv.finish()
}

fn counts_file(links: &Links<'_>) -> String {
    let mut csv = Csv::new("cell,path,witness,counts,largest_disagreement,observations,refused");
    for bench in &links.benches {
        for link in &bench.links {
            let found = agreement(bench, link);
            for (witness, (worst, count)) in Witness::ALL.iter().zip(found.worst) {
                csv.push(&[
                    Cell::Text(&link.cell.id),
                    Cell::Text(&link.cell.path.name),
                    Cell::Text(witness.name()),
                    number(count as f64),
                    Cell::Number(worst),
                    number(found.observations as f64),
                    number(found.refused as f64),
                ]);
            }
        }
    }
    csv.finish()
}

fn sockets_file(links: &Links<'_>) -> String {
    let mut csv = Csv::new(
        "cell,path,test,asked_window_bytes,trial,end,send_buffer_bytes,receive_buffer_bytes,congestion,mss_bytes,rtt_ns,\
         congestion_window_segments,retransmissions",
    );
    for (_, link, test) in each(links, "tcp") {
        let NetTestKind::Tcp(asked) = &test.test.kind else { continue };
        for (trial, o) in link.valid(&test.test.name) {
            let Some(flow) = flow(o) else { continue };
            for (end, side) in [("sender", &flow.sender), ("receiver", &flow.receiver)] {
                for ConnectionFacts { send_buffer, receive_buffer, congestion, mss, rtt, .. } in
                    side.connections.iter().take(1)
                {
                    let first = &side.connections[0];
                    csv.push(&[
                        Cell::Text(&link.cell.id),
                        Cell::Text(&link.cell.path.name),
                        Cell::Text(&test.test.name),
                        Cell::Number(asked.socket.window.map(|w| w.0 as f64)),
                        number(trial.index),
                        Cell::Text(end),
                        number(*send_buffer as f64),
                        number(*receive_buffer as f64),
                        Cell::Text(congestion),
                        number(*mss),
                        number(rtt.0 as f64),
                        number(first.congestion_window),
                        number(first.retransmissions),
                    ]);
                }
            }
        }
    }
    csv.finish()
}

fn paths_file(links: &Links<'_>) -> String {
    let mut csv = Csv::new("cell,path,trial,fact,value");
    for link in links.benches.iter().flat_map(|b| &b.links) {
        for trial in &link.trials {
            for (fact, value) in trial.facts.iter().filter(|(name, _)| name.starts_with("path.")) {
                csv.push(&[
                    Cell::Text(&link.cell.id),
                    Cell::Text(&link.cell.path.name),
                    number(trial.index),
                    Cell::Text(fact),
                    Cell::Text(value),
                ]);
            }
        }
    }
    csv.finish()
}
