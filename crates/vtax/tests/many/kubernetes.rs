//! `--on k8s` with a real Kubernetes: its apiserver, controllers, scheduler and kubelets, with containerd and runc, on emulated hosts.
//!
//! Building it takes minutes, so these tests are run by `make k8s-test` and not with the others. Everything is done as a user who has the
//! rights of contrib/kubernetes/rights.yaml and no others; `admin` in a script is who may do all.

use vtax_store::record::{InvalidReason, TrialRecord, Validity};

use super::roles::{ONCE, THRICE, assert_given, on_given, run_of};
use super::*;

/// What every script begins with. `pod_on NODE` is the pod there, `gone` holds once no Job and no pod of vtax is left.
const BEGIN: &str = "
    export PATH=$kubernetes:$PATH KUBECONFIG=$dir/you.config image=vtax.test/tools:1
    admin() { kubectl --kubeconfig $dir/admin.config \"$@\"; }
    pod_on() { admin get pods -n vtax --field-selector spec.nodeName=$1,status.phase=Running -o name; }
    gone() { [ -z \"$(admin get jobs,pods -A -l app.kubernetes.io/name=vtax -o name)\" ]; }
    # As somebody else, or in another namespace.
    as() { sed \"s/namespace: vtax/namespace: $2/\" $1.config >$1-$2.config; export KUBECONFIG=$dir/$1-$2.config; }
    admin apply -f $rights
";

/// Long enough for something to happen meanwhile.
const WHILE: &str = "--set 'repeat={min: 3, max: 200, until: 1%, budget: 25s}'";

/// Three nodes of a cluster.
fn kubernetes() -> Option<Lab> {
    let programs =
        std::env::var("VTAX_KUBERNETES").expect("the folder with Kubernetes' programs: make k8s-test");
    let needed = ["openssl", "unshare", "nsenter", "ip", "pgrep", "ldd", "tar", "dpkg"];
    let mut lab = Lab::new("kubernetes", &needed)?;
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let name = lab.directory.path().file_name().and_then(|name| name.to_str()).expect("UTF-8").to_owned();
    let rights = here.join("../../contrib/kubernetes/rights.yaml");
    lab.variables = vec![
        ("kubernetes", programs),
        // Control groups are the machine's, and so their name is.
        ("groups", format!("vtax-test-{name}")),
        ("rights", rights.to_str().expect("UTF-8").to_owned()),
    ];
    let image = Command::new(here.join("tests/many/kubernetes/image.sh")).arg(lab.directory.path()).output();
    expect(&image.expect("bash starts"), 0, &[]);
    Some(lab)
}

impl Lab {
    /// Runs a script in the cluster and looks that nothing of the cluster is left.
    fn on_kubernetes(&self, script: &str) -> Output {
        let output = self.run("", &format!("{BEGIN}{script}"));
        let groups = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/many/kubernetes/groups.sh");
        let (_, name) = self.variables.iter().find(|(name, _)| *name == "groups").expect("a name");
        // The kernel takes a moment for the end of the last process.
        let until = Instant::now() + Duration::from_secs(10);
        while !Command::new(&groups).args(["remove", name]).status().expect("bash starts").success() {
            assert!(
                Instant::now() < until,
                "control groups of the nodes are left: {name}\n{}",
                text(&output)
            );
            std::thread::sleep(Duration::from_millis(200));
        }
        output
    }

    fn states(&self) -> Vec<String> {
        self.hosts().into_iter().map(|(_, state)| state).collect()
    }
}

#[test]
#[ignore = "takes Kubernetes: make k8s-test"]
fn the_doctor_and_a_plan_on_three_nodes_of_kubernetes() {
    let Some(lab) = kubernetes() else { return };
    let script = "
        $vtax doctor --on k8s:lab --hosts 3 --image $image --json >doctor.json; echo \"doctor: $?\"
        $vtax run plan.yaml --on k8s --hosts 3 --image $image --out run --together; echo \"run: $?\"
        until_ gone; nothing_left";
    let output = lab.on_kubernetes(script);
    let told = text(&output);
    expect(&output, 0, &["doctor: 0", "run: 0", "they began within", "nothing is left"]);
    let doctor = fs::read_to_string(lab.path("doctor.json")).expect("doctor.json");
    let doctor: Value = serde_json::from_str(&doctor).expect("JSON");
    let nodes = doctor.as_object().expect("an object");
    assert_eq!(nodes.keys().collect::<Vec<_>>(), ["n1", "n2", "n3"]);
    // In a pod without capabilities a run has namespaces of its own.
    for checks in nodes.values().filter_map(Value::as_array) {
        let namespaces = checks.iter().find(|check| check["name"] == "namespaces").expect("a point");
        assert_eq!(namespaces["state"], "ok", "{namespaces}");
    }
    let complete = ["n1", "n2", "n3"].map(|n| (format!("hosts/{n}"), "complete".to_owned()));
    assert_eq!(lab.hosts(), complete, "{told}");
    for (directory, _) in complete {
        let run = RunDir::open(lab.path("run").join(&directory)).expect("a run");
        // Hosts that are merged are nodes, whatever their pods were called.
        let host = run.provenance().expect("provenance").host.name;
        assert_eq!(format!("hosts/{host}"), directory);
        assert!(run.trials().expect("trials").len() >= 6, "{told}");
        assert!(run.provenance().expect("provenance").ended_unix_ms.is_some());
        let trials = run.trials().expect("trials");
        assert!(
            !trials.iter().any(|trial| format!("{:?}", trial.validity).contains("TestbedFailed")),
            "{told}"
        );
    }
    // The nodes share this machine, so trials may not count, which is said.
    assert!(lab.path("run/merged.html").exists() || told.contains("not merged"), "{told}");
}

#[test]
#[ignore = "takes Kubernetes: make k8s-test"]
fn a_pod_that_is_deleted_is_lost_and_its_node_is_gone_on_with() {
    let Some(lab) = kubernetes() else { return };
    let script = format!(
        "
        $vtax run plan.yaml --on k8s --hosts 3 --image $image --out run {WHILE} & run=$!
        until_ grep -q trial-ended run/hosts/n2/journal.jsonl
        admin delete -n vtax $(pod_on n2) --wait=false
        wait $run; echo \"run: $?\"
        until_ gone
        $vtax run --resume run --on k8s --hosts 3 --image $image; echo \"resumed: $?\"
        until_ gone; nothing_left"
    );
    let output = lab.on_kubernetes(&script);
    let told = text(&output);
    expect(
        &output,
        0,
        &["run: 0", "the way to it ended before its run did", "resumed: 0", "nothing is left"],
    );
    let expected = [("n1", "complete"), ("n2", "lost"), ("n3", "complete"), ("n2+2", "complete")];
    assert_eq!(lab.hosts(), expected.map(|(n, state)| (format!("hosts/{n}"), state.to_owned())), "{told}");
    // What it had finished is kept.
    let kept = RunDir::open(lab.path("run/hosts/n2")).expect("a run");
    assert!(!kept.trials().expect("trials").is_empty());
    // Both runs are of one node, in whatever pods.
    let again = RunDir::open(lab.path("run/hosts/n2+2")).expect("a run");
    let [first, second] = [kept, again].map(|run| run.provenance().expect("provenance").host.name);
    assert_eq!((first.as_str(), second.as_str()), ("n2", "n2"));
}

#[test]
#[ignore = "takes Kubernetes: make k8s-test"]
fn a_node_that_is_drained_is_lost_and_what_keeps_others_waiting_is_said() {
    let Some(lab) = kubernetes() else { return };
    let script = format!(
        "
        $vtax run plan.yaml --on k8s --hosts 3 --image $image --out run {WHILE} & run=$!
        until_ grep -q trial-ended run/hosts/n2/journal.jsonl
        # By the eviction API; nothing of vtax stands in its way.
        admin drain n2 --force --timeout 30s; echo \"drained: $?\"
        wait $run; echo \"run: $?\"
        $vtax run plan.yaml --on k8s --hosts 3 --image $image --wait 12s --out other; echo \"other: $?\"
        until_ gone; nothing_left"
    );
    let output = lab.on_kubernetes(&script);
    let words = [
        "drained: 0",
        "run: 0",
        "2 of 3 pods run within 12 s",
        "unschedulable",
        "other: 3",
        "nothing is left",
    ];
    expect(&output, 0, &words);
    assert_eq!(lab.states(), ["complete", "lost", "complete"], "{}", text(&output));
}

#[test]
#[ignore = "takes Kubernetes: make k8s-test"]
fn a_node_of_kubernetes_that_dies_is_lost_and_the_others_go_on() {
    let Some(lab) = kubernetes() else { return };
    // Kubernetes takes a quarter of a minute to see it, and must not end the others then: they go on for longer.
    let script = format!(
        "
        not_ready() {{ admin get nodes | grep -w n2 | grep -w NotReady; }}
        $vtax run plan.yaml --on k8s --hosts 3 --image $image --out run {LONG} & run=$!
        until_ grep -q trial-ended run/hosts/n2/journal.jsonl
        order die n2
        until_ not_ready; echo 'the node is missed'
        wait $run; echo \"run: $?\"
        # The pod of a node that isn't there stays in the books until somebody says that the node is gone.
        admin delete node n2
        # What was on its disk went with it.
        elsewhere() {{ order look; ! grep -v /n2.var/ left; }}
        until_ gone; until_ elsewhere; echo 'nothing is left elsewhere'"
    );
    let output = lab.on_kubernetes(&script);
    expect(&output, 0, &["the node is missed", "run: 0", "nothing is left elsewhere"]);
    assert_eq!(lab.states(), ["complete", "lost", "complete"], "{}", text(&output));
}

#[test]
#[ignore = "takes Kubernetes: make k8s-test"]
fn a_controller_that_dies_leaves_nothing_in_a_cluster() {
    let Some(lab) = kubernetes() else { return };
    let script = format!(
        "
        ended() {{ [ \"$(admin get pods -n vtax -o jsonpath='{{.items[*].status.phase}}')\" = 'Succeeded Succeeded Succeeded' ]; }}
        $vtax run plan.yaml --on k8s --hosts 3 --image $image --out run {LONG} & run=$!
        until_ grep -q trial-started run/hosts/n3/journal.jsonl
        kill -9 $run
        nothing_left
        # By themselves: the pods a minute after the last vtax, the Job a minute later.
        until_ ended; echo 'the pods have ended'
        until_ gone; echo 'the Job is gone'"
    );
    expect(&lab.on_kubernetes(&script), 0, &["nothing is left", "the pods have ended", "the Job is gone"]);
}

#[test]
#[ignore = "takes Kubernetes: make k8s-test"]
fn ctrl_c_stops_all_nodes_in_order() {
    let Some(lab) = kubernetes() else { return };
    let script = format!(
        "
        $vtax run plan.yaml --on k8s --hosts 3 --image $image --out run {LONG} & run=$!
        for n in 1 2 3; do until_ grep -q trial-started run/hosts/n$n/journal.jsonl; done
        kill -TERM $run
        wait $run; echo \"run: $?\"
        # While pods are waited for as well: no node has room for more than one.
        $vtax run plan.yaml --on k8s --hosts 4 --image $image --out other & run=$!
        sleep 3; kill -TERM $run
        wait $run; echo \"other: $?\"
        until_ gone; nothing_left"
    );
    let output = lab.on_kubernetes(&script);
    expect(
        &output,
        0,
        &["stopping", "run: 130", "to go on: vtax run --resume", "other: 130", "nothing is left"],
    );
    assert_eq!(lab.states(), ["stopped"; 3], "{}", text(&output));
}

#[test]
#[ignore = "takes Kubernetes: make k8s-test"]
fn of_two_namespaces_that_want_the_same_nodes_the_second_waits() {
    let Some(lab) = kubernetes() else { return };
    let script = format!(
        "
        sed 's/namespace: vtax/namespace: other/; s/^  name: vtax$/  name: other/' $rights >other.yaml; admin apply -f other.yaml
        $vtax run plan.yaml --on k8s --hosts 2 --image $image --out run {WHILE} & first=$!
        begun() {{ grep -q trial-started run/hosts/n*/journal.jsonl; }}
        until_ begun
        as you other
        $vtax run plan.yaml --on k8s --hosts 3 --image $image --out other >other.log 2>&1 & second=$!
        until_ grep 'pods run: ' other.log; ls other/hosts
        wait $first; echo \"first: $?\"
        wait $second; echo \"second: $?\"
        cat other.log; until_ gone; nothing_left"
    );
    let output = lab.on_kubernetes(&script);
    let told = text(&output);
    expect(&output, 0, &["anti-affinity", "first: 0", "second: 0", "nothing is left"]);
    assert_eq!(lab.states(), ["complete"; 2], "{told}");
    assert_eq!(lab.hosts_of("other").len(), 3, "{told}");
    // No node made a trial of the second while it made one of the first.
    for (directory, _) in lab.hosts() {
        let of = |run: &str| RunDir::open(lab.path(run).join(&directory)).expect("a run");
        let ended = of("run").provenance().expect("provenance").ended_unix_ms.expect("an end");
        let began = of("other").provenance().expect("provenance").started_unix_ms;
        assert!(began >= ended, "{directory}: the second began at {began}, the first ended at {ended}");
    }
}

#[test]
#[ignore = "takes Kubernetes: make k8s-test"]
fn what_a_cluster_refuses_is_said_with_the_way_out() {
    let Some(lab) = kubernetes() else { return };
    let script = "
        attempt() { $vtax run plan.yaml --on k8s --hosts 3 --out $1 --wait $2s --image $3; echo \"$1: $?\"; }
        admin create namespace strict
        admin label namespace strict pod-security.kubernetes.io/enforce=baseline
        role() { admin create role you -n strict --verb=get,list,create,delete --resource=$1; }
        admin create rolebinding you -n strict --role=you --user=you
        role jobs,pods,pods/exec,events

        as you strict; attempt level 600 $image
        # What asks for nothing is refused by no level, and says what it has to do without.
        admin label namespace strict --overwrite pod-security.kubernetes.io/enforce=restricted
        $vtax run plan.yaml --on k8s --hosts 1 --image $image --host-users --out asking; echo \"asking: $?\"
        $vtax report asking/hosts/n? >asking.report; grep 'namespaces are refused' asking.report
        # Who may not read events is told so.
        admin delete role you -n strict; role jobs,pods
        attempt blind 6 $image
        as stranger vtax; attempt stranger 600 $image
        as you vtax; attempt image 20 vtax.test/nothing:1
        attempt shell 600 vtax.test/empty:1
        $vtax run plan.yaml --on k8s:nowhere --hosts 3 --image $image --out context; echo \"context: $?\"
        until_ gone; nothing_left";
    let output = lab.on_kubernetes(script);
    let words = [
        "violates PodSecurity \"baseline:",
        "the namespace must be at the level `privileged`, as contrib/kubernetes/rights.yaml makes one; with --host-users",
        "level: 3",
        "0 of 3 pods run within 6 s: Kubernetes makes none",
        "the right to list events",
        "asking: 0",
        "namespaces are refused on this host",
        "blind: 3",
        "User \"stranger\" cannot create resource \"jobs\"",
        "contrib/kubernetes/rights.yaml gives what it takes",
        "stranger: 3",
        "pods run within 20 s: ",
        "vtax.test/nothing:1",
        "image: 3",
        "failed on n",
        "\"sh\": executable file not found",
        "shell: 3",
        "context \"nowhere\" does not exist",
        "context: 3",
        "nothing is left",
    ];
    expect(&output, 0, &words);
}

/// The first of three nodes has the service in every round, the others make the load.
fn fixed_roles() -> String {
    on_given("").replace(", draw: true", "")
}

#[test]
#[ignore = "takes Kubernetes: make k8s-test"]
fn a_cluster_gives_the_hosts_of_one_experiment() {
    let Some(lab) = kubernetes() else { return };
    lab.write("roles.yaml", &on_given(""));
    lab.write("fixed.yaml", &fixed_roles().replace(THRICE, ONCE));
    let script = "
        $vtax run roles.yaml --on k8s --out none; echo \"no image: $?\"
        $vtax run roles.yaml --on k8s --image $image --hosts 2 --out none; echo \"too few: $?\"
        $vtax run roles.yaml --on k8s --image $image --out run; echo \"run: $?\"
        until_ gone; nothing_left
        # Agents need no namespaces, and so pods need not have any.
        $vtax run fixed.yaml --on k8s --image $image --host-users --out fixed & fixed=$!
        running() { [ \"$(pod_on n3)\" ]; }
        until_ running; admin get $(pod_on n3) -n vtax -o jsonpath='host users: {.spec.hostUsers}.{\"\\n\"}'
        # A directory without a vtax in it keeps the pod between trials.
        empty() { admin exec -n vtax $(pod_on n3) -- sh -c 'for d in /tmp/vtax-*; do [ -e $d/vtax ] || echo $d; done'; }
        held() { first=$(empty); sleep 2; [ \"$first\" ] && [ \"$first\" = \"$(empty)\" ]; }
        until_ held; echo 'its pod is held'
        wait $fixed; echo \"fixed: $?\"
        until_ gone; nothing_left";
    let output = lab.on_kubernetes(script);
    let told = text(&output);
    for said in ["--image IMAGE", "no image: 2", "too few: 2", "host users: .", "its pod is held"] {
        assert!(told.contains(said), "{said}\n{told}");
    }
    assert_eq!(told.matches("nothing is left").count(), 2, "{told}");
    assert_given(&lab, ["n1", "n2", "n3"], &told);
    assert!(run_of(&lab).provenance().expect("provenance").ended_unix_ms.is_some(), "{told}");
    let fixed = RunDir::open(lab.path("fixed")).expect("a run").trials().expect("trials");
    for trials in [run_of(&lab).trials().expect("trials"), fixed] {
        // Whether they count is for a quiet machine to say.
        let measured: Vec<&TrialRecord> = trials.iter().filter(|trial| trial.finding().is_some()).collect();
        assert!(!measured.is_empty(), "{trials:?}\n{told}");
        for record in measured {
            // The service is met at its pod's own address, over the network of the pods.
            let number = record.facts["path.nic.host"].trim_start_matches('n');
            let network = format!("10.98.1{number}.");
            assert!(record.facts["path.nic.address"].starts_with(&network), "{:?}", record.facts);
            for generator in &record.generators {
                assert!(generator.load.as_ref().is_some_and(|load| load.counts.ok > 0), "{generator:?}");
            }
        }
    }
}

#[test]
#[ignore = "takes Kubernetes: make k8s-test"]
fn a_generators_pod_that_is_killed_makes_the_trial_invalid_and_is_gone_on_with() {
    let Some(lab) = kubernetes() else { return };
    let long = fixed_roles().replace("duration: 1s", "duration: 12s").replace("budget: 2s", "budget: 13s");
    lab.write("roles.yaml", &long.replace(THRICE, ONCE));
    let script = "
        $vtax run roles.yaml --on k8s --image $image --out run & run=$!
        # Its agent is there: its load begins some seconds later, and then takes a dozen.
        begun() { admin exec -n vtax $(pod_on n3) -- sh -c 'ls -d /tmp/vtax-*/node'; }
        until_ begun; sleep 6
        admin delete -n vtax $(pod_on n3) --grace-period=0 --force --wait=false
        wait $run; echo \"run: $?\"
        until_ gone; nothing_left
        $vtax run --resume run --on k8s --image $image; echo \"resumed: $?\"
        until_ gone; nothing_left";
    let output = lab.on_kubernetes(script);
    let told = text(&output);
    assert!(told.contains("run: 3") && told.contains("resumed: "), "{told}");
    assert_eq!(told.matches("nothing is left").count(), 2, "{told}");
    let trials = run_of(&lab).trials().expect("trials");
    let reason = |record: &TrialRecord| match &record.validity {
        Validity::Invalid { reason, detail } => Some((*reason, detail.clone())),
        Validity::Valid => None,
    };
    let (first, detail) = reason(&trials[0]).unwrap_or_else(|| panic!("it counts: {told}"));
    assert_eq!(first, InvalidReason::MeasureFailed, "{detail}");
    assert!(detail.contains("`client-2 on n3`"), "{detail}");
    // What is measured afterwards is measured by another pod of that node.
    assert!(trials.iter().any(|trial| trial.finding().is_some()), "{trials:?}\n{told}");
    assert!(run_of(&lab).provenance().expect("provenance").ended_unix_ms.is_some(), "{told}");
}
