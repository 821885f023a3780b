//! Whether a server can hold and do what a workload asks for: every trial would fail otherwise.

use vtax_units::Bytes;

use super::model::StorageCache;
use super::raw::StorageRaw;
use crate::diagnose::Report;
use crate::model::{GaneshaBackend, GaneshaOptions, Service, ServiceKind};
use crate::raw::WorkloadRaw;
use crate::resolve::variants::Named;

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

/// What a service can't do, and what to write instead.
fn misfit(kind: &ServiceKind, storage: &StorageRaw) -> Option<(String, &'static str)> {
    let longest = storage.size.value.items.iter().map(|item| item.value).max()?;
    let cold = storage.cache.value.items.iter().any(|item| item.value.0 == StorageCache::Cold);
    if matches!(kind, ServiceKind::Tgt(_) | ServiceKind::Ganesha(_)) && cold {
        let why = "has a cache of its own that can't be dropped from here".to_owned();
        return Some((why, "write `cache: as-is` or `warm`"));
    }
    match kind {
        ServiceKind::Tgt(options) => {
            let operations = storage.operations.as_ref().map_or(&[][..], |given| &given.value.items);
            if operations.iter().any(|operation| operation.value.0.of_names()) {
                let why = "has units, in which no files can be created, listed or removed".to_owned();
                return Some((why, "leave out `create`, `list` and `remove`, or use `ganesha` or `disk`"));
            }
            let processes = storage.processes.value.items.iter().map(|item| item.value).max()?;
            let needed = longest.0.saturating_mul(processes.div_ceil(options.luns.max(1)).into());
            (needed > options.size.0).then(|| {
                let (needed, size) = (Bytes(needed), options.size);
                (format!("has units of {size}, and the workload needs {needed}"), "give it a larger `size`")
            })
        }
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
