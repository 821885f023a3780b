//! A service on one emulated host, generators on others: `nic: {generators: …}` with real sshd.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use vtax_agent::{Client, Frame, Kind, LEASE};
use vtax_load::{Counts, Details, Errors, LoadResult};
use vtax_plan::model::PathKind;
use vtax_store::record::{GeneratorRecord, InvalidReason, JournalEntry, TrialRecord, Validity};
use vtax_store::{Provenance, RunDir};
use vtax_sys::require::{installed, possible};

use super::{Lab, VTAX, ended_within, expect, slurm, ssh, text};

/// Critical value of √n·D at significance 0.001 (Kolmogorov-Smirnov).
const KS_LIMIT: f64 = 1.95;
const RATE: f64 = 400.0;
const SECONDS: f64 = 3.0;

/// How often a plan's trials are made at least and at most.
const TWICE: &str = "min: 2, max: 2";
pub(super) const ONCE: &str = "min: 1, max: 1";
pub(super) const THRICE: &str = "min: 3, max: 3";

/// A plan whose service is on the first host and whose load comes from both others. Its budget is spent from the start: what the
/// machine disturbed isn't made again and again.
fn plan(seconds: f64, options: &str) -> String {
    format!(
        "vtax: 1
name: roles
seed: 7
baseline: native
environments: native
services: http
workload:
  http: {{target: /bytes/100, connections: 40}}
measure:
  - latency: {{load: {RATE}/s, warmup: 0s, duration: {seconds}s, samples: true}}
repeat: {{{TWICE}, budget: {}s}}
paths:
  nic: {{host: 10.99.0.11, generators: [10.99.0.12, 10.99.0.13]{options}}}
",
        seconds + 1.0
    )
}

/// vtax is on all hosts, so that it needn't be copied: host.sh puts it there.
const THERE: &str = ", vtax: /run/bin/vtax";

/// Control groups are the machine's, whose others don't see each other's processes from here.
const ALONE: &str = "umount -R -l /sys/fs/cgroup 2>/dev/null;";

pub(super) fn run_of(lab: &Lab) -> RunDir {
    RunDir::open(lab.path("run")).expect("a run")
}

pub(super) fn provenance_of(lab: &Lab) -> Provenance {
    run_of(lab).provenance().expect("provenance")
}

/// √n·D of values against the uniform distribution on 0..1.
fn ks_uniform(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len() as f64;
    let distance = |(i, v): (usize, &f64)| (v - i as f64 / n).abs().max(((i + 1) as f64 / n - v).abs());
    values.iter().enumerate().map(distance).fold(0.0, f64::max) * n.sqrt()
}

/// Intended starts of both generators together, in seconds: one Poisson process at the whole rate.
fn assert_poisson(mut starts: Vec<f64>) {
    starts.sort_by(f64::total_cmp);
    let n = starts.len() as f64;
    assert!((n - RATE * SECONDS).abs() < 4.0 * (RATE * SECONDS).sqrt(), "{n} starts");
    let times = ks_uniform(starts.iter().map(|at| at / SECONDS).collect());
    assert!(times < KS_LIMIT, "times: {times}");
    let gaps = ks_uniform(starts.windows(2).map(|w| 1.0 - (-(w[1] - w[0]) * RATE).exp()).collect());
    assert!(gaps < KS_LIMIT, "gaps: {gaps}");
    // Index of dispersion of counts in 120 windows: 1 ± 4·sqrt(2/119).
    let mut counts = vec![0.0_f64; 120];
    starts.iter().for_each(|at| counts[((at / SECONDS * 120.0) as usize).min(119)] += 1.0);
    let mean = n / 120.0;
    let dispersion = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 119.0 / mean;
    assert!((dispersion - 1.0).abs() < 0.52, "dispersion: {dispersion}");
}

