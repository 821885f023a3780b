//! A way from the browser to the server that can be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use vtax_sys::sync::lock;

/// A way that can be cut.
pub(crate) struct Way {
    pub(crate) address: SocketAddr,
    listener: Option<TcpListener>,
    cut: Arc<AtomicBool>,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Way {
    /// A way that leads nowhere yet: its address is known before that of the server.
    pub(crate) fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        Self { address, listener: Some(listener), cut: Arc::default(), open: Arc::default() }
    }

    /// Leads to the server from now on.
    pub(crate) fn lead(&mut self, to: SocketAddr) {
        let listener = self.listener.take().expect("it leads nowhere yet");
        let (cut, open) = (Arc::clone(&self.cut), Arc::clone(&self.open));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if cut.load(Ordering::SeqCst) {
                    continue;
                }
                let Ok(server) = TcpStream::connect(to) else { continue };
                let clone = |stream: &TcpStream| stream.try_clone().expect("a second handle");
                let mut all = lock(&open);
                all.extend([clone(&stream), clone(&server)]);
                drop(all);
                let (back, forth) = ((clone(&server), clone(&stream)), (stream, server));
                for (from, to) in [back, forth] {
                    std::thread::spawn(move || pass(from, to));
                }
            }
        });
    }

    /// Ends all connections and takes no more of them, or takes them again.
    pub(crate) fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
        let mut open = lock(&self.open);
        for stream in open.drain(..).filter(|_| cut) {
            // One that has ended by itself is what is wanted.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut part = [0; 16 << 10];
    while let Ok(n @ 1..) = from.read(&mut part) {
        if to.write_all(&part[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
