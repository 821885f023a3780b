//! vtax's own SIP registrar and proxy, a process of its own so that its CPU time is its own too.

use vtax_plan::model::SipOptions;

use super::certificate::{self, CERTIFICATE, KEY};
use super::entry::Entry;
use crate::documents::write_secret;
use crate::error::ServiceError;
use crate::recipe::{Condition, EntryContext, Recipe};

pub(super) struct Sip<'a>(pub(super) &'a SipOptions);

impl Entry for Sip<'_> {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let subscribers = context.subscribers()?;
        // Not on the command line, where everyone on the host sees it, nor in a file that everyone may read.
        let password = context.directory.join("password");
        write_secret(&password, format!("{}\n", subscribers.password).as_bytes())
            .map_err(context.file("writing", &password))?;
        let (listen, workers) = (context.address.to_string(), context.workers.to_string());
        let arguments = ["service", "sip", "--listen", &listen, "--workers", &workers];
        let secure =
            ["--certificate".to_owned(), context.path(CERTIFICATE), "--key".to_owned(), context.path(KEY)];
        // Written once both transports are open.
        let mut recipe = context.own(&arguments, Condition::Log("listening on sip:".to_owned()));
        recipe.datagrams = true;
        if self.0.tls {
            certificate::write(context)?;
            recipe.command.extend(secure);
        }
        // In one word each: a format may begin with a dash.
        recipe.command.extend([
            format!("--subscribers={}", subscribers.count),
            format!("--public-format={}", subscribers.public),
            format!("--private-format={}", subscribers.private),
            format!("--password-file={}", password.display()),
            format!("--realm={}", subscribers.realm),
            format!("--domain={}", subscribers.domain),
        ]);
        Ok(vec![recipe])
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use vtax_plan::model::Subscribers;

    use super::*;

    #[test]
    fn the_subscribers_password_is_for_the_service_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let subscribers = Subscribers {
            count: 1,
            public: "subs%06d".into(),
            private: "subs%06d".into(),
            password: "abcdefgh".into(),
            realm: "test".into(),
            domain: "test".into(),
        };
        let subscribers = Some(&subscribers);
        let context = EntryContext { directory: directory.path(), subscribers, ..EntryContext::example() };
        let options = SipOptions { port: 5060, workers: None, tls: false };
        let recipes = Sip(&options).recipes(&context).expect("its files are written");
        assert!(recipes[0].command.iter().all(|word| !word.contains("abcdefgh")), "{:?}", recipes[0].command);
        let file = std::fs::metadata(directory.path().join("password")).expect("a file");
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
    }
}
