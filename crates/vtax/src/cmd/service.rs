//! `vtax service`: the embedded services.

use std::io::Write;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::Context;
use vtax_service::embedded::{ServerCertificate, desktop, ftp, http, kernel, port_mapper, sip};
use vtax_units::Nanos;

use super::subscribers::SubscriberArgs;
use crate::exit::{Classify, Exit, Outcome};

/// Runs one of the embedded services in the foreground, until it is ended.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    service: Service,
}

#[derive(clap::Subcommand)]
enum Service {
    /// An HTTP/1.1 server: `/bytes/N` is static, `/page/ROWS` is rendered at each request.
    Http {
        /// Address and port to listen on.
        #[arg(long, default_value = "127.0.0.1:8080")]
        listen: SocketAddr,
        /// Worker threads.
        #[arg(long, default_value_t = 1)]
        workers: u32,
        /// Speak TLS, and nothing else, with this certificate in PEM.
        #[arg(long, requires = "key")]
        certificate: Option<PathBuf>,
        /// The certificate's key in PEM.
        #[arg(long, requires = "certificate")]
        key: Option<PathBuf>,
    },
    /// A SIP registrar and proxy, over UDP and TCP.
    Sip(Sip),
    /// The kernel's NFS server, in a virtual machine of vtax's own.
    #[command(hide = true)]
    Nfsd {
        /// What is served.
        description: PathBuf,
    },
    /// A port mapper that keeps nothing, for servers that insist on one.
    #[command(hide = true)]
    PortMapper,
    /// The kernel's iSCSI target, in a virtual machine of vtax's own.
    #[command(hide = true)]
    Lio {
        /// What is served.
        description: PathBuf,
    },
    /// An FTP server of one directory, with TLS where it has a certificate.
    Ftp(Ftp),
    /// What a remote desktop shows: text, a picture and a film on the display of an X server, which answer inputs.
    Desktop {
        /// Number of the display.
        #[arg(long)]
        display: u32,
        /// Seed of what is shown.
        #[arg(long, default_value_t = 1)]
        seed: u64,
    },
}

/// The options of the SIP server.
#[derive(clap::Args)]
struct Sip {
    /// Address and port to listen on: the one address that peers reach it at.
    #[arg(long, default_value = "127.0.0.1:5060")]
    listen: SocketAddr,
    /// Worker threads.
    #[arg(long, default_value_t = 1)]
    workers: u32,
    #[command(flatten)]
    subscribers: SubscriberArgs,
    /// Ask for credentials also where a call or a message begins.
    #[arg(long)]
    authenticate_calls: bool,
    /// How long a nonce is accepted; a client answers it once more instead of being challenged anew.
    #[arg(long, value_name = "TIME", default_value_t = sip::NONCE_LIFE)]
    nonce_life: Nanos,
    /// Connections speak TLS, and nothing else, with this certificate in PEM.
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// The certificate's key in PEM.
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
}

/// The options of the FTP server.
#[derive(clap::Args)]
struct Ftp {
    /// Address and port to listen on.
    #[arg(long, default_value = "127.0.0.1:2121")]
    listen: SocketAddr,
    /// The directory whose files it has.
    #[arg(long, default_value = ".")]
    directory: PathBuf,
    /// Who may log in.
    #[arg(long, default_value = "anonymous")]
    user: String,
    /// With which password.
    #[arg(long, default_value = "vtax@")]
    password: String,
    /// Its certificate in PEM.
    #[arg(long, requires = "key")]
    certificate: Option<PathBuf>,
    /// The certificate's key in PEM.
    #[arg(long, requires = "certificate")]
    key: Option<PathBuf>,
    /// TLS begins with the connection instead of with AUTH.
    #[arg(long, requires = "certificate")]
    implicit: bool,
}

impl Ftp {
    fn server(&self) -> anyhow::Result<ftp::FtpServer> {
        let tls = match (&self.certificate, &self.key) {
            (Some(certificate), Some(key)) => {
                Some(ftp::FtpCertificate::read(certificate, key).context("reading the certificate")?)
            }
            _ => None,
        };
        Ok(ftp::FtpServer {
            address: self.listen,
            directory: self.directory.clone(),
            user: self.user.clone(),
            password: self.password.clone(),
            tls,
            implicit: self.implicit,
        })
    }
}

impl Sip {
    fn options(&self) -> anyhow::Result<sip::Options> {
        Ok(sip::Options {
            listen: self.listen,
            workers: self.workers,
            subscribers: self.subscribers.subscribers(),
            authenticate_calls: self.authenticate_calls,
            nonce_life: self.nonce_life,
            certificate: certificate_of(self.certificate.as_deref(), self.key.as_deref())?,
        })
    }
}

/// A server's certificate, where it has one.
fn certificate_of(
    certificate: Option<&Path>,
    key: Option<&Path>,
) -> anyhow::Result<Option<ServerCertificate>> {
    let files = certificate.zip(key);
    let read = |(certificate, key): (&Path, &Path)| ServerCertificate::read(certificate, key);
    files.map(read).transpose().context("reading the certificate")
}

pub(crate) fn run(args: &Args) -> Outcome {
    // They hold nothing that a signal could leave half-done, so the default end is a clean one.
    let never = AtomicBool::new(false);
    let ready = |scheme| move |address| drop(writeln!(std::io::stdout(), "listening on {scheme}{address}"));
    match &args.service {
        Service::Http { listen, workers, certificate, key } => {
            let certificate = certificate_of(certificate.as_deref(), key.as_deref()).bad_input()?;
            let scheme = if certificate.is_some() { "https://" } else { "http://" };
            http::serve_with(*listen, *workers, certificate.as_ref(), &never, ready(scheme))
                .map_err(anyhow::Error::from)
        }
        Service::Ftp(options) => {
            let server = options.server().bad_input()?;
            ftp::serve(&server, &never, ready("ftp://")).map_err(anyhow::Error::from)
        }
        Service::Desktop { display, seed } => {
            let shown = || drop(writeln!(std::io::stdout(), "the content is on display :{display}"));
            desktop::serve(*display, *seed, shown).map_err(anyhow::Error::from)
        }
        Service::Sip(options) => {
            let options = options.options().bad_input()?;
            sip::serve(&options, &never, ready("sip:")).map_err(anyhow::Error::from)
        }
        Service::Nfsd { description } => {
            kernel::serve_export(description, ready("nfs://")).map_err(anyhow::Error::from)
        }
        Service::PortMapper => port_mapper::serve(Path::new(port_mapper::SOCKET), |path| {
            drop(writeln!(std::io::stdout(), "{}{}", port_mapper::READY, path.display()));
        })
        .map_err(anyhow::Error::from),
        Service::Lio { description } => {
            kernel::serve_target(description, ready("iscsi://")).map_err(anyhow::Error::from)
        }
    }
    .host_cannot()?;
    Ok(Exit::Done)
}
