//! `vtax service`: the embedded services.

use std::io::Write;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;

use vtax_service::embedded::http;

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
}

pub(crate) fn run(args: &Args) -> Outcome {
    let Service::Http { listen, workers } = args.service;
    // It holds nothing that a signal could leave half-done, so the default end is a clean one.
    let never = AtomicBool::new(false);
    let ready = |address| drop(writeln!(std::io::stdout(), "listening on http://{address}"));
    http::serve(listen, workers, &never, ready).map_err(anyhow::Error::from).host_cannot()?;
    Ok(Exit::Done)
}
