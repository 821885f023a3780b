//! Writes a made-up IMS benchmark with its report, to look at and to time:
//! `cargo run -p vtax-report --example fixture_ims --features fixture -- DIR [large]`.

#![allow(clippy::print_stdout, reason = "an example's output")]

use std::time::Instant;

use vtax_report::fixture::ims::{Options, create};
use vtax_report::write_all;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: fixture_ims DIR [large]")?;
    let large = std::env::args().nth(2).is_some_and(|a| a == "large");
    let options = match large {
        false => Options::default(),
        true => Options {
            repetitions: 1,
            step: 1800,
            steps: 60,
            every_scenario: true,
            capacities: [630.0, 620.0],
            ..Options::default()
        },
    };
    let run = create(path.as_ref(), &options)?;
    let started = Instant::now();
    print!("{}", write_all(&run)?.table());
    println!("report: {:.2} s", started.elapsed().as_secs_f64());
    Ok(())
}
