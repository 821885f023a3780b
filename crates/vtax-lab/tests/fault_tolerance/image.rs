//! Guests that run real services, from an image of their packages.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use vtax_agent::Client;
use vtax_agent::message::{Provisioning, ServiceId};
use vtax_lab::ft::{FtPair, PairMode, PairSpec, PairTask, Side};
use vtax_plan::model::{KamailioOptions, LocationMode, Service, ServiceKind, Subscribers, WebOptions};
use vtax_units::{Bytes, Nanos};
use vtax_vm::ft::Mode;
use vtax_vm::{Cache, ImageContents, RootImage, root_image};

use crate::{Case, LIMIT, World, armed, promoted, show, wait};

type Services = fn() -> Vec<Service>;

/// Names, services and cases.
pub(crate) const CASES: [(&str, Services, Case); 2] = [
    ("image: nginx goes on", nginx, nginx_goes_on),
    ("image: Kamailio with MariaDB goes on", kamailio, kamailio_goes_on),
];

/// Requests before the kill, and after.
const REQUESTS: usize = 20;

/// The image of these services, with the database of the one that has one.
pub(crate) fn make(services: Services) -> RootImage {
    let mut contents = ImageContents::default();
    for service in services() {
        assert_eq!(vtax_service::missing(&service), None);
        contents.programs.extend(vtax_service::installed_files(&service));
        contents.trees.extend(prepared(&service).prepared);
    }
    let image = root_image(&Cache::of_user(), &contents).unwrap();
    println!("  {} of {} packages, made in {:?}", image.bytes, image.packages.len(), image.taken);
    image
}

fn service(name: &str, kind: ServiceKind) -> Service {
    let (ready_timeout, stop_timeout) = (Nanos::from_secs(60), Nanos::from_secs(10));
    Service { name: name.into(), kind, ready_timeout, stop_timeout }
}

fn nginx() -> Vec<Service> {
    let web = WebOptions::on(8080);
    // Both web servers are in the image; one is enough to be run.
    vec![service("nginx", ServiceKind::Nginx(web.clone())), service("apache", ServiceKind::Apache(web))]
}

fn kamailio() -> Vec<Service> {
    let options = KamailioOptions {
        port: 5060,
        children: Some(2),
        shared_memory: Bytes::from_mib(32),
        t1: Nanos::from_millis(500),
        location: LocationMode::WriteThrough,
        media_relay: None,
        tls: false,
    };
    vec![service("kamailio", ServiceKind::Kamailio(options))]
}

/// Whom the service knows, and the database of them.
fn prepared(service: &Service) -> Provisioning {
    let subscribers = Subscribers {
        count: 10,
        public: "subs%06d".into(),
        private: "subs%06d".into(),
        password: "abcdefgh".into(),
        realm: "open-ims.test".into(),
        domain: "open-ims.test".into(),
    };
    let made = vtax_service::prepare(service, Some(&subscribers), Cache::of_user().dir()).unwrap();
    Provisioning { subscribers: Some(subscribers), prepared: made.map(|made| made.path), disk: None }
}

fn nginx_goes_on(world: &mut World) {
    survives(world, &nginx()[0], 384, |stream, nth| {
        write!(&mut &*stream, "GET /100b HTTP/1.1\r\nHost: sut\r\nX-Nth: {nth}\r\n\r\n")?;
        answer(stream, "HTTP/1.1 200")
    });
}

fn kamailio_goes_on(world: &mut World) {
    survives(world, &kamailio()[0], 640, |stream, nth| {
        let (own, to) = (stream.local_addr()?, stream.peer_addr()?);
        // Its answer takes a look at the database's module, that is not there without its libraries.
        write!(
            &mut &*stream,
            "REGISTER sip:open-ims.test SIP/2.0\r\nVia: SIP/2.0/TCP {own};branch=z9hG4bK{nth}\r\n\
             From: <sip:subs000001@open-ims.test>;tag=1\r\nTo: <sip:subs000001@open-ims.test>\r\n\
             Call-ID: {nth}@{own}\r\nCSeq: {nth} REGISTER\r\nContact: <sip:subs000001@{own}>\r\n\
             Max-Forwards: 70\r\nX-To: {to}\r\nContent-Length: 0\r\n\r\n"
        )?;
        answer(stream, "SIP/2.0 401")
    });
}

/// Reads an answer; an error unless it begins so.
fn answer(stream: &TcpStream, expected: &str) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length, mut first) = (String::new(), 0_u64, None);
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Err(std::io::Error::other("the connection was closed"));
        }
        let text = line.trim_end();
        if text.is_empty() {
            break;
        }
        if let Some(value) = text.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().map_err(std::io::Error::other)?;
        }
        first.get_or_insert_with(|| text.to_owned());
    }
    std::io::copy(&mut (&mut reader).take(length), &mut std::io::sink())?;
    let first = first.unwrap_or_default();
    if first.starts_with(expected) { Ok(()) } else { Err(std::io::Error::other(first)) }
}

/// One connection, one request after the other; the host is killed in their midst.
fn survives(
    world: &mut World,
    service: &Service,
    mib: u64,
    ask: impl Fn(&TcpStream, usize) -> std::io::Result<()> + Send + Sync,
) {
    let mut spec = PairSpec::new("sut", PairMode::Checkpoints(Mode::Kemari), PairTask::Agent);
    spec.memory = Bytes::from_mib(mib);
    let mut pair = world.pair(spec);
    let (client, port) = started(&mut pair, service);
    armed(&pair);
    let place = SocketAddr::new(pair.address(), port);
    let stream =
        world.netns().run(|| Ok(TcpStream::connect_timeout(&place, Duration::from_secs(10)))).unwrap();
    let stream = stream.unwrap_or_else(|e| panic!("{e}\n{}", show(&pair)));
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let asked = |nth| ask(&stream, nth).unwrap_or_else(|e| panic!("request {nth}: {e}\n{}", show(&pair)));
    (1..=REQUESTS).for_each(asked);
    let killed = Instant::now();
    pair.kill_host(Side::Primary).unwrap();
    asked(REQUESTS + 1);
    let first = killed.elapsed();
    wait(&pair, "take-over", 1, promoted);
    (REQUESTS + 2..=2 * REQUESTS).for_each(asked);
    println!("  first answer after {first:?}, {:?}", pair.statistics()[0]);
    client
        .stop_service(ServiceId::ONLY, service.stop_timeout)
        .unwrap_or_else(|e| panic!("{e}\n{}", show(&pair)));
    client.shutdown().unwrap();
}

/// Boots the guest and starts the service in it; where it listens.
fn started(pair: &mut FtPair, service: &Service) -> (Client, u16) {
    let begun = Instant::now();
    let stream = pair.take_channel().unwrap();
    let read = stream.try_clone().unwrap();
    let client = Client::start("sut", read, stream, Box::new(|_| {})).unwrap();
    client.hello(LIMIT).unwrap_or_else(|e| panic!("{e}\n{}", show(pair)));
    let booted = begun.elapsed();
    client.configure_network(pair.interfaces().to_vec()).unwrap();
    let ready = client.start_service(ServiceId::ONLY, service, pair.address(), &prepared(service));
    let ready = ready.unwrap_or_else(|e| panic!("{e}\n{}", show(pair)));
    println!("  booted in {booted:?}, {} ready after {}", ready.version, ready.startup);
    (client, ready.address.port())
}
