//! The `vtax` command: arguments, terminal, exit codes. The logic is in the other crates.

mod brief;
mod cmd;
mod exit;
mod front;
mod out;
mod progress;
mod screen;
mod signals;
mod time;
mod version;

use std::process::ExitCode;

use clap::Parser;

use crate::exit::Exit;

fn main() -> ExitCode {
    if vtax_agent::guest::is_init() {
        vtax_agent::guest::run();
    }
    let cli = match cmd::Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::BadInput } else { Exit::Done };
            // Nothing more can be said where even the terminal is gone.
            let _ = error.print();
            return exit.into();
        }
    };
    exit::tell_limits_of_host();
    brief::set_verbose(cli.verbose);
    let command = || cmd::run(&cli).unwrap_or_else(|failure| exit::report(&failure));
    exit::within_limits_of_host(command).into()
}
