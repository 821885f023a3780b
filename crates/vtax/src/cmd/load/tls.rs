//! TLS on a command line, and what is printed of it.

use std::fmt::{self, Write};
use std::path::Path;

use anyhow::{Context, Result};
use clap::ValueEnum;
use vtax_load::{LatencyHistogram, TlsDetails, Verify};
use vtax_plan::model::TlsVersion;
use vtax_units::Nanos;

use super::output::times;

/// The only version that is offered.
#[derive(Clone, Copy, ValueEnum)]
pub(super) enum Version {
    #[value(name = "1.2")]
    V12,
    #[value(name = "1.3")]
    V13,
}

impl Version {
    pub(super) fn version(self) -> TlsVersion {
        match self {
            Self::V12 => TlsVersion::V12,
            Self::V13 => TlsVersion::V13,
        }
    }
}

/// What the certificate of a server of this name is checked for: that this authority, a file in DER, has signed it; without one, nothing.
pub(super) fn verify(authority: Option<&Path>, name: &str) -> Result<Verify> {
    let Some(path) = authority else { return Ok(Verify::Nothing) };
    let root = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(Verify::Authorities { name: name.to_owned(), roots: vec![root] })
}

/// What the handshakes of a load were, in so much time.
pub(super) fn put_tls(out: &mut String, tls: &TlsDetails, duration: Nanos) -> fmt::Result {
    let seconds = duration.as_secs_f64().max(1e-9);
    let rate = |times: &LatencyHistogram| format!(" ({:.1}/s)", times.len() as f64 / seconds);
    put(out, tls, &rate)
}

/// The same of a load whose connections stay, for which a rate says nothing.
pub(super) fn put_handshakes(out: &mut String, tls: &TlsDetails) -> fmt::Result {
    put(out, tls, &|_| String::new())
}

fn put(out: &mut String, tls: &TlsDetails, rate: &dyn Fn(&LatencyHistogram) -> String) -> fmt::Result {
    let agreed = [&tls.agreed, &tls.group, &tls.alpn].into_iter().flatten();
    let agreed = agreed.map(String::as_str).collect::<Vec<_>>().join(", ");
    writeln!(
        out,
        "TLS       {}; handshakes: {} full{}, {} resumed{}, {} failed; {} connections without close_notify",
        if agreed.is_empty() { "no handshake in the recorded time" } else { &agreed },
        tls.full.len(),
        rate(&tls.full),
        tls.resumed.len(),
        rate(&tls.resumed),
        tls.failed,
        tls.without_close_notify
    )?;
    for (name, found) in [("full", &tls.full), ("resumed", &tls.resumed)] {
        if !found.is_empty() {
            writeln!(out, "          {name} handshake {}", times(found))?;
        }
    }
    Ok(())
}
