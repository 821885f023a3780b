//! tgt, an iSCSI target in user space. Every setting and its reason is in docs/storage.md.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use vtax_plan::model::{Backend, ChapMode, TgtOptions};

use super::entry::Entry;
use crate::error::ServiceError;
use crate::packages::{Distribution, Package};
use crate::recipe::{Condition, EntryContext, Recipe};

const PROGRAMS: &[&str] = &["/usr/sbin/tgtd", "/usr/local/sbin/tgtd"];
/// Its control program is beside it.
const CONTROLS: &[&str] = &["/usr/sbin/tgtadm", "/usr/local/sbin/tgtadm"];
/// Where tgtd and tgtadm meet instead of below `/run`, which a test has none of its own.
const SOCKET: &str = "TGT_IPC_SOCKET";
/// The target's number; it has one.
const TARGET: &str = "1";
/// The caching page without a write cache, as tgt's own `tgt-admin` writes it: page 8, its flags, the rest unchanged.
const NO_WRITE_CACHE: &str =
    "mode_page=8:0:18:0x10:0:0xff:0xff:0:0:0xff:0xff:0xff:0xff:0x80:0x14:0:0:0:0:0:0";

fn all_packages() -> [Package; 2] {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => ("tgt", "apt-get install tgt"),
        Distribution::Fedora => ("scsi-target-utils", "dnf install scsi-target-utils"),
        Distribution::Suse => ("tgt", "zypper install tgt"),
        Distribution::Arch => ("tgt", "install tgt from the AUR"),
        Distribution::Alpine => ("scsi-tgt", "apk add scsi-tgt scsi-tgt-openrc"),
    };
    [
        Package::of("tgt", PROGRAMS, of).with_unit("tgt.service"),
        Package::of("tgt (control program)", CONTROLS, of),
    ]
}

pub(super) fn packages() -> Vec<Package> {
    all_packages().to_vec()
}

pub(super) struct Tgt<'a>(pub(super) &'a TgtOptions);

impl Entry for Tgt<'_> {
    fn packages(&self) -> Vec<Package> {
        packages()
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let directory = match self.0.backend {
            Backend::Files => context.directory.to_owned(),
            Backend::Disk => context.served(Backend::Disk)?,
        };
        make_units(&directory, self.0.luns, self.0.size.0)
            .map_err(context.file("making the units in", &directory))?;
        let portal = format!("portal={}", context.address);
        let command = [all_packages()[0].program, "-f", "--iscsi", &portal].map(str::to_owned).to_vec();
        let mut recipe = context.recipe(command, Condition::Port);
        recipe.env.push((SOCKET.to_owned(), context.path("control")));
        recipe.setup = setup(self.0, &directory);
        Ok(vec![recipe])
    }
}

fn unit(lun: u32) -> String {
    format!("unit-{lun}")
}

/// Makes the files of a target's units, of so many bytes each, if all of them can be filled. They are sparse: what is never written takes
/// no space. Those from an earlier start are kept.
pub(super) fn make_units(directory: &Path, luns: u32, size: u64) -> io::Result<Vec<PathBuf>> {
    let paths: Vec<PathBuf> = (1..=luns).map(|lun| directory.join(unit(lun))).collect();
    let there =
        paths.iter().map(|path| path.metadata().map_or(0, |there| there.blocks().saturating_mul(512)));
    let needed = still_needed(size, there);
    let free = rustix::fs::statvfs(directory)?;
    let free = free.f_bavail.saturating_mul(free.f_frsize);
    if free < needed {
        let reason = format!("{needed} bytes are needed, and {free} are free");
        return Err(io::Error::new(io::ErrorKind::StorageFull, reason));
    }
    for path in &paths {
        File::options().write(true).create(true).truncate(false).open(path)?.set_len(size)?;
    }
    Ok(paths)
}

/// Bytes that are still needed for files of one size, of which each has so many already.
fn still_needed(size: u64, there: impl Iterator<Item = u64>) -> u64 {
    there.map(|there| size.saturating_sub(there)).fold(0, u64::saturating_add)
}

