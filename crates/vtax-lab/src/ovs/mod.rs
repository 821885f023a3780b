//! Open vSwitch of the lab's own: a database server and a switch daemon with their files on the lab's
//! scratch space, so that neither a system's Open vSwitch nor another lab's is met.

mod controller;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use vtax_plan::model::{Controller as Kind, Datapath, OvsOptions, SdnOptions, WhenLost};
use vtax_sys::spawn::Spawn;
use vtax_sys::sync::lock;
use vtax_units::CpuSet;

use crate::error::{LabError, OnPath, Result};
use crate::program::{Daemon, Program};

use controller::Controller;
pub(crate) use controller::TESTCONTROLLER;

const PACKAGE: &str = "openvswitch-switch";
const DATABASE_TOOL: Program = Program { name: "ovsdb-tool", package: PACKAGE };
const DATABASE: Program = Program { name: "ovsdb-server", package: PACKAGE };
pub(crate) const SWITCH: Program = Program { name: "ovs-vswitchd", package: PACKAGE };
const CONFIGURE: Program = Program { name: "ovs-vsctl", package: PACKAGE };
const APPCTL: Program = Program { name: "ovs-appctl", package: PACKAGE };
const DATAPATHS: Program = Program { name: "ovs-dpctl", package: PACKAGE };
const FLOWS: Program = Program { name: "ovs-ofctl", package: PACKAGE };
/// Where distributions keep the layout of its database.
const SCHEMAS: [&str; 2] =
    ["/usr/share/openvswitch/vswitch.ovsschema", "/usr/local/share/openvswitch/vswitch.ovsschema"];
/// How long a daemon may take to start, or a tool to do its work, on a busy host.
const PATIENCE: Duration = Duration::from_secs(20);

/// What an Open vSwitch is started with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OvsSpec<'a> {
    /// Tells two of one lab apart.
    pub(crate) number: u16,
    /// Where its files go: an empty directory is made there.
    pub(crate) scratch: &'a Path,
    /// Where it runs.
    pub(crate) cpus: &'a CpuSet,
    /// Where it forwards packets.
    pub(crate) options: OvsOptions,
    /// Whether it may leave segmentation and checksums to others.
    pub(crate) offloads: bool,
}

/// A running Open vSwitch with one bridge.
#[derive(Debug)]
pub(crate) struct Ovs {
    directory: PathBuf,
    bridge: String,
    cpus: CpuSet,
    number: u16,
    controller: Mutex<Option<Controller>>,
    facts: BTreeMap<String, String>,
    // In the order in which they end.
    switch: Mutex<Daemon>,
    _database: Daemon,
}

/// Why an Open vSwitch of this kind can't be started here; `None` where it can.
pub(crate) fn obstacle(options: OvsOptions) -> Option<String> {
    let programs = [DATABASE_TOOL, DATABASE, SWITCH, CONFIGURE, APPCTL, DATAPATHS, FLOWS];
    if let Some(missing) = programs.iter().find_map(|p| p.find().err()) {
        return Some(missing.to_string());
    }
    let wants_kernel = options.datapath == Datapath::Kernel;
    (wants_kernel && !kernel_has_datapath()).then(|| {
        "this kernel has no Open vSwitch datapath; load it with `sudo modprobe openvswitch`, or choose \
         `datapath: user`"
            .to_owned()
    })
}

/// Why a controller of this kind can't be started here; `None` where it can.
pub(crate) fn controller_obstacle(kind: Kind) -> Option<String> {
    controller::obstacle(kind)
}

pub(crate) fn kernel_has_datapath() -> bool {
    let listed = DATAPATHS.command(["dump-dps"]).and_then(|spawn| DATAPATHS.run(spawn, PATIENCE));
    listed.is_ok()
}

