//! The tests of one trial in a line, for progress and the list of trials.

use vtax_load::network::{NetworkResult, TcpFlow};
use vtax_plan::model::{NetworkTest, NetworkTestKind};
use vtax_store::record::{Observation, Validity};

use crate::format::duration;

/// What the network tests of a trial found, in the order of `planned`: `4K 492, 64K 940 Mbit/s, ping 99.2 µs`.
pub(crate) fn describe_tests(observations: &[Observation], planned: &[NetworkTest]) -> String {
    // Name, figure, and a unit that neighbours share.
    let mut words: Vec<(String, String, &str)> = Vec::new();
    for plan in planned {
        let Some(test) = observations.iter().find(|test| test.name == plan.name) else { continue };
        let (figure, unit) = match (&test.validity, test.network().map(|found| &found.result)) {
            (Validity::Invalid { .. }, _) | (_, None) => ("invalid".to_owned(), ""),
            (_, Some(result)) => match of_test(result, &plan.kind) {
                Some(figure) => figure,
                None => continue,
            },
        };
        words.push((plan.short_name(), figure, unit));
    }
    let mut out = Vec::new();
    for (place, (name, figure, unit)) in words.iter().enumerate() {
        let next = words.get(place + 1).map_or("", |next| next.2);
        let unit = if *unit == next { "" } else { unit };
        out.push(format!("{name} {figure}{unit}"));
    }
    out.join(", ")
}

/// A test's figure, and its unit where that of the next may be the same; `None` where the trial has no figure
/// of its own any more, as a report adds up the round trips of all.
fn of_test(result: &NetworkResult, asked: &NetworkTestKind) -> Option<(String, &'static str)> {
    let mbit = |bits: f64| match bits / 1e6 {
        small @ ..9.995 => format!("{small:.2}"),
        medium @ ..99.95 => format!("{medium:.1}"),
        large => format!("{large:.0}"),
    };
    Some(match result {
        NetworkResult::Tcp(tcp) => {
            let flows = [&tcp.up, &tcp.down].into_iter().flatten();
            (mbit(flows.map(TcpFlow::goodput).sum()), " Mbit/s")
        }
        NetworkResult::Udp(udp) => {
            let lost = format!("{:.2} % lost", udp.loss() * 100.0);
            // Where a rate was asked for, that is what went out.
            let whole = matches!(asked, NetworkTestKind::Udp(test) if test.rate.is_none());
            (if whole { format!("{} Mbit/s {lost}", mbit(udp.goodput())) } else { lost }, "")
        }
        NetworkResult::Ping(ping) if ping.rtt.is_empty() => return None,
        NetworkResult::Ping(ping) => (duration(ping.rtt.quantile(0.5).0 as f64), ""),
        NetworkResult::Rr(rr) => {
            (format!("{:.0}/s", rr.transactions as f64 / rr.time.as_secs_f64().max(1e-9)), "")
        }
        NetworkResult::Voice(voice) => (format!("MOS {:.2}", voice.mos()), ""),
    })
}

#[cfg(test)]
mod tests {
    use vtax_load::network::{TcpResult, TcpSide, UdpReceiver, UdpResult, UdpSender};
    use vtax_store::network::NetworkFinding;
    use vtax_store::record::{Finding, InvalidReason};
    use vtax_units::Nanos;

    use super::*;

    const PLAN: &str = "{vtax: 1, name: test, baseline: native, environments: native, paths: direct, \
        workload: [{tcp: {window: [4K, 16K, 64K]}}, {udp: {rate: [10mbit, max]}}], measure: network}";

    fn observed(test: &str, result: NetworkResult) -> Observation {
        Observation {
            name: test.to_owned(),
            result: Some(Finding::Network(Box::new(NetworkFinding { result, checks: Vec::new() }))),
            ..Observation::default()
        }
    }

    fn transfer(window: &str, mbit: u64) -> Observation {
        let side = TcpSide {
            counted_bytes: mbit * 125_000,
            counted_time: Nanos::from_secs(1),
            ..TcpSide::default()
        };
        let up = TcpFlow { sender: side.clone(), receiver: side, disagreement: None };
        observed(&format!("tcp.window-{window}"), NetworkResult::Tcp(TcpResult { up: Some(up), down: None }))
    }

    fn datagrams(rate: &str) -> Observation {
        let sender = UdpSender { sent: 200, total: 200, ..UdpSender::default() };
        let receiver = UdpReceiver { received: 199, total: 199, ..UdpReceiver::default() };
        observed(&format!("udp.rate-{rate}"), NetworkResult::Udp(UdpResult { sender, receiver }))
    }

    #[test]
    fn tests_are_told_in_the_plans_order_and_share_their_unit() {
        let plan = vtax_plan::parse("test", PLAN.as_bytes(), &[] as &[&str]).unwrap();
        let vtax_plan::model::Workload::Network(workload) = &plan.cells[0].workload else { unreachable!() };
        let order = &workload.tests;
        let mut made = [datagrams("10mbit"), transfer("64K", 940), transfer("16K", 42), transfer("4K", 5)];
        let text = "4K 5.00, 16K 42.0, 64K 940 Mbit/s, udp.rate-10mbit 0.50 % lost";
        assert_eq!(describe_tests(&made, order), text);
        made[1].validity = Validity::Invalid { reason: InvalidReason::CountsDisagree, detail: String::new() };
        made[0] = datagrams("max");
        let text = "4K 5.00, 16K 42.0 Mbit/s, 64K invalid, udp.rate-max 0.00 Mbit/s 0.50 % lost";
        assert_eq!(describe_tests(&made, order), text);
    }
}
