//! The real executor: a fresh testbed for each trial.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use vtax_agent::message::{NodeFacts, ServiceReady};
use vtax_lab::{CpuHalf, Lab, LabOptions};
use vtax_plan::model::{Budget, Cell, DiskFormat, Environment, EnvironmentKind, Plan, ServiceKind};
use vtax_probe::others::Others;
use vtax_probe::{Probe, Scope};
use vtax_store::provenance::{self, AcceleratorFacts, ProgramFacts};
use vtax_store::record::TrialRecord;
use vtax_store::{Provenance, TrialWriter};
use vtax_sys::chain;
use vtax_units::{Bytes, fact};
use vtax_vm::Cache;

use crate::duet;
use crate::error::RunError;
use crate::failover::skipped;
use crate::family;
use crate::guests::{Guests, PairSupport};
use crate::manual_testbed::{BuiltManualTestbed, ManualTestbed, ManualTestbedError};
use crate::observe::Observer;
use crate::provision::Provisions;
use crate::quiesce::Quiesce;
use crate::runner::Executor;
use crate::stop::Stop;
use crate::trial::{Setting, Trial};
use crate::trial_request::TrialRequest;

/// Memory that QEMU takes beside its guest's, at the least.
const QEMU_MEMORY: Bytes = Bytes::from_mib(64);

/// Builds testbeds and measures on them.
pub struct LabExecutor {
    lab: Lab,
    budget: Budget,
    stop: Stop,
    guests: Guests,
    notes: Vec<String>,
    services: BTreeMap<String, ServiceReady>,
    nodes: BTreeMap<String, NodeFacts>,
    limits: BTreeMap<String, String>,
    facts: BTreeMap<String, String>,
    provisions: Provisions,
    quiesce: Quiesce,
    /// The host's other processes; `None` where they can't be seen.
    others: Option<Arc<Others>>,
}

impl LabExecutor {
    /// An executor for this plan. Guests are prepared now, where the plan has any.
    ///
    /// # Errors
    ///
    /// [`RunError::Lab`] where this host has no room for a testbed.
    pub fn new(
        plan: &Plan,
        mut options: LabOptions,
        pairs: &PairSupport,
        stop: Stop,
        observer: &dyn Observer,
    ) -> Result<Self, RunError> {
        let mut provisions = Provisions::default();
        let mut guests = Guests::prepare(plan, pairs, &mut provisions, observer);
        options.guest_template = guests.template.clone();
        options.stop = stop.flag();
        let mut notes = std::mem::take(&mut guests.notes);
        notes.extend(skipped(plan));
        notes.extend(vtax_plan::estimate::left_out(plan));
        notes.extend(hidden(plan));
        let lab = Lab::new(options).map_err(|e| RunError::Lab(Box::new(e)))?;
        Ok(Self {
            lab,
            budget: plan.budget.clone(),
            stop,
            guests,
            notes,
            services: BTreeMap::new(),
            nodes: BTreeMap::new(),
            limits: BTreeMap::new(),
            facts: BTreeMap::new(),
            provisions,
            quiesce: Quiesce::default(),
            others: None,
        })
    }

    /// Names the host's busiest process where others' load disturbs a trial. In namespaces that takes the host's `/proc`;
    /// without it, or where it shows nothing, none is named.
    pub fn watch_others(&mut self, host_proc: Option<&OwnedFd>) {
        let others = match self.lab.has_namespaces() {
            true => host_proc.and_then(|proc| Others::of_host(proc).ok()),
            false => Some(Others::here()),
        };
        self.others = others.map(Arc::new);
    }

    /// The testbed of a cell to work in by hand, with its service where that is asked for.
    ///
    /// # Errors
    ///
    /// Where something is refused or missing; what was built until then is taken down.
    pub fn build_manual_testbed(
        &mut self,
        plan: &Plan,
        cell: &Cell,
        service: bool,
        observer: &dyn Observer,
    ) -> Result<BuiltManualTestbed, ManualTestbedError> {
        let provisioning = if service {
            let found = self.provisions.for_cell(cell, observer, &mut self.notes);
            Some(found.map_err(ManualTestbedError::Unknown)?)
        } else {
            None
        };
        ManualTestbed::of_cell(&mut self.lab, plan, cell, provisioning, &self.stop, observer)
    }

