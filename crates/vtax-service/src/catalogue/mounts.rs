//! What guests run of the host's to mount what a server has, and to make a RAID: the kernel does the rest.

use vtax_plan::model::ServiceKind;

use crate::packages::{Distribution, Missing, Package};

const ISCSISTART: &[&str] = &["/usr/sbin/iscsistart", "/sbin/iscsistart"];
const MKFS: &[&str] = &["/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4"];

const MDADM: &[&str] = &["/usr/sbin/mdadm", "/sbin/mdadm"];

/// What makes a RAID.
fn raid() -> Package {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => ("mdadm", "apt-get install mdadm"),
        Distribution::Fedora => ("mdadm", "dnf install mdadm"),
        Distribution::Suse => ("mdadm", "zypper install mdadm"),
        Distribution::Arch => ("mdadm", "pacman -S mdadm"),
        Distribution::Alpine => ("mdadm", "apk add mdadm"),
    };
    Package::of("RAID", MDADM, of)
}

fn all_packages() -> [Package; 2] {
    let (iscsi, mkfs) = match Distribution::of_this_host() {
        Distribution::Debian => {
            (("open-iscsi", "apt-get install open-iscsi"), ("e2fsprogs", "apt-get install e2fsprogs"))
        }
        Distribution::Fedora => (
            ("iscsi-initiator-utils", "dnf install iscsi-initiator-utils"),
            ("e2fsprogs", "dnf install e2fsprogs"),
        ),
        Distribution::Suse => {
            (("open-iscsi", "zypper install open-iscsi"), ("e2fsprogs", "zypper install e2fsprogs"))
        }
        Distribution::Arch => (("open-iscsi", "pacman -S open-iscsi"), ("e2fsprogs", "pacman -S e2fsprogs")),
        Distribution::Alpine => (("open-iscsi", "apk add open-iscsi"), ("e2fsprogs", "apk add e2fsprogs")),
    };
    [
        Package::of("mounted iSCSI (login)", ISCSISTART, iscsi).with_unit("open-iscsi.service"),
        Package::of("mounted iSCSI (file system)", MKFS, mkfs),
    ]
}

pub(super) fn packages() -> Vec<Package> {
    let mut all = all_packages().to_vec();
    all.push(raid());
    all
}

/// What is missing for a RAID.
pub(super) fn missing_for_raid() -> Option<Missing> {
    Some(raid()).filter(Package::missing).map(Missing::from)
}

/// What is missing for a client of this service.
pub(super) fn missing(service: &ServiceKind) -> Option<Missing> {
    let is_iscsi = matches!(service, ServiceKind::Tgt(_) | ServiceKind::Lio(_));
    all_packages().into_iter().find(Package::missing).filter(|_| is_iscsi).map(Missing::from)
}
