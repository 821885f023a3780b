//! Where the numbers come from: facts about this machine.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

use sha2::{Digest, Sha256};
use vtax_plan::estimate::requirements;
use vtax_plan::model::{Plan, ServiceKind};
use vtax_probe::noise::HostProbe;
use vtax_store::provenance::{HostFacts, ProgramFacts};
use vtax_store::{PROVENANCE_VERSION, Provenance};
use vtax_sys::clock::unix_ms;
use vtax_units::hex;

/// Environment variables that change what the programs of a run do.
const VARIABLES: &[&str] =
    &["LANG", "LC_ALL", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "VTAX_CACHE", "LD_PRELOAD"];

/// Everything that is known before the first trial.
#[must_use]
pub fn provenance(plan: &Plan, plan_file: Option<String>, vtax_version: &str) -> Provenance {
    Provenance {
        version: PROVENANCE_VERSION,
        vtax_version: vtax_version.to_owned(),
        command_line: without_passwords(std::env::args()),
        plan_file,
        seed: plan.seed,
        started_unix_ms: unix_ms(),
        host: host(),
        packages: packages(plan),
        services: services(plan),
        environment: VARIABLES
            .iter()
            .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
            .collect(),
        facts: noise().into_iter().chain(machine_facts()).collect(),
        ..Provenance::default()
    }
}

/// The words of a command line without what follows a key for a password (`--set workload.sip.auth_password=…`): runs are passed on.
fn without_passwords(words: impl Iterator<Item = String>) -> Vec<String> {
    const KEY: &str = "password";
    let told = |mut word: String| {
        let value = word.match_indices(KEY).find_map(|(at, _)| {
            let rest = word[at + KEY.len()..].trim_start();
            let value = rest.strip_prefix(['=', ':'])?;
            Some(word.len() - value.len())
        });
        if let Some(value) = value {
            word.truncate(value);
            word.push_str("(not shown)");
        }
        word
    };
    words.map(told).collect()
}

/// The files of services of the user's own, by cell; their versions are known once they run.
fn services(plan: &Plan) -> BTreeMap<String, ProgramFacts> {
    let mut known: Vec<(&ServiceKind, BTreeMap<String, String>)> = Vec::new();
    let mut services = BTreeMap::new();
    for cell in &plan.cells {
        let kind = &cell.service.kind;
        let files = match known.iter().find(|(of, _)| *of == kind) {
            Some((_, files)) => files.clone(),
            None => vtax_service::own_files(kind),
        };
        if !files.is_empty() {
            known.push((kind, files.clone()));
            services.insert(cell.id.clone(), ProgramFacts { files, ..ProgramFacts::default() });
        }
    }
    services
}

/// Which signs of noise this host shows and which it doesn't.
fn noise() -> BTreeMap<String, String> {
    let cpus = vtax_sys::sched::allowed_cpus().unwrap_or_default();
    let Ok(found) = HostProbe::new(cpus).and_then(|mut probe| probe.coverage()) else {
        return BTreeMap::new();
    };
    let facts = [("noise.watched", found.told), ("noise.not_told_by_host", found.untold)];
    facts.into_iter().filter(|f| !f.1.is_empty()).map(|(k, v)| (k.to_owned(), v.join(", "))).collect()
}

/// What else tells two machines of the same model apart.
fn machine_facts() -> BTreeMap<String, String> {
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let facts = [
        ("host.microcode", field("/proc/cpuinfo", "microcode", ':')),
        ("host.clock_source", read(clock)),
        ("host.mitigations", mitigations()),
        ("host.command_line", read("/proc/cmdline").map(|line| settings(&line)).filter(|s| !s.is_empty())),
    ];
    facts.into_iter().filter_map(|(name, text)| Some((name.to_owned(), text?))).collect()
}

/// The kernel's word on each weakness of the processor (Documentation/ABI/testing/sysfs-devices-system-cpu).
fn mitigations() -> Option<String> {
    let directory = "/sys/devices/system/cpu/vulnerabilities";
    let mut found: Vec<String> = fs::read_dir(directory)
        .ok()?
        .filter_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            Some(format!("{name}: {}", read(&format!("{directory}/{name}"))?))
        })
        .collect();
    found.sort_unstable();
    (!found.is_empty()).then(|| found.join("; "))
}

/// What of a kernel's command line changes how fast it is. The rest names disks and may hold secrets.
fn settings(line: &str) -> String {
    const NAMES: [&str; 12] = [
        "mitigations",
        "nosmt",
        "isolcpus",
        "nohz_full",
        "rcu_nocbs",
        "intel_pstate",
        "amd_pstate",
        "idle",
        "processor.max_cstate",
        "intel_idle.max_cstate",
        "transparent_hugepage",
        "clocksource",
    ];
    let tells = |word: &&str| NAMES.contains(&word.split('=').next().unwrap_or_default());
    line.split_whitespace().filter(tells).collect::<Vec<_>>().join(" ")
}

/// Tells a vtax in a pod of Kubernetes on which node it is; its Job sets it.
const NODE_NAME: &str = "VTAX_NODE_NAME";

