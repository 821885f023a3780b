//! `vtax load tcp|udp|rr|ping|voice`: network tests between this end and a server of the same program.

mod output;

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener};
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use anyhow::Context;
use vtax_load::Control;
use vtax_load::network::{
    Direction, FailureKind, NetworkError, NetworkResult, NetworkSpec, NetworkTestKind, PORT, PingTest, Probe,
    RrTest, ServerOptions, SocketOptions, TcpTest, UdpTest, VoiceLaw, VoiceTest, run as run_test, serve,
};
use vtax_plan::model::ArrivalProcess;
use vtax_sys::signals::SignalFd;
use vtax_units::{BitRate, Bytes, Nanos, Rate};

use super::end::{Invalid, LoadEnd};
use super::signals::{ending_signals, serve_until_signal, signalled};
use super::target;
use crate::exit::{Classify, Exit, Failure, Outcome};

/// How often signals are looked at.
const TICK: Duration = Duration::from_millis(50);
/// Tests a server takes at once: more would measure each other.
const TESTS_AT_ONCE: usize = 4;

/// TCP bulk transfer: how many bytes the path carries. Both ends count, and are compared.
#[derive(clap::Args)]
pub(super) struct TcpArgs {
    #[command(flatten)]
    ends: Ends,
    #[command(flatten)]
    course: CourseArgs,
    /// Connections in each direction.
    #[arg(long, short = 'P', default_value_t = 1)]
    streams: u32,
    /// Who sends.
    #[arg(long, value_enum, default_value_t = Way::Up)]
    direction: Way,
    /// Send this much instead of for a time; it still ends after --duration.
    #[arg(long)]
    bytes: Option<Bytes>,
    /// Bytes of one write.
    #[arg(long, default_value = "1MiB")]
    block: Bytes,
    /// Copy between programs and kernels at both ends, as iperf3 and most programs do; otherwise the sender's kernel
    /// sends a file's pages as they are, and the receiver's counts and drops what arrives.
    #[arg(long)]
    copy: bool,
    #[command(flatten)]
    socket: SocketArgs,
}

/// UDP datagrams at a rate: loss, reordering, duplicates, jitter (RFC 3550).
#[derive(clap::Args)]
pub(super) struct UdpArgs {
    #[command(flatten)]
    ends: Ends,
    #[command(flatten)]
    course: CourseArgs,
    /// Payload bits per second; `max`: as fast as they go out, many at once (segmentation offload).
    #[arg(long, default_value = "10Mbit")]
    rate: UdpRate,
    /// Payload of a datagram, in bytes.
    #[arg(long, default_value_t = 1_448)]
    size: u32,
    /// Who sends.
    #[arg(long, value_enum, default_value_t = OneWay::Up)]
    direction: OneWay,
    /// Socket buffers to ask for, on both ends [default: 4MiB].
    #[arg(long)]
    buffer: Option<Bytes>,
}

/// Request/response transactions over TCP, one after another on each connection.
#[derive(clap::Args)]
pub(super) struct RrArgs {
    #[command(flatten)]
    ends: Ends,
    #[command(flatten)]
    course: CourseArgs,
    /// Connections.
    #[arg(long, short = 'P', default_value_t = 1)]
    streams: u32,
    /// Bytes of a request.
    #[arg(long, default_value_t = 1)]
    request: u32,
    /// Bytes of a response.
    #[arg(long, default_value_t = 1)]
    response: u32,
    #[command(flatten)]
    socket: SocketArgs,
}

