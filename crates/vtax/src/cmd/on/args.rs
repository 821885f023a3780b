//! The options by which commands are told of other hosts, and the hosts that they ask for.

use std::cell::Cell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use vtax_hosts::{Engine, HostsError, Kubernetes, KubernetesOptions, On, Slurm, SlurmOptions, Ssh, parse_on};
use vtax_plan::estimate::{Assumptions, estimate};
use vtax_plan::model::Plan;
use vtax_sys::signals::SignalFd;
use vtax_units::{Nanos, counted};

use super::say;
use crate::exit::{Classify, Exit, Failure};

/// Minutes that a job of Slurm's or Kubernetes' has besides those of its trials: for vtax to get there and begin, for the doctor, and
/// for what was found to come back.
pub(crate) const OVERHEAD_MINUTES: u64 = 15;
/// A job may take so many times what its plan is estimated to take at most: one that takes longer is ended, and its trials are lost.
const ESTIMATE_FACTOR: u64 = 2;

/// Where it is done, if not here.
#[derive(Clone, clap::Args)]
pub(crate) struct OnArgs {
    /// Where: a file of hosts or an Ansible inventory, `FILE:GROUP`, `ssh:a,b,c`, `slurm[:PARTITION]` or `k8s[:CONTEXT]` (docs/many-machines.md).
    #[arg(long, value_name = "WHERE")]
    on: Option<String>,
    /// How many hosts: of Slurm or Kubernetes so many nodes, of a list its first ones.
    #[arg(long, value_name = "N", requires = "on")]
    hosts: Option<usize>,
    /// ssh's configuration file, in place of your own; also for `nic` paths.
    #[arg(long, value_name = "FILE")]
    ssh_config: Option<PathBuf>,
    /// The image of Kubernetes' pods: it has a shell and what the plan needs.
    #[arg(long, value_name = "IMAGE", requires = "on")]
    image: Option<String>,
    /// Kubernetes' pods have the node's users, for clusters without user namespaces for pods: they ask for nothing, and runs have no
    /// namespaces in them.
    #[arg(long, requires = "on")]
    host_users: bool,
    /// No host begins before all have been reached or are lost; then all begin at once.
    #[arg(long, requires = "on")]
    pub(super) together: bool,
    /// How long to wait for nodes of Slurm or Kubernetes: `90s`, `10m`.
    #[arg(long, value_name = "TIME", default_value = "1h", requires = "on")]
    wait: Nanos,
}

impl OnArgs {
    /// True where it isn't to be done here.
    pub(crate) fn is_given(&self) -> bool {
        self.on.is_some()
    }

    /// These options for a process of vtax's own that opens streams, with hosts for the roles of this plan.
    pub(crate) fn for_roles(&self, plan: &Plan) -> Result<Vec<OsString>, Failure> {
        let asked = plan.hosts_asked();
        let wrong = |why: String| Err(anyhow::anyhow!(why)).bad_input();
        match (&self.on, self.hosts) {
            (None, _) if asked > 0 => {
                return wrong(format!(
                    "the plan asks for {asked} hosts, which --on gives: `--on ssh:a,b,c` or `--on slurm`"
                ));
            }
            (Some(_), Some(hosts)) if hosts != asked => {
                return wrong(format!("--hosts {hosts}: the plan asks for {asked}; leave it out"));
            }
            (Some(_), _) if self.together => {
                return wrong("--together: hosts with roles always begin at one moment".to_owned());
            }
            _ => {}
        }
        let given = Self { hosts: Some(asked), ..self.clone() };
        if self.on.is_some() {
            given.check()?;
        }
        let mut words: Vec<OsString> = vec!["--minutes".into(), job_minutes(plan).to_string().into()];
        let mut add = |name: &str, value: Option<OsString>| {
            words.extend(value.into_iter().flat_map(|value| [name.into(), value]));
        };
        add("--ssh-config", self.ssh_config.as_ref().map(Into::into));
        if let Some(on) = &self.on {
            add("--on", Some(on.into()));
            add("--hosts", Some(asked.to_string().into()));
            add("--image", self.image.as_ref().map(Into::into));
            add("--wait", Some(self.wait.to_string().into()));
            words.extend(self.host_users.then(|| "--host-users".into()));
        }
        Ok(words)
    }

    /// Looks at what is asked for, before anything is made.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let on = parse_on(self.on.as_deref().unwrap_or_default())?;
        let reason = match (&on, self.hosts) {
            (_, Some(0)) => "--hosts 0: at least one is needed",
            (On::Slurm { .. }, None) => "--on slurm needs --hosts N: how many nodes",
            (On::Kubernetes { .. }, None) => "--on k8s needs --hosts N: how many nodes",
            (On::Kubernetes { .. }, _) if self.image.is_none() => {
                "--on k8s needs --image IMAGE: what its pods are made of"
            }
            _ => return Ok(()),
        };
        Err(anyhow::anyhow!(reason)).bad_input()
    }

    /// Gets the hosts, unless `interrupted` says that nobody wants them any more. A job takes at most so many minutes. Without `--on` it has
    /// none, and reaches those that it is asked for by ssh.
    pub(crate) fn engine(
        &self,
        minutes: u64,
        interrupted: &dyn Fn() -> bool,
    ) -> Result<Box<dyn Engine>, HostsError> {
        let ssh = |hosts| Box::new(Ssh::new(hosts, self.ssh_config.clone()));
        let Some(on) = &self.on else { return Ok(ssh(Vec::new())) };
        let (count, wait) = (self.hosts.unwrap_or(1), Duration::from(self.wait));
        match parse_on(on)? {
            On::Ssh(mut hosts) => {
                hosts.truncate(self.hosts.unwrap_or(usize::MAX));
                Ok(ssh(hosts))
            }
            On::Slurm { partition } => {
                say("vtax", &format!("waiting for {} of Slurm", counted(count, "node")));
                let options = SlurmOptions { partition, hosts: count, minutes, wait };
                Ok(Box::new(Slurm::allocate(&options, interrupted)?))
            }
            On::Kubernetes { context } => {
                say("vtax", &format!("waiting for {} of Kubernetes", counted(count, "pod")));
                let image = self.image.clone().unwrap_or_default();
                let host_users = self.host_users;
                let options = KubernetesOptions { context, image, hosts: count, minutes, wait, host_users };
                let report = |text: &str| say("vtax", text);
                Ok(Box::new(Kubernetes::allocate(&options, interrupted, &report)?))
            }
        }
    }

    /// Gets the hosts, until a signal comes.
    pub(super) fn engine_unless_stopped(
        &self,
        minutes: u64,
        signals: &SignalFd,
    ) -> Result<Box<dyn Engine>, Failure> {
        let asked = Cell::new(false);
        let interrupted = || {
            asked.set(asked.get() || matches!(signals.next(), Ok(Some(_))));
            asked.get()
        };
        self.engine(minutes, &interrupted).map_err(|error| match asked.get() {
            true => Failure::new(Exit::Interrupted, error),
            false => error.into(),
        })
    }
}

/// How many minutes a job of this plan is asked for: more than it takes even under emulation.
pub(super) fn job_minutes(plan: &Plan) -> u64 {
    let seconds = estimate(plan, &Assumptions::TCG).time_max.0 / 1_000_000_000;
    (seconds * ESTIMATE_FACTOR / 60).saturating_add(OVERHEAD_MINUTES)
}
