//! The certificate of an embedded server, and TLS with it.

use std::io;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};

use super::server::ServeError;

/// A certificate and its key, in DER.
#[derive(Clone)]
pub struct ServerCertificate {
    /// The certificate.
    pub certificate: Vec<u8>,
    /// Its key, PKCS #8.
    pub key: Vec<u8>,
}

impl ServerCertificate {
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

    /// TLS with it, 1.2 and 1.3; `protocols` are those of the next layer (ALPN).
    pub(super) fn configure(&self, protocols: &[&str]) -> Result<Arc<ServerConfig>, ServeError> {
        let refused = |error: rustls::Error| ServeError::System {
            operation: "use the certificate",
            source: io::Error::other(error),
        };
        let key = PrivateKeyDer::Pkcs8(self.key.clone().into());
        let chain = vec![CertificateDer::from(self.certificate.clone())];
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(refused)?
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(refused)?;
        // Tickets that the server needn't remember, so that any connection can resume.
        config.ticketer = ring::Ticketer::new().map_err(refused)?;
        config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
        Ok(Arc::new(config))
    }
}

impl std::fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ServerCertificate")
    }
}
