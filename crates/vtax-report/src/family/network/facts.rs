//! Datagrams and round trips over paths, and what speaks for or against the figures: counts of others,
//! sockets as the kernels really made them, proofs of emulated wires, facts of paths.

use std::collections::{BTreeMap, BTreeSet};

use vtax_load::network::{
    ConnectionFacts, TcpFlow, TcpSide, UdpResult, VoiceDirection, VoiceEnd, VoicePackets, VoiceResult,
};
use vtax_plan::model::NetworkTestKind;
use vtax_stats::describe;
use vtax_store::network::CountedBy;
use vtax_units::{counted, fact};

use super::bench::{Bench, Link, Links, Test};
use super::checks::{Sample, Witness, agreement, sample};
use super::study::Study;
use super::tables::QUANTILES;
use super::transfers::MEGABYTE;
use crate::data::RunData;
use crate::format::{duration, quantity};
use crate::html::parts::{close_table, heading, open_table, row_head, scrolling, wide};
use crate::html::table::PlainTable;
use crate::markup::Markup;
use crate::metric::enough;

/// Jitter, loss, voice and round trips.
pub(super) fn datagrams(data: &RunData, links: &Links<'_>) -> Markup {
    let mut m = Markup::new();
    for bench in &links.benches {
        if bench.of_kind("udp").next().is_some() {
            heading(&mut m, &bench.prefix, "udp", "UDP: jitter and loss", &bench.label);
            m.add(&udp(bench));
        }
        if bench.of_kind("voice").next().is_some() {
            heading(&mut m, &bench.prefix, "voice", "Voice", &bench.label);
            m.add(&voice(bench));
        }
        if bench.of_kind("ping").chain(bench.of_kind("rr")).next().is_some() {
            heading(&mut m, &bench.prefix, "latency", "Round trips", &bench.label);
            m.add(&round_trips(data, bench));
        }
    }
    m
}

/// Mean and standard deviation over trials.
fn over_trials(values: &[f64], text: impl Fn(f64) -> String) -> Markup {
    let mut m = Markup::new();
    match describe(values) {
        None => {
            m.element("span", &[("class", "quiet")], "—");
        }
        Some(d) => {
            m.text(&text(d.mean));
            if let Some(sd) = d.sd.filter(|sd| *sd > 0.0) {
                m.element("small", &[], &format!(" ({})", text(sd)));
            }
        }
    }
    m
}

