//! Whether a server, or a virtual machine's disk or memory, can hold and do what a workload asks for: every trial would fail otherwise.

use vtax_units::Bytes;

use super::model::{StorageAccess, StorageCache, StorageWorkload};
use super::raw::StorageRaw;
use crate::diagnose::Report;
use crate::model::{
    Cell, EnvironmentKind, GaneshaBackend, GaneshaOptions, Protocol, Service, ServiceKind, StorageTest,
    VmOptions, Workload,
};
use crate::raw::WorkloadRaw;
use crate::resolve::variants::{Named, Variants};

/// What ext4 takes of a unit for itself, at least.
const FILE_SYSTEM: u64 = 24 << 20;
/// What it takes of a virtual disk.
const OF_DISK: u64 = 8 << 20;
/// What the load leaves free of the disk that it runs on.
const SPARE: u64 = 64 << 20;
/// What units in a guest's memory can't have of the half that its `/run` is: its kernel isn't part of what is halved, and others'
/// files are there as well.
const OF_RUN: u64 = 32 << 20;

/// Reports what the services can't do.
pub(crate) fn check_served(workload: &WorkloadRaw, services: &[Named<Service>], report: &mut Report) {
    let WorkloadRaw::Storage(storage) = workload else { return };
    for service in services {
        let variants = service.variants.0.iter().map(|variant| &variant.value.kind);
        if let Some((message, help)) = variants.filter_map(|kind| misfit(kind, storage)).next() {
            report.error(service.span, format!("`{}` {message}", service.name)).help(help);
        }
    }
}

/// Leaves out tests of names whose cache is to be cold, unless each service's files are mounted: pages of files are dropped, but what
/// the kernel knows of names it forgets only where a volume is mounted anew. All cells have the same tests.
pub(crate) fn leave_out_cold_names(
    raw: &WorkloadRaw,
    workloads: &mut Variants<Workload>,
    services: &[Named<Service>],
    report: &mut Report,
) {
    let WorkloadRaw::Storage(storage) = raw else { return };
    let kinds = || services.iter().flat_map(|service| &service.variants.0).map(|variant| &variant.value.kind);
    let is_mounted = |workload: &StorageWorkload| {
        kinds().all(|kind| workload.access_to(kind) == Some(StorageAccess::Mounted))
    };
    let of_storage = |workload: &Workload| matches!(workload, Workload::Storage(it) if is_mounted(it));
    if workloads.0.iter().all(|variant| of_storage(&variant.value)) {
        return;
    }
    for variant in &mut workloads.0 {
        let Workload::Storage(workload) = &mut variant.value else { continue };
        let count = workload.tests.len();
        workload.tests.retain(|test| test.cache != StorageCache::Cold || !test.operation.of_names());
        if workload.tests.is_empty() && count > 0 {
            report
                .error(
                    storage.cache.span,
                    "names are forgotten only where a volume is mounted anew, so it can't be `cold` for `create`, `list` and `remove`",
                )
                .help("write `access: mounted` with services that are mounted, or leave out one of both");
            return;
        }
    }
}

/// What a service can't do, and what to write instead.
fn misfit(kind: &ServiceKind, storage: &StorageRaw) -> Option<(String, &'static str)> {
    let longest = storage.size.value.items.iter().map(|item| item.value).max()?;
    let cold = storage.cache.value.items.iter().any(|item| item.value.0 == StorageCache::Cold);
    let is_server = kind.facts().protocol == Some(Protocol::Storage) && !matches!(kind, ServiceKind::Disk(_));
    if is_server && cold && !kind.serves_disk() {
        let why = "keeps what it serves in memory, which can't be cold".to_owned();
        return Some((why, "write `backend: disk` for it, or `cache: as-is` or `warm`"));
    }
    match kind {
        ServiceKind::Tgt(options) => misfit_of_units((options.luns, options.size), storage, longest),
        ServiceKind::Lio(options) => misfit_of_units((options.visible, options.size), storage, longest),
        ServiceKind::Ganesha(options) => {
            let most = Bytes(GaneshaOptions::MEMORY_FILE_BYTES);
            (options.backend == GaneshaBackend::Memory && longest > most).then(|| {
                let why = format!("keeps the first {most} of a file in its memory, and files have {longest}");
                (why, "write `backend: files`, or a smaller `size`")
            })
        }
        _ => None,
    }
}

