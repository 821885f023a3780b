//! Which test programs may run beside each other.

use super::program::Program;

/// Crates whose tests measure nothing, and disturb little when they run at the lowest priority: they compute and read files,
/// and those of vtax-serve also look at its pages in a browser.
const COMPUTE: &[&str] = &[
    "vtax-docs",
    "vtax-export",
    "vtax-hosts",
    "vtax-plan",
    "vtax-report",
    "vtax-serve",
    "vtax-stats",
    "vtax-store",
    "vtax-study",
    "vtax-topology",
    "vtax-units",
    "vtax-wire",
    "vtax-fixture",
    "xtask",
];

/// Programs that compare the processes, control groups and files of the machine before and after a run, which must be
/// none of another program's runs, or that take a CPU away from all others; of one of them only the tests with one of these words
/// in their names.
const LIST: &[(&str, &[&str])] = &[
    ("vtax tests/residue.rs", &[]),
    ("vtax-lab tests/fault_tolerance/main.rs", &["residue", "starved"]),
    ("vtax-lab tests/lab.rs", &[]),
];

/// Programs with tests that hardly do anything but wait, for timers of routers and switches: those tests run beside two programs that
/// measure.
const QUIET: &[(&str, &[&str])] = &[(
    "vtax-lab tests/paths.rs",
    &["routed, a fabric", "routed, a ring", "routed, cuts", "sdn testcontroller"],
)];

/// A program, and how many of its tests run at a time: some only wait until a lease is over. It limits those that have hosts itself.
pub(super) const WAITING: (&str, &str) = ("vtax tests/many.rs", "4");

/// Programs whose systems are guests, which have the same CPU in every run: beside one another each takes longer, while the generators'
/// CPU is idle.
const GUESTS: &[&str] = &[
    "vtax tests/run_desktop.rs",
    "vtax tests/run_ft.rs",
    "vtax tests/run_mounted.rs",
    "vtax tests/run_systems.rs",
    "vtax-agent tests/guest.rs",
    "vtax-agent tests/kamailio.rs",
    "vtax-lab tests/fault_tolerance/main.rs",
    "vtax-lab tests/guest.rs",
    "vtax-lab tests/paths.rs",
];

/// The programs by what may run beside them. First come those that measure: one of `guests` beside one of `measure`, and two of either
/// once the other has ended, with one of `quiet` beside them. With three that measure, trials were disturbed and made again: some
/// programs took seven times as long, and the whole suite no less. Then come one of `list` and one of `compute`, and two of those once
/// `list` has ended.
#[derive(Default)]
pub(super) struct Lanes {
    pub(super) guests: Vec<Program>,
    pub(super) measure: Vec<Program>,
    pub(super) quiet: Vec<Program>,
    pub(super) list: Vec<Program>,
    pub(super) compute: Vec<Program>,
}

impl Lanes {
    pub(super) fn of(programs: Vec<Program>) -> Self {
        let mut lanes = Self::default();
        for program in programs {
            let guests = GUESTS.contains(&program.name.as_str());
            let computes = COMPUTE.contains(&program.package.as_str());
            let rest = rest_of(program, LIST, &mut lanes.list);
            let Some(rest) = rest.and_then(|rest| rest_of(rest, QUIET, &mut lanes.quiet)) else { continue };
            let lane = match (guests, computes) {
                (true, _) => &mut lanes.guests,
                (false, true) => &mut lanes.compute,
                (false, false) => &mut lanes.measure,
            };
            lane.push(rest);
        }
        lanes
    }
}

/// What is left of a program whose tests with one of some words in their names are put into a lane.
fn rest_of(program: Program, parts: &[(&str, &[&str])], lane: &mut Vec<Program>) -> Option<Program> {
    match parts.iter().find(|(name, _)| *name == program.name) {
        None => Some(program),
        Some((_, [])) => {
            lane.push(program);
            None
        }
        Some((_, words)) => {
            let [named, others] = program.halves(words);
            lane.push(named);
            Some(others)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::tests::named;
    use super::*;
    use crate::place::root;

    #[test]
    fn each_program_has_the_lane_of_its_name_or_its_package() {
        let pairs = "vtax-lab tests/fault_tolerance/main.rs";
        let paths = "vtax-lab tests/paths.rs";
        let all = ["vtax tests/residue.rs", pairs, paths, "vtax tests/cli.rs", "vtax-stats src/lib.rs"];
        let lanes = Lanes::of(all.map(named).to_vec());
        let told = |lane: Vec<Program>| -> Vec<String> {
            lane.into_iter().map(|program| [vec![program.name], program.filter].concat().join(" ")).collect()
        };
        assert_eq!(told(lanes.measure), ["vtax tests/cli.rs"]);
        let guests = told(lanes.guests);
        assert_eq!(guests[0], format!("{pairs} (but residue, starved) --skip residue --skip starved"));
        assert!(guests[1].ends_with(" --skip routed, cuts --skip sdn testcontroller"), "{guests:?}");
        let quiet = told(lanes.quiet);
        assert!(quiet.len() == 1 && quiet[0].ends_with(" routed, cuts sdn testcontroller"), "{quiet:?}");
        assert_eq!(told(lanes.compute), ["vtax-stats src/lib.rs"]);
        let alone = format!("{pairs} (residue, starved) residue starved");
        assert_eq!(told(lanes.list), ["vtax tests/residue.rs", &alone]);
    }

    /// Else a program that was renamed would run beside what it disturbs.
    #[test]
    fn every_program_that_is_named_is_there() {
        for name in LIST.iter().chain(QUIET).map(|(name, _)| name).chain(GUESTS).chain([&WAITING.0]) {
            let (package, source) = name.split_once(' ').expect("a package and its source");
            assert!(root().join("crates").join(package).join(source).exists(), "{name}");
        }
        for package in COMPUTE.iter().filter(|package| **package != "xtask") {
            assert!(root().join("crates").join(package).exists(), "{package}");
        }
    }
}
