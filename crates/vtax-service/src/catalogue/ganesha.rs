//! NFS-Ganesha, an NFS server in user space. Every setting and its reason is in docs/storage.md.

use std::path::Path;

use vtax_plan::model::{Backend, GaneshaBackend, GaneshaOptions, NfsVersion};
use vtax_wire::{nfs3, nfs4, rpc};

use super::entry::Entry;
use crate::documents::{make_directory, write_file};
use crate::embedded::port_mapper;
use crate::error::ServiceError;
use crate::packages::{Distribution, Package};
use crate::recipe::{Condition, EntryContext, Heard, Recipe};

const PROGRAMS: &[&str] = &["/usr/bin/ganesha.nfsd", "/usr/sbin/ganesha.nfsd", "/usr/local/bin/ganesha.nfsd"];
/// Its backends are packages of their own.
const FILES: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/ganesha/libfsalvfs.so",
    "/usr/lib/aarch64-linux-gnu/ganesha/libfsalvfs.so",
    "/usr/lib64/ganesha/libfsalvfs.so",
    "/usr/lib/ganesha/libfsalvfs.so",
];
const MEMORY: &[&str] = &[
    "/usr/lib/x86_64-linux-gnu/ganesha/libfsalmem.so",
    "/usr/lib/aarch64-linux-gnu/ganesha/libfsalmem.so",
    "/usr/lib64/ganesha/libfsalmem.so",
    "/usr/lib/ganesha/libfsalmem.so",
];

fn all_packages() -> [Package; 3] {
    let (names, install) = match Distribution::of_this_host() {
        Distribution::Debian => (
            ["nfs-ganesha", "nfs-ganesha-vfs", "nfs-ganesha-mem"],
            "apt-get install nfs-ganesha nfs-ganesha-vfs nfs-ganesha-mem",
        ),
        Distribution::Fedora => (
            ["nfs-ganesha", "nfs-ganesha-vfs", "nfs-ganesha-mem"],
            "dnf install nfs-ganesha nfs-ganesha-vfs nfs-ganesha-mem",
        ),
        Distribution::Suse => (
            ["nfs-ganesha", "nfs-ganesha-vfs", "nfs-ganesha-mem"],
            "zypper install nfs-ganesha nfs-ganesha-vfs nfs-ganesha-mem",
        ),
        Distribution::Arch => (["nfs-ganesha"; 3], "install nfs-ganesha from the AUR"),
        Distribution::Alpine => (["nfs-ganesha"; 3], "build nfs-ganesha"),
    };
    [
        Package::of("ganesha", PROGRAMS, (names[0], install)).with_unit("nfs-ganesha.service"),
        Package::of("ganesha (files)", FILES, (names[1], install)),
        Package::of("ganesha (memory)", MEMORY, (names[2], install)),
    ]
}

pub(super) fn packages() -> Vec<Package> {
    all_packages().to_vec()
}

pub(super) struct Ganesha<'a>(pub(super) &'a GaneshaOptions);

impl Entry for Ganesha<'_> {
    fn packages(&self) -> Vec<Package> {
        packages()
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let recovery = context.directory.join("recovery");
        make_directory(&recovery).map_err(context.file("making", &recovery))?;
        let served = context.served(match self.0.backend {
            GaneshaBackend::Disk => Backend::Disk,
            GaneshaBackend::Files | GaneshaBackend::Memory => Backend::Files,
        })?;
        let path = context.directory.join("ganesha.conf");
        write_file(&path, configuration(context, self.0, &served).as_bytes())
            .map_err(context.file("writing", &path))?;
        let (configuration, pid) = (context.path("ganesha.conf"), context.path("ganesha.pid"));
        let command = [all_packages()[0].program, "-F", "-L", "STDERR", "-f", &configuration, "-p", &pid];
        let (null, what) = match self.0.nfs_version {
            NfsVersion::V41 => (nfs4::NULL, "NULL of NFS version 4"),
            NfsVersion::V3 => (nfs3::NULL, "NULL of NFS version 3"),
        };
        let mut ask = Vec::new();
        let begin = rpc::begin_call(&mut ask, 1, null, None);
        rpc::end_call(&mut ask, begin, 0);
        let ready = Condition::Answer { what: what.to_owned(), ask, judge };
        let server = context.recipe(command.map(str::to_owned).to_vec(), ready);
        Ok(match self.0.nfs_version {
            NfsVersion::V41 => vec![server],
            NfsVersion::V3 => vec![registry(context), Recipe { part: Some("ganesha"), ..server }],
        })
    }
}

