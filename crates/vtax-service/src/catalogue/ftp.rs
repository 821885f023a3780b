//! vtax's own FTP server, a process of its own so that its CPU time is its own too; and what FTP servers have in common.

use std::path::PathBuf;

use vtax_plan::model::FtpServerOptions;

use super::certificate;
pub(super) use super::certificate::{CERTIFICATE, KEY};
use super::entry::Entry;
use crate::error::ServiceError;
use crate::recipe::{Condition, EntryContext, Heard, Recipe};

pub(super) struct Ftp<'a>(pub(super) &'a FtpServerOptions);

impl Entry for Ftp<'_> {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let directory = prepare(context, self.0)?;
        let (listen, directory) = (context.address.to_string(), directory.to_string_lossy());
        let (certificate, key) = (context.path(CERTIFICATE), context.path(KEY));
        let mut arguments = vec!["service", "ftp", "--listen", &listen, "--directory", &directory];
        arguments.extend(["--user", FtpServerOptions::USER, "--password", FtpServerOptions::PASSWORD]);
        arguments.extend(["--certificate", &certificate, "--key", &key]);
        if self.0.implicit {
            arguments.push("--implicit");
        }
        Ok(vec![context.own(&arguments, ready(self.0))])
    }
}

/// Makes the certificate of this start, and the directory that clients see.
pub(super) fn prepare(
    context: &EntryContext<'_>,
    options: &FtpServerOptions,
) -> Result<PathBuf, ServiceError> {
    certificate::write(context)?;
    context.served(options.backend)
}

/// Ready is a server that greets; behind TLS its port must do.
pub(super) fn ready(options: &FtpServerOptions) -> Condition {
    if options.implicit {
        return Condition::Port;
    }
    Condition::Answer { what: "its greeting".to_owned(), ask: Vec::new(), judge }
}

fn judge(answer: &[u8]) -> Heard {
    let text = String::from_utf8_lossy(answer);
    let Some((line, _)) = text.split_once("\r\n") else { return Heard::Incomplete };
    match line.strip_prefix("220 ") {
        Some(greeting) => Heard::Ready(
            Some(greeting.chars().filter(|c| !c.is_control()).take(100).collect())
                .filter(|g: &String| !g.is_empty()),
        ),
        None if line.starts_with("220-") => Heard::Ready(None),
        None => Heard::NotYet(format!("it greeted with `{line}`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_is_judged_whatever_it_is() {
        assert_eq!(judge(b"220 (vsFTPd 3.0.3)\r\n"), Heard::Ready(Some("(vsFTPd 3.0.3)".to_owned())));
        assert_eq!(judge(b"220 (vsFT"), Heard::Incomplete);
        assert_eq!(judge(b"220-x\r\n220 y\r\n"), Heard::Ready(None));
        assert!(matches!(judge(b"421 busy\r\n"), Heard::NotYet(why) if why.contains("421")));
    }
}