/// What can't be done with so many units of this size.
fn misfit_of_units(
    (luns, size): (u32, Bytes),
    storage: &StorageRaw,
    longest: Bytes,
) -> Option<(String, &'static str)> {
    let access = storage.access.as_ref().map_or(&[][..], |given| &given.value.items);
    let is = |wanted| access.iter().any(|access| access.value.0 == wanted);
    let mounted = is(StorageAccess::Mounted);
    let operations = storage.operations.as_ref().map_or(&[][..], |given| &given.value.items);
    let bare = !mounted || is(StorageAccess::Protocol);
    if bare && operations.iter().any(|operation| operation.value.0.of_names()) {
        let why = "has units, in which no files can be created, listed or removed".to_owned();
        return Some((why, "leave out `create`, `list` and `remove`, or write `access: mounted`"));
    }
    let processes = storage.processes.value.items.iter().map(|item| item.value).max()?;
    let held = longest.0.saturating_mul(processes.div_ceil(luns.max(1)).into());
    // A file system has a journal and tables of its own.
    let needed = if mounted { held.saturating_add(held / 16).saturating_add(FILE_SYSTEM) } else { held };
    (needed > size.0).then(|| {
        let needed = Bytes(needed);
        (format!("has units of {size}, and the workload needs {needed}"), "give it a larger `size`")
    })
}

/// Why a cell's virtual machine can't hold what its service has, or its workload writes, and what to write instead; `None` where it
/// can, and where there is none.
pub(super) fn lacks_room(cell: &Cell) -> Option<(String, &'static str)> {
    let EnvironmentKind::Vm(vm) = &cell.environment.kind else { return None };
    let on_disk =
        || Some((lacks_disk(cell, vm)?, "give it a larger one, `disk: {size: ...}`, or write less"));
    lacks_memory(cell, vm).or_else(on_disk)
}

/// Bytes of all units of a target; `None` where a service is none.
fn units_held(kind: &ServiceKind) -> Option<u64> {
    let (luns, size) = match kind {
        ServiceKind::Tgt(options) => (options.luns, options.size),
        ServiceKind::Lio(options) => (options.luns, options.size),
        _ => return None,
    };
    Some(size.0.saturating_mul(luns.into()))
}

/// Why a guest's memory has no room for units that are on no disk.
fn lacks_memory(cell: &Cell, vm: &VmOptions) -> Option<(String, &'static str)> {
    let held = units_held(&cell.service.kind).filter(|_| !cell.service.kind.serves_disk())?;
    let room = (vm.memory.0 / 2).saturating_sub(OF_RUN);
    (held > room).then(|| {
        let (held, room) = (Bytes(held), Bytes(room));
        let why = format!(
            "the units of `{}` need {held} of the memory of `{}`, which has {room} for them: half of its {}, less {}",
            cell.service.name,
            cell.environment.name,
            vm.memory,
            Bytes(OF_RUN)
        );
        let help = match cell.environment.kind.is_pair() {
            true => "raise `budget.sut_memory` or the `memory` of the `vm`, or write a smaller `size`",
            false => "raise `budget.sut_memory` or the `memory` of the `vm`, write a smaller `size`, or `backend: disk`",
        };
        (why, help)
    })
}

/// Why the disk of a virtual machine can't hold what is served from it or written to it.
fn lacks_disk(cell: &Cell, vm: &VmOptions) -> Option<String> {
    let size = vm.disk.unwrap_or_default().size;
    let of_files = |test: &StorageTest| {
        let each = if test.operation.of_names() { u64::from(test.shape.files) } else { 1 };
        test.shape.file.0.saturating_mul(each).saturating_mul(test.shape.processes.into())
    };
    let files = || cell.workload.model().storage_tests().iter().map(of_files).max();
    let held = match &cell.service.kind {
        ServiceKind::Disk(_) => files()?.saturating_add(SPARE),
        kind => units_held(kind).or_else(files)?,
    };
    let on_disk = cell.service.kind.serves_disk() || matches!(cell.service.kind, ServiceKind::Disk(_));
    let needed = held.saturating_add(held / 16).saturating_add(OF_DISK);
    (on_disk && needed > size.0).then(|| {
        let needed = Bytes(needed);
        format!(
            "the disk of `{}` has {size}, and what `{}` holds needs {needed}",
            cell.environment.name, cell.service.name
        )
    })
}
