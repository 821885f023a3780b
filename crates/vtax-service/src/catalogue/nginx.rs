//! nginx. Every setting and its reason is in docs/services.md.

use vtax_plan::model::{MOST_STREAMS, WebOptions};

use super::certificate::{self, CERTIFICATE, KEY};
use super::entry::Entry;
use super::http::ready;
use super::php;
use crate::documents;
use crate::error::ServiceError;
use crate::identity::Identity;
use crate::packages::{Distribution, Package};
use crate::recipe::{EntryContext, Recipe};

const PROGRAMS: &[&str] = &["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx"];

/// Connections of each worker, those to PHP included. `vtax check` counts on it (family/http/estimate.rs of vtax-plan).
const CONNECTIONS: u32 = 16_384;

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

pub(super) struct Nginx<'a>(pub(super) &'a WebOptions);

impl Entry for Nginx<'_> {
    fn packages(&self) -> Vec<Package> {
        php::and_php(package(), self.0)
    }

    fn drops_privileges(&self) -> bool {
        true
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        prepare(context, self.0).and_then(|recipe| php::before(context, self.0, "nginx", recipe))
    }
}

/// Writes documents and configuration.
fn prepare(context: &EntryContext<'_>, options: &WebOptions) -> Result<Recipe, ServiceError> {
    let root = context.directory.join("documents");
    documents::write(&root).map_err(context.file("writing documents below", &root))?;
    let path = context.directory.join("nginx.conf");
    if options.tls {
        certificate::write(context)?;
    }
    documents::write_file(&path, configuration(context, options).as_bytes())
        .map_err(context.file("writing", &path))?;
    let command = [
        package().program,
        "-p",
        &context.path(""),
        // Else it opens the log it was compiled with, outside the private directory.
        "-e",
        "stderr",
        "-c",
        &context.path("nginx.conf"),
    ];
    Ok(context.recipe(command.map(str::to_owned).to_vec(), ready(options, "/100b")))
}

fn configuration(context: &EntryContext<'_>, options: &WebOptions) -> String {
    let user = match &context.identity {
        Identity::DropTo(account) => format!("user {} {};\n", account.user, account.group),
        Identity::Present | Identity::AppearAs(_) => String::new(),
    };
    let (workers, listen) = (context.workers, context.address);
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|name| format!("  {name}_temp_path \"{}\";\n", context.path(&format!("temporary-{name}"))))
        .collect();
    let (root, pid) = (context.path("documents"), context.path("nginx.pid"));
    let (ssl, tls) = if options.tls { (" ssl", tls(context)) } else { ("", String::new()) };
    let php = if options.php { php(context) } else { String::new() };
    // Newer ones would rather have a directive, which older ones don't know; all take the word.
    let (http2, streams) = if options.http2 {
        (" http2", format!("    http2_max_concurrent_streams {MOST_STREAMS};\n"))
    } else {
        ("", String::new())
    };
    format!(
        "daemon off;\n\
         {user}\
         worker_processes {workers};\n\
         pid \"{pid}\";\n\
         error_log stderr warn;\n\
         events {{\n  worker_connections {CONNECTIONS};\n}}\n\
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
         \x20   listen {listen}{ssl}{http2} backlog=4096;\n\
         {streams}\
         {tls}\
         \x20   root \"{root}\";\n\
         {php}\
         \x20 }}\n\
         }}\n"
    )
}

