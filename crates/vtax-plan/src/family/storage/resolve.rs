//! Storage: the disk, its tests, their measure.

use std::collections::BTreeMap;

use vtax_units::{Bytes, Nanos, Rate};

use super::limits;
use super::model::{
    DiskAio, DiskCache, DiskOptions, Raid5, SteadyState, StorageCache, StorageEngine, StorageMeasure,
    StorageOperation, StorageRate, StorageShape, StorageTest, StorageWorkload, VirtualDisk,
};
use super::mounted::CLIENT_MEMORY;
use super::raw::{DiskRaw, SteadyStateRaw, StorageMeasureRaw, StorageRaw, VirtualDiskRaw};
use super::served;
use crate::decode::Many;
use crate::diagnose::Report;
use crate::model::{
    Cell, Environment, EnvironmentKind, Fault, FaultTarget, Measure, MeasureKind, PathKind, Protocol,
    Service, ServiceKind, Workload,
};
use crate::resolve::LEAST_VM_MEMORY;
use crate::resolve::check::{LONGEST, SHORTEST_STEP, check_count, check_name, counts_in, duration_in};
use crate::resolve::variants::{Variants, service, slug};
use crate::source::{Span, Spanned};

/// More tests of one trial than this are taken for a slip.
const MOST_TESTS: usize = 500;
/// The smallest disk that a file system with a journal is made on.
const LEAST_DISK: Bytes = Bytes::from_mib(64);
/// Members of a RAID-5: with two it is a mirror, and an AHCI controller has six ports.
const MEMBERS: std::ops::RangeInclusive<u32> = 3..=6;

/// The disk where the plan names no service.
pub(crate) fn default_disk() -> Service {
    Service {
        name: "disk".to_owned(),
        kind: ServiceKind::Disk(DiskOptions { directory: None }),
        ready_timeout: Nanos::from_secs(30),
        stop_timeout: Nanos::from_secs(5),
    }
}

/// The disk.
pub(crate) fn disk(raw: &DiskRaw, report: &mut Report) -> Variants<Service> {
    if let Some(directory) =
        raw.directory.as_ref().filter(|d| !d.value.starts_with('/') || d.value.contains('\0'))
    {
        report.error(directory.span, "`directory` is an absolute path of the host");
    }
    let directory = raw.directory.as_ref().map(|directory| directory.value.clone());
    let kind = ServiceKind::Disk(DiskOptions { directory });
    Variants::of(service(kind, raw.name.as_ref(), (&raw.ready_timeout, &raw.stop_timeout), report))
}

/// One test but for what it does.
#[derive(Debug, Clone)]
struct Base {
    shape: StorageShape,
    cache: StorageCache,
    rate: Option<Rate>,
}

/// All tests as the one workload that they are together.
pub(crate) fn workload(raw: &StorageRaw, report: &mut Report) -> Variants<Workload> {
    check(raw, report);
    let given =
        raw.operations.as_ref().map(|given| given.value.items.iter().map(|item| item.value.0).collect());
    let operations: Vec<StorageOperation> = given.unwrap_or_else(|| StorageOperation::PLAIN[..6].to_vec());
    let arrivals = raw.arrivals.value.0;
    let mut tests: Vec<StorageTest> = Vec::new();
    for variant in bases(raw, report).0 {
        let Base { shape, cache, rate } = variant.value;
        for operation in &operations {
            let past_the_cache = cache == StorageCache::Warm && shape.direct && operation.needs_data();
            if past_the_cache || !fits(&shape, *operation) {
                continue;
            }
            let mut name = operation.word();
            for (key, value) in &variant.parameters {
                name.push_str(&format!(".{key}-{}", slug(value)));
            }
            // The same operation again, as a second read: each is a test of its own.
            let again = tests
                .iter()
                .filter(|test| test.name == name || test.name.starts_with(&format!("{name}.again-")))
                .count();
            if again > 0 {
                name.push_str(&format!(".again-{again}"));
            }
            let mut parameters: BTreeMap<String, String> =
                variant.parameters.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
            parameters.insert("operation".to_owned(), operation.word());
            let rate = rate.map(|rate| StorageRate { rate, arrivals });
            tests.push(StorageTest {
                name,
                parameters,
                operation: *operation,
                shape: shape.clone(),
                rate,
                cache,
            });
        }
    }
    let span = raw.size.span;
    if tests.len() > MOST_TESTS {
        report.error(span, format!("the workload has {} tests, at most {MOST_TESTS}", tests.len()));
        tests.truncate(MOST_TESTS);
    } else if tests.is_empty() {
        report.error(
            span,
            "no test is left: records must fit into files a whole number of times, and files of `create`, `list` and `remove` into a \
             record",
        );
    }
    let timeout = duration_in(&raw.timeout, "timeout", SHORTEST_STEP, LONGEST, report);
    let memory = &raw.client_memory;
    if memory.value < LEAST_VM_MEMORY {
        report.error(memory.span, format!("a virtual machine doesn't boot with less than {LEAST_VM_MEMORY}"));
    }
    let client_memory = Some(memory.value).filter(|memory| *memory != CLIENT_MEMORY);
    Variants::of(StorageWorkload { tests, timeout, access: None, client_memory })
        .vary_if("access", raw.access.as_ref(), report, |w, access| w.access = Some(access.0))
        .map(Workload::Storage)
}

