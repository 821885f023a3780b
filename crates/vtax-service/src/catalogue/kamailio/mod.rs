//! Kamailio, registrar and proxy, with its subscribers and registrations in MariaDB. Every setting
//! and its reason is in docs/services.md.

mod databases;
mod mariadb;
mod rtpengine;

use std::net::SocketAddr;
use std::path::Path;

use vtax_plan::model::{KamailioOptions, LocationMode, MediaRelay, Subscribers};

use super::certificate::{self, CERTIFICATE, KEY};
use super::entry::Entry;
use crate::documents::write_file;
use crate::error::ServiceError;
use crate::packages::{Distribution, Missing, Package};
use crate::recipe::{Condition, EntryContext, Prepared, Recipe};

/// Processes per transport where the plan doesn't say: Kamailio's own default.
const CHILDREN: u32 = 8;
/// What is loaded, in this order: a module finds those before it.
const MODULES: &[&str] = &[
    "db_mysql",
    "tm",
    "tmx",
    "sl",
    "rr",
    "pv",
    "maxfwd",
    "siputils",
    "textops",
    "usrloc",
    "registrar",
    "auth",
    "auth_db",
];
/// Processes that aren't children, such as timers: each may have a connection to the database.
const OTHER_PROCESSES: u32 = 32;

/// Where its program and its module for MariaDB, which is a package of its own, are by distribution.
const PROGRAMS: &[&str] = &["/usr/sbin/kamailio", "/usr/bin/kamailio", "/usr/local/sbin/kamailio"];
const DATABASE_MODULES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/kamailio/modules/db_mysql.so",
    "/usr/lib/aarch64-linux-gnu/kamailio/modules/db_mysql.so",
    "/usr/lib64/kamailio/modules/db_mysql.so",
    "/usr/lib/kamailio/modules/db_mysql.so",
    "/usr/local/lib64/kamailio/modules/db_mysql.so",
];

/// The module of TLS, a package of its own too.
const TLS_MODULES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/kamailio/modules/tls.so",
    "/usr/lib/aarch64-linux-gnu/kamailio/modules/tls.so",
    "/usr/lib64/kamailio/modules/tls.so",
    "/usr/lib/kamailio/modules/tls.so",
    "/usr/local/lib64/kamailio/modules/tls.so",
];

/// Where its module of TLS is from.
fn tls_package() -> Package {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => {
            ("kamailio-tls-modules", "apt-get install --no-install-recommends kamailio-tls-modules")
        }
        Distribution::Fedora => ("kamailio-tls", "dnf install kamailio-tls"),
        Distribution::Suse => ("kamailio-tls", "zypper install kamailio-tls"),
        Distribution::Arch => ("kamailio", "kamailio from the AUR"),
        Distribution::Alpine => ("kamailio-tls", "apk add kamailio-tls"),
    };
    Package::of("kamailio (TLS module)", TLS_MODULES, of)
}

/// Names of three packages, and the command that installs them all.
const fn names(distribution: Distribution) -> ([&'static str; 3], &'static str) {
    match distribution {
        Distribution::Debian => (
            ["kamailio", "kamailio-mysql-modules", "mariadb-server"],
            "apt-get install --no-install-recommends kamailio kamailio-mysql-modules mariadb-server",
        ),
        Distribution::Fedora => (
            ["kamailio", "kamailio-mysql", "mariadb-server"],
            "dnf install kamailio kamailio-mysql mariadb-server",
        ),
        Distribution::Suse => {
            (["kamailio", "kamailio-mysql", "mariadb"], "zypper install kamailio kamailio-mysql mariadb")
        }
        Distribution::Arch => {
            (["kamailio", "kamailio", "mariadb"], "pacman -S mariadb, and kamailio from the AUR")
        }
        Distribution::Alpine => {
            (["kamailio", "kamailio-mysql", "mariadb"], "apk add kamailio kamailio-mysql mariadb")
        }
    }
}

/// Kamailio, its module for the database, and MariaDB.
fn all_packages() -> [Package; 3] {
    let ([kamailio, module, mariadb], install) = names(Distribution::of_this_host());
    [
        Package::of("kamailio", PROGRAMS, (kamailio, install)).with_unit("kamailio.service"),
        Package::of("kamailio (database module)", DATABASE_MODULES, (module, install)),
        Package::of("kamailio (MariaDB)", mariadb::PROGRAMS, (mariadb, install)).with_unit("mariadb.service"),
    ]
}

pub(super) fn packages() -> Vec<Package> {
    all_packages().into_iter().chain([tls_package()]).chain(rtpengine::package()).collect()
}

pub(super) struct Kamailio<'a>(pub(super) &'a KamailioOptions);

