//! What a host can measure, a line for each capability.

use vtax_sys::check::{Check, State, name};
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
        points: Points::All(&[
            name::NAMESPACES,
            name::NETWORK_NAMESPACE,
            name::VETH,
            name::BRIDGE,
            name::RATE_LIMIT,
            name::CPUS,
        ]),
        can: "in namespaces of their own, over cables and bridges",
    },
    Kind { name: "containers", points: Points::All(&[name::CONTAINERS, name::OVERLAY]), can: "" },
    Kind {
        name: "virtual machines",
        points: Points::All(&[name::ACCELERATOR, name::QEMU, name::GUEST_KERNEL, name::TAP]),
        can: "",
    },
    Kind { name: "user-mode Linux", points: Points::All(&[name::USER_MODE_LINUX, name::TAP]), can: "" },
    Kind { name: "fault tolerance", points: Points::All(&[name::FAULT_TOLERANT_PAIRS]), can: "" },
    Kind { name: "services", points: Points::Each(name::SERVICE), can: "" },
    Kind { name: "network paths", points: Points::Each(name::PATH), can: "" },
    Kind {
        name: "strict limits",
        points: Points::All(&[name::CONTROL_GROUPS]),
        can: "CPUs and memory are held by control groups",
    },
    Kind {
        name: "signs of noise",
        points: Points::All(&[name::NOISE]),
        can: "the host tells what disturbs a trial",
    },
    Kind { name: "time", points: Points::All(&[name::CLOCK]), can: "" },
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
    let refused = checks.iter().find(|check| check.name == name::NAMESPACES && check.state == State::Missing);
    let without = |kind: &Kind| refused.and_then(|refused| without_namespaces(kind.name, refused));
    KINDS.iter().filter_map(|kind| without(kind).or_else(|| capability(kind, checks))).collect()
}

/// How a capability stands where namespaces are refused; `None` where it needs none. Other points hang on them, and were never tried.
fn without_namespaces(name: &'static str, refused: &Check) -> Option<Capability> {
    let (state, found) = match name {
        "native services" => (State::Degraded, format!("over loopback alone: {}", line(&refused.found))),
        "containers" | "virtual machines" | "user-mode Linux" => {
            (State::Missing, "need namespaces".to_owned())
        }
        "fault tolerance" => (State::Missing, "needs namespaces".to_owned()),
        "network paths" => (State::Degraded, "loopback alone, and `nic` with generators".to_owned()),
        _ => return None,
    };
    Some(Capability { name, state, found: shortened(&found, FOUND), fix: refused.fix.clone() })
}

fn capability(kind: &Kind, checks: &[Check]) -> Option<Capability> {
    match kind.points {
        Points::All(names) => all(kind, names, checks),
        Points::Each(start) => each(kind.name, start, checks),
    }
}

/// A capability that needs all of these points.
fn all(kind: &Kind, names: &[&str], checks: &[Check]) -> Option<Capability> {
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

/// A capability of which each thing whose name begins so is a part. One that has several points, as a service of several packages, is there
/// where all of them are.
fn each(name: &'static str, start: &str, checks: &[Check]) -> Option<Capability> {
    let of: Vec<(&str, &Check)> =
        checks.iter().filter_map(|c| Some((c.name.strip_prefix(start)?, c))).collect();
    let missing: Vec<&(&str, &Check)> =
        of.iter().filter(|(_, check)| check.state == State::Missing).collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in &of {
        if !names.contains(name) {
            names.push(*name);
        }
    }
    let (not, can): (Vec<&str>, Vec<&str>) =
        names.into_iter().partition(|name| missing.iter().any(|(other, _)| other == name));
    let (state, found) = match (can.len(), not.len()) {
        (0, 0) => return None,
        (_, 0) => (State::Ok, can.join(", ")),
        (0, _) => (State::Missing, format!("none of {}", not.join(", "))),
        // What is missing isn't what is cut off where that is long.
        _ => (State::Degraded, format!("not {}; {}", not.join(", "), can.join(", "))),
    };
    let mut fixes: Vec<&str> = Vec::new();
    for fix in missing.iter().filter_map(|(_, check)| check.fix.as_deref()) {
        if !fixes.contains(&fix) {
            fixes.push(fix);
        }
    }
    let fix = match fixes.len() {
        0 => None,
        // One command installs all services.
        2.. if start == name::SERVICE => Some("vtax setup --services".to_owned()),
        _ => Some(fixes.join("; ")),
    };
    Some(Capability { name, state, found: shortened(&found, FOUND), fix })
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
                "partly  services          not nginx, apache; redis  -> vtax setup --services",
                "yes     network paths     routed",
            ]
        );
    }

    #[test]
    fn without_namespaces_native_services_are_measured_over_loopback_alone() {
        let checks = [
            Check::missing("namespaces", "refused here", "sudo sysctl x"),
            Check::ok("CPUs", "4 may be used"),
            Check::ok("accelerator", "KVM"),
            Check::ok("path ovs", "installed"),
            Check::ok("clock", "kept by NTP"),
        ];
        let text = text(&capabilities(&checks));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "partly  native services   over loopback alone: refused here  -> sudo sysctl x",
                "no      containers        need namespaces  -> sudo sysctl x",
                "no      virtual machines  need namespaces  -> sudo sysctl x",
                "no      user-mode Linux   need namespaces  -> sudo sysctl x",
                "no      fault tolerance   needs namespaces  -> sudo sysctl x",
                "partly  network paths     loopback alone, and `nic` with generators  -> sudo sysctl x",
                "yes     time              kept by NTP",
            ]
        );
    }

    #[test]
    fn a_service_counts_where_all_its_packages_are_there_and_what_is_missing_is_never_cut_off() {
        let mut checks: Vec<Check> =
            (0..20).map(|n| Check::ok(format!("service installed-{n}"), "there")).collect();
        let setup = "apt-get install mariadb-server";
        checks.insert(0, Check::ok("service kamailio", "/usr/sbin/kamailio"));
        checks.push(Check::missing("service kamailio", "not installed", setup));
        let services = capabilities(&checks).pop().unwrap();
        assert!(services.found.starts_with("not kamailio; installed-0, installed-1, "), "{}", services.found);
        assert_eq!(services.found.matches("kamailio").count(), 1, "{}", services.found);
        assert_eq!(services.fix.as_deref(), Some(setup));
    }

    #[test]
    fn paths_that_are_missing_have_each_its_own_fix() {
        let missing = |name: &str, fix: &str| Check::missing(format!("path {name}"), "not here", fix);
        let (modules, setup) = ("sudo modprobe vxlan", "vtax setup --paths");
        let fix = |checks: &[Check]| capabilities(checks).pop().and_then(|c| c.fix);
        assert_eq!(fix(&[missing("nat", setup), missing("pasta", setup)]), Some(setup.to_owned()));
        let all = [
            missing("vxlan", modules),
            missing("nat", setup),
            missing("pasta", setup),
            missing("routed", "vtax setup --labs"),
        ];
        assert_eq!(fix(&all), Some(format!("{modules}; {setup}; vtax setup --labs")));
    }
}
