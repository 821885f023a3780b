//! `vtax load redis`.

use std::net::SocketAddr;

use vtax_load::redis::{RedisSession, RedisSpec};
use vtax_load::{ConnectionPool, Control, LoadError, LoadResult, Part, RequestStep};
use vtax_plan::model::{KeyAccess, RedisRequests};
use vtax_units::{Bytes, Share};

use super::request_load::RequestSpec;
use super::requests::RequestArgs;
use crate::exit::Outcome;

/// Redis: verified reads and writes of keys; an open loop with --rate, a closed loop with --connections alone.
/// Overwrites the keys `key:000000000000` and those after it.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Address and port of the server.
    server: SocketAddr,
    #[command(flatten)]
    load: RequestArgs,
    /// Keys; each is written once before the load begins.
    #[arg(long, default_value_t = 10_000)]
    keys: u64,
    /// Length of every value.
    #[arg(long, default_value = "100B")]
    value: Bytes,
    /// Share of the requests that read.
    #[arg(long, default_value = "90%")]
    reads: Share,
    /// Ask for some keys much more often than for others, by Zipf's law.
    #[arg(long)]
    zipf: bool,
    /// Requests that one connection may have under way.
    #[arg(long, default_value_t = 1)]
    pipeline: u32,
}

pub(super) fn run(args: &Args) -> Outcome {
    let requests = RedisRequests {
        keys: args.keys,
        value: args.value,
        reads: args.reads,
        access: if args.zipf { KeyAccess::Zipf } else { KeyAccess::Uniform },
        pipeline: args.pipeline,
    };
    let spec = RedisSpec {
        pool: args.load.pool(args.server),
        requests,
        seed: args.load.seed,
        part: Part::default(),
    };
    args.load.options().run(format!("redis://{}", args.server), spec)
}

impl RequestSpec for RedisSpec {
    const FAMILY: &'static str = "redis";
    type Requests = RedisRequests;
    type Session = RedisSession;

    fn pool_mut(&mut self) -> &mut ConnectionPool {
        &mut self.pool
    }

    fn pool(&self) -> &ConnectionPool {
        &self.pool
    }

    fn requests(&self) -> &RedisRequests {
        &self.requests
    }

    fn check(&self) -> Result<(), LoadError> {
        Self::check(self)
    }

    fn open(&self) -> Result<RedisSession, LoadError> {
        RedisSession::open(self)
    }

    fn run(session: &RedisSession, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        session.run_step(step, control)
    }
}
