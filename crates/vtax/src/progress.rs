//! Progress of a run: a live line on a terminal, plain lines in a pipe.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use vtax_load::net::{NetResult, TcpFlow};
use vtax_plan::model::{NetTest, NetTestKind, Plan, Workload};
use vtax_run::{Observer, RunEvent};
use vtax_store::failover::FailoverOutcome;
use vtax_store::net::NetOutcome;
use vtax_store::record::{Outcome, TrialRecord, Validity};

/// Draws a run's progress on standard error.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    trial: Mutex<String>,
    /// Network tests of the plan, in its order.
    tests: Vec<NetTest>,
}

impl Progress {
    /// A live line where standard error is a terminal.
    pub(crate) fn new(plan: &Plan) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            let style = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Self { bar, trial: Mutex::new(String::new()), tests: tests_of(plan) }
    }

    /// Prints a line that stays.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            // Progress that nobody can read any more must not end the run.
            None => drop(writeln!(std::io::stderr(), "{text}")),
        }
    }

    /// Takes the live line away.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn status(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    fn trial(&self) -> std::sync::MutexGuard<'_, String> {
        self.trial.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Observer for Progress {
    fn observe(&self, event: &RunEvent<'_>) {
        match event {
            RunEvent::Started { finished, owed, remaining } => {
                let resumed = if *finished > 0 { format!("{finished} trials done, ") } else { String::new() };
                self.line(&format!("{resumed}{owed} trials to go, about {}", span(*remaining)));
            }
            RunEvent::TrialStarted { index, cell, measure, repetition, owed, remaining } => {
                *self.trial() = format!(
                    "trial {} · {cell} · {measure} · repetition {} · {owed} to go, about {}",
                    index + 1,
                    repetition + 1,
                    span(*remaining)
                );
                self.status(&self.trial());
            }
            RunEvent::Phase { what } => self.status(&format!("{} · {what}", self.trial())),
            RunEvent::Step { step } => {
                let mark = if step.passed { "passed" } else { "failed" };
                self.status(&format!("{} · {:.0}/s {mark}", self.trial(), step.offered.0));
            }
            RunEvent::ImsPhase { phase } => {
                let mark = if phase.passed { "passed" } else { "failed" };
                let (rate, ihs) = (phase.effective.0, phase.ihs * 100.0);
                self.status(&format!("{} · {} {rate:.1}/s IHS {ihs:.2} % {mark}", self.trial(), phase.name));
            }
            RunEvent::TrialEnded { record } => self.line(&ended(record, &self.tests)),
            RunEvent::Note { text } => self.line(&format!("note: {text}")),
        }
    }
}

/// What became of the faults of a trial.
fn faults(outcome: &FailoverOutcome) -> String {
    let broken = || outcome.faults.iter().filter(|f| f.injected.is_some() && !f.fault.kind.mends());
    let answered: Vec<String> = broken()
        .filter_map(|f| {
            let seen = f.seen.as_ref()?.first_answer?;
            Some(latency(seen.0.saturating_sub(f.injected?.0)))
        })
        .collect();
    let lost = broken().filter(|f| f.lost.is_some()).count();
    format!(
        "at {:.0}/s: {} faults, first answer after {}{}",
        outcome.offered.0,
        broken().count(),
        if answered.is_empty() { "none".to_owned() } else { answered.join(", ") },
        if lost > 0 { format!("; service lost {lost} times") } else { String::new() }
    )
}

/// One line about a finished trial.
fn ended(record: &TrialRecord, planned: &[NetTest]) -> String {
    let found = match &record.outcome {
        Some(Outcome::Capacity(c)) => match c.upper {
            Some(upper) => format!("{:.0} to {:.0} requests/s", c.lower.0, upper.0),
            None => format!("at least {:.0} requests/s", c.lower.0),
        },
        Some(Outcome::Latency { offered, load }) => format!(
            "at {:.0}/s: median {}, p99 {}",
            offered.0,
            latency(load.latency.0.value_at_quantile(0.5)),
            latency(load.latency.0.value_at_quantile(0.99))
        ),
        Some(Outcome::Throughput { load }) => {
            format!("{:.0} requests/s", load.counts.ok as f64 / load.duration.as_secs_f64())
        }
        Some(Outcome::Ims(ims)) => match (ims.doc, ims.decisive()) {
            (Some(doc), _) => {
                format!("DOC {:.1} scenario attempts/s (asked for {:.1})", doc.effective.0, doc.requested.0)
            }
            (None, Some(phase)) => {
                format!("at {:.1} scenario attempts/s: IHS {:.2} %", phase.effective.0, phase.ihs * 100.0)
            }
            (None, None) => "no step kept to its limits".to_owned(),
        },
        Some(Outcome::Failover(failover)) => faults(failover),
        Some(Outcome::Net(net)) => tests(net, planned),
        None => "nothing measured".to_owned(),
    };
    let validity = match &record.validity {
        Validity::Valid => String::new(),
        Validity::Invalid { detail, .. } => format!("  INVALID: {detail}"),
    };
    let label =
        record.accelerator.as_deref().map_or_else(String::new, |a| format!(" [{}]", a.to_uppercase()));
    format!("{:>4}  {:<34} {:<18} {found}{label}{validity}", record.index + 1, record.cell, record.measure)
}

