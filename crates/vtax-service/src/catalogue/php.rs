//! PHP-FPM behind a web server: a page that is rendered at each request. Every setting and its reason is in docs/services.md.

use vtax_plan::model::WebOptions;

use crate::documents::write_file;
use crate::error::ServiceError;
use crate::identity::Identity;
use crate::packages::{Distribution, Package};
use crate::recipe::{Condition, EntryContext, Recipe};

/// Distributions that have several versions at once have the version in the name, the newest first here.
const PROGRAMS: &[&str] = &[
    "/usr/sbin/php-fpm8.4",
    "/usr/sbin/php-fpm8.3",
    "/usr/sbin/php-fpm8.2",
    "/usr/sbin/php-fpm8.1",
    "/usr/sbin/php-fpm",
    "/usr/bin/php-fpm",
    "/usr/sbin/php-fpm84",
    "/usr/sbin/php-fpm83",
];
/// Where the web server finds it.
const SOCKET: &str = "php.socket";
/// The page, among the documents of the web server.
pub(super) const PAGE: &str = "page.php";
/// Processes for each CPU, each of which answers one request at a time. Debian's own pool has five for any machine.
const CHILDREN: u32 = 4;
/// What it says once its processes are there.
const READY: &str = "ready to handle connections";

pub(super) fn package() -> Package {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => ("php-fpm", "apt-get install --no-install-recommends php-fpm"),
        Distribution::Fedora => ("php-fpm", "dnf install php-fpm php-opcache"),
        Distribution::Suse => ("php8-fpm", "zypper install php8-fpm php8-opcache"),
        Distribution::Arch => ("php-fpm", "pacman -S php-fpm"),
        Distribution::Alpine => ("php83-fpm", "apk add php83-fpm php83-opcache"),
    };
    let package = Package::of("PHP-FPM", PROGRAMS, of);
    let release = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    unit_of(&release).map_or(package, |unit| package.with_unit(unit))
}

/// Releases of Debian and Ubuntu by their names, with the service of the system that PHP-FPM brings along: it is named after a version.
const UNITS: &[(&str, &str)] = &[
    ("bookworm", "php8.2-fpm.service"),
    ("trixie", "php8.4-fpm.service"),
    ("jammy", "php8.1-fpm.service"),
    ("noble", "php8.3-fpm.service"),
];

/// That service by os-release(5); `None` where the release isn't known.
fn unit_of(release: &str) -> Option<&'static str> {
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="))?.trim_matches('"');
    UNITS.iter().find(|(release, _)| *release == name).map(|(_, unit)| *unit)
}

/// The web server's packages, and PHP's where it has any.
pub(super) fn and_php(server: Package, options: &WebOptions) -> Vec<Package> {
    std::iter::once(server).chain(options.php.then(package)).collect()
}

/// The web server, and before it PHP where it has any.
pub(super) fn before(
    context: &EntryContext<'_>,
    options: &WebOptions,
    part: &'static str,
    server: Recipe,
) -> Result<Vec<Recipe>, ServiceError> {
    if !options.php {
        return Ok(vec![server]);
    }
    let page = context.directory.join("documents").join(PAGE);
    write_file(&page, SCRIPT.as_bytes()).map_err(context.file("writing", &page))?;
    let texts = [("php-fpm.conf", pool(context)), ("php.ini", settings(context))];
    for (name, text) in &texts {
        let path = context.directory.join(name);
        write_file(&path, text.as_bytes()).map_err(context.file("writing", &path))?;
    }
    let [pool, settings] = texts.map(|(name, _)| context.path(name));
    let directory = context.path("");
    let command = [package().program, "--nodaemonize", "-p", &directory, "-y", &pool, "-c", &settings]
        .map(str::to_owned);
    // No other settings than these: distributions add some from a folder.
    let env = vec![("PHP_INI_SCAN_DIR".to_owned(), String::new())];
    let ready = Condition::Log(READY.to_owned());
    let php = Recipe { part: Some("php-fpm"), env, ..context.recipe(command.to_vec(), ready) };
    Ok(vec![php, Recipe { part: Some(part), ..server }])
}

