//! MariaDB for a service's subscribers: a server of its own, reached by a UNIX socket only. Every
//! setting and its reason is in docs/services.md.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use vtax_plan::model::{SubscriberFormats, Subscribers};
use vtax_sys::inherit::Inherit;
use vtax_sys::{PidFd, ProcessExit};

use crate::documents::make_directory;
use crate::error::ServiceError;
use crate::identity::Identity;
use crate::packages::{PATH, installed};
use crate::recipe::{Condition, EntryContext, Recipe};

/// Where its program is by distribution.
pub(super) const PROGRAMS: &[&str] =
    &["/usr/sbin/mariadbd", "/usr/libexec/mariadbd", "/usr/bin/mariadbd", "/usr/local/sbin/mariadbd"];

/// The database, and the user who may read and change its rows. They are no secret: no other process
/// reaches the socket.
pub(super) const NAME: &str = "kamailio";
pub(super) const USER: &str = "kamailio";
pub(super) const PASSWORD: &str = "kamailiorw";

/// Where distributions keep MariaDB's system tables.
const SYSTEM_TABLES: &[&str] = &["/usr/share/mysql", "/usr/share/mariadb"];
/// Where they keep Kamailio's.
pub(super) const TABLES: &[&str] = &["/usr/share/kamailio/mysql", "/usr/local/share/kamailio/mysql"];
/// The tables of Kamailio that are used: versions, subscribers, registrations.
const USED_TABLES: &[&str] = &["standard-create.sql", "auth_db-create.sql", "usrloc-create.sql"];
/// Settings in which a database that is being made and one that runs must agree, or for which
/// environments differ by default: a container may refuse `io_uring`, a file system direct I/O.
const SETTINGS: &[&str] =
    &["--innodb-undo-tablespaces=0", "--innodb-use-native-aio=OFF", "--innodb-flush-method=fsync"];
/// Redo log while it is made, the smallest there is: it would be copied at every start.
const SMALL_LOG: &str = "--innodb-log-file-size=4M";
/// Redo log while it runs.
const LOG: &str = "--innodb-log-file-size=32M";
const BUFFER_POOL: &str = "--innodb-buffer-pool-size=128M";
/// How many last lines of a failed program an error shows.
const SHOWN_LINES: usize = 12;
/// Provisioning takes about 15 s per million subscribers; a hundred times that is too long.
const SECONDS_PER_MILLION: u64 = 1500;
const LEAST_SECONDS: u64 = 300;

/// Where its program is, or would be.
fn program() -> &'static str {
    installed(PROGRAMS).unwrap_or(PROGRAMS[0])
}

/// The socket of a service's database.
pub(super) fn socket(context: &EntryContext<'_>) -> PathBuf {
    context.directory.join("database.socket")
}

/// Puts the data in place, from where it was prepared if it was, and says how to start the server.
pub(super) fn prepare(
    context: &EntryContext<'_>,
    subscribers: &Subscribers,
    connections: u32,
) -> Result<Recipe, ServiceError> {
    let data = context.directory.join("database");
    match context.prepared {
        Some(prepared) if !prepared.is_dir() => {
            let (service, path) = (context.service.to_owned(), prepared.to_owned());
            return Err(ServiceError::NotPrepared { service, path });
        }
        Some(prepared) => copy(prepared, &data).map_err(context.file("copying the database to", &data))?,
        None => make(context.service, subscribers, &data)?,
    }
    let socket = socket(context);
    let mut command = server(&data);
    command.extend([
        format!("--socket={}", socket.display()),
        format!("--pid-file={}", context.path("mariadbd.pid")),
        format!("--tmpdir={}", context.path("")),
        format!("--max-connections={connections}"),
        LOG.to_owned(),
        BUFFER_POOL.to_owned(),
        // It is written full at each start, and hardly used.
        "--innodb-temp-data-file-path=ibtmp1:1M:autoextend".to_owned(),
        // For a start that never comes.
        "--innodb-buffer-pool-dump-at-shutdown=OFF".to_owned(),
        // No line for each connection that Kamailio's processes leave open at their end.
        "--log-warnings=1".to_owned(),
        // The default, and what the study's database did: each transaction is on the disk before
        // it is answered for. The disk is memory here.
        "--innodb-flush-log-at-trx-commit=1".to_owned(),
        "--skip-networking".to_owned(),
    ]);
    Ok(Recipe {
        part: Some("mariadbd"),
        command,
        env: Vec::new(),
        address: context.address,
        datagrams: false,
        ready: Condition::Database { socket },
        setup: Vec::new(),
        identity: Identity::Present,
    })
}

