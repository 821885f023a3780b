//! OpenFlow controllers.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use vtax_plan::model::{Controller as Kind, SdnMode, SdnOptions};
use vtax_units::CpuSet;

use crate::error::{LabError, OnPath, Result};
use crate::program::{Daemon, Program};

pub(crate) const TESTCONTROLLER: Program =
    Program { name: "ovs-testcontroller", package: "openvswitch-testcontroller" };
/// os-ken's own starter, `osken-manager`, isn't in Debian's package; its module is.
const PYTHON: Program = Program { name: "/usr/bin/python3", package: "python3-os-ken" };
/// The learning switch that os-ken runs.
const LEARNING: &str = include_str!("learning.py");
/// Loading os-ken takes a second, and several on a busy host.
const START_WITHIN: Duration = Duration::from_secs(30);
/// OpenFlow's port (IANA); a second controller of one lab takes the next.
const PORT: u16 = 6653;

/// Why a controller can't be started here.
pub(super) fn obstacle(kind: Kind) -> Option<String> {
    match kind {
        Kind::Testcontroller => TESTCONTROLLER.find().err().map(|e| e.to_string()),
        Kind::OsKen => {
            let import = ["-I", "-c", "import os_ken"];
            let found = PYTHON.command(import).and_then(|spawn| PYTHON.run(spawn, START_WITHIN));
            found.err().map(|_| {
                LabError::NotInstalled { program: "os-ken (for /usr/bin/python3)", package: PYTHON.package }
                    .to_string()
            })
        }
    }
}

/// A running controller.
#[derive(Debug)]
pub(super) struct Controller {
    daemon: Daemon,
    target: String,
    facts: BTreeMap<String, String>,
}

impl Controller {
    pub(super) fn start(options: &SdnOptions, directory: &Path, number: u16, cpus: &CpuSet) -> Result<Self> {
        let (daemon, target) = match options.controller {
            Kind::Testcontroller => {
                let socket = directory.join("controller.sock");
                let listen = format!("punix:{}", socket.display());
                let mut args = vec![listen.as_str(), "-vconsole:warn", "-vsyslog:off", "-vfile:off"];
                if options.mode == SdnMode::EveryPacket {
                    args.push("--noflow");
                }
                let control = format!("--unixctl={}", directory.join("controller.ctl").display());
                args.push(&control);
                let spawn = TESTCONTROLLER.command(&args)?.env("OVS_RUNDIR", directory);
                let daemon = Daemon::start(TESTCONTROLLER.name, spawn, cpus)?;
                daemon.wait_ready(START_WITHIN, || socket.exists())?;
                (daemon, format!("unix:{}", socket.display()))
            }
            Kind::OsKen => {
                let program = directory.join("learning.py");
                fs::write(&program, LEARNING).on("write", &program)?;
                let ready = directory.join("controller.ready");
                let port = (PORT + number).to_string();
                let mode = if options.mode == SdnMode::EveryPacket { "every-packet" } else { "reactive" };
                let (program, ready_path) = (program.to_string_lossy(), ready.to_string_lossy());
                // -I: neither the user's modules nor the directory's; -B: no compiled files.
                let args = ["-I", "-B", &*program, mode, &port, &*ready_path];
                let daemon = Daemon::start("os-ken", PYTHON.command(args)?, cpus)?;
                daemon.wait_ready(START_WITHIN, || ready.exists())?;
                (daemon, format!("tcp:127.0.0.1:{port}"))
            }
        };
        let words = [
            (
                "path.sdn.controller",
                if options.controller == Kind::OsKen { "os-ken" } else { "testcontroller" },
            ),
            ("path.sdn.mode", if options.mode == SdnMode::EveryPacket { "every-packet" } else { "reactive" }),
        ];
        let facts = words.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        Ok(Self { daemon, target, facts })
    }

    /// Where a switch finds it.
    pub(super) fn target(&self) -> &str {
        &self.target
    }

    pub(super) const fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    pub(super) fn kill(&mut self) -> Result<()> {
        self.daemon.kill()
    }

    pub(super) fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        facts.insert("path.sdn.controller_alive".to_owned(), self.daemon.alive().to_string());
        facts
    }
}
