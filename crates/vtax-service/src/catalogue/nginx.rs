//! nginx. Every setting and its reason is in docs/services.md.

use super::entry::Entry;
use crate::documents;
use crate::error::ServiceError;
use crate::identity::Identity;
use crate::packages::{Distribution, Package};
use crate::recipe::{Condition, Job, Recipe};

const PROGRAMS: &[&str] = &["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];

fn package() -> Package {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => ("nginx-light", "apt-get install nginx-light"),
        Distribution::Fedora => ("nginx", "dnf install nginx"),
        Distribution::Suse => ("nginx", "zypper install nginx"),
        Distribution::Arch => ("nginx", "pacman -S nginx"),
        Distribution::Alpine => ("nginx", "apk add nginx"),
    };
    Package::of("nginx", PROGRAMS, of).with_unit("nginx.service")
}

pub(super) fn packages() -> Vec<Package> {
    vec![package()]
}

pub(super) struct Nginx;

impl Entry for Nginx {
    fn packages(&self) -> Vec<Package> {
        packages()
    }

    fn drops_privileges(&self) -> bool {
        true
    }

    fn recipes(&self, job: &Job<'_>) -> Result<Vec<Recipe>, ServiceError> {
        prepare(job).map(|recipe| vec![recipe])
    }
}

/// Writes documents and configuration.
fn prepare(job: &Job<'_>) -> Result<Recipe, ServiceError> {
    let root = job.directory.join("documents");
    documents::write(&root).map_err(job.file("writing documents below", &root))?;
    let path = job.directory.join("nginx.conf");
    documents::write_file(&path, configuration(job).as_bytes()).map_err(job.file("writing", &path))?;
    let command = [
        package().program,
        "-p",
        &job.path(""),
        // Else it opens the log it was compiled with, outside the private directory.
        "-e",
        "stderr",
        "-c",
        &job.path("nginx.conf"),
    ];
    Ok(job.recipe(command.map(str::to_owned).to_vec(), Condition::http("/100b")))
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
    use super::*;
    use crate::identity::Account;

    #[test]
    fn the_user_is_named_only_where_there_is_one_to_drop_to() {
        let account = Account { user: "www-data".into(), group: "www-data".into(), uid: 33, gid: 33 };
        let text =
            |identity| configuration(&Job { service: "nginx", workers: 3, identity, ..Job::example() });
        let dropping = text(Identity::DropTo(account.clone()));
        assert!(dropping.contains("user www-data www-data;\nworker_processes 3;\n"), "{dropping}");
        assert!(dropping.contains("  root \"/run/x/documents\";\n"), "{dropping}");
        assert!(!text(Identity::AppearAs(account)).contains("user "));
    }
}
