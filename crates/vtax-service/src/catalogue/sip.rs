//! vtax's own SIP registrar and proxy, a process of its own so that its CPU time is its own too.

use super::entry::Entry;
use crate::error::ServiceError;
use crate::recipe::{Condition, Job, Recipe};

pub(super) struct Sip;

impl Entry for Sip {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, job: &Job<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let subscribers = job.subscribers()?;
        let (listen, workers) = (job.address.to_string(), job.workers.to_string());
        let arguments = ["service", "sip", "--listen", &listen, "--workers", &workers];
        // Written once both transports are open.
        let mut recipe = job.own(&arguments, Condition::Log("listening on sip:".to_owned()));
        recipe.datagrams = true;
        // In one word each: a password may begin with a dash.
        recipe.command.extend([
            format!("--subscribers={}", subscribers.count),
            format!("--public-format={}", subscribers.public),
            format!("--private-format={}", subscribers.private),
            format!("--password={}", subscribers.password),
            format!("--realm={}", subscribers.realm),
            format!("--domain={}", subscribers.domain),
        ]);
        Ok(vec![recipe])
    }
}
