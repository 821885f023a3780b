//! How clients reach the files of a service, and which cells there can't be for that reason.

use std::collections::BTreeSet;

use vtax_topology::Blueprint;
use vtax_topology::builtin::topology;
use vtax_units::Bytes;

use super::ganesha::{GaneshaOptions, NfsVersion};
use super::model::{Raid5, StorageAccess, StorageWorkload};
use crate::model::{BALLOON, Cell, EnvironmentKind, NicModel, PathKind, Plan, ServiceKind, Workload};

/// Memory of a client's virtual machine unless told otherwise.
pub(super) const CLIENT_MEMORY: Bytes = Bytes::from_mib(512);
/// What a kernel needs to mount NFS. It asks for the rest by name, and there is no modprobe in a guest.
const NFS: &[&str] = &["nfs", "nfsv4"];
/// SMB 3.1.1, and what its dialogue hashes and signs with.
const SMB: &[&str] = &[
    "cifs",
    "md5",
    "md4",
    "sha256_generic",
    "sha512_generic",
    "cmac",
    "hmac",
    "aes_generic",
    "ctr",
    "ccm",
    "gcm",
    "ghash_generic",
    "ecb",
    "libarc4",
    "nls_utf8",
];
/// The kernel's initiator.
const ISCSI: &[&str] = &["iscsi_tcp", "sd_mod", "crc32c_generic", "ext4"];
/// The kernel's NFS server.
const NFSD: &[&str] = &["nfsd", "md5"];
/// The kernel's iSCSI target, with units in files, what CHAP hashes with, and the digest without which it lets nobody
/// log in.
const LIO: &[&str] = &["target_core_mod", "target_core_file", "iscsi_target_mod", "md5", "crc32c_generic"];

/// A RAID-5 of the guest's kernel.
const RAID5: &[&str] = &["md_mod", "raid456"];

/// What clients of a service mount.
enum Mounts {
    Nfs,
    Smb,
    Iscsi,
}

fn mounts(service: &ServiceKind) -> Option<Mounts> {
    match service {
        ServiceKind::Ganesha(_) | ServiceKind::Nfsd(_) => Some(Mounts::Nfs),
        ServiceKind::Samba(_) => Some(Mounts::Smb),
        ServiceKind::Tgt(_) | ServiceKind::Lio(_) => Some(Mounts::Iscsi),
        _ => None,
    }
}

impl ServiceKind {
    /// Kernel modules that a client needs to mount what it serves; none where that isn't mounted.
    #[must_use]
    pub fn mounting_modules(&self) -> &'static [&'static str] {
        match mounts(self) {
            Some(Mounts::Nfs) => NFS,
            Some(Mounts::Smb) => SMB,
            Some(Mounts::Iscsi) => ISCSI,
            None => &[],
        }
    }
}

impl StorageWorkload {
    /// How the files of a service are reached; `None`: they are on the system under test's own disk.
    #[must_use]
    pub fn access_to(&self, service: &ServiceKind) -> Option<StorageAccess> {
        let usual = match mounts(service)? {
            Mounts::Smb => StorageAccess::Mounted,
            Mounts::Nfs | Mounts::Iscsi => StorageAccess::Protocol,
        };
        Some(self.access.unwrap_or(usual))
    }
}

/// Whether the client mounts what the service has.
fn is_mounted(service: &ServiceKind, workload: &Workload) -> bool {
    let Workload::Storage(storage) = workload else { return false };
    storage.access_to(service) == Some(StorageAccess::Mounted)
}

impl Cell {
    /// Whether the client's kernel mounts what the service has.
    #[must_use]
    pub fn is_mounted(&self) -> bool {
        is_mounted(&self.service.kind, &self.workload)
    }

    /// Memory of the client where it is a virtual machine so that it can mount.
    #[must_use]
    pub fn mounting_client(&self) -> Option<Bytes> {
        let Workload::Storage(storage) = &self.workload else { return None };
        self.is_mounted().then(|| storage.client_memory.unwrap_or(CLIENT_MEMORY))
    }

    /// Whether the client is a virtual machine, for whatever reason.
    #[must_use]
    pub fn has_client_vm(&self) -> bool {
        self.path.kind.has_client_vm() || self.is_mounted()
    }