    /// Why this cell can't be measured on this host, with the way out; `None` where it can.
    pub fn obstacle(&mut self, cell: &Cell) -> Option<String> {
        if let Some(missing) = vtax_service::missing_beside(&cell.service, Cache::of_user().dir()) {
            return Some(missing.to_string());
        }
        if cell.memory_limit(&self.budget).is_some() && !self.lab.limits_memory() {
            return Some(NO_LIMIT.to_owned());
        }
        if let Some(why) = self.of_several(cell).or_else(|| self.guests.without_balloons(cell)) {
            return Some(why);
        }
        // Without namespaces there is but the host's /tmp.
        let hidden = vtax_service::hidden(&cell.service).into_iter().find(|hidden| hidden.program);
        let hidden = hidden.map(|hidden| hidden.why).or_else(|| hidden_disk(cell));
        if let Some(why) = hidden.filter(|_| self.lab.has_namespaces()) {
            return Some(why);
        }
        let in_host_namespace = vtax_sys::caps::in_initial_user_namespace();
        if let Some(why) = cell.service.kind.misfit(&cell.environment.kind, in_host_namespace) {
            return Some(why);
        }
        let on_path = self.lab.path_obstacle(&cell.path);
        if let Some(obstacle) = on_path.or_else(|| self.guests.without_lossy_links(cell)) {
            // Routers may need a guest, and what keeps that away is known here.
            let why = cell.path.kind.routed().and(self.guests.missing.as_ref());
            return Some(why.map_or_else(|| obstacle.clone(), |why| format!("{obstacle}; guests: {why}")));
        }
        if let Some(missing) = vtax_service::missing_to_mount(&cell.service).filter(|_| cell.is_mounted()) {
            return Some(format!("to mount what {} has: {missing}", cell.service.name));
        }
        if let Some(missing) = without_disk_tools(cell) {
            return Some(missing);
        }
        let needs = match &cell.environment.kind {
            EnvironmentKind::Native if cell.is_mounted() => "clients that mount, which are virtual machines,",
            EnvironmentKind::Native => return None,
            EnvironmentKind::Container => "containers",
            EnvironmentKind::Vm(_) => "virtual machines",
            EnvironmentKind::Uml => "user-mode Linuxes",
        };
        if !self.lab.has_namespaces() {
            return Some(format!("{needs} need namespaces, which are refused here"));
        }
        match &cell.environment.kind {
            EnvironmentKind::Uml => self.lab.uml_release().err().map(|e| chain(&e)).or_else(no_tap),
            EnvironmentKind::Container => {
                self.lab.container_runtime().err().map(|e| chain(&e)).or_else(|| {
                    if cell.is_mounted() { self.guests.missing.clone().or_else(no_tap) } else { None }
                })
            }
            EnvironmentKind::Native | EnvironmentKind::Vm(_) => self
                .guests
                .missing
                .clone()
                .or_else(|| self.guests.without_driver(cell))
                .or_else(|| self.guests.without_memory(cell))
                .or_else(|| too_small(cell))
                .or_else(no_tap),
        }
    }
}

/// What a plan asks for that needs control groups of memory, where there are none.
const NO_LIMIT: &str = "`consolidation: {memory: limited}` needs memory control groups, which can't be used here \
                        (`vtax doctor` says why); `memory: promised` needs none";

/// Directories that a native node has of its own.
const OF_NODES: [&str; 3] = ["/tmp", "/run", "/dev/shm"];

/// What this host lacks to make the disks of a cell's virtual machines, with the way out.
fn without_disk_tools(cell: &Cell) -> Option<String> {
    let raid = cell.environment.kind.raid5().and_then(|_| vtax_service::missing_for_raid());
    let raid = raid.map(|missing| format!("to make a RAID: {missing}"));
    raid.or_else(|| without_qemu_img(cell, &std::env::var_os("PATH").unwrap_or_default()))
}