/// The socket, as paths of configuration files name it.
pub(super) fn socket(context: &EntryContext<'_>) -> String {
    context.path(SOCKET)
}

fn pool(context: &EntryContext<'_>) -> String {
    let socket = socket(context);
    let user = match &context.identity {
        Identity::DropTo(account) => {
            let (user, group) = (&account.user, &account.group);
            format!("user = {user}\ngroup = {group}\nlisten.owner = {user}\nlisten.group = {group}\n")
        }
        // It runs as the only user that may use its socket.
        Identity::Present | Identity::AppearAs(_) => String::new(),
    };
    let children = context.cpus.saturating_mul(CHILDREN);
    format!(
        "[global]\n\
         error_log = /proc/self/fd/2\n\
         log_level = notice\n\
         daemonize = no\n\
         [www]\n\
         {user}\
         listen = {socket}\n\
         listen.mode = 0600\n\
         listen.backlog = 4096\n\
         pm = static\n\
         pm.max_children = {children}\n"
    )
}

fn settings(context: &EntryContext<'_>) -> String {
    format!(
        "zend_extension = opcache\n\
         opcache.enable = 1\n\
         opcache.lockfile_path = \"{}\"\n\
         display_errors = 0\n",
        context.path("")
    )
}

/// The page: a table of random integers in text, made at each request, as long as the embedded server's with as many rows.
const SCRIPT: &str = r#"<?php
$path = explode('?', $_SERVER['REQUEST_URI'], 2)[0];
if (!preg_match('~^/page/([0-9]{1,20})$~D', $path, $found) || $found[1] > 100000) {
    http_response_code(404);
    exit;
}
$rows = (int) $found[1];
mt_srand($rows);
header('Content-Type: text/html');
echo "<!DOCTYPE html>\n<html><head><title>vtax</title></head><body><table>\n";
for ($row = 0; $row < $rows; $row++) {
    echo '<tr>';
    for ($cell = 0; $cell < 4; $cell++) {
        printf('<td>%08d</td>', mt_rand(0, 99999999));
    }
    echo "</tr>\n";
}
echo "</table></body></html>\n";
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::Account;

    #[test]
    fn its_user_is_named_only_where_there_is_one_to_drop_to() {
        let account = Account { user: "www-data".into(), group: "web".into(), uid: 33, gid: 33 };
        let context = |identity| EntryContext { cpus: 2, identity, ..EntryContext::example() };
        let dropping = pool(&context(Identity::DropTo(account.clone())));
        let user = "[www]\nuser = www-data\ngroup = web\nlisten.owner = www-data\nlisten.group = web\n";
        assert!(dropping.contains(user), "{dropping}");
        assert!(dropping.ends_with("pm = static\npm.max_children = 8\n"), "{dropping}");
        let alone = pool(&context(Identity::AppearAs(account)));
        assert!(alone.contains("[www]\nlisten = /run/x/php.socket\nlisten.mode = 0600\n"), "{alone}");
    }

    #[test]
    fn its_unit_is_named_after_a_version() {
        assert_eq!(unit_of("ID=debian\nVERSION_CODENAME=bookworm\n"), Some("php8.2-fpm.service"));
        assert_eq!(unit_of("VERSION_CODENAME=\"noble\""), Some("php8.3-fpm.service"));
        assert_eq!(unit_of("VERSION_CODENAME=sid\nID=debian"), None);
        assert_eq!(unit_of(""), None);
    }

    #[test]
    fn it_is_there_only_where_it_is_asked_for() {
        let context = EntryContext::example();
        let server = || context.recipe(vec!["server".to_owned()], Condition::Port);
        let alone = before(&context, &WebOptions::on(80), "apache", server()).expect("no file is written");
        assert!(matches!(&alone[..], [one] if one.part.is_none()));
        assert_eq!(and_php(package(), &WebOptions::on(80)).len(), 1);
        assert_eq!(and_php(package(), &WebOptions { php: true, ..WebOptions::on(80) }).len(), 2);
    }
}
