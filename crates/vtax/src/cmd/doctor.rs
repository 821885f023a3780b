//! `vtax doctor`: what this host can really do.

use vtax_sys::check::Check;
use vtax_vm::Cache;

use crate::cmd::many::{self, OnArgs};
use crate::exit::{Exit, Outcome};
use crate::out;

/// What this host can do, each line proved by doing it, with the command that would fix what is missing.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON: a list of {name, state, found, fix}.
    #[arg(long)]
    json: bool,
    /// Prove the accelerator and fault-tolerant pairs anew instead of trusting an earlier proof.
    #[arg(long, conflicts_with = "on")]
    refresh: bool,
    #[command(flatten)]
    on: OnArgs,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if args.on.is_given() {
        return many::doctor(&args.on, args.json, of_host);
    }
    let mut checks = vtax_lab::doctor::checks();
    let cache = Cache::of_user();
    let pairs = vtax_lab::pair_qemu::check(&cache, args.refresh);
    checks.extend(vtax_vm::checks::checks(&cache, args.refresh));
    checks.push(pairs);
    checks.extend(services());
    checks.extend(vtax_lab::path::checks());
    if args.json {
        out::json(&to_json(&checks))?;
    } else {
        out::text(&render(&checks))?;
    }
    Ok(Exit::Done)
}

fn to_json(checks: &[Check]) -> serde_json::Value {
    let one = |c: &Check| serde_json::json!({ "name": c.name, "state": c.state.word(), "found": c.found, "fix": c.fix });
    checks.iter().map(one).collect()
}

/// What another host's doctor told as JSON, as lines. It may be anyone's.
fn of_host(told: &serde_json::Value) -> String {
    let checks = told.as_array().map_or(&[][..], Vec::as_slice);
    let text = |check: &serde_json::Value, name: &str| -> String {
        let found = check[name].as_str().unwrap_or_default();
        found.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
    };
    let width = checks.iter().map(|c| text(c, "name").chars().count()).max().unwrap_or(0);
    let mut lines = String::new();
    for check in checks {
        lines += &format!(
            "{:<8}  {:<width$}  {}\n",
            text(check, "state"),
            text(check, "name"),
            text(check, "found")
        );
        if check["fix"].is_string() {
            lines += &format!("{:>10}{:<width$}  fix: {}\n", "", "", text(check, "fix"));
        }
    }
    lines
}

/// The catalogue's services: which are installed.
fn services() -> Vec<Check> {
    vtax_service::packages()
        .into_iter()
        .map(|package| {
            let name = format!("service {}", package.service);
            if package.missing() {
                Check::missing(name, "not installed", package.install)
            } else {
                Check::ok(name, package.program)
            }
        })
        .collect()
}

fn render(checks: &[Check]) -> String {
    let width = checks.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for check in checks {
        text += &format!("{:<8}  {:<width$}  {}\n", check.state.word(), check.name, check.found);
        if let Some(fix) = &check.fix {
            text += &format!("{:>10}{:<width$}  fix: {fix}\n", "", "");
        }
    }
    text
}
