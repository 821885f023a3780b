//! Whether the generator, not the system under test, set the limit (docs/load.md, "Lateness").

use vtax_units::Nanos;

/// A worker that used or wanted its CPU for more than this share has no reserve left.
const BUSY: f64 = 0.95;
/// A worker whose CPU another program had for more than this share of the time it wanted to run
/// saw answers later than they came.
const DISPLACED: f64 = 0.2;
/// Lateness the generator may always have where latency counts from the intended start: noise of timers and of the
/// scheduler. Lateness is then part of what is reported, so a high floor would let it pass for the server's.
pub(crate) const FLOOR_IN_LATENCY: Nanos = Nanos(100_000);
/// Lateness the generator may always have where what is reported counts from the actual send: it only moves the load a little.
pub(crate) const FLOOR_BESIDE: Nanos = Nanos::from_millis(1);
/// Share of the measured p99 latency that the generator's own p99 lateness may reach.
const LATENESS_SHARE: f64 = 0.25;
/// A worker without reserve that is later than this is late however long answers take.
const LATE: Nanos = Nanos::from_millis(1);
/// Share of the starts that the generator itself may miss.
const MISSED_SHARE: f64 = 0.001;
/// Share of the starts that may fail for want of descriptors or ports.
const RESOURCE_SHARE: f64 = 0.001;

/// What helps a generator that something holds up.
const RELIEF: &str = "give the generator CPUs of its own or less load";

/// What a load showed about its generator.
#[derive(Debug, Clone, Default)]
pub(crate) struct Evidence {
    /// Open loop, with intended starts.
    pub(crate) open: bool,
    /// Per worker: share of the time it computed, polling for a start excluded.
    pub(crate) busy: Vec<f64>,
    /// Per worker: share of the time it could have run but another program had its CPU.
    pub(crate) displaced: Vec<f64>,
    pub(crate) intended: u64,
    pub(crate) missed: u64,
    /// Missed while a connection was free.
    pub(crate) missed_own: u64,
    pub(crate) no_descriptors: u64,
    pub(crate) no_addresses: u64,
    /// Lateness that is tolerable however short latencies are.
    pub(crate) floor: Nanos,
    /// p99 of latency, of lateness, and of lateness while a connection was free.
    pub(crate) latency_p99: Nanos,
    pub(crate) lateness_p99: Nanos,
    pub(crate) own_lateness_p99: Nanos,
}

/// Why the generator could not carry the load; `None` where it could.
pub(crate) fn judge(e: &Evidence) -> Option<String> {
    resources(e).or_else(|| saturated(e)).or_else(|| displaced(e)).or_else(|| late(e))
}

/// Descriptors and local ports are the generator's own to run out of.
fn resources(e: &Evidence) -> Option<String> {
    let allowed = e.intended as f64 * RESOURCE_SHARE;
    if e.no_descriptors as f64 > allowed {
        return Some(format!(
            "{} requests found no free descriptor; raise the limit on open files (ulimit -n)",
            e.no_descriptors
        ));
    }
    (e.no_addresses as f64 > allowed).then(|| {
        format!(
            "{} requests found no free local port; use keep-alive or widen net.ipv4.ip_local_port_range",
            e.no_addresses
        )
    })
}

/// No CPU left. In a closed loop that alone bounds the throughput; in an open loop it is harmless
/// as long as starts are on time. Late starts on a saturated worker are the worker's, even where
/// no connection was free: answers may have waited unread.
fn saturated(e: &Evidence) -> Option<String> {
    let wanted = e.busy.iter().zip(&e.displaced).map(|(busy, displaced)| busy + displaced);
    let (worker, wanted) = wanted.enumerate().max_by(|a, b| a.1.total_cmp(&b.1))?;
    if wanted <= BUSY || (e.open && !is_late(e)) {
        return None;
    }
    let (busy, displaced) = (100.0 * e.busy[worker], 100.0 * e.displaced[worker]);
    let mut why = format!("worker {worker} used {busy:.0} % of its CPU");
    if displaced >= 1.0 {
        why += &format!(" and waited for it {displaced:.0} % of the time");
    }
    Some(why + "; give the generator more CPUs or less load")
}

/// How late starts may be: a share of the latency that is reported.
fn tolerable(e: &Evidence) -> Nanos {
    e.floor.max(Nanos((e.latency_p99.0 as f64 * LATENESS_SHARE) as u64))
}

/// Starts waited for a connection, be it busy or not.
fn is_late(e: &Evidence) -> bool {
    e.lateness_p99 > tolerable(e).min(LATE) || e.missed > 0
}

/// Another program had the CPU so often that one can't tell who was late.
fn displaced(e: &Evidence) -> Option<String> {
    let (worker, displaced) = e.displaced.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1))?;
    (*displaced > DISPLACED && e.open && is_late(e)).then(|| {
        format!(
            "another program had the CPU of worker {worker} for {:.0} % of the time; give the generator CPUs of its own",
            100.0 * displaced
        )
    })
}

