//! `vtax load http`.

use vtax_load::http::{HttpRequests, HttpSession, HttpSpec};
use vtax_load::{ConnectionPool, Control, LoadError, LoadResult, RequestStep};

use super::request_load::RequestSpec;
use super::requests::RequestArgs;
use super::url::Url;
use crate::exit::{Classify, Outcome};

/// HTTP/1.1 GET requests: an open loop with --rate, a closed loop with --connections alone.
#[derive(clap::Args)]
pub(super) struct Args {
    /// What to get: http://HOST[:PORT][/PATH].
    url: Url,
    #[command(flatten)]
    load: RequestArgs,
    /// Close each connection after this many requests; 1: a connection per request.
    #[arg(long)]
    requests_per_connection: Option<u32>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let requests = HttpRequests {
        target: args.url.path.clone(),
        host: args.url.host_field(),
        requests_per_connection: args.requests_per_connection,
    };
    let pool = args.load.pool(args.url.resolve().bad_input()?);
    args.load.run(args.url.to_string(), HttpSpec { pool, requests })
}

impl RequestSpec for HttpSpec {
    const FAMILY: &'static str = "http";
    type Requests = HttpRequests;
    type Session = HttpSession;

    fn pool_mut(&mut self) -> &mut ConnectionPool {
        &mut self.pool
    }

    fn pool(&self) -> &ConnectionPool {
        &self.pool
    }

    fn requests(&self) -> &HttpRequests {
        &self.requests
    }

    fn check(&self) -> Result<(), LoadError> {
        Self::check(self)
    }

    fn open(&self) -> Result<HttpSession, LoadError> {
        HttpSession::open(self)
    }

    fn run(session: &HttpSession, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        session.run_step(step, control)
    }
}
