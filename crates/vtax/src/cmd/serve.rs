//! `vtax serve`: a page to watch, browse, compare and start runs.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use vtax_serve::{LinkPage, Options, Server, StartOptions, TlsFiles, Token};
use vtax_sys::sched::allowed_cpus;
use vtax_units::CpuSet;
use vtax_vm::Cache;

use crate::cmd::check;
use crate::exit::{Classify, Exit, Failure, Outcome};
use crate::out;

/// The file with the link is there for so long: a browser that isn't open yet may take a while to start.
const BROWSER_STARTS_WITHIN: Duration = Duration::from_secs(120);

/// Where runs are, unless another directory is named.
const RUNS: &str = "runs";
/// Where plans are, unless another directory is named.
const PLANS: &str = "plans";
/// What is said where there is no such directory, and none was named.
const NO_RUNS: &str =
    "there are no runs here: `vtax run PLAN` makes one; or name the directory that has them";
const NO_PLANS: &str = "there is no directory `plans` here: name the one that has them, as in --plans DIR";

/// Serve a page to watch runs in progress, to browse stored ones, to compare and to follow a figure over many (docs/serve.md).
///
/// It listens on this host alone, and every request needs the token in the link that is printed.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The directory whose runs are shown, with those below it.
    #[arg(default_value = RUNS)]
    directory: PathBuf,
    /// Where to listen. Elsewhere than on loopback it needs --tls-cert and --tls-key, or --plain-text.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8093")]
    listen: SocketAddr,
    /// A name by which this server may be asked, besides its address. May be repeated.
    #[arg(long = "name", value_name = "HOST")]
    names: Vec<String>,
    /// Certificate in PEM, followed by those that vouch for it.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key in PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Serve without TLS where others can read what is sent, the token too.
    #[arg(long, conflicts_with = "tls_cert")]
    plain_text: bool,
    /// Keep the token in this file; it is made where it isn't there.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let the page start and stop runs: who has the token may then run commands as you.
    #[arg(long)]
    allow_run: bool,
    /// The directory whose plans may be run.
    #[arg(long, value_name = "DIR", default_value = PLANS, requires = "allow_run")]
    plans: PathBuf,
    /// Open the link in the usual browser.
    #[arg(long)]
    open: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    args.check_usual_places()?;
    let token = match &args.token_file {
        Some(path) => Token::kept(path),
        None => Token::draw(),
    };
    let tls = args.tls_cert.clone().zip(args.tls_key.clone());
    let options = Options {
        root: args.directory.clone(),
        listen: args.listen,
        names: args.names.clone(),
        token: token?,
        tls: tls.map(|(certificate, key)| TlsFiles { certificate, key }),
        plain_text: args.plain_text,
        start: args.allow_run.then(|| args.start()).transpose()?,
        cpus: away_from_services(),
        cache: Cache::of_user().dir().to_owned(),
    };
    let server = Server::bind(options)?;
    let link = server.link();
    out::text(&format!("{link}\n"))?;
    if args.open {
        open(&link);
    }
    server.run()?;
    Ok(Exit::Done)
}

impl Args {
    /// Tells the way out where the directories aren't there that are meant unless others are named: most often the command was
    /// started elsewhere, or before there was a run.
    fn check_usual_places(&self) -> Result<(), Failure> {
        let lacks = |directory: &Path, usual: &str| directory == Path::new(usual) && !directory.exists();
        if lacks(&self.directory, RUNS) {
            return Err(anyhow::anyhow!(NO_RUNS)).bad_input();
        }
        if self.allow_run && lacks(&self.plans, PLANS) {
            return Err(anyhow::anyhow!(NO_PLANS)).bad_input();
        }
        Ok(())
    }

    fn start(&self) -> Result<StartOptions, Failure> {
        let program = std::env::current_exe().context("find vtax itself").host_cannot()?;
        Ok(StartOptions { plans: self.plans.clone(), program, check: check::text_of })
    }
}

/// The first CPU: where there are two or more it belongs to load generators, never to services.
fn away_from_services() -> Option<CpuSet> {
    allowed_cpus().ok().map(|cpus| CpuSet::of(cpus.iter().take(1)))
}

/// Asks the desktop to open a page that leads to the link, which has no place in a command line: every user may read those. Where
/// there is no desktop, or no place for the page, the link was printed.
fn open(link: &str) {
    let Ok(page) = LinkPage::write(Cache::of_user().dir(), link) else { return };
    let mut command = Command::new("xdg-open");
    command.arg(page.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _ = command.spawn();
    page.remove_after(BROWSER_STARTS_WITHIN);
}
