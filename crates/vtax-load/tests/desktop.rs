//! Desktop users against real X servers and servers of RFB: every pixel is compared, and what goes wrong is told.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use vtax_load::desktop::{DesktopResult, DesktopSession, DesktopSpec, Keep, Kind};
use vtax_load::{ArrivalProcess, Control, Model, RequestStep, Segment};
use vtax_plan::model::{
    DesktopActions, DesktopEncoding, DesktopPace, DesktopScript, DesktopSecurity, DesktopUsers,
};
use vtax_service::Certificate;
use vtax_service::embedded::desktop::{DesktopError, XServer, serve};
use vtax_sys::require::{again_until, installed};
use vtax_units::{CpuSet, Nanos, Rate};
use vtax_wire::rfb::{Screen, vnc_auth_file};
use vtax_wire::x11::{Geometry, get_image};

const SIZE: (u16, u16) = (640, 480);

/// An X server with vtax's content on it, which speaks RFB.
struct Desktop {
    server: Child,
    address: SocketAddr,
    content: Option<JoinHandle<Result<(), DesktopError>>>,
    _directory: tempfile::TempDir,
}

impl Desktop {
    fn start(password: Option<&str>) -> Self {
        Self::start_with(password, None)
    }

    /// With a certificate, sessions are within TLS.
    fn start_with(password: Option<&str>, certificate: Option<&Certificate>) -> Self {
        let port = vtax_sys::free_port();
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("/usr/bin/Xvnc");
        command.args([&format!(":{port}"), "-rfbport", &port.to_string()]);
        command.args(["-geometry", &format!("{}x{}", SIZE.0, SIZE.1), "-depth", "24"]);
        command.args(["-interface", "127.0.0.1", "-nolisten", "tcp", "-AlwaysShared"]);
        if let Some(Certificate { pem: [certificate, key], .. }) = certificate {
            command.args(["-SecurityTypes", "X509None"]);
            for (option, name, text) in [("-X509Cert", "certificate", certificate), ("-X509Key", "key", key)]
            {
                let path = directory.path().join(name);
                std::fs::write(&path, text).unwrap();
                command.arg(option).arg(path);
            }
        } else if let Some(password) = password {
            let path = directory.path().join("password");
            std::fs::write(&path, vnc_auth_file(password)).unwrap();
            command.arg("-SecurityTypes").arg("VncAuth").arg("-PasswordFile").arg(path);
        } else {
            command.args(["-SecurityTypes", "None"]);
        }
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let server = quiet.spawn().expect("Xvnc starts");
        let (told, shown) = mpsc::channel();
        let content = std::thread::spawn(move || serve(port.into(), 7, || told.send(()).unwrap()));
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let desktop = Self { server, address, content: Some(content), _directory: directory };
        shown.recv_timeout(Duration::from_secs(30)).expect("the content is shown");
        let until = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(address).is_err() {
            assert!(Instant::now() < until, "nothing listens at {address}");
            std::thread::sleep(Duration::from_millis(20));
        }
        desktop
    }

    /// The pixels of the server's own framebuffer, `0xRRGGBB`.
    fn pixels(&self) -> Vec<u32> {
        let mut server = XServer::connect(self.address.port().into(), Duration::from_secs(5)).unwrap();
        let root = server.setup.root;
        get_image(server.out(), root, Geometry { x: 0, y: 0, width: SIZE.0, height: SIZE.1 });
        let reply = server.reply().unwrap();
        let pixels = reply[32..].as_chunks().0.iter().map(|pixel| u32::from_le_bytes(*pixel) & 0xff_ffff);
        pixels.take(usize::from(SIZE.0) * usize::from(SIZE.1)).collect()
    }

    fn spec(&self, encoding: DesktopEncoding, script: DesktopScript) -> DesktopSpec {
        let users = DesktopUsers {
            actions: script.actions(),
            rate: Rate(20.0),
            think: Nanos::ZERO,
            stay: Nanos::ZERO,
            pace: DesktopPace::SlowMotion,
            encoding,
            copies: true,
            continuous: false,
        };
        DesktopSpec {
            first: self.address,
            sessions: 1,
            security: DesktopSecurity::None,
            tunnel: false,
            password: None,
            users,
            timeout: Nanos::from_secs(10),
            cpus: CpuSet::default(),
            seed: 3,
            keep: Keep::All,
        }
    }
}

impl Drop for Desktop {
    fn drop(&mut self) {
        end(&mut self.server);
        if let Some(content) = self.content.take() {
            let ended = content.join().expect("it didn't panic");
            assert!(ended.is_ok() || std::thread::panicking(), "{ended:?}");
        }
    }
}

