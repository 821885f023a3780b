//! LIO, the kernel's iSCSI target, through configfs (kernel document `target/tcm_mod_builder`, targetcli's own layout).

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::{Account, KernelError, Target, mount, refused, tell};

const CONFIGFS: &str = "/sys/kernel/config";
/// Units in files.
const BACKSTORES: &str = "target/core/fileio_0";

/// Makes the target with its units, and lets nobody log in but whom it names.
pub(super) fn start(target: &Target) -> Result<(), KernelError> {
    let root = Path::new(CONFIGFS);
    mount("configfs", root)?;
    let stores = root.join(BACKSTORES);
    make(&root.join("target/core"))?;
    make(&stores)?;
    for (index, file) in target.units.iter().enumerate() {
        store(&stores.join(format!("unit{}", index + 1)), file, target)?;
    }
    let fabric = root.join("target/iscsi");
    make(&fabric)?;
    let named = fabric.join(&target.name);
    make(&named)?;
    let group = named.join("tpgt_1");
    make(&group)?;
    for index in 1..=target.units.len() {
        let unit = group.join(format!("lun/lun_{index}"));
        make(&unit)?;
        link(&stores.join(format!("unit{index}")), &unit.join("port"))?;
    }
    // Nobody is let in by default, and it is each initiator's own list that says what it sees.
    tell(&group.join("attrib/generate_node_acls"), "0")?;
    let proves = if target.initiator.is_some() { "1" } else { "0" };
    tell(&group.join("attrib/authentication"), proves)?;
    for digest in ["HeaderDigest", "DataDigest"] {
        tell(&group.join("param").join(digest), "CRC32C,None")?;
    }
    for initiator in &target.initiators {
        admit(&group, initiator, target)?;
    }
    let portal = match target.listen {
        std::net::SocketAddr::V4(address) => address.to_string(),
        std::net::SocketAddr::V6(address) => format!("[{}]:{}", address.ip(), address.port()),
    };
    make(&group.join("np").join(portal))?;
    tell(&group.join("enable"), "1")
}

/// One unit's file.
fn store(place: &Path, file: &Path, target: &Target) -> Result<(), KernelError> {
    make(place)?;
    let mut control = format!("fd_dev_name={},fd_dev_size={}", file.display(), target.size);
    if target.write_cache {
        control.push_str(",fd_buffered_io=1");
    }
    tell(&place.join("control"), &control)?;
    let serial =
        place.file_name().map_or_else(String::new, |name| format!("vtax-{}", name.to_string_lossy()));
    tell(&place.join("wwn/vpd_unit_serial"), &serial)?;
    tell(&place.join("enable"), "1")?;
    tell(&place.join("attrib/emulate_write_cache"), if target.write_cache { "1" } else { "0" })
}

/// Lets an initiator log in and see the units that are visible.
fn admit(group: &Path, initiator: &str, target: &Target) -> Result<(), KernelError> {
    let entry = group.join("acls").join(initiator);
    make(&entry)?;
    for index in 1..=target.units.len().min(target.visible as usize) {
        let mapped = entry.join(format!("lun_{index}"));
        make(&mapped)?;
        link(&group.join(format!("lun/lun_{index}")), &mapped.join("unit"))?;
    }
    let secrets = |account: &Option<Account>, [name, secret]: [&str; 2]| match account {
        None => Ok(()),
        Some(account) => {
            tell(&entry.join("auth").join(name), &account.name)?;
            tell(&entry.join("auth").join(secret), &account.secret)
        }
    };
    secrets(&target.initiator, ["userid", "password"])?;
    secrets(&target.target, ["userid_mutual", "password_mutual"])
}

/// Makes a directory, which is how the kernel is told to make a thing.
fn make(path: &Path) -> Result<(), KernelError> {
    match fs::create_dir(path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => Err(refused("make", path)(e)),
        _ => Ok(()),
    }
}

fn link(to: &Path, at: &Path) -> Result<(), KernelError> {
    symlink(to, at).map_err(refused("link", at))
}
