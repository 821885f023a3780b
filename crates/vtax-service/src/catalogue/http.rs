//! vtax's own HTTP server, a process of its own so that its CPU time is its own too.

use super::entry::Entry;
use crate::error::ServiceError;
use crate::recipe::{Condition, Job, Recipe};

pub(super) struct Http;

impl Entry for Http {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, job: &Job<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let (listen, workers) = (job.address.to_string(), job.workers.to_string());
        let arguments = ["service", "http", "--listen", &listen, "--workers", &workers];
        Ok(vec![job.own(&arguments, Condition::http("/bytes/100"))])
    }
}
