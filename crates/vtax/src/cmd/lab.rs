//! `vtax lab`: testbeds to work in by hand.

mod file;
mod socket;
mod up;

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use vtax_topology::event::{ALL, Event};
use vtax_topology::frr::Daemon;
use vtax_topology::graph;
use vtax_units::Nanos;

use crate::cmd::files::write_output;
use crate::exit::{Classify, Exit, Failure, Outcome};
use crate::out;
use socket::{Answer, Ask};

/// Time that a lab has to be down once it is asked: many routers under emulation.
const DOWN_WITHIN: Duration = Duration::from_secs(120);

/// A testbed to work in by hand: a containerlab file's, or that of a cell of a plan.
///
/// It stands as long as `vtax lab up` runs; Ctrl-C there, or `vtax lab down`, takes it down without a trace.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Build it and hold it until it is taken down.
    Up(up::Args),
    /// Run a command in one of its nodes and print what that prints: for at most 30 s, and 1 MiB.
    ///
    /// What runs longer or prints more is ended, and that is said.
    Exec(ExecArgs),
    /// Capture packets at an interface of a node, to look at with tcpdump or Wireshark.
    ///
    /// The first 160 bytes of each packet are kept. A file of 4 MiB is full, and the capture over, which is said.
    Capture(CaptureArgs),
    /// Break something of its topology, or mend it.
    Fault(FaultArgs),
    /// Draw its topology; of a file or a cell that doesn't stand too.
    Graph(GraphArgs),
    /// Take it down, and wait until it is.
    Down(NameArgs),
}

#[derive(clap::Args)]
struct NameArgs {
    /// Which lab, where several stand.
    #[arg(long = "lab", value_name = "NAME", default_value = socket::USUAL)]
    name: String,
}

#[derive(clap::Args)]
struct ExecArgs {
    #[command(flatten)]
    name: NameArgs,
    /// The node: `client`, `sut`, or a router's name.
    node: String,
    /// Program and arguments; no shell is involved.
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

#[derive(clap::Args)]
struct CaptureArgs {
    #[command(flatten)]
    name: NameArgs,
    /// The node.
    node: String,
    /// Its interface: of a router in a plan's topology, the name of the neighbour that it leads to; of client and service as
    /// `vtax lab exec client -- ip link` tells.
    interface: String,
    /// For how long, at most a minute.
    #[arg(long, default_value = "5s")]
    duration: Nanos,
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(clap::Args)]
struct FaultArgs {
    #[command(flatten)]
    name: NameArgs,
    #[command(subcommand)]
    fault: Fault,
}

#[derive(clap::Subcommand)]
enum Fault {
    /// Pull a link's cable.
    Cut {
        /// The link, such as `pe1-p1`; `path` is that of the client.
        link: String,
    },
    /// Have a link lose packets in one direction without a sign to its ends.
    Lossy {
        /// The link.
        link: String,
        /// The router whose packets are lost; without it, the link's first.
        #[arg(long)]
        from: Option<String>,
        /// Share that is lost.
        #[arg(long, default_value = "100%")]
        share: vtax_units::Share,
    },
    /// Switch a router off.
    Kill {
        /// The router.
        router: String,
    },
    /// End a routing daemon.
    Stop {
        /// The router.
        router: String,
        /// The daemon: `ospfd`, `ldpd`, `bgpd`, ...
        daemon: String,
    },
    /// Mend a link.
    RestoreLink {
        /// The link.
        link: String,
    },
    /// Switch a router on again, or start its daemons again.
    RestoreRouter {
        /// The router.
        router: String,
    },
}

impl Fault {
    fn event(&self) -> Result<Event, Failure> {
        Ok(match self {
            Self::Cut { link } => Event::Cut { link: link.clone() },
            Self::Lossy { link, from, share } => {
                let of_a_million = (share.0.clamp(0.0, 1.0) * f64::from(ALL)).round() as u32;
                Event::Lossy { link: link.clone(), from: from.clone(), of_a_million }
            }
            Self::Kill { router } => Event::Kill { router: router.clone() },
            Self::Stop { router, daemon } => {
                let known = || Daemon::ALL.map(Daemon::program).join(", ");
                let daemon = Daemon::of(daemon)
                    .with_context(|| format!("`{daemon}` is no daemon of FRR's; there are {}", known()))
                    .bad_input()?;
                Event::Stop { router: router.clone(), daemon }
            }
            Self::RestoreLink { link } => Event::RestoreLink { link: link.clone() },
            Self::RestoreRouter { router } => Event::RestoreRouter { router: router.clone() },
        })
    }
}

#[derive(clap::Args)]
struct GraphArgs {
    #[command(flatten)]
    what: file::LabSource,
    /// An SVG instead of text for Graphviz.
    #[arg(long)]
    svg: bool,
    /// The file to write; without it, standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    match &args.command {
        Command::Up(args) => up::run(args),
        Command::Exec(args) => {
            let ask = Ask::Exec { node: args.node.clone(), command: args.command.clone() };
            finish(socket::ask(&args.name.name, &ask)?)
        }
        Command::Capture(args) => capture(args),
        Command::Fault(args) => {
            finish(socket::ask(&args.name.name, &Ask::Fault { event: args.fault.event()? })?)
        }
        Command::Graph(args) => draw(args),
        Command::Down(args) => {
            let answer = socket::ask(&args.name, &Ask::Down)?;
            if answer == Answer::Done {
                socket::wait_until_gone(&args.name, DOWN_WITHIN)?;
            }
            finish(answer)
        }
    }
}

fn capture(args: &CaptureArgs) -> Outcome {
    let (node, interface) = (args.node.clone(), args.interface.clone());
    let answer = socket::ask(&args.name.name, &Ask::Capture { node, interface, duration: args.duration })?;
    let Answer::Captured { pcap } = answer else { return finish(answer) };
    let bytes = BASE64_STANDARD.decode(pcap).context("read what was captured").host_cannot()?;
    write_output(&args.output, &bytes)?;
    if let Some(after) = vtax_router::full_after(&bytes) {
        // The capture itself may go to standard output.
        let _ = writeln!(std::io::stderr(), "ended after {:.1} s, at 4 MiB", after.as_secs_f64());
    }
    Ok(Exit::Done)
}

/// Prints an answer as its exit code says.
fn finish(answer: Answer) -> Outcome {
    match answer {
        Answer::Done | Answer::Captured { .. } => Ok(Exit::Done),
        Answer::Executed(done) => {
            out::text(&done.output)?;
            if done.success {
                return Ok(Exit::Done);
            }
            let error = anyhow::anyhow!("the command ended with {}", done.status);
            Err(Failure::new(Exit::Failed, error))
        }
        Answer::Refused { why } => Err(anyhow::anyhow!(why)).bad_input(),
    }
}

fn draw(args: &GraphArgs) -> Outcome {
    let drawn = args.what.load()?;
    let blueprint =
        drawn.blueprint().context("this cell's path has no routers; there is nothing to draw").bad_input()?;
    let text =
        if args.svg { graph::svg(&blueprint, drawn.name()) } else { graph::dot(&blueprint, drawn.name()) };
    match &args.output {
        None => out::text(&text)?,
        Some(path) => write_output(path, text)?,
    }
    Ok(Exit::Done)
}