fn udp(bench: &Bench<'_>) -> Markup {
    let mut columns = vec![
        ("Path", false),
        ("Offered", true),
        ("Arrived", true),
        ("Lost", true),
        ("Jitter", true),
        ("Jitter at the end", true),
        ("Reordered", true),
        ("Duplicates", true),
        ("No room", true),
    ];
    columns.extend(bench.study.map(|_| ("As expected", false)));
    let mut table = open_table("beside", &columns);
    for (link, test) in bench.links.iter().flat_map(|l| bench.of_kind("udp").map(move |t| (l, t))) {
        let NetworkTestKind::Udp(asked) = &test.test.kind else { continue };
        let found = link.udp(&test.test.name);
        let values = |of: fn(&UdpResult) -> f64| -> Vec<f64> { found.iter().map(|u| of(u)).collect() };
        row_head(&mut table, &link.label, link.position);
        let rate = asked.rate.map_or_else(|| "all it can".to_owned(), |r| quantity(r.0 as f64, "bit/s"));
        table.element("td", &[("class", "n")], &format!("{rate}, {} B", asked.size));
        // Without a rate it is the batches' doing.
        let jitter = |of: fn(&UdpResult) -> f64| asked.rate.map(|_| values(of)).unwrap_or_default();
        let jitters = jitter(|u| u.receiver.jitter_mean.0 as f64);
        let losses = values(UdpResult::loss);
        let parts = [
            over_trials(&values(UdpResult::goodput), |v| quantity(v, "bit/s")),
            over_trials(&losses, |v| quantity(v, "1")),
            over_trials(&jitters, duration),
            over_trials(&jitter(|u| u.receiver.jitter.0 as f64), duration),
        ];
        for part in &parts {
            table.open("td", &[("class", "n")]).add(part).close("td");
        }
        for count in [
            found.iter().map(|u| u.receiver.reordered).sum::<u64>(),
            found.iter().map(|u| u.receiver.duplicates).sum(),
            found.iter().map(|u| u.receiver.no_room).sum(),
        ] {
            let class = if count == 0 { "n quiet" } else { "n" };
            let text = if found.is_empty() { "—".to_owned() } else { count.to_string() };
            table.element("td", &[("class", class)], &text);
        }
        if let Some(study) = bench.study {
            table.element("td", &[], &expectation(study, &jitters, &losses));
        }
        table.close("tr");
    }
    close_table(&mut table);
    let mut m = wide(&table, columns.len());
    m.fixed("<p class=\"small-print\">Means over trials, standard deviations in parentheses. Jitter is the interarrival jitter of RFC&nbsp;3550, section 6.4.1: J&nbsp;+=&nbsp;(|D|&nbsp;&minus;&nbsp;J)&nbsp;/&nbsp;16, where D is by how much two datagrams' distance changed on their way; the first column averages J over all datagrams, the second is its last value, as iperf prints it. Where all is sent that can be, many datagrams leave and arrive together, and there is none. Lost: of those sent, duplicates left out. No room: dropped by the receiving socket, which is not the path's loss.");
    if bench.study.is_some() {
        m.fixed(" As expected: the study expected less than 1&nbsp;ms of jitter and less than 1&nbsp;% of loss everywhere, and found both but over SDN and bridged paths; it printed no figures.");
    }
    m.fixed("</p>");
    m
}

fn voice(bench: &Bench<'_>) -> Markup {
    let columns = [
        ("Path", false),
        ("Test", false),
        ("Way", false),
        ("MOS", true),
        ("Worst stream", true),
        ("Lost", true),
        ("Late", true),
        ("Jitter", true),
        ("At its highest", true),
        ("Reordered", true),
        ("Duplicates", true),
        ("Damaged", true),
        ("Sent late, p99", true),
    ];
    let mut table = open_table("beside", &columns);
    for (link, test) in bench.links.iter().flat_map(|l| bench.of_kind("voice").map(move |t| (l, t))) {
        let found = link.voice(&test.test.name);
        let ways: [(&str, Way); 2] =
            [("to the SUT", |v| (&v.up, &v.client)), ("from the SUT", |v| (&v.down, &v.server))];
        for (name, way) in ways {
            row_head(&mut table, &link.label, link.position);
            table.element("td", &[], &test.test.name).element("td", &[], name);
            voice_way(&mut table, &found.iter().map(|v| way(v)).collect::<Vec<_>>());
            table.close("tr");
        }
    }
    close_table(&mut table);
    let mut m = wide(&table, columns.len());
    m.fixed("<p class=\"small-print\">Means over trials, standard deviations in parentheses; counts are sums. MOS is an estimate after ITU-T G.107 with its default values: of the packets that weren't heard, taken for lost at random and not concealed, and of the time from mouth to ear, which is a packet's length, half of the median round trip and the jitter buffer. Echo, noise and what is said are left out: it compares paths, and predicts no survey. Late: came after its time to be played, counted from its stream's first packet and the jitter buffer. Jitter is that of RFC&nbsp;3550, section 6.4.1, of each stream at its end, averaged over streams; at its highest of any stream. Sent late: by how much the sending end was behind its own timetable, which is a part of what the other end hears.</p>");
    m
}

/// A direction of a test of voice, and the end that sends it.
type Way = fn(&VoiceResult) -> (&VoiceDirection, &VoiceEnd);

