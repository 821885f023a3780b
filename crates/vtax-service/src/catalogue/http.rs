//! vtax's own HTTP server, a process of its own so that its CPU time is its own too; and when a web server is ready.

use vtax_plan::model::WebOptions;

use super::certificate::{self, CERTIFICATE, KEY};
use super::entry::Entry;
use crate::error::ServiceError;
use crate::recipe::{Condition, EntryContext, Recipe};

pub(super) struct Http<'a>(pub(super) &'a WebOptions);

impl Entry for Http<'_> {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let (listen, workers) = (context.address.to_string(), context.workers.to_string());
        let (certificate, key) = (context.path(CERTIFICATE), context.path(KEY));
        let mut arguments = vec!["service", "http", "--listen", &listen, "--workers", &workers];
        if self.0.tls {
            certificate::write(context)?;
            arguments.extend(["--certificate", &certificate, "--key", &key]);
        }
        Ok(vec![context.own(&arguments, ready(self.0, "/bytes/100"))])
    }
}

/// Ready is a server that answers, with PHP behind it a page of that; behind TLS, and where it may speak nothing but HTTP/2, its
/// port must do.
pub(super) fn ready(options: &WebOptions, path: &str) -> Condition {
    match options {
        WebOptions { tls: true, .. } | WebOptions { http2: true, .. } => Condition::Port,
        WebOptions { php: true, .. } => Condition::http_of_php("/page/1"),
        _ => Condition::http(path),
    }
}
