//! TLS of one session: within RFB, as VeNCrypt has it, or around it, as a tunnel has it.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection};

use crate::LoadError;
use crate::any_certificate::AnyCertificate;

/// Bytes that are taken from the kernel at once: what they decrypt to is shorter.
const CIPHER: usize = 32 * 1024;

/// What all sessions of a load have in common.
#[derive(Debug)]
pub(super) struct TlsSettings {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl TlsSettings {
    /// Any certificate will do: that of a service is made for its run, and nobody else can be there.
    pub(super) fn new(target: IpAddr) -> Result<Self, LoadError> {
        let provider = ring::default_provider();
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(rustls::ALL_VERSIONS)
            .map_err(|error| LoadError::Spec { field: "security", reason: error.to_string() })?;
        let any = Arc::new(AnyCertificate { algorithms });
        let mut config = builder.dangerous().with_custom_certificate_verifier(any).with_no_client_auth();
        // Who comes is another user.
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config), name: ServerName::from(target) })
    }

    /// One session. `clear` is what was said before TLS and isn't sent yet.
    pub(super) fn connect(&self, clear: &mut Vec<u8>) -> Result<Tls, rustls::Error> {
        let mut connection = ClientConnection::new(Arc::clone(&self.config), self.name.clone())?;
        // What a user says is short; how much may wait is bounded where it is sent.
        connection.set_buffer_limit(None);
        let cipher = vec![0; CIPHER].into_boxed_slice();
        Ok(Tls { connection, cipher, sealed: std::mem::take(clear) })
    }
}

/// TLS of one session.
pub(super) struct Tls {
    connection: ClientConnection,
    /// What the kernel has goes here.
    pub(super) cipher: Box<[u8]>,
    /// What is to be sent.
    pub(super) sealed: Vec<u8>,
}

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Decrypts so many bytes of `cipher` into `plain`, which is longer; how many there are then.
    ///
    /// # Errors
    /// The server's bytes aren't TLS, or not what was agreed.
    pub(super) fn open(&mut self, came: usize, plain: &mut [u8]) -> Result<usize, rustls::Error> {
        let mut cipher = &self.cipher[..came];
        let mut opened = 0;
        while !cipher.is_empty() {
            let before = (cipher.len(), opened);
            // From memory; an error says that what is decrypted must be fetched first, which comes next.
            let _ = self.connection.read_tls(&mut cipher);
            self.connection.process_new_packets()?;
            // 0: the server says that nothing more comes; an error: nothing more is there.
            while let Ok(more @ 1..) = self.connection.reader().read(&mut plain[opened..]) {
                opened += more;
            }
            if (cipher.len(), opened) == before {
                return Err(rustls::Error::General("bytes after the end of TLS".to_owned()));
            }
        }
        Ok(opened)
    }

    /// Encrypts what is to be said, and adds what TLS has to say for itself.
    pub(super) fn seal(&mut self, plain: &mut Vec<u8>) {
        // Both write to memory, which takes all.
        let _ = self.connection.writer().write_all(plain);
        plain.clear();
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut self.sealed).is_err() {
                break;
            }
        }
    }
}