/// Echo at a rate: round-trip times, from the actual and from the intended send.
#[derive(clap::Args)]
pub(super) struct PingArgs {
    #[command(flatten)]
    ends: Ends,
    #[command(flatten)]
    course: CourseArgs,
    /// ICMP (the peer's kernel answers, no server needed) or UDP (the server answers).
    #[arg(long, value_enum, default_value_t = Kind::Icmp)]
    probe: Kind,
    /// Probes per second.
    #[arg(long, default_value = "100/s")]
    rate: Rate,
    /// Gaps between probes.
    #[arg(long, value_parser = super::requests::arrivals(), default_value = "constant")]
    arrivals: ArrivalProcess,
    /// Payload in bytes.
    #[arg(long, default_value_t = 56)]
    size: u32,
    /// A probe not answered within this time is lost.
    #[arg(long, default_value = "1s")]
    timeout: Nanos,
    /// Seed of the gaps.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Streams of G.711 in both directions: loss, late packets, jitter (RFC 3550), and how that sounds, estimated (ITU-T G.107).
#[derive(clap::Args)]
pub(super) struct VoiceArgs {
    #[command(flatten)]
    ends: Ends,
    #[command(flatten)]
    course: CourseArgs,
    /// Streams in each direction; a call has one.
    #[arg(long, short = 'P', default_value_t = 100)]
    streams: u32,
    /// Sound in each packet: 10ms, 20ms, 30ms or 40ms.
    #[arg(long, default_value = "20ms")]
    packet: Nanos,
    /// How sound is coded.
    #[arg(long, value_enum, default_value_t = Codec::Pcmu)]
    codec: Codec,
    /// How long sound waits before it is played; what comes later isn't heard.
    #[arg(long, default_value = "60ms")]
    jitter_buffer: Nanos,
    /// Have packets that leave at the same time cross the kernels as one, cut apart as late as they can be (segmentation offload):
    /// cheaper for both ends, and not what telephones do.
    #[arg(long)]
    bundled: bool,
}

/// Whom to test with, or to be whom others test with.
#[derive(clap::Args)]
// Its own group would let only one of its three be given.
#[group(skip)]
struct Ends {
    /// HOST[:PORT] of the server.
    #[arg(required_unless_present = "server")]
    host: Option<String>,
    /// Be the server, for all five kinds of test, until ended; of this host alone unless --listen says otherwise.
    #[arg(long, conflicts_with = "host")]
    server: bool,
    /// Where the server listens instead of 127.0.0.1:5202: 0.0.0.0:5202 for other hosts. Whoever reaches it may use it.
    #[arg(long, value_name = "ADDRESS:PORT", conflicts_with = "host")]
    listen: Option<SocketAddr>,
}

#[derive(clap::Args)]
struct CourseArgs {
    /// Time that is counted.
    #[arg(long, default_value = "10s")]
    duration: Nanos,
    /// Time before it that isn't.
    #[arg(long, default_value = "1s")]
    warmup: Nanos,
    /// Time between two lines of progress, and length of the intervals in the result.
    #[arg(long, default_value = "1s")]
    interval: Nanos,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Print no progress.
    #[arg(long, short)]
    quiet: bool,
}

#[derive(clap::Args)]
struct SocketArgs {
    /// Socket buffers to ask for, on both ends: iperf's window. Linux doubles it and has bounds of its
    /// own; the result shows what it gave.
    #[arg(long, short)]
    window: Option<Bytes>,
    /// Largest segment.
    #[arg(long)]
    mss: Option<u32>,
    /// Congestion control of both ends, such as `cubic` or `bbr`.
    #[arg(long)]
    congestion: Option<String>,
    /// Send at once, however little.
    #[arg(long)]
    no_delay: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Way {
    /// This end.
    Up,
    /// The server.
    Down,
    /// Both at once.
    Both,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum OneWay {
    /// This end.
    Up,
    /// The server.
    Down,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// ICMP echo.
    Icmp,
    /// UDP echo.
    Udp,
}

#[derive(Clone, Copy, clap::ValueEnum)]
pub(super) enum Codec {
    /// G.711 mu-law.
    Pcmu,
    /// G.711 A-law.
    Pcma,
}

impl Codec {
    pub(super) const fn law(self) -> VoiceLaw {
        match self {
            Self::Pcmu => VoiceLaw::Mu,
            Self::Pcma => VoiceLaw::A,
        }
    }
}

/// A bit rate, or none.
#[derive(Clone, Copy)]
struct UdpRate(Option<BitRate>);

impl FromStr for UdpRate {
    type Err = <BitRate as FromStr>::Err;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "max" { Ok(Self(None)) } else { text.parse().map(|rate| Self(Some(rate))) }
    }
}

impl From<Way> for Direction {
    fn from(way: Way) -> Self {
        match way {
            Way::Up => Self::Up,
            Way::Down => Self::Down,
            Way::Both => Self::Both,
        }
    }
}

impl From<OneWay> for Direction {
    fn from(way: OneWay) -> Self {
        match way {
            OneWay::Up => Self::Up,
            OneWay::Down => Self::Down,
        }
    }
}

impl SocketArgs {
    fn setup(&self) -> SocketOptions {
        SocketOptions {
            window: self.window,
            mss: self.mss,
            congestion: self.congestion.clone(),
            no_delay: self.no_delay,
        }
    }
}

pub(super) fn tcp(args: &TcpArgs) -> Outcome {
    let test = TcpTest {
        streams: args.streams,
        direction: args.direction.into(),
        socket: args.socket.setup(),
        bytes: args.bytes,
        block: args.block,
        copy: args.copy,
    };
    either(&args.ends, &args.course, NetworkTestKind::Tcp(test), 0)
}

pub(super) fn udp(args: &UdpArgs) -> Outcome {
    let test =
        UdpTest { rate: args.rate.0, size: args.size, direction: args.direction.into(), buffer: args.buffer };
    either(&args.ends, &args.course, NetworkTestKind::Udp(test), 0)
}

pub(super) fn rr(args: &RrArgs) -> Outcome {
    let socket = args.socket.setup();
    let test = RrTest { streams: args.streams, request: args.request, response: args.response, socket };
    either(&args.ends, &args.course, NetworkTestKind::Rr(test), 0)
}

pub(super) fn ping(args: &PingArgs) -> Outcome {
    let test = PingTest {
        probe: match args.probe {
            Kind::Icmp => Probe::Icmp,
            Kind::Udp => Probe::Udp,
        },
        rate: args.rate,
        arrivals: args.arrivals,
        size: args.size,
        timeout: args.timeout,
    };
    either(&args.ends, &args.course, NetworkTestKind::Ping(test), args.seed)
}

pub(super) fn voice(args: &VoiceArgs) -> Outcome {
    let test = VoiceTest {
        streams: args.streams,
        packet: args.packet,
        law: args.codec.law(),
        jitter_buffer: args.jitter_buffer,
        bundled: args.bundled,
    };
    either(&args.ends, &args.course, NetworkTestKind::Voice(test), 0)
}

fn either(ends: &Ends, course: &CourseArgs, test: NetworkTestKind, seed: u64) -> Outcome {
    // Before the first thread, so that all have the signals blocked.
    let signals = ending_signals().context("preparing for Ctrl-C").host_cannot()?;
    match &ends.host {
        Some(host) => client(host, course, test, seed, &signals),
        None => server(ends.listen, &signals),
    }
}

fn server(asked: Option<SocketAddr>, signals: &SignalFd) -> Outcome {
    let listen = asked.unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], PORT)));
    let listener =
        TcpListener::bind(listen).with_context(|| format!("listening on {listen}")).host_cannot()?;
    let address = listener.local_addr().context("asking for the address").host_cannot()?;
    output::line(&format!("listening on {address}"));
    if asked.is_none() {
        // On standard error: programs read the line above.
        let hint = "other hosts can't reach it there; --listen ADDRESS:PORT lets them";
        let _ = writeln!(std::io::stderr(), "{hint}");
    }
    let options = ServerOptions { tests: TESTS_AT_ONCE };
    match serve_until_signal(signals, |stop| serve(&listener, options, stop)) {
        Ok(result) => result.host_cannot().map(|()| Exit::Done),
        Err(_) => Err(anyhow::anyhow!("the server panicked").into()),
    }
}