/// The server's program with what it needs to find its data.
fn server(data: &Path) -> Vec<String> {
    let mut command =
        vec![program().to_owned(), "--no-defaults".to_owned(), format!("--datadir={}", data.display())];
    if rustix::process::geteuid().is_root() {
        // It refuses to run as root unless told to. In a node root has no special rights, and a user
        // namespace may have no other user.
        command.push("--user=root".to_owned());
    }
    command.extend(SETTINGS.iter().map(|s| (*s).to_owned()));
    command
}

/// Everything a database depends on besides the subscribers, for telling one from another.
pub(super) fn ingredients() -> io::Result<Vec<u8>> {
    let version = Command::new(program()).args(["--no-defaults", "--version"]).output()?;
    let mut all = version.stdout;
    for path in tables()? {
        all.extend_from_slice(&fs::read(path)?);
    }
    Ok(all)
}

/// Makes a database of these subscribers in `data`, which must not exist.
pub(super) fn make(service: &str, subscribers: &Subscribers, data: &Path) -> Result<(), ServiceError> {
    let invalid = |source| ServiceError::Subscribers { service: service.to_owned(), source };
    let formats = subscribers.formats().map_err(invalid)?;
    let file = |operation, path: &Path| {
        let (service, path) = (service.to_owned(), path.to_owned());
        move |source| ServiceError::File { service, operation, path, source }
    };
    make_directory(data).map_err(file("making", data))?;
    // The server does the rest in one go, as its installation does, without a network or a client.
    let system = data.join("mysql");
    make_directory(&system).map_err(file("making", &system))?;
    let rows = data.join(ROWS);
    write_rows(subscribers, &formats, &rows).map_err(file("writing", &rows))?;
    let script = data.join("make.sql");
    write_script(&script).map_err(file("writing", &script))?;
    let log = data.join("make.log");
    let ended = run_script(subscribers, data, &script, &log).map_err(file("making a database in", data))?;
    if ended != ProcessExit::Exited(0) {
        let text = fs::read_to_string(&log).unwrap_or_default();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let lines = lines[lines.len().saturating_sub(SHOWN_LINES)..].to_vec();
        let operation = format!("making a database of {} subscribers", subscribers.count);
        return Err(ServiceError::Database { service: service.to_owned(), operation, status: ended, lines });
    }
    for path in [rows, script, log] {
        fs::remove_file(&path).map_err(file("removing", &path))?;
    }
    Ok(())
}

/// Rows of the table of subscribers, in the data directory: there the server finds it by its name
/// alone, so that no path becomes part of a statement.
const ROWS: &str = "subscribers.tsv";

/// Writes `LOAD DATA`'s own default: tabs between columns. Understood formats give neither tabs nor
/// backslashes.
fn write_rows(subscribers: &Subscribers, formats: &SubscriberFormats, path: &Path) -> io::Result<()> {
    let mut to = BufWriter::new(File::create(path)?);
    let mut row = Vec::with_capacity(256);
    for index in 0..subscribers.count {
        row.clear();
        formats.private.write(index, &mut row);
        row.push(b'\t');
        row.extend_from_slice(subscribers.domain.as_bytes());
        row.push(b'\t');
        formats.password.write(index, &mut row);
        row.push(b'\n');
        to.write_all(&row)?;
    }
    to.flush()
}

