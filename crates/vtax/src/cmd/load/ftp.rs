//! `vtax load ftp`.

use std::fmt::{self, Write};
use std::net::IpAddr;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use vtax_load::ftp::{FtpDetails, FtpSession, FtpSpec, PhaseTimes};
use vtax_load::{ConnectionPool, Control, LoadError, LoadResult, Part, RequestStep, Verify};
use vtax_plan::model::{DataMode, FileSizes, FtpArrivals, FtpMix, FtpRequests, FtpTls, FtpTlsMode};
use vtax_units::{Bytes, Nanos};

use super::output::millis;
use super::request_load::RequestSpec;
use super::requests::RequestArgs;
use super::target;
use super::tls::Offer;
use crate::exit::{Classify, Outcome};

/// Ports of FTP, and of FTP within TLS.
const PORT: u16 = 21;
const TLS_PORT: u16 = 990;

/// FTP: clients who log in, move files and leave; every byte that comes is compared. An open loop with --rate, a closed loop with
/// --connections alone, each of which is a session. Overwrites files whose names begin with `vtax-`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// HOST[:PORT] of the server [default port: 21, with --tls implicit 990].
    server: String,
    #[command(flatten)]
    load: RequestArgs,
    #[command(flatten)]
    files: Files,
    #[command(flatten)]
    tls: Tls,
    /// The name that clients log in with.
    #[arg(long, default_value = "anonymous")]
    user: String,
    /// Their password.
    #[arg(long, default_value = "vtax@")]
    password: String,
    /// Transfers of a session [default: it goes on as long as the load].
    #[arg(long)]
    transfers: Option<u32>,
    /// Mean pause between the transfers of a session.
    #[arg(long, default_value = "0s")]
    think: Nanos,
    /// How data connections are made.
    #[arg(long, value_enum, default_value = "epsv")]
    data: Data,
    /// With --rate: sessions with all their transfers arrive, instead of transfers.
    #[arg(long)]
    sessions: bool,
    /// Addresses that clients come from, in turn.
    #[arg(long, value_delimiter = ',')]
    from: Vec<IpAddr>,
}

/// What is moved.
#[derive(clap::Args)]
struct Files {
    /// How often files are fetched, in relation to --stor and --list.
    #[arg(long, default_value_t = 1)]
    retr: u32,
    /// How often files are stored.
    #[arg(long, default_value_t = 0)]
    stor: u32,
    /// How often the directory is listed.
    #[arg(long, default_value_t = 0)]
    list: u32,
    /// Files there are to be fetched.
    #[arg(long, default_value_t = 20)]
    files: u32,
    /// Length of every file; with --large the median.
    #[arg(long, default_value = "100KiB")]
    size: Bytes,
    /// Lengths are log-normal, and 10 % of the files longer than this.
    #[arg(long)]
    large: Option<Bytes>,
    /// Every so many uploads of a client, it fetches and compares what it stored last; 0: never.
    #[arg(long, default_value_t = 16)]
    read_back: u32,
    /// A fetch whose session breaks doesn't fail: the client logs in again and asks for the rest (REST).
    #[arg(long)]
    rest: bool,
    /// Without --rate: the load ends once it has moved so much, if --duration isn't over before.
    #[arg(long)]
    bytes: Option<Bytes>,
}

/// TLS.
#[derive(clap::Args)]
struct Tls {
    /// When TLS begins.
    #[arg(long, value_enum, default_value = "none")]
    tls: Begin,
    /// Protect control connections only (PROT C).
    #[arg(long)]
    clear_data: bool,
    /// Data connections don't resume the session of their control connection.
    #[arg(long)]
    no_resume: bool,
    #[command(flatten)]
    offer: Offer,
}

#[derive(Clone, Copy, ValueEnum)]
enum Data {
    Epsv,
    Pasv,
    Active,
}

#[derive(Clone, Copy, ValueEnum)]
enum Begin {
    /// Never.
    None,
    /// By AUTH TLS.
    Explicit,
    /// With the connection.
    Implicit,
}

impl Tls {
    /// What the server is checked for.
    fn verify(&self, server: &str) -> Result<Verify> {
        ensure!(
            !matches!(self.tls, Begin::None) || !(self.offer.is_said() || self.clear_data || self.no_resume),
            "--tls-version, --cipher, --authority, --clear-data and --no-resume need --tls explicit or implicit"
        );
        self.offer.verify(target::split(server).0)
    }