/// What there is to say of each generator of a trial that was measured.
fn assert_generators(record: &TrialRecord) {
    let names: Vec<(&str, &str)> =
        record.generators.iter().map(|g| (g.node.as_str(), g.host.as_str())).collect();
    assert_eq!(names, [("client", "10.99.0.12"), ("client-2", "10.99.0.13")]);
    let whole = record.finding().and_then(|finding| finding.load()).expect("a load");
    let intended = |g: &GeneratorRecord| g.load.as_ref().expect("its own").counts.intended;
    let sum: u64 = record.generators.iter().map(intended).sum();
    assert_eq!(sum, whole.counts.intended, "the parts are the whole");
    for generator in &record.generators {
        // All have one clock, and what is said of it holds that.
        let most = generator.clock_within_ns + 1_000_000;
        assert!(generator.clock_offset_ns.unsigned_abs() <= most, "{generator:?}");
        assert!(generator.clock_moved_ns.unsigned_abs() <= 2 * most, "{generator:?}");
        // What a busy machine began with may have been cut off as warm-up.
        let half = RATE * whole.duration.as_secs_f64() / 2.0;
        assert!((intended(generator) as f64 - half).abs() < 5.0 * half.sqrt(), "{}", intended(generator));
    }
    for fact in ["generators.apart_ns", "generators.apart_within_ns", "client.machine", "sut.machine"] {
        assert!(record.facts.contains_key(fact), "{fact}: {:?}", record.facts);
    }
    assert_eq!(record.facts["generators"], "10.99.0.12, 10.99.0.13");
    assert!(!record.facts.contains_key("client_cpus"), "no CPUs of this host's made the load");
}

#[test]
fn a_load_from_two_hosts_meets_a_service_on_a_third() {
    let Some(lab) = ssh() else { return };
    lab.write("roles.yaml", &plan(SECONDS, THERE));
    let script = format!(
        "{ALONE} $vtax run roles.yaml --ssh-config config --out run; echo \"run: $?\"
        ls -d n?.tmp/vtax-* 2>/dev/null; nothing_left"
    );
    let output = lab.run("", &script);
    let told = text(&output);
    assert!(told.contains("nothing is left") && !told.contains(".tmp/vtax-"), "{told}");
    let run = run_of(&lab);
    let trials = run.trials().expect("trials");
    let measured: Vec<&TrialRecord> = trials.iter().filter(|t| t.finding().is_some()).collect();
    // Whether they count is for a quiet machine to say.
    assert!(trials.len() >= 2 && !measured.is_empty(), "{told}");
    let mut whole_processes = 0;
    for record in measured {
        assert_generators(record);
        let whole = record.finding().and_then(|finding| finding.load()).expect("a load");
        let mut starts = Vec::new();
        let read = run.trial(record.index).for_each_sample(|s| starts.push(s.start_ns as f64 / 1e9));
        read.expect("samples");
        // Each request that was sent and has ended is a sample; on a busy machine some are never sent.
        if starts.len() as u64 == whole.counts.intended {
            assert_poisson(starts);
            whole_processes += 1;
        }
    }
    // The suite tells of it.
    let _ =
        possible((whole_processes == 0).then_some("no trial had every sample, as this machine is too busy"));
    let provenance = provenance_of(&lab);
    for (node, host) in [("sut", "n1"), ("client", "n2"), ("client-2", "n3")] {
        let node = format!("native/{node}");
        assert!(provenance.nodes[&node].cpus > 0, "{node}");
        let machine = &provenance.facts[&format!("machine.{node}")];
        assert!(machine.starts_with(host), "{node}: {machine}");
    }
}

/// A short call, whose messages name the host that they come from.
const CALL: &str = r#"<scenario name="call">
<send retrans="500" start_rtd="1"><![CDATA[
INVITE sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:caller@[local_ip]:[local_port]>;tag=[pid]c[call_number]
To: <sip:[service]@[remote_ip]:[remote_port]>
Call-ID: [call_id]
CSeq: 1 INVITE
Contact: <sip:caller@[local_ip]:[local_port]>
Content-Length: 0

]]></send>
<recv response="100" optional="true"/>
<recv response="180" optional="true"/>
<recv response="200" rtd="1" rrs="true"/>
<send><![CDATA[
ACK sip:[service]@[remote_ip]:[remote_port] SIP/2.0
Via: SIP/2.0/[transport] [local_ip]:[local_port];branch=[branch]
From: <sip:caller@[local_ip]:[local_port]>;tag=[pid]c[call_number]
To: <sip:[service]@[remote_ip]:[remote_port]>[peer_tag_param]
Call-ID: [call_id]
CSeq: 1 ACK
Content-Length: 0

]]></send>
</scenario>
"#;