/// Why a disk in QEMU's own format can't be made with the programs that are in `path`; `None` where the cell has no such disk, too.
fn without_qemu_img(cell: &Cell, path: &OsStr) -> Option<String> {
    let is_made = cell.services().any(|service| family::storage_directory(&service.kind).is_some());
    let is_qcow2 = |environment: &Environment| match &environment.kind {
        EnvironmentKind::Vm(vm) => vm.disk.is_some_and(|disk| disk.format == DiskFormat::Qcow2),
        EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => false,
    };
    let is_asked = is_made && cell.environments().any(is_qcow2);
    let is_there = || std::env::split_paths(path).any(|place| place.join("qemu-img").is_file());
    (is_asked && !is_there()).then(|| {
        "to make a disk in qcow2: qemu-img is not installed; `vtax setup` installs it (qemu-utils)".to_owned()
    })
}

/// Why a native system wouldn't see the directory of the host in which its disk is made, with the way out.
fn hidden_disk(cell: &Cell) -> Option<String> {
    let native = cell.environments().zip(cell.services());
    let mut native = native.filter(|(environment, _)| matches!(environment.kind, EnvironmentKind::Native));
    native
        .find_map(|(_, service)| hidden_directory(&service.kind, &family::storage_directory(&service.kind)?))
}

/// The same of one service, whose disk is made in this directory.
fn hidden_directory(service: &ServiceKind, directory: &Path) -> Option<String> {
    let place = below_own(directory)?;
    // Servers have no such option.
    let option = if matches!(service, ServiceKind::Disk(_)) { "`directory`, or " } else { "" };
    Some(format!(
        "the disk's directory {} is below {place}, of which a native node has its own; set {option}\
         VTAX_CACHE outside of /tmp, /run and /dev/shm",
        directory.display()
    ))
}

/// Which of a native node's own directories hides this one, which need not be there yet.
fn below_own(directory: &Path) -> Option<&'static str> {
    let directory = std::path::absolute(directory).ok()?;
    let real = directory.ancestors().find_map(|there| there.canonicalize().ok())?;
    OF_NODES.into_iter().find(|place| {
        let real_place = Path::new(place).canonicalize();
        real_place.is_ok_and(|place| real.starts_with(place))
    })
}

impl LabExecutor {
    /// Why several systems can't stand at the same time, or those beside the service's own can't be.
    fn of_several(&mut self, cell: &Cell) -> Option<String> {
        if !cell.is_several() {
            return None;
        }
        if !self.lab.has_namespaces() {
            return Some(
                "several systems at the same time need namespaces, which are refused here".to_owned(),
            );
        }
        for beside in &cell.systems.beside {
            let missing = vtax_service::missing_beside(&beside.service, Cache::of_user().dir());
            let missing = missing.map(|missing| missing.to_string());
            let kind = beside.environment.as_ref().map(|environment| &environment.kind);
            let missing = missing.or_else(|| match kind? {
                EnvironmentKind::Native => None,
                EnvironmentKind::Container => self.lab.container_runtime().err().map(|e| chain(&e)),
                EnvironmentKind::Uml => self.lab.uml_release().err().map(|e| chain(&e)).or_else(no_tap),
                EnvironmentKind::Vm(_) => self.guests.missing.clone().or_else(no_tap),
            });
            if let Some(missing) = missing {
                return Some(format!("beside it, {}: {missing}", beside.name));
            }
        }
        let available = Probe::new(Scope::Processes(Vec::new())).and_then(|mut probe| probe.snapshot());
        let limit = cell.memory_limit(&self.budget);
        too_many_guests(cell, limit, Bytes(available.ok()?.memory.available_bytes))
    }
}

/// Why a cell's virtual machines, or what they are held to together, don't fit into the memory that the host has available.
fn too_many_guests(cell: &Cell, limit: Option<Bytes>, available: Bytes) -> Option<String> {
    let memory = |environment: &Environment| match &environment.kind {
        EnvironmentKind::Vm(vm) => {
            // A copy is kept in another QEMU on this host.
            let copied = vm.fault_tolerance.as_ref().is_some_and(|ft| ft.mode.has_secondary());
            let one = vm.memory.0.saturating_add(QEMU_MEMORY.0);
            Some(if copied { one.saturating_mul(2) } else { one })
        }
        EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => None,
    };
    let guests: Vec<u64> = cell.environments().filter_map(memory).collect();
    let needed = guests.iter().fold(0, |sum: u64, memory| sum.saturating_add(*memory));
    let of_qemus = QEMU_MEMORY.0.saturating_mul(guests.len() as u64);
    let needed = limit.map_or(needed, |limit| needed.min(limit.0.saturating_add(of_qemus)));
    let mib = |bytes: u64| bytes >> 20;
    let way_out = match limit {
        Some(_) => "less `budget.sut_memory`, which holds them together",
        None => {
            "less `memory` for each, or `consolidation: {memory: limited}`, which holds them to the budget"
        }
    };
    (needed > available.0).then(|| {
        format!(
            "{} virtual machines need {} MiB of memory with their QEMUs, and this host has {} MiB available: fewer of \
             them, or {way_out}",
            guests.len(),
            mib(needed),
            mib(available.0)
        )
    })
}