fn client(host: &str, course: &CourseArgs, test: NetworkTestKind, seed: u64, signals: &SignalFd) -> Outcome {
    let spec = NetworkSpec {
        target: resolve(host).bad_input()?,
        test,
        seed,
        warmup: course.warmup,
        duration: course.duration,
        interval: course.interval,
    };
    let (result, interrupted) = match carry_out(&spec, course.quiet, signals) {
        Err(failure) if course.json && failure.exit() == Exit::Interrupted => {
            output::json(host, &spec, None, &LoadEnd::before_anything(&failure))?;
            return Ok(Exit::Interrupted);
        }
        carried_out => carried_out?,
    };
    let nothing = result.nothing_succeeded().map(Invalid::nothing);
    let invalid = nothing.or_else(|| result.doubt(&spec.test).map(|why| Invalid::instrument(why.to_owned())));
    let end = LoadEnd::of(interrupted, invalid);
    if course.json {
        output::json(host, &spec, Some(&result), &end)?;
    } else {
        output::text(&spec.test, &result, &end)?;
    }
    Ok(end.exit())
}

/// Makes the test; its result, and whether a signal ended it early.
fn carry_out(spec: &NetworkSpec, quiet: bool, signals: &SignalFd) -> Result<(NetworkResult, bool), Failure> {
    let control = Control::new();
    let (result, interrupted) = thread::scope(|scope| {
        let running = scope.spawn(|| {
            run_test(spec, &control, &|live| {
                if !quiet {
                    output::live(spec, live);
                }
            })
        });
        let mut interrupted = false;
        while !running.is_finished() {
            if signalled(signals) {
                interrupted = true;
                control.cancel();
            }
            thread::sleep(TICK);
        }
        (running.join(), interrupted)
    });
    let result = result.map_err(|_| anyhow::anyhow!("the test panicked"))?;
    let result = result.map_err(|error| {
        let exit = match &error {
            NetworkError::Spec { .. } => Exit::BadInput,
            NetworkError::Cancelled => Exit::Interrupted,
            // What the other end makes of a test that this one broke off.
            _ if interrupted => Exit::Interrupted,
            NetworkError::System { .. } => Exit::HostCannot,
            other if other.kind() == FailureKind::Impossible => Exit::HostCannot,
            // The far end or the path to it.
            _ => Exit::Failed,
        };
        Failure::new(exit, error)
    })?;
    Ok((result, interrupted))
}

