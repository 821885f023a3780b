//! The families of workloads, each with its instrument. Only this file tells them apart.

mod desktop;
mod ftp;
mod http;
mod network;
mod redis;
mod script;
mod sip;
mod storage;

pub(crate) use storage::directory as storage_directory;
use vtax_plan::model::{ServiceKind, Workload};
use vtax_units::Nanos;

use crate::instrument::Instrument;
use crate::requests::Requests;

/// What measures this workload with this service.
pub(crate) fn instrument<'a>(workload: &'a Workload, service: &'a ServiceKind) -> Box<dyn Instrument + 'a> {
    match workload {
        Workload::Http(http) => Box::new(Requests::new(|ends, _| http::load(http, ends.target))),
        Workload::Sip(sip) => Box::new(sip::Subscribers::new(sip)),
        Workload::Script(calls) => Box::new(
            Requests::new(|ends, seed| script::load(calls, ends.target, ends.sources, seed))
                .of_calls(calls.drain),
        ),
        Workload::Network(network) => Box::new(network::Tests::new(network)),
        Workload::Storage(storage) => Box::new(storage::Tests::new(storage, service)),
        Workload::Redis(redis) => Box::new(Requests::new(|ends, seed| redis::load(redis, ends.target, seed))),
        Workload::Ftp(ftp) => {
            Box::new(Requests::new(|ends, seed| ftp::load(ftp, ends.target, ends.sources, seed)))
        }
        Workload::Desktop(desktop) => {
            Box::new(Requests::new(|ends, seed| desktop::load(desktop, service, ends.target, seed)))
        }
    }
}

/// How long a request of this workload may take; of calls their drain says how long they are waited for.
pub(crate) fn timeout(workload: &Workload) -> Nanos {
    match workload {
        Workload::Http(http) => http.timeout,
        Workload::Redis(redis) => redis.timeout,
        Workload::Ftp(ftp) => ftp.timeout,
        Workload::Desktop(desktop) => desktop.timeout,
        Workload::Sip(_) | Workload::Script(_) | Workload::Network(_) | Workload::Storage(_) => Nanos::ZERO,
    }
}
