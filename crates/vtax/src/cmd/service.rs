//! `vtax service`: the embedded services.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use vtax_plan::model::Subscribers;
use vtax_service::embedded::{http, sip};

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
    },
    /// A SIP registrar and proxy, over UDP and TCP.
    Sip(Sip),
}

/// The options of the SIP server. In a format `%d` or `%06d` stands for the subscriber's number, from 0.
#[derive(clap::Args)]
struct Sip {
    /// Address and port to listen on: the one address that peers reach it at.
    #[arg(long, default_value = "127.0.0.1:5060")]
    listen: SocketAddr,
    /// Worker threads.
    #[arg(long, default_value_t = 1)]
    workers: u32,
    /// Subscribers it knows.
    #[arg(long, default_value_t = 100_000)]
    subscribers: u32,
    /// Format of the user part of addresses of record.
    #[arg(long, value_name = "FORMAT", default_value = "subs%06d")]
    public_format: String,
    /// Format of the user names of digest authentication; as the public format where not given.
    #[arg(long, value_name = "FORMAT")]
    private_format: Option<String>,
    /// Password, or a format of passwords.
    #[arg(long, value_name = "FORMAT", default_value = "vtax")]
    password: String,
    /// Realm of digest authentication; the domain where not given.
    #[arg(long)]
    realm: Option<String>,
    /// Domain of the addresses of record.
    #[arg(long, default_value = "vtax.test")]
    domain: String,
    /// Ask for credentials also where a call or a message begins.
    #[arg(long)]
    authenticate_calls: bool,
}

impl Sip {
    fn options(&self) -> sip::Options {
        sip::Options {
            listen: self.listen,
            workers: self.workers,
            subscribers: Subscribers {
                count: self.subscribers,
                public: self.public_format.clone(),
                private: self.private_format.as_ref().unwrap_or(&self.public_format).clone(),
                password: self.password.clone(),
                realm: self.realm.as_ref().unwrap_or(&self.domain).clone(),
                domain: self.domain.clone(),
            },
            authenticate_calls: self.authenticate_calls,
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    // They hold nothing that a signal could leave half-done, so the default end is a clean one.
    let never = AtomicBool::new(false);
    let ready = |scheme| move |address| drop(writeln!(std::io::stdout(), "listening on {scheme}{address}"));
    match &args.service {
        Service::Http { listen, workers } => {
            http::serve(*listen, *workers, &never, ready("http://")).map_err(anyhow::Error::from)
        }
        Service::Sip(sip) => sip::serve(&sip.options(), &never, ready("sip:")).map_err(anyhow::Error::from),
    }
    .host_cannot()?;
    Ok(Exit::Done)
}
