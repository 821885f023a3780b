//! Everything that `make` and CI call.

#![expect(clippy::print_stdout, reason = "a developer's tool: its output is its purpose")]

mod archive;
mod deb;
mod fuzz;
mod image;
mod kubernetes;
mod licences;
mod place;
mod reproducible;
mod suite;
mod tasks;
mod torture;

use std::process::ExitCode;

use anyhow::{Result, bail};
use suite::Compiler;

const USAGE: &str = "usage: cargo xtask check|test [--check]|bench [NAME..]|soundness [NAME..|--real [N]|--neighbours [N]]|ft-soak [KILLS [kemari|remus|disk|colo..]]|ft-chaos [--schedules N] [--seed S]\
                     |fuzz [SECONDS|--inputs N] [TARGET..]|torture [SECONDS]|reproducible|k8s-test|test-tools|deb|image|package|licences";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["check"] => tasks::check(),
        ["test"] => suite::run(Compiler::Plain),
        ["test", "--check"] => tasks::check_text().and_then(|()| suite::run(Compiler::Linting)),
        ["bench", ..] => tasks::setup(&tasks::vtax()).and_then(|()| tasks::measure(&args)),
        ["soundness" | "ft-soak" | "ft-chaos", ..] => tasks::measure(&args),
        ["fuzz", rest @ ..] => fuzz::arguments(rest).and_then(|(until, targets)| fuzz::fuzz(until, targets)),
        ["k8s-test", filter @ ..] => kubernetes::test(filter),
        ["test-tools"] => tasks::test_tools(),
        ["reproducible"] => reproducible::check(),
        ["torture"] => torture::run_for("600"),
        ["torture", seconds] => torture::run_for(seconds),
        ["deb"] => deb::deb(),
        ["image"] => image::image(),
        ["package"] => tasks::package(),
        ["licences"] => licences::write(),
        _ => bail!(USAGE),
    }
}
