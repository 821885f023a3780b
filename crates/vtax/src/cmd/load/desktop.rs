//! `vtax load desktop`.

use std::fmt::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use vtax_load::desktop::{DesktopFigures, DesktopSession, DesktopSpec, Keep};
use vtax_load::{ConnectionPool, Control, LoadError, LoadResult, RequestStep};
use vtax_plan::model::{DesktopEncoding, DesktopPace, DesktopScript, DesktopSecurity, DesktopUsers};
use vtax_sys::sync::lock;
use vtax_units::{Nanos, Rate, counted};

use super::output::millis;
use super::request_load::RequestSpec;
use super::requests::RequestArgs;
use super::target;
use crate::cmd::files::write_output;
use crate::exit::{Classify, Outcome};

/// Port of the first desktop (RFC 6143).
const PORT: u16 = 5900;

/// Users of remote desktops (RFB) who type, scroll, drag and watch: a request is an action, its answer the marker on the screen. On each
/// desktop `vtax service desktop` must run. An open loop with --rate, a closed loop with --connections alone.
// Its connections are desktops, of which one is enough.
#[derive(clap::Args)]
#[command(mut_arg("connections", |arg| arg.help("Desktops there are, at ports that follow each other [default: 1]")))]
pub(super) struct Args {
    /// HOST[:PORT] of the first desktop [default port: 5900]; those of other users are at the ports after it.
    server: String,
    #[command(flatten)]
    load: RequestArgs,
    /// What users do.
    #[arg(long, value_enum, default_value_t = Actions::Mix)]
    actions: Actions,
    /// With --rate: how many actions a second one user makes. As many users take part as --rate needs, at most --connections.
    #[arg(long, default_value = "4/s")]
    user_rate: Rate,
    /// How long a user waits after an answer, without --rate.
    #[arg(long, default_value = "0s")]
    think: Nanos,
    /// How long a user stays connected until another one comes instead; 0s: to the end.
    #[arg(long, default_value = "0s")]
    stay: Nanos,
    /// An action waits for the answer to the last, so that no answers are merged.
    #[arg(long)]
    slow_motion: bool,
    /// How pixels are sent.
    #[arg(long, value_enum, default_value_t = Encoding::Tight)]
    encoding: Encoding,
    /// Don't ask for copies of moved pixels.
    #[arg(long)]
    no_copies: bool,
    /// Ask for each update.
    #[arg(long)]
    no_continuous: bool,
    /// File whose first line is the password, for VNC authentication.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// The server's security is TLS with a certificate (VeNCrypt X509), any certificate.
    #[arg(long, conflicts_with = "tunnel")]
    x509: bool,
    /// A program in front of the server speaks TLS, such as stunnel.
    #[arg(long)]
    tunnel: bool,
    /// Write the first desktop's picture at the end to this PNG file.
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Actions {
    Type,
    Scroll,
    Drag,
    Film,
    Mix,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Encoding {
    Raw,
    Rre,
    Hextile,
    Zrle,
    Tight,
}

impl Args {
    fn users(&self) -> DesktopUsers {
        let script = match self.actions {
            Actions::Type => DesktopScript::Type,
            Actions::Scroll => DesktopScript::Scroll,
            Actions::Drag => DesktopScript::Drag,
            Actions::Film => DesktopScript::Film,
            Actions::Mix => DesktopScript::Mix,
        };
        DesktopUsers {
            actions: script.actions(),
            rate: self.user_rate,
            think: self.think,
            stay: self.stay,
            pace: if self.slow_motion { DesktopPace::SlowMotion } else { DesktopPace::RealTime },
            encoding: match self.encoding {
                Encoding::Raw => DesktopEncoding::Raw,
                Encoding::Rre => DesktopEncoding::Rre,
                Encoding::Hextile => DesktopEncoding::Hextile,
                Encoding::Zrle => DesktopEncoding::Zrle,
                Encoding::Tight => DesktopEncoding::Tight,
            },
            copies: !self.no_copies,
            continuous: !self.no_continuous,
        }
    }

    fn spec(&self, first: SocketAddr, password: Option<String>) -> DesktopLoad {
        let mut pool = self.load.pool(first);
        pool.connections = self.load.connections.unwrap_or(1);
        let security = match (self.x509, password.is_some()) {
            (false, false) => DesktopSecurity::None,
            (false, true) => DesktopSecurity::Password,
            (true, false) => DesktopSecurity::X509,
            (true, true) => DesktopSecurity::X509Password,
        };
        let (timeout, cpus) = (pool.timeout, pool.cpus.clone());
        let spec = DesktopSpec {
            first,
            sessions: pool.connections,
            security,
            tunnel: self.tunnel,
            password,
            users: self.users(),
            timeout,
            cpus,
            seed: self.load.seed,
            keep: if self.picture.is_some() { Keep::First } else { Keep::Markers },
        };
        DesktopLoad { pool, spec, picture: Arc::default() }
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let password = args.password_file.as_deref().map(password).transpose().bad_input()?;
    let load = args.spec(target::look_up(&args.server, PORT).bad_input()?, password);
    let picture = Arc::clone(&load.picture);
    let exit = args.load.options().run(format!("rfb://{}", args.server), load)?;
    let picture = lock(&picture).take();
    if let (Some(path), Some(picture)) = (&args.picture, picture) {
        let png = STANDARD.decode(picture).context("the picture").host_cannot()?;
        write_output(path, png)?;
    }
    Ok(exit)
}

fn password(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// What a load of desktops found besides what all loads do.
pub(super) fn put_details(out: &mut String, found: &DesktopFigures) -> fmt::Result {
    writeln!(
        out,
        "users     {}, {} connected, {}x{} pixels",
        found.sessions,
        counted(found.connected, "desktop"),
        found.size.0,
        found.size.1
    )?;
    writeln!(out, "updates   {}, {} answers merged with a later one's", found.updates, found.merged)?;
    let per_pixel = found.bytes as f64 / found.pixels.max(1) as f64;
    writeln!(out, "pixels    {}, {per_pixel:.3} bytes each", found.pixels)?;
    let rects: Vec<String> = found.rects.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if !rects.is_empty() {
        writeln!(out, "sent as   {}", rects.join(", "))?;
    }
    for (kind, latency) in &found.by_kind {
        let [p50, p95] = [0.5, 0.95].map(|quantile| millis(latency.quantile(quantile)));
        writeln!(out, "{:<10}{} actions, p50 {p50}, p95 {p95}", kind.word(), latency.len())?;
    }
    match &found.trouble {
        Some(trouble) => writeln!(out, "trouble   {trouble}"),
        None => Ok(()),
    }
}

/// A load of desktop users, as the loads of requests have it.
#[derive(Clone)]
struct DesktopLoad {
    pool: ConnectionPool,
    spec: DesktopSpec,
    /// What was on the first desktop at the end of the last step, as base64: a file of its own where it is wanted, and no part of the JSON.
    picture: Arc<Mutex<Option<String>>>,
}

/// A session with a place for the picture.
struct Open {
    session: Mutex<DesktopSession>,
    picture: Arc<Mutex<Option<String>>>,
}

impl RequestSpec for DesktopLoad {
    const FAMILY: &'static str = "desktop";
    type Requests = DesktopUsers;
    type Session = Open;

    fn pool_mut(&mut self) -> &mut ConnectionPool {
        &mut self.pool
    }

    fn pool(&self) -> &ConnectionPool {
        &self.pool
    }

    fn requests(&self) -> &DesktopUsers {
        &self.spec.users
    }

    fn check(&self) -> Result<(), LoadError> {
        self.spec.check()
    }

    fn open(&self, _: &Control) -> Result<Open, LoadError> {
        Ok(Open {
            session: Mutex::new(DesktopSession::open(&self.spec)?),
            picture: Arc::clone(&self.picture),
        })
    }

    fn run(session: &Open, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        let mut open = lock(&session.session);
        let mut found = open.run_step(step, control)?;
        *lock(&session.picture) = found.figures.picture.take();
        Ok(found.into_load())
    }
}
