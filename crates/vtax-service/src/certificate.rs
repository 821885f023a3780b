//! Certificates that are made for one run.

use std::io;
use std::net::IpAddr;

use rcgen::{CertificateParams, KeyPair, SanType};

/// A certificate that signs itself, and its key.
pub struct Certificate {
    /// In DER.
    pub certificate: Vec<u8>,
    /// PKCS #8 in DER.
    pub key: Vec<u8>,
    /// Both in PEM, the certificate first.
    pub pem: [String; 2],
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificate")
    }
}

impl Certificate {
    /// For a server at this address: ECDSA on P-256, as servers have today.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn new(address: IpAddr) -> io::Result<Self> {
        let key = KeyPair::generate().map_err(io::Error::other)?;
        let mut params = CertificateParams::default();
        params.subject_alt_names.push(SanType::IpAddress(address));
        let certificate = params.self_signed(&key).map_err(io::Error::other)?;
        Ok(Self {
            certificate: certificate.der().to_vec(),
            key: key.serialize_der(),
            pem: [certificate.pem(), key.serialize_pem()],
        })
    }
}
