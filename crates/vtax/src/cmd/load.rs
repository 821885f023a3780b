//! `vtax load`: the load engine alone, against any server.

mod http;
mod network;
mod output;
mod profile;
mod redis;
mod requests;
mod sip;
mod url;
mod watch;

use vtax_load::LoadError;

use crate::exit::{Exit, Failure, Outcome};

/// Offer a load to any server and measure what comes back.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    protocol: Load,
}

#[derive(clap::Subcommand)]
enum Load {
    Http(Box<http::Args>),
    Redis(Box<redis::Args>),
    Sip(Box<sip::Args>),
    Tcp(Box<network::TcpArgs>),
    Udp(Box<network::UdpArgs>),
    Rr(Box<network::RrArgs>),
    Ping(Box<network::PingArgs>),
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.protocol {
        Load::Http(args) => http::run(args),
        Load::Redis(args) => redis::run(args),
        Load::Sip(args) => sip::run(args),
        Load::Tcp(args) => network::tcp(args),
        Load::Udp(args) => network::udp(args),
        Load::Rr(args) => network::rr(args),
        Load::Ping(args) => network::ping(args),
    }
}

/// Sorts the engine's errors by whose fault they are.
fn failure(error: LoadError) -> Failure {
    let exit = match error {
        LoadError::Spec { .. } => Exit::BadInput,
        LoadError::Cancelled { .. } => Exit::Interrupted,
        LoadError::System { .. } | LoadError::Worker { .. } => Exit::HostCannot,
        LoadError::Panicked { .. } | LoadError::Encode { .. } => Exit::Bug,
    };
    Failure { exit, error: error.into() }
}
