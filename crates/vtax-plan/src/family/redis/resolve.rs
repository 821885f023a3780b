//! Redis: the server and workloads.

use vtax_units::{Bytes, Nanos, Share};

use super::limits;
use super::model::{KeyAccess, Persistence, RedisOptions, RedisRequests, RedisWorkload};
use super::raw::{RedisRaw, RedisWorkloadRaw};
use crate::decode::Many;
use crate::diagnose::Report;
use crate::model::{MOST_CONNECTIONS, Service, ServiceKind, Workload};
use crate::resolve::check::{LONGEST, check_port, counts_in, duration_in};
use crate::resolve::variants::{Variants, service};
use crate::source::Spanned;

/// The server itself allows no more.
const MOST_IO_THREADS: u32 = 128;

/// The server.
pub(crate) fn server(raw: &RedisRaw, report: &mut Report) -> Variants<Service> {
    counts_in(&raw.io_threads.value, "connections are read by a thread", MOST_IO_THREADS, report);
    let kind = ServiceKind::Redis(RedisOptions {
        port: check_port(&raw.port, report),
        persistence: Persistence::None,
        io_threads: 1,
    });
    let set = |service: &mut Service, change: &dyn Fn(&mut RedisOptions)| {
        if let ServiceKind::Redis(options) = &mut service.kind {
            change(options);
        }
    };
    Variants::of(service(kind, raw.name.as_ref(), (&raw.ready_timeout, &raw.stop_timeout), report))
        .vary("persistence", &raw.persistence.value, report, |s, p| set(s, &|o| o.persistence = p.0))
        .vary("io_threads", &raw.io_threads.value, report, |s, n| set(s, &|o| o.io_threads = n))
}

/// The workload, one variant for each combination of its lists.
pub(crate) fn workload(raw: &RedisWorkloadRaw, report: &mut Report) -> Variants<Workload> {
    check_data(&raw.keys.value, &raw.value.value, report);
    for item in raw.reads.value.items.iter().filter(|item| !(0.0..=1.0).contains(&item.value.0)) {
        report.error(item.span, "`reads` is a share of the requests: 0% to 100%");
    }
    counts_in(
        &raw.pipeline.value,
        "a connection carries one request at least",
        *limits::PIPELINE.end(),
        report,
    );
    counts_in(&raw.connections.value, "requests need a connection", MOST_CONNECTIONS, report);
    for item in &raw.timeout.value.items {
        duration_in(&Spanned { value: item.value, span: item.span }, "timeout", Nanos(1), LONGEST, report);
    }
    let requests = RedisRequests {
        keys: *limits::KEYS.start(),
        value: *limits::VALUE.start(),
        reads: Share(1.0),
        access: KeyAccess::Uniform,
        pipeline: 1,
    };
    let redis = RedisWorkload { requests, connections: 1, timeout: Nanos::ZERO };
    Variants::of(redis)
        .vary("keys", &raw.keys.value, report, |w, keys| w.requests.keys = keys)
        .vary("value", &raw.value.value, report, |w, value| w.requests.value = value)
        .vary("reads", &raw.reads.value, report, |w, reads| w.requests.reads = reads)
        .vary("access", &raw.access.value, report, |w, access| w.requests.access = access.0)
        .vary("pipeline", &raw.pipeline.value, report, |w, pipeline| w.requests.pipeline = pipeline)
        .vary("connections", &raw.connections.value, report, |w, connections| w.connections = connections)
        .vary("timeout", &raw.timeout.value, report, |w, timeout| w.timeout = timeout)
        .map(Workload::Redis)
}

fn check_data(keys: &Many<u64>, values: &Many<Bytes>, report: &mut Report) {
    for item in keys.items.iter().filter(|item| !limits::KEYS.contains(&item.value)) {
        let (least, most) = (limits::KEYS.start(), limits::KEYS.end());
        report.error(item.span, format!("{} keys: there are {least} to {most}", item.value));
    }
    for item in values.items.iter().filter(|item| !limits::VALUE.contains(&item.value)) {
        let (least, most) = (limits::VALUE.start(), limits::VALUE.end());
        report.error(item.span, format!("{} is no length of a value: {least} to {most}", item.value)).help(
            "the first 16 bytes of a value tell its key, its version and its length: every answer is verified",
        );
    }
}
