//! An FTP server for hosts that have none: RFC 959 as far as files in one directory need it, TLS by RFC 4217.
//!
//! A session is a thread that waits. What a client can make it hold is bounded: [`SESSIONS_MAX`] sessions, lines of 4 KiB, five minutes of
//! silence on the control connection, half a minute on a data connection. Names have no directories: nothing outside the server's own
//! can be reached. Data connections go to and from the client's own address only.

mod data;
mod files;
mod session;
mod stream;

use std::io::{self, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustls::ServerConfig;
use vtax_plan::model::ftp_limits;
use vtax_sys::sched::raise_open_files;

/// A certificate and its key.
pub use super::certificate::ServerCertificate as FtpCertificate;
use super::server::ServeError;
use session::Session;

/// Sessions at once; one more is refused. There are twice those that a plan may ask for: one that ends is still counted when its
/// client is back.
pub const SESSIONS_MAX: usize = 2 * ftp_limits::OWN_SESSIONS as usize;
/// Descriptors of a session: its connections, and the file that is moved.
const SESSION_DESCRIPTORS: u64 = 4;
/// A session calls a few functions deep, and its buffers are elsewhere.
const STACK: usize = 256 << 10;
/// How often the listening thread looks at the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// What the server serves, and to whom.
#[derive(Debug, Clone)]
pub struct FtpServer {
    /// Where it listens.
    pub address: SocketAddr,
    /// The directory whose files it has.
    pub directory: PathBuf,
    /// Who may log in.
    pub user: String,
    /// With which password.
    pub password: String,
    /// Its certificate; `None`: it has no TLS.
    pub tls: Option<FtpCertificate>,
    /// TLS begins with the connection instead of with AUTH.
    pub implicit: bool,
}

/// What all sessions have in common.
#[derive(Debug)]
struct Shared {
    server: FtpServer,
    tls: Option<Arc<ServerConfig>>,
    sessions: AtomicUsize,
}

/// Serves until `stop` is set; `ready` is called with the address once it listens. Sessions under way end by themselves.
///
/// # Errors
/// It can't listen there, or its certificate isn't one.
pub fn serve(
    server: &FtpServer,
    stop: &AtomicBool,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), ServeError> {
    let failed = |source| ServeError::Listen { address: server.address, source };
    // As far as that is allowed; where there is none for a session, it is refused.
    let _ = raise_open_files(SESSIONS_MAX as u64 * SESSION_DESCRIPTORS);
    let listener = TcpListener::bind(server.address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    let tls = server.tls.as_ref().map(|tls| tls.configure(&[])).transpose()?;
    let shared = Arc::new(Shared { server: server.clone(), tls, sessions: AtomicUsize::new(0) });
    ready(listener.local_addr().map_err(failed)?);
    while !stop.load(Relaxed) {
        match listener.accept() {
            Ok((stream, peer)) => begin(&shared, stream, peer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait(&listener),
            // One connection that is gone, or no descriptor for it.
            Err(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
    Ok(())
}

/// Waits for a connection, a moment at most.
fn wait(listener: &TcpListener) {
    let _ = data::readable(listener, LOOK);
}

fn begin(shared: &Arc<Shared>, mut stream: TcpStream, peer: SocketAddr) {
    if shared.sessions.fetch_add(1, Relaxed) >= SESSIONS_MAX {
        shared.sessions.fetch_sub(1, Relaxed);
        let _ = stream.write_all(b"421 Too many sessions.\r\n");
        return;
    }
    let of_thread = Arc::clone(shared);
    let run = move || {
        // Whatever ends a session ends it: its client sees that.
        let _ = Session::begin(&of_thread, stream, peer).and_then(Session::run);
        of_thread.sessions.fetch_sub(1, Relaxed);
    };
    if thread::Builder::new().name("ftp".to_owned()).stack_size(STACK).spawn(run).is_err() {
        shared.sessions.fetch_sub(1, Relaxed);
    }
}
