//! What can go wrong with a service.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use vtax_sys::{ProcessExit, SysError};
use vtax_units::Nanos;

use crate::packages::Missing;

/// Why a service could not be prepared, started or stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// Its program is not installed.
    #[error("service {service}: {missing}")]
    NotInstalled {
        /// The service's name.
        service: String,
        /// What is missing, and the way out.
        missing: Missing,
    },
    /// A private file could not be made.
    #[error("service {service}: {operation} {}", path.display())]
    File {
        /// The service's name.
        service: String,
        /// What was tried, such as `writing`.
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It needs subscribers, and there are none.
    #[error("service {service} needs subscribers; they come with a SIP workload")]
    NoSubscribers {
        /// The service's name.
        service: String,
    },
    /// It is to serve from a disk, and there is none.
    #[error("service {service}: it is to serve from the system's own disk, and was given none")]
    NoDisk {
        /// The service's name.
        service: String,
    },
    /// The subscribers can't be provisioned.
    #[error("service {service}: its subscribers can't be provisioned")]
    Subscribers {
        /// The service's name.
        service: String,
        /// What is wrong with them.
        #[source]
        source: vtax_plan::model::SubscribersError,
    },
    /// The database of subscribers could not be made.
    #[error("service {service}: {operation} failed with {status}{}", said(lines))]
    Database {
        /// The service's name.
        service: String,
        /// What was tried, such as `provisioning 100000 subscribers`.
        operation: String,
        /// How the database's program ended.
        status: ProcessExit,
        /// Its last lines of output.
        lines: Vec<String>,
    },
    /// The database made beforehand isn't there.
    #[error(
        "service {service}: the database prepared in {} can't be seen in this environment; choose another cache \
         directory with VTAX_CACHE, outside /tmp and /run",
        path.display()
    )]
    NotPrepared {
        /// The service's name.
        service: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// The private directory holds something already.
    #[error(
        "service {service}: its private directory {} is not empty; each start needs a fresh one",
        path.display()
    )]
    DirectoryInUse {
        /// The service's name.
        service: String,
        /// The directory.
        path: PathBuf,
    },
    /// A file of the plan would be written elsewhere than in the private directory.
    #[error(
        "service {service}: file `{path}` is outside the private directory; use a relative path without `..`"
    )]
    PathOutside {
        /// The service's name.
        service: String,
        /// The path as the plan has it.
        path: String,
    },
    /// The user a server drops to can't reach its documents.
    #[error(
        "service {service}: user {user} can't enter {}, which is above its documents; allow it with `chmod o+x`",
        path.display()
    )]
    Unreachable {
        /// The service's name.
        service: String,
        /// The user.
        user: String,
        /// The directory without search permission.
        path: PathBuf,
    },
    /// Another process listens there.
    #[error("service {service}: port {} is in use{}; stop that process or choose another port",
        address.port(), by.as_ref().map(|b| format!(" by {b}")).unwrap_or_default())]
    PortInUse {
        /// The service's name.
        service: String,
        /// Where the service was to listen.
        address: SocketAddr,
        /// Name and id of the process that listens, where it can be seen.
        by: Option<String>,
    },
    /// The port may not be opened by this user.
    #[error(
        "service {service}: port {} may not be opened without privileges; choose one above 1023",
        address.port()
    )]
    PortForbidden {
        /// The service's name.
        service: String,
        /// Where the service was to listen.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The node has no such address, or refuses it in another way.
    #[error("service {service}: nothing can listen on {address} in this node; is its interface up?")]
    NoAddress {
        /// The service's name.
        service: String,
        /// Where the service was to listen.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The program could not be run.
    #[error("service {service}: running {}", command.join(" "))]
    Spawn {
        /// The service's name.
        service: String,
        /// The command line.
        command: Vec<String>,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// It ended before it was ready.
    #[error("service {service} ended with {status} before it was ready{}", said(lines))]
    DiedAtStart {
        /// The service's name.
        service: String,
        /// How it ended.
        status: ProcessExit,
        /// Its last lines of output.
        lines: Vec<String>,
    },
    /// It did not get ready in time.
    #[error("service {service} was not ready within {timeout}: {reason}{}{}", did(doing), said(lines))]
    NeverReady {
        /// The service's name.
        service: String,
        /// The plan's `ready_timeout`.
        timeout: Nanos,
        /// What was still missing.
        reason: String,
        /// What its processes were doing then, one by one.
        doing: Vec<String>,
        /// Its last lines of output.
        lines: Vec<String>,
    },
    /// It was ready, and one of the commands without which it is of no use failed.
    #[error("service {service} runs, but could not be set up: {reason}{}{}", did(doing), said(lines))]
    NotSetUp {
        /// The service's name.
        service: String,
        /// Which command failed, and how.
        reason: String,
        /// What its processes were doing then, one by one.
        doing: Vec<String>,
        /// Its last lines of output.
        lines: Vec<String>,
    },
    /// The start was called off.
    #[error("service {service}: its start was called off")]
    CalledOff {
        /// The service's name.
        service: String,
    },
    /// Some of its processes could not be ended.
    #[error("service {service}: processes {pids:?} are still there after SIGKILL")]
    Unkillable {
        /// The service's name.
        service: String,
        /// Their ids.
        pids: Vec<i32>,
    },
    /// A system call failed.
    #[error("service {service}: {operation}")]
    System {
        /// The service's name.
        service: String,
        /// What was tried.
        operation: &'static str,
        /// What the kernel said.
        #[source]
        source: SysError,
    },
}

/// What a service's processes were doing.
fn did(doing: &[String]) -> String {
    match doing {
        [] => String::new(),
        doing => {
            let doing: Vec<String> = doing.iter().map(|process| without_place(process)).collect();
            format!("; its processes: {}", doing.join(", "))
        }
    }
}

/// What a process was doing without the kernel's function that it waited in: `python3 is waiting (poll) after 0.10 s of CPU`. Where it
/// can't be interrupted there, that function may be the reason, and stays.
fn without_place(doing: &str) -> String {
    let parts = doing.rsplit_once(" is waiting (");
    match parts.and_then(|(name, rest)| Some((name, rest.split_once(") ")?.1))) {
        Some((name, rest)) => format!("{name} is waiting {rest}"),
        None => doing.to_owned(),
    }
}

/// The end of an error message: what the service said last.
fn said(lines: &[String]) -> String {
    match lines {
        [] => "; it wrote nothing".to_owned(),
        lines => format!("; its last lines:\n  {}", lines.join("\n  ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_up_that_fails_is_not_told_as_a_service_that_is_late() {
        let error = ServiceError::NotSetUp {
            service: "storage".to_owned(),
            reason: "tgtadm ended with exit code 22".to_owned(),
            doing: vec!["tgtd is waiting".to_owned()],
            lines: Vec::new(),
        };
        assert_eq!(
            error.to_string(),
            "service storage runs, but could not be set up: tgtadm ended with exit code 22; its processes: tgtd is \
             waiting; it wrote nothing"
        );
    }

    #[test]
    fn the_kernels_functions_are_left_out_unless_they_may_be_the_reason() {
        let after = "after 0.10 s of CPU";
        let waits = format!("a) Z 1 is waiting (poll_schedule_timeout.constprop.0) {after}");
        assert_eq!(without_place(&waits), format!("a) Z 1 is waiting {after}"));
        let stuck = format!("tgtd is waiting and can't be interrupted (nfs_wait) {after}");
        for kept in [stuck, format!("tgtd is waiting {after}"), "and 3 more".to_owned()] {
            assert_eq!(without_place(&kept), kept);
        }
    }
}
