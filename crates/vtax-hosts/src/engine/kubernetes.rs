//! Hosts that Kubernetes gives: one pod on each of so many nodes, all of one Job, by the user's own kubectl.
//!
//! A pod only waits. vtax is copied into it and started by `kubectl exec`, whose stream carries the frames; that such a stream may be cut
//! short without an error is what numbers and acknowledgements are for. A pod ends by itself a minute after the last vtax in it, so one
//! that runs is held by a stream until it has its own: others may be waited for by the hour.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vtax_sys::sync::lock;
use vtax_units::drives_terminal;

use super::{Engine, Machine};
use crate::error::HostsError;
use crate::list::{HostSpec, is_word};

/// What a pod's own process does: it waits as long as there is a vtax, and a minute more. It ends well, or the Job would make another pod.
const WAIT: &str = "t=0; while [ $t -lt 20 ]; do sleep 3; t=$((t+1)); for d in \"${TMPDIR:-/tmp}\"/vtax-*; do [ -d \"$d\" ] && t=0; done; done; exit 0";

/// What keeps a pod while there is no vtax in it: a directory as one has, for as long as the stream lasts.
const HOLD: &str = "d=$(mktemp -d \"${TMPDIR:-/tmp}/vtax-XXXXXXXX\") || exit 1; trap : HUP INT TERM; cat >/dev/null; rm -rf \"$d\"";
/// How often something is said on such a stream, so that nobody on the way takes it for one that is forgotten.
const BEAT: Duration = Duration::from_secs(20);

/// What to do about a namespace that refuses the pods.
const LEVEL: &str = "the namespace must be at the level `privileged`, as contrib/kubernetes/rights.yaml makes one; with --host-users pods \
     ask for nothing, and runs have no namespaces";
/// What to do about a right that the user doesn't have.
const RIGHTS: &str = "; contrib/kubernetes/rights.yaml gives what it takes";
/// What is known of a Job without pods where its events may not be read.
const NO_PODS: &str = "Kubernetes makes none, and may refuse what they ask for; to be told why takes the right to list events \
     (contrib/kubernetes/rights.yaml)";

/// How often pods are looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// How often it is looked at what keeps pods from running; before, they are being made.
const PATIENCE: Duration = Duration::from_secs(5);
/// The user in the pods, `nobody`. The kernel lets root that has no capabilities not become root in a user namespace (`verify_root_map`,
/// since Linux 5.12), and lets anyone else.
const USER: u32 = 65534;
/// The most that is read of what kubectl says: some KiB for each pod.
const MOST_SAID: u64 = 64 << 20;

/// What is asked of Kubernetes.
#[derive(Debug, Clone)]
pub struct KubernetesOptions {
    /// Context; `None`: kubectl's current one. Its namespace is where the Job is made.
    pub context: Option<String>,
    /// An image with `sh` and what the plan needs.
    pub image: String,
    /// How many nodes.
    pub hosts: usize,
    /// The most time that the Job may take once its pods run, in minutes.
    pub minutes: u64,
    /// How long to wait for the pods.
    pub wait: Duration,
    /// Pods have the host's users, and no user namespace of their own: a run has no namespaces in them.
    pub host_users: bool,
}

/// A Job with its pods.
#[derive(Debug)]
pub struct Kubernetes {
    hosts: Vec<Machine>,
    /// kubectl, unless a test has its own.
    program: OsString,
    context: Option<String>,
    /// Name of the Job, until it is deleted.
    job: Option<String>,
    held: Held,
}

/// Streams whose standard input keeps something, until they are released or this is dropped.
#[derive(Debug)]
struct Held {
    streams: Arc<Mutex<BTreeMap<String, Child>>>,
    /// Nothing is ever said: its end is what is waited for.
    until: Option<Sender<()>>,
    beats: Option<JoinHandle<()>>,
}

impl Held {
    fn new() -> Result<Self, HostsError> {
        let (until, ended) = channel::<()>();
        let streams: Arc<Mutex<BTreeMap<String, Child>>> = Arc::default();
        let beaten = Arc::clone(&streams);
        let work = move || {
            while matches!(ended.recv_timeout(BEAT), Err(RecvTimeoutError::Timeout)) {
                beat(&mut lock(&beaten));
            }
        };
        let beats = std::thread::Builder::new().name("hold".into()).spawn(work);
        let beats = beats.map_err(|e| failed(e.to_string()))?;
        Ok(Self { streams, until: Some(until), beats: Some(beats) })
    }

