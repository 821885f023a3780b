//! stunnel: TLS in front of servers that have none. Every setting and its reason is in docs/desktop.md.

use std::fmt::Write as _;
use std::net::SocketAddr;

use super::certificate;
use crate::documents::write_file;
use crate::error::ServiceError;
use crate::packages::{Distribution, Package};
use crate::recipe::{Condition, EntryContext, Recipe};

const PROGRAMS: &[&str] = &["/usr/bin/stunnel", "/usr/bin/stunnel4", "/usr/local/bin/stunnel"];
const CONFIGURATION: &str = "stunnel.conf";

pub(super) fn package() -> Package {
    let of = match Distribution::of_this_host() {
        Distribution::Debian => ("stunnel4", "apt-get install stunnel4"),
        Distribution::Fedora => ("stunnel", "dnf install stunnel"),
        Distribution::Suse => ("stunnel", "zypper install stunnel"),
        Distribution::Arch => ("stunnel", "pacman -S stunnel"),
        Distribution::Alpine => ("stunnel", "apk add stunnel"),
    };
    Package::of("stunnel", PROGRAMS, of)
}

/// A way through it: where clients come, and the server behind.
pub(super) type Way = (SocketAddr, SocketAddr);

/// One process for all ways. It is what clients of the service talk to.
pub(super) fn recipe(context: &EntryContext<'_>, ways: &[Way]) -> Result<Recipe, ServiceError> {
    certificate::write(context)?;
    let path = context.directory.join(CONFIGURATION);
    write_file(&path, configuration(context, ways).as_bytes()).map_err(context.file("writing", &path))?;
    let command = vec![package().program.to_owned(), context.path(CONFIGURATION)];
    Ok(Recipe { part: Some("stunnel"), ..context.recipe(command, Condition::Port) })
}

fn configuration(context: &EntryContext<'_>, ways: &[Way]) -> String {
    let (certificate, key) = (context.path(certificate::CERTIFICATE), context.path(certificate::KEY));
    // An empty `pid` is none.
    let mut text = format!(
        "foreground = yes\n\
         pid =\n\
         debug = warning\n\
         socket = l:TCP_NODELAY=1\n\
         socket = r:TCP_NODELAY=1\n\
         cert = {certificate}\n\
         key = {key}\n"
    );
    for (number, (outside, inside)) in ways.iter().enumerate() {
        // The last colon is before the port, also after an address of IPv6.
        let of = |address: &SocketAddr| format!("{}:{}", address.ip(), address.port());
        // Text is only appended.
        let _ = writeln!(text, "[{number}]\naccept = {}\nconnect = {}", of(outside), of(inside));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_has_a_section() {
        let address = |text: &str| text.parse().unwrap();
        let ways = [
            (address("10.0.0.2:5901"), address("127.0.0.2:5901")),
            (address("[fd00::2]:5902"), address("127.0.0.2:5902")),
        ];
        let text = configuration(&EntryContext::example(), &ways);
        assert!(text.starts_with("foreground = yes\npid =\n"), "{text}");
        assert!(text.contains("\ncert = /run/x/certificate.pem\nkey = /run/x/key.pem\n"), "{text}");
        assert!(text.contains("\n[0]\naccept = 10.0.0.2:5901\nconnect = 127.0.0.2:5901\n"), "{text}");
        assert!(text.ends_with("\n[1]\naccept = fd00::2:5902\nconnect = 127.0.0.2:5902\n"), "{text}");
    }
}