/// Why the other host of a pair can't keep its guest.
fn too_small(cell: &Cell) -> Option<String> {
    match &cell.environment.kind {
        EnvironmentKind::Vm(vm) => vtax_lab::unprotectable(vm, vm.fault_tolerance.as_ref()?),
        EnvironmentKind::Native | EnvironmentKind::Container | EnvironmentKind::Uml => None,
    }
}

/// Arguments of services that seem to name what environments can't see. They may be something else, so the services are measured.
fn hidden(plan: &Plan) -> BTreeSet<String> {
    let hidden = |cell: &Cell| {
        let arguments = vtax_service::hidden(&cell.service).into_iter().filter(|hidden| !hidden.program);
        arguments.map(|hidden| format!("service {}: {}", cell.service.name, hidden.why)).collect::<Vec<_>>()
    };
    plan.cells.iter().flat_map(hidden).collect()
}

/// Why no tap can be made; found out by making one, which is gone when it is dropped.
fn no_tap() -> Option<String> {
    let error = vtax_sys::tap::create("vtaxprobe").err()?;
    Some(format!("{}; allow it with `sudo modprobe tun; sudo chmod 666 /dev/net/tun`", chain(&error)))
}

impl LabExecutor {
    /// A trial about to be made, its subscribers provided for.
    fn prepare<'a>(&mut self, setting: Setting<'a>) -> Trial<'a> {
        let provisioning = self.provisions.for_cell(setting.request.cell, setting.observer, &mut self.notes);
        Trial::new(setting, provisioning)
    }

    /// Writes a trial's files and takes note of what it tells about all.
    fn write(&mut self, mut trial: Trial<'_>, files: &mut TrialWriter) -> Result<TrialRecord, RunError> {
        let cell = trial.setting.request.cell;
        let environment = cell.environment.name.clone();
        self.notes.append(&mut trial.learnt.notes);
        self.nodes.append(&mut trial.learnt.nodes);
        if let Some(service) = trial.learnt.service.take() {
            self.services.insert(cell.id.clone(), service);
        }
        let record = trial.write(files)?;
        // Where an environment has several cards, each is told.
        let card = cell.parameters.get("nic").map(|card| format!(".nic-{card}")).unwrap_or_default();
        for (key, value) in &record.facts {
            if let Some(node) = fact::node_of(key, fact::LIMITS) {
                self.limits.insert(format!("{environment}/{node}"), value.clone());
            } else if let Some(node) = fact::node_of(key, fact::CARD) {
                self.facts.insert(format!("card.{environment}{card}/{node}"), value.clone());
            } else if let Some(node) = fact::node_of(key, fact::MACHINE) {
                // Where roles are drawn, a node is now on this host, now on that.
                let known = self.facts.entry(format!("machine.{environment}/{node}")).or_default();
                if known.is_empty() {
                    known.clone_from(value);
                } else if !known.split("; ").any(|one| one == value) {
                    *known += &format!("; {value}");
                }
            } else if key.starts_with(fact::VM) || key.starts_with(fact::CONTAINER) {
                self.facts.insert(key.clone(), value.clone());
            }
        }
        Ok(record)
    }
}