    /// Kernel modules that its virtual machines need; kernels that have their content built in don't miss them.
    #[must_use]
    pub fn kernel_modules(&self) -> BTreeSet<String> {
        let mut modules = self.workload.model().kernel_modules();
        let mut add = |more: &[&str]| modules.extend(more.iter().map(|name| (*name).to_owned()));
        if self.is_mounted() {
            add(self.service.kind.mounting_modules());
        }
        if self.environment.kind.raid5().is_some() {
            add(RAID5);
        }
        match self.service.kind {
            ServiceKind::Nfsd(_) => add(NFSD),
            ServiceKind::Lio(_) => add(LIO),
            _ => {}
        }
        if let Some(routed) = self.path.kind.routed() {
            add(&Blueprint::outline(&topology(&routed.topology)).needs().modules());
        }
        modules.extend(self.environment.kind.nic().and_then(NicModel::module).map(str::to_owned));
        modules.extend(self.has_balloons().then(|| BALLOON.to_owned()));
        modules
    }
}

impl EnvironmentKind {
    /// The RAID-5 that its disk is.
    #[must_use]
    pub fn raid5(&self) -> Option<Raid5> {
        let Self::Vm(vm) = self else { return None };
        vm.disk?.raid5
    }
}

/// Why there can be no such cell; `None` where there can.
pub(crate) fn impossible(
    environment: &EnvironmentKind,
    path: &PathKind,
    service: &ServiceKind,
    workload: &Workload,
) -> Option<&'static str> {
    let Workload::Storage(storage) = workload else { return None };
    let is_vm = matches!(environment, EnvironmentKind::Vm(_)) && !environment.is_pair();
    if matches!(service, ServiceKind::Nfsd(_) | ServiceKind::Lio(_)) && !is_vm {
        return Some("it is part of the kernel, so it takes a virtual machine with a kernel of its own");
    }
    match service {
        ServiceKind::Disk(_) if storage.access == Some(StorageAccess::Protocol) => {
            return Some("the system's own disk is reached by no protocol");
        }
        ServiceKind::Samba(_) if storage.access == Some(StorageAccess::Protocol) => {
            return Some("vtax has no client of SMB of its own");
        }
        _ => {}
    }
    if !is_mounted(service, workload) {
        return None;
    }
    if matches!(service, ServiceKind::Ganesha(GaneshaOptions { nfs_version: NfsVersion::V3, .. })) {
        return Some("clients mount version 4.1 of NFS; version 3 is spoken by vtax's own client");
    }
    if environment.is_pair() {
        return Some("what protected virtual machines serve isn't mounted");
    }
    (!path.takes_guest_client())
        .then_some("a client that mounts is a virtual machine, which can't be on such a path")
}

/// What is left out of a plan's matrix because it can't be, with the reason.
pub(crate) fn left_out(plan: &Plan) -> BTreeSet<String> {
    let of_storage = || plan.cells.iter().filter(|cell| matches!(cell.workload, Workload::Storage(_)));
    let environments = distinct(of_storage().map(|cell| &cell.environment));
    let paths = distinct(of_storage().map(|cell| &cell.path));
    let services = distinct(of_storage().map(|cell| &cell.service));
    let workloads = distinct(of_storage().map(|cell| &cell.workload));
    let mut all = BTreeSet::new();
    for (environment, path) in environments.iter().flat_map(|e| paths.iter().map(move |path| (e, path))) {
        for (service, workload) in services.iter().flat_map(|s| workloads.iter().map(move |w| (s, w))) {
            if let Some(why) = impossible(&environment.kind, &path.kind, &service.kind, workload) {
                all.insert(format!(
                    "`{}` in `{}` on `{}` is left out: {why}",
                    service.name, environment.name, path.name
                ));
            }
        }
    }
    all
}

/// Each once, in their order.
pub(crate) fn distinct<'a, T: PartialEq>(all: impl Iterator<Item = &'a T>) -> Vec<&'a T> {
    let mut kept: Vec<&T> = Vec::new();
    for one in all {
        if !kept.contains(&one) {
            kept.push(one);
        }
    }
    kept
}
