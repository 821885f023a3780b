//! `vtax streams`: opens streams to other hosts for a controller, in whose namespaces there is no way there.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use vtax_agent::streams::Streams;
use vtax_hosts::{Outside, is_deserted, say_there_are_none, serve_streams, stream_sockets};
use vtax_plan::model::{PathKind, Plan};

use crate::cmd::on::{OVERHEAD_MINUTES, OnArgs};
use crate::exit::{Classify, Exit, Failure, Outcome};

/// Jobs are given back within this.
const GONE_WITHIN: Duration = Duration::from_secs(40);

/// Opens streams to other hosts for whoever has the other end of standard input. Started by vtax itself, never by hand.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    on: OnArgs,
    /// The most time that a job may take, in minutes.
    #[arg(long, default_value_t = OVERHEAD_MINUTES)]
    minutes: u64,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let socket =
        std::io::stdin().as_fd().try_clone_to_owned().context("the controller's socket").bad_input()?;
    // No host is released: between trials there is nothing on it, and another path's may take long.
    let mut engine = match args.on.engine(args.minutes, &|| is_deserted(&socket)) {
        Ok(engine) => engine,
        Err(error) => {
            say_there_are_none(&socket, &error).context("tell the controller").host_cannot()?;
            return Ok(Exit::HostCannot);
        }
    };
    let served = serve_streams(engine.as_ref(), &socket);
    engine.end()?;
    served.context("serve the controller").host_cannot()?;
    Ok(Exit::Done)
}

/// The process that opens a plan's streams, started before the controller, which is a fork of a process with one thread.
pub(super) struct Opener {
    process: Child,
    streams: Option<Arc<dyn Streams>>,
}

impl Opener {
    /// Starts it where a plan has other hosts, with these arguments, and waits until it has them.
    pub(super) fn for_plan(plan: &Plan, arguments: &[OsString]) -> Result<Option<Self>, Failure> {
        if !plan.cells.iter().any(|cell| matches!(cell.path.kind, PathKind::Nic(_))) {
            return Ok(None);
        }
        let (ours, theirs) = stream_sockets().context("make a socket").host_cannot()?;
        let program = std::env::current_exe().context("find vtax's own program").host_cannot()?;
        let process = Command::new(program)
            .arg("streams")
            .args(arguments)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            // Ctrl-C at the terminal is for this process, which asks for an orderly end.
            .process_group(0)
            .spawn()
            .context("start what opens streams")
            .host_cannot()?;
        let mut opener = Self { process, streams: None };
        opener.streams = Some(Arc::new(Outside::meet(ours)?));
        Ok(Some(opener))
    }

    /// What opens streams, for the lab.
    pub(super) fn streams(&self) -> Option<Arc<dyn Streams>> {
        self.streams.clone()
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        // It ends once nobody has the other end of its socket.
        self.streams = None;
        let until = Instant::now() + GONE_WITHIN;
        while Instant::now() < until && matches!(self.process.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