impl Entry for Kamailio<'_> {
    fn packages(&self) -> Vec<Package> {
        let relay = self.0.media_relay.and_then(|MediaRelay::Rtpengine| rtpengine::package());
        let tls = self.0.tls.then(tls_package);
        all_packages().into_iter().chain(tls).chain(relay).collect()
    }

    fn missing(&self) -> Option<Missing> {
        if self.0.media_relay.is_some() && rtpengine::package().is_none() {
            return Some(Missing { program: "rtpengine".to_owned(), package: None, install: None });
        }
        self.packages().into_iter().find(Package::missing).map(Missing::from)
    }

    fn prepare(
        &self,
        service: &str,
        subscribers: Option<&Subscribers>,
        cache: &Path,
    ) -> Result<Option<Prepared>, ServiceError> {
        let name = || service.to_owned();
        if let Some(missing) = self.missing() {
            return Err(ServiceError::NotInstalled { service: name(), missing });
        }
        let subscribers = subscribers.ok_or_else(|| ServiceError::NoSubscribers { service: name() })?;
        subscribers.formats().map_err(|source| ServiceError::Subscribers { service: name(), source })?;
        databases::find_or_make(service, subscribers, cache).map(Some)
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        prepare(context, self.0, context.subscribers()?)
    }
}

/// Writes the configuration, puts the database in place.
fn prepare(
    context: &EntryContext<'_>,
    options: &KamailioOptions,
    subscribers: &Subscribers,
) -> Result<Vec<Recipe>, ServiceError> {
    let invalid = |source| ServiceError::Subscribers { service: context.service.to_owned(), source };
    // Realm and domain become part of the configuration.
    subscribers.formats().map_err(invalid)?;
    let children = options.children.unwrap_or(CHILDREN).max(1);
    let connections = children.saturating_mul(2).saturating_add(OTHER_PROCESSES);
    let database = mariadb::prepare(context, subscribers, connections)?;
    if options.tls {
        certificate::write(context)?;
    }
    let path = context.directory.join("kamailio.cfg");
    let text = configuration(context, options, children, subscribers);
    write_file(&path, text.as_bytes()).map_err(context.file("writing", &path))?;
    let shared_memory = options.shared_memory.0.div_ceil(1 << 20).max(1).to_string();
    let pid_file = context.directory.join("kamailio.pid");
    let directory = context.path("");
    let command = [
        all_packages()[0].program,
        "-f",
        &context.path("kamailio.cfg"),
        // In the foreground, but with all its processes; what it says goes to stderr.
        "-DD",
        "-E",
        "-m",
        &shared_memory,
        // The allocator for production; the default one looks for faults in every block.
        "-x",
        "fm",
        "-X",
        "fm",
        "-w",
        &directory,
        "-Y",
        &directory,
        "-P",
        &context.path("kamailio.pid"),
    ];
    let kamailio = Recipe {
        part: Some("kamailio"),
        // The client library has no other way to be told of a socket by Kamailio.
        env: vec![("MYSQL_UNIX_PORT".to_owned(), mariadb::socket(context).to_string_lossy().into_owned())],
        datagrams: true,
        ..context.recipe(command.map(str::to_owned).to_vec(), Condition::Sip { pid_file })
    };
    let relay = options.media_relay.and_then(|MediaRelay::Rtpengine| rtpengine::package());
    let relay = relay.map(|package| rtpengine::recipe(context, package.program));
    Ok([Some(database), relay, Some(kamailio)].into_iter().flatten().collect())
}

