//! TLS on a command line, and what is printed of it.

use std::fmt::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::ValueEnum;
use vtax_load::{LatencyHistogram, TlsDetails, Verify};
use vtax_plan::model::TlsVersion;
use vtax_units::Nanos;

use super::output::times;

/// What a load offers a server that speaks TLS, and how it checks who that is.
#[derive(clap::Args)]
pub(super) struct Offer {
    /// The only version of TLS.
    #[arg(long, value_enum)]
    tls_version: Option<Version>,
    /// The only cipher suite of TLS, as IANA names it.
    #[arg(long)]
    pub(super) cipher: Option<String>,
    /// Check the server's certificate by the authorities of this file, in PEM or DER; without it, any will do.
    #[arg(long, value_name = "FILE")]
    authority: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Version {
    #[value(name = "1.2")]
    V12,
    #[value(name = "1.3")]
    V13,
}

impl Offer {
    /// Whether anything of it was said.
    pub(super) const fn is_said(&self) -> bool {
        self.tls_version.is_some() || self.cipher.is_some() || self.authority.is_some()
    }

    /// The only version; `None`: any.
    pub(super) fn version(&self) -> Option<TlsVersion> {
        self.tls_version.map(|version| match version {
            Version::V12 => TlsVersion::V12,
            Version::V13 => TlsVersion::V13,
        })
    }

    /// What the certificate of a server of this name or address is checked for.
    pub(super) fn verify(&self, name: &str) -> Result<Verify> {
        let Some(path) = &self.authority else { return Ok(Verify::Nothing) };
        let file = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
        let roots = vtax_load::authorities(file).with_context(|| format!("reading {}", path.display()))?;
        Ok(Verify::Authorities { name: name.to_owned(), roots })
    }
}

/// What the handshakes of a load were, in so much time.
pub(super) fn put_tls(out: &mut String, tls: &TlsDetails, duration: Nanos) -> fmt::Result {
    let seconds = duration.as_secs_f64().max(1e-9);
    let rate = |times: &LatencyHistogram| format!(" ({:.1}/s)", times.len() as f64 / seconds);
    put(out, tls, &rate)
}

/// Writes of the TLS of a load whose connections stay, for which a rate of handshakes says nothing.
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
