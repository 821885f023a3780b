//! `vtax load redis`.

use vtax_load::redis::{RedisSession, RedisSpec};
use vtax_load::{ConnectionPool, Control, LoadError, LoadResult, Part, RequestStep};
use vtax_plan::model::{KeyAccess, RedisRequests};
use vtax_units::{Bytes, Share};

use super::request_load::RequestSpec;
use super::requests::RequestArgs;
use super::target;
use crate::exit::{Classify, Outcome};

/// Port of Redis.
const PORT: u16 = 6379;

/// Redis: verified reads and writes of keys; an open loop with --rate, a closed loop with --connections alone.
/// Writes the keys `key:000000000000` and those after it.
#[derive(clap::Args)]
pub(super) struct Args {
    /// HOST[:PORT] of the server [default port: 6379].
    server: String,
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
    /// Write also over values that no load of vtax wrote.
    #[arg(long)]
    overwrite: bool,
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
        pool: args.load.pool(target::look_up(&args.server, PORT).bad_input()?),
        requests,
        seed: args.load.seed,
        part: Part::default(),
    };
    let load = RedisLoad { spec, overwrite: args.overwrite };
    args.load.options().run(format!("redis://{}", args.server), load)
}

/// A load of a server that may not be vtax's own.
#[derive(Clone)]
struct RedisLoad {
    spec: RedisSpec,
    /// Values that no load wrote may be lost.
    overwrite: bool,
}

impl RequestSpec for RedisLoad {
    const FAMILY: &'static str = "redis";
    type Requests = RedisRequests;
    type Session = RedisSession;

    fn pool_mut(&mut self) -> &mut ConnectionPool {
        &mut self.spec.pool
    }

    fn pool(&self) -> &ConnectionPool {
        &self.spec.pool
    }

    fn requests(&self) -> &RedisRequests {
        &self.spec.requests
    }

    fn check(&self) -> Result<(), LoadError> {
        self.spec.check()
    }

    fn opening(&self) -> Option<String> {
        Some(format!("writing the first value of {} keys", self.spec.requests.keys))
    }

    fn open(&self, control: &Control) -> Result<RedisSession, LoadError> {
        if !self.overwrite {
            RedisSession::refuse_foreign(&self.spec, control)?;
        }
        RedisSession::open_with(&self.spec, control)
    }

    fn run(session: &RedisSession, step: &RequestStep, control: &Control) -> Result<LoadResult, LoadError> {
        session.run_step(step, control)
    }
}
