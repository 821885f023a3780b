//! Identities of runs and of what they are made of.

use sha2::{Digest, Sha256};
use vtax_report::Report;

/// The identity of the run, or one made of what is known of a run that has none.
pub(crate) fn run_id(report: &Report) -> String {
    let id = &report.provenance().run_id;
    let plain = id.len() == 32 && id.chars().all(|c| c.is_ascii_hexdigit()) && id.chars().any(|c| c != '0');
    if plain {
        return id.to_ascii_lowercase();
    }
    let provenance = report.provenance();
    hex(&format!("{} {} {}", report.plan().name, provenance.host.name, provenance.started_unix_ms), 16)
}

/// The start of the SHA-256 of a text, in hexadecimal.
pub(crate) fn hex(of: &str, bytes: usize) -> String {
    vtax_units::hex(&Sha256::digest(of.as_bytes())[..bytes])
}
