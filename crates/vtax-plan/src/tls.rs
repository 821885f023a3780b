//! TLS in plans, whichever protocol is within it: its versions, cipher suites and groups, and what of them is refused.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::diagnose::{Report, shorten};
use crate::model::{Cell, ServiceKind, Workload};
use crate::source::Span;

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "1.2")]
    V12,
    /// TLS 1.3.
    #[serde(rename = "1.3")]
    V13,
}

/// Cipher suites that the generator has, as IANA names them.
pub const TLS_CIPHERS: [&str; 9] = [
    "TLS_AES_256_GCM_SHA384",
    "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
];

/// Groups of the key exchange that the generator has, as IANA names them.
pub const TLS_GROUPS: [&str; 3] = ["x25519", "secp256r1", "secp384r1"];

/// Whether an end that speaks this version alone, or any where it is `None`, has this suite.
pub(crate) fn is_of(version: Option<TlsVersion>, cipher: Option<&str>) -> bool {
    // The names of TLS 1.2's suites tell the key exchange too: TLS_ECDHE_ECDSA_WITH_...; those of 1.3 don't (RFC 8446, B.4).
    let own = |cipher: &str| if cipher.contains("_WITH_") { TlsVersion::V12 } else { TlsVersion::V13 };
    version.zip(cipher).is_none_or(|(version, cipher)| own(cipher) == version)
}

/// Reports a suite that isn't known, or that none of these versions has.
pub(crate) fn check(cipher: &str, span: Span, versions: &[Option<TlsVersion>], report: &mut Report) {
    if !TLS_CIPHERS.contains(&cipher) {
        report
            .error(span, format!("`{}` is no cipher suite that is known here", shorten(cipher)))
            .help(format!("there are {}", TLS_CIPHERS.join(", ")));
    } else if !versions.is_empty() && !versions.iter().any(|version| is_of(*version, Some(cipher))) {
        report
            .error(span, format!("`{cipher}` is of another version of TLS than what is asked for"))
            .help("suites with `_WITH_` in their names are of TLS 1.2, the others of TLS 1.3");
    }
}

/// Reports keys that are given, each at its place, where nothing has TLS.
pub(crate) fn refuse(given: &[(&str, Option<Span>)], way_out: &str, report: &mut Report) {
    for (key, span) in given.iter().filter_map(|(key, span)| Some((key, (*span)?))) {
        report.error(span, format!("`{key}` means nothing without TLS")).help(way_out);
    }
}

/// The one cipher suite that a workload asks for.
fn cipher(workload: &Workload) -> Option<&String> {
    match workload {
        Workload::Http(http) => http.tls.as_ref()?.cipher.as_ref(),
        Workload::Ftp(ftp) => ftp.requests.tls.as_ref()?.cipher.as_ref(),
        Workload::Sip(sip) => sip.tls.cipher.as_ref(),
        Workload::Script(script) => script.tls.cipher.as_ref(),
        Workload::Network(_) | Workload::Redis(_) | Workload::Storage(_) | Workload::Desktop(_) => None,
    }
}

/// Reports suites for which a service has no certificate: every trial would fail.
pub(crate) fn check_certificates(cells: &[Cell], span: Span, report: &mut Report) {
    let of_rsa = |cell: &Cell| {
        let cipher = cipher(&cell.workload)?;
        let is_own = matches!(cell.service.kind, ServiceKind::Command(_));
        (cipher.contains("_RSA_") && !is_own).then(|| (cipher.clone(), cell.service.name.clone()))
    };
    let found: BTreeSet<_> = cells.iter().filter_map(of_rsa).collect();
    for (cipher, service) in found {
        report
            .error(span, format!("`{cipher}` needs a certificate with an RSA key, and `{service}` is given one with an ECDSA key"))
            .help("ask for the suite with `ECDSA` in its name");
    }
}
