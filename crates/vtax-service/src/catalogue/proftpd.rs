//! ProFTPD with mod_tls. Every setting and its reason is in docs/ftp.md.

use std::path::{Path, PathBuf};

use vtax_plan::model::{FtpServerOptions, Subscribers};
use vtax_sys::check::{Check, name};

use super::entry::Entry;
use super::ftp::{CERTIFICATE, KEY, prepare, ready};
use crate::documents::write_secret;
use crate::error::ServiceError;
use crate::packages::{Distribution, Package, installed};
use crate::private::{PrivateProgram, libraries};
use crate::recipe::{EntryContext, Prepared, Recipe};

const PROGRAMS: &[&str] = &["/usr/sbin/proftpd", "/usr/bin/proftpd", "/usr/local/sbin/proftpd"];
/// Debian's package excludes that of vsftpd.
pub(crate) const PROGRAM: PrivateProgram = PrivateProgram {
    service: "proftpd",
    programs: PROGRAMS,
    packages: &["proftpd-core", "proftpd-mod-crypto"],
    place: "programs/proftpd",
};
/// Debian has its module of TLS in a package of its own; others have it built in, or beside the program.
const MODULES: &[&str] =
    &["/usr/lib/proftpd/mod_tls.so", "/usr/libexec/proftpd/mod_tls.so", "/usr/lib64/proftpd/mod_tls.so"];
/// `vtax@`, by MD5-crypt: a slower one would be measured with every login.
const PASSWORD: &str = "$1$vtax$sZiMIAyaOJMHO2fCXXLWH1";

fn all_packages() -> Vec<Package> {
    let distribution = Distribution::of_this_host();
    let of = match distribution {
        Distribution::Debian => ("proftpd-core", "vtax setup --services"),
        Distribution::Fedora => ("proftpd", "dnf install proftpd"),
        Distribution::Suse => ("proftpd", "zypper install proftpd"),
        Distribution::Arch => ("proftpd", "install proftpd from the AUR"),
        Distribution::Alpine => ("proftpd", "apk add proftpd"),
    };
    let mut packages = vec![Package::of("proftpd", PROGRAMS, of).with_unit("proftpd.service")];
    if distribution == Distribution::Debian {
        let of = ("proftpd-mod-crypto", "apt-get install proftpd-mod-crypto");
        packages.push(Package::of("proftpd (TLS)", MODULES, of));
    }
    packages
}

/// How it stands, for `vtax doctor`.
pub(super) fn checks(cache: &Path) -> Vec<Check> {
    if let Some(root) = PROGRAM.unpacked(cache) {
        return vec![Check::ok(name::service(PROGRAM.service), format!("unpacked in {}", root.display()))];
    }
    let packages = all_packages();
    // What makes the server available brings its module along.
    let shown = if packages[0].missing() { 1 } else { packages.len() };
    packages[..shown].iter().map(Package::check).collect()
}

pub(super) struct Proftpd<'a>(pub(super) &'a FtpServerOptions);

impl Entry for Proftpd<'_> {
    fn packages(&self) -> Vec<Package> {
        all_packages()
    }

    fn unpacked(&self, cache: &Path) -> Option<PathBuf> {
        PROGRAM.unpacked(cache)
    }

    fn prepare(
        &self,
        _: &str,
        _: Option<&Subscribers>,
        cache: &Path,
    ) -> Result<Option<Prepared>, ServiceError> {
        Ok(PROGRAM.prepared(cache))
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let files = prepare(context, self.0)?;
        let modules = match context.prepared {
            Some(root) => Some(root.join("usr/lib/proftpd")),
            None => installed(MODULES).and_then(|module| Path::new(module).parent()).map(Path::to_owned),
        };
        let write = |name: &str, text: &str| {
            let path = context.directory.join(name);
            write_secret(&path, text.as_bytes()).map_err(context.file("writing", &path))
        };
        write("proftpd.conf", &configuration(context, self.0, modules.as_deref()))?;
        let (user, home) = (FtpServerOptions::USER, files.display());
        write("users", &format!("{user}:{PASSWORD}:0:0:vtax:{home}:/bin/sh\n"))?;
        let program = match context.prepared {
            Some(root) => root.join("usr/sbin/proftpd").to_string_lossy().into_owned(),
            None => all_packages()[0].program.to_owned(),
        };
        let command =
            vec![program, "-n".to_owned(), "-q".to_owned(), "-c".to_owned(), context.path("proftpd.conf")];
        let mut recipe = context.recipe(command, ready(self.0));
        recipe.env.extend(context.prepared.map(|root| ("LD_LIBRARY_PATH".to_owned(), libraries(root))));
        Ok(vec![recipe])
    }
}