impl Executor for LabExecutor {
    fn trial(
        &mut self,
        request: &TrialRequest<'_>,
        files: &mut TrialWriter,
        observer: &dyn Observer,
    ) -> Result<Option<TrialRecord>, RunError> {
        let (budget, stop) = (self.budget.clone(), self.stop.clone());
        self.quiesce.wait(&stop, observer);
        if stop.asked() {
            return Ok(None);
        }
        let began = Instant::now();
        let others = self.others.clone();
        let lossy_links = self.guests.has_lossy_links(request.cell);
        let others = others.as_deref();
        let setting = Setting { request, budget: &budget, observer, stop: &stop, others, lossy_links };
        let mut trial = self.prepare(setting);
        trial.make(&mut self.lab);
        if self.stop.asked() {
            return Ok(None);
        }
        let record = self.write(trial, files)?;
        self.quiesce.note(&record, began.elapsed());
        Ok(Some(record))
    }

    fn pair(
        &mut self,
        requests: [&TrialRequest<'_>; 2],
        [first, second]: [&mut TrialWriter; 2],
        observer: &dyn Observer,
    ) -> Result<Option<[TrialRecord; 2]>, RunError> {
        let (budget, stop) = (self.budget.clone(), self.stop.clone());
        self.quiesce.wait(&stop, observer);
        if stop.asked() {
            return Ok(None);
        }
        let began = Instant::now();
        let others = self.others.clone();
        let others = others.as_deref();
        let mut pair = requests.map(|request| {
            let lossy_links = self.guests.has_lossy_links(request.cell);
            self.prepare(Setting { request, budget: &budget, observer, stop: &stop, others, lossy_links })
        });
        // Sides change halves from round to round: no two CPUs are quite the same.
        let half = if requests[0].round % 2 == 1 { CpuHalf::Upper } else { CpuHalf::Lower };
        duet::make(&mut pair, &mut self.lab, half);
        if self.stop.asked() {
            return Ok(None);
        }
        let [one, other] = pair;
        let records = [self.write(one, first)?, self.write(other, second)?];
        for record in &records {
            self.quiesce.note(record, began.elapsed() / 2);
        }
        Ok(Some(records))
    }

    fn take_notes(&mut self) -> Vec<String> {
        let unique: BTreeSet<String> = std::mem::take(&mut self.notes).into_iter().collect();
        unique.into_iter().collect()
    }

    fn describe(&self, provenance: &mut Provenance) {
        for (cell, ready) in &self.services {
            let facts = provenance.services.entry(cell.clone()).or_default();
            (facts.version, facts.command) = (ready.version.clone(), ready.command.clone());
        }
        for (node, facts) in &self.nodes {
            let facts = provenance::NodeFacts {
                kernel: facts.kernel.clone(),
                cpus: facts.cpus,
                memory_bytes: facts.memory_bytes,
                sockets: facts.sockets.clone(),
            };
            provenance.nodes.insert(node.clone(), facts);
        }
        provenance.limits.extend(self.limits.clone());
        provenance.facts.extend(self.facts.clone());
        if let Some(template) = self.lab.guest_template() {
            let kind = template.accelerator().word().to_owned();
            provenance.accelerator = Some(AcceleratorFacts { kind, reason: template.proof().detailed() });
            let command = self.facts.get(fact::VM_COMMAND).map(|c| vec![c.clone()]).unwrap_or_default();
            provenance.qemu = Some(ProgramFacts {
                version: template.qemu().version.clone(),
                command,
                ..ProgramFacts::default()
            });
        }
        if let Some(runtime) = self.facts.get(fact::CONTAINER_RUNTIME) {
            let version = runtime.clone();
            provenance.container_runtime = Some(ProgramFacts { version, ..ProgramFacts::default() });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vtax_plan::model::DiskOptions;

    #[test]
    fn a_disk_in_qcow2_takes_qemu_img() {
        let of = |environment: &str, service: &str| {
            let text = format!(
                "vtax: 1\nname: t\nbaseline: vm\nenvironments: [{{vm: {{name: vm, disk: {{{environment}}}}}}}]\n\
                 services: {service}\nworkload: {{storage: {{size: 8MiB}}}}\nmeasure: storage\n"
            );
            let none: &[&str] = &[];
            let plan = vtax_plan::parse("p", text.as_bytes(), none);
            plan.unwrap_or_else(|e| panic!("{}", e.to_text(false))).cells.remove(0)
        };
        let place = tempfile::tempdir().expect("a directory");
        let cell = of("format: qcow2", "disk");
        let why = without_qemu_img(&cell, place.path().as_os_str()).expect("it is missing");
        assert!(why.contains("qemu-img is not installed; `vtax setup` installs it"), "{why}");
        let served = of("format: qcow2", "{tgt: {backend: disk}}");
        assert!(without_qemu_img(&served, place.path().as_os_str()).is_some());
        for (environment, service) in [("format: raw", "disk"), ("format: qcow2", "tgt")] {
            let cell = of(environment, service);
            let told = without_qemu_img(&cell, place.path().as_os_str());
            assert_eq!(told, None, "{environment} of {service} is not made");
        }
        std::fs::write(place.path().join("qemu-img"), "").expect("a file");
        assert_eq!(without_qemu_img(&cell, place.path().as_os_str()), None);
    }

    /// Servers were told to set an option that they don't have.
    #[test]
    fn only_the_disk_is_told_of_its_directory() {
        let hidden = |service: &str| {
            let text = format!(
                "vtax: 1\nname: t\nbaseline: native\nenvironments: native\nservices: {service}\n\
                 workload: {{storage: {{size: 8MiB}}}}\nmeasure: storage\n"
            );
            let none: &[&str] = &[];
            let plan = vtax_plan::parse("p", text.as_bytes(), none);
            let plan = plan.unwrap_or_else(|e| panic!("{}", e.to_text(false)));
            hidden_directory(&plan.cells[0].service.kind, Path::new("/run/none")).expect("it is hidden")
        };
        let (disk, tgt) = (hidden("disk"), hidden("{tgt: {backend: disk}}"));
        assert!(disk.contains("set `directory`, or VTAX_CACHE outside of"), "{disk}");
        assert!(tgt.contains("set VTAX_CACHE outside of") && !tgt.contains("`directory`"), "{tgt}");
    }

    #[test]
    fn a_disk_below_a_native_nodes_own_directories_is_refused() {
        let text = "vtax: 1\nname: t\nbaseline: native\nenvironments: [native, container]\n\
                    workload: {storage: {}}\nmeasure: storage\n";
        let none: &[&str] = &[];
        let mut plan =
            vtax_plan::parse("p", text.as_bytes(), none).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
        let place = tempfile::tempdir().expect("a directory");
        let link = place.path().join("link");
        std::os::unix::fs::symlink("/run", &link).expect("a link");
        let mut of = |directory: &Path| {
            let directory = Some(directory.display().to_string());
            for cell in &mut plan.cells {
                cell.service.kind = ServiceKind::Disk(DiskOptions { directory: directory.clone() });
            }
            plan.cells.iter().map(hidden_disk).collect::<Vec<_>>()
        };
        for directory in [std::path::PathBuf::from("/run/none/disks"), link.clone(), link.join("none/disks")]
        {
            let told = of(&directory);
            let why = told[0].as_ref().expect("a native node doesn't see it");
            assert!(
                why.contains("is below /run, of which") && why.contains("VTAX_CACHE outside of"),
                "{why}"
            );
            assert_eq!(told[1], None, "a container does");
        }
        assert!(of(Path::new("/usr/none/disks")).iter().all(Option::is_none));
    }

    #[test]
    fn guests_that_do_not_fit_are_refused_with_the_numbers() {
        let text = "vtax: 1\nname: t\nbaseline: vm\nenvironments: [{vm: {count: 3, memory: 1GiB}}]\nservices: http\n\
                    workload: {http: {target: /bytes/100}}\nmeasure: throughput\nbudget: {sut_memory: 512MiB}\n";
        let none: &[&str] = &[];
        let plan =
            vtax_plan::parse("p", text.as_bytes(), none).unwrap_or_else(|e| panic!("{}", e.to_text(false)));
        let of = |limit, available| too_many_guests(&plan.cells[0], limit, Bytes::from_mib(available));
        let refused = of(None, 2048).expect("3 GiB don't fit into 2");
        assert!(
            refused.contains("3 virtual machines need 3264 MiB") && refused.contains("has 2048 MiB"),
            "{refused}"
        );
        assert!(refused.contains("`consolidation: {memory: limited}`"), "{refused}");
        assert_eq!(of(None, 3300), None);
        assert_eq!(of(Some(Bytes::from_mib(512)), 2048), None, "held to the budget they do");
        assert!(of(Some(Bytes::from_mib(512)), 512).is_some_and(|why| why.contains("need 704 MiB")));
    }
}
