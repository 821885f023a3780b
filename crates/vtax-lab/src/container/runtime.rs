//! Finding and calling an OCI runtime.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use vtax_sys::PidFd;
use vtax_sys::spawn::Spawn;
use vtax_vm::Cache;

use crate::error::{LabError, OnPath, Result, While};

/// In order of preference: crun starts faster.
const KNOWN: [&str; 2] = ["crun", "runc"];
/// The package that `vtax setup` installs or unpacks where none is there.
pub const PACKAGE: &str = "runc";
/// How long a runtime may take to start or delete a container.
const PATIENCE: Duration = Duration::from_secs(30);

/// An OCI runtime.
#[derive(Debug, Clone)]
pub(crate) struct Runtime {
    pub(crate) name: String,
    pub(crate) version: String,
    /// Whether it was built with, and the kernel has, seccomp filters.
    pub(crate) seccomp: bool,
    /// Whether it can show containers their control groups.
    pub(crate) cgroups: bool,
    program: PathBuf,
}

/// Why no container can be run by a runtime.
enum Unfit {
    /// There is none of this name.
    NotInstalled(&'static str),
    /// It is there, and this is what it said.
    Refused(String),
}

impl Runtime {
    /// The first known runtime with which `works` succeeds. `group` is the control group of what it runs then.
    pub(crate) fn find(group: Option<&str>, works: impl Fn(&Self) -> Result<()>) -> Result<Self> {
        let (path, cache) = (std::env::var_os("PATH").unwrap_or_default(), Cache::of_user());
        let mut reasons = Vec::new();
        for name in KNOWN {
            let Some(program) = locate(name, &path, &cache) else {
                reasons.push(Unfit::NotInstalled(name));
                continue;
            };
            let version = version(&program);
            if takes_from_top(name) && is_below_top(group, vtax_sys::cgroup::is_at_top_of_v1) {
                let why = format!("{name} {version} takes a group's path from the top of cgroup v1");
                reasons.push(Unfit::Refused(why));
                continue;
            }
            for (seccomp, cgroups) in attempts(group.is_some()) {
                let runtime = Self {
                    name: name.to_owned(),
                    version: version.clone(),
                    seccomp,
                    cgroups,
                    program: program.clone(),
                };
                match works(&runtime) {
                    Ok(()) => return Ok(runtime),
                    // Tries without seccomp are only for hosts without it, and those with control groups in sight ask for more
                    // than is needed; their words add nothing.
                    Err(e) if seccomp && !cgroups => {
                        let said = format!("{name} {version}: {}", above_trace(&vtax_sys::chain(&e)));
                        reasons.push(Unfit::Refused(said));
                    }
                    Err(_) => {}
                }
            }
        }
        Err(no_containers(reasons))
    }

    fn command(&self, scratch: &Path, args: &[&str]) -> Spawn {
        let state = scratch.join("runtime");
        let own = [self.name.as_str(), "--root", &state.to_string_lossy()].map(str::to_owned);
        let args = own.into_iter().chain(args.iter().map(|a| (*a).to_owned()));
        Spawn::new(&self.program, args)
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("XDG_RUNTIME_DIR", &state)
            .env("HOME", "/")
    }

    fn finish(&self, node: &str, spawn: Spawn, output: &File) -> Result<()> {
        let null = Path::new("/dev/null");
        let input: OwnedFd = File::open(null).on("open", null)?.into();
        let copy = || output.try_clone().map(OwnedFd::from).on("duplicate", Path::new("output"));
        let what = || format!("call {} for {node}", self.name);
        let spawn = spawn.fd(input, 0).fd(copy()?, 1).fd(copy()?, 2);
        let process = spawn.start(|_| Ok(())).during(what)?;
        if !process.ended_within(PATIENCE).during(what)? {
            process.kill_and_reap(PATIENCE).during(what)?;
            return Err(self.refusal(node, format!("took over {} s", PATIENCE.as_secs()), output));
        }
        let ended = process.wait().during(what)?;
        if ended.success() { Ok(()) } else { Err(self.refusal(node, ended.to_string(), output)) }
    }

    fn refusal(&self, node: &str, how: String, output: &File) -> LabError {
        let output = crate::process_io::tail(output);
        LabError::Runtime { node: node.to_owned(), runtime: self.name.clone(), how, output }
    }

    /// Starts the container whose `config.json` is in `bundle` and returns its first process.
    pub(super) fn run(
        &self,
        node: &str,
        scratch: &Path,
        bundle: &Path,
        channel: Option<OwnedFd>,
        output: &File,
    ) -> Result<PidFd> {
        let pid_file = bundle.join("pid");
        let (bundle, pid_path) = (bundle.to_string_lossy(), pid_file.to_string_lossy());
        let mut args = vec!["run", "--detach", "--bundle", &bundle, "--pid-file", &pid_path];
        if channel.is_some() {
            args.extend(["--preserve-fds", "1"]);
        }
        args.push(node);
        let mut spawn = self.command(scratch, &args);
        if let Some(channel) = channel {
            spawn = spawn.fd(channel, 3);
        }
        self.finish(node, spawn, output)?;
        let text = fs::read_to_string(&pid_file).on("read", &pid_file)?;
        let pid = text.trim().parse().unwrap_or(0);
        PidFd::open(pid).during(|| format!("find the first process of container {node}"))
    }

