//! `make bench`: vtax beside its peers, in one run on one machine.
//!
//! Machines differ and are noisy, so a row is a ratio of two figures taken in turn, never a
//! stored constant.

pub(crate) mod bare;
mod desktop;
mod ftp;
pub(crate) mod hosts;
mod http;
mod http2;
mod https;
mod kamailio;
mod lab;
pub(crate) mod net;
mod probe;
mod redis;
mod report;
mod serve;
mod sip;
mod spread;
mod storage;
mod topology;
mod vm;
mod voice;

use crate::sheet::Sheet;
use anyhow::{Result, bail};

type Suite = (&'static str, fn(&mut Sheet) -> Result<()>);

const SUITES: &[Suite] = &[
    ("http", http::rows),
    ("https", https::rows),
    ("http2", http2::rows),
    ("spread", spread::rows),
    ("redis", redis::rows),
    ("ftp", ftp::rows),
    ("desktop", desktop::rows),
    ("sip", sip::rows),
    ("storage", storage::rows),
    ("mounted", storage::mounted::rows),
    ("net", net::rows),
    ("voice", voice::rows),
    ("probe", probe::rows),
    ("report", report::rows),
    ("serve", serve::rows),
    ("hosts", hosts::rows),
    ("lab", lab::rows),
    ("topology", topology::rows),
    ("vm", vm::rows),
];

/// Runs the suites named, or all, to their ends; fails where one of them did.
pub(crate) fn run(names: &[&str]) -> Result<()> {
    let suites: Vec<&str> = SUITES.iter().map(|(suite, _)| *suite).collect();
    if let Some(name) = names.iter().find(|name| !suites.contains(name)) {
        bail!("no suite `{name}`; there are {}", suites.join(", "));
    }
    let (mut sheet, mut failed) = (Sheet::default(), Vec::new());
    println!("{:<58} {:>12} {:>12} {:>7}  {:<14} goal", "", "ours", "peer", "ratio", "unit");
    for (name, suite) in SUITES.iter().filter(|(name, _)| names.is_empty() || names.contains(name)) {
        println!("bench {name} ...");
        if let Err(error) = suite(&mut sheet) {
            println!("bench {name}: {error:#}");
            failed.push(*name);
        }
    }
    if !failed.is_empty() {
        bail!("no whole result of {}", failed.join(", "));
    }
    Ok(())
}