/// A sweep over sizes and records leaves out what can't be.
fn fits(shape: &StorageShape, operation: StorageOperation) -> bool {
    if operation.of_names() {
        shape.file.0 <= shape.record.0 && shape.file.0.is_multiple_of(limits::FILE.0.0)
    } else {
        shape.file.0 >= shape.record.0 && shape.file.0.is_multiple_of(shape.record.0.max(1))
    }
}

fn bases(raw: &StorageRaw, report: &mut Report) -> Variants<Base> {
    let shape = StorageShape {
        verify: raw.verify.value,
        dedupe: raw.dedupe.value,
        compressible: raw.compressible.value,
        files: raw.files.value,
        ..StorageShape::new(limits::FILE.0, limits::RECORD.0)
    };
    Variants::of(Base { shape, cache: StorageCache::AsIs, rate: None })
        .vary("size", &raw.size.value, report, |b, size| b.shape.file = size)
        .vary("record", &raw.record.value, report, |b, record| b.shape.record = record)
        .vary("processes", &raw.processes.value, report, |b, processes| b.shape.processes = processes)
        .vary("depth", &raw.depth.value, report, |b, depth| b.shape.depth = depth as u16)
        .vary("engine", &raw.engine.value, report, |b, engine| b.shape.engine = engine.0)
        .vary("direct", &raw.direct.value, report, |b, direct| b.shape.direct = direct)
        .vary("sync", &raw.sync.value, report, |b, sync| b.shape.sync = sync.0)
        .vary("cache", &raw.cache.value, report, |b, cache| b.cache = cache.0)
        .vary_if("rate", raw.rate.as_ref(), report, |b, rate| b.rate = Some(rate))
}

fn check(raw: &StorageRaw, report: &mut Report) {
    sizes(&raw.size.value, "size", limits::FILE, report);
    sizes(&raw.record.value, "record", limits::RECORD, report);
    counts_in(&raw.processes.value, "a load needs a process", limits::PROCESSES, report);
    counts_in(
        &raw.depth.value,
        "a process has one operation under way at least",
        limits::DEPTH.into(),
        report,
    );
    check_count(raw.files.value, raw.files.span, "at least one file is needed", limits::FILES, report);
    let deep = raw.depth.value.items.iter().find(|item| item.value > 1);
    let psync = raw.engine.value.items.iter().any(|item| item.value.0 == StorageEngine::Psync);
    if let Some(deep) = deep.filter(|_| psync) {
        report
            .error(deep.span, "`psync` has one operation under way, so `depth` is 1 with it")
            .help("more processes have more under way; or leave `psync` out");
    }
    // Of lists, what can't be is left out.
    let warm = raw.cache.value.items.iter().all(|item| item.value.0 == StorageCache::Warm);
    if warm && raw.direct.value.items.iter().all(|item| item.value) {
        report
            .error(raw.cache.span, "`direct` passes the page cache by, so it can't be `warm` for it")
            .help("leave out one of both; a plan of its own can have the other");
    }
    for share in [(&raw.dedupe, "dedupe"), (&raw.compressible, "compressible")] {
        if !(0.0..=1.0).contains(&share.0.value.0) {
            report.error(share.0.span, format!("`{}` is a share of the data: 0% to 100%", share.1));
        }
    }
    for item in raw.rate.iter().flat_map(|rate| &rate.value.items) {
        if !(item.value.0 > 0.0 && item.value <= limits::RATE) {
            report.error(item.span, format!("a rate is above 0/s and at most {}", limits::RATE));
        }
    }
    let largest = |items: &Many<u32>| items.items.iter().map(|item| u64::from(item.value)).max().unwrap_or(1);
    let record = raw.record.value.items.iter().map(|item| item.value.0).max().unwrap_or(0);
    let buffers =
        record.saturating_mul(largest(&raw.processes.value)).saturating_mul(largest(&raw.depth.value));
    if buffers > limits::BUFFERS.0 {
        let asked = Bytes(buffers);
        report.error(
            raw.depth.span,
            format!(
                "the largest record, `processes` and `depth` ask for {asked} of buffers, at most {}",
                limits::BUFFERS
            ),
        );
    }
}

