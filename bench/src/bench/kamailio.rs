//! Calls through a SIP server per CPU-second of the server: the embedded one and Kamailio.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::thread;

use anyhow::{Context, Result, ensure};
use vtax_plan::model::{KamailioOptions, LocationMode, Service, ServiceKind, Subscribers};
use vtax_service::{RunningService, StartContext};
use vtax_sys::sched;
use vtax_units::{Bytes, CpuSet, Nanos};

use super::sip::vtax;
use crate::place;

/// Subscribers of both servers, all of them registered.
pub(crate) const SUBSCRIBERS: u32 = 3_000;
/// Calls per second among them. At the first a server is woken for nearly each message.
pub(crate) const RATE: u32 = 2_000;
/// Of these the highest that both servers carry on one CPU: there their own work is more of what they do.
pub(crate) const HIGH_RATES: [u32; 3] = [5_000, 4_000, 3_000];
/// Share of the calls that must succeed.
const CARRIED: f64 = 0.9;
const DURATION: &str = "4s";
/// The server's CPU.
const CPU: usize = 1;

/// Calls per second of CPU time that the server, a process with its descendants, takes for them and
/// for the registrations before them; `None` where it doesn't carry that rate.
pub(crate) fn calls_per_cpu_second(pid: u32, target: &str, rate: u32) -> Result<Option<f64>> {
    let before = cpu_seconds(pid)?;
    let (subscribers, rate) = (SUBSCRIBERS.to_string(), format!("{rate}/s"));
    let run = vtax(
        target,
        &[
            "--subscribers",
            &subscribers,
            "--registered",
            "100%",
            "--registration-rate",
            "2000/s",
            "--rate",
            &rate,
            "--duration",
            DURATION,
            "--scenario",
            "calling",
            "--ring",
            "50ms",
            "--hold",
            "100ms",
        ],
    )?;
    let (made, succeeded) = (run.of(1, "attempts")?, run.of(1, "succeeded")?);
    ensure!(made > 0.0, "no call was made");
    let used = cpu_seconds(pid)? - before;
    Ok((succeeded >= CARRIED * made).then_some(succeeded / used))
}

/// The same for Kamailio, its database left out.
pub(crate) fn kamailio(rate: u32) -> Result<Option<f64>> {
    // It inherits the CPU from the thread that starts it.
    let work = || -> Result<Option<f64>> {
        sched::bind_this_thread(&CpuSet::of([CPU]))?;
        let directory = tempfile::tempdir().context("making a temporary directory")?;
        // The database drops privileges and must still reach its files.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755))?;
        let context = StartContext {
            address: [127, 0, 0, 1].into(),
            directory: directory.path().join("kamailio"),
            cpus: 1,
            vtax: place::vtax(),
            die_with_starter: false,
            prepared: None,
            disk: None,
            call_off: None,
        };
        let subscribers = Subscribers {
            count: SUBSCRIBERS,
            public: "subs%06d".to_owned(),
            private: "subs%06d".to_owned(),
            password: "vtax".to_owned(),
            realm: "vtax.test".to_owned(),
            domain: "vtax.test".to_owned(),
        };
        let service = RunningService::start(&service(), Some(&subscribers), &context, |_| ())?;
        // The last of its processes is what clients talk to; the database comes first.
        let pid = service.pids().last().context("Kamailio has no process")?;
        let found = calls_per_cpu_second(pid, &service.address().to_string(), rate);
        service.stop()?;
        found
    };
    thread::scope(|scope| scope.spawn(work).join()).map_err(|_| anyhow::anyhow!("the thread panicked"))?
}

fn service() -> Service {
    Service {
        name: "kamailio".to_owned(),
        kind: ServiceKind::Kamailio(KamailioOptions {
            port: 15_060,
            children: None,
            // Thousands of transactions a second, each kept for 10 times T1 after its end.
            shared_memory: Bytes::from_mib(1_024),
            t1: Nanos::from_millis(100),
            location: LocationMode::WriteBack,
            media_relay: None,
            tls: false,
        }),
        ready_timeout: Nanos::from_secs(60),
        stop_timeout: Nanos::from_secs(10),
    }
}

/// CPU time of a process and all its descendants so far, user and system.
fn cpu_seconds(pid: u32) -> Result<f64> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).with_context(|| format!("reading of {pid}"))?;
    // Fields 14 and 15, counted from 1, of which the second may hold spaces (proc(5)).
    let after_name = stat.rsplit_once(')').context("no name")?.1;
    let ticks: f64 = after_name
        .split_whitespace()
        .skip(11)
        .take(2)
        .map(|figure| figure.parse::<f64>())
        .sum::<Result<f64, _>>()?;
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let mut sum = ticks / 100.0;
    for child in children.split_whitespace() {
        sum += cpu_seconds(child.parse()?)?;
    }
    Ok(sum)
}
