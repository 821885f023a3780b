//! `vtax load`: the load engine alone, against any server.

mod desktop;
mod end;
mod fault;
mod ftp;
mod http;
mod httperf;
mod network;
mod output;
mod profile;
mod redis;
mod request_load;
mod requests;
mod signals;
mod sip;
mod storage;
mod target;
mod tls;
mod url;
mod watch;

use crate::exit::Outcome;

/// Offer a load to any server and measure what comes back.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    protocol: Load,
}

#[derive(clap::Subcommand)]
enum Load {
    Desktop(Box<desktop::Args>),
    Http(Box<http::Args>),
    Redis(Box<redis::Args>),
    Ftp(Box<ftp::Args>),
    Sip(Box<sip::Args>),
    Storage(Box<storage::Args>),
    Tcp(Box<network::TcpArgs>),
    Udp(Box<network::UdpArgs>),
    Rr(Box<network::RrArgs>),
    Ping(Box<network::PingArgs>),
    Voice(Box<network::VoiceArgs>),
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.protocol {
        Load::Desktop(args) => desktop::run(args),
        Load::Http(args) => http::run(args),
        Load::Redis(args) => redis::run(args),
        Load::Ftp(args) => ftp::run(args),
        Load::Sip(args) => sip::run(args),
        Load::Storage(args) => storage::run(args),
        Load::Tcp(args) => network::tcp(args),
        Load::Udp(args) => network::udp(args),
        Load::Rr(args) => network::rr(args),
        Load::Ping(args) => network::ping(args),
        Load::Voice(args) => network::voice(args),
    }
}
