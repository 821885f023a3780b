//! Container nodes: an OCI runtime of the distribution runs the agent in an overlay of the host's
//! root.

mod bundle;
mod root;
mod runtime;
mod spec;

use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vtax_sys::{NetNs, PidFd};
use vtax_units::CpuSet;

use crate::error::{LabError, OnPath, Result, While};
use root::Place;
pub use runtime::PACKAGE;
pub(crate) use runtime::{Runtime, missing};
use spec::AGENT;
pub(crate) use spec::ContainerSpec;

/// The program and the runtime that containers of a lab share.
#[derive(Debug)]
pub(crate) struct Containers {
    runtime: Runtime,
    scratch: PathBuf,
}

/// A running container.
#[derive(Debug)]
pub(crate) struct Container {
    name: String,
    process: PidFd,
    runtime: Runtime,
    /// What it needs on the host.
    place: Place,
}

impl Containers {
    /// Finds the runtime that works here by running `true` with each, and puts the agent where
    /// containers can see it.
    pub(crate) fn prepare(scratch: &Path, agent: &Path, group: Option<&str>) -> Result<Self> {
        let copy = scratch.join("vtax");
        // A copy, because a program on a file system that containers don't see (such as /tmp)
        // can't be shown to them otherwise.
        fs::copy(agent, &copy).on("copy the agent's program to", &copy)?;
        let scratch = scratch.to_owned();
        let runtime = Runtime::find(group, |runtime| {
            let probe = Self { runtime: runtime.clone(), scratch: scratch.clone() };
            probe.run_true(group.map(str::to_owned))
        })?;
        Ok(Self { runtime, scratch })
    }

    /// Name and version of the runtime, such as `runc 1.1.5`.
    pub(crate) const fn runtime(&self) -> &Runtime {
        &self.runtime
    }

    fn run_true(&self, group: Option<String>) -> Result<()> {
        let netns = NetNs::create().during(|| "probe a container".to_owned())?;
        let cpus = CpuSet::default();
        let args = vec!["/bin/true".to_owned()];
        let spec = ContainerSpec {
            name: "probe",
            args,
            cpus: &cpus,
            memory: None,
            limits_swap: false,
            group,
            writable: None,
        };
        let output = crate::process_io::output_file("probe")?;
        let container = self.start(&spec, &netns, None, &output)?;
        let ended = container.process.ended_within(Duration::from_secs(10));
        let ended = ended.and_then(|_| container.process.wait()).during(|| "probe a container".to_owned());
        let runtime = self.runtime.name.clone();
        let destroyed = container.destroy(Duration::from_secs(5)).into_iter().next();
        let ended = ended?;
        if !ended.success() {
            let output = crate::process_io::tail(&output);
            return Err(LabError::Runtime { node: "probe".into(), runtime, how: ended.to_string(), output });
        }
        destroyed.map_or(Ok(()), Err)
    }

    /// The arguments that run the agent: its program's place inside, then `args`.
    pub(crate) fn agent_args(args: &[String]) -> Vec<String> {
        std::iter::once(AGENT.to_owned()).chain(args.iter().skip(1).cloned()).collect()
    }

    /// Starts a container in a network namespace; `channel` becomes its descriptor 3.
    pub(crate) fn start(
        &self,
        spec: &ContainerSpec<'_>,
        netns: &NetNs,
        channel: Option<OwnedFd>,
        output: &File,
    ) -> Result<Container> {
        let place = Place::make(&self.scratch, spec.name)?;
        let started = self.start_in(&place, spec, netns, channel, output);
        match started {
            Ok(process) => {
                Ok(Container { name: spec.name.to_owned(), process, runtime: self.runtime.clone(), place })
            }
            Err(e) => {
                // What the runtime has made so far must go, and its word about that adds nothing.
                let _ = self.runtime.delete(spec.name, &self.scratch);
                let _ = place.remove();
                Err(e)
            }
        }
    }

    fn start_in(
        &self,
        place: &Place,
        spec: &ContainerSpec<'_>,
        netns: &NetNs,
        channel: Option<OwnedFd>,
        output: &File,
    ) -> Result<PidFd> {
        let config = bundle::config(&bundle::Bundle {
            spec,
            rootfs: &place.rootfs(),
            agent: &self.scratch.join("vtax"),
            netns,
            seccomp: self.runtime.seccomp,
            cgroups: self.runtime.cgroups,
            binds: &if place.is_whole() { bundle::host_mounts(&self.scratch) } else { Vec::new() },
        });
        let path = place.dir().join("config.json");
        fs::write(&path, config.to_string()).on("write", &path)?;
        self.runtime.run(spec.name, &self.scratch, place.dir(), channel, output)
    }
}

impl Container {
    pub(crate) fn pid(&self) -> i32 {
        self.process.pid()
    }

    pub(crate) const fn process(&self) -> &PidFd {
        &self.process
    }

    /// Ends it and removes what the runtime made. Goes on after an error and returns all of them.
    pub(crate) fn destroy(self, within: Duration) -> Vec<LabError> {
        let what = || format!("end container {}", self.name);
        let scratch = self.place.dir().parent().unwrap_or(self.place.dir());
        [
            self.process.kill_and_reap(within).during(what),
            self.runtime.delete(&self.name, scratch),
            self.place.remove(),
        ]
        .into_iter()
        .filter_map(Result::err)
        .collect()
    }
}
