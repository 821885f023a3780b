//! nginx. Every setting and its reason is in docs/services.md.

use crate::catalogue::{Condition, Job, Recipe};
use crate::documents;
use crate::error::ServiceError;
use crate::identity::Identity;
use crate::packages;

/// Writes documents and configuration.
pub(crate) fn prepare(job: &Job<'_>) -> Result<Recipe, ServiceError> {
    let root = job.directory.join("documents");
    documents::write(&root).map_err(job.file("writing documents below", &root))?;
    let path = job.directory.join("nginx.conf");
    documents::write_file(&path, configuration(job).as_bytes()).map_err(job.file("writing", &path))?;
    let command = [
        packages::nginx().program,
        "-p",
        &job.path(""),
        // Else it opens the log it was compiled with, outside the private directory.
        "-e",
        "stderr",
        "-c",
        &job.path("nginx.conf"),
    ];
    Ok(Recipe {
        part: None,
        datagrams: false,
        command: command.map(str::to_owned).to_vec(),
        env: Vec::new(),
        address: job.address,
        ready: Condition::Http("/100b"),
        identity: job.identity.clone(),
    })
}

fn configuration(job: &Job<'_>) -> String {
    let user = match &job.identity {
        Identity::DropTo(account) => format!("user {} {};\n", account.user, account.group),
        Identity::Present | Identity::AppearAs(_) => String::new(),
    };
    let (workers, listen) = (job.workers, job.address);
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("  {name}_temp_path \"{}\";\n", job.path(&format!("temporary-{name}"))))
        .collect();
    let (root, pid) = (job.path("documents"), job.path("nginx.pid"));
    format!(
        "daemon off;\n\
         {user}\
         worker_processes {workers};\n\
         pid \"{pid}\";\n\
         error_log stderr warn;\n\
         events {{\n  worker_connections 16384;\n}}\n\
         http {{\n\
         {temporary}\
         \x20 access_log off;\n\
         \x20 sendfile on;\n\
         \x20 tcp_nopush on;\n\
         \x20 tcp_nodelay on;\n\
         \x20 keepalive_timeout 300s;\n\
         \x20 keepalive_requests 1000000000;\n\
         \x20 default_type application/octet-stream;\n\
         \x20 types {{ text/html html; }}\n\
         \x20 server {{\n\
         \x20   listen {listen} backlog=4096;\n\
         \x20   root \"{root}\";\n\
         \x20 }}\n\
         }}\n"
    )
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::identity::Account;

    #[test]
    fn the_user_is_named_only_where_there_is_one_to_drop_to() {
        let account = Account { user: "www-data".into(), group: "www-data".into(), uid: 33, gid: 33 };
        let text = |identity| {
            let address = "127.0.0.1:80".parse().expect("an address");
            configuration(&Job {
                service: "nginx",
                directory: Path::new("/run/x"),
                address,
                workers: 3,
                identity,
            })
        };
        let dropping = text(Identity::DropTo(account.clone()));
        assert!(dropping.contains("user www-data www-data;\nworker_processes 3;\n"), "{dropping}");
        assert!(dropping.contains("  root \"/run/x/documents\";\n"), "{dropping}");
        assert!(!text(Identity::AppearAs(account)).contains("user "));
    }
}