fn configuration(context: &EntryContext<'_>, options: &FtpServerOptions, modules: Option<&Path>) -> String {
    let load = modules.map_or_else(String::new, |directory| {
        format!("ModulePath {}\nLoadModule mod_tls.c\n", directory.display())
    });
    let (ip, port) = (context.address.ip(), context.address.port());
    let ipv6 = if ip.is_ipv6() { "on" } else { "off" };
    let mut tls_options = Vec::new();
    if options.implicit {
        tls_options.push("UseImplicitSSL");
    }
    if !options.require_reuse {
        tls_options.push("NoSessionReuseRequired");
    }
    let tls_options = match tls_options[..] {
        [] => String::new(),
        _ => format!("TLSOptions {}\n", tls_options.join(" ")),
    };
    let (certificate, key) = (context.path(CERTIFICATE), context.path(KEY));
    format!(
        "{load}\
         ServerName vtax\n\
         ServerType standalone\n\
         DefaultAddress {ip}\n\
         SocketBindTight on\n\
         Port {port}\n\
         UseIPv6 {ipv6}\n\
         User root\n\
         Group root\n\
         PidFile {pid}\n\
         ScoreboardFile none\n\
         DelayEngine off\n\
         UseReverseDNS off\n\
         WtmpLog off\n\
         TransferLog none\n\
         SystemLog none\n\
         MaxInstances none\n\
         TimeoutIdle 3600\n\
         AuthOrder mod_auth_file.c\n\
         AuthUserFile {users}\n\
         RequireValidShell off\n\
         RootLogin on\n\
         DefaultRoot ~\n\
         AllowOverwrite on\n\
         AllowStoreRestart on\n\
         TLSEngine on\n\
         TLSLog none\n\
         TLSProtocol TLSv1.2 TLSv1.3\n\
         TLSECCertificateFile {certificate}\n\
         TLSECCertificateKeyFile {key}\n\
         TLSCACertificateFile {certificate}\n\
         TLSRequired off\n\
         TLSVerifyClient off\n\
         {tls_options}",
        pid = context.path("pid"),
        users = context.path("users"),
    )
}

#[cfg(test)]
mod tests {
    use vtax_plan::model::Backend;

    use super::*;

    #[test]
    fn the_configuration_is_what_the_plan_says() {
        let of = |implicit, require_reuse| {
            let options = FtpServerOptions { port: 80, implicit, require_reuse, backend: Backend::Files };
            configuration(&EntryContext::example(), &options, Some(Path::new("/usr/lib/proftpd")))
        };
        let strict = of(false, true);
        assert!(strict.starts_with("ModulePath /usr/lib/proftpd\nLoadModule mod_tls.c\n"), "{strict}");
        assert!(
            strict.contains("\nDefaultAddress 127.0.0.1\n") && !strict.contains("TLSOptions"),
            "{strict}"
        );
        // Or each session would read all authorities that the system knows.
        assert!(strict.contains("\nTLSCACertificateFile ") && strict.contains("\nTLSVerifyClient off\n"));
        assert!(of(true, false).ends_with("TLSOptions UseImplicitSSL NoSessionReuseRequired\n"));
    }
}
