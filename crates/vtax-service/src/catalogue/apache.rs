//! Apache httpd. Every setting and its reason is in docs/services.md.

use std::path::Path;

use vtax_plan::model::{APACHE_THREADS, MOST_STREAMS, Mpm, PREFORK_PROCESSES, WebOptions};

use super::certificate::{self, CERTIFICATE, KEY};
use super::entry::Entry;
use super::http::ready;
use super::php;
use crate::documents;
use crate::error::ServiceError;
use crate::identity::Identity;
use crate::packages::{Distribution, Package};
use crate::recipe::{EntryContext, Recipe};

/// Apache httpd's program by distribution: Debian's name first, it is the one that is tested.
const PROGRAMS: &[&str] = &["/usr/sbin/apache2", "/usr/sbin/httpd", "/usr/bin/httpd"];

/// Where distributions keep modules: Debian, Fedora, Arch, Alpine.
const MODULE_DIRECTORIES: &[&str] = &[
    "/usr/lib/apache2/modules",
    "/usr/lib64/httpd/modules",
    "/usr/lib64/apache2",
    "/usr/lib/httpd/modules",
    "/usr/lib/apache2",
];
/// What is loaded where it isn't compiled in, besides the MPM.
const MODULES: &[&str] = &["unixd", "authz_core", "mime", "dir"];
/// What is loaded, where it isn't compiled in, for TLS and its cache of sessions.
const TLS_MODULES: &[&str] = &["socache_shmcb", "ssl"];
/// What is loaded, where it isn't compiled in, for HTTP/2.
const HTTP2_MODULES: &[&str] = &["http2"];
/// What is loaded, where it isn't compiled in, for PHP.
const PHP_MODULES: &[&str] = &["alias", "proxy", "proxy_fcgi"];
/// Threads of each process of the other MPMs.
///
/// A request that waits for the CPU holds one, and once all are held the event MPM closes idle
/// keep-alive connections, which a client that just sends sees as errors: 64 are too few for 64
/// connections. Idle threads are used in turn, so many of them keep the CPU's caches cold: 1024 cost
/// a third more CPU time per request than 64, 256 cost 5 % more.
const THREADS: u32 = APACHE_THREADS;

fn package() -> Package {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => ("apache2-bin", "apt-get install apache2-bin"),
        Distribution::Fedora => ("httpd", "dnf install httpd"),
        Distribution::Suse => ("apache2", "zypper install apache2"),
        Distribution::Arch => ("apache", "pacman -S apache"),
        Distribution::Alpine => ("apache2", "apk add apache2"),
    };
    Package::of("apache", PROGRAMS, of)
}

pub(super) fn packages() -> Vec<Package> {
    vec![package()]
}

pub(super) struct Apache<'a>(pub(super) &'a WebOptions);

impl Entry for Apache<'_> {
    fn packages(&self) -> Vec<Package> {
        php::and_php(package(), self.0)
    }

    fn drops_privileges(&self) -> bool {
        true
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        prepare(context, self.0).and_then(|recipe| php::before(context, self.0, "apache", recipe))
    }
}

/// Writes documents and configuration.
fn prepare(context: &EntryContext<'_>, options: &WebOptions) -> Result<Recipe, ServiceError> {
    let root = context.directory.join("documents");
    documents::write(&root).map_err(context.file("writing documents below", &root))?;
    let modules = MODULE_DIRECTORIES.iter().map(Path::new).find(|d| d.join("mod_mime.so").is_file());
    let path = context.directory.join("httpd.conf");
    if options.tls {
        certificate::write(context)?;
    }
    documents::write_file(&path, configuration(context, options, modules).as_bytes())
        .map_err(context.file("writing", &path))?;
    let types = context.directory.join("mime.types");
    documents::write_file(&types, b"text/html html\n").map_err(context.file("writing", &types))?;
    let command =
        [package().program, "-d", &context.path(""), "-f", &context.path("httpd.conf"), "-DFOREGROUND"];
    Ok(context.recipe(command.map(str::to_owned).to_vec(), ready(options, "/100b")))
}