/// What PHP is told of a request: what CGI asks for (RFC 3875).
const TOLD: &[(&str, &str)] = &[
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("SERVER_SOFTWARE", "nginx"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
    ("REMOTE_ADDR", "$remote_addr"),
    ("REMOTE_PORT", "$remote_port"),
    ("REQUEST_METHOD", "$request_method"),
    ("REQUEST_URI", "$request_uri"),
    ("SCRIPT_NAME", "$uri"),
    ("QUERY_STRING", "$query_string"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
];

/// Pages are PHP's, and nothing else is; its source is shown to nobody. Bodies may be as long as a workload's are: nginx by itself refuses
/// those of more than 1 MiB, Apache doesn't.
fn php(context: &EntryContext<'_>) -> String {
    let (page, root, socket) = (php::PAGE, context.path("documents"), php::socket(context));
    let told: String =
        TOLD.iter().map(|(name, value)| format!("      fastcgi_param {name} {value};\n")).collect();
    format!(
        "    location = /{page} {{ return 404; }}\n\
         \x20   location ~ \"^/page/[0-9]+$\" {{\n\
         \x20     client_max_body_size 0;\n\
         \x20     fastcgi_pass \"unix:{socket}\";\n\
         \x20     fastcgi_param SCRIPT_FILENAME \"{root}/{page}\";\n\
         {told}\
         \x20   }}\n"
    )
}

/// Sessions are resumed by tickets, and by the cache where a client of TLS 1.2 has none.
fn tls(context: &EntryContext<'_>) -> String {
    let (certificate, key) = (context.path(CERTIFICATE), context.path(KEY));
    format!(
        "    ssl_certificate \"{certificate}\";\n\
         \x20   ssl_certificate_key \"{key}\";\n\
         \x20   ssl_protocols TLSv1.2 TLSv1.3;\n\
         \x20   ssl_session_cache shared:vtax:10m;\n\
         \x20   ssl_session_timeout 5m;\n\
         \x20   ssl_session_tickets on;\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Account;

    #[test]
    fn each_worker_has_the_connections_that_check_counts_on() {
        let text = configuration(&EntryContext::example(), &WebOptions::on(80));
        assert!(text.contains("events {\n  worker_connections 16384;\n}\n"), "{text}");
    }

    #[test]
    fn tls_is_there_only_where_it_is_asked_for() {
        let text = |tls| configuration(&EntryContext::example(), &WebOptions { tls, ..WebOptions::on(443) });
        assert!(text(false).contains("    listen 127.0.0.1:80 backlog=4096;\n    root "), "{}", text(false));
        assert!(
            text(true).contains("    listen 127.0.0.1:80 ssl backlog=4096;\n    ssl_certificate "),
            "{}",
            text(true)
        );
    }

    #[test]
    fn http2_is_there_only_where_it_is_asked_for() {
        let web = |http2| WebOptions { http2, ..WebOptions::on(80) };
        let text = |http2| configuration(&EntryContext::example(), &web(http2));
        assert!(!text(false).contains("http2"), "{}", text(false));
        let told = "    listen 127.0.0.1:80 http2 backlog=4096;\n    http2_max_concurrent_streams 1000;\n";
        assert!(text(true).contains(told), "{}", text(true));
    }

    #[test]
    fn the_user_is_named_only_where_there_is_one_to_drop_to() {
        let account = Account { user: "www-data".into(), group: "www-data".into(), uid: 33, gid: 33 };
        let web = WebOptions::on(80);
        let text = |identity| {
            configuration(
                &EntryContext { service: "nginx", workers: 3, identity, ..EntryContext::example() },
                &web,
            )
        };
        let dropping = text(Identity::DropTo(account.clone()));
        assert!(dropping.contains("user www-data www-data;\nworker_processes 3;\n"), "{dropping}");
        assert!(dropping.contains("  root \"/run/x/documents\";\n"), "{dropping}");
        assert!(!text(Identity::AppearAs(account)).contains("user "));
    }

    #[test]
    fn php_has_the_pages_and_nothing_else() {
        let text = |php| configuration(&EntryContext::example(), &WebOptions { php, ..WebOptions::on(80) });
        assert!(!text(false).contains("page"), "{}", text(false));
        let text = text(true);
        for line in [
            "    location ~ \"^/page/[0-9]+$\" {",
            "      client_max_body_size 0;",
            "      fastcgi_pass \"unix:/run/x/php.socket\";",
            "      fastcgi_param SCRIPT_FILENAME \"/run/x/documents/page.php\";",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} is missing in\n{text}");
        }
    }
}
