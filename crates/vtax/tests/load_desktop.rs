//! `vtax load desktop` against servers that want to harm it: each is named, and none costs much memory.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};

use flate2::{Compress, Compression, FlushCompress};
use vtax_sys::reap;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");
/// More than the program takes for one desktop, and far less than what is sent to it is about.
const MOST_RESIDENT: u64 = 100 << 20;

/// A server that says this to everybody, its last part again and again.
fn server(says: Vec<u8>, again: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (Ok(mut stream), says, again) = (stream, says.clone(), again.clone()) else { return };
            std::thread::spawn(move || {
                let mut more = stream.write_all(&says);
                while more.is_ok() && !again.is_empty() {
                    more = stream.write_all(&again);
                }
                let _ = stream.read_to_end(&mut Vec::new());
            });
        }
    });
    address
}

/// The opening of a server without security.
fn opening(width: u16, height: u16) -> Vec<u8> {
    let mut says = b"RFB 003.008\n\x01\x01\0\0\0\0".to_vec();
    says.extend_from_slice(&width.to_be_bytes());
    says.extend_from_slice(&height.to_be_bytes());
    says.extend_from_slice(b"\x20\x18\0\x01\0\xff\0\xff\0\xff\x10\x08\0\0\0\0\0\0\0\0");
    says
}

/// An update with one rectangle.
fn rectangle(size: [u16; 2], encoding: i32, content: &[u8]) -> Vec<u8> {
    let mut says = vec![0, 0, 0, 1, 0, 0, 0, 0];
    says.extend(size.iter().flat_map(|length| length.to_be_bytes()));
    says.extend_from_slice(&encoding.to_be_bytes());
    says.extend_from_slice(content);
    says
}

/// 256 MiB of zeros, compressed; before it its length.
fn bomb() -> Vec<u8> {
    let mut stream = Compress::new(Compression::fast(), true);
    let mut data = Vec::with_capacity(4 << 20);
    let zeros = vec![0; 1 << 20];
    for _ in 0..256 {
        stream.compress_vec(&zeros, &mut data, FlushCompress::None).expect("it compresses");
    }
    stream.compress_vec(&[], &mut data, FlushCompress::Sync).expect("it compresses");
    [&(data.len() as u32).to_be_bytes()[..], &data].concat()
}

#[test]
fn a_hostile_server_is_named_and_costs_little() {
    let desktop = || opening(1024, 768);
    let with = |more: Vec<u8>| server([desktop(), more].concat(), Vec::new());
    // A desktop of 1024 by 768 pixels has room for some of the bomb, but only by the length that it may have.
    let cases = [
        (
            server(opening(65_535, 65_535), Vec::new()),
            "a desktop of 65535x65535: there may be 1 to 16777216 pixels",
        ),
        (with(rectangle([65_535, 65_535], -223, &[])), "a desktop of 65535x65535"),
        (with(rectangle([1024, 768], 16, &bomb())), "compressed data of ZRLE hold more than their rectangle"),
        (with(rectangle([64, 64], 16, &[255; 4])), "a ZRLE rectangle of -1: at most"),
        (with(rectangle([64, 64], 2, &[255; 8])), "a list of rectangles of -1: at most 4096 is allowed"),
        (with(rectangle([65_535, 65_535], -239, &[])), "a cursor of 4294836225: at most"),
        (with(b"\x03\0\0\0\x80\0\0\0".to_vec()), "a clipboard of -2147483648: at most"),
        (
            server(b"RFB 003.008\n\0\xff\xff\xff\xff".to_vec(), Vec::new()),
            "a reason of -1: at most 1024 is allowed",
        ),
        // Updates without end, in which nothing is ever seen.
        (server(desktop(), vec![0; 4096]), "the desktop answered nothing"),
        (server(b"RFB 003.008\n".to_vec(), vec![255; 4096]), "the server offers"),
    ];
    for (address, words) in cases {
        let mut command = Command::new(VTAX);
        command.args(["load", "desktop", &address.to_string(), "--connections", "1", "--encoding", "zrle"]);
        // It is the last word that is told: no other server is given up for what a busy machine does late.
        let timeout = if words == "the desktop answered nothing" { "50ms" } else { "10s" };
        command.args(["--quiet", "--timeout", timeout, "--warmup", "0s", "--duration", "1500ms"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("vtax starts");
        let mut told = String::new();
        child.stdout.take().expect("piped").read_to_string(&mut told).expect("text");
        let reaped = reap::wait(child).expect("its end");
        // Nothing succeeded; where the machine was too busy for the generator as well, that is said first.
        assert!(matches!(reaped.status.code(), Some(1 | 3)), "{told}");
        let trouble = told.lines().find_map(|line| line.strip_prefix("trouble ")).unwrap_or_default();
        assert!(trouble.trim_start().starts_with(words), "{words}: {told}");
        let resident = reaped.resident_bytes_max;
        assert!(resident < MOST_RESIDENT, "{words}: {resident} bytes");
    }
}