fn configuration(
    context: &EntryContext<'_>,
    options: &KamailioOptions,
    children: u32,
    subscribers: &Subscribers,
) -> String {
    let relays = options.media_relay.is_some();
    let (elsewhere, to_relay, replies) = if relays { RELAYED } else { ("", "", "") };
    // The realm last: it may have any of these words in it.
    let routes = ROUTES
        .replace("ELSEWHERE", elsewhere)
        .replace("TO_RELAY", to_relay)
        .replace("REPLIES", replies)
        .replace("REALM", &literal(&subscribers.realm));
    let relay = relays.then(|| rtpengine::control(context));
    let (listen, domain) = (context.address, &subscribers.domain);
    let (transport, enable) = if options.tls { ("tls", "enable_tls=yes\n") } else { ("tcp", "") };
    format!(
        r#"#!KAMAILIO
debug=0
log_stderror=yes
fork=yes
children={children}
tcp_children={children}
tcp_connection_lifetime=3605
tcp_max_connections=16384
auto_aliases=no
alias="{domain}"
listen=udp:{listen}
listen={transport}:{listen}
{enable}tcp_accept_aliases=yes
dns=no
rev_dns=no
dns_try_ipv6=no
dns_try_naptr=no
use_dns_cache=no
use_dst_blocklist=no

{modules}
{routes}"#,
        modules = modules(context, options, relay)
    )
}

/// The modules with their parameters.
///
/// The table of registrations is empty at each start, so it isn't loaded: the worker that loads it does so while
/// others already register users, and would add what they have just written a second time.
fn modules(context: &EntryContext<'_>, options: &KamailioOptions, relay: Option<SocketAddr>) -> String {
    // Before all that use the same library.
    let tls = if options.tls { tls(context) } else { String::new() };
    let relay = relay.map_or_else(String::new, |control| {
        format!(
            "loadmodule \"rtpengine.so\"\nmodparam(\"rtpengine\", \"rtpengine_sock\", \"udp:{control}\")\n"
        )
    });
    let load: String = MODULES.iter().map(|name| format!("loadmodule \"{name}.so\"\n")).collect();
    let (user, password, name) = (mariadb::USER, mariadb::PASSWORD, mariadb::NAME);
    let database = format!("mysql://{user}:{password}@localhost/{name}");
    let mode = match options.location {
        LocationMode::Memory => 0,
        LocationMode::WriteThrough => 1,
        LocationMode::WriteBack => 2,
    };
    let t1 = options.t1.0.div_ceil(1_000_000);
    let (t2, t4, given_up) = (8 * t1, 10 * t1, 64 * t1);
    format!(
        r#"{tls}{load}
modparam("tm", "retr_timer1", {t1})
modparam("tm", "retr_timer2", {t2})
modparam("tm", "fr_timer", {given_up})
modparam("tm", "wt_timer", {t4})
modparam("auth", "qop", "auth")
modparam("auth", "nonce_expire", 86400)
modparam("auth_db", "db_url", "{database}")
modparam("auth_db", "calculate_ha1", yes)
modparam("auth_db", "password_column", "password")
modparam("auth_db", "load_credentials", "")
modparam("usrloc", "db_url", "{database}")
modparam("usrloc", "db_mode", {mode})
modparam("usrloc", "db_load", 0)
modparam("usrloc", "hash_size", 14)
modparam("registrar", "max_expires", 0)
{relay}"#
    )
}

