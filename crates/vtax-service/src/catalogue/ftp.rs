//! vtax's own FTP server, a process of its own so that its CPU time is its own too; and what FTP servers have in common.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use vtax_plan::model::FtpServerOptions;

use super::entry::Entry;
use crate::certificate::Certificate;
use crate::documents;
use crate::error::ServiceError;
use crate::recipe::{Condition, Heard, Job, Recipe};

/// The files of a server's certificate and key, in its directory.
pub(super) const CERTIFICATE: &str = "certificate.pem";
pub(super) const KEY: &str = "key.pem";
/// The directory that clients see.
pub(super) const FILES: &str = "files";

pub(super) struct Ftp<'a>(pub(super) &'a FtpServerOptions);

impl Entry for Ftp<'_> {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, job: &Job<'_>) -> Result<Vec<Recipe>, ServiceError> {
        prepare(job)?;
        let (listen, directory) = (job.address.to_string(), job.path(FILES));
        let (certificate, key) = (job.path(CERTIFICATE), job.path(KEY));
        let mut arguments = vec!["service", "ftp", "--listen", &listen, "--directory", &directory];
        arguments.extend(["--user", FtpServerOptions::USER, "--password", FtpServerOptions::PASSWORD]);
        arguments.extend(["--certificate", &certificate, "--key", &key]);
        if self.0.implicit {
            arguments.push("--implicit");
        }
        Ok(vec![job.own(&arguments, ready(self.0))])
    }
}

/// Makes the certificate of this start, and the directory of its files.
pub(super) fn prepare(job: &Job<'_>) -> Result<(), ServiceError> {
    let files = job.directory.join(FILES);
    fs::create_dir(&files).map_err(job.file("making", &files))?;
    let path = job.directory.join(CERTIFICATE);
    let made = Certificate::new(job.address.ip()).map_err(job.file("making a certificate for", &path))?;
    let [certificate, key] = made.pem;
    for (name, text) in [(CERTIFICATE, certificate), (KEY, key)] {
        let path = job.directory.join(name);
        documents::write_file(&path, text.as_bytes()).map_err(job.file("writing", &path))?;
        // Servers refuse a key that others may read.
        fs::set_permissions(&path, Permissions::from_mode(0o600)).map_err(job.file("protecting", &path))?;
    }
    Ok(())
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