/// CPU to spare on average, but starts were late although a connection was free: something held
/// the workers up (another program on the CPU, a paused machine).
fn late(e: &Evidence) -> Option<String> {
    if !e.open {
        return None;
    }
    if e.missed_own as f64 > e.intended as f64 * MISSED_SHARE {
        return Some(format!(
            "{} starts were missed although nothing but the generator held them up; {RELIEF}",
            e.missed_own
        ));
    }
    let millis = |time: Nanos| time.as_secs_f64() * 1e3;
    (e.own_lateness_p99 > tolerable(e)).then(|| {
        format!(
            "starts were late although nothing but the generator held them up: p99 {:.2} ms, {:.2} ms is tolerable \
             beside a p99 latency of {:.2} ms; {RELIEF}",
            millis(e.own_lateness_p99),
            millis(tolerable(e)),
            millis(e.latency_p99)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Evidence {
        Evidence {
            open: true,
            busy: vec![0.3, 0.4],
            displaced: vec![0.0, 0.01],
            intended: 100_000,
            floor: FLOOR_IN_LATENCY,
            latency_p99: Nanos::from_millis(2),
            lateness_p99: Nanos(60_000),
            own_lateness_p99: Nanos(60_000),
            ..Evidence::default()
        }
    }

    #[test]
    fn a_generator_with_reserve_is_not_limited() {
        assert_eq!(judge(&good()), None);
    }

    #[test]
    fn a_slow_server_is_never_the_generators_fault() {
        // All connections busy: starts wait seconds and are missed, but the workers are idle and
        // own lateness, which counts from the moment a connection is free, stays small.
        let e = Evidence {
            busy: vec![0.05, 0.04],
            missed: 60_000,
            latency_p99: Nanos::from_secs(5),
            lateness_p99: Nanos::from_secs(5),
            ..good()
        };
        assert_eq!(judge(&e), None);
    }

    #[test]
    fn a_saturated_worker_that_is_late_is() {
        let mut e = Evidence { busy: vec![0.2, 0.99], lateness_p99: Nanos::from_millis(80), ..good() };
        assert!(judge(&e).unwrap().starts_with("worker 1 used 99 % of its CPU"));
        // Busy but on time: the load was carried.
        e.lateness_p99 = Nanos(200_000);
        assert_eq!(judge(&e), None);
        // Another program on the generator's CPU counts like its own use.
        let e = Evidence {
            busy: vec![0.5],
            displaced: vec![0.48],
            lateness_p99: Nanos::from_millis(9),
            ..good()
        };
        assert!(judge(&e).unwrap().contains("waited for it 48 %"));
        // Also where it leaves the worker some reserve, as answers were seen late.
        let e = Evidence { busy: vec![0.3], displaced: vec![0.4], ..e };
        assert!(judge(&e).unwrap().contains("worker 0 for 40 % of the time"));
        assert_eq!(judge(&Evidence { lateness_p99: Nanos(300_000), ..e }), None);
    }

    #[test]
    fn a_closed_loop_is_limited_by_cpu_alone() {
        let e = Evidence { open: false, busy: vec![0.97], displaced: vec![0.0], ..Evidence::default() };
        assert!(judge(&e).is_some());
        let e = Evidence { open: false, busy: vec![0.90], displaced: vec![0.0], ..Evidence::default() };
        assert_eq!(judge(&e), None);
    }

    #[test]
    fn late_with_a_free_connection_is() {
        let e = Evidence { own_lateness_p99: Nanos::from_millis(3), ..good() };
        assert!(
            judge(&e).unwrap().contains("p99 3.00 ms, 0.50 ms is tolerable beside a p99 latency of 2.00 ms")
        );
        // The same beside a latency that dwarfs it does no harm.
        let e = Evidence { latency_p99: Nanos::from_millis(100), ..e };
        assert_eq!(judge(&e), None);
        // Two thirds of what is reported would be the generator's.
        let most = Nanos(930_000);
        let e = Evidence { latency_p99: Nanos(1_450_000), own_lateness_p99: most, ..good() };
        assert!(judge(&e).is_some());
        // Where it isn't in what is reported, it does no harm.
        assert_eq!(judge(&Evidence { floor: FLOOR_BESIDE, ..e }), None);
        let e = Evidence { latency_p99: Nanos(150_000), own_lateness_p99: Nanos(90_000), ..good() };
        assert_eq!(judge(&e), None, "the noise of any machine");
        let e = Evidence { missed: 300, missed_own: 300, ..good() };
        let told = judge(&e).unwrap();
        assert!(told.starts_with("300 starts were missed although nothing but the generator"), "{told}");
        // Loads of datagrams or files have no connections.
        assert!(!told.contains("connection") && told.ends_with("CPUs of its own or less load"), "{told}");
    }

    #[test]
    fn running_out_of_resources_is() {
        assert!(judge(&Evidence { no_descriptors: 500, ..good() }).unwrap().contains("descriptor"));
        assert!(judge(&Evidence { no_addresses: 500, ..good() }).unwrap().contains("port"));
        assert_eq!(judge(&Evidence { no_addresses: 5, ..good() }), None);
    }
}
