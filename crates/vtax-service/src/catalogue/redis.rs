//! Redis. Every setting and its reason is in docs/redis.md.

use vtax_plan::model::{Persistence, RedisOptions};

use super::entry::Entry;
use crate::documents;
use crate::error::ServiceError;
use crate::packages::{Distribution, Package};
use crate::recipe::{Condition, EntryContext, Heard, Recipe};

const PROGRAMS: &[&str] = &["/usr/bin/redis-server", "/usr/sbin/redis-server", "/usr/local/bin/redis-server"];

fn package() -> Package {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => ("redis-server", "apt-get install redis-server"),
        Distribution::Fedora => ("redis", "dnf install redis"),
        Distribution::Suse => ("redis", "zypper install redis"),
        Distribution::Arch => ("redis", "pacman -S redis"),
        Distribution::Alpine => ("redis", "apk add redis"),
    };
    Package::of("redis", PROGRAMS, of).with_unit("redis-server.service")
}

/// By these a client may have a server without a password write files where it likes, load code or take another's data. On a `nic` path
/// it listens on a real network, and no load needs them.
const WITHOUT: [&str; 5] = ["CONFIG", "MODULE", "DEBUG", "REPLICAOF", "SLAVEOF"];

pub(super) fn packages() -> Vec<Package> {
    vec![package()]
}

pub(super) struct Redis<'a>(pub(super) &'a RedisOptions);

impl Entry for Redis<'_> {
    fn packages(&self) -> Vec<Package> {
        packages()
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let path = context.directory.join("redis.conf");
        documents::write_file(&path, configuration(context, self.0).as_bytes())
            .map_err(context.file("writing", &path))?;
        let command = vec![package().program.to_owned(), context.path("redis.conf")];
        let ready = Condition::Answer {
            what: "INFO server".to_owned(),
            ask: b"*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n".to_vec(),
            judge,
        };
        Ok(vec![context.recipe(command, ready)])
    }
}

fn configuration(context: &EntryContext<'_>, options: &RedisOptions) -> String {
    let append = match options.persistence {
        Persistence::None => "appendonly no\n",
        Persistence::EverySecond => "appendonly yes\nappendfsync everysec\n",
        Persistence::EveryWrite => "appendonly yes\nappendfsync always\n",
    };
    let (host, port, threads) = (context.address.ip(), context.address.port(), options.io_threads);
    // Without it they write only. Redis 8 and Valkey always read with them, and ignore the line.
    let reads = if threads > 1 { "io-threads-do-reads yes\n" } else { "" };
    let without: String = WITHOUT.iter().map(|name| format!("rename-command {name} \"\"\n")).collect();
    format!(
        "bind {host}\n\
         port {port}\n\
         protected-mode no\n\
         daemonize no\n\
         supervised no\n\
         dir \"{directory}\"\n\
         logfile \"\"\n\
         loglevel notice\n\
         tcp-backlog 511\n\
         maxclients 65000\n\
         timeout 0\n\
         save \"\"\n\
         {append}\
         {without}\
         io-threads {threads}\n\
         {reads}",
        directory = context.path(""),
    )
}

/// Ready is the text of `INFO server`; while its data is being read in, it answers `-LOADING`.
fn judge(answer: &[u8]) -> Heard {
    let text = String::from_utf8_lossy(answer);
    if let Some(error) = text.strip_prefix('-') {
        return match error.split_once("\r\n") {
            Some((line, _)) => Heard::NotYet(format!("it was answered with `{line}`")),
            None => Heard::Incomplete,
        };
    }
    let version = text.split("\r\n").find_map(|line| line.strip_prefix("redis_version:"));
    // The line's end must have come, or half of a version would pass for one.
    match version {
        Some(version) if text.contains(&format!("redis_version:{version}\r\n")) => Heard::Ready(Some(
            format!("Redis/{version}").chars().filter(|c| !c.is_control()).take(100).collect(),
        )),
        _ => Heard::Incomplete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_judged_whatever_they_are() {
        assert_eq!(
            judge(b"$500\r\n# Server\r\nredis_version:7.0.15\r\nredis_g"),
            Heard::Ready(Some("Redis/7.0.15".into()))
        );
        assert_eq!(judge(b"$500\r\n# Server\r\nredis_version:7.0"), Heard::Incomplete);
        assert_eq!(judge(b""), Heard::Incomplete);
        assert_eq!(judge(b"-LOADING Redis is load"), Heard::Incomplete);
        assert!(
            matches!(judge(b"-LOADING Redis is loading\r\n"), Heard::NotYet(why) if why.contains("LOADING"))
        );
        assert_eq!(judge(&[0xff; 100]), Heard::Incomplete);
    }

    #[test]
    fn persistence_is_what_the_plan_says() {
        let of = |persistence| {
            configuration(&EntryContext::example(), &RedisOptions { port: 80, persistence, io_threads: 2 })
        };
        let none = of(Persistence::None);
        assert!(none.starts_with("bind 127.0.0.1\nport 80\n"), "{none}");
        assert!(none.contains("\nsave \"\"\nappendonly no\n"), "{none}");
        assert!(of(Persistence::EveryWrite).contains("appendfsync always\n"));
    }

    #[test]
    fn threads_read_and_write() {
        let of = |io_threads| {
            let options = RedisOptions { port: 80, persistence: Persistence::None, io_threads };
            configuration(&EntryContext::example(), &options)
        };
        let (one, two) = (of(1), of(2));
        assert!(one.ends_with("\nio-threads 1\n"), "{one}");
        assert!(two.ends_with("\nio-threads 2\nio-threads-do-reads yes\n"), "{two}");
    }

    #[test]
    fn nobody_changes_the_server_by_its_port() {
        let options = RedisOptions { port: 80, persistence: Persistence::None, io_threads: 1 };
        let text = configuration(&EntryContext::example(), &options);
        for name in ["CONFIG", "MODULE", "DEBUG", "REPLICAOF", "SLAVEOF"] {
            assert!(text.contains(&format!("\nrename-command {name} \"\"\n")), "{name}: {text}");
        }
    }
}