/// A plan of another family, in the place of HTTP's.
fn of_family(service: &str, workload: &str) -> String {
    let plan = plan(1.0, THERE).replace("services: http", &format!("services: {service}"));
    plan.replace("http: {target: /bytes/100, connections: 40}", workload)
        .replace(TWICE, ONCE)
        .replace("samples: true", "samples: false")
}

/// The loads of a run's trial that was measured: the whole, and each generator's own.
fn loads_of(lab: &Lab, run: &str, told: &str) -> (LoadResult, Vec<LoadResult>) {
    let trials = RunDir::open(lab.path(run)).and_then(|run| run.trials());
    let trials = trials.unwrap_or_else(|error| panic!("{error}\n{told}"));
    let measured = trials.iter().find(|trial| trial.finding().is_some());
    let record = measured.unwrap_or_else(|| panic!("{run}: {trials:?}\n{told}"));
    let whole = record.finding().and_then(|finding| finding.load()).expect("a load").clone();
    let parts: Vec<LoadResult> = record.generators.iter().filter_map(|g| g.load.clone()).collect();
    assert_eq!(parts.len(), 2, "{run}");
    (whole, parts)
}

#[test]
fn loads_of_other_families_come_from_two_hosts_and_add_up() {
    let Some(lab) = ssh() else { return };
    let redis = installed(&["redis-server"]);
    lab.write("call.xml", CALL);
    let of_redis = "redis: {keys: 1001, connections: 8, reads: 50%}";
    let of_ftp = "ftp: {files: 7, size: 2KiB, clients: 6, retr: 2, stor: 2, list: 1, read_back: 1}";
    lab.write("redis.yaml", &of_family("redis", of_redis));
    lab.write("ftp.yaml", &of_family("ftp", of_ftp));
    lab.write("calls.yaml", &of_family("uas", "sip: {scenario_file: call.xml, calls: 60, recv_timeout: 3s}"));
    let families = if redis { "redis ftp calls" } else { "ftp calls" };
    let script = format!(
        "{ALONE} for family in {families}; do
            $vtax run $family.yaml --ssh-config config --out $family; echo \"$family: $?\"
        done
        nothing_left"
    );
    let told = text(&lab.run("", &script));
    assert!(told.contains("nothing is left"), "{told}");
    for family in families.split(' ') {
        let (whole, parts) = loads_of(&lab, family, &told);
        let mut sum = Counts::default();
        parts.iter().for_each(|part| sum.add(&part.counts));
        assert_eq!(whole.counts, sum, "{family}");
        assert_eq!(whole.latency.len(), parts.iter().map(|part| part.latency.len()).sum::<u64>(), "{family}");
        assert!(parts.iter().all(|part| part.counts.ok > 0), "{family}: {:?}\n{told}", whole.counts);
        // No generator's writes are taken for another's.
        let Errors { lost, stale, corrupt, protocol, .. } = whole.counts.errors;
        assert_eq!((lost, stale, corrupt, protocol), (0, 0, 0, 0), "{family}");
        let details = |load: &LoadResult| load.details.clone().unwrap_or_default();
        let sum_of = |of: fn(Details) -> u64| parts.iter().map(|part| of(details(part))).sum::<u64>();
        let transfers = |found: Details| found.ftp.map_or(0, |ftp| ftp.retr.ok + ftp.stor.ok + ftp.list.ok);
        let calls = |found: Details| found.script.map_or(0, |script| script.calls);
        assert_eq!(transfers(details(&whole)), sum_of(transfers), "{family}");
        assert_eq!(calls(details(&whole)), sum_of(calls), "{family}");
        assert_eq!(transfers(details(&whole)) > 0, family == "ftp", "{family}");
        assert_eq!(calls(details(&whole)) > 0, family == "calls", "{family}");
    }
}

/// A web server that root starts serves as another user, who reads its files below the agent's directory.
#[test]
fn a_web_server_that_drops_its_rights_serves_on_a_host() {
    let Some(lab) = ssh() else { return };
    if !installed(&["nginx"]) {
        return;
    }
    lab.write("web.yaml", &of_family("nginx", "http: {target: /bytes/100, connections: 40}"));
    let script =
        format!("{ALONE} $vtax run web.yaml --ssh-config config --out web; echo \"web: $?\"; nothing_left");
    let told = text(&lab.run("", &script));
    assert!(told.contains("nothing is left"), "{told}");
    let (whole, _) = loads_of(&lab, "web", &told);
    assert!(whole.counts.ok > 0, "{told}");
}

