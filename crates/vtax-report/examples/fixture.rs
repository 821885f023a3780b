//! Writes a made-up run with its report, to look at: `cargo run -p vtax-report --example fixture --features fixture -- DIR`.

#![allow(clippy::print_stdout, reason = "an example's output")]

use vtax_report::{fixture, write_all};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: fixture DIR [TARGET...]")?;
    let targets = std::env::args().skip(2).collect();
    let options = fixture::Options { targets, ..fixture::Options::default() };
    let run = fixture::create(path.as_ref(), &options)?;
    print!("{}", write_all(&run)?.table());
    Ok(())
}
