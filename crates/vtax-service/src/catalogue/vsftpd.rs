//! vsftpd. Every setting and its reason is in docs/ftp.md.

use std::path::Path;

use vtax_plan::model::FtpServerOptions;

use super::entry::Entry;
use super::ftp::{CERTIFICATE, KEY, prepare, ready};
use super::proftpd::PROGRAM as PROFTPD;
use crate::documents;
use crate::error::ServiceError;
use crate::packages::{Distribution, Package, installed};
use crate::recipe::{EntryContext, Recipe};

const PROGRAMS: &[&str] = &["/usr/sbin/vsftpd", "/usr/bin/vsftpd", "/usr/local/sbin/vsftpd"];

fn package() -> Package {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => ("vsftpd", "apt-get install vsftpd"),
        Distribution::Fedora => ("vsftpd", "dnf install vsftpd"),
        Distribution::Suse => ("vsftpd", "zypper install vsftpd"),
        Distribution::Arch => ("vsftpd", "pacman -S vsftpd"),
        Distribution::Alpine => ("vsftpd", "apk add vsftpd"),
    };
    Package::of("vsftpd", PROGRAMS, of).with_unit("vsftpd.service")
}

/// Nothing where ProFTPD is installed: Debian's packages exclude each other.
pub(super) fn packages() -> Vec<Package> {
    match installed(PROFTPD.programs) {
        Some(_) => Vec::new(),
        None => vec![package()],
    }
}

pub(super) struct Vsftpd<'a>(pub(super) &'a FtpServerOptions);

impl Entry for Vsftpd<'_> {
    fn packages(&self) -> Vec<Package> {
        vec![package()]
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let files = prepare(context, self.0)?;
        let path = context.directory.join("vsftpd.conf");
        documents::write_file(&path, configuration(context, self.0, &files).as_bytes())
            .map_err(context.file("writing", &path))?;
        let command = vec![package().program.to_owned(), context.path("vsftpd.conf")];
        Ok(vec![context.recipe(command, ready(self.0))])
    }
}

fn configuration(context: &EntryContext<'_>, options: &FtpServerOptions, files: &Path) -> String {
    let yes = |yes: bool| if yes { "YES" } else { "NO" };
    let (ip, port) = (context.address.ip(), context.address.port());
    let listen = if ip.is_ipv4() {
        format!("listen=YES\nlisten_address={ip}\n")
    } else {
        format!("listen=NO\nlisten_ipv6=YES\nlisten_address6={ip}\n")
    };
    let (implicit, reuse) = (yes(options.implicit), yes(options.require_reuse));
    let (files, certificate, key) = (files.display(), context.path(CERTIFICATE), context.path(KEY));
    format!(
        "{listen}\
         listen_port={port}\n\
         background=NO\n\
         run_as_launching_user=YES\n\
         ftp_username=root\n\
         nopriv_user=root\n\
         secure_chroot_dir={files}\n\
         allow_writeable_chroot=YES\n\
         seccomp_sandbox=NO\n\
         isolate=NO\n\
         isolate_network=NO\n\
         connect_from_port_20=NO\n\
         anonymous_enable=YES\n\
         no_anon_password=NO\n\
         local_enable=NO\n\
         anon_root={files}\n\
         anon_world_readable_only=NO\n\
         write_enable=YES\n\
         anon_upload_enable=YES\n\
         anon_other_write_enable=YES\n\
         anon_umask=022\n\
         xferlog_enable=NO\n\
         max_clients=0\n\
         max_per_ip=0\n\
         idle_session_timeout=3600\n\
         ssl_enable=YES\n\
         allow_anon_ssl=YES\n\
         force_anon_data_ssl=NO\n\
         force_anon_logins_ssl=NO\n\
         implicit_ssl={implicit}\n\
         require_ssl_reuse={reuse}\n\
         ssl_tlsv1=YES\n\
         ssl_ciphers=HIGH\n\
         rsa_cert_file={certificate}\n\
         rsa_private_key_file={key}\n"
    )
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::Backend;

    use super::*;

    #[test]
    fn the_configuration_is_what_the_plan_says() {
        let of = |implicit, require_reuse| {
            let options = FtpServerOptions { port: 80, implicit, require_reuse, backend: Backend::Disk };
            configuration(&EntryContext::example(), &options, Path::new("/disk/files"))
        };
        let plain = of(false, true);
        assert!(plain.starts_with("listen=YES\nlisten_address=127.0.0.1\nlisten_port=80\n"), "{plain}");
        assert!(plain.contains("\nimplicit_ssl=NO\nrequire_ssl_reuse=YES\n"), "{plain}");
        assert!(plain.contains("\nanon_root=/disk/files\n"), "{plain}");
        // It takes a space for a part of the value.
        assert!(plain.lines().all(|line| line.split_once('=').is_some_and(|(_, v)| !v.contains(' '))));
        assert!(of(true, false).contains("\nimplicit_ssl=YES\nrequire_ssl_reuse=NO\n"));
    }
}
