//! What a host can measure, a line for each capability.

use vtax_sys::check::{Check, State};
use vtax_units::shortened;

/// Longest account of what was found.
const FOUND: usize = 90;

/// What makes a capability, and what is told of it.
struct Kind {
    name: &'static str,
    /// The points that it hangs on.
    points: Points,
    /// What is told where all of it is there.
    can: &'static str,
}

enum Points {
    /// All of these are needed; the first is told of where nothing is missing.
    All(&'static [&'static str]),
    /// Each of those whose name begins so is one more thing that can be measured.
    Each(&'static str),
}

const KINDS: [Kind; 10] = [
    Kind {
        name: "native services",
        points: Points::All(&["namespaces", "network namespace", "veth", "bridge", "rate limit", "CPUs"]),
        can: "in namespaces of their own, over cables and bridges",
    },
    Kind { name: "containers", points: Points::All(&["containers", "overlay"]), can: "" },
    Kind {
        name: "virtual machines",
        points: Points::All(&["accelerator", "QEMU", "guest kernel", "tap"]),
        can: "",
    },
    Kind { name: "user-mode Linux", points: Points::All(&["user-mode Linux", "tap"]), can: "" },
    Kind { name: "fault tolerance", points: Points::All(&["fault-tolerant pairs"]), can: "" },
    Kind { name: "services", points: Points::Each("service "), can: "" },
    Kind { name: "network paths", points: Points::Each("path "), can: "" },
    Kind {
        name: "strict limits",
        points: Points::All(&["control groups"]),
        can: "CPUs and memory are held by control groups",
    },
    Kind {
        name: "signs of noise",
        points: Points::All(&["noise"]),
        can: "the host tells what disturbs a trial",
    },
    Kind { name: "time", points: Points::All(&["clock"]), can: "" },
];

/// A capability as this host has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Capability {
    name: &'static str,
    state: State,
    found: String,
    /// What would add what is missing.
    fix: Option<String>,
}

/// Every capability that something was found out about.
pub(super) fn capabilities(checks: &[Check]) -> Vec<Capability> {
    KINDS.iter().filter_map(|kind| capability(kind, checks)).collect()
}

fn capability(kind: &Kind, checks: &[Check]) -> Option<Capability> {
    match kind.points {
        Points::All(names) => {
            let of: Vec<&Check> = names.iter().filter_map(|n| checks.iter().find(|c| c.name == *n)).collect();
            let first = of.first()?;
            let rank = |state: State| state as u8;
            // The first of those that stand worst: what comes later often hangs on it.
            let worst = of.iter().rev().max_by_key(|check| rank(check.state)).unwrap_or(first);
            let found = match worst.state {
                State::Ok if kind.can.is_empty() => line(&first.found).to_owned(),
                State::Ok => kind.can.to_owned(),
                _ => format!("{}: {}", worst.name, line(&worst.found)),
            };
            Some(Capability {
                name: kind.name,
                state: worst.state,
                found: shortened(&found, FOUND),
                fix: worst.fix.clone(),
            })
        }
        Points::Each(start) => {
            let of: Vec<(&str, &Check)> =
                checks.iter().filter_map(|c| Some((c.name.strip_prefix(start)?, c))).collect();
            let (can, not): (Vec<_>, Vec<_>) =
                of.iter().partition(|(_, check)| check.state != State::Missing);
            let names =
                |of: &[&(&str, &Check)]| of.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            let (state, found) = match (can.len(), not.len()) {
                (0, 0) => return None,
                (_, 0) => (State::Ok, names(&can)),
                (0, _) => (State::Missing, format!("none of {}", names(&not))),
                _ => (State::Degraded, format!("{}; not {}", names(&can), names(&not))),
            };
            let fix = not.first().and_then(|(_, check)| check.fix.clone());
            // One command that installs all of them, where there are several.
            let all = match start {
                "service " => "vtax setup --services",
                _ => "vtax setup --paths",
            };
            let fix = if not.len() > 1 { Some(all.to_owned()) } else { fix };
            Some(Capability { name: kind.name, state, found: shortened(&found, FOUND), fix })
        }
    }
}

/// The first line of what was found.
fn line(found: &str) -> &str {
    found.lines().next().unwrap_or_default().trim_end()
}

/// The capabilities as text, a line each.
pub(super) fn text(capabilities: &[Capability]) -> String {
    let width = capabilities.iter().map(|c| c.name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for capability in capabilities {
        let word = match capability.state {
            State::Ok => "yes",
            State::Degraded => "partly",
            State::Missing => "no",
        };
        let fix = match (&capability.fix, capability.state) {
            (Some(fix), State::Degraded | State::Missing) => format!("  -> {fix}"),
            _ => String::new(),
        };
        text += &format!("{word:<6}  {:<width$}  {}{fix}\n", capability.name, capability.found);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_capability_is_a_line_with_what_would_add_it() {
        let checks = [
            Check::ok("namespaces", "as root"),
            Check::ok("veth", "made"),
            Check::degraded("rate limit", "no tbf", "sudo modprobe sch_tbf"),
            Check::ok("QEMU", "/usr/bin/qemu 7.2"),
            Check::missing("guest kernel", "none\n  QEMU said:\n    Assertion failed", "vtax setup"),
            Check::missing("tap", "refused", "sudo modprobe tun"),
            Check::ok("user-mode Linux", "/usr/bin/linux.uml 6.1"),
            Check::ok("service redis", "/usr/bin/redis-server"),
            Check::missing("service nginx", "not installed", "apt-get install nginx"),
            Check::missing("service apache", "not installed", "apt-get install apache2"),
            Check::degraded("path routed", "in a guest", "modprobe mpls"),
        ];
        let text = text(&capabilities(&checks));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "partly  native services   rate limit: no tbf  -> sudo modprobe sch_tbf",
                "no      virtual machines  guest kernel: none  -> vtax setup",
                "no      user-mode Linux   tap: refused  -> sudo modprobe tun",
                "partly  services          redis; not nginx, apache  -> vtax setup --services",
                "yes     network paths     routed",
            ]
        );
    }

    #[test]
    fn every_point_of_a_capability_is_checked_somewhere() {
        // Names are those of the checks; one that is spelled otherwise would silently be left out.
        let sources = concat!(
            include_str!("../../../../vtax-lab/src/doctor.rs"),
            include_str!("../../../../vtax-lab/src/nodes/uml.rs"),
            include_str!("../../../../vtax-vm/src/checks.rs"),
            include_str!("../../../../vtax-lab/src/pair_qemu.rs"),
            include_str!("clock.rs"),
        );
        for kind in &KINDS {
            if let Points::All(names) = kind.points {
                for name in names {
                    assert!(sources.contains(&format!("\"{name}\"")), "nothing checks {name}");
                }
            }
        }
    }
}