fn configuration(context: &EntryContext<'_>, options: &WebOptions, modules: Option<&Path>) -> String {
    let user = match &context.identity {
        Identity::DropTo(account) => format!("User {}\nGroup {}\n", account.user, account.group),
        Identity::Present | Identity::AppearAs(_) => String::new(),
    };
    let (load, listen, mpm) = (load(options, modules), context.address, mpm(context, options));
    let (directory, root) = (context.path(""), context.path("documents"));
    let php = if options.php { php(context) } else { String::new() };
    let tls = if options.tls { tls(context) } else { String::new() };
    let http2 = if options.http2 {
        let protocol = if options.tls { "h2" } else { "h2c" };
        format!("Protocols {protocol} http/1.1\nH2MaxSessionStreams {MOST_STREAMS}\n")
    } else {
        String::new()
    };
    format!(
        "{load}\
         {user}\
         {tls}\
         {http2}\
         ServerName localhost\n\
         DefaultRuntimeDir \"{directory}\"\n\
         PidFile \"{directory}/httpd.pid\"\n\
         Listen {listen}\n\
         ListenBacklog 4096\n\
         ErrorLog /proc/self/fd/2\n\
         LogLevel warn\n\
         {mpm}\
         MaxConnectionsPerChild 0\n\
         KeepAlive On\n\
         KeepAliveTimeout 300\n\
         MaxKeepAliveRequests 0\n\
         EnableSendfile On\n\
         TypesConfig \"{directory}/mime.types\"\n\
         DirectoryIndex index.html\n\
         DocumentRoot \"{root}\"\n\
         <Directory \"{root}\">\n  AllowOverride None\n  Options None\n  Require all granted\n</Directory>\n\
         {php}"
    )
}

/// The modules that aren't compiled in.
fn load(options: &WebOptions, modules: Option<&Path>) -> String {
    let mpm = format!("mpm_{}", options.mpm.word());
    let sets = [
        (MODULES, true),
        (TLS_MODULES, options.tls),
        (HTTP2_MODULES, options.http2),
        (PHP_MODULES, options.php),
    ];
    let names = sets.iter().filter(|(_, used)| *used).flat_map(|(names, _)| names.iter().copied());
    std::iter::once(mpm.as_str())
        .chain(names)
        .filter_map(|name| Some((name, modules?.join(format!("mod_{name}.so")))))
        .filter(|(_, file)| file.is_file())
        .map(|(name, file)| format!("LoadModule {name}_module \"{}\"\n", file.display()))
        .collect()
}

/// The MPM's processes and threads, whose number never changes.
fn mpm(context: &EntryContext<'_>, options: &WebOptions) -> String {
    if options.mpm == Mpm::Prefork {
        let processes = options.workers.unwrap_or(PREFORK_PROCESSES).max(1);
        return format!(
            "StartServers {processes}\n\
             ServerLimit {processes}\n\
             MaxRequestWorkers {processes}\n\
             MinSpareServers 1\n\
             MaxSpareServers {processes}\n"
        );
    }
    let processes = context.workers;
    let all_threads = processes.saturating_mul(THREADS);
    // The worker MPM has a thread for each connection anyway.
    let waiting = if options.mpm == Mpm::Event { "AsyncRequestWorkerFactor 100\n" } else { "" };
    format!(
        "StartServers {processes}\n\
         ServerLimit {processes}\n\
         ThreadLimit {THREADS}\n\
         ThreadsPerChild {THREADS}\n\
         MaxRequestWorkers {all_threads}\n\
         MinSpareThreads 1\n\
         MaxSpareThreads {all_threads}\n\
         {waiting}"
    )
}

/// Pages are PHP's, and nothing else is.
fn php(context: &EntryContext<'_>) -> String {
    let (page, root, socket) = (php::PAGE, context.path("documents"), php::socket(context));
    format!(
        "AliasMatch \"^/page/[0-9]+$\" \"{root}/{page}\"\n\
         <Files \"{page}\">\n  SetHandler \"proxy:unix:{socket}|fcgi://localhost\"\n</Files>\n"
    )
}