/// The cells of one direction in all trials.
fn voice_way(table: &mut Markup, found: &[(&VoiceDirection, &VoiceEnd)]) {
    type Of = fn(&(&VoiceDirection, &VoiceEnd)) -> f64;
    let values = |of: Of| found.iter().map(of).collect::<Vec<f64>>();
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let mos = |v: f64| format!("{v:.2}");
    let lost: Vec<f64> = found.iter().map(|(d, _)| share(d.packets.lost(), d.packets.intended)).collect();
    let late: Vec<f64> = found.iter().map(|(d, _)| share(d.packets.late, d.packets.intended)).collect();
    let parts = [
        over_trials(&values(|(d, _)| d.rating.mos), mos),
        over_trials(&values(|(d, _)| d.rating.mos_worst), mos),
        over_trials(&lost, |v| quantity(v, "1")),
        over_trials(&late, |v| quantity(v, "1")),
        over_trials(&values(|(d, _)| d.jitter.mean().0 as f64), duration),
        over_trials(&values(|(d, _)| d.jitter_max.max().0 as f64), duration),
    ];
    for part in &parts {
        table.open("td", &[("class", "n")]).add(part).close("td");
    }
    let sum = |of: fn(&VoicePackets) -> u64| found.iter().map(|(d, _)| of(&d.packets)).sum::<u64>();
    for count in [sum(|p| p.reordered), sum(|p| p.duplicates), sum(|p| p.damaged)] {
        let class = if count == 0 { "n quiet" } else { "n" };
        let text = if found.is_empty() { "—".to_owned() } else { count.to_string() };
        table.element("td", &[("class", class)], &text);
    }
    let behind = over_trials(&values(|(_, end)| end.lateness.quantile(0.99).0 as f64), duration);
    table.open("td", &[("class", "n")]).add(&behind).close("td");
}

fn expectation(study: &Study, jitters: &[f64], losses: &[f64]) -> String {
    let Some(loss) = describe(losses) else { return String::new() };
    let mut beyond = Vec::new();
    // There is none without a rate.
    if describe(jitters).is_some_and(|jitter| jitter.mean >= study.expected.jitter_ns) {
        beyond.push("jitter");
    }
    if loss.mean >= study.expected.loss {
        beyond.push("loss");
    }
    if beyond.is_empty() { "✓ yes".to_owned() } else { format!("✗ no: {}", beyond.join(" and ")) }
}

fn round_trips(data: &RunData, bench: &Bench<'_>) -> Markup {
    let mut columns = vec![("Path", false), ("Test", false), ("Rate", true), ("Lost", true), ("Mean", true)];
    columns.extend(QUANTILES.map(|(name, _)| (name, true)));
    columns.push(("Maximum", true));
    let mut table = open_table("beside", &columns);
    for test in bench.of_kind("ping").chain(bench.of_kind("rr")) {
        for link in &bench.links {
            round_trip(&mut table, data, link, test);
        }
    }
    close_table(&mut table);
    let mut m = wide(&table, columns.len());
    m.fixed("<p class=\"small-print\">All trials that count, merged. An echo (ping) is sent when it is due, whatever has come back, and counts from its sending; a transaction (rr) begins when the one before has ended. A percentile needs ten values beyond it. The curves are in the section on latency.</p>");
    m
}

fn round_trip(table: &mut Markup, data: &RunData, link: &Link<'_>, test: &Test<'_>) {
    row_head(table, &link.label, link.position);
    table.element("td", &[], &test.test.name);
    let (pings, rrs) = (link.ping(&test.test.name), link.rr(&test.test.name));
    let rate = match &test.test.kind {
        NetworkTestKind::Ping(ping) => quantity(ping.rate.0, "/s"),
        _ => {
            let rates: Vec<f64> = rrs.iter().map(|r| r.transactions as f64 / r.time.as_secs_f64()).collect();
            describe(&rates).map_or_else(String::new, |d| quantity(d.mean, "/s"))
        }
    };
    table.element("td", &[("class", "n")], &rate);
    let asked: u64 = pings.iter().map(|p| p.intended).sum();
    let lost = asked.saturating_sub(pings.iter().map(|p| p.answered).sum());
    let text = match asked {
        0 => String::new(),
        n => quantity(lost as f64 / n as f64, "1"),
    };
    table.element("td", &[("class", "n")], &text);
    let key = (link.cell.id.clone(), test.measure.clone());
    let histogram = data.latency.get(&key).filter(|h| !h.is_empty());
    let mut cell = |text: Option<String>| {
        let class = if text.is_some() { "n" } else { "n quiet" };
        table.element("td", &[("class", class)], text.as_deref().unwrap_or("—"));
    };
    cell(histogram.map(|h| duration(h.mean())));
    for (_, q) in QUANTILES {
        let known = histogram.filter(|h| enough(h.len(), q));
        cell(known.map(|h| duration(h.value_at_quantile(q) as f64)));
    }
    cell(histogram.map(|h| duration(h.max() as f64)));
    table.close("tr");
}

