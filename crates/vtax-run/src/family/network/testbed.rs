//! Tests between the two ends of a trial's testbed.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use vtax_agent::AgentError;
use vtax_lab::PathSwitch;
use vtax_load::network::{NetworkResult, NetworkSpec, NetworkTestKind};
use vtax_load::{NetworkAnswer, Progress, Step};
use vtax_plan::model::{Cut, Direction, NetworkMeasure};
use vtax_sys::chain;
use vtax_sys::netlink::LinkStats;

use super::ends::{Captured, Ends, MadeTest};
use crate::instrument::Site;
use crate::observe::RunEvent;
use crate::probes::Marks;

/// The two ends of a testbed that stands, with all that watches them.
pub(super) struct OnTestbed<'a, 's> {
    pub(super) site: &'a mut Site<'s>,
}

impl Ends for OnTestbed<'_, '_> {
    fn make(
        &mut self,
        spec: &NetworkSpec,
        measure: &NetworkMeasure,
        what: &str,
    ) -> Result<MadeTest, AgentError> {
        let capture = measure.capture.then(|| self.site.testbed.start_capture().map_err(|e| chain(&e)));
        let before = self.counters();
        let mark = self.site.probes.mark(self.site.suts);
        let (answer, uncut) = self.run(spec, measure.cut, what);
        let end = self.site.probes.mark(self.site.suts);
        let counted = before.zip(self.counters()).map(|(before, after)| since(&before, &after));
        let captured = capture.map(|capture| {
            let counts = capture?.stop().map_err(|e| chain(&e))?;
            let (up, down) = (counts.up.payload_bytes, counts.down.payload_bytes);
            Ok(Captured { up, down, dropped: counts.dropped })
        });
        let answer = answer?;
        let cpu = match (mark, end, &answer) {
            (Ok(mark), Ok(end), Ok(result)) => self.cpu(&mark, &end, spent_on(spec, result)),
            // Probes that fail cost the breakdown, not the test.
            _ => None,
        };
        Ok(MadeTest { answer, counted, captured, cpu, uncut })
    }
}

impl OnTestbed<'_, '_> {
    fn counters(&mut self) -> Option<[LinkStats; 2]> {
        self.site.testbed.counters().ok().flatten()
    }

    fn cpu(&self, start: &Marks, end: &Marks, spent_on: u64) -> Option<vtax_probe::layers::CpuBreakdown> {
        (spent_on > 0).then(|| self.site.probes.between(start, end, spent_on))
    }

    /// Makes the test, shows how it goes, and cuts the path in its middle where that is asked for.
    fn run(
        &mut self,
        spec: &NetworkSpec,
        cut: Option<Cut>,
        what: &str,
    ) -> (Result<NetworkAnswer, AgentError>, Option<String>) {
        let switch = cut.map(|cut| (cut, self.site.testbed.path_switch()));
        let (client, observer) = (self.site.client, self.site.observer);
        std::thread::scope(|scope| {
            let (over, waiting) = channel::<()>();
            let cutter = switch.map(|(cut, switch)| {
                scope.spawn(move || interrupt(&switch, cut, Duration::from(spec.warmup), &waiting))
            });
            let mut last = Progress::default();
            let answer = client.run_step(Step::Network(spec.clone()), spec.longest(), &mut |progress| {
                let lately = describe(&progress.since(&last), progress.elapsed <= spec.warmup);
                observer.observe(&RunEvent::Phase { what: &format!("{what} · {lately}") });
                last = *progress;
            });
            // Ends the thread that waits for it.
            drop(over);
            let uncut = cutter.and_then(|cutter| match cutter.join() {
                Ok(result) => result.err(),
                Err(_) => Some("the thread that cuts the path panicked".to_owned()),
            });
            (answer, uncut)
        })
    }
}

/// Cuts the path at its time and mends it again, at the latest when the test is over.
fn interrupt(
    switch: &PathSwitch,
    cut: Cut,
    warmup: Duration,
    over: &std::sync::mpsc::Receiver<()>,
) -> Result<(), String> {
    if over.recv_timeout(warmup + Duration::from(cut.at)) != Err(RecvTimeoutError::Timeout) {
        return Err("the test was over before its time to be cut".to_owned());
    }
    switch.cut().map_err(|e| chain(&e))?;
    match cut.lasting {
        Some(lasting) => _ = over.recv_timeout(lasting.into()),
        None => _ = over.recv(),
    }
    switch.restore().map_err(|e| chain(&e))
}

