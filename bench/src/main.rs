//! Benchmarks against the peers, simulated proofs of the statistics, and long runs of failovers.

#![expect(clippy::print_stdout, reason = "a developer's tool: its output is its purpose")]

mod bench;
mod ft_chaos;
mod ft_soak;
mod guard;
mod place;
mod program;
mod sheet;
mod soundness;
mod soundness_coverage;
mod soundness_families;
mod soundness_hosts;
mod soundness_load;
mod soundness_real;
mod soundness_resolution;
mod soundness_row;
mod soundness_sessions;
mod soundness_verdicts;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

use crate::soundness_real::{ALONE, NEIGHBOURS};

const USAGE: &str = "usage: cargo xtask bench [NAME..]|soundness [NAME..|--real [N]|--neighbours [N]]|ft-soak [KILLS [kemari|remus|disk|colo..]]\
     |ft-chaos [--schedules N] [--seed S]";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            println!("vtax-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args.first() == Some(&"bench") && !guard::is_watched() {
        return guard::watch();
    }
    match args.as_slice() {
        ["bench", names @ ..] => bench::run(names),
        ["soundness", "--real"] => soundness_real::run(&ALONE, ALONE.usual),
        ["soundness", "--real", n] => {
            soundness_real::run(&ALONE, n.parse().context("a number of comparisons")?)
        }
        ["soundness", "--neighbours"] => soundness_real::run(&NEIGHBOURS, NEIGHBOURS.usual),
        ["soundness", "--neighbours", n] => {
            soundness_real::run(&NEIGHBOURS, n.parse().context("a number of comparisons")?)
        }
        ["soundness", names @ ..] => soundness::run(names),
        // Of the net bench, which runs it in a namespace.
        ["bare-ping"] => bench::net::bare_ping(),
        // Of the http bench, which measures what a process of it uses.
        ["bare-http", address, connections, seconds] => bench::bare::main(address, connections, seconds),
        // Of the hosts bench, which is each of its hosts.
        ["host-agent", "--dir", directory] => bench::hosts::host_end(directory),
        ["ft-chaos", options @ ..] => ft_chaos::run(options),
        ["ft-soak"] => ft_soak::run("100", &[]),
        ["ft-soak", kills, modes @ ..] => ft_soak::run(kills, modes),
        _ => bail!(USAGE),
    }
    .map(|()| ExitCode::SUCCESS)
}