/// `HOST`, `HOST:PORT` or `[IPV6]:PORT`, as an address.
fn resolve(host: &str) -> anyhow::Result<SocketAddr> {
    target::resolve(host, PORT)
        .with_context(|| format!("`{host}` can't be resolved; write HOST, HOST:PORT or an address"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cmd::test_args::ParseArgs;

    #[test]
    fn an_end_is_a_client_or_a_server_somewhere() {
        let parse = |args: &[&str]| {
            ParseArgs::<Ends>::try_parse_from([&["vtax"], args].concat()).map(|parsed| parsed.args)
        };
        assert_eq!(parse(&["a:1"]).unwrap().host.as_deref(), Some("a:1"));
        let server = parse(&["--server", "--listen", "127.0.0.1:7"]).unwrap();
        assert!(server.server && server.listen.is_some_and(|listen| listen.port() == 7));
        assert_eq!(parse(&["--server"]).unwrap().listen, None);
        for wrong in [&[][..], &["a", "--server"], &["a", "--listen", "127.0.0.1:7"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_server_has_its_usual_port_where_none_is_named() {
        assert_eq!(resolve("::1").unwrap(), "[::1]:5202".parse().unwrap());
        assert_eq!(resolve("[::1]:80").unwrap(), "[::1]:80".parse().unwrap());
        assert!(resolve("no such host").unwrap_err().to_string().contains("no such host"));
        assert!(resolve("").is_err());
    }
}