#[test]
fn a_controller_without_any_rights_leads_hosts_that_make_the_load() {
    let Some(lab) = ssh() else { return };
    lab.write("roles.yaml", &plan(1.0, "").replace(TWICE, ONCE));
    // A user of no group, whose directory is all that is its own. The network outside of its namespaces is none that it may enter.
    let script = format!(
        "{ALONE} mkdir user; cp $vtax config roles.yaml user; cp \"$dir/key\" user/key
        sed -i \"s|^IdentityFile .*|IdentityFile $dir/user/key|\" user/config
        chown -R 65534:65534 user; chmod 0711 \"$dir\"; cd user
        as_user=\"setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=$dir/user\"
        $as_user id -u
        $as_user ./vtax run roles.yaml --ssh-config config --out run; echo \"run: $?\"
        cd ..; mv user/run run; nothing_left"
    );
    fs::rename(lab.path("user"), lab.path("key")).expect("the key");
    lab.write(
        "config",
        &fs::read_to_string(lab.path("config")).expect("a file").replace("/user\n", "/key\n"),
    );
    let told = text(&lab.run("", &script));
    assert!(told.contains("65534\n") && told.contains("nothing is left"), "{told}");
    let (whole, parts) = loads_of(&lab, "run", &told);
    assert_eq!(whole.counts.ok, parts.iter().map(|part| part.counts.ok).sum::<u64>());
    assert!(whole.counts.ok > 0, "{told}");
}

#[test]
fn roles_are_drawn_anew_for_each_round() {
    let Some(lab) = ssh() else { return };
    let options = format!("{THERE}, draw: true");
    // Two cells, which have the same hosts in each round.
    let two = "[native, native: {name: other}]";
    let text = plan(1.0, &options).replace("environments: native", &format!("environments: {two}"));
    lab.write("roles.yaml", &text.replace(TWICE, THRICE));
    let script =
        format!("{ALONE} $vtax run roles.yaml --ssh-config config --out run; echo \"run: $?\"; nothing_left");
    let output = lab.run("", &script);
    let told = crate::text(&output);
    assert!(told.contains("nothing is left"), "{told}");
    let plan = run_of(&lab).plan().expect("a plan");
    let mut services = BTreeSet::new();
    for record in run_of(&lab).trials().expect("trials") {
        // One that never stood has no hosts.
        let Some(host) = record.facts.get("path.nic.host") else { continue };
        let drawn = plan.cells[0].path.kind.in_round(plan.seed, record.round.expect("a round"));
        let PathKind::Nic(drawn) = drawn else { panic!("{drawn:?}") };
        assert_eq!((host, &record.facts["address"].split(':').next()), (&drawn.host, &Some(host.as_str())));
        let generators: Vec<&String> = record.generators.iter().map(|g| &g.host).collect();
        assert_eq!(generators, drawn.generators.iter().collect::<Vec<_>>());
        services.insert(host.clone());
    }
    assert!(!services.is_empty(), "{told}");
    assert_drawn(&lab, &services, &told);
}

/// In as many rounds as there are hosts each has the service once. On a busy machine a round may not come to its end.
fn assert_drawn(lab: &Lab, services: &BTreeSet<String>, told: &str) {
    let trials = run_of(lab).trials().expect("trials");
    let valid = trials.iter().filter(|record| record.validity == Validity::Valid);
    let rounds: BTreeSet<Option<u32>> = valid.map(|record| record.round).collect();
    if rounds == BTreeSet::from([Some(0), Some(1), Some(2)]) {
        assert_eq!(services.len(), 3, "{services:?}\n{told}");
    }
}

