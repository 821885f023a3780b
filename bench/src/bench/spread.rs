//! What it costs the HTTP generator to spread a load over six systems, beside the same load against one.
//!
//! All six are one nginx on another CPU: what they cost is another matter. Both loads go through the session that spreads
//! them, one after the other on the same CPU.

use std::net::SocketAddr;
use std::thread;

use anyhow::{Context, Result, anyhow};
use vtax_load::http::{HttpRequests, HttpSpec};
use vtax_load::{
    ArrivalProcess, ConnectionPool, Control, LoadAnswer, LoadSpec, Model, PartPace, RequestStep, Segment,
    SpreadPart, SpreadSession, SpreadSpec,
};
use vtax_sys::sched;
use vtax_units::{CpuSet, Nanos, Rate};

use super::http::Nginx;
use crate::program::median;
use crate::sheet::{Row, Sheet};

const GENERATOR_CPU: usize = 0;
const ROUNDS: usize = 5;
const SYSTEMS: u32 = 6;
/// Requests per second of all systems together; less where nginx doesn't carry so many.
const RATE: f64 = 100_000.0;
/// Share of what a closed loop gets that the open loop asks for at most.
const SHARE: f64 = 0.7;
/// Connections of all systems together.
const CONNECTIONS: u32 = 60;
const GOAL: f64 = 1.05;

/// The rows of this suite.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let server = Nginx::start()?;
    let address = server.address();
    let closed = load(address, 1, Model::Closed)?;
    let rate = RATE.min(closed.result.throughput().0 * SHARE);
    let profile = vec![Segment { from: Rate(rate), to: Rate(rate), duration: Nanos::from_secs(1) }];
    let open = || Model::Open { arrivals: ArrivalProcess::Poisson, profile: profile.clone() };
    for (name, model) in [("closed loop".to_owned(), None), (format!("open loop, {rate:.0}/s"), Some(open()))]
    {
        let (mut one, mut six) = (Vec::new(), Vec::new());
        // In turn, so that a noisy host is noisy to both.
        for _ in 0..ROUNDS {
            let model = || model.clone().unwrap_or(Model::Closed);
            one.push(nanos_per_request(&load(address, 1, model())?)?);
            six.push(nanos_per_request(&load(address, SYSTEMS, model())?)?);
        }
        let ratio = median(six.iter().zip(&one).map(|(six, one)| six / one).collect());
        sheet.add(Row {
            name: format!("HTTP, {name}, over {SYSTEMS} systems beside one"),
            ours: median(six),
            peer: Some(median(one)),
            unit: "CPU-ns/req".to_owned(),
            ratio: Some(ratio),
            goal: format!("<= {GOAL}x"),
            ok: ratio <= GOAL,
        })?;
    }
    Ok(())
}

/// CPU time of the generator for each answer.
fn nanos_per_request(answer: &LoadAnswer) -> Result<f64> {
    let used = &answer.result.generator;
    let ok = answer.result.counts.ok;
    anyhow::ensure!(ok > 0, "nothing was answered");
    Ok((used.cpu_user.0 + used.cpu_system.0) as f64 / ok as f64)
}

/// One step against so many systems, on the generator's CPU.
fn load(target: SocketAddr, systems: u32, model: Model) -> Result<LoadAnswer> {
    let part = |number: u32| {
        let connections = CONNECTIONS / systems;
        let pool =
            ConnectionPool { target, connections, timeout: Nanos::from_secs(2), cpus: CpuSet::default() };
        let requests = HttpRequests::get("/file", &target.to_string());
        let load = LoadSpec::Http(HttpSpec { pool, requests });
        let pace = PartPace::Share(1.0 / f64::from(systems));
        SpreadPart { member: format!("system {number}"), load, pace }
    };
    let spec = SpreadSpec { parts: (0..systems).map(part).collect() };
    let step = RequestStep {
        model,
        warmup: Nanos::from_secs(1),
        duration: Nanos::from_secs(3),
        seed: 1,
        samples: false,
        interval: Nanos::from_secs(1),
        drain: Nanos::from_secs(1),
    };
    // In a thread of its own, whose CPU its workers get.
    let run = move || -> Result<LoadAnswer> {
        sched::bind_this_thread(&CpuSet::of([GENERATOR_CPU]))?;
        let mut session = SpreadSession::open(&spec)?;
        session.run_step(&step, &Control::new()).context("running the load")
    };
    thread::spawn(run).join().map_err(|_| anyhow!("the load panicked"))?
}