/// Of version 3 it registers itself with a port mapper, or it doesn't start.
fn registry(context: &EntryContext<'_>) -> Recipe {
    let ready = Condition::Log(port_mapper::READY.to_owned());
    Recipe { part: Some("port mapper"), ..context.own(&["service", "port-mapper"], ready) }
}

fn configuration(context: &EntryContext<'_>, options: &GaneshaOptions, served: &Path) -> String {
    let (host, port, recovery) = (context.address.ip(), context.address.port(), context.path("recovery"));
    let (name, path) = match options.backend {
        GaneshaBackend::Files | GaneshaBackend::Disk => ("VFS", served.to_string_lossy().into_owned()),
        GaneshaBackend::Memory => ("MEM", "/memory".to_owned()),
    };
    let (version, mount_port) = match options.nfs_version {
        NfsVersion::V41 => (4, String::new()),
        NfsVersion::V3 => (3, format!("MNT_Port = {};\nmount_path_pseudo = true;\n", options.mount_port)),
    };
    format!(
        "NFS_CORE_PARAM {{\n\
         Protocols = {version};\n\
         {mount_port}\
         NFS_Port = {port};\n\
         Bind_addr = {host};\n\
         Enable_NLM = false;\n\
         Enable_RQUOTA = false;\n\
         Enable_UDP = false;\n\
         }}\n\
         NFSv4 {{\n\
         Minor_Versions = 1;\n\
         RecoveryBackend = fs_ng;\n\
         RecoveryRoot = \"{recovery}\";\n\
         Graceless = true;\n\
         Delegations = false;\n\
         }}\n\
         MEM {{ Inode_Size = {inode}; }}\n\
         EXPORT {{\n\
         Export_Id = 1;\n\
         Path = \"{path}\";\n\
         Pseudo = \"{export}\";\n\
         Access_Type = RW;\n\
         Squash = No_Root_Squash;\n\
         SecType = sys;\n\
         Protocols = {version};\n\
         Transports = TCP;\n\
         MaxRead = 1048576;\n\
         MaxWrite = 1048576;\n\
         FSAL {{ Name = {name}; }}\n\
         }}\n\
         LOG {{ Default_Log_Level = WARN; }}\n",
        inode = GaneshaOptions::MEMORY_FILE_BYTES,
        export = GaneshaOptions::EXPORT,
    )
}

/// Ready is any reply that the call was carried out.
fn judge(answer: &[u8]) -> Heard {
    let mut answer = answer.to_vec();
    match rpc::record(&mut answer, 4096) {
        Ok(rpc::Record::Incomplete) => Heard::Incomplete,
        Ok(rpc::Record::Whole { message, .. }) => match rpc::results(&answer[message]) {
            Ok(_) => Heard::Ready(None),
            Err(error) => Heard::NotYet(error.to_string()),
        },
        Err(error) => Heard::NotYet(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_judged_whatever_they_are() {
        let reply = |status: u8| {
            [&[0x80, 0, 0, 24, 0, 0, 0, 1, 0, 0, 0, 1][..], &[0; 12], &[0, 0, 0, status]].concat()
        };
        assert_eq!(judge(&reply(0)), Heard::Ready(None));
        assert_eq!(judge(&reply(0)[..20]), Heard::Incomplete);
        assert!(matches!(judge(&reply(1)), Heard::NotYet(why) if why.contains("no such program")));
        assert!(matches!(judge(&[0xff; 100]), Heard::NotYet(_)));
    }

    #[test]
    fn the_configuration_names_what_the_plan_says() {
        let of = |backend, nfs_version| {
            let options = GaneshaOptions { port: 80, backend, nfs_version, mount_port: 81 };
            configuration(&EntryContext::example(), &options, Path::new("/run/x/files"))
        };
        let files = of(GaneshaBackend::Files, NfsVersion::V41);
        assert!(files.contains("NFS_Port = 80;") && files.contains("Bind_addr = 127.0.0.1;"), "{files}");
        assert!(files.contains("Path = \"/run/x/files\";") && files.contains("Name = VFS;"), "{files}");
        assert!(files.contains("Protocols = 4;") && !files.contains("MNT_Port"), "{files}");
        let memory = of(GaneshaBackend::Memory, NfsVersion::V3);
        assert!(memory.contains("Name = MEM;") && memory.contains("MNT_Port = 81;"), "{memory}");
        assert!(memory.contains("Protocols = 3;") && !memory.contains("Protocols = 4;"), "{memory}");
    }
}
