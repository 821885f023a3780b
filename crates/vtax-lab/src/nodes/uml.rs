//! User-mode Linux nodes: the agent as /init of a kernel that is a process of the host's.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vtax_sys::cgroup::{NodeGroup, RunGroups};
use vtax_sys::check::{Check, name};
use vtax_sys::spawn::Spawn;
use vtax_sys::{Namespaces, NetNs, chain};
use vtax_units::Bytes;
use vtax_vm::contract::UML_READY;
use vtax_vm::{Uml, UmlConfig, VmError, uml_panic_of, uml_proof};

use crate::agent_program::{CHANNEL, DIRECTORY, group_for};
use crate::attachment::Attachment;
use crate::budget::Enforced;
use crate::error::{LabError, OnPath, Result, While};
use crate::fabric::UmlPort;
use crate::node::{Host, Node};
use crate::process_io::{ENVIRONMENT, head, output_file, tail};
use crate::spec::NodeSpec;

/// The number of the descriptor that it reads its initrd from.
const INITRD: i32 = 4;
/// A directory of its own, in its mount namespace.
const SOCKETS: &str = "/tmp";
/// Where its memory is: it runs what is in there, so it must not be mounted `noexec`.
const MEMORY: &str = "/dev/shm";
/// What its processes may take beside its memory.
const OVERHEAD: Bytes = Bytes::from_mib(128);
/// How long it may take to boot; 1.5 s on a machine with nothing else to do.
const BOOT_WITHIN: Duration = Duration::from_secs(60);
/// How long it may take to run the smallest program.
const PROVED_WITHIN: Duration = Duration::from_secs(20);
/// How long it may take to be gone once it is killed.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// More that isn't the word for ready is not read.
const MOST_BEFORE: usize = 64 << 10;
/// Of what its kernel says, no more is looked at.
const MOST_SAID: u64 = 64 << 10;

/// Starts one, and waits until its agent listens: what is said to its serial line before that would be taken for typing.
pub(crate) fn start(
    uml: &Arc<Uml>,
    groups: Option<&RunGroups>,
    spec: &NodeSpec,
    port: UmlPort,
) -> Result<Node> {
    let what = || format!("build node {}", spec.name);
    let memory = spec.memory.unwrap_or(Bytes::from_mib(256));
    if memory < uml.least_memory() {
        let (has, needs) = (memory.0 >> 20, uml.least_memory().0.div_ceil(1 << 20));
        return Err(failed(spec, format!("it has {has} MiB of memory and needs {needs} MiB to boot")));
    }
    let group = group_for(groups, &NodeSpec { memory: Some(Bytes(memory.0 + OVERHEAD.0)), ..spec.clone() })?;
    let config = UmlConfig {
        name: &spec.name,
        memory,
        tap: &port.name,
        mac: port.mac.to_string(),
        descriptors: [INITRD, CHANNEL],
        directory: Path::new(SOCKETS),
    };
    let command = uml.command(&config);
    let (ours, theirs) = UnixStream::pair().on("create", Path::new("a socket pair"))?;
    let output = output_file(&spec.name)?;
    let spawn = spawn(uml, &command, spec, port.inside.as_deref(), &output)?;
    let spawn = spawn
        .fd(theirs.into(), CHANNEL)
        .fd(uml.initrd().try_clone_to_owned().on("duplicate", Path::new("initrd"))?, INITRD);
    let started = spawn.start(|pid| group.as_ref().map_or(Ok(()), |group| group.attach(pid)));
    let process = started.during(what).inspect_err(|_| {
        // The first error tells more than a group that can't be removed.
        let _ = group.as_ref().map(NodeGroup::remove);
    })?;
    let facts =
        [("uml.kernel".to_owned(), uml.release().to_owned()), ("uml.command".to_owned(), command.join(" "))];
    // From here on the node is a guard: what fails below takes it down.
    let mut node = Node {
        attachment: Attachment { name: spec.name.clone(), netns: None, interfaces: Some(vec![port.setup]) },
        enforced: Enforced::default(),
        host: Some(Host::Uml(process)),
        channel: None,
        group,
        output: Some(output),
        directory: DIRECTORY.into(),
        facts: facts.into(),
        on_host: None,
        disk: None,
    };
    let panic = || node.output.as_ref().and_then(|output| uml_panic_of(&head(output, MOST_SAID)));
    await_ready(&ours, panic).map_err(|why| {
        let said = || format!("{why}: {}", node.output.as_ref().map(tail).unwrap_or_default());
        failed(spec, panic().unwrap_or_else(said))
    })?;
    node.channel = Some(ours.into());
    node.read_back_limits()?;
    Ok(node)
}

