//! The tables of network tests as CSV: transfers, the study's tables, datagrams, voice, round trips, counts,
//! sockets, paths.

use vtax_load::network::{NetworkResult, TcpFlow};
use vtax_plan::model::NetworkTestKind;
use vtax_store::record::{Observation, Validity};
use vtax_units::{Nanos, fact};

use super::bench::{self, Bench, Link, Links, Test};
use super::checks::{Witness, agreement};
use super::transfers::{grid, in_30_s};
use super::trial::{flow, result};
use crate::context::Context;
use crate::metric::enough;
use crate::table::{Cell, Table, count, number, number_or_none, text, text_or_none, yes_no};
use crate::words::invalid;

/// Every table; none where the run has no network tests.
pub(super) fn tables(context: &Context) -> Vec<Table> {
    let links = bench::of(&context.data);
    if links.benches.is_empty() {
        return Vec::new();
    }
    vec![
        study_table(&links),
        transfers_table(&links),
        udp_table(&links),
        voice_table(&links),
        latency_table(context, &links),
        counts_table(&links),
        sockets_table(&links),
        paths_table(&links),
    ]
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

fn study_table(links: &Links<'_>) -> Table {
    let mut table = Table::new(
        "links_study",
        "Links study",
        "measure,table,source,scenario,cell,window,mean_mb_in_30s,sd_mb,transfers",
    );
    for bench in &links.benches {
        let Some(study) = bench.study else { continue };
        for printed in &study.tables {
            let Some(grid) = grid(bench, study, printed) else { continue };
            for (block, source) in grid.blocks.iter().zip(["study", "here"]) {
                for column in &block.columns {
                    for (window, amount) in grid.windows.iter().zip(&column.amounts) {
                        let Some(amount) = amount else { continue };
                        table.push([
                            text(&bench.measure.name),
                            text(&printed.number),
                            text(source),
                            text(&column.name),
                            text_or_none(column.cell.as_deref()),
                            text(window),
                            number(amount.mean),
                            number_or_none(amount.sd),
                            number_or_none(amount.count.map(|n| n as f64)),
                        ]);
                    }
                }
            }
        }
    }
    table
}

/// The flows of a transfer, each with its way: `up` is from the client. One without either where it came to nothing.
fn ways(transfer: &Observation) -> Vec<(Option<&'static str>, Option<&TcpFlow>)> {
    let Some(NetworkResult::Tcp(tcp)) = result(transfer) else { return vec![(None, None)] };
    let mut ways: Vec<(Option<&'static str>, Option<&TcpFlow>)> = Vec::new();
    ways.extend(tcp.up.as_ref().map(|flow| (Some("up"), Some(flow))));
    ways.extend(tcp.down.as_ref().map(|flow| (Some("down"), Some(flow))));
    if ways.is_empty() { vec![(None, None)] } else { ways }
}

fn transfers_table(links: &Links<'_>) -> Table {
    let mut table = Table::new(
        "links_transfers",
        "Links transfers",
        "cell,environment,accelerator,path,measure,test,window,variant,way,trial,valid,reason,goodput_bit_per_s,mb_in_30s,\
         counted_bytes,counted_s,sent_bytes,retransmissions,sender_cpu_s,receiver_cpu_s",
    );
    for (bench, link, test) in each(links, "tcp") {
        for (trial, o) in link.all(&test.test.name) {
            let reason = invalid(&trial.validity).or_else(|| invalid(&o.validity));
            let counts = trial.validity == Validity::Valid && o.validity == Validity::Valid;
            for (way, flow) in ways(o) {
                let of = |value: fn(&TcpFlow) -> f64| number_or_none(flow.map(value));
                table.push([
                    text(&link.cell.id),
                    text(&link.cell.environment.name),
                    text_or_none(link.accelerator.as_deref()),
                    text(&link.cell.path.name),
                    text(&bench.measure.name),
                    text(&test.test.name),
                    text(test.window.map_or_else(String::new, bench::Window::name)),
                    text(&test.variant),
                    text_or_none(way),
                    number(trial.index),
                    yes_no(counts),
                    text_or_none(reason.as_deref()),
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
    }
    table
}

fn udp_table(links: &Links<'_>) -> Table {
    let mut table = Table::new(
        "links_udp",
        "Links UDP",
        "cell,accelerator,path,test,offered_bit_per_s,size_bytes,sent,received,loss,goodput_bit_per_s,jitter_end_ns,\
         jitter_mean_ns,reordered,duplicates,no_room,sender_limited",
    );
    for (_, link, test) in each(links, "udp") {
        let NetworkTestKind::Udp(asked) = &test.test.kind else { continue };
        // Without a rate it is the batches' doing.
        let jitter = |of: Nanos| number_or_none(asked.rate.map(|_| of.0 as f64));
        for udp in link.udp(&test.test.name) {
            table.push([
                text(&link.cell.id),
                text_or_none(link.accelerator.as_deref()),
                text(&link.cell.path.name),
                text(&test.test.name),
                number_or_none(asked.rate.map(|r| r.0 as f64)),
                number(asked.size),
                count(udp.sender.sent),
                count(udp.receiver.received),
                number(udp.loss()),
                number(udp.goodput()),
                jitter(udp.receiver.jitter),
                jitter(udp.receiver.jitter_mean),
                count(udp.receiver.reordered),
                count(udp.receiver.duplicates),
                count(udp.receiver.no_room),
                text_or_none(udp.sender.limited.as_deref()),
            ]);
        }
    }
    table
}

fn voice_table(links: &Links<'_>) -> Table {
    let mut table = Table::new(
        "links_voice",
        "Links voice",
        "cell,accelerator,path,test,streams,packet_ns,jitter_buffer_ns,way,intended,sent,received,lost,late,reordered,\
         duplicates,damaged,stray,no_room,jitter_mean_ns,jitter_highest_ns,delay_ns,rating,rating_worst,mos,mos_worst,\
         sent_late_p50_ns,sent_late_p99_ns,round_trip_p50_ns,cpu_ns",
    );
    for (_, link, test) in each(links, "voice") {
        let NetworkTestKind::Voice(asked) = &test.test.kind else { continue };
        for voice in link.voice(&test.test.name) {
            for (name, way, end) in [("up", &voice.up, &voice.client), ("down", &voice.down, &voice.server)] {
                let (packets, rating) = (&way.packets, &way.rating);
                table.push([
                    text(&link.cell.id),
                    text_or_none(link.accelerator.as_deref()),
                    text(&link.cell.path.name),
                    text(&test.test.name),
                    number(voice.streams),
                    count(asked.packet.0),
                    count(asked.jitter_buffer.0),
                    text(name),
                    count(packets.intended),
                    count(packets.sent),
                    count(packets.received),
                    count(packets.lost()),
                    count(packets.late),
                    count(packets.reordered),
                    count(packets.duplicates),
                    count(packets.damaged),
                    count(packets.stray),
                    count(packets.no_room),
                    count(way.jitter.mean().0),
                    count(way.jitter_max.max().0),
                    count(rating.delay.0),
                    number(rating.mean),
                    number(rating.worst),
                    number(rating.mos),
                    number(rating.mos_worst),
                    count(end.lateness.quantile(0.5).0),
                    count(end.lateness.quantile(0.99).0),
                    count(voice.round_trip.quantile(0.5).0),
                    count(end.cpu.total().0),
                ]);
            }
        }
    }
    table
}

/// Quantiles of round trips in tables.
pub(crate) const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99.9", 0.999)];

fn latency_table(context: &Context, links: &Links<'_>) -> Table {
    let names = QUANTILES.map(|(name, _)| format!("{name}_ns")).join(",");
    let mut table = Table::new(
        "links_latency",
        "Links round trips",
        &format!("cell,accelerator,path,test,trials,asked,answered,lost,mean_ns,{names},max_ns"),
    );
    for (_, link, test) in each(links, "ping").chain(each(links, "rr")) {
        let key = (link.cell.id.clone(), test.measure.clone());
        let Some(h) = context.data.latency.get(&key) else { continue };
        let (pings, rrs) = (link.ping(&test.test.name), link.rr(&test.test.name));
        let asked = pings.iter().map(|p| p.intended).chain(rrs.iter().map(|r| r.transactions)).sum::<u64>();
        let answered =
            pings.iter().map(|p| p.answered).chain(rrs.iter().map(|r| r.transactions)).sum::<u64>();
        let mut row = vec![
            text(&link.cell.id),
            text_or_none(link.accelerator.as_deref()),
            text(&link.cell.path.name),
            text(&test.test.name),
            number((pings.len() + rrs.len()) as f64),
            count(asked),
            count(answered),
            count(asked.saturating_sub(answered)),
            number(h.mean()),
        ];
        let known = |q| enough(h.len(), q).then(|| h.value_at_quantile(q) as f64);
        row.extend(QUANTILES.map(|(_, q)| number_or_none(known(q))));
        row.push(count(h.max()));
        table.push(row);
    }
    table
}

fn counts_table(links: &Links<'_>) -> Table {
    let mut table = Table::new(
        "links_counts",
        "Links counts",
        "cell,path,witness,counts,largest_disagreement,observations,refused",
    );
    for bench in &links.benches {
        for link in &bench.links {
            let found = agreement(bench, link);
            for (witness, (worst, counted)) in Witness::ALL.iter().zip(found.worst) {
                table.push([
                    text(&link.cell.id),
                    text(&link.cell.path.name),
                    text(witness.name()),
                    number(counted as f64),
                    number_or_none(worst),
                    number(found.observations as f64),
                    number(found.refused as f64),
                ]);
            }
        }
    }
    table
}

fn sockets_table(links: &Links<'_>) -> Table {
    let mut table = Table::new(
        "links_sockets",
        "Links sockets",
        "cell,path,test,asked_window_bytes,trial,end,send_buffer_bytes,receive_buffer_bytes,congestion,mss_bytes,rtt_ns,\
         congestion_window_segments,retransmissions",
    );
    for (_, link, test) in each(links, "tcp") {
        let NetworkTestKind::Tcp(asked) = &test.test.kind else { continue };
        for (trial, o) in link.valid(&test.test.name) {
            let Some(flow) = flow(o) else { continue };
            for (end, side) in [("sender", &flow.sender), ("receiver", &flow.receiver)] {
                let Some(first) = side.connections.first() else { continue };
                table.push([
                    text(&link.cell.id),
                    text(&link.cell.path.name),
                    text(&test.test.name),
                    number_or_none(asked.socket.window.map(|w| w.0 as f64)),
                    number(trial.index),
                    text(end),
                    count(first.send_buffer),
                    count(first.receive_buffer),
                    text(&first.congestion),
                    number(first.mss),
                    count(first.rtt.0),
                    number(first.congestion_window),
                    number(first.retransmissions),
                ]);
            }
        }
    }
    table
}

fn paths_table(links: &Links<'_>) -> Table {
    let mut table = Table::new("links_paths", "Links paths", "cell,path,trial,fact,value");
    for link in links.benches.iter().flat_map(|b| &b.links) {
        for trial in &link.trials {
            for (name, value) in trial.facts.iter().filter(|(name, _)| name.starts_with(fact::PATH)) {
                table.push([
                    text(&link.cell.id),
                    text(&link.cell.path.name),
                    number(trial.index),
                    text(name),
                    Cell::Fact(value.clone()),
                ]);
            }
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use vtax_load::network::{TcpResult, TcpSide};
    use vtax_store::network::NetworkFinding;
    use vtax_store::record::Finding;

    use super::*;

    #[test]
    fn a_transfer_both_ways_has_a_row_for_each() {
        let flow =
            || TcpFlow { sender: TcpSide::default(), receiver: TcpSide::default(), disagreement: None };
        let directions = |up: Option<TcpFlow>, down: Option<TcpFlow>| {
            let result = NetworkResult::Tcp(TcpResult { up, down });
            let found = Finding::Network(Box::new(NetworkFinding { result, checks: Vec::new() }));
            let transfer = Observation { result: Some(found), ..Observation::default() };
            ways(&transfer).into_iter().map(|(way, flow)| (way, flow.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(directions(Some(flow()), Some(flow())), [(Some("up"), true), (Some("down"), true)]);
        assert_eq!(directions(None, Some(flow())), [(Some("down"), true)]);
        assert!(matches!(ways(&Observation::default()).as_slice(), [(None, None)]));
    }
}
