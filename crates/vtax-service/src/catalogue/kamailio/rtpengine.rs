//! rtpengine, which relays the sound of calls beside Kamailio. Every setting and its reason is in docs/services.md.

use std::net::{Ipv4Addr, SocketAddr};

use crate::packages::{Distribution, Package};
use crate::recipe::{Condition, EntryContext, Heard, Recipe};

/// Where its program is.
const PROGRAMS: &[&str] = &["/usr/bin/rtpengine", "/usr/sbin/rtpengine", "/usr/local/bin/rtpengine"];
/// Ports of the sound that it relays.
const MEDIA_PORTS: (u16, u16) = (30_000, 59_999);
/// How far from Kamailio's port it is told about calls.
const BESIDE: u16 = 3;
/// Seconds after which a call without sound is over, whatever became of its BYE. Those that Kamailio tells of their end don't wait.
const SILENCE: u32 = 60;

/// The package, of a distribution that has it.
pub(super) fn package() -> Option<Package> {
    let install = "apt-get install --no-install-recommends rtpengine-daemon";
    let package = || Package::of("kamailio (rtpengine)", PROGRAMS, ("rtpengine-daemon", install));
    (Distribution::of_this_host() == Distribution::Debian)
        .then(|| package().with_unit("rtpengine-daemon.service"))
}

/// Where it is told about calls: on the node's own loopback.
pub(super) fn control(context: &EntryContext<'_>) -> SocketAddr {
    let port = context.address.port();
    let own = port.checked_add(BESIDE).unwrap_or(port - BESIDE);
    (Ipv4Addr::LOCALHOST, own).into()
}

/// How it is started, with a worker for each CPU.
pub(super) fn recipe(context: &EntryContext<'_>, program: &str) -> Recipe {
    let (control, address, workers) = (control(context), context.address.ip(), context.cpus);
    let (first, last) = MEDIA_PORTS;
    let command = [
        program.to_owned(),
        // Nothing of the host's own configuration.
        "--config-file=none".to_owned(),
        "--foreground".to_owned(),
        "--log-stderr".to_owned(),
        // Warnings: a line for each call would cost more than its sound.
        "--log-level=4".to_owned(),
        // In user space: its kernel module isn't Debian's kernel's.
        "--table=-1".to_owned(),
        format!("--interface={address}"),
        format!("--listen-ng={control}"),
        // The same over TCP, where it is asked whether it is ready.
        format!("--listen-tcp-ng={control}"),
        format!("--port-min={first}"),
        format!("--port-max={last}"),
        format!("--num-threads={workers}"),
        format!("--timeout={SILENCE}"),
        // A call gives its ports back as soon as Kamailio says that it is over.
        "--delete-delay=0".to_owned(),
        format!("--pidfile={}", context.path("rtpengine.pid")),
    ];
    let ready = Condition::Answer { what: "ping".to_owned(), ask: b"1 d7:command4:pinge\n".to_vec(), judge };
    Recipe {
        part: Some("rtpengine"),
        address: control,
        datagrams: true,
        ..context.recipe(command.to_vec(), ready)
    }
}

/// Ready is who answers `pong` (the `ng` protocol, a dictionary in bencode behind a cookie).
fn judge(answer: &[u8]) -> Heard {
    if answer.windows(4).any(|four| four == b"pong") { Heard::Ready(None) } else { Heard::Incomplete }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_about_calls_on_loopback() {
        let context =
            EntryContext { address: ([10, 0, 0, 2], 5060).into(), cpus: 2, ..EntryContext::example() };
        let recipe = recipe(&context, "/usr/bin/rtpengine");
        assert_eq!(recipe.address, ([127, 0, 0, 1], 5063).into());
        for word in ["--interface=10.0.0.2", "--listen-ng=127.0.0.1:5063", "--num-threads=2", "--table=-1"] {
            assert!(recipe.command.iter().any(|own| own == word), "{word}: {:?}", recipe.command);
        }
        let last = EntryContext { address: ([10, 0, 0, 2], u16::MAX).into(), ..EntryContext::example() };
        assert_eq!(control(&last).port(), u16::MAX - BESIDE);
    }

    #[test]
    fn only_a_pong_is_an_answer() {
        assert_eq!(judge(b"1 d6:result4:ponge"), Heard::Ready(None));
        assert_eq!(judge(b"1 d6:result4:po"), Heard::Incomplete);
        assert_eq!(judge(b""), Heard::Incomplete);
    }
}
