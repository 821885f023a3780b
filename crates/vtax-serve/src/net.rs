//! Connections: how many, how long they may take to ask, TLS.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use vtax_sys::sched::bind_this_thread;

use crate::app::{App, Shared, router};
use crate::guard::Guard;
use crate::index::Index;
use crate::jobs::Jobs;
use crate::options::{Options, ServeError, TlsFiles};
use crate::write_deadline::WriteDeadline;

/// Connections at a time.
const CONNECTIONS: usize = 64;
/// How long a connection may take for the headers of a request, or for the start of TLS.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a client may let a write wait.
const WRITE_PATIENCE: Duration = Duration::from_secs(30);
/// Size of a connection's send buffer, in bytes; the kernel doubles it. A third of that must be read within `WRITE_PATIENCE`, so a client
/// has to read some 6 kB/s (socket(7), `sk_stream_is_writeable` of the kernel).
const SEND_BUFFER: usize = 256 << 10;
/// Most bytes of headers.
const HEADERS: usize = 16 << 10;
/// Threads that read files.
const READERS: usize = 4;

/// A server that listens and serves nobody yet.
pub struct Server {
    app: Shared,
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<ServerConfig>>,
    token: crate::Token,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Listens, and begins to look for runs.
    ///
    /// # Errors
    ///
    /// [`ServeError::PlainText`] where TLS is missing, [`ServeError::Root`], [`ServeError::Certificate`],
    /// [`ServeError::Listen`] or [`ServeError::System`].
    pub fn bind(options: Options) -> Result<Self, ServeError> {
        let Options { root, listen, names, token, tls, plain_text, start, cpus, cache } = options;
        if tls.is_none() && !listen.ip().is_loopback() && !plain_text {
            return Err(ServeError::PlainText { address: listen });
        }
        let tls = tls.as_ref().map(configure).transpose()?;
        let cache = cache.join("serve");
        let wrong = |source| ServeError::Root { path: root.clone(), source };
        let root = root.canonicalize().map_err(wrong)?;
        // What starts runs has a thread, which keeps the CPUs that this one has now.
        let jobs = start.map(|start| Jobs::new(start, &root, &cache)).transpose()?;
        if let Some(cpus) = cpus {
            // Where it isn't allowed, the page costs services what it costs.
            let _ = bind_this_thread(&cpus);
        }
        let index = Index::open(&root, &cache)?;
        let failed = |source| ServeError::Listen { address: listen, source };
        let listener = TcpListener::bind(listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let guard = Guard::new(token.clone(), address, &names, tls.is_some(), jobs.is_some());
        Ok(Self { app: Arc::new(App::new(guard, index, jobs)), listener, address, tls, token })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The link to open, with the token in it.
    #[must_use]
    pub fn link(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let host = match self.address.ip() {
            ip if ip.is_unspecified() => format!("localhost:{}", self.address.port()),
            _ => self.address.to_string(),
        };
        format!("{scheme}://{host}/?token={}", self.token.text())
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    ///
    /// [`ServeError::System`] where the runtime can't be made.
    pub fn run(self) -> Result<(), ServeError> {
        let failed = |source| ServeError::System { operation: "wait for connections", source };
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .max_blocking_threads(READERS)
            .thread_name("reader")
            .build()
            .map_err(failed)?;
        runtime.block_on(self.accept()).map_err(failed)
    }

    async fn accept(self) -> std::io::Result<()> {
        let listener = tokio::net::TcpListener::from_std(self.listener)?;
        let router = router(&self.app);
        let tls = self.tls.map(TlsAcceptor::from);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return Ok(()) };
            let Ok((stream, _)) = listener.accept().await else {
                // One that is gone, or no descriptor for it.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            // What can't be sent at once is sent later.
            let _ = stream.set_nodelay(true);
            // A write goes on once a third of this is free: a slow client that reads all the while must get there in time.
            let _ = rustix::net::sockopt::set_socket_send_buffer_size(&stream, SEND_BUFFER);
            let (router, tls) = (router.clone(), tls.clone());
            tokio::spawn(async move {
                connection(stream, tls, router).await;
                drop(place);
            });
        }
    }
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, router: Router) {
    // Below TLS, which takes what it can't write yet.
    let stream = WriteDeadline::new(stream, WRITE_PATIENCE);
    let Some(tls) = tls else { return talk(stream, router).await };
    if let Ok(Ok(stream)) = tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
        talk(stream, router).await;
    }
}

async fn talk<S>(stream: S, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(PATIENCE).max_buf_size(HEADERS);
    // A client that goes away, or says nothing that is HTTP, is nobody's trouble but its own.
    let _ = http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(router)).await;
}

fn configure(files: &TlsFiles) -> Result<Arc<ServerConfig>, ServeError> {
    let wrong = |path: &Path, reason: String| ServeError::Certificate { path: path.to_owned(), reason };
    let read = |path: &Path| std::fs::read(path).map_err(|e| wrong(path, e.to_string()));
    let certificate = read(&files.certificate)?;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&certificate)
        .collect::<Result<_, _>>()
        .map_err(|e| wrong(&files.certificate, e.to_string()))?;
    let key =
        PrivateKeyDer::from_pem_slice(&read(&files.key)?).map_err(|e| wrong(&files.key, e.to_string()))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|e| wrong(&files.certificate, e.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|e| wrong(&files.certificate, e.to_string()))?;
    Ok(Arc::new(config))
}