fn sizes(sizes: &Many<Bytes>, key: &str, (least, most): (Bytes, Bytes), report: &mut Report) {
    for item in &sizes.items {
        if item.value < least || item.value > most || !item.value.0.is_multiple_of(512) {
            report.error(
                item.span,
                format!("`{key}` is a multiple of 512B from {least} to {most}, not {}", item.value),
            );
        }
    }
}

/// Whether a disk fails in this cell that nothing is served from.
fn is_spared(cell: &Cell, measures: &[Measure]) -> bool {
    let faults = measures.iter().filter_map(|measure| match &measure.kind {
        MeasureKind::Failover(failover) => Some(failover.faults_of(cell)),
        _ => None,
    });
    let of_disk = |fault: &Fault| fault.kind.parts().1 == FaultTarget::Disk;
    faults.flatten().any(of_disk) && !cell.service.kind.serves_disk()
}

/// Refuses cells whose storage can't be measured, and faults that nobody would see.
pub(crate) fn check_cells(cells: &[Cell], measures: &[Measure], span: Span, report: &mut Report) {
    let of_storage = |cell: &&Cell| cell.workload.model().protocol() == Protocol::Storage;
    for cell in cells.iter().filter(of_storage) {
        let has_server = matches!(cell.service.kind, ServiceKind::Tgt(_) | ServiceKind::Ganesha(_));
        if measures.iter().any(|measure| measure.kind.is_failover()) {
            let service = &cell.service.name;
            let why = if cell.is_mounted() {
                // The client's page cache would answer for a server that has lost them.
                Some(format!("whether writes to `{service}` outlive a fault can't be told through a mount"))
            } else if matches!(cell.service.kind, ServiceKind::Disk(_)) {
                Some(format!("what breaks under `{service}` would break the load as well"))
            } else {
                (!has_server).then(|| format!("failovers of `{service}` can't be measured yet"))
            };
            if let Some(why) = why {
                let help = "failovers are seen by a client of vtax's own: use `tgt` or `ganesha`, with `access: protocol`";
                report.error(span, why).help(help);
                return;
            }
            if is_spared(cell, measures) {
                let why = format!("what `{service}` serves is in memory, so nobody sees that a disk fails");
                report.error(span, why).help("give it `backend: disk`");
                return;
            }
        }
        if let Some((why, help)) = served::lacks_room(cell) {
            report.error(span, why).help(help);
            return;
        }
        let name = if cell.environment.kind.is_pair() && !has_server {
            &cell.environment.name
        } else if matches!(cell.path.kind, PathKind::Nic(_)) {
            &cell.path.name
        } else {
            continue;
        };
        report
            .error(span, format!("the storage of `{name}` can't be measured yet"))
            .help("leave remote hosts out; in a protected virtual machine, use `tgt` or `ganesha`");
        return;
    }
}

pub(crate) fn measure(raw: &StorageMeasureRaw, report: &mut Report) -> Measure {
    let name = raw.name.as_ref().map_or_else(|| "storage".into(), |n| check_name(n, report));
    let longest = duration_in(&raw.longest, "longest", SHORTEST_STEP, LONGEST, report);
    let duration = duration_in(&raw.duration, "duration", SHORTEST_STEP, LONGEST, report);
    let steady_state = raw.steady_state.as_ref().map(|raw| steady_state(raw, report));
    let measure = StorageMeasure { longest, duration: duration.min(longest), steady_state };
    Measure { name, kind: MeasureKind::Storage(measure) }
}