#[test]
fn a_generator_that_is_cut_off_makes_the_trial_invalid_and_ends_by_itself() {
    let Some(lab) = ssh() else { return };
    lab.write("roles.yaml", &plan(30.0, THERE));
    // Three seconds after it began to measure it is in the middle of its load.
    let script = format!(
        "{ALONE} $vtax run roles.yaml --ssh-config config --out run & run=$!
        measuring() {{ tail -n 1 run/live.jsonl | grep '\"phase\":\"measuring\"'; }}
        until_ measuring; sleep 3
        order cut n3
        wait $run; echo \"run: $?\"
        nothing_left"
    );
    let output = lab.run("", &script);
    let told = text(&output);
    // The service's host and the other generator's are clean as well.
    expect(&output, 0, &["run: 3", "nothing is left", "10.99.0.13"]);
    let run = run_of(&lab);
    let trials = run.trials().expect("trials");
    let reason = |record: &TrialRecord| match &record.validity {
        Validity::Invalid { reason, detail } => (*reason, detail.clone()),
        Validity::Valid => panic!("it counts: {told}"),
    };
    let (first, detail) = reason(&trials[0]);
    assert_eq!(first, InvalidReason::MeasureFailed, "{detail}");
    assert!(detail.contains("`client-2 on 10.99.0.13`"), "{detail}");
    assert!(trials[0].observations.is_empty(), "half of a load is none");
    // The plan went on, found that the host can't be reached any more, and said so.
    let (last, detail) = reason(&trials[trials.len() - 1]);
    assert_eq!(last, InvalidReason::TestbedFailed, "{detail}");
    let note = |entry: &JournalEntry| matches!(entry, JournalEntry::Note { text, .. } if text.starts_with("left out") && text.contains("10.99.0.13"));
    let journal = run.journal().expect("a journal");
    assert!(journal.filter_map(Result::ok).any(|entry| note(&entry)), "{told}");
}

#[test]
fn a_controller_that_dies_leaves_no_generator_and_is_gone_on_with() {
    let Some(lab) = ssh() else { return };
    lab.write("roles.yaml", &plan(1.0, THERE));
    let script = format!(
        "{ALONE} $vtax run roles.yaml --ssh-config config --out run & run=$!
        in_the_second() {{ grep -q trial-ended run/journal.jsonl && ls -d n3.tmp/vtax-*/node; }}
        until_ in_the_second
        kill -9 $run
        nothing_left
        $vtax run --resume run --ssh-config config; echo \"resumed: $?\"
        nothing_left"
    );
    let output = lab.run("", &script);
    let told = text(&output);
    assert_eq!(told.matches("nothing is left").count(), 2, "{told}");
    let run = run_of(&lab);
    assert!(run.trials().expect("trials").len() >= 2, "{told}");
    assert!(fs::exists(lab.path("run/report.html")).expect("a directory"), "{told}");
    assert!(provenance_of(&lab).ended_unix_ms.is_some(), "{told}");
}

/// One environment, and the same twice.
const ONE_CELL: &str = "environments: native";
const AGAIN: &str = "environments: [native, native: {name: again}]";

/// Roles on hosts that are given: the same service twice, in as many rounds as there are hosts.
pub(super) fn on_given(options: &str) -> String {
    let roles = format!("nic: {{hosts: 3, draw: true{options}}}");
    let plan = plan(1.0, THERE).replace(TWICE, THRICE);
    let (head, _) = plan.split_once("  nic:").expect("paths");
    format!("{}  {roles}\n", head.replace(ONE_CELL, AGAIN))
}

/// What each trial says of its hosts, where one was built; each host once has the service, where every round came to its end.
pub(super) fn assert_given(lab: &Lab, names: [&str; 3], told: &str) {
    let mut services = BTreeSet::new();
    for record in run_of(lab).trials().expect("trials") {
        let Some(host) = record.facts.get("path.nic.host") else { continue };
        let mut all: Vec<&str> = record.generators.iter().map(|g| g.host.as_str()).collect();
        if record.finding().is_some() {
            all.push(host);
            all.sort_unstable();
            assert_eq!(all, names);
        }
        services.insert(host.clone());
    }
    assert!(!services.is_empty() && services.iter().all(|host| names.contains(&host.as_str())), "{told}");
    assert_drawn(lab, &services, told);
    // Of what was given only the places are in the plan: it can be gone on with on other hosts.
    assert_eq!(run_of(lab).plan().expect("a plan").hosts_asked(), 3);
}