/// A line for people about an interval of a test.
fn describe(lately: &Progress, warm_up: bool) -> String {
    let seconds = lately.elapsed.as_secs_f64().max(1e-9);
    let mut parts = Vec::new();
    if lately.bytes > 0 {
        parts.push(format!("{:.1} Mbit/s", lately.bytes as f64 * 8e-6 / seconds));
    }
    if lately.ok > 0 {
        parts.push(format!("{:.0}/s", lately.ok as f64 / seconds));
    }
    if let Some(rtt) = lately.mean_latency() {
        parts.push(format!("{:.0} µs round trip", rtt.0 as f64 / 1e3));
    }
    if parts.is_empty() {
        parts.push("nothing arrives".to_owned());
    }
    if warm_up {
        parts.push("warm-up".to_owned());
    }
    parts.join(", ")
}

/// What went through each interface between two readings.
fn since(before: &[LinkStats; 2], after: &[LinkStats; 2]) -> [LinkStats; 2] {
    let one = |before: &LinkStats, after: &LinkStats| LinkStats {
        received_packets: after.received_packets.saturating_sub(before.received_packets),
        sent_packets: after.sent_packets.saturating_sub(before.sent_packets),
        received_bytes: after.received_bytes.saturating_sub(before.received_bytes),
        sent_bytes: after.sent_bytes.saturating_sub(before.sent_bytes),
        received_dropped: after.received_dropped.saturating_sub(before.received_dropped),
        sent_dropped: after.sent_dropped.saturating_sub(before.sent_dropped),
    };
    [one(&before[0], &after[0]), one(&before[1], &after[1])]
}

/// How many bytes, datagrams, echoes, transactions or packets CPU time was spent on, warm-up included where that
/// is known.
fn spent_on(spec: &NetworkSpec, result: &NetworkResult) -> u64 {
    match result {
        NetworkResult::Tcp(tcp) => {
            [&tcp.up, &tcp.down].into_iter().flatten().map(|flow| flow.receiver.total_bytes).sum()
        }
        // Who sends spends on all that it sends, whether it arrives or not.
        NetworkResult::Udp(udp) => match &spec.test {
            NetworkTestKind::Udp(test) if test.direction == Direction::Down => udp.sender.total,
            _ => udp.receiver.total,
        },
        // Its rate is constant, so the warm-up's share is known.
        NetworkResult::Ping(ping) => with_warmup(spec, ping.answered),
        NetworkResult::Rr(rr) => with_warmup(spec, rr.transactions),
        NetworkResult::Voice(voice) => voice.server.total_sent.saturating_add(voice.server.total_received),
    }
}

fn with_warmup(spec: &NetworkSpec, counted: u64) -> u64 {
    let (warmup, duration) = (spec.warmup.as_secs_f64(), spec.duration.as_secs_f64());
    (counted as f64 * (warmup + duration) / duration.max(1e-9)) as u64
}

#[cfg(test)]
mod tests {
    use vtax_load::network::{UdpReceiver, UdpResult, UdpSender, UdpTest};
    use vtax_units::Nanos;

    use super::*;

    #[test]
    fn datagrams_cost_the_one_who_sends_them_whether_they_arrive_or_not() {
        let result = NetworkResult::Udp(UdpResult {
            sender: UdpSender { sent: 900, total: 1_000, ..UdpSender::default() },
            receiver: UdpReceiver { received: 360, total: 400, ..UdpReceiver::default() },
        });
        let on = |direction| {
            let spec = NetworkSpec {
                target: "10.97.0.2:5202".parse().unwrap(),
                test: NetworkTestKind::Udp(UdpTest { rate: None, size: 1_448, direction, buffer: None }),
                seed: 1,
                warmup: Nanos::ZERO,
                duration: Nanos::from_secs(1),
                interval: Nanos::from_secs(1),
            };
            spent_on(&spec, &result)
        };
        // The system under test sends what goes down, and receives what goes up.
        assert_eq!((on(Direction::Down), on(Direction::Up)), (1_000, 400));
    }
}