/// Sessions are resumed by tickets, and by the cache where a client of TLS 1.2 has none.
fn tls(context: &EntryContext<'_>) -> String {
    let (certificate, key, cache) = (context.path(CERTIFICATE), context.path(KEY), context.path("sessions"));
    format!(
        "SSLEngine on\n\
         SSLProtocol -all +TLSv1.2 +TLSv1.3\n\
         SSLCertificateFile \"{certificate}\"\n\
         SSLCertificateKeyFile \"{key}\"\n\
         SSLSessionCache \"shmcb:{cache}(1048576)\"\n\
         SSLSessionCacheTimeout 300\n\
         SSLSessionTickets on\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Account;

    #[test]
    fn tls_is_there_only_where_it_is_asked_for() {
        let text =
            |tls| configuration(&EntryContext::example(), &WebOptions { tls, ..WebOptions::on(443) }, None);
        assert!(!text(false).contains("SSL"), "{}", text(false));
        assert!(text(true).contains("SSLEngine on\n"), "{}", text(true));
        assert!(text(true).contains("SSLCertificateKeyFile \"/run/x/key.pem\"\n"), "{}", text(true));
    }

    #[test]
    fn http2_is_there_only_where_it_is_asked_for() {
        let web = |tls, http2| WebOptions { tls, http2, ..WebOptions::on(80) };
        let text = |tls, http2| configuration(&EntryContext::example(), &web(tls, http2), None);
        assert!(!text(true, false).contains("Protocols"), "{}", text(true, false));
        assert!(text(false, true).contains("Protocols h2c http/1.1\nH2MaxSessionStreams 1000\n"));
        assert!(text(true, true).contains("Protocols h2 http/1.1\n"));
    }

    #[test]
    fn the_number_of_processes_never_changes() {
        let account = Account { user: "www-data".into(), group: "www-data".into(), uid: 33, gid: 33 };
        let address = "[::1]:8080".parse().expect("an address");
        let context = EntryContext {
            service: "apache",
            address,
            workers: 2,
            identity: Identity::DropTo(account),
            ..EntryContext::example()
        };
        let text = |mpm| configuration(&context, &WebOptions { mpm, ..WebOptions::on(8080) }, None);
        let threads = ["StartServers 2", "ServerLimit 2", "ThreadsPerChild 128", "MaxRequestWorkers 256"];
        let processes =
            ["StartServers 150", "ServerLimit 150", "MaxRequestWorkers 150", "MaxSpareServers 150"];
        for (mpm, lines) in [(Mpm::Event, threads), (Mpm::Worker, threads), (Mpm::Prefork, processes)] {
            let text = text(mpm);
            for line in lines {
                assert!(text.lines().any(|l| l == line), "{line} is missing in\n{text}");
            }
            // Others refuse the directives of one.
            assert_eq!(text.contains("AsyncRequestWorkerFactor"), mpm == Mpm::Event, "{text}");
            assert_eq!(text.contains("Thread"), mpm != Mpm::Prefork, "{text}");
        }
        let text = text(Mpm::Event);
        assert!(text.contains("User www-data\nGroup www-data\n"));
        assert!(text.contains("PidFile \"/run/x/httpd.pid\"\nListen [::1]:8080\n"), "{text}");
    }

    #[test]
    fn php_has_the_pages_and_nothing_else() {
        let text =
            |php| configuration(&EntryContext::example(), &WebOptions { php, ..WebOptions::on(80) }, None);
        assert!(!text(false).contains("page"), "{}", text(false));
        let told = "AliasMatch \"^/page/[0-9]+$\" \"/run/x/documents/page.php\"\n<Files \"page.php\">\n  \
                    SetHandler \"proxy:unix:/run/x/php.socket|fcgi://localhost\"\n</Files>\n";
        assert!(text(true).ends_with(told), "{}", text(true));
    }
}