/// Every network test of the plan, each name once.
fn tests_of(plan: &Plan) -> Vec<NetTest> {
    let mut tests: Vec<NetTest> = Vec::new();
    for cell in &plan.cells {
        let Workload::Net(workload) = &cell.workload else { continue };
        let new = |test: &&NetTest| tests.iter().all(|known| known.name != test.name);
        let new: Vec<NetTest> = workload.tests.iter().filter(new).cloned().collect();
        tests.extend(new);
    }
    tests
}

/// What network tests found, in the plan's order: `4K 492, 64K 940 Mbit/s, ping 99 µs`.
fn tests(net: &NetOutcome, planned: &[NetTest]) -> String {
    // Name, figure, and a unit that neighbours share.
    let mut words: Vec<(String, String, &str)> = Vec::new();
    for plan in planned {
        let Some(test) = net.tests.iter().find(|test| test.test == plan.name) else { continue };
        let (figure, unit) = match (&test.validity, &test.result) {
            (Validity::Invalid { .. }, _) | (_, None) => ("invalid".to_owned(), ""),
            (_, Some(result)) => of_test(result, &plan.kind),
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

/// A test's figure, and its unit where that of the next may be the same.
fn of_test(result: &NetResult, asked: &NetTestKind) -> (String, &'static str) {
    let mbit = |bits: f64| match bits / 1e6 {
        small @ ..9.995 => format!("{small:.2}"),
        medium @ ..99.95 => format!("{medium:.1}"),
        large => format!("{large:.0}"),
    };
    match result {
        NetResult::Tcp(tcp) => {
            let flows = [&tcp.up, &tcp.down].into_iter().flatten();
            (mbit(flows.map(TcpFlow::goodput).sum()), " Mbit/s")
        }
        NetResult::Udp(udp) => {
            let lost = format!("{:.2} % lost", udp.loss() * 100.0);
            // Where a rate was asked for, that is what went out.
            let whole = matches!(asked, NetTestKind::Udp(test) if test.rate.is_none());
            (if whole { format!("{} Mbit/s {lost}", mbit(udp.goodput())) } else { lost }, "")
        }
        NetResult::Ping(ping) => (latency(ping.rtt.quantile(0.5).0), ""),
        NetResult::Rr(rr) => {
            (format!("{:.0}/s", rr.transactions as f64 / rr.time.as_secs_f64().max(1e-9)), "")
        }
    }
}

/// Nanoseconds with a unit that keeps three digits readable.
fn latency(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.0} µs", ns as f64 / 1e3),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

/// A rough span of time: `45 s`, `3 min 20 s`.
fn span(d: Duration) -> String {
    match d.as_secs() {
        s @ 0..90 => format!("{s} s"),
        s @ 90..600 => format!("{} min {} s", s / 60, s % 60 / 10 * 10),
        s => format!("{} min", s.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use vtax_load::net::{TcpResult, TcpSide, UdpReceiver, UdpResult, UdpSender};
    use vtax_store::net::NetObservation;
    use vtax_store::record::InvalidReason;
    use vtax_units::Nanos;

    use super::*;

    const PLAN: &str = "
vtax: 1
name: test
baseline: native
environments: native
paths: direct
workload:
  - tcp: {window: [4K, 16K, 64K]}
  - udp: {rate: [10mbit, max]}
measure: network
";

    fn observed(test: &str, result: NetResult) -> NetObservation {
        NetObservation {
            test: test.to_owned(),
            started_unix_ms: 0,
            validity: Validity::Valid,
            result: Some(result),
            warm_up: None,
            checks: Vec::new(),
            cpu: None,
            facts: BTreeMap::new(),
        }
    }

    fn transfer(window: &str, mbit: u64) -> NetObservation {
        let side = TcpSide {
            counted_bytes: mbit * 125_000,
            counted_time: Nanos::from_secs(1),
            ..TcpSide::default()
        };
        let up = TcpFlow { sender: side.clone(), receiver: side, disagreement: None };
        observed(&format!("tcp.window-{window}"), NetResult::Tcp(TcpResult { up: Some(up), down: None }))
    }

    fn datagrams(rate: &str) -> NetObservation {
        let sender = UdpSender { sent: 200, total: 200, ..UdpSender::default() };
        let receiver = UdpReceiver { received: 199, total: 199, ..UdpReceiver::default() };
        observed(&format!("udp.rate-{rate}"), NetResult::Udp(UdpResult { sender, receiver }))
    }

    #[test]
    fn tests_are_told_in_the_plans_order_and_share_their_unit() {
        let plan = vtax_plan::parse("test", PLAN.as_bytes(), &[] as &[&str]).unwrap();
        let order = tests_of(&plan);
        let made = [datagrams("10mbit"), transfer("64K", 940), transfer("16K", 42), transfer("4K", 5)];
        let mut net = NetOutcome { tests: made.into() };
        let told = "4K 5.00, 16K 42.0, 64K 940 Mbit/s, udp.rate-10mbit 0.50 % lost";
        assert_eq!(super::tests(&net, &order), told);
        net.tests[1].validity =
            Validity::Invalid { reason: InvalidReason::CountsDisagree, detail: String::new() };
        net.tests[0] = datagrams("max");
        let told = "4K 5.00, 16K 42.0 Mbit/s, 64K invalid, udp.rate-max 0.00 Mbit/s 0.50 % lost";
        assert_eq!(super::tests(&net, &order), told);
    }
}
