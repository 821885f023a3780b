//! vtax's own HTTP server, a process of its own so that its CPU time is its own too.

use vtax_plan::model::WebOptions;

use super::entry::Entry;
use crate::error::ServiceError;
use crate::recipe::{Condition, Job, Recipe};

pub(super) struct Http<'a>(pub(super) &'a WebOptions);

impl Entry for Http<'_> {
    fn is_own(&self) -> bool {
        true
    }

    fn workers(&self) -> Option<u32> {
        self.0.workers
    }

    fn recipes(&self, job: &Job<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let (listen, workers) = (job.address.to_string(), job.workers.to_string());
        let arguments = ["service", "http", "--listen", &listen, "--workers", &workers];
        Ok(vec![job.own(&arguments, Condition::http("/bytes/100"))])
    }
}