/// Proves that its kernel runs a program on this host. On a CPU with AMX, Debian's 6.1 panics at the first one.
///
/// # Errors
///
/// [`LabError::UmlUnusable`] where it doesn't run one; others where no process can be started or ended.
pub(crate) fn prove(uml: &Uml) -> Result<()> {
    let (initrd, command) = uml.probe(INITRD, Path::new(SOCKETS)).map_err(LabError::NoUml)?;
    let output = output_file("probe")?;
    let spec = NodeSpec::new("probe");
    let process = spawn(uml, &command, &spec, None, &output)?.fd(initrd, INITRD).start(|_| Ok(()));
    let process = process.during(|| "prove user-mode Linux".to_owned())?;
    let until = Instant::now() + PROVED_WITHIN;
    let proof = loop {
        let ended = process.ended_within(Duration::from_millis(20)).unwrap_or(true);
        if let Some(proof) = uml_proof(&head(&output, MOST_SAID)) {
            break proof.map_err(|reason| (reason, true));
        }
        if ended {
            break Err((format!("it ended: {}", tail(&output)), false));
        }
        if Instant::now() >= until {
            let late = format!("it ran none within {} s: {}", PROVED_WITHIN.as_secs(), tail(&output));
            break Err((late, false));
        }
    };
    let gone = process.kill_and_reap(GONE_WITHIN);
    proof.map_err(|(reason, panicked)| LabError::UmlUnusable { reason, panicked })?;
    gone.during(|| "end user-mode Linux".to_owned())
}

/// What `vtax doctor` says of it.
pub(crate) fn check() -> Check {
    let proved = Uml::prepare(Path::new("/proc/self/exe"))
        .map_err(LabError::NoUml)
        .and_then(|uml| prove(&uml).map(|()| format!("{} {}", uml.program().display(), uml.release())));
    told(proved)
}

fn told(proved: Result<String>) -> Check {
    const NAME: &str = name::USER_MODE_LINUX;
    match proved {
        Ok(found) => Check::ok(NAME, found),
        // Nothing that could be installed would help.
        Err(LabError::NoUml(e @ VmError::OtherArchitecture { .. })) => {
            Check::missing(NAME, e.to_string(), "another host, of x86-64")
        }
        Err(LabError::NoUml(e)) => Check::missing(NAME, e.to_string(), "vtax setup"),
        Err(LabError::UmlUnusable { reason, panicked }) => {
            let fix = match panicked {
                true => "use a host with another kind of CPU",
                false => {
                    "see what it said; it needs ptrace, which a container's seccomp filter or \
                     `kernel.yama.ptrace_scope` may refuse"
                }
            };
            Check::missing(NAME, format!("it runs no program here: {reason}"), fix)
        }
        Err(e) => Check::missing(NAME, chain(&e), "see the points above"),
    }
}