/// This machine.
#[must_use]
pub fn host() -> HostFacts {
    let uname = rustix::system::uname();
    HostFacts {
        name: machine_name(),
        kernel: uname.release().to_string_lossy().into_owned(),
        architecture: uname.machine().to_string_lossy().into_owned(),
        distribution: field("/etc/os-release", "PRETTY_NAME", '=').unwrap_or_default(),
        cpu_model: field("/proc/cpuinfo", "model name", ':').unwrap_or_default(),
        cpus: vtax_sys::sched::allowed_cpu_count(),
        cpu_quota: vtax_sys::sched::cpu_quota(),
        threads_per_core: threads_per_core(),
        memory_bytes: field("/proc/meminfo", "MemTotal", ':')
            .and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok())
            .map_or(0, |kib| kib * 1024),
        load_average: load_average(),
        virtualization: virtualization(),
        governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
    }
}

/// A name of this machine that stays: its host name, and the start of a hash of its machine id, since many
/// machines have the same host name. The id itself is to stay on the machine (machine-id(5)). In a pod it is the node's name, which the
/// pod is told: host names of pods are new each time.
#[must_use]
pub(crate) fn machine_name() -> String {
    if let Some(name) = std::env::var(NODE_NAME).ok().filter(|name| !name.is_empty()) {
        return name;
    }
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let name = if name.is_empty() { "unnamed".to_owned() } else { name };
    let Some(id) = read("/etc/machine-id") else { return name };
    let digest = Sha256::digest(format!("vtax machine name {id}"));
    format!("{name}-{}", hex(&digest[..4]))
}

fn read(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The first `name SEPARATOR value` line of a file, without quotes.
fn field(path: &str, name: &str, separator: char) -> Option<String> {
    fs::read_to_string(path).ok()?.lines().find_map(|line| {
        let (key, value) = line.split_once(separator)?;
        (key.trim() == name).then(|| value.trim().trim_matches('"').to_owned())
    })
}

fn threads_per_core() -> Option<u32> {
    let siblings = read("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")?;
    siblings.parse::<vtax_units::CpuSet>().ok().map(|set| set.len() as u32)
}

fn load_average() -> Option<[f64; 3]> {
    let text = read("/proc/loadavg")?;
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some([numbers.next()?, numbers.next()?, numbers.next()?])
}

/// `systemd-detect-virt` where it is installed, else the CPU's own hypervisor flag.
fn virtualization() -> Option<String> {
    let told = Command::new("systemd-detect-virt")
        .output()
        .ok()
        .map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    if let Some(told) = told.filter(|t| !t.is_empty()) {
        return Some(told);
    }
    let flags = field("/proc/cpuinfo", "flags", ':')?;
    flags.split_whitespace().any(|flag| flag == "hypervisor").then(|| "a hypervisor".to_owned())
}

/// The distribution's packages that take part in this plan.
fn package_names(plan: &Plan) -> BTreeSet<&'static str> {
    // These are told of every plan: a comparison takes what only one of two runs tells for a difference.
    let always = ["qemu-system-x86", "runc", "crun"];
    let needed = requirements(plan).into_iter().flat_map(|needed| needed.packages().iter().copied());
    always.into_iter().chain(needed).collect()
}

/// Their versions, where they are installed.
fn packages(plan: &Plan) -> BTreeMap<String, String> {
    let listing = Command::new("dpkg-query")
        .args(["--show", "--showformat=${db:Status-Status} ${Package} ${Version}\n"])
        .args(package_names(plan))
        .output();
    // Not a Debian: the services' own version lines have to do.
    let Ok(listing) = listing else { return BTreeMap::new() };
    String::from_utf8_lossy(&listing.stdout)
        .lines()
        .filter_map(|line| {
            let mut words = line.split(' ').filter(|w| !w.is_empty());
            let installed = words.next()? == "installed";
            installed.then_some(())?;
            Some((words.next()?.to_owned(), words.next()?.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_those_of_services_and_paths() {
        let text = "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: nginx\n\
                    paths:\n- ovs\n- pasta\n- wireguard\n- bridge: {name: leased, addresses: dhcp}\n\
                    - routed: {name: fabric, topology: leaf-spine}\n\
                    workload: {http: {target: /}}\nmeasure: capacity\n";
        let plan = vtax_plan::parse("p", text.as_bytes(), &[] as &[&str]);
        let plan = plan.unwrap_or_else(|e| panic!("{e}"));
        let of_paths = ["dnsmasq-base", "frr", "openvswitch-switch", "passt", "wireguard-tools"];
        let wanted = of_paths.into_iter().chain(["crun", "nginx", "qemu-system-x86", "runc"]);
        assert_eq!(package_names(&plan), wanted.collect::<BTreeSet<_>>());
    }

    #[test]
    fn a_command_line_is_kept_without_its_passwords() {
        let told = |word: &str| without_passwords([word.to_owned()].into_iter()).remove(0);
        for (word, kept) in [
            ("workload.sip.auth_password=s=3", "workload.sip.auth_password=(not shown)"),
            (
                "--set=workload.sip.subscribers.password=x",
                "--set=workload.sip.subscribers.password=(not shown)",
            ),
            (
                "workload.sip={scenario_file: a.xml, auth_password : x}",
                "workload.sip={scenario_file: a.xml, auth_password :(not shown)",
            ),
            ("plans/password.yaml", "plans/password.yaml"),
            ("", ""),
        ] {
            assert_eq!(told(word), kept);
        }
    }

    #[test]
    fn only_what_changes_speed_is_told_of_a_command_line() {
        let line = "root=/dev/sda1 mitigations=off quiet secret=x nosmt isolcpus=2,3";
        assert_eq!(settings(line), "mitigations=off nosmt isolcpus=2,3");
        assert_eq!(settings("root=/dev/sda1"), "");
    }
}
