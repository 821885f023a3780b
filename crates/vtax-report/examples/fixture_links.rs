//! Writes made-up network tests with their report, to look at:
//! `cargo run -p vtax-report --example fixture_links --features fixture -- DIR [stacks]`.

#![allow(clippy::print_stdout, reason = "an example's output")]

use vtax_report::fixture::links::{Options, create};
use vtax_report::write_all;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: fixture_links DIR [stacks]")?;
    let stacks = std::env::args().nth(2).is_some_and(|a| a == "stacks");
    let options = match stacks {
        false => Options::default(),
        true => Options {
            congestion: ["cubic", "reno", "bbr"].map(str::to_owned).into(),
            paths: ["gigabit", "bridged"].map(str::to_owned).into(),
            ..Options::default()
        },
    };
    let run = create(path.as_ref(), &options)?;
    print!("{}", write_all(&run)?.table());
    Ok(())
}