    /// Has what this starts hold something of that name, unless it is held.
    fn hold(&self, name: &str, start: impl FnOnce() -> Result<Child, HostsError>) -> Result<(), HostsError> {
        let mut streams = lock(&self.streams);
        if !streams.contains_key(name) {
            streams.insert(name.to_owned(), start()?);
        }
        Ok(())
    }

    fn release(&self, name: &str) {
        let stream = lock(&self.streams).remove(name);
        stream.into_iter().for_each(end);
    }

    fn release_all(&self) {
        let streams = std::mem::take(&mut *lock(&self.streams));
        streams.into_values().for_each(end);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.until = None;
        if let Some(beats) = self.beats.take() {
            // It has nothing to say.
            let _ = beats.join();
        }
        self.release_all();
    }
}

/// Says something on each stream. One that takes no more holds nothing: its pod is lost, or is to be held anew.
fn beat(streams: &mut BTreeMap<String, Child>) {
    let broken = |holder: &mut Child| holder.stdin.as_mut().is_none_or(|to| to.write_all(b"\n").is_err());
    streams.extract_if(.., |_, holder| broken(holder)).for_each(|(_, holder)| end(holder));
}

/// Ends a stream, and with it what it holds.
fn end(mut holder: Child) {
    drop(holder.stdin.take());
    // What it has to do there is done by the end of its stream. It may have ended, too.
    let _ = holder.kill();
    let _ = holder.wait();
}

impl Kubernetes {
    /// Makes the Job and waits until all its pods run, or until it is `interrupted`, which is asked every second. `told` hears what is
    /// waited for, each time that this changes.
    ///
    /// # Errors
    ///
    /// [`HostsError::Program`] where kubectl isn't there or refuses, where pods are refused for good, where one fails, or where they
    /// don't all run in time.
    pub fn allocate(
        options: &KubernetesOptions,
        interrupted: &dyn Fn() -> bool,
        told: &dyn Fn(&str),
    ) -> Result<Self, HostsError> {
        Self::allocate_by("kubectl".into(), options, interrupted, told)
    }

