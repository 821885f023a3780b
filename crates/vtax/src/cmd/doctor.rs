//! `vtax doctor`: what this host can really do.

mod clock;
mod places;
mod summary;

use std::io::{IsTerminal, Write};

use vtax_sys::check::{Check, State, name};
use vtax_sys::clock::WallClock;
use vtax_sys::sysctl;
use vtax_units::{drives_terminal, fact};
use vtax_vm::Cache;

use crate::brief;
use crate::cmd::on::{self, OnArgs};
use crate::exit::{Exit, Outcome};
use crate::out;

/// What the names of the doctor's own directories begin with. One that a killed doctor left is removed by the next.
pub(super) const DIRECTORIES: &str = "vtax-doctor-";

/// What this host can measure, and the command that would add what it can't: a line for each capability.
///
/// What the kernel must allow is proved by doing it; services, and the programs that paths need, are only looked for, not
/// started. --all shows every point that was checked.
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
        return on::doctor(&args.on, args.json, |answer| of_host(answer, args.all));
    }
    let clock = WallClock::look();
    say("trying namespaces, networks and containers");
    let mut checks = vtax_lab::doctor::checks();
    let cache = Cache::of_user();
    say("proving fault-tolerant pairs (up to a minute where no proof is kept)");
    let pairs = vtax_lab::pair_qemu::check(&cache, args.refresh);
    say("booting a guest's kernel");
    checks.extend(vtax_vm::checks::checks(&cache, args.refresh));
    checks.push(pairs);
    say("looking at directories, services and paths");
    checks.extend(places::checks(cache.dir()));
    checks.extend(vtax_service::checks(cache.dir()));
    checks.extend(vtax_lab::path::checks());
    checks.push(clock::check(&clock));
    checks.push(sockets());
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
    out::printable(&text)?;
    Ok(Exit::Done)
}

/// By what TCP sends on this host, and so in all environments whose kernel can.
fn sockets() -> Check {
    let settings = sysctl::sockets();
    let of = |setting: &str| settings.get(setting).map_or("unknown", String::as_str);
    let (sends_by, window) = (of(fact::CONGESTION_CONTROL), of("ipv4/tcp_rmem"));
    Check::ok(
        name::SOCKETS,
        format!("TCP sends by {sends_by}, receives with tcp_rmem {window}; guests take it over"),
    )
}

/// Tells who waits at a terminal what is being done. It is a plain line: no thread may be started yet.
fn say(what: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        // Nothing more can be said where even standard error is gone.
        let _ = writeln!(err, "doctor: {what}");
    }
}

fn to_json(checks: &[Check]) -> serde_json::Value {
    let one = |c: &Check| serde_json::json!({ "name": c.name, "state": c.state.word(), "found": c.found, "fix": c.fix });
    checks.iter().map(one).collect()
}

/// What another host's doctor answered as JSON, as this host's is shown.
fn of_host(answer: &serde_json::Value, all: bool) -> String {
    let checks = parse_checks(answer);
    let capabilities = summary::capabilities(&checks);
    if all || capabilities.is_empty() { render(&checks) } else { summary::text(&capabilities) }
}

/// The points in the answer. They may be anyone's: what isn't one is left out, and nothing in them moves a terminal's cursor.
fn parse_checks(answer: &serde_json::Value) -> Vec<Check> {
    let plain = |value: &serde_json::Value| -> Option<String> {
        let of = |c: char| if drives_terminal(c) && c != '\n' { ' ' } else { c };
        value.as_str().map(|text| text.chars().map(of).collect())
    };
    let point = |check: &serde_json::Value| {
        let states = [State::Ok, State::Degraded, State::Missing];
        let state = states.into_iter().find(|state| check["state"] == state.word())?;
        let name = plain(&check["name"])?.replace('\n', " ");
        Some(Check { name, state, found: plain(&check["found"])?, fix: plain(&check["fix"]) })
    };
    answer.as_array().map_or(&[][..], Vec::as_slice).iter().filter_map(point).collect()
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
        let text = render(&[Check::missing("fault-tolerant pairs", found, "vtax setup")]);
        assert!(
            text.starts_with("missing   fault-tolerant pairs  no QEMU keeps pairs: ended [1 line"),
            "{text}"
        );
        assert!(!text.contains("Assertion") && text.contains("fix: vtax setup"), "{text}");
    }

    /// Whoever reads a point and asks `vtax explain` for it gets an answer.
    #[test]
    fn every_point_is_explained() {
        use vtax_sys::check::name;
        let points = [
            name::NAMESPACES,
            name::USER_NAMESPACE,
            name::NETWORK_NAMESPACE,
            name::NETLINK,
            name::VETH,
            name::BRIDGE,
            name::RATE_LIMIT,
            name::TAP,
            name::CPUS,
            name::NOISE,
            name::CONTROL_GROUPS,
            name::OVERLAY,
            name::CONTAINERS,
            name::QEMU,
            name::GUEST_KERNEL,
            name::ACCELERATOR,
            name::VHOST_NET,
            name::FAULT_TOLERANT_PAIRS,
            name::USER_MODE_LINUX,
            name::CLOCK,
            name::SOCKETS,
        ];
        for point in points {
            assert!(matches!(vtax_docs::explain(point), vtax_docs::Explained::Found { .. }), "{point}");
        }
    }

    #[test]
    fn another_host_is_shown_as_this_one_is() {
        let checks =
            [Check::ok("containers", "crun 1.8"), Check::missing("tap", "refused\x1b[2J", "modprobe tun")];
        let mut answer = to_json(&checks);
        answer.as_array_mut().unwrap().push(serde_json::json!({"name": "odd", "state": "?", "found": 1}));
        let short = of_host(&answer, false);
        assert!(short.starts_with("yes     containers") && short.contains("-> modprobe tun"), "{short}");
        let long = of_host(&answer, true);
        assert!(long.contains("missing   tap         refused [2J"), "{long}");
        // What this vtax has no summary of is shown point by point.
        let newer = serde_json::json!([{"name": "later", "state": "ok", "found": "x", "fix": null}]);
        assert!(of_host(&newer, false).starts_with("ok        later  x"));
        assert_eq!(of_host(&serde_json::json!("x"), true), "");
    }
}
