//! Sessions that break while they fetch.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use vtax_load::Model;
use vtax_plan::model::{FileSizes, FtpMix, FtpRequests};
use vtax_units::Bytes;

use super::{Server, requests, run_until, spec};

/// Passes control connections on, and breaks every third once a fetch has begun. Data connections go to the server itself.
fn breaking(server: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let fetches = Arc::new(AtomicU32::new(0));
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let Ok(server) = TcpStream::connect(server) else { return };
            pass_on(&client, &server, &fetches);
        }
    });
    address
}

fn pass_on(client: &TcpStream, server: &TcpStream, fetches: &Arc<AtomicU32>) {
    let both = || (client.try_clone().unwrap(), server.try_clone().unwrap());
    let fetching = Arc::new(AtomicBool::new(false));
    let ((mut from, mut to), seen) = (both(), Arc::clone(&fetching));
    std::thread::spawn(move || {
        copy(&mut from, &mut to, |part| {
            seen.store(part.starts_with(b"RETR "), Ordering::SeqCst);
            true
        });
    });
    let ((mut to, mut from), fetches) = (both(), Arc::clone(fetches));
    std::thread::spawn(move || {
        copy(&mut from, &mut to, |part| {
            let begins = fetching.load(Ordering::SeqCst) && part.starts_with(b"150");
            !begins || fetches.fetch_add(1, Ordering::SeqCst) % 3 != 1
        });
    });
}

/// Copies until either end closes, or `goes_on` says no of what has been copied last; then closes both.
fn copy(from: &mut TcpStream, to: &mut TcpStream, goes_on: impl Fn(&[u8]) -> bool) {
    let mut part = [0; 4096];
    while let Ok(got @ 1..) = from.read(&mut part) {
        if to.write_all(&part[..got]).is_err() || !goes_on(&part[..got]) {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}

fn fetches(rest: bool) -> FtpRequests {
    let mix = FtpMix { retr: 1, stor: 0, list: 0 };
    FtpRequests {
        mix,
        files: 3,
        size: FileSizes::Fixed(Bytes::from_mib(2)),
        transfers: Some(4),
        rest,
        ..requests()
    }
}

#[test]
fn the_rest_is_fetched_after_a_break_and_is_right() {
    let server = Server::local();
    let (result, details) = run_until(&spec(breaking(server.address), fetches(true)), Model::Closed, 40);
    assert_eq!(result.counts.errors.total(), 0, "{:?} {details:?}", result.counts);
    assert_eq!((details.wrong(), &details.first_failure), (0, &None), "{details:?}");
    assert!(details.continued > 0 && details.broken_sessions >= details.continued, "{details:?}");
    assert_eq!(details.retr.bytes, details.retr.ok * Bytes::from_mib(2).0);
}

#[test]
fn without_it_a_fetch_fails_with_its_session() {
    let server = Server::local();
    let (result, details) = run_until(&spec(breaking(server.address), fetches(false)), Model::Closed, 40);
    assert!(result.counts.errors.reset > 0 && details.continued == 0, "{:?} {details:?}", result.counts);
    assert_eq!(details.wrong(), 0);
}