    fn allocate_by(
        program: OsString,
        options: &KubernetesOptions,
        interrupted: &dyn Fn() -> bool,
        told: &dyn Fn(&str),
    ) -> Result<Self, HostsError> {
        // Whoever deletes it must not delete another's.
        let mut random = [0_u8; 4];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(|e| failed(format!("its Job gets no name: {e}")))?;
        let name = format!("vtax-{}-{:08x}", vtax_sys::clock::unix_ms() / 1000, u32::from_ne_bytes(random));
        let context = options.context.clone();
        let mut found = Self { hosts: Vec::new(), program, context, job: None, held: Held::new()? };
        let text = manifest(&name, options).to_string();
        // What Kubernetes made although kubectl didn't hear of it is deleted as well.
        found.job = Some(name.clone());
        found.kubectl(&["create", "-f", "-"], text.as_bytes())?;
        let begun = Instant::now();
        let mut next = begun + PATIENCE;
        let mut last = String::new();
        loop {
            let pods = found.list("pods", &format!("--selector=job-name={name}"))?;
            let hosts = running(&pods).map_err(failed)?;
            hosts.iter().try_for_each(|host| found.hold(host))?;
            if hosts.len() >= options.hosts {
                found.hosts = hosts.into_iter().take(options.hosts).collect();
                return Ok(found);
            }
            if interrupted() {
                return Err(failed("interrupted".to_owned()));
            }
            let over = begun.elapsed() >= options.wait;
            if over || Instant::now() >= next {
                next = Instant::now() + PATIENCE;
                let why = found.obstacle(&name, &pods);
                if let Some(refused) = why.as_deref().filter(|why| why.contains("violates PodSecurity")) {
                    return Err(failed(format!("{refused}; {LEVEL}")));
                }
                let now = format!("{} of {} pods run", hosts.len(), options.hosts);
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                if over {
                    return Err(failed(format!("{now} within {} s{why}", options.wait.as_secs())));
                }
                if last != format!("{now}{why}") {
                    last = format!("{now}{why}");
                    told(&last);
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Keeps a pod that runs, whatever else it waits for.
    fn hold(&self, host: &Machine) -> Result<(), HostsError> {
        self.held.hold(&host.spec.address, || {
            let mut command = self.command(host, HOLD);
            command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
            command.spawn().map_err(|e| failed(format!("it can't be started: {e}")))
        })
    }

    /// What keeps pods from running, as Kubernetes words it. Why there are none at all, or why a node makes no container of one, only
    /// events say, which take a right of their own.
    fn obstacle(&self, job: &str, pods: &Value) -> Option<String> {
        if let Some(why) = of_containers(pods).or_else(|| of_scheduler(pods)) {
            return Some(why);
        }
        match self.list("events", "--field-selector=type=Warning") {
            Ok(events) => failure(&events, job),
            Err(_) => items(pods).is_empty().then(|| NO_PODS.to_owned()),
        }
    }

    /// All of a kind in the namespace that are selected so.
    fn list(&self, kind: &str, selected: &str) -> Result<Value, HostsError> {
        let told = self.kubectl(&["get", kind, selected, "--output=json"], b"")?;
        serde_json::from_slice(&told).map_err(|e| failed(format!("{kind} that can't be read: {e}")))
    }

    fn command_line(&self) -> Command {
        let mut command = Command::new(&self.program);
        // In one word, so that no name is taken for an option.
        command.args(self.context.iter().map(|context| format!("--context={context}")));
        command
    }

    /// Runs kubectl to its end; what it said on its output.
    fn kubectl(&self, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, HostsError> {
        let mut command = self.command_line();
        command.args(arguments).arg("--request-timeout=30s").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|e| failed(format!("it can't be started: {e}")))?;
        if let Some(mut stdin) = child.stdin.take() {
            // Where it doesn't read to the end, it says why.
            let _ = stdin.write_all(input);
        }
        let errors = child.stderr.take().map(|mut errors| {
            std::thread::spawn(move || {
                let mut text = String::new();
                // What isn't text is left out.
                let _ = errors.by_ref().take(4_000).read_to_string(&mut text);
                // It must not wait for a reader.
                let _ = std::io::copy(&mut errors, &mut std::io::sink());
                text
            })
        });
        let mut told = Vec::new();
        if let Some(output) = child.stdout.take() {
            output.take(MOST_SAID).read_to_end(&mut told).map_err(|e| failed(e.to_string()))?;
        }
        let status = child.wait().map_err(|e| failed(e.to_string()))?;
        let said = errors.and_then(|reader| reader.join().ok()).unwrap_or_default();
        if status.success() {
            return Ok(told);
        }
        let hint = if said.contains("(Forbidden)") { RIGHTS } else { "" };
        Err(failed(format!("{status}: {}{hint}", harmless(said.trim()))))
    }
}

impl Engine for Kubernetes {
    fn hosts(&self) -> &[Machine] {
        &self.hosts
    }

    fn command(&self, host: &Machine, script: &str) -> Command {
        let mut command = self.command_line();
        command.args(["exec", "-i", &host.spec.address, "-c", "vtax", "--", "sh", "-c", script]);
        command
    }

    fn release(&self, host: &Machine) {
        self.held.release(&host.spec.address);
    }

    fn end(&mut self) -> Result<(), HostsError> {
        self.held.release_all();
        let Some(job) = self.job.take() else { return Ok(()) };
        // One that is gone, by its deadline or by somebody's hand, is ended.
        let deleted = self.kubectl(
            &["delete", "job", &job, "--ignore-not-found", "--wait=false", "--cascade=background"],
            b"",
        );
        deleted.map(|_| ()).map_err(|e| failed(format!("job {job} may go on until its deadline: {e}")))
    }
}

impl Drop for Kubernetes {
    fn drop(&mut self) {
        // Whoever wants to know calls `end`.
        let _ = self.end();
    }
}

fn failed(reason: String) -> HostsError {
    HostsError::Program { program: "kubectl".to_owned(), reason }
}

fn harmless(text: &str) -> String {
    text.chars().map(|c| if drives_terminal(c) { ' ' } else { c }).take(500).collect()
}

/// The Job as kubectl takes it, as contrib/kubernetes/job.yaml explains it. It asks for nodes of their own, and for what user namespaces
/// inside take: no system-call filter, and a /proc without masks, which Kubernetes gives to pods in user namespaces of their own.
fn manifest(name: &str, options: &KubernetesOptions) -> Value {
    let labels = json!({ "app.kubernetes.io/name": "vtax" });
    let apart = json!([{ "labelSelector": { "matchLabels": { "app.kubernetes.io/name": "vtax" } }, "namespaceSelector": {}, "topologyKey": "kubernetes.io/hostname" }]);
    let mut container = json!({
        "name": "vtax",
        "image": options.image,
        "command": ["sh", "-c", WAIT],
        // By this a run knows the machine: pods of a node come and go.
        "env": [{ "name": "VTAX_NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
        "securityContext": {
            "runAsNonRoot": true,
            "runAsUser": USER,
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "seccompProfile": { "type": if options.host_users { "RuntimeDefault" } else { "Unconfined" } },
        },
    });
    let mut pod = json!({
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 5,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": apart } },
    });
    if !options.host_users {
        container["securityContext"]["procMount"] = json!("Unmasked");
        pod["hostUsers"] = json!(false);
    }
    pod["containers"] = json!([container]);
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "vtax" } },
        "spec": {
            "parallelism": options.hosts,
            "completions": options.hosts,
            "completionMode": "Indexed",
            // With 0 the first pod that is lost would end all others.
            "backoffLimit": options.hosts,
            // It begins with the Job, and not with its pods.
            "activeDeadlineSeconds": options.minutes.saturating_mul(60).saturating_add(options.wait.as_secs()),
            "ttlSecondsAfterFinished": 60,
            "template": {
                "metadata": { "labels": labels },
                "spec": pod,
            },
        },
    })
}

fn items(pods: &Value) -> &[Value] {
    pods["items"].as_array().map_or(&[][..], Vec::as_slice)
}

/// Pods that run and aren't being ended, named by their nodes; an error where one has failed.
fn running(pods: &Value) -> Result<Vec<Machine>, String> {
    let mut hosts = Vec::new();
    for pod in items(pods).iter().filter(|pod| pod["metadata"]["deletionTimestamp"].is_null()) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, node) = (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]));
        match pod["status"]["phase"].as_str() {
            Some("Running") if is_word(&name) && is_word(&node) => {
                // Its node's name stands for the node.
                let network = text(&pod["status"]["podIP"]).parse().ok();
                let spec = HostSpec { name: node.clone(), address: name, network, ..HostSpec::default() };
                hosts.push(Machine { name: node, spec });
            }
            Some("Failed") => {
                let alone = json!({ "items": [pod] });
                let why = of_containers(&alone).or_else(|| of_scheduler(&alone));
                let why = why.map(|why| format!(": {why}")).unwrap_or_default();
                return Err(format!("pod {} failed on {}{why}", harmless(&name), harmless(&node)));
            }
            _ => {}
        }
    }
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(hosts)
}