/// What tgt is told once it runs: the target, its units, who may use it.
fn setup(options: &TgtOptions, directory: &Path) -> Vec<Vec<String>> {
    let command = |words: &[&str]| {
        let begin = [all_packages()[1].program, "--lld", "iscsi"];
        begin.iter().chain(words).map(|word| (*word).to_owned()).collect::<Vec<_>>()
    };
    let mut all =
        vec![command(&["--op", "new", "--mode", "target", "--tid", TARGET, "-T", TgtOptions::TARGET])];
    // It takes them, but only where it is told so; who uses them is the initiator's choice.
    for digest in ["HeaderDigest", "DataDigest"] {
        let what = [
            "--op",
            "update",
            "--mode",
            "target",
            "--tid",
            TARGET,
            "--name",
            digest,
            "--value",
            "CRC32C,None",
        ];
        all.push(command(&what));
    }
    for lun in 1..=options.luns {
        let (number, file) = (lun.to_string(), directory.join(unit(lun)).to_string_lossy().into_owned());
        let unit = ["--mode", "logicalunit", "--tid", TARGET, "--lun", &number];
        all.push(command(&[&["--op", "new"], &unit[..], &["--backing-store", &file]].concat()));
        if !options.write_cache {
            all.push(command(&[&["--op", "update"], &unit[..], &["--params", NO_WRITE_CACHE]].concat()));
        }
    }
    let mut account = |(name, secret): (&str, &str), outgoing: &[&str]| {
        all.push(command(&["--op", "new", "--mode", "account", "--user", name, "--password", secret]));
        let bind = ["--op", "bind", "--mode", "account", "--tid", TARGET, "--user", name];
        all.push(command(&[&bind, outgoing].concat()));
    };
    if options.chap != ChapMode::None {
        account(TgtOptions::INITIATOR_CHAP, &[]);
    }
    if options.chap == ChapMode::Mutual {
        account(TgtOptions::TARGET_CHAP, &["--outgoing"]);
    }
    // Last: until then nobody may log in.
    let bind = ["--op", "bind", "--mode", "target", "--tid", TARGET];
    if options.initiators.is_empty() {
        all.push(command(&[&bind[..], &["--initiator-address", "ALL"]].concat()));
    }
    for name in &options.initiators {
        all.push(command(&[&bind[..], &["--initiator-name", name]].concat()));
    }
    all
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use vtax_units::Bytes;

    use super::*;

    #[test]
    fn the_target_is_told_what_the_plan_says() {
        let options = TgtOptions {
            port: 3260,
            luns: 2,
            size: Bytes::from_mib(1),
            chap: ChapMode::Mutual,
            write_cache: false,
            initiators: vec!["iqn.a".into()],
            backend: Backend::Files,
        };
        let directory = Path::new("/run/x");
        let commands: Vec<String> = setup(&options, directory).iter().map(|c| c.join(" ")).collect();
        let has = |part: &str| commands.iter().filter(|command| command.contains(part)).count();
        assert_eq!(has("--op new --mode logicalunit --tid 1 --lun"), 2);
        assert_eq!(has("--backing-store /run/x/unit-2"), 1);
        assert_eq!(has("mode_page=8:"), 2);
        assert_eq!((has("--op bind --mode account"), has("--outgoing")), (2, 1));
        assert!(commands.last().unwrap().ends_with("--initiator-name iqn.a"));
        let open = TgtOptions { chap: ChapMode::None, write_cache: true, initiators: Vec::new(), ..options };
        assert_eq!(setup(&open, directory).len(), 6);
    }

    #[test]
    fn a_unit_larger_than_what_is_free_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let error = make_units(directory.path(), 1, u64::MAX).unwrap_err();
        assert!(error.to_string().contains("are free"), "{error}");
    }

    /// Each was compared with all that is free.
    #[test]
    fn units_that_fit_one_by_one_but_not_together_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let free = rustix::fs::statvfs(directory.path()).unwrap();
        // Others may make room meanwhile, though not for as much as there is.
        let size = free.f_bavail * free.f_frsize / 4 * 3;
        let error = make_units(directory.path(), 3, size).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{error}");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "none was begun");
    }

    #[test]
    fn units_of_an_earlier_start_are_kept_and_what_they_have_is_not_needed_again() {
        let directory = tempfile::tempdir().unwrap();
        let made = make_units(directory.path(), 1, 1 << 20).unwrap();
        assert_eq!(made, [directory.path().join("unit-1")]);
        std::fs::OpenOptions::new().write(true).open(&made[0]).unwrap().write_all(b"kept").unwrap();
        let made = make_units(directory.path(), 2, 2 << 20).unwrap();
        for path in &made {
            assert_eq!(path.metadata().unwrap().len(), 2 << 20);
        }
        assert!(std::fs::read(&made[0]).unwrap().starts_with(b"kept"));
        assert_eq!(still_needed(10, [0, 10, 4, 20].into_iter()), 16);
        assert_eq!(still_needed(u64::MAX, [0, 0].into_iter()), u64::MAX);
    }
}