/// What speaks for the figures.
pub(super) fn trust(links: &Links<'_>) -> Markup {
    let mut m = Markup::new();
    for bench in &links.benches {
        let section = if bench.study.is_some() { " (section III.E)" } else { "" };
        let title = format!("Tool validation{section}");
        heading(&mut m, &bench.prefix, "validation", &title, &bench.label);
        m.add(&calculation(bench)).add(&counts(bench));
        if bench.transfers().next().is_some() {
            heading(&mut m, &bench.prefix, "sockets", "The window that the kernel really gave", &bench.label);
            m.add(&sockets(bench));
        }
        heading(&mut m, &bench.prefix, "proofs", "Emulated wires, proved before use", &bench.label);
        m.add(&proofs(bench));
        heading(&mut m, &bench.prefix, "paths", "What the paths were made of", &bench.label);
        m.add(&paths(bench));
    }
    m
}

/// The study's sample calculation, with one transfer of this run.
fn calculation(bench: &Bench<'_>) -> Markup {
    let mut m = Markup::new();
    let Some(sample) = sample(bench) else { return m };
    let receiver = &sample.flow.receiver;
    let (bytes, seconds) = (receiver.counted_bytes as f64, receiver.counted_time.as_secs_f64());
    let theirs = match bench.study {
        Some(_) => {
            " The study: 48.6 MB in 30 s are 13.589 Mbit/s by iperf, and 34,927 frames of 1,460 bytes 13.598 Mbit/s by \
             Wireshark."
        }
        None => "",
    };
    let ours = format!(
        "Trial {:03}, {}, {}: the receiving program counted {:.1} {} in {seconds:.3} s: {:.1} × 8,388,608 / {seconds:.3} = \
         {}.{theirs}",
        sample.trial,
        sample.link.label,
        sample.test,
        bytes / MEGABYTE,
        bench.megabyte(),
        bytes / MEGABYTE,
        quantity(sample.flow.goodput(), "bit/s"),
    );
    m.element("p", &[], &ours);
    let mut table = PlainTable::new(
        "",
        &[
            ("Who counted this transfer, warm-up included", false),
            ("Bytes", true),
            ("Should be", true),
            ("Apart", true),
        ],
    );
    for [who, found, expected, apart] in witnesses(&sample) {
        table.push(&who, [found, expected, apart]);
    }
    m.add(&scrolling(&table.finish()));
    m
}

/// Who counted, what, what it should be, and how far it is apart.
fn witnesses(sample: &Sample<'_>) -> Vec<[String; 4]> {
    let flow = sample.flow;
    let sum = |side: &TcpSide, of: fn(&ConnectionFacts) -> u64| side.connections.iter().map(of).sum::<u64>();
    let sent = flow.sender.total_bytes;
    let counts = [
        ("receiving program", flow.receiver.total_bytes),
        ("sender's TCP: acknowledged", sum(&flow.sender, |c| c.acknowledged)),
        ("receiver's TCP: received", sum(&flow.receiver, |c| c.received)),
    ];
    let mut rows = vec![["sending program".to_owned(), grouped(sent), String::new(), String::new()]];
    for (who, count) in counts {
        let apart = count.abs_diff(sent) as f64 / (sent as f64).max(1.0);
        rows.push([who.to_owned(), grouped(count), grouped(sent), share(apart)]);
    }
    for check in sample.checks {
        let who = match check.by {
            CountedBy::ClientInterface => "client's interface",
            CountedBy::SutInterface => "SUT's interface",
            CountedBy::Capture => "packet capture",
        };
        let way = if check.up { "to the SUT" } else { "from the SUT" };
        rows.push([
            format!("{who}, {way}"),
            grouped(check.found),
            format!("{} to {}", grouped(check.least), grouped(check.most)),
            share(check.apart()),
        ]);
    }
    rows
}

