//! HTTP workloads.

pub(crate) mod estimate;
pub(crate) mod model;
pub(crate) mod raw;
pub(crate) mod resolve;
pub(crate) mod script;
pub(crate) mod web;

use vtax_units::{Nanos, counted};

use super::{Misfit, WorkloadModel};
use crate::assumptions::Assumptions;
use crate::model::{EnvironmentKind, HttpWorkload, MeasureKind, Protocol};

impl WorkloadModel for HttpWorkload {
    fn protocol(&self) -> Protocol {
        Protocol::Http
    }

    fn accepts(&self, measure: &MeasureKind) -> Result<(), Misfit> {
        Misfit::unless_of_requests(measure)
    }

    fn measuring(&self, measure: &MeasureKind, host: &Assumptions, environment: &EnvironmentKind) -> Nanos {
        estimate::measuring(measure, host.capacity(environment))
    }

    fn is_of_requests(&self) -> bool {
        true
    }

    fn asked(&self) -> Option<String> {
        let mut text = format!("{}, {}", self.requests(), counted(self.connections, "connection"));
        if let Some(streams) = self.http2_streams {
            text += &format!(" of HTTP/2 with {} each", counted(streams, "stream"));
        }
        if self.tls.is_some() {
            text += ", TLS";
        }
        Some(text)
    }
}

impl HttpWorkload {
    /// The first of its requests, and how many more there are.
    fn requests(&self) -> String {
        let Some(script) = &self.script else { return format!("GET {}", self.target) };
        let mut steps = script.sessions.iter().flat_map(|session| &session.steps);
        let first = steps.next().map(|step| format!("{} {}", step.method, step.target)).unwrap_or_default();
        match steps.count() {
            0 => first,
            more => format!("{first} and {more} more"),
        }
    }
}
