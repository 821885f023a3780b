//! Samba, an SMB server. Every setting and its reason is in docs/storage.md.

use std::path::Path;

use vtax_plan::model::SambaOptions;

use super::entry::Entry;
use crate::documents::{make_directory, write_file};
use crate::error::ServiceError;
use crate::packages::{Distribution, Package};
use crate::recipe::{Condition, EntryContext, Recipe};

const PROGRAMS: &[&str] = &["/usr/sbin/smbd", "/usr/local/sbin/smbd", "/usr/local/samba/sbin/smbd"];
/// Comes along with it, and isn't used.
const NAMES: &[&str] = &["/usr/sbin/nmbd", "/usr/local/sbin/nmbd", "/usr/local/samba/sbin/nmbd"];
/// Directories that it keeps files of its own in.
const PRIVATE: [&str; 7] = ["private", "lock", "state", "cache", "pid", "rpc", "log"];

fn all_packages() -> [Package; 2] {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => ("samba", "apt-get install samba"),
        Distribution::Fedora => ("samba", "dnf install samba"),
        Distribution::Suse => ("samba", "zypper install samba"),
        Distribution::Arch => ("samba", "pacman -S samba"),
        Distribution::Alpine => ("samba", "apk add samba"),
    };
    [
        Package::of("samba", PROGRAMS, of).with_unit("smbd.service"),
        Package::of("samba (names)", NAMES, of).with_unit("nmbd.service"),
    ]
}

pub(super) fn packages() -> Vec<Package> {
    all_packages().to_vec()
}

pub(super) struct Samba<'a>(pub(super) &'a SambaOptions);

impl Entry for Samba<'_> {
    fn packages(&self) -> Vec<Package> {
        all_packages()[..1].to_vec()
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        for name in PRIVATE {
            let path = context.directory.join(name);
            make_directory(&path).map_err(context.file("making", &path))?;
        }
        let served = context.served(self.0.backend)?;
        let path = context.directory.join("smb.conf");
        write_file(&path, configuration(context, &served).as_bytes())
            .map_err(context.file("writing", &path))?;
        let configuration = context.path("smb.conf");
        let command =
            [all_packages()[0].program, "-F", "--no-process-group", "--debug-stdout", "-s", &configuration];
        Ok(vec![context.recipe(command.map(str::to_owned).to_vec(), Condition::Port)])
    }
}

fn configuration(context: &EntryContext<'_>, served: &Path) -> String {
    let (host, port) = (context.address.ip(), context.address.port());
    let [private, lock, state, cache, pid, rpc, log] = PRIVATE.map(|name| context.path(name));
    format!(
        "[global]\n\
         workgroup = VTAX\n\
         server role = standalone server\n\
         smb ports = {port}\n\
         interfaces = {host}\n\
         bind interfaces only = yes\n\
         disable netbios = yes\n\
         disable spoolss = yes\n\
         load printers = no\n\
         printcap name = /dev/null\n\
         server min protocol = SMB3\n\
         map to guest = Bad User\n\
         guest account = root\n\
         private dir = {private}\n\
         lock directory = {lock}\n\
         state directory = {state}\n\
         cache directory = {cache}\n\
         pid directory = {pid}\n\
         ncalrpc dir = {rpc}\n\
         log file = {log}/smbd\n\
         log level = 0\n\
         strict sync = yes\n\
         [{share}]\n\
         path = {served}\n\
         read only = no\n\
         guest ok = yes\n\
         guest only = yes\n\
         force user = root\n",
        served = served.display(),
        share = SambaOptions::SHARE,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_it_writes_is_in_its_own_directory() {
        let text = configuration(&EntryContext::example(), Path::new("/run/x/files"));
        assert!(text.contains("smb ports = 80\n") && text.contains("interfaces = 127.0.0.1\n"), "{text}");
        assert_eq!(text.matches("= /run/x/").count(), PRIVATE.len() + 1, "{text}");
    }
}