impl Ovs {
    /// Starts it, with a bridge that has no ports yet.
    ///
    /// # Errors
    ///
    /// [`LabError::NotInstalled`] with the package, [`LabError::Tool`] with a daemon's last words.
    pub(crate) fn start(spec: OvsSpec<'_>) -> Result<Self> {
        let kernel = match spec.options.datapath {
            Datapath::User => false,
            Datapath::Auto => kernel_has_datapath(),
            Datapath::Kernel => true,
        };
        let directory = spec.scratch.join(format!("ovs{}", spec.number));
        // Left by one that was taken down.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).on("create", &directory)?;
        let files = Files(&directory);
        let layout = SCHEMAS.iter().find(|path| Path::new(path).is_file()).unwrap_or(&SCHEMAS[0]);
        let make = files.command(DATABASE_TOOL, ["create", &files.path("conf.db"), layout])?;
        DATABASE_TOOL.run(make, PATIENCE)?;
        let database = files.daemon(
            DATABASE,
            spec.cpus,
            &[files.path("conf.db"), format!("--remote=punix:{}", files.path("db.sock"))],
        )?;
        database.wait_ready(PATIENCE, || Path::new(&files.path("db.sock")).exists())?;
        // Without it, TCP stalls in user space: senders leave checksums to a card that isn't there.
        let offload = !kernel && spec.offloads;
        let own = format!("other_config:userspace-tso-enable={offload}");
        files.configure(&["--no-wait", "init", "--", "set", "Open_vSwitch", ".", &own])?;
        let switch = files.daemon(SWITCH, spec.cpus, &[format!("unix:{}", files.path("db.sock"))])?;
        let bridge = format!("ovs{}", spec.number);
        let datapath = format!("datapath_type={}", if kernel { "system" } else { "netdev" });
        let added = files.configure(&["add-br", &bridge, "--", "set", "Bridge", &bridge, &datapath]);
        added.map_err(|e| if switch.alive() { e } else { switch.told(e.to_string()) })?;
        // `ovs-vswitchd (Open vSwitch) 3.1.0`
        let told = SWITCH.run(SWITCH.command(["--version"])?, PATIENCE)?;
        let version =
            told.lines().next().and_then(|line| line.split_whitespace().last()).unwrap_or("unknown");
        let facts = [
            ("path.switch", "Open vSwitch".to_owned()),
            ("path.ovs.version", version.to_owned()),
            ("path.ovs.datapath", if kernel { "kernel" } else { "user" }.to_owned()),
            (
                "path.ovs.tso",
                if kernel {
                    "kernel's"
                } else if offload {
                    "on"
                } else {
                    "off"
                }
                .to_owned(),
            ),
            ("path.ovs.cpus", spec.cpus.to_string()),
        ];
        Ok(Self {
            bridge,
            cpus: spec.cpus.clone(),
            number: spec.number,
            controller: Mutex::default(),
            facts: facts.into_iter().map(|(k, v)| (k.to_owned(), v)).collect(),
            switch: Mutex::new(switch),
            _database: database,
            directory,
        })
    }

    /// Name of its bridge.
    pub(crate) fn bridge(&self) -> &str {
        &self.bridge
    }

    /// Plugs interfaces of the lab's network namespace into the bridge.
    pub(crate) fn add_ports(&self, ports: &[String]) -> Result<()> {
        let add = |port: &String| ["--".to_owned(), "add-port".to_owned(), self.bridge.clone(), port.clone()];
        let words: Vec<String> = ports.iter().flat_map(add).collect();
        // The first command comes without the separator.
        let words: Vec<&str> = words.iter().skip(1).map(String::as_str).collect();
        Files(&self.directory).configure(&words).map(drop)
    }

    /// Starts a controller, and waits until the bridge obeys it.
    pub(crate) fn obey(&self, options: &SdnOptions) -> Result<()> {
        let files = Files(&self.directory);
        let controller = Controller::start(options, &self.directory, self.number, &self.cpus)?;
        let target = format!("target=\"{}\"", controller.target());
        // A switch that is not alone may not forward before it is told to. The wait between two tries
        // is else up to 8 s.
        files.configure(&[
            "set",
            "Bridge",
            &self.bridge,
            "fail_mode=secure",
            "controller=@c",
            "--",
            "--id=@c",
            "create",
            "Controller",
            &target,
            "max_backoff=1000",
            "connection_mode=out-of-band",
        ])?;
        // The database says only every 5 s whether they are connected; but then every controller begins
        // with a flow for what no other matches.
        controller.daemon().wait_ready(PATIENCE, || self.flows().is_some_and(|count| count > 0))?;
        if options.when_lost == WhenLost::Standalone {
            files.configure(&["set", "Bridge", &self.bridge, "fail_mode=standalone"])?;
        }
        *self.controller() = Some(controller);
        Ok(())
    }

