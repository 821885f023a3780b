//! A proxy that cuts connections when it is told to.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Passes bytes on both ways until it is told to cut; then it ends what it has and takes new connections.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    pub(crate) cut: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let proxy = Self { address: listener.local_addr().unwrap(), cut: Arc::default() };
        let cut = Arc::clone(&proxy.cut);
        // Ends with the test's process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Without a server, the client's connection ends.
                let Ok(server) = TcpStream::connect(to) else { continue };
                let ways = [(client.try_clone(), server.try_clone()), (Ok(server), Ok(client))];
                for (from, to) in ways {
                    let (from, to, cut) = (from.unwrap(), to.unwrap(), Arc::clone(&cut));
                    thread::spawn(move || pass(from, to, &cut));
                }
            }
        });
        proxy
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, cut: &AtomicBool) {
    let mut buffer = vec![0; 16384];
    while let Ok(got @ 1..) = from.read(&mut buffer) {
        if cut.swap(false, Ordering::Relaxed) {
            // In the middle of what was read.
            let _ = to.write_all(&buffer[..got / 2]);
            break;
        }
        if to.write_all(&buffer[..got]).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