fn steady_state(raw: &Spanned<SteadyStateRaw>, report: &mut Report) -> SteadyState {
    let raw = &raw.value;
    let (least, most) = limits::ROUNDS;
    for (key, count) in [("rounds", &raw.rounds), ("window", &raw.window)] {
        if !(least..=most).contains(&count.value) {
            report.error(count.span, format!("`{key}` is a number of rounds from {least} to {most}"));
        }
    }
    if raw.window.value > raw.rounds.value {
        report
            .error(
                raw.window.span,
                format!("{} rounds never fill a window of {}", raw.rounds.value, raw.window.value),
            )
            .help("give `rounds` as many as the window has, or more");
    }
    for (key, share) in [("excursion", &raw.excursion), ("slope", &raw.slope)] {
        if !(share.value.0 > 0.0 && share.value.0 <= 1.0) {
            report.error(share.span, format!("`{key}` is a share of the average: above 0% and at most 100%"));
        }
    }
    SteadyState {
        rounds: raw.rounds.value,
        window: raw.window.value,
        excursion: raw.excursion.value,
        slope: raw.slope.value,
    }
}

/// The disk of a virtual machine, one variant for each combination of its lists.
pub(crate) fn with_disk(
    raw: &Spanned<VirtualDiskRaw>,
    variants: Variants<Environment>,
    report: &mut Report,
) -> Variants<Environment> {
    let span = raw.span;
    let raw = &raw.value;
    let most = limits::FILE.1;
    if raw.size.value < LEAST_DISK || raw.size.value > most || !raw.size.value.0.is_multiple_of(4096) {
        report.error(raw.size.span, format!("a disk is a multiple of 4KiB from {LEAST_DISK} to {most}"));
    }
    let members = raw.raid5.as_ref().map(|raid| &raid.value.members);
    if let Some(members) = members.filter(|members| !MEMBERS.contains(&members.value)) {
        let (least, most) = (MEMBERS.start(), MEMBERS.end());
        report.error(members.span, format!("a RAID-5 has {least} to {most} members, not {}", members.value));
    }
    let raid5 =
        members.map(|members| Raid5 { members: members.value.max(*MEMBERS.start()), degraded: false });
    let disk = VirtualDisk { size: raw.size.value, raid5, ..VirtualDisk::default() };
    let given = |environment: &mut Environment, change: &dyn Fn(&mut VirtualDisk)| {
        if let EnvironmentKind::Vm(options) = &mut environment.kind {
            change(options.disk.get_or_insert(disk));
        }
    };
    let varied = variants
        .vary("bus", &raw.bus.value, report, |e, bus| given(e, &|d| d.bus = bus.0))
        .vary("format", &raw.format.value, report, |e, format| given(e, &|d| d.format = format.0))
        .vary("allocation", &raw.allocation.value, report, |e, a| given(e, &|d| d.allocation = a.0))
        .vary("cache", &raw.cache.value, report, |e, cache| given(e, &|d| d.cache = cache.0))
        .vary("aio", &raw.aio.value, report, |e, aio| given(e, &|d| d.aio = aio.0));
    let degraded = raw.raid5.as_ref().map(|raid| &raid.value.degraded);
    let varied = varied.vary_if("degraded", degraded, report, |e, degraded| {
        given(e, &|d| d.raid5 = d.raid5.map(|raid| Raid5 { degraded, ..raid }));
    });
    let wrong = |environment: &Environment| match &environment.kind {
        EnvironmentKind::Vm(vm) => {
            vm.disk.is_some_and(|disk| disk.aio == DiskAio::Native && disk.cache != DiskCache::None)
        }
        _ => false,
    };
    if varied.0.iter().any(|variant| wrong(&variant.value)) {
        report
            .error(span, "Linux AIO (`aio: native`) works only past the host's page cache (`cache: none`)")
            .help("leave one of them out, or write two `vm` with names of their own");
    }
    varied
}
