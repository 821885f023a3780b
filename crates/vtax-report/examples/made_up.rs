//! Writes a made-up run with its report, to look at: `cargo run -p vtax-report --example made_up -- KIND DIR [TARGET...]`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example's output")]

use std::path::Path;
use std::time::Instant;

use vtax_report::write_all;
use vtax_store::{RunDir, StoreError};

const USAGE: &str = "usage: made_up http|sip|sip-large|storage|san|network|network-stacks|ft|ft-sip|ft-modes|ft-interval|ft-routed DIR [TARGET...]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (kind, path) = arguments.next().zip(arguments.next()).ok_or(USAGE)?;
    let run = create(&kind, path.as_ref(), arguments.collect())?.ok_or(USAGE)?;
    let started = Instant::now();
    print!("{}", write_all(&run)?.table());
    eprintln!("report: {:.2} s", started.elapsed().as_secs_f64());
    Ok(())
}

fn create(kind: &str, path: &Path, targets: Vec<String>) -> Result<Option<RunDir>, StoreError> {
    use vtax_fixture::{ft, network, sip, storage};
    let run = match kind {
        "http" => vtax_fixture::create(path, &vtax_fixture::Options { targets, ..Default::default() })?,
        "sip" => sip::create(path, &sip::Options::default())?,
        "sip-large" => {
            let large = sip::Options {
                repetitions: 1,
                step: 1800,
                steps: 60,
                every_scenario: true,
                capacities: [630.0, 620.0],
                ..Default::default()
            };
            sip::create(path, &large)?
        }
        "storage" => storage::create(path)?,
        "san" => storage::create_served(path)?,
        "network" => network::create(path, &network::Options::default())?,
        "network-stacks" => {
            let stacks = network::Options {
                congestion: ["cubic", "reno", "bbr"].map(str::to_owned).into(),
                paths: ["gigabit", "bridged"].map(str::to_owned).into(),
                ..Default::default()
            };
            network::create(path, &stacks)?
        }
        "ft" => ft::create(path, &ft::Options::default())?,
        "ft-sip" => ft::create(path, &ft::Options { sip: true, ..Default::default() })?,
        "ft-modes" => ft::create(path, &ft::Options { every_mode: true, ..Default::default() })?,
        "ft-routed" => ft::create(path, &ft::Options { routed: true, ..Default::default() })?,
        "ft-interval" => {
            let intervals_ms = vec![25, 50, 100, 200, 400];
            ft::create(path, &ft::Options { intervals_ms, failovers: false, ..Default::default() })?
        }
        _ => return Ok(None),
    };
    Ok(Some(run))
}
