//! Writes a made-up run with faults and its report, to look at:
//! `cargo run -p vtax-report --example fixture_ft --features fixture -- DIR [http|sip|modes|interval]`.

#![allow(clippy::print_stdout, reason = "an example's output")]

use vtax_report::fixture::ft::{Options, create};
use vtax_report::write_all;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: fixture_ft DIR [http|sip|modes|interval]")?;
    let options = match std::env::args().nth(2).as_deref() {
        Some("sip") => Options { sip: true, ..Options::default() },
        Some("modes") => Options { every_mode: true, ..Options::default() },
        Some("interval") => {
            Options { intervals_ms: vec![25, 50, 100, 200, 400], failovers: false, ..Options::default() }
        }
        _ => Options::default(),
    };
    print!("{}", write_all(&create(path.as_ref(), &options)?)?.table());
    Ok(())
}
