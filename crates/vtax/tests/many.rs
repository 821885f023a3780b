//! Many machines as their users meet them: runs merged, and `--on` with a real sshd, a real Slurm and a real Kubernetes on emulated hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use serde_json::Value;
use vtax_fixture::{Options, create};
use vtax_store::RunDir;
use vtax_sys::require::{Need, installed, need};
use vtax_testkit::runs::SMALL_PLAN;

#[path = "many/kubernetes.rs"]
mod kubernetes;
#[path = "many/roles.rs"]
mod roles;

const VTAX: &str = env!("CARGO_BIN_EXE_vtax");

/// Two labs at a time: on two CPUs that takes three fifths of the time of one after the other.
static PLACES: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];

/// A place for three hosts, waited for.
fn place() -> MutexGuard<'static, ()> {
    loop {
        for place in &PLACES {
            match place.try_lock() {
                Ok(taken) => return taken,
                Err(TryLockError::Poisoned(taken)) => return taken.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn vtax(arguments: &[&str]) -> Output {
    Command::new(VTAX).args(arguments).output().expect("vtax starts")
}

fn expect(output: &Output, code: i32, words: &[&str]) {
    let text = text(output);
    assert_eq!(output.status.code(), Some(code), "{text}");
    for word in words {
        assert!(text.contains(word), "`{word}` is not in:\n{text}");
    }
}

/// A made-up run, as another host would have made it.
fn made(directory: &Path, name: &str) -> String {
    let options = Options { repetitions: 4, seconds: 1, rate: 200, ..Options::default() };
    let base = create(&directory.join(format!("{name}.base")), &options).expect("a run");
    let mut provenance = base.provenance().expect("provenance");
    provenance.run_id = String::new();
    provenance.host.name = name.to_owned();
    let path = directory.join(name);
    let mut run = RunDir::create(&path, &base.plan().expect("a plan"), &provenance).expect("another run");
    for record in base.trials().expect("trials") {
        let trial = run.begin_trial(&record.cell, &record.measure, record.repetition).expect("begun");
        run.finish_trial(trial, record).expect("finished");
    }
    run.completed().expect("completed");
    path.to_str().expect("UTF-8").to_owned()
}

#[test]
fn runs_made_apart_are_merged() {
    let directory = tempfile::tempdir().expect("a directory");
    let [a, b, c] = ["n1", "n2", "n3"].map(|name| made(directory.path(), name));
    let out = directory.path().join("out");
    let out = out.to_str().expect("UTF-8");
    expect(&vtax(&["merge", &a, &b, &c, "--out", out]), 0, &["Over 3 hosts", "n2", "merged.html"]);
    let json = vtax(&["merge", &a, &b, &c, "--json", "--metric", "capacity"]);
    let json: Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!((&json["version"], json["hosts"].as_array().map(Vec::len)), (&1.into(), Some(3)));
    assert!(json["rows"].as_array().expect("rows").iter().all(|row| row["metric"] == "capacity"));
    expect(&vtax(&["merge", &a, &b]), 0, &["can't tell", "too few hosts: 2"]);
    expect(&vtax(&["merge", &a, &a]), 2, &["can't be merged", "are the same run"]);
    expect(&vtax(&["merge", &a, "/nowhere"]), 2, &["/nowhere", "not a run directory"]);
    expect(&vtax(&["merge", &a]), 2, &["at least two runs"]);
    let several = directory.path().join("several");
    fs::create_dir(&several).expect("made");
    fs::write(several.join("hosts.json"), "{}").expect("written");
    expect(&vtax(&["report", several.to_str().expect("UTF-8")]), 2, &["one for each host", "vtax merge"]);
}

#[test]
fn what_on_does_not_understand_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let plan = directory.path().join("plan.yaml");
    fs::write(&plan, SMALL_PLAN).expect("written");
    let plan = plan.to_str().expect("UTF-8");
    let out = directory.path().join("run");
    let out = out.to_str().expect("UTF-8");
    for (on, words) in [
        ("ssh:-x", "no name of a host"),
        ("/nowhere.yaml", "cannot read /nowhere.yaml"),
        ("slurm", "--hosts N"),
        ("k8s:lab", "--hosts N"),
    ] {
        expect(&vtax(&["run", plan, "--on", on, "--out", out]), 2, &[words]);
        let _ = fs::remove_dir_all(out);
    }
    expect(&vtax(&["run", plan, "--hosts", "3"]), 2, &["--on"]);
    expect(&vtax(&["run", plan, "--on", "ssh:a", "--strict"]), 2, &["--strict"]);
    // As every time, it has a unit.
    expect(&vtax(&["run", plan, "--on", "slurm", "--hosts", "3", "--wait", "60"]), 2, &["'60' for '--wait"]);
}

#[test]
fn a_run_that_gets_no_nodes_is_not_in_the_way_of_the_next() {
    let directory = tempfile::tempdir().expect("a directory");
    let (plan, out) = (directory.path().join("plan.yaml"), directory.path().join("run"));
    fs::write(&plan, SMALL_PLAN).expect("written");
    for _ in 0..2 {
        let mut command = Command::new(VTAX);
        command.args(["run", "--on", "slurm", "--hosts", "1"]).arg(&plan).arg("--out").arg(&out);
        // Whatever this machine has: there is no srun.
        let output = command.env("PATH", directory.path()).output().expect("vtax starts");
        expect(&output, 3, &["srun", "can't be started"]);
        assert!(!out.exists());
    }
}

/// A host's end, as ssh would start it, with a file of its own in its directory.
fn agent(directory: &Path) -> Child {
    fs::create_dir_all(directory).expect("made");
    fs::write(directory.join("file"), "x").expect("written");
    Command::new(VTAX)
        .args(["host-agent", "--dir"])
        .arg(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("vtax starts")
}

fn ended_within(child: &mut Child, seconds: u64) {
    let from = Instant::now();
    while child.try_wait().expect("it is a child").is_none() {
        assert!(from.elapsed() < Duration::from_secs(seconds), "it goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_host_ends_with_its_stream_and_with_its_lease() {
    let directory = tempfile::tempdir().expect("a directory");
    let job = directory.path().join("closed");
    let mut child = agent(&job);
    drop(child.stdin.take());
    ended_within(&mut child, 60);
    assert!(!job.exists());
    // The stream stays open, and nobody says anything.
    let job = directory.path().join("silent");
    // Its lease begins after this moment, however late this thread goes on.
    let from = Instant::now();
    let mut child = agent(&job);
    let _open = child.stdin.take();
    ended_within(&mut child, 60);
    let took = from.elapsed();
    assert!(took >= Duration::from_secs(14), "{took:?}");
    assert!(!job.exists());
}

/// What scripts beside the hosts have: something done from outside of all (`order`, as lab.sh has it), something waited for
/// (`until_` COMMAND), the end of all that runs were (`nothing_left`), and the end of the controller `$run` at a moment
/// (`dies_when` COMMAND), such as `sent`: the second host has the whole program, which it may not have started. With `no_job`
/// Slurm has none, also none that is being completed.
const TOOLS: &str = "
    order() { echo \"$@\" >order.new; mv order.new order; while [ -e order ]; do sleep 0.05; done; }
    until_() { for i in $(seq 1200); do \"$@\" >/dev/null 2>&1 && return; sleep 0.1; done; echo \"never: $*\"; exit 98; }
    nothing_left() {
        for i in $(seq 400); do order look; [ -s left ] || { echo nothing is left; return; }; sleep 0.1; done
        cat left
    }
    dies_when() {
        until \"$@\" >/dev/null 2>&1; do kill -0 $run || { echo it ended before; exit 97; }; sleep 0.01; done
        kill -9 $run; nothing_left
    }
    no_job() { [ -z \"$(squeue -h)\" ]; }
    sent() { [ \"$(stat -c %s n2.tmp/vtax-*/vtax)\" -ge \"$(stat -Lc %s \"$vtax\")\" ]; }
";

/// The small plan, whose budget is spent from the start: what the machine disturbed isn't made again and again.
fn small_plan() -> String {
    SMALL_PLAN.replace("repeat: 3", "repeat: {min: 3, max: 3, budget: 2s}")
}

/// Three emulated hosts, and what is run beside them.
struct Lab {
    directory: tempfile::TempDir,
    kind: &'static str,
    /// What its scripts have in their environment besides.
    variables: Vec<(&'static str, String)>,
}

impl Lab {
    /// `None` where the host has not what it takes, which was said then.
    fn new(kind: &'static str, programs: &[&str]) -> Option<Self> {
        if !need(&[Need::Root]) {
            return None;
        }
        if !installed(programs) {
            return None;
        }
        let directory = tempfile::tempdir().expect("a directory");
        fs::write(directory.path().join("plan.yaml"), small_plan()).expect("written");
        Some(Self { directory, kind, variables: Vec::new() })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).expect("written");
    }

    /// A script beside the hosts, in which `$vtax`, `$dir` and `$on` stand for what they say.
    fn run(&self, on: &str, script: &str) -> Output {
        let _place = place();
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/many/lab.sh");
        Command::new("timeout")
            .args([
                "--signal=KILL",
                "600",
                "unshare",
                "--net",
                "--mount",
                "--pid",
                "--fork",
                "--kill-child",
                "--mount-proc",
            ])
            .args([Path::new("bash"), &here, self.directory.path()])
            .args([self.kind, "bash", "-c", &format!("set -u; cd \"$dir\"; {TOOLS}{script}")])
            .env("vtax", VTAX)
            .env("dir", self.directory.path())
            .env("on", on)
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .output()
            .expect("unshare starts")
    }

    fn hosts(&self) -> Vec<(String, String)> {
        self.hosts_of("run")
    }

    /// Each host's directory and state, as a run on several keeps them.
    fn hosts_of(&self, run: &str) -> Vec<(String, String)> {
        let text = fs::read_to_string(self.path(run).join("hosts.json")).expect("hosts.json");
        let json: Value = serde_json::from_str(&text).expect("JSON");
        let word = |host: &Value, name: &str| host[name].as_str().expect("text").to_owned();
        json["hosts"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|h| (word(h, "directory"), word(h, "state")))
            .collect()
    }
}

/// Hosts that ssh reaches.
fn ssh() -> Option<Lab> {
    let lab = Lab::new("ssh", &["sshd", "ssh", "ssh-keygen", "unshare", "ip", "pgrep"])?;
    for name in ["host", "user"] {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(lab.path(name))
            .status();
        assert!(made.expect("ssh-keygen starts").success());
    }
    let dir = lab.directory.path().display();
    lab.write(
        "sshd_config",
        "HostKey /run/lab/host\nAuthorizedKeysFile /run/lab/user.pub\nStrictModes no\nPidFile none\nUsePAM no\n\
         PermitRootLogin yes\n",
    );
    lab.write(
        "config",
        &format!(
            "User root\nIdentityFile {dir}/user\nUserKnownHostsFile /dev/null\nStrictHostKeyChecking no\nLogLevel ERROR\n"
        ),
    );
    lab.write("hosts.yaml", "hosts:\n- {name: a, address: 10.99.0.11}\n- {name: b, address: 10.99.0.12}\n- {name: c, address: 10.99.0.13}\n");
    // vtax is there, so that it needn't be sent: host.sh puts it there.
    let there = |number: &u8| format!("- {{name: 10.99.0.1{number}, program: /run/bin/vtax}}\n");
    for (list, numbers) in [("there.yaml", &[1, 2, 3][..]), ("two.yaml", &[1, 3])] {
        lab.write(list, &format!("hosts:\n{}", numbers.iter().map(there).collect::<String>()));
    }
    Some(lab)
}

const ALL: &str = "ssh:10.99.0.11,10.99.0.12,10.99.0.13";

#[test]
fn a_plan_on_three_hosts_by_ssh() {
    let Some(lab) = ssh() else { return };
    let script = "
        $vtax run plan.yaml --on hosts.yaml --ssh-config config --out run --tag lab --together; status=$?
        ls -d n?.tmp/vtax-* 2>/dev/null; exit $status";
    let output = lab.run("", script);
    let told = text(&output);
    assert!(output.status.success(), "{told}");
    assert_eq!(lab.hosts(), ["a", "b", "c"].map(|n| (format!("hosts/{n}"), "complete".to_owned())), "{told}");
    // Each host's run is one like any other.
    for (name, host) in [("a", "n1"), ("b", "n2"), ("c", "n3")] {
        let run = RunDir::open(lab.path(&format!("run/hosts/{name}"))).expect("a run");
        assert!(run.trials().expect("trials").len() >= 6);
        let provenance = run.provenance().expect("provenance");
        assert!(provenance.ended_unix_ms.is_some());
        // Nobody makes a report there.
        assert!(run.summary().expect("a summary").complete);
        // By its own name it is told apart from others.
        assert!(provenance.host.name.starts_with(host), "{}", provenance.host.name);
    }
    assert!(!told.contains(".tmp/vtax-"), "something is left in a host's /tmp: {told}");
    // On a busy machine trials may not count, so that there is nothing to merge, which is said.
    assert!(lab.path("run/merged.html").exists() || told.contains("not merged"), "{told}");
    let hosts = fs::read_to_string(lab.path("run/hosts.json")).expect("hosts.json");
    let hosts: Value = serde_json::from_str(&hosts).expect("JSON");
    // All have one clock, and the bound holds it.
    for host in hosts["hosts"].as_array().expect("a list") {
        let (offset, within) = (host["clock_offset_ns"].as_i64(), host["clock_within_ns"].as_i64());
        assert!(offset.expect("an offset").abs() <= within.expect("a bound") + 1_000_000, "{host}");
        assert!(host["began_unix_ns"].as_u64().is_some(), "{host}");
    }
    // How close together is for a quiet machine to say.
    assert!(told.contains("they began within"), "{told}");
}

#[test]
fn the_doctor_looks_at_each_host() {
    let Some(lab) = ssh() else { return };
    let output = lab.run(ALL, "$vtax doctor --on \"$on\" --ssh-config config --json --hosts 2");
    assert!(output.status.success(), "{}", text(&output));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let hosts = json.as_object().expect("an object");
    assert_eq!(hosts.keys().collect::<Vec<_>>(), ["10.99.0.11", "10.99.0.12"]);
    assert!(hosts.values().all(|checks| checks.as_array().is_some_and(|c| c.len() > 5)));
}

#[test]
fn a_host_that_dies_is_lost_and_the_others_go_on() {
    let Some(lab) = ssh() else { return };
    let script = "
        $vtax run plan.yaml --on there.yaml --ssh-config config --out run & run=$!
        until grep -q trial-ended run/hosts/10.99.0.12/journal.jsonl 2>/dev/null; do sleep 0.1; done
        kill -9 $(cat n2.pid)
        wait $run";
    let output = lab.run("", script);
    assert!(output.status.success(), "{}", text(&output));
    let states: Vec<String> = lab.hosts().into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["complete", "lost", "complete"], "{}", text(&output));
    // What it had finished is kept.
    let kept = RunDir::open(lab.path("run/hosts/10.99.0.12")).expect("a run").trials().expect("trials");
    assert!(!kept.is_empty());
    // It goes on with another host; those that are whole stay as they are.
    let script = "$vtax run --resume run --on two.yaml --ssh-config config";
    let before = fs::metadata(lab.path("run/hosts/10.99.0.11/journal.jsonl")).expect("a journal");
    expect(&lab.run("", script), 0, &["complete  10.99.0.11", "to go on: vtax run --resume"]);
    let after = fs::metadata(lab.path("run/hosts/10.99.0.11/journal.jsonl")).expect("a journal");
    assert_eq!(before.modified().expect("a time"), after.modified().expect("a time"));
    // Tried again itself, it has a whole run, and nothing is missing any more.
    let output = lab.run("", "$vtax run --resume run --on there.yaml --ssh-config config");
    expect(&output, 0, &["lost      10.99.0.12", "complete  10.99.0.12"]);
    let told = text(&output);
    assert!(!told.contains("to go on") && !told.contains("is not complete"), "{told}");
}

#[test]
fn a_controller_that_dies_leaves_nothing_on_any_host() {
    let Some(lab) = ssh() else { return };
    let script = "
        for moment in sent 'grep -q trial-started run/hosts/10.99.0.13/journal.jsonl'; do
            rm -rf run
            $vtax run plan.yaml --on \"$on\" --ssh-config config --out run & run=$!
            dies_when $moment
        done";
    let output = lab.run(ALL, script);
    expect(&output, 0, &[]);
    assert_eq!(text(&output).matches("nothing is left").count(), 2, "{}", text(&output));
}

#[test]
fn ctrl_c_stops_all_hosts_in_order() {
    let Some(lab) = ssh() else { return };
    let script = "
        $vtax run plan.yaml --on there.yaml --ssh-config config --out run & run=$!
        until grep -q trial-started run/hosts/10.99.0.13/journal.jsonl 2>/dev/null; do sleep 0.1; done
        kill -TERM $run
        wait $run";
    let output = lab.run("", script);
    expect(&output, 130, &["stopping", "to go on: vtax run --resume"]);
    let states: Vec<String> = lab.hosts().into_iter().map(|(_, state)| state).collect();
    assert!(states.iter().all(|state| state == "stopped" || state == "complete"), "{states:?}");
}

/// Hosts that Slurm gives.
fn slurm() -> Option<Lab> {
    let lab =
        Lab::new("slurm", &["slurmctld", "slurmd", "munged", "srun", "sinfo", "unshare", "ip", "pgrep"])?;
    lab.write("hosts", "127.0.0.1 localhost\n10.99.0.2 ctl\n10.99.0.11 n1\n10.99.0.12 n2\n10.99.0.13 n3\n");
    lab.write("munge.key", &"a key of this test only ".repeat(6));
    lab.write("slurm.conf", SLURM);
    Some(lab)
}

const SLURM: &str = "\
ClusterName=lab
SlurmctldHost=ctl(10.99.0.2)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/linear
SchedulerType=sched/backfill
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
SwitchType=switch/none
SlurmdParameters=config_overrides
ReturnToService=2
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
SrunPortRange=60001-60200
SlurmctldTimeout=30
SlurmdTimeout=20
KillWait=30
InactiveLimit=15
MessageTimeout=10
TCPTimeout=2
PropagateResourceLimits=NONE
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0
NodeName=n[1-3] CPUs=2 RealMemory=1000 State=UNKNOWN
PartitionName=all Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
";

#[test]
fn a_node_of_slurm_that_dies_is_lost_and_the_others_go_on() {
    let Some(lab) = slurm() else { return };
    // Slurm takes half a minute to see it, and must not end the others then: they go on for longer.
    let script = "
        $vtax run plan.yaml --on slurm --hosts 3 --wait 60s --out run --set 'repeat={min: 3, max: 200, until: 1%, budget: 60s}' & run=$!
        until_ grep -q trial-ended run/hosts/n2/journal.jsonl
        order die n2
        wait $run";
    let output = lab.run("", script);
    assert!(output.status.success(), "{}", text(&output));
    let states: Vec<String> = lab.hosts().into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["complete", "lost", "complete"], "{}", text(&output));
}

/// Long enough for hosts to be missed while the others still measure.
const LONG: &str = "--set 'repeat={min: 3, max: 200, until: 1%, budget: 60s}'";

/// A host whose network cable is pulled: lost here, and itself rid of its run, as it hears nothing any more.
fn cut_off(lab: &Lab, on: &str, journal: &str, long: &str) {
    let script = format!(
        "
        $vtax run plan.yaml {on} --out run {long} & run=$!
        until_ grep -q trial-ended run/hosts/{journal}/journal.jsonl
        order cut n2
        wait $run; echo \"run: $?\"
        nothing_left"
    );
    let output = lab.run("", &script);
    expect(&output, 0, &["run: 0", "nothing is left"]);
    let states: Vec<String> = lab.hosts().into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["complete", "lost", "complete"], "{}", text(&output));
    let kept =
        RunDir::open(lab.path(&format!("run/hosts/{journal}"))).expect("a run").trials().expect("trials");
    assert!(!kept.is_empty());
}

#[test]
fn a_host_that_is_cut_off_is_lost_and_the_others_go_on() {
    let Some(lab) = ssh() else { return };
    // It is missed once its lease is over, which takes 15 s.
    let long = LONG.replace("60s", "30s");
    cut_off(&lab, "--on there.yaml --ssh-config config", "10.99.0.12", &long);
}

#[test]
fn a_node_of_slurm_that_is_cut_off_is_lost_and_the_others_go_on() {
    let Some(lab) = slurm() else { return };
    cut_off(&lab, "--on slurm --hosts 3 --wait 60s", "n2", LONG);
}

#[test]
fn of_two_jobs_for_the_same_nodes_the_second_waits_and_then_runs() {
    let Some(lab) = slurm() else { return };
    // The first goes on for as long as it takes until the others are in the queue.
    let long = LONG.replace("60s", "25s");
    let script = format!(
        "
        waiting() {{ [ \"$(squeue -h -t PENDING -o %r)\" = Resources ]; }}
        $vtax run plan.yaml --on slurm --hosts 2 --wait 60s --out run {long} & first=$!
        until_ grep -q trial-started run/hosts/n1/journal.jsonl
        $vtax run plan.yaml --on slurm --hosts 3 --wait 120s --out other & second=$!
        until_ waiting; echo 'the second waits'; ls other/hosts 2>&1
        $vtax run plan.yaml --on slurm --hosts 3 --wait 120s --out third & third=$!
        queued() {{ squeue -h -n vtax-$third | grep -q .; }}
        until_ queued; kill -9 $third
        gone() {{ ! queued && ! pgrep -f job-name=vtax-$third; }}
        until_ gone; echo 'the third is out of the queue'
        $vtax run plan.yaml --on slurm --hosts 3 --wait 2s --out fourth; echo \"fourth: $?\"
        wait $first; echo \"first: $?\"
        wait $second; echo \"second: $?\"
        squeue -h; nothing_left"
    );
    let output = lab.run("", &script);
    let told = text(&output);
    // For the fourth no node was free.
    let queued =
        ["the second waits", "the third is out of the queue", "0 of 3 nodes within 2 s", "fourth: 3"];
    expect(&output, 0, &queued);
    expect(&output, 0, &["first: 0", "second: 0", "nothing is left"]);
    let complete = |names: &[&str]| -> Vec<(String, String)> {
        names.iter().map(|n| (format!("hosts/{n}"), "complete".to_owned())).collect()
    };
    assert_eq!(lab.hosts(), complete(&["n1", "n2"]), "{told}");
    assert_eq!(lab.hosts_of("other"), complete(&["n1", "n2", "n3"]), "{told}");
    // No host made a trial of the second while it made one of the first.
    for name in ["n1", "n2"] {
        let of = |run: &str| RunDir::open(lab.path(&format!("{run}/hosts/{name}"))).expect("a run");
        let ended = of("run").provenance().expect("provenance").ended_unix_ms.expect("an end");
        let began = of("other").provenance().expect("provenance").started_unix_ms;
        assert!(began >= ended, "{name}: the second began at {began}, the first ended at {ended}");
    }
}

#[test]
fn a_job_cancelled_in_the_middle_of_a_trial_leaves_nothing_and_is_gone_on_with() {
    let Some(lab) = slurm() else { return };
    let script = "
        in_a_trial() { tail -n 1 run/hosts/n3/journal.jsonl | grep trial-started; }
        $vtax run plan.yaml --on slurm:all --hosts 3 --wait 60s --out run & run=$!
        for n in n1 n2 n3; do until_ grep -q trial-ended run/hosts/$n/journal.jsonl; done
        until_ in_a_trial
        scancel -n vtax-$run
        wait $run; echo \"first: $?\"
        nothing_left
        $vtax run --resume run --on slurm:all --hosts 3 --wait 60s; echo \"resumed: $?\"
        until_ no_job; nothing_left";
    let output = lab.run("", script);
    let told = text(&output);
    expect(&output, 0, &["first: 3", "lost", "resumed: 0"]);
    assert_eq!(told.matches("nothing is left").count(), 2, "{told}");
    let expected: Vec<(String, String)> = [("", "lost"), ("+2", "complete")]
        .iter()
        .flat_map(|(again, state)| {
            ["n1", "n2", "n3"].map(|name| (format!("hosts/{name}{again}"), (*state).to_owned()))
        })
        .collect();
    assert_eq!(lab.hosts(), expected, "{told}");
    for (directory, state) in expected {
        let kept = RunDir::open(lab.path("run").join(directory)).expect("a run").trials().expect("trials");
        assert!(kept.len() >= if state == "lost" { 1 } else { 6 }, "{}", kept.len());
    }
}

#[test]
fn a_slurmd_that_is_killed_and_a_node_that_is_drained_end_no_run() {
    let Some(lab) = slurm() else { return };
    // A node without slurmd is taken for dead after this time, and its jobs end; on a busy machine a run can take longer than 20 s.
    lab.write("slurm.conf", &SLURM.replace("SlurmdTimeout=20", "SlurmdTimeout=600"));
    let script = "
        $vtax run plan.yaml --on slurm --hosts 3 --wait 60s --out run & run=$!
        until_ grep -q trial-started run/hosts/n2/journal.jsonl
        order slurmd n2
        scontrol update nodename=n3 state=drain reason=test
        wait $run; echo \"first: $?\"
        $vtax run plan.yaml --on slurm --hosts 3 --wait 3s --out other; echo \"second: $?\"
        squeue -h; nothing_left";
    let output = lab.run("", script);
    // What is under way comes to its end; what is asked for afterwards isn't given, which is said.
    expect(&output, 0, &["first: 0", "0 of 3 nodes within 3 s", "second: 3", "nothing is left"]);
    let states: Vec<String> = lab.hosts().into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["complete"; 3], "{}", text(&output));
}

#[test]
fn a_controller_that_dies_leaves_nothing_on_any_node_of_slurm() {
    let Some(lab) = slurm() else { return };
    let script = "
        for moment in sent 'grep -q trial-started run/hosts/n3/journal.jsonl'; do
            rm -rf run
            $vtax run plan.yaml --on slurm --hosts 3 --wait 60s --out run & run=$!
            dies_when $moment
            until_ no_job; echo 'no job is left'
        done";
    let output = lab.run("", script);
    expect(&output, 0, &[]);
    for words in ["nothing is left", "no job is left"] {
        assert_eq!(text(&output).matches(words).count(), 2, "{}", text(&output));
    }
}
