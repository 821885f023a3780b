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
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use vtax_sys::sched::raise_open_files;

use super::server::ServeError;
use session::Session;

/// Sessions at once; one more is refused.
pub const SESSIONS_MAX: usize = 4096;
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

/// A certificate and its key, in DER.
#[derive(Clone)]
pub struct FtpCertificate {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// Its key, PKCS #8.
    pub key: Vec<u8>,
}

impl FtpCertificate {
    /// From files in PEM.
    ///
    /// # Errors
    /// They can't be read, or hold no certificate, or no key in PKCS #8.
    pub fn read(certificate: &Path, key: &Path) -> io::Result<Self> {
        let wrong = |error: pem::Error| io::Error::new(io::ErrorKind::InvalidData, error.to_string());
        let certificate = CertificateDer::from_pem_slice(&std::fs::read(certificate)?).map_err(wrong)?;
        let key = PrivatePkcs8KeyDer::from_pem_slice(&std::fs::read(key)?).map_err(wrong)?;
        Ok(Self { certificate: certificate.to_vec(), key: key.secret_pkcs8_der().to_vec() })
    }
}

impl std::fmt::Debug for FtpCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FtpCertificate")
    }
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
    let tls = server.tls.as_ref().map(configure).transpose()?;
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

fn configure(certificate: &FtpCertificate) -> Result<Arc<ServerConfig>, ServeError> {
    let refused = |error: rustls::Error| ServeError::System {
        operation: "use the certificate",
        source: io::Error::other(error),
    };
    let key = PrivateKeyDer::Pkcs8(certificate.key.clone().into());
    let chain = vec![CertificateDer::from(certificate.certificate.clone())];
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(refused)?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(refused)?;
    // Tickets that the server needn't remember, so that any data connection can resume.
    config.ticketer = ring::Ticketer::new().map_err(refused)?;
    Ok(Arc::new(config))
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