    /// Where servers listen.
    const fn port(&self) -> u16 {
        match self.tls {
            Begin::None | Begin::Explicit => PORT,
            Begin::Implicit => TLS_PORT,
        }
    }

    fn settings(&self) -> Option<FtpTls> {
        let mode = match self.tls {
            Begin::None => return None,
            Begin::Explicit => FtpTlsMode::Explicit,
            Begin::Implicit => FtpTlsMode::Implicit,
        };
        Some(FtpTls {
            mode,
            protect: !self.clear_data,
            resume: !self.no_resume,
            version: self.offer.version(),
            cipher: self.offer.cipher.clone(),
        })
    }
}

impl Args {
    fn requests(&self) -> FtpRequests {
        let files = &self.files;
        FtpRequests {
            mix: FtpMix { retr: files.retr, stor: files.stor, list: files.list },
            files: files.files,
            size: files
                .large
                .map_or(FileSizes::Fixed(files.size), |large| FileSizes::LogNormal(files.size, large)),
            transfers: self.transfers,
            think: self.think,
            data: match self.data {
                Data::Epsv => DataMode::Epsv,
                Data::Pasv => DataMode::Pasv,
                Data::Active => DataMode::Active,
            },
            tls: self.tls.settings(),
            arrivals_of: if self.sessions { FtpArrivals::Sessions } else { FtpArrivals::Transfers },
            read_back: files.read_back,
            rest: files.rest,
            bytes: files.bytes,
        }
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let verify = args.tls.verify(&args.server).bad_input()?;
    let server = target::look_up(&args.server, args.tls.port()).bad_input()?;
    let spec = FtpSpec {
        pool: args.load.pool(server),
        requests: args.requests(),
        sources: args.from.clone(),
        user: args.user.clone(),
        password: args.password.clone(),
        verify,
        seed: args.load.seed,
        part: Part::default(),
    };
    args.load.options().run(format!("ftp://{}", args.server), spec)
}

/// What a load of FTP found besides what all loads do; phases are means.
pub(super) fn put_details(out: &mut String, found: &FtpDetails, duration: Nanos) -> fmt::Result {
    writeln!(
        out,
        "files     {:.3} MB/s of right ones, {} logins, {} sessions broken, {} continued",
        found.bytes_in_time() as f64 / duration.as_secs_f64() / 1e6,
        found.logins,
        found.broken_sessions,
        found.continued
    )?;
    if let Some(tls) = &found.tls {
        let done = &found.handshakes;
        writeln!(
            out,
            "TLS       {tls}; control {} full, {} resumed; data {} full, {} resumed; {} without close_notify",
            done.control_full,
            done.control_resumed,
            done.data_full,
            done.data_resumed,
            found.without_close_notify
        )?;
    }
    let refusals: Vec<String> = found.refusals.iter().map(|(code, n)| format!("{n} x {code}")).collect();
    if !refusals.is_empty() {
        writeln!(out, "refused   {}", refusals.join(", "))?;
    }
    if let Some(why) = &found.first_failure {
        writeln!(out, "failed    first: {why}")?;
    }
    put_phases(out, "login", &found.login)?;
    for (verb, kind) in found.kinds() {
        put_phases(out, verb, &kind.phases)?;
    }
    Ok(())
}

fn put_phases(out: &mut String, name: &str, phases: &[PhaseTimes]) -> fmt::Result {
    if phases.is_empty() {
        return Ok(());
    }
    let mean = |phase: &PhaseTimes| format!("{} {}", phase.phase.words(), millis(phase.times.mean()));
    let phases: Vec<String> = phases.iter().map(mean).collect();
    writeln!(out, "{name:<10}{}", phases.join(", "))
}

impl RequestSpec for FtpSpec {
    const FAMILY: &'static str = "ftp";
    type Requests = FtpRequests;
    type Session = FtpSession;

    fn pool_mut(&mut self) -> &mut ConnectionPool {
        &mut self.pool
    }

    fn pool(&self) -> &ConnectionPool {
        &self.pool
    }

    fn requests(&self) -> &FtpRequests {
        &self.requests
    }

    fn check(&self) -> Result<(), LoadError> {
        Self::check(self)
    }

    fn opening(&self) -> Option<String> {
        let FtpRequests { mix, files, .. } = &self.requests;
        (mix.retr + mix.list > 0).then(|| format!("storing the {files} files that are fetched"))
    }

    fn open(&self, control: &Control) -> Result<FtpSession, LoadError> {
        FtpSession::open_with(self, control)
    }

    fn run(session: &FtpSession, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        session.run_step(step, control)
    }
}