/// TLS for whoever comes, with a certificate of this start.
fn tls(context: &EntryContext<'_>) -> String {
    let (certificate, key) = (context.path(CERTIFICATE), context.path(KEY));
    format!(
        r#"loadmodule "tls.so"
modparam("tls", "tls_method", "TLSv1.2+")
modparam("tls", "certificate", "{certificate}")
modparam("tls", "private_key", "{key}")
modparam("tls", "verify_certificate", 0)
modparam("tls", "require_certificate", 0)
"#
    )
}

/// What a relay of sound adds: calls to another end on the host that they come from, which the benchmark's generator is for both sides;
/// each description that passes; and what answers.
///
/// A call whose description the relay doesn't take is refused: it would go past the relay, and sound the better for it. One that is
/// refused or isn't answered never has a BYE by which the relay would learn that it is over; a cancelled one had its CANCEL. A call that
/// is up keeps its ports where a later INVITE is refused.
const RELAYED: (&str, &str, &str) = (
    r#"  if (uri != myself && is_method("INVITE") && $rd == $si) {
    record_route();
    route(RELAY);
  }
"#,
    r#"  if (is_method("INVITE")) {
    if (has_body("application/sdp") && !rtpengine_manage()) {
      sl_send_reply("503", "No Relay");
      exit;
    }
    t_on_reply("SOUND");
    if (!has_totag()) t_on_failure("REFUSED");
  }
  if (is_method("ACK|BYE|CANCEL")) rtpengine_manage();
"#,
    r#"
onreply_route[SOUND] {
  if (has_body("application/sdp")) rtpengine_manage();
}

failure_route[REFUSED] {
  if (!t_is_canceled()) rtpengine_delete();
}
"#,
);

/// What is done with a request; `REALM` stands for the realm, `ELSEWHERE`, `TO_RELAY` and `REPLIES` for what a relay of sound adds.
const ROUTES: &str = r#"request_route {
  if (!mf_process_maxfwd_header("70")) {
    sl_send_reply("483", "Too Many Hops");
    exit;
  }
  if (is_method("OPTIONS") && uri == myself) {
    sl_send_reply("200", "OK");
    exit;
  }
  if (is_method("CANCEL")) {
    if (t_check_trans()) route(RELAY);
    exit;
  }
  if (!is_method("ACK")) {
    if (t_precheck_trans()) {
      t_check_trans();
      exit;
    }
    t_check_trans();
  }
  if (has_totag()) {
    if (loose_route()) route(RELAY);
    if (is_method("ACK")) {
      if (t_check_trans()) route(RELAY);
      exit;
    }
    sl_send_reply("404", "Not Here");
    exit;
  }
  if (is_method("ACK")) {
    exit;
  }
  if (is_method("REGISTER")) {
    if (!www_authenticate("REALM", "subscriber")) {
      www_challenge("REALM", "1");
      exit;
    }
    if (!save("location", "0x04")) sl_reply_error();
    exit;
  }
ELSEWHERE  if (uri != myself) {
    sl_send_reply("403", "Relaying Denied");
    exit;
  }
  if (!lookup("location")) {
    t_newtran();
    t_reply("404", "Not Found");
    exit;
  }
  if (is_method("INVITE")) record_route();
  route(RELAY);
}

route[RELAY] {
TO_RELAY  if (!t_relay()) sl_reply_error();
  exit;
}
REPLIES"#;

