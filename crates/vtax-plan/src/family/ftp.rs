//! FTP workloads.

pub mod limits;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;

use vtax_units::{Nanos, Rate, counted};

use super::{Misfit, WorkloadModel};
use crate::assumptions::{Assumptions, searching};
use crate::model::{EnvironmentKind, FileSizes, FtpWorkload, MeasureKind, Protocol};

/// A transfer takes about as much of a CPU as this many requests to a small web service: a server of FTP starts a process for each
/// session, and a connection for each transfer.
const TRANSFER: f64 = 10.0;

impl WorkloadModel for FtpWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Ftp
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        Misfit::unless_of_requests(measure)
    }

    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        match measure {
            MeasureKind::Capacity(search) => searching(search, Rate(host.capacity(environment).0 / TRANSFER)),
            other => other.timing().least(),
        }
    }

    fn is_of_requests(&self) -> bool {
        true
    }

    fn asked(&self) -> Option<String> {
        let requests = &self.requests;
        let mix = &requests.mix;
        let verbs = [("RETR", mix.retr), ("STOR", mix.stor), ("LIST", mix.list)];
        let verbs: Vec<_> = verbs.into_iter().filter(|(_, weight)| *weight > 0).collect();
        let verbs = match verbs.as_slice() {
            [(verb, _)] => (*verb).to_owned(),
            all => all.iter().map(|(verb, weight)| format!("{verb} {weight}")).collect::<Vec<_>>().join(", "),
        };
        let size = match requests.size {
            FileSizes::Fixed(size) => size.to_string(),
            FileSizes::Uniform(least, most) => format!("{least} to {most}"),
            FileSizes::LogNormal(median, _) => format!("about {median}"),
        };
        let (files, clients) = (counted(requests.files, "file"), counted(self.clients, "client"));
        let tls = if requests.tls.is_some() { ", TLS" } else { "" };
        Some(format!("{verbs} of {files} of {size}, {clients}{tls}"))
    }

    fn client_addresses(&self) -> Option<u32> {
        (self.addresses > 1).then_some(self.addresses)
    }
}