/// In namespaces of its own, of which its first process is the first: its end is that of all that it runs, which would otherwise
/// go on as processes of the host's. What it says goes to `output`.
fn spawn(
    uml: &Uml,
    command: &[String],
    spec: &NodeSpec,
    network: Option<&NetNs>,
    output: &File,
) -> Result<Spawn> {
    let kinds = Namespaces::PID | Namespaces::MOUNT | Namespaces::IPC | Namespaces::UTS;
    let copy = || output.try_clone().map(OwnedFd::from).on("duplicate", Path::new("output"));
    let null = Path::new("/dev/null");
    let mut spawn = Spawn::new(uml.program(), command)
        .namespaces(kinds)
        .host_name(&spec.name)
        .mount_proc()
        .mount_tmpfs(SOCKETS, "mode=1777", false)
        .mount_tmpfs(MEMORY, "mode=1777,size=100%", false)
        .fd(File::open(null).on("open", null)?.into(), 0)
        .fd(copy()?, 1)
        .fd(copy()?, 2)
        .env("TMPDIR", MEMORY);
    for (name, value) in ENVIRONMENT {
        spawn = spawn.env(name, value);
    }
    if !spec.cpus.is_empty() {
        spawn = spawn.cpus(&spec.cpus);
    }
    match network {
        Some(network) => {
            let network = network.try_clone().during(|| format!("build node {}", spec.name))?;
            Ok(spawn.join_net(network.into()))
        }
        None => Ok(spawn),
    }
}

fn failed(spec: &NodeSpec, how: String) -> LabError {
    LabError::Tool { tool: format!("user-mode Linux {}", spec.name), how, output: String::new() }
}

/// Reads until the agent says that it listens, or the kernel has said that it ends.
fn await_ready(mut stream: &UnixStream, panic: impl Fn() -> Option<String>) -> Result<(), String> {
    let until = Instant::now() + BOOT_WITHIN;
    let told = |e: std::io::Error| format!("its serial line can't be read ({e})");
    stream.set_read_timeout(Some(Duration::from_millis(200))).map_err(told)?;
    let mut seen: Vec<u8> = Vec::new();
    let mut byte = [0];
    while !seen.ends_with(UML_READY) {
        match stream.read(&mut byte) {
            Ok(0) => return Err("it ended while it was booting".to_owned()),
            Ok(_) if seen.len() >= MOST_BEFORE => return Err("it says something else".to_owned()),
            Ok(_) => seen.extend(byte),
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                if let Some(why) = panic() {
                    return Err(why);
                }
                if Instant::now() >= until {
                    return Err(format!("no word from its agent after {} s", BOOT_WITHIN.as_secs()));
                }
            }
            Err(e) => return Err(told(e)),
        }
    }
    stream.set_read_timeout(None).map_err(told)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// A kernel that says nothing may lack ptrace, which no other CPU gives it.
    #[test]
    fn another_cpu_is_advised_only_where_its_kernel_panicked() {
        let fix = |error| told(Err(error)).fix.unwrap();
        let unusable = |panicked| LabError::UmlUnusable { reason: "so".to_owned(), panicked };
        assert!(fix(unusable(true)).contains("another kind of CPU"));
        assert!(fix(unusable(false)).contains("ptrace") && !fix(unusable(false)).contains("CPU"));
        let other = VmError::OtherArchitecture { architecture: "aarch64" };
        assert_eq!(fix(LabError::NoUml(other)), "another host, of x86-64");
        assert_eq!(fix(LabError::NoUml(VmError::NoUml { reason: "none".to_owned() })), "vtax setup");
        assert_eq!(told(Ok("6.1".to_owned())).fix, None);
    }

    #[test]
    fn what_comes_before_the_word_is_skipped() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"noise\r\n").unwrap();
        theirs.write_all(UML_READY).unwrap();
        theirs.write_all(b"rest").unwrap();
        await_ready(&ours, || None).unwrap();
        let mut rest = [0; 4];
        (&ours).read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"rest");
        // Its process goes on after a panic, and its line stays open.
        assert_eq!(await_ready(&ours, || Some("Kernel panic".into())).unwrap_err(), "Kernel panic");
        drop(theirs);
        assert!(await_ready(&ours, || None).unwrap_err().contains("it ended"));
    }
}