/// A share to a thousandth of a percent: what is judged here is half a percent.
fn share(value: f64) -> String {
    if value == 0.0 { "0 %".to_owned() } else { format!("{:.3} %", value * 100.0) }
}

/// `1,234,567`.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

/// How far each witness was apart at most, by path.
fn counts(bench: &Bench<'_>) -> Markup {
    let mut columns = vec![("Path", false)];
    columns.extend(Witness::ALL.map(|w| (w.name(), true)));
    columns.extend([("Tests", true), ("Refused", true)]);
    let mut table = open_table("beside", &columns);
    for link in &bench.links {
        let found = agreement(bench, link);
        row_head(&mut table, &link.label, link.position);
        for (worst, count) in found.worst {
            match worst {
                Some(worst) => {
                    let tip = counted(count, "count");
                    table.element("td", &[("class", "n"), ("title", &tip)], &share(worst));
                }
                None => {
                    table.element("td", &[("class", "n quiet")], "—");
                }
            }
        }
        for n in [found.observations, found.refused] {
            table.element("td", &[("class", "n")], &n.to_string());
        }
        table.close("tr");
    }
    close_table(&mut table);
    let mut m = wide(&table, columns.len());
    m.fixed("<p class=\"small-print\">The largest share by which a count was apart from the sender's in any test, those that don't count included; an interface counts headers too, so its count should lie in a range. Beyond 0.5&nbsp;% a test is refused. A dash: nobody counted there; packets are captured where the plan says capture: true.</p>");
    m
}

/// Asked and given buffers, by test; the same of all paths where they agree.
fn sockets(bench: &Bench<'_>) -> Markup {
    let columns = [
        ("Test", false),
        ("Asked", true),
        ("Sender's buffer", true),
        ("Receiver's buffer", true),
        ("Segment", true),
        ("Congestion control", false),
    ];
    let mut table = PlainTable::new("", &columns);
    for test in bench.transfers() {
        let NetworkTestKind::Tcp(asked) = &test.test.kind else { continue };
        let flows: Vec<_> = bench.links.iter().flat_map(|l| l.flows(&test.test.name)).collect();
        type Side = fn(&TcpFlow) -> &TcpSide;
        let of = |side: Side, value: fn(&ConnectionFacts) -> u64| {
            let values: BTreeSet<u64> =
                flows.iter().flat_map(|f| side(f).connections.iter().map(value)).collect();
            values.into_iter().map(|v| v as f64).collect::<Vec<f64>>()
        };
        let cells = [
            asked.socket.window.map_or_else(|| "auto".to_owned(), |w| quantity(w.0 as f64, "B")),
            span(&of(|f| &f.sender, |c| c.send_buffer), |v| quantity(v, "B")),
            span(&of(|f| &f.receiver, |c| c.receive_buffer), |v| quantity(v, "B")),
            span(&of(|f| &f.sender, |c| u64::from(c.mss)), |v| format!("{v} B")),
            congestion_controls(bench, &test.test.name),
        ];
        table.push(&test.test.name, cells);
    }
    let mut m = scrolling(&table.finish());
    m.fixed("<p class=\"small-print\">What getsockopt said of the connections of all paths at their end. Linux gives twice what is asked, as its own bookkeeping takes its share of a buffer, and no less than a minimum of its own (socket(7), tcp(7)): the window that goes over the wire is smaller than the buffer.</p>");
    m
}