/// Ends an X server as it wants to be: its lock and its socket lie in /tmp, and it removes them.
fn end(server: &mut Child) {
    let _ = kill_process(Pid::from_child(server), Signal::TERM);
    let until = Instant::now() + Duration::from_secs(5);
    while Instant::now() < until && matches!(server.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = server.kill();
    let _ = server.wait();
}

fn step(rate: Option<f64>, milliseconds: u64) -> RequestStep {
    let model = match rate {
        Some(rate) => Model::Open {
            arrivals: ArrivalProcess::Poisson,
            profile: vec![Segment {
                from: Rate(rate),
                to: Rate(rate),
                duration: Nanos::from_millis(milliseconds),
            }],
        },
        None => Model::Closed,
    };
    RequestStep {
        model,
        warmup: Nanos::from_millis(500),
        duration: Nanos::from_millis(milliseconds),
        seed: 5,
        samples: false,
        interval: Nanos::from_millis(200),
        drain: Nanos::from_secs(1),
    }
}

/// Pixels of a client's screen that differ from the server's.
fn wrong(screen: &Screen, server: &[u32]) -> usize {
    assert_eq!((screen.width(), screen.height()), SIZE);
    let places = (0..SIZE.1).flat_map(|y| (0..SIZE.0).map(move |x| (x, y)));
    places.zip(server).filter(|((x, y), own)| screen.pixel(*x, *y) != Some(**own)).count()
}

fn run(session: &mut DesktopSession, step: &RequestStep) -> DesktopResult {
    session.run_step(step, &Control::new()).unwrap()
}

/// A step, made again where this machine was too busy for more than so many actions; and how often users came in all of them.
fn undisturbed(session: &mut DesktopSession, step: &RequestStep, least: u64) -> (DesktopResult, u64) {
    let mut came = 0;
    for _ in 0..9 {
        let found = run(session, step);
        came += found.figures.opening.len();
        let counts = &found.load.counts;
        if counts.ok > least && counts.errors.total() + counts.unfinished == 0 {
            return (found, came);
        }
    }
    let found = run(session, step);
    came += found.figures.opening.len();
    (found, came)
}

/// Every kind of action in an encoding; then the client's pixels are the server's.
fn all_pixels_are_right(encoding: DesktopEncoding, name: &str, continuous: bool) {
    let desktop = Desktop::start(None);
    let mut spec = desktop.spec(encoding, DesktopScript::Mix);
    spec.users.continuous = continuous;
    let mut session = DesktopSession::open(&spec).unwrap();
    let (DesktopResult { load, figures }, _) = undisturbed(&mut session, &step(None, 2000), 20);
    let counts = &load.counts;
    assert!(counts.ok > 20 && counts.errors.total() + counts.unfinished == 0, "{counts:?} {figures:?}");
    let rects = |name| figures.rects.iter().find(|(own, _)| own == name).map_or(0, |(_, count)| *count);
    assert!(rects(name) > 0, "{:?}", figures.rects);
    assert_eq!(figures.merged, 0, "slow motion merges nothing");
    assert_eq!(figures.continuous, u32::from(continuous));
    assert_eq!(wrong(session.screen(0).unwrap(), &desktop.pixels()), 0, "of {} pixels", figures.pixels);
}

#[test]
fn raw_pixels_are_right() {
    if !installed(&["Xvnc"]) {
        return;
    }
    all_pixels_are_right(DesktopEncoding::Raw, "Raw", false);
}

#[test]
fn rre_pixels_are_right() {
    if !installed(&["Xvnc"]) {
        return;
    }
    all_pixels_are_right(DesktopEncoding::Rre, "RRE", false);
}

#[test]
fn hextile_pixels_are_right() {
    if !installed(&["Xvnc"]) {
        return;
    }
    all_pixels_are_right(DesktopEncoding::Hextile, "Hextile", false);
}

#[test]
fn zrle_pixels_are_right() {
    if !installed(&["Xvnc"]) {
        return;
    }
    all_pixels_are_right(DesktopEncoding::Zrle, "ZRLE", true);
}

#[test]
fn tight_pixels_are_right() {
    if !installed(&["Xvnc"]) {
        return;
    }
    all_pixels_are_right(DesktopEncoding::Tight, "Tight", true);
}

#[test]
fn pixels_are_right_within_tls() {
    if !installed(&["Xvnc"]) {
        return;
    }
    let certificate = Certificate::new(Ipv4Addr::LOCALHOST.into()).unwrap();
    let desktop = Desktop::start_with(None, Some(&certificate));
    let mut spec = desktop.spec(DesktopEncoding::Zrle, DesktopScript::Mix);
    spec.security = DesktopSecurity::X509;
    let mut session = DesktopSession::open(&spec).unwrap();
    let DesktopResult { load, figures } = run(&mut session, &step(None, 2000));
    assert!(load.counts.ok > 0 && load.counts.errors.total() == 0, "{:?} {figures:?}", load.counts);
    assert_eq!(wrong(session.screen(0).unwrap(), &desktop.pixels()), 0);
    // Who doesn't ask for TLS is told what there is.
    spec.security = DesktopSecurity::None;
    let trouble = run(&mut DesktopSession::open(&spec).unwrap(), &step(Some(20.0), 300)).figures.trouble;
    assert_eq!(trouble.unwrap(), "the server offers VeNCrypt, none of which is None");
}

#[test]
fn a_tunnel_to_a_server_without_tls_is_told() {
    let says = b"RFB 003.008\n".to_vec();
    let desktop = hostile(says);
    let actions = DesktopScript::Type.actions();
    let users = DesktopUsers {
        actions,
        rate: Rate(10.0),
        think: Nanos::ZERO,
        stay: Nanos::ZERO,
        pace: DesktopPace::RealTime,
        encoding: DesktopEncoding::Raw,
        copies: true,
        continuous: true,
    };
    let spec = DesktopSpec {
        first: desktop,
        sessions: 1,
        security: DesktopSecurity::None,
        tunnel: true,
        password: None,
        users,
        timeout: Nanos::from_secs(5),
        cpus: CpuSet::default(),
        seed: 3,
        keep: Keep::All,
    };
    let found = run(&mut DesktopSession::open(&spec).unwrap(), &step(Some(20.0), 500));
    let trouble = found.figures.trouble.unwrap_or_default();
    assert!(trouble.starts_with("TLS: "), "{trouble}");
}

#[test]
fn copied_pixels_are_right() {
    if !installed(&["Xvnc"]) {
        return;
    }
    let desktop = Desktop::start(None);
    let spec = desktop.spec(DesktopEncoding::Hextile, DesktopScript::Scroll);
    let mut session = DesktopSession::open(&spec).unwrap();
    let figures = run(&mut session, &step(None, 1500)).figures;
    let copies = figures.rects.iter().any(|(name, count)| name == "CopyRect" && *count > 0);
    assert!(copies, "{:?}", figures.rects);
    assert_eq!(wrong(session.screen(0).unwrap(), &desktop.pixels()), 0);
}

#[test]
fn every_kind_of_action_is_answered_in_real_time() {
    if !installed(&["Xvnc"]) {
        return;
    }
    let desktop = Desktop::start(None);
    for (script, kind) in [
        (DesktopScript::Type, Kind::Type),
        (DesktopScript::Scroll, Kind::Scroll),
        (DesktopScript::Drag, Kind::Drag),
        (DesktopScript::Film, Kind::Film),
    ] {
        let mut spec = desktop.spec(DesktopEncoding::Tight, script);
        spec.users.pace = DesktopPace::RealTime;
        spec.users.continuous = true;
        spec.keep = Keep::First;
        let mut session = DesktopSession::open(&spec).unwrap();
        // Users stay connected from step to step.
        for number in 0..2 {
            let (found, came) = undisturbed(&mut session, &step(Some(20.0), 1500), 10);
            let DesktopResult { load, figures } = found;
            let counts = &load.counts;
            assert!(counts.ok > 10 && counts.errors.total() == 0, "{script:?}: {counts:?} {figures:?}");
            assert_eq!(counts.intended, counts.sent + counts.missed);
            assert_eq!(figures.by_kind.len(), 1);
            assert_eq!((figures.by_kind[0].0, figures.by_kind[0].1.len()), (kind, counts.ok));
            assert_eq!(came, 1 - number);
            assert!(figures.picture.as_ref().is_some_and(|picture| picture.starts_with("iVBORw0KGgo")));
        }
    }
}

#[test]
fn users_leave_and_others_come_in_their_places() {
    if !installed(&["Xvnc"]) {
        return;
    }
    let desktop = Desktop::start(None);
    let mut spec = desktop.spec(DesktopEncoding::Tight, DesktopScript::Mix);
    spec.users.stay = Nanos::from_millis(300);
    let mut session = DesktopSession::open(&spec).unwrap();
    let DesktopResult { load, figures } = run(&mut session, &step(None, 3000));
    assert!(figures.opening.len() >= 2 && figures.trouble.is_none(), "{figures:?}");
    assert!(load.counts.ok > 0 && load.counts.errors.total() == 0, "{:?}", load.counts);
    assert!(load.connections.iter().all(|interval| interval.broken == 0), "{:?}", load.connections);
}

#[test]
fn a_password_is_asked_for_and_a_wrong_one_is_told() {
    if !installed(&["Xvnc"]) {
        return;
    }
    let desktop = Desktop::start(Some("right"));
    let mut spec = desktop.spec(DesktopEncoding::Zrle, DesktopScript::Type);
    spec.security = DesktopSecurity::Password;
    spec.password = Some("right".to_owned());
    let found = run(&mut DesktopSession::open(&spec).unwrap(), &step(None, 300));
    assert!(found.load.counts.ok > 0 && found.figures.trouble.is_none(), "{found:?}");
    spec.password = Some("wrong".to_owned());
    let found = run(&mut DesktopSession::open(&spec).unwrap(), &step(Some(20.0), 500));
    let trouble = found.figures.trouble.unwrap();
    assert!(trouble.starts_with("the server refused the login: "), "{trouble}");
    assert_eq!(found.load.counts.ok, 0);
    assert!(found.load.counts.errors.protocol > 0, "{:?}", found.load.counts);
    spec.security = DesktopSecurity::None;
    let found = run(&mut DesktopSession::open(&spec).unwrap(), &step(Some(20.0), 300));
    let trouble = found.figures.trouble.unwrap();
    assert_eq!(trouble, "the server offers VncAuth, none of which is None");
}

/// A server that says this to everybody.
fn hostile(says: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), says) = (stream, says.clone()) else { return };
            std::thread::spawn(move || {
                let _ = stream.write_all(&says);
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    address
}

#[test]
fn hostile_servers_are_told_by_name() {
    let init = |width: u16, height: u16| {
        let mut says = b"RFB 003.008\n\x01\x01\0\0\0\0".to_vec();
        says.extend_from_slice(&width.to_be_bytes());
        says.extend_from_slice(&height.to_be_bytes());
        says.extend_from_slice(b"\x20\x18\0\x01\0\xff\0\xff\0\xff\x10\x08\0\0\0\0\0\0\0\0");
        says
    };
    let with = |tail: &[u8]| [init(640, 480), tail.to_vec()].concat();
    let dead = SocketAddr::from((Ipv4Addr::LOCALHOST, vtax_sys::free_port()));
    // What doesn't answer is not waited for; of all others nothing is late, even on a busy machine.
    let (short, long) = (Nanos::from_millis(50), Nanos::from_secs(10));
    for (address, words) in [
        (hostile(b"HTTP/1.1 400 Bad Request\r\n".to_vec()), "doesn't speak RFB"),
        (hostile(init(65_535, 65_535)), "65535x65535"),
        (hostile(with(b"\0\0\0\x01\0\0\0\0\xff\xff\xff\xff\xff\xff\xff\x21")), "65535x65535"),
        (hostile(with(b"\x03\0\0\0\xff\xff\xff\xff")), "a clipboard of -1"),
        (hostile(with(&[9])), "unknown message"),
        (hostile(with(&[0; 100_000])), "the desktop answered nothing"),
        (dead, "refused"),
    ] {
        let actions = DesktopActions { typing: 1, scroll: 0, drag: 0, film: 0 };
        let users = DesktopUsers {
            actions,
            rate: Rate(10.0),
            think: Nanos::ZERO,
            stay: Nanos::ZERO,
            pace: DesktopPace::RealTime,
            encoding: DesktopEncoding::Zrle,
            copies: true,
            continuous: true,
        };
        let spec = DesktopSpec {
            first: address,
            sessions: 1,
            security: DesktopSecurity::None,
            tunnel: false,
            password: None,
            users,
            timeout: if words.contains("answered nothing") { short } else { long },
            cpus: CpuSet::default(),
            seed: 3,
            keep: Keep::All,
        };
        let open = || run(&mut DesktopSession::open(&spec).unwrap(), &step(Some(20.0), 500));
        let told = |found: &DesktopResult| found.figures.trouble.is_some();
        let found = again_until(open, told);
        let trouble = found.figures.trouble.unwrap_or_default();
        assert!(trouble.contains(words), "{words}: {trouble}");
        assert_eq!(found.load.counts.ok, 0);
    }
}