    /// How many flows the bridge has.
    fn flows(&self) -> Option<u64> {
        let files = Files(&self.directory);
        let words =
            ["-vsyslog:off", "--timeout=5", "-OOpenFlow10,OpenFlow13", "dump-aggregate", &self.bridge];
        let told = files.command(FLOWS, words).and_then(|spawn| FLOWS.run(spawn, PATIENCE)).ok()?;
        // `... packet_count=7 byte_count=1234 flow_count=2`
        told.split_whitespace().find_map(|w| w.strip_prefix("flow_count="))?.parse().ok()
    }

    fn controller(&self) -> std::sync::MutexGuard<'_, Option<Controller>> {
        lock(&self.controller)
    }

    /// Kills the controller; the bridge goes on as it was told to for that case.
    pub(crate) fn kill_controller(&self) -> Result<()> {
        match &mut *self.controller() {
            Some(controller) => controller.kill(),
            None => Err(LabError::Path {
                path: self.bridge.clone(),
                reason: "there is no controller to kill; a path of kind `sdn` has one".to_owned(),
            }),
        }
    }

    /// What there is to say about it now.
    pub(crate) fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.facts.clone();
        let alive = lock(&self.switch).alive();
        facts.insert("path.ovs.alive".to_owned(), alive.to_string());
        let controller = self.controller();
        let Some(controller) = controller.as_ref() else { return facts };
        facts.extend(controller.facts());
        if let Some(flows) = self.flows() {
            facts.insert("path.sdn.flows".to_owned(), flows.to_string());
        }
        facts
    }

    /// Takes it down; its datapath would outlive a daemon that is killed: the kernel's, and in user space
    /// the taps that stand for its bridges, which are persistent.
    fn end(&mut self) -> Result<()> {
        if let Some(mut controller) = self.controller().take() {
            controller.kill()?;
        }
        let target = Files(&self.directory).path("switch.ctl");
        let exit = Files(&self.directory).command(APPCTL, ["-t", &target, "exit", "--cleanup"])?;
        let left = APPCTL.run(exit, PATIENCE);
        let mut switch = lock(&self.switch);
        if left.is_ok() {
            switch.ended_within(PATIENCE);
        }
        switch.kill()
    }
}

impl Drop for Ovs {
    fn drop(&mut self) {
        // What stays goes with the controller's namespaces.
        let _ = self.end();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// Its private directory, and programs that know it.
struct Files<'a>(&'a Path);

impl Files<'_> {
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }

    fn command<A: AsRef<str>>(&self, program: Program, args: impl IntoIterator<Item = A>) -> Result<Spawn> {
        let names = ["OVS_RUNDIR", "OVS_DBDIR", "OVS_LOGDIR", "OVS_SYSCONFDIR"];
        Ok(names.iter().fold(program.command(args)?, |spawn, name| spawn.env(name, self.0)))
    }

    /// Starts a daemon that logs warnings to its stderr and nowhere else.
    fn daemon(&self, program: Program, cpus: &CpuSet, args: &[String]) -> Result<Daemon> {
        let short = if program == SWITCH { "switch" } else { "database" };
        let control = format!("--unixctl={}", self.path(&format!("{short}.ctl")));
        let pid = format!("--pidfile={}", self.path(&format!("{short}.pid")));
        let quiet = ["--no-chdir", "-vconsole:warn", "-vsyslog:off", "-vfile:off"].map(str::to_owned);
        let all = args.iter().cloned().chain(quiet).chain([control, pid]);
        Daemon::start(program.name, self.command(program, all)?, cpus)
    }

    fn configure(&self, words: &[&str]) -> Result<String> {
        let database = format!("--db=unix:{}", self.path("db.sock"));
        let timeout = format!("--timeout={}", PATIENCE.as_secs());
        let own = [database.as_str(), &timeout, "--retry", "-vsyslog:off"];
        let words = own.into_iter().chain(words.iter().copied());
        CONFIGURE.run(self.command(CONFIGURE, words)?, PATIENCE * 2)
    }
}