    /// Removes what the runtime keeps about a container, control groups included.
    pub(super) fn delete(&self, node: &str, scratch: &Path) -> Result<()> {
        let output = crate::process_io::output_file(node)?;
        self.finish(node, self.command(scratch, &["delete", "--force", node]), &output)
    }
}

/// What is tried with a runtime, the most first: seccomp, and control groups in sight. A container without a group has none to see.
fn attempts(has_group: bool) -> impl Iterator<Item = (bool, bool)> {
    let all = [(true, true), (true, false), (false, true), (false, false)];
    all.into_iter().filter(move |&(_, cgroups)| has_group || !cgroups)
}

/// Whether a runtime takes relative paths of groups from the top of cgroup v1 (`make_cgroup_path` of crun's
/// `cgroup-cgroupfs.c`); others take them from the group that they are in.
fn takes_from_top(runtime: &str) -> bool {
    runtime == "crun"
}

/// Whether a group's path is one of cgroup v1, which begins at this process's group, and that isn't the topmost.
fn is_below_top(group: Option<&str>, at_top: impl FnOnce() -> bool) -> bool {
    group.is_some_and(|path| !path.starts_with('/')) && !at_top()
}

/// That no runtime will do, and what to do about it.
fn no_containers(reasons: Vec<Unfit>) -> LabError {
    let fix = if reasons.iter().all(|reason| matches!(reason, Unfit::NotInstalled(_))) {
        "`vtax setup` brings one"
    } else {
        "run as root on a kernel with overlay, or see what `vtax doctor` says about containers"
    };
    let words = reasons.into_iter().map(|reason| match reason {
        Unfit::NotInstalled(name) => format!("{name} is not installed"),
        Unfit::Refused(said) => said,
    });
    LabError::NoContainers { reason: words.collect::<Vec<_>>().join("; "), fix: fix.to_owned() }
}

/// What says that no runtime is installed, with the way to one; `None` where there is one, whether it works or not.
pub(crate) fn missing() -> Option<String> {
    let (path, cache) = (std::env::var_os("PATH").unwrap_or_default(), Cache::of_user());
    let known = KNOWN.iter().any(|name| locate(name, &path, &cache).is_some());
    (!known).then(|| format!("neither {} is installed; `vtax setup` brings one", KNOWN.join(" nor ")))
}

/// A program of this name: what is installed comes before what was unpacked.
fn locate(name: &str, path: &OsStr, cache: &Cache) -> Option<PathBuf> {
    let mut places = std::env::split_paths(path).chain(["/usr/sbin".into(), "/usr/bin".into()]);
    let installed = places.find_map(|dir| Some(dir.join(name)).filter(|program| program.is_file()));
    installed.or_else(|| cache.program(PACKAGE, name))
}

/// What a program said before the trace of a crash, which Go sets off by an empty line.
fn above_trace(said: &str) -> &str {
    said.split("\n\n").next().unwrap_or(said)
}

fn version(program: &Path) -> String {
    let output = std::process::Command::new(program).arg("--version").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    // `crun version 1.8.1` and `runc version 1.1.5+ds1`.
    let first = text.lines().next().unwrap_or_default();
    first.split_whitespace().last().unwrap_or("of unknown version").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_installed_comes_before_what_was_unpacked() {
        let directory = tempfile::tempdir().unwrap();
        let (cache, bin) = (Cache::at(directory.path().join("cache")), directory.path().join("bin"));
        let unpacked = cache.unpacked(PACKAGE).join("usr/sbin");
        let located = || locate("no-such-runtime", bin.as_os_str(), &cache);
        assert_eq!(located(), None);
        for place in [&unpacked, &bin] {
            fs::create_dir_all(place).unwrap();
            fs::write(place.join("no-such-runtime"), "").unwrap();
            assert_eq!(located(), Some(place.join("no-such-runtime")));
        }
    }

    #[test]
    fn a_runtime_that_is_there_is_not_to_be_installed() {
        let refused = || Unfit::Refused("crun 1.8: the seccomp library is not installed".to_owned());
        let told = |reasons: Vec<Unfit>| no_containers(reasons).to_string();
        let none = told(KNOWN.map(Unfit::NotInstalled).into());
        assert!(none.contains("crun is not installed; runc is not installed"), "{none}");
        assert!(none.contains("`vtax setup` brings one"), "{none}");
        for reasons in [vec![refused()], vec![refused(), Unfit::NotInstalled("runc")]] {
            let there = told(reasons);
            assert!(there.contains("library is not installed") && there.contains("run as root"), "{there}");
        }
    }

    #[test]
    fn what_needs_the_most_is_tried_first() {
        assert_eq!(attempts(false).collect::<Vec<_>>(), [(true, false), (false, false)]);
        let with_group = attempts(true).collect::<Vec<_>>();
        assert_eq!(with_group, [(true, true), (true, false), (false, true), (false, false)]);
    }

    #[test]
    fn relative_paths_of_groups_may_begin_elsewhere() {
        assert!(is_below_top(Some("run/probe"), || false));
        assert!(!is_below_top(Some("run/probe"), || true));
        assert!(!is_below_top(Some("/run/probe"), || false), "cgroup v2");
        assert!(!is_below_top(None, || false));
        assert_eq!(KNOWN.map(takes_from_top), [true, false]);
    }

    #[test]
    fn a_crash_is_told_without_its_trace() {
        let crashed = "exit code 2: fatal error: failed to reserve page summary memory\n\nruntime stack:\nruntime.throw()";
        assert_eq!(above_trace(crashed), "exit code 2: fatal error: failed to reserve page summary memory");
        assert_eq!(above_trace("exit code 1: no\nway"), "exit code 1: no\nway");
    }
}