/// Kamailio's own tables, and MariaDB's before them.
fn tables() -> io::Result<Vec<PathBuf>> {
    let found = |directories: &[&str], names: &[&str]| {
        let places = directories.iter().flat_map(|d| names.iter().map(move |n| Path::new(d).join(n)));
        let place = places.into_iter().find(|p| p.is_file());
        place.ok_or_else(|| io::Error::other(format!("{} is not below {}", names[0], directories.join(", "))))
    };
    let mut all = vec![
        found(SYSTEM_TABLES, &["mysql_system_tables.sql", "mariadb_system_tables.sql"])?,
        found(SYSTEM_TABLES, &["mysql_system_tables_data.sql", "mariadb_system_tables_data.sql"])?,
    ];
    for name in USED_TABLES {
        all.push(found(TABLES, &[name])?);
    }
    Ok(all)
}

/// Writes what is fed to the server: one statement a line, as it wants them then.
fn write_script(path: &Path) -> io::Result<()> {
    let mut to = BufWriter::new(File::create(path)?);
    writeln!(to, "USE mysql;")?;
    for (index, table) in tables()?.iter().enumerate() {
        if index == 2 {
            // As Kamailio's own tool creates it.
            writeln!(to, "CREATE DATABASE {NAME} CHARACTER SET latin1;\nUSE {NAME};")?;
        }
        to.write_all(&fs::read(table)?)?;
        writeln!(to)?;
    }
    writeln!(
        to,
        // Into an empty table, without checks against itself: sorted and written page by page.
        "SET unique_checks = 0, foreign_key_checks = 0;\n\
         LOAD DATA INFILE './{ROWS}' INTO TABLE {NAME}.subscriber CHARACTER SET latin1 \
         (username, domain, password);\n\
         ANALYZE TABLE {NAME}.subscriber;\n\
         FLUSH PRIVILEGES;\n\
         DELETE FROM mysql.global_priv WHERE User = 'root';\n\
         FLUSH PRIVILEGES;\n\
         CREATE USER {USER}@localhost IDENTIFIED BY '{PASSWORD}';\n\
         GRANT SELECT, INSERT, UPDATE, DELETE ON {NAME}.* TO {USER}@localhost;"
    )?;
    to.flush()
}

/// Feeds a script to a server that ends with it.
fn run_script(subscribers: &Subscribers, data: &Path, script: &Path, log: &Path) -> io::Result<ProcessExit> {
    let server = server(data);
    let mut command = Command::new(&server[0]);
    command.args(&server[1..]);
    command.args(["--bootstrap", "--log-warnings=0", "--enforce-storage-engine=", SMALL_LOG, BUFFER_POOL]);
    // In steps of 64 MiB, the default, what a large transaction needs for a moment would be copied
    // at every start.
    command.arg("--innodb-autoextend-increment=1");
    // Two servers in different PID namespaces would give temporary files the same names.
    command.arg(format!("--tmpdir={}", data.display()));
    command.env_clear().env("PATH", PATH).env("LANG", "C.UTF-8");
    let log = File::create(log)?;
    command.stdin(File::open(script)?).stdout(Stdio::null()).stderr(log);
    let child = Inherit { die_with_thread: true, ..Inherit::default() }.spawn(command)?;
    let process = i32::try_from(child.id()).map_err(io::Error::other).and_then(|pid| {
        // Not reaped yet, so it is still the child's id.
        PidFd::open(pid).map_err(io::Error::other)
    })?;
    let seconds = LEAST_SECONDS.max(u64::from(subscribers.count) * SECONDS_PER_MILLION / 1_000_000);
    if !process.ended_within(std::time::Duration::from_secs(seconds)).map_err(io::Error::other)? {
        process.kill().map_err(io::Error::other)?;
    }
    process.wait().map_err(io::Error::other)
}

/// Copies the files of a database, which is two levels deep.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    make_directory(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target)?;
        }
    }
    Ok(())
}