/// A text for a string in which Kamailio would replace `$name` by a variable's value.
fn literal(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use vtax_units::{Bytes, Nanos};

    use super::*;

    fn text(options: &KamailioOptions, realm: &str) -> String {
        let address = "10.0.0.2:5060".parse().expect("an address");
        let context = EntryContext { service: "kamailio", address, ..EntryContext::example() };
        let subscribers = Subscribers {
            count: 10,
            public: "subs%06d".into(),
            private: "subs%06d".into(),
            password: "abcdefgh".into(),
            realm: realm.into(),
            domain: "open-ims.test".into(),
        };
        configuration(&context, options, 4, &subscribers)
    }

    fn options() -> KamailioOptions {
        KamailioOptions {
            port: 5060,
            children: None,
            shared_memory: Bytes::from_mib(256),
            t1: Nanos::from_millis(100),
            location: LocationMode::WriteThrough,
            media_relay: None,
            tls: false,
        }
    }

    #[test]
    fn a_realm_may_have_the_words_of_the_template() {
        let relayed = KamailioOptions { media_relay: Some(MediaRelay::Rtpengine), ..options() };
        for options in [options(), relayed] {
            let text = text(&options, "REPLIES ELSEWHERE TO_RELAY REALM");
            let line = "    if (!www_authenticate(\"REPLIES ELSEWHERE TO_RELAY REALM\", \"subscriber\")) {";
            assert!(text.lines().any(|l| l == line), "{text}");
        }
    }

    #[test]
    fn options_and_names_are_in_the_configuration() {
        let options = options();
        let text = text(&options, "a$b");
        for line in [
            "children=4",
            "listen=udp:10.0.0.2:5060",
            "listen=tcp:10.0.0.2:5060",
            "alias=\"open-ims.test\"",
            "tcp_accept_aliases=yes",
            "modparam(\"usrloc\", \"db_mode\", 1)",
            "modparam(\"usrloc\", \"db_load\", 0)",
            "modparam(\"tm\", \"fr_timer\", 6400)",
            "modparam(\"tm\", \"wt_timer\", 1000)",
            "    if (!www_authenticate(\"a$$b\", \"subscriber\")) {",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        assert!(
            !text.contains("rtpengine") && !text.contains("ELSEWHERE") && !text.contains("TO_RELAY"),
            "{text}"
        );
        assert!(!text.contains("tls"), "{text}");
        let secure = super::tests::text(&KamailioOptions { tls: true, ..options.clone() }, "r");
        for line in [
            "listen=udp:10.0.0.2:5060",
            "listen=tls:10.0.0.2:5060",
            "enable_tls=yes",
            "loadmodule \"tls.so\"",
            "modparam(\"tls\", \"private_key\", \"/run/x/key.pem\")",
        ] {
            assert!(secure.lines().any(|l| l == line), "{line} is not in\n{secure}");
        }
        let (tls, database) = (secure.find("tls.so"), secure.find("db_mysql.so"));
        assert!(tls < database && !secure.contains("listen=tcp"), "{secure}");
        let options = KamailioOptions { media_relay: Some(MediaRelay::Rtpengine), ..options };
        let text = super::tests::text(&options, "r");
        for line in
            ["modparam(\"rtpengine\", \"rtpengine_sock\", \"udp:127.0.0.1:5063\")", "onreply_route[SOUND] {"]
        {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn no_call_goes_past_the_relay_or_keeps_its_ports() {
        let relayed = KamailioOptions { media_relay: Some(MediaRelay::Rtpengine), ..options() };
        let text = text(&relayed, "r");
        let relay = r#"
route[RELAY] {
  if (is_method("INVITE")) {
    if (has_body("application/sdp") && !rtpengine_manage()) {
      sl_send_reply("503", "No Relay");
      exit;
    }
    t_on_reply("SOUND");
    if (!has_totag()) t_on_failure("REFUSED");
  }
  if (is_method("ACK|BYE|CANCEL")) rtpengine_manage();
  if (!t_relay()) sl_reply_error();
  exit;
}
"#;
        let refused = "\nfailure_route[REFUSED] {\n  if (!t_is_canceled()) rtpengine_delete();\n}\n";
        assert!(text.contains(relay) && text.contains(refused), "{text}");
        for module in ["tm", "sl", "textops", "siputils", "rtpengine"] {
            assert!(text.contains(&format!("loadmodule \"{module}.so\"\n")), "{module}: {text}");
        }
    }
}
