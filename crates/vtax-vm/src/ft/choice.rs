//! Which QEMU keeps fault-tolerant pairs on this host.
//!
//! A version says little: releases that offer the same commands deadlock or damage memory. So what
//! counts is a proof: a guest was armed, its QEMU was killed, and memory and connection went on. Who
//! makes the proof (`vtax_lab::ft`) stores it here.

use std::fs;

use serde::{Deserialize, Serialize};
use vtax_sys::chain;

use crate::cache::Cache;
use crate::error::{Result, VmError};
use crate::kernel::GuestKernel;
use crate::qemu::Qemu;

/// Names of the files in the cache with the last proof that was passed: by the installed QEMU, by the
/// private copy. A failure isn't kept: on a busy host one may be chance.
const FILES: [&str; 2] = ["pairs.json", "pairs-private.json"];
/// Guests of a new proof before it counts as failed.
const ATTEMPTS: usize = 2;

/// The QEMU that keeps pairs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairQemu {
    /// The program.
    pub qemu: Qemu,
    /// Why it isn't the installed one; `None` where it is.
    pub installed_unusable: Option<String>,
}

impl PairQemu {
    /// In one line.
    #[must_use]
    pub fn line(&self) -> String {
        let version = &self.qemu.version;
        match &self.installed_unusable {
            None => format!("the installed QEMU {version}"),
            Some(reason) => format!("a private copy of QEMU {version}; the installed one: {reason}"),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    key: String,
}

fn file(qemu: &Qemu) -> &'static str {
    FILES[usize::from(qemu.unpacked_in.is_some())]
}

/// Everything the outcome depends on.
fn key(qemu: &Qemu, kernel: &GuestKernel) -> String {
    let place = qemu.program.display();
    format!("{place} | {} | {} {}", qemu.version, kernel.image.display(), kernel.release)
}

/// Stores that a proof was passed.
fn remember(cache: &Cache, qemu: &Qemu, kernel: &GuestKernel) {
    let stored = Stored { key: key(qemu, kernel) };
    let text = serde_json::to_vec(&stored).unwrap_or_default();
    // A cache that can't be written only means that the next one proves it again.
    let _ = cache.write(file(qemu), &text);
}

/// Whether it was proved before.
fn proved(cache: &Cache, qemu: &Qemu, kernel: &GuestKernel) -> bool {
    let stored = fs::read(cache.entry(file(qemu)));
    let stored = stored.ok().and_then(|text| serde_json::from_slice::<Stored>(&text).ok());
    stored.is_some_and(|stored| stored.key == key(qemu, kernel))
}

/// Chooses: the installed QEMU where it passes the proof, else the private copy where that does.
/// `prove` is called for what was not proved before, or with `refresh` in any case.
///
/// # Errors
///
/// [`VmError::NoPairQemu`] with the reason for each that was looked at.
pub fn choose(
    cache: &Cache,
    kernel: &GuestKernel,
    refresh: bool,
    mut prove: impl FnMut(&Qemu) -> Result<(), String>,
) -> Result<PairQemu> {
    let mut tried = Vec::new();
    for found in [Qemu::find(), Qemu::private(cache)] {
        let qemu = match found {
            Ok(qemu) => qemu,
            Err(e) => {
                tried.push(chain(&e));
                continue;
            }
        };
        if !qemu.new_enough_for_pairs() {
            let (major, minor) = Qemu::FIRST_FOR_PAIRS;
            let reason = format!(
                "QEMU {} is older than {major}.{minor}, whose checkpoints can be trusted",
                qemu.version
            );
            tried.push(reason);
            continue;
        }
        let outcome = if !refresh && proved(cache, &qemu, kernel) {
            Ok(())
        } else {
            let outcome = (1..ATTEMPTS).fold(prove(&qemu), |outcome, _| outcome.or_else(|_| prove(&qemu)));
            outcome.inspect(|()| remember(cache, &qemu, kernel))
        };
        match outcome {
            Ok(()) => {
                let installed_unusable = qemu.unpacked_in.is_some().then(|| tried.join("; "));
                return Ok(PairQemu { qemu, installed_unusable });
            }
            Err(reason) => tried.push(format!("QEMU {} failed its test: {reason}", qemu.version)),
        }
    }
    Err(VmError::NoPairQemu { tried })
}
