//! `vtax doctor`: what this host can really do.

mod summary;

use vtax_sys::check::Check;
use vtax_vm::Cache;

use crate::brief;
use crate::cmd::many::{self, OnArgs};
use crate::exit::{Exit, Outcome};
use crate::out;

/// What this host can measure, and the command that would add what it can't: a line for each capability.
///
/// Each is proved by doing it. --all shows every point that was checked.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Show every point that was checked, with what was found and what would fix it.
    #[arg(long, conflicts_with = "json")]
    all: bool,
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
        return Ok(Exit::Done);
    }
    let mut text = summary::text(&summary::capabilities(&checks));
    if args.all {
        text += &format!("\n{}", render(&checks));
    } else {
        text += &format!("\n`vtax doctor --all` shows the {} points that were checked\n", checks.len());
    }
    out::text(&text)?;
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
        let found = brief::shown(&check.found);
        text += &format!("{:<8}  {:<width$}  {found}\n", check.state.word(), check.name);
        if let Some(fix) = &check.fix {
            text += &format!("{:>10}{:<width$}  fix: {fix}\n", "", "");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_qemu_said_is_no_part_of_a_point() {
        let found = "no QEMU keeps pairs: ended\n  QEMU said:\n    ../a.c:1: f: Assertion failed.";
        let text = render(&[Check::degraded("fault-tolerant pairs", found, "vtax setup")]);
        assert!(
            text.starts_with("degraded  fault-tolerant pairs  no QEMU keeps pairs: ended [1 line"),
            "{text}"
        );
        assert!(!text.contains("Assertion") && text.contains("fix: vtax setup"), "{text}");
    }
}