#[test]
fn slurm_gives_the_hosts_of_one_experiment() {
    let Some(lab) = slurm() else { return };
    lab.write("roles.yaml", &on_given(THERE).replace(AGAIN, ONE_CELL));
    // It is stopped in the middle of a trial, whose steps of the job are ended while Slurm still has it.
    let script = "
        begun() { ls -d n3.tmp/vtax-*/node; }
        $vtax run roles.yaml; echo \"nowhere: $?\"
        $vtax run roles.yaml --on slurm --hosts 2; echo \"too few: $?\"
        $vtax run roles.yaml --on slurm:all --wait 60s --out run & run=$!
        until_ grep -q trial-ended run/journal.jsonl; until_ begun
        kill -TERM $run; wait $run; echo \"stopped: $?\"; until_ no_job; nothing_left
        $vtax run --resume run --on slurm:all --wait 60s; echo \"run: $?\"; until_ no_job; squeue -h; nothing_left";
    let output = lab.run("", script);
    let told = text(&output);
    for said in ["nowhere: 2", "the plan asks for 3 hosts, which --on gives", "too few: 2", "stopped: 130"] {
        assert!(told.contains(said), "{said}\n{told}");
    }
    assert_eq!(told.matches("nothing is left").count(), 2, "{told}");
    assert!(!told.contains(" vtax-"), "a job is left: {told}");
    assert_given(&lab, ["n1", "n2", "n3"], &told);
    assert!(provenance_of(&lab).ended_unix_ms.is_some(), "{told}");
}

#[test]
fn a_list_gives_the_hosts_of_one_experiment() {
    let Some(lab) = ssh() else { return };
    lab.write(
        "hosts.yaml",
        "hosts:\n- {name: '1', address: 10.99.0.11}\n- {name: '2', address: 10.99.0.12}\n- {name: '3', address: 10.99.0.13}\n",
    );
    // They have other names on the network to be measured.
    let plan = on_given(&format!("{THERE}, address: \"10.99.0.1{{host}}\""));
    lab.write("roles.yaml", &plan.replace(AGAIN, ONE_CELL));
    let script = format!(
        "{ALONE} $vtax run roles.yaml --on hosts.yaml --ssh-config config --out run; echo \"run: $?\"; nothing_left"
    );
    let told = text(&lab.run("", &script));
    assert!(told.contains("nothing is left"), "{told}");
    assert_given(&lab, ["1", "2", "3"], &told);
    for record in run_of(&lab).trials().expect("trials") {
        let Some(host) = record.facts.get("path.nic.host") else { continue };
        assert_eq!(record.facts["path.nic.address"], format!("10.99.0.1{host}"));
    }
}

/// An agent with a lease, as ssh would start it, and this end of its stream.
fn agent(directory: &Path) -> (Child, UnixStream) {
    let (ours, theirs) = UnixStream::pair().expect("a socket pair");
    let copy = theirs.try_clone().expect("a copy");
    let child = Command::new(VTAX)
        .args(["agent", "--node", "test", "--fd", "0", "--lease", "--dir"])
        .arg(directory)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::from(OwnedFd::from(copy)))
        .stderr(Stdio::null())
        .spawn()
        .expect("vtax starts");
    (child, ours)
}

#[test]
fn an_agent_on_another_host_ends_where_nothing_is_heard_and_only_there() {
    let directory = tempfile::tempdir().expect("a directory");
    // One is spoken to and keeps hearing of its controller; the other is spoken to once, and its stream stays open.
    let (mut kept, stream) = agent(&directory.path().join("kept"));
    let (mut silent, mut open) = agent(&directory.path().join("silent"));
    let read = stream.try_clone().expect("a copy");
    let mut client = Client::start("test", read.into(), stream.into(), Box::new(|_| {})).expect("a client");
    client.hello(Duration::from_secs(20)).expect("an answer");
    client.renew_lease().expect("a thread");
    let renewed = Instant::now();
    let clock = Frame { kind: Kind::Request, id: 1, payload: br#"{"request":"clock"}"#.to_vec() };
    let spoken = Instant::now();
    open.write_all(&clock.encode()).expect("written");
    ended_within(&mut silent, 60);
    let took = spoken.elapsed();
    assert!(took >= LEASE - Duration::from_secs(1), "{took:?}");
    std::thread::sleep((LEASE + Duration::from_secs(5)).saturating_sub(renewed.elapsed()));
    let offset = client.clock().expect("it is still there");
    assert!(offset.offset_ns.unsigned_abs() <= offset.uncertainty_ns + 1_000, "{offset:?}: it is this host");
    assert!(kept.try_wait().expect("it is a child").is_none());
    drop(client);
    ended_within(&mut kept, 20);
}