/// Why the container of one of these pods doesn't run, as the node says.
fn of_containers(pods: &Value) -> Option<String> {
    items(pods).iter().find_map(|pod| {
        let containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        let states = containers.flat_map(|c| [&c["state"]["waiting"], &c["state"]["terminated"]]);
        states.filter_map(|state| state["message"].as_str()).next().map(harmless)
    })
}

/// Why one of these pods has no node, or lost it.
fn of_scheduler(pods: &Value) -> Option<String> {
    items(pods).iter().find_map(|pod| {
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let unscheduled = conditions.filter(|c| c["type"] == "PodScheduled" && c["status"] == "False");
        let said = unscheduled.filter_map(|c| c["message"].as_str());
        pod["status"]["message"].as_str().into_iter().chain(said).next().map(harmless)
    })
}

/// The last of these events that tells of something failed with a Job, or with a pod of its.
fn failure(events: &Value, job: &str) -> Option<String> {
    let of_job = |event: &&Value| {
        let name = event["involvedObject"]["name"].as_str().unwrap_or_default();
        let reason = event["reason"].as_str().unwrap_or_default();
        let failed = reason.starts_with("Failed") || reason == "DeadlineExceeded";
        failed && name.strip_prefix(job).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    let last = items(events).iter().filter(of_job).max_by_key(|event| event["lastTimestamp"].as_str());
    last.and_then(|event| event["message"].as_str()).map(harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> KubernetesOptions {
        KubernetesOptions {
            context: Some("lab@east:1".to_owned()),
            image: "registry/x: y".to_owned(),
            hosts: 3,
            minutes: 90,
            wait: Duration::from_secs(3600),
            host_users: false,
        }
    }

    #[test]
    fn the_job_asks_for_as_little_as_can_be() {
        let job = manifest("vtax-1-2", &options());
        let spec = &job["spec"];
        assert_eq!(
            (&spec["parallelism"], &spec["completions"], &spec["backoffLimit"]),
            (&json!(3), &json!(3), &json!(3))
        );
        // An hour and a half, after an hour of waiting for nodes.
        assert_eq!(spec["activeDeadlineSeconds"], 9000);
        let pod = &spec["template"]["spec"];
        assert_eq!(
            (&pod["restartPolicy"], &pod["automountServiceAccountToken"]),
            (&json!("Never"), &json!(false))
        );
        let container = &pod["containers"][0];
        // Whatever an image is called, it stays one text.
        assert_eq!(container["image"], "registry/x: y");
        assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
        assert!(container["securityContext"]["privileged"].is_null() && pod["hostNetwork"].is_null());
        assert_eq!(
            (&pod["hostUsers"], &container["securityContext"]["procMount"]),
            (&json!(false), &json!("Unmasked"))
        );
        // Where pods have the host's users there is nothing that the level `restricted` refuses.
        let job = manifest("vtax-1-2", &KubernetesOptions { host_users: true, ..options() });
        let pod = &job["spec"]["template"]["spec"];
        assert!(pod["hostUsers"].is_null());
        let allowed = json!({ "runAsNonRoot": true, "runAsUser": USER, "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] }, "seccompProfile": { "type": "RuntimeDefault" } });
        assert_eq!(pod["containers"][0]["securityContext"], allowed);
        assert_eq!(wrong_with(&job), Vec::<String>::new());
        let apart = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        // Whoever made them, in whatever namespace.
        assert_eq!(
            (&apart["topologyKey"], &apart["namespaceSelector"]),
            (&json!("kubernetes.io/hostname"), &json!({}))
        );
        assert_eq!(
            (&container["securityContext"]["runAsNonRoot"], &container["securityContext"]["runAsUser"]),
            (&json!(true), &json!(65534))
        );
    }

    /// What of Kubernetes' published schema (v1.36.3) says of manifests like these.
    const SCHEMA: &str = include_str!("kubernetes-schema.json");
    const JOB: &str = include_str!("../../../../contrib/kubernetes/job.yaml");
    const RIGHTS: &str = include_str!("../../../../contrib/kubernetes/rights.yaml");

    /// What is wrong with a value by a part of the schema, each with its place. An empty part says nothing.
    fn wrong(value: &Value, part: &Value, definitions: &Value, place: &str) -> Vec<String> {
        if let Some(name) = part["$ref"].as_str() {
            let name = name.rsplit('/').next().unwrap_or_default();
            assert!(definitions[name].is_object(), "no definition of {name}");
            return wrong(value, &definitions[name], definitions, place);
        }
        let fits = match part["type"].as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("boolean") => value.is_boolean(),
            Some(other) => panic!("{place}: what is a {other}?"),
            None => true,
        };
        if !fits {
            return vec![format!("{place}: {value} is no {}", part["type"])];
        }
        let mut found = Vec::new();
        for name in part["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            if value.get(name).is_none() {
                found.push(format!("{place}: {name} is missing"));
            }
        }
        for (name, inner) in value.as_object().into_iter().flatten() {
            let place = format!("{place}.{name}");
            match (part["properties"].get(name), part.get("additionalProperties")) {
                (Some(part), _) | (None, Some(part)) => found.extend(wrong(inner, part, definitions, &place)),
                (None, None) if part["properties"].is_object() => found.push(format!("{place}: unknown")),
                (None, None) => {}
            }
        }
        for (i, inner) in value.as_array().into_iter().flatten().enumerate() {
            found.extend(wrong(inner, &part["items"], definitions, &format!("{place}[{i}]")));
        }
        found
    }

    /// What is wrong with a manifest; one of a kind that the schema doesn't have is wrong as a whole.
    fn wrong_with(manifest: &Value) -> Vec<String> {
        let schema: Value = serde_json::from_str(SCHEMA).unwrap();
        let definitions = &schema["definitions"];
        let version = |kind: &Value| match kind["group"].as_str() {
            Some("") | None => kind["version"].as_str().unwrap_or_default().to_owned(),
            Some(group) => format!("{group}/{}", kind["version"].as_str().unwrap_or_default()),
        };
        let is_its =
            |kind: &Value| version(kind) == manifest["apiVersion"] && kind["kind"] == manifest["kind"];
        let of_kind = |part: &&Value| {
            part["x-kubernetes-group-version-kind"].as_array().is_some_and(|kinds| kinds.iter().any(is_its))
        };
        match definitions.as_object().unwrap().values().find(of_kind) {
            Some(part) => wrong(manifest, part, definitions, ""),
            None => vec![format!("no kind {} {}", manifest["apiVersion"], manifest["kind"])],
        }
    }

    #[test]
    fn the_job_fits_the_published_schema() {
        let job = manifest("vtax-1-2", &options());
        assert_eq!(wrong_with(&job), Vec::<String>::new());
        // The check finds what is there to be found.
        let mut faulty = job.clone();
        faulty["spec"]["parallelism"] = json!("3");
        faulty["spec"]["template"]["spec"]["restartPolice"] = json!("Never");
        faulty["spec"]["template"]["spec"]["containers"][0]["name"] = Value::Null;
        faulty["spec"]["template"]["spec"]["containers"][0]["command"][1] = json!(1);
        assert_eq!(wrong_with(&faulty).len(), 4, "{:?}", wrong_with(&faulty));
        faulty["spec"].as_object_mut().unwrap().remove("template");
        assert_eq!(wrong_with(&faulty).len(), 2, "{:?}", wrong_with(&faulty));
        faulty["apiVersion"] = json!("v1");
        assert_eq!(wrong_with(&faulty), ["no kind \"v1\" \"Job\""]);
    }

    #[test]
    fn the_files_for_users_say_what_is_so() {
        let shown: Value = serde_saphyr::from_str(JOB).unwrap();
        let options = KubernetesOptions { image: "IMAGE".to_owned(), ..options() };
        assert_eq!(shown, manifest("vtax-1-2", &options));
        let rights: Vec<Value> =
            RIGHTS.split("\n---\n").map(|text| serde_saphyr::from_str(text).unwrap()).collect();
        let kinds: Vec<&Value> = rights.iter().map(|manifest| &manifest["kind"]).collect();
        assert_eq!(kinds, ["Namespace", "Role", "RoleBinding"]);
        for manifest in &rights {
            assert_eq!(wrong_with(manifest), Vec::<String>::new());
        }
    }

    #[test]
    fn a_pod_waits_for_the_last_vtax_and_ends_well() {
        let place = tempfile::tempdir().unwrap();
        let there = place.path().join("vtax-1");
        std::fs::create_dir(&there).unwrap();
        // Time passes faster here, and the vtax goes after half of it.
        let script = format!(
            "n=0; sleep() {{ n=$((n+1)); [ $n != 10 ] || rmdir {}; }}; trap 'echo $n' EXIT; {WAIT}",
            there.display()
        );
        let output = Command::new("sh").args(["-c", &script]).env("TMPDIR", place.path()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "29\n");
    }

    #[test]
    fn what_holds_a_pod_is_there_as_long_as_it_is_held() {
        let place = tempfile::tempdir().unwrap();
        let count = || std::fs::read_dir(place.path()).unwrap().count();
        let start = || {
            let mut holder = Command::new("sh");
            holder.args(["-c", HOLD]).env("TMPDIR", place.path()).stdin(Stdio::piped());
            holder.spawn().unwrap()
        };
        let mut holder = start();
        let begun = Instant::now();
        while count() == 0 {
            assert!(begun.elapsed() < Duration::from_secs(120), "nothing holds it");
            std::thread::sleep(Duration::from_millis(20));
        }
        drop(holder.stdin.take());
        assert!(holder.wait().unwrap().success());
        assert_eq!(count(), 0);
        // Whoever holds several ends one, or all.
        let holders = [start(), start(), start()];
        let processes = holders.each_ref().map(|holder| format!("/proc/{}", holder.id()));
        let there = || processes.each_ref().map(|process| std::fs::exists(process).unwrap());
        let held = Held::new().unwrap();
        for (name, holder) in ["a", "b", "c"].iter().zip(holders) {
            held.hold(name, || Ok(holder)).unwrap();
            held.hold(name, || panic!("it is held")).unwrap();
        }
        assert_eq!(there(), [true; 3]);
        held.release("b");
        assert_eq!(there(), [true, false, true]);
        // One that ended by itself is no longer one, and what it held may be held anew.
        let of_a = lock(&held.streams).get_mut("a").map(|holder| (holder.kill(), holder.wait()));
        assert!(of_a.is_some());
        beat(&mut lock(&held.streams));
        assert_eq!(lock(&held.streams).keys().collect::<Vec<_>>(), ["c"]);
        drop(held);
        assert_eq!(there(), [false; 3]);
    }

    /// A cluster of which the second node has room once the pod on the first one is held.
    const CLUSTER: &str = r#"#!/bin/sh
cd "${0%/*}"
pod() { printf '{"metadata":{"name":"j-%s"},"spec":{"nodeName":"n%s"},"status":{"phase":"%s"}}' $1 $1 $2; }
held() { for d in pod-$1/vtax-*; do [ -d $d ] && return; done; return 1; }
echo "$1" >>asked
case $1 in
create) cat >job;;
get) phase=Pending; ! held 1 || phase=Running; echo "{\"items\":[$(pod 1 Running),$(pod 2 $phase)]}";;
# kubectl exec -i j-N -c vtax -- sh -c SCRIPT, which isn't killed with kubectl, but sees the end of its input.
exec) n=${3#j-}; mkdir -p pod-$n; TMPDIR=$PWD/pod-$n sh -c "$9"; :;;
esac
"#;

    #[test]
    fn a_pod_is_held_until_it_is_in_use_while_others_are_waited_for() {
        let place = tempfile::tempdir().unwrap();
        let (text, program) = (place.path().join("text"), place.path().join("kubectl"));
        std::fs::write(&text, CLUSTER).unwrap();
        // By another process: one that this process has open for writing may be kept so by what other tests start.
        assert!(
            Command::new("install").args(["-m", "700"]).args([&text, &program]).status().unwrap().success()
        );
        let options =
            KubernetesOptions { context: None, hosts: 2, wait: Duration::from_secs(60), ..options() };
        let mut engine = Kubernetes::allocate_by(program.into(), &options, &|| false, &|_| ()).unwrap();
        let is_held = |pod: &str| std::fs::read_dir(place.path().join(pod)).is_ok_and(|all| all.count() > 0);
        let until = |what: &str, holds: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !holds() {
                assert!(begun.elapsed() < Duration::from_secs(60), "{what}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        until("both are held", &|| is_held("pod-1") && is_held("pod-2"));
        let first = engine.hosts()[0].clone();
        assert_eq!((first.name.as_str(), engine.hosts().len()), ("n1", 2));
        engine.release(&first);
        until("the first is held no more", &|| !is_held("pod-1"));
        assert!(is_held("pod-2"));
        engine.end().unwrap();
        until("none is held", &|| !is_held("pod-2"));
        let asked = std::fs::read_to_string(place.path().join("asked")).unwrap();
        assert!(asked.starts_with("create\nget\n") && asked.ends_with("delete\n"), "{asked}");
        assert_eq!(asked.matches("exec\n").count(), 2, "{asked}");
    }

    /// What kubectl does where Kubernetes does what it is asked for, and the answer is lost on the way.
    const CUT_SHORT: &str = r#"#!/bin/sh
cat >/dev/null
echo "$*" >>"${0%/*}/asked"
[ $1 != create ]
"#;

    #[test]
    fn a_job_is_deleted_whose_creation_was_cut_short() {
        let place = tempfile::tempdir().unwrap();
        let (text, program) = (place.path().join("text"), place.path().join("kubectl"));
        std::fs::write(&text, CUT_SHORT).unwrap();
        // By another process, as above.
        assert!(
            Command::new("install").args(["-m", "700"]).args([&text, &program]).status().unwrap().success()
        );
        let options = KubernetesOptions { context: None, ..options() };
        assert!(Kubernetes::allocate_by(program.into(), &options, &|| false, &|_| ()).is_err());
        let asked = std::fs::read_to_string(place.path().join("asked")).unwrap();
        let asked: Vec<&str> = asked.lines().collect();
        assert_eq!(asked.len(), 2, "{asked:?}");
        assert!(asked[0].starts_with("create -f -"), "{asked:?}");
        // It may not have been made, or be gone.
        assert!(
            asked[1].starts_with("delete job vtax-") && asked[1].contains(" --ignore-not-found"),
            "{asked:?}"
        );
    }

    #[test]
    fn pods_are_known_by_their_nodes() {
        let pod = |name: &str, node: &str, phase: &str| json!({ "metadata": { "name": name }, "spec": { "nodeName": node }, "status": { "phase": phase } });
        let pods = json!({ "items": [pod("j-1-b", "n2", "Running"), pod("j-0-a", "n1", "Running"), pod("j-2-c", "n3", "Pending")] });
        let hosts = running(&pods).unwrap();
        let names: Vec<(&str, &str)> =
            hosts.iter().map(|h| (h.name.as_str(), h.spec.address.as_str())).collect();
        assert_eq!(names, [("n1", "j-0-a"), ("n2", "j-1-b")]);
        assert!(
            running(&json!({ "items": [pod("j-0-a", "n1", "Failed")] }))
                .unwrap_err()
                .contains("j-0-a failed on n1")
        );
        let mut broken = pod("j-0-a", "n1", "Failed");
        broken["status"]["containerStatuses"] = json!([{ "state": { "terminated": { "reason": "StartError", "message": "no `sh` in\n$PATH" } } }]);
        let why = running(&json!({ "items": [broken] })).unwrap_err();
        assert_eq!(why, "pod j-0-a failed on n1: no `sh` in $PATH");
        // One that is being ended is none, nor is it a failure.
        for phase in ["Running", "Failed"] {
            let mut ending = pod("j-0-a", "n1", phase);
            ending["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            assert_eq!(running(&json!({ "items": [ending] })), Ok(Vec::new()));
        }
        assert_eq!(running(&json!({ "items": [pod("-x", "n1", "Running")] })), Ok(Vec::new()));
        assert_eq!(running(&json!(7)), Ok(Vec::new()));
        let stuck = json!({ "items": [{ "status": { "conditions": [{ "type": "PodScheduled", "status": "False", "message": "0/3 nodes\nare free" }] } }] });
        assert_eq!(of_scheduler(&stuck).as_deref(), Some("0/3 nodes are free"));
        assert_eq!((of_scheduler(&pods), of_containers(&pods)), (None, None));
        let unpulled = json!({ "items": [{ "status": { "containerStatuses": [{ "state": { "waiting": { "message": "no image" } } }] } }] });
        assert_eq!(of_containers(&unpulled).as_deref(), Some("no image"));
        let event = |name: &str, reason: &str, at: &str, message: &str| json!({ "involvedObject": { "name": name }, "lastTimestamp": at, "reason": reason, "message": message });
        let mut events = json!({ "items": [
            event("j-0-a", "FailedMount", "2026-01-01T00:00:02Z", "no user\nnamespaces"),
            event("j-1-b", "FailedMount", "2026-01-01T00:00:01Z", "older"),
            event("jj-0-a", "FailedMount", "2026-01-01T00:00:03Z", "of another"),
            event("j-0-a", "Unhealthy", "2026-01-01T00:00:04Z", "no failure"),
        ] });
        assert_eq!(failure(&events, "j").as_deref(), Some("no user namespaces"));
        let over = event(
            "j",
            "DeadlineExceeded",
            "2026-01-01T00:00:05Z",
            "Job was active longer than specified deadline",
        );
        events["items"].as_array_mut().unwrap().push(over);
        assert_eq!(failure(&events, "j").as_deref(), Some("Job was active longer than specified deadline"));
        assert_eq!(failure(&events, "k"), None);
        assert_eq!(failure(&json!(7), "j"), None);
    }

    #[test]
    fn the_command_line() {
        let host = Machine {
            name: "n1".to_owned(),
            spec: HostSpec { address: "j-0-a".to_owned(), ..HostSpec::default() },
        };
        let (program, held) = ("kubectl".into(), Held::new().unwrap());
        let engine = Kubernetes { hosts: vec![host], program, context: options().context, job: None, held };
        let command = engine.command(&engine.hosts()[0], "true");
        let words: Vec<&str> = command.get_args().map(|a| a.to_str().unwrap()).collect();
        assert_eq!(
            words,
            ["--context=lab@east:1", "exec", "-i", "j-0-a", "-c", "vtax", "--", "sh", "-c", "true"]
        );
    }
}