/// `cubic`, or `bbr (native), cubic (vm)` where kernels differ.
fn congestion_controls(bench: &Bench<'_>, test: &str) -> String {
    let found = bench.congestions(test);
    let several = found.len() > 1;
    let text = |(name, environments): (&str, BTreeSet<&str>)| match several {
        true => format!("{name} ({})", environments.into_iter().collect::<Vec<_>>().join(", ")),
        false => name.to_owned(),
    };
    found.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// One value, or the smallest and the largest of rising ones; empty where there is none.
fn span(rising: &[f64], text: impl Fn(f64) -> String) -> String {
    match (rising.first(), rising.last()) {
        (Some(low), Some(high)) if text(*low) == text(*high) => text(*low),
        (Some(low), Some(high)) => format!("{} to {}", text(*low), text(*high)),
        _ => String::new(),
    }
}

/// How a value reads.
type Text = fn(f64) -> String;

/// What is proved of an emulated wire: its word in facts, and how its values read.
const PROVED: [(&str, Text); 3] = [
    (fact::PROOF_GOODPUT, |v| format!("{:.1} Mbit/s", v / 1e6)),
    (fact::PROOF_DELAY, duration),
    (fact::PROOF_LOSS, |v| quantity(v, "1")),
];

/// What emulated wires were asked for and proved to be.
fn proofs(bench: &Bench<'_>) -> Markup {
    let mut m = Markup::new();
    let mut rows = Markup::new();
    for link in bench.links.iter().filter(|l| l.cell.path.is_emulated()) {
        row_head(&mut rows, &link.label, link.position);
        let rate = link.cell.path.rate.map_or_else(String::new, |r| quantity(r.0 as f64, "bit/s"));
        rows.element("td", &[("class", "n")], &rate);
        for (what, text) in PROVED {
            let asked = fact_values(link, &fact::asked(what));
            let found = fact_values(link, &fact::proved(what));
            let off = asked
                .last()
                .and_then(|asked| Some((asked, found.iter().map(|f| (f - asked).abs()).reduce(f64::max)?)));
            rows.element("td", &[("class", "n")], &span(&asked, text));
            rows.open("td", &[("class", "n")]).text(&span(&found, text));
            if let Some((asked, off)) = off.filter(|(asked, _)| **asked > 0.0) {
                rows.element("small", &[], &format!(" ({:.2} % off)", off / asked * 100.0));
            }
            rows.close("td");
        }
        rows.close("tr");
    }
    if rows.is_empty() {
        m.fixed("<p>No path of this run is an emulated wire.</p>");
        return m;
    }
    let columns =
        ["Path", "Wire", "TCP should carry", "and carried", "Delay each way", "measured", "Loss", "measured"];
    let mut table = open_table("", &columns.map(|c| (c, c != "Path")));
    table.add(&rows).close("tbody").close("table");
    m.add(&scrolling(&table));
    m.fixed("<p class=\"small-print\">Each kind of wire is proved once in a run. It is refused, and trials over it fail, where its rate is more than 2&nbsp;% off, its delay more than 2&nbsp;% and 100&nbsp;µs, its loss more than 2&nbsp;% and what chance does with so many packets. A wire's rate includes preamble and gap of each frame, so of 1&nbsp;Gbit/s TCP can have 941&nbsp;Mbit/s. Empty: not asked for.</p>");
    m
}

/// What trials tell of a wire, in rising order.
fn fact_values(link: &Link<'_>, name: &str) -> Vec<f64> {
    let values = link.trials.iter().filter_map(|t| t.facts.get(name)?.parse::<f64>().ok());
    let mut values: Vec<f64> = values.filter(|v| v.is_finite()).collect();
    values.sort_by(f64::total_cmp);
    values
}

/// Facts of paths: switch, controller, flows; and what each path is.
fn paths(bench: &Bench<'_>) -> Markup {
    let mut table = open_table("words-wrap", &[("Path", false), ("Kind", false), ("Facts", false)]);
    for link in &bench.links {
        row_head(&mut table, &link.label, link.position);
        let path = &link.cell.path;
        let mut kind = vec![path.kind.word().to_owned(), format!("MTU {} B", path.mtu)];
        kind.extend(path.rate.map(|r| quantity(r.0 as f64, "bit/s")));
        if !link.has_offloads() {
            kind.push("no offloads".to_owned());
        }
        // Lines end between its parts.
        let kind: Vec<String> = kind.iter().map(|part| part.replace(' ', "\u{a0}")).collect();
        table.element("td", &[], &kind.join(", "));
        table.element("td", &[], &facts(link)).close("tr");
    }
    close_table(&mut table);
    table
}

/// Facts that the path's kind or its proof says already.
const SHOWN: [&str; 3] = ["kind", "mtu", "offloads"];
/// What facts of routers begin with, which the table of their bring-up has.
const OF_ROUTERS: &str = "lab.";

/// `user`, `0.042 to 0.061`, `on and 2 others`.
fn one_or_range(values: &BTreeSet<&str>) -> String {
    let mut numbers: Vec<(f64, &str)> = values.iter().filter_map(|v| Some((v.parse().ok()?, *v))).collect();
    numbers.sort_by(|a, b| a.0.total_cmp(&b.0));
    match (values.first(), numbers.first(), numbers.last()) {
        (Some(one), ..) if values.len() == 1 => (*one).to_owned(),
        (_, Some(low), Some(high)) if numbers.len() == values.len() => format!("{} to {}", low.1, high.1),
        (Some(one), ..) if values.len() == 2 => format!("{one} and 1 other"),
        (Some(one), ..) => format!("{one} and {} others", values.len() - 1),
        (None, ..) => String::new(),
    }
}

/// `datapath: user`, `silence: 15.2 s to 17.3 s`: times by their names, with a unit.
fn told(name: &str, values: &BTreeSet<&str>) -> String {
    let times: Option<Vec<f64>> = values.iter().map(|value| value.parse().ok()).collect();
    match name.strip_suffix("_ns").zip(times) {
        Some((name, mut times)) => {
            times.sort_by(f64::total_cmp);
            format!("{name}: {}", span(&times, duration))
        }
        None => format!("{name}: {}", one_or_range(values)),
    }
}

/// `datapath: user; controller: ovs-testcontroller`: what all trials agree on, else how many there were.
fn facts(link: &Link<'_>) -> String {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (name, value) in link.trials.iter().flat_map(|t| &t.facts) {
        let is_proof = name.starts_with(fact::PATH_PROOF);
        let is_shown = |name: &&str| is_proof || SHOWN.contains(name) || name.starts_with(OF_ROUTERS);
        if let Some(name) = name.strip_prefix(fact::PATH).filter(|name| !is_shown(name)) {
            all.entry(name).or_default().insert(value);
        }
    }
    all.iter().map(|(name, values)| told(name, values)).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_that_differ_are_told_as_a_range_or_counted() {
        let text = |values: &[&str]| one_or_range(&values.iter().copied().collect());
        assert_eq!(text(&["on"]), "on");
        assert_eq!(text(&["0.3", "0.042", "11"]), "0.042 to 11");
        assert_eq!(text(&["25", "none", "on"]), "25 and 2 others");
        assert_eq!(text(&["none", "on"]), "none and 1 other");
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn times_are_told_with_their_unit() {
        let text = |name, values: &[&str]| told(name, &values.iter().copied().collect());
        assert_eq!(text("adjacencies_ns", &["17288219716", "15203190935"]), "adjacencies: 15.2 s to 17.3 s");
        assert_eq!(text("silence_ns", &["700000000"]), "silence: 700 ms");
        assert_eq!(text("silence_ns", &["none", "7"]), "silence_ns: 7 and 1 other");
        assert_eq!(text("flows", &["12", "7"]), "flows: 7 to 12");
    }
}
