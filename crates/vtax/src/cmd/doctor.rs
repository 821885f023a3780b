//! `vtax doctor`: what this host can really do.

use std::io::Write;

use anyhow::Context;
use vtax_sys::check::{Check, State};

use crate::exit::{Exit, Outcome};

/// What this host can do, each line proved by doing it, with the command that would fix what is missing.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut checks = vtax_lab::doctor::checks();
    checks.extend(vtax_vm::doctor::checks());
    checks.extend(services());
    let mut out = std::io::stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &checks).context("printing")?;
        writeln!(out).context("printing")?;
    } else {
        out.write_all(render(&checks).as_bytes()).context("printing")?;
    }
    Ok(Exit::Done)
}

/// The catalogue's services: which are installed.
fn services() -> Vec<Check> {
    vtax_service::packages()
        .into_iter()
        .map(|package| {
            let missing = package.missing();
            Check {
                name: format!("service {}", package.service),
                state: if missing { State::Missing } else { State::Ok },
                found: if missing { "not installed".to_owned() } else { package.program.to_owned() },
                fix: missing.then(|| format!("apt-get install {}", package.name)),
            }
        })
        .collect()
}

fn render(checks: &[Check]) -> String {
    let width = checks.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        let mark = match check.state {
            State::Ok => "ok      ",
            State::Degraded => "degraded",
            State::Missing => "missing ",
        };
        text += &format!("{mark}  {:<width$}  {}\n", check.name, check.found);
        if let Some(fix) = &check.fix {
            text += &format!("{:>10}{:<width$}  fix: {fix}\n", "", "");
        }
    }
    text
}
