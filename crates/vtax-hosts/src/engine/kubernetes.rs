//! Hosts that Kubernetes gives: one pod on each of so many nodes, all of one Job, by the user's own kubectl.
//!
//! A pod only waits. vtax is copied into it and started by `kubectl exec`, whose stream carries the frames; that such a stream may be cut
//! short without an error is what numbers and acknowledgements are for. A pod ends by itself a minute after the last vtax in it.

use std::io::{Read as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Engine, Machine};
use crate::error::HostsError;
use crate::list::{HostSpec, is_word};

/// What a pod's own process does: it waits as long as there is a vtax, and a minute more.
const WAIT: &str = "t=0; while [ $t -lt 20 ]; do sleep 3; t=$((t+1)); for d in /tmp/vtax-*; do [ -d \"$d\" ] && t=0; done; done";

/// How often pods are looked at.
const PAUSE: Duration = Duration::from_secs(1);
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
    /// The most time that the Job may take, in minutes.
    pub minutes: u64,
    /// How long to wait for the pods.
    pub wait: Duration,
}

/// A Job with its pods.
#[derive(Debug)]
pub struct Kubernetes {
    hosts: Vec<Machine>,
    context: Option<String>,
    /// Name of the Job, until it is deleted.
    job: Option<String>,
}

impl Kubernetes {
    /// Makes the Job and waits until all its pods run, or until it is `interrupted`, which is asked every second.
    ///
    /// # Errors
    ///
    /// [`HostsError::Program`] where kubectl isn't there or refuses, where a pod fails, or where they don't all run in time.
    pub fn allocate(options: &KubernetesOptions, interrupted: &dyn Fn() -> bool) -> Result<Self, HostsError> {
        let name = format!("vtax-{}-{}", std::process::id(), vtax_sys::clock::unix_ms() / 1000);
        let mut found = Self { hosts: Vec::new(), context: options.context.clone(), job: None };
        let text = manifest(&name, options).to_string();
        found.kubectl(&["create", "-f", "-"], text.as_bytes())?;
        found.job = Some(name.clone());
        let until = Instant::now() + options.wait;
        loop {
            let selector = format!("--selector=job-name={name}");
            let told = found.kubectl(&["get", "pods", &selector, "--output=json"], b"")?;
            let pods: Value =
                serde_json::from_slice(&told).map_err(|e| failed(format!("pods that can't be read: {e}")))?;
            match running(&pods).map_err(failed)? {
                hosts if hosts.len() >= options.hosts => {
                    found.hosts = hosts;
                    return Ok(found);
                }
                hosts if Instant::now() >= until => {
                    let (have, want, seconds) = (hosts.len(), options.hosts, options.wait.as_secs());
                    let why = obstacle(&pods).map(|why| format!(": {why}")).unwrap_or_default();
                    return Err(failed(format!("{have} of {want} pods run within {seconds} s{why}")));
                }
                _ if interrupted() => return Err(failed("interrupted".to_owned())),
                _ => std::thread::sleep(PAUSE),
            }
        }
    }

    fn command_line(&self) -> Command {
        let mut command = Command::new("kubectl");
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
        Err(failed(format!("{status}: {}", harmless(said.trim()))))
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

    fn end(&mut self) -> Result<(), HostsError> {
        let Some(job) = self.job.take() else { return Ok(()) };
        let deleted = self.kubectl(&["delete", "job", &job, "--wait=false", "--cascade=background"], b"");
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
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(500).collect()
}

/// The Job as kubectl takes it. It asks for nothing but nodes of their own and a system-call filter that lets user namespaces through.
fn manifest(name: &str, options: &KubernetesOptions) -> Value {
    let labels = json!({ "app.kubernetes.io/name": "vtax" });
    let apart = json!([{ "labelSelector": { "matchLabels": { "app.kubernetes.io/name": "vtax" } }, "topologyKey": "kubernetes.io/hostname" }]);
    let container = json!({
        "name": "vtax",
        "image": options.image,
        "command": ["sh", "-c", WAIT],
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": { "drop": ["ALL"] },
            "seccompProfile": { "type": "Unconfined" },
        },
    });
    json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": { "name": name, "labels": { "app.kubernetes.io/name": "vtax" } },
        "spec": {
            "parallelism": options.hosts,
            "completions": options.hosts,
            "completionMode": "Indexed",
            "backoffLimit": 0,
            "activeDeadlineSeconds": options.minutes.saturating_mul(60),
            "ttlSecondsAfterFinished": 60,
            "template": {
                "metadata": { "labels": labels },
                "spec": {
                    "restartPolicy": "Never",
                    "terminationGracePeriodSeconds": 5,
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": apart } },
                    "containers": [container],
                },
            },
        },
    })
}

fn items(pods: &Value) -> &[Value] {
    pods["items"].as_array().map_or(&[][..], Vec::as_slice)
}

/// Pods that run, named by their nodes; an error where one has failed.
fn running(pods: &Value) -> Result<Vec<Machine>, String> {
    let mut hosts = Vec::new();
    for pod in items(pods) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (name, node) = (text(&pod["metadata"]["name"]), text(&pod["spec"]["nodeName"]));
        match pod["status"]["phase"].as_str() {
            Some("Running") if is_word(&name) && is_word(&node) => {
                let spec = HostSpec { name: node.clone(), address: name, ..HostSpec::default() };
                hosts.push(Machine { name: node, spec });
            }
            Some("Failed") => return Err(format!("pod {} failed on {}", harmless(&name), harmless(&node))),
            _ => {}
        }
    }
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(hosts)
}

/// What keeps a pod from running, as Kubernetes words it.
fn obstacle(pods: &Value) -> Option<String> {
    items(pods).iter().find_map(|pod| {
        let of_containers = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
        let waiting = of_containers.filter_map(|c| c["state"]["waiting"]["message"].as_str());
        let of_pod = pod["status"]["conditions"].as_array().into_iter().flatten();
        let conditions = of_pod.filter(|c| c["status"] == "False").filter_map(|c| c["message"].as_str());
        waiting.chain(conditions).next().map(harmless)
    })
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
            wait: Duration::ZERO,
        }
    }

    #[test]
    fn the_job_asks_for_as_little_as_can_be() {
        let job = manifest("vtax-1-2", &options());
        let spec = &job["spec"];
        assert_eq!(
            (&spec["parallelism"], &spec["completions"], &spec["backoffLimit"]),
            (&json!(3), &json!(3), &json!(0))
        );
        assert_eq!(spec["activeDeadlineSeconds"], 5400);
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
        let apart = &pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(apart["topologyKey"], "kubernetes.io/hostname");
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
        assert_eq!(running(&json!({ "items": [pod("-x", "n1", "Running")] })), Ok(Vec::new()));
        assert_eq!(running(&json!(7)), Ok(Vec::new()));
        let stuck = json!({ "items": [{ "status": { "conditions": [{ "status": "False", "message": "0/3 nodes\nare free" }] } }] });
        assert_eq!(obstacle(&stuck).as_deref(), Some("0/3 nodes are free"));
        assert_eq!(obstacle(&pods), None);
    }

    #[test]
    fn the_command_line() {
        let host = Machine {
            name: "n1".to_owned(),
            spec: HostSpec { address: "j-0-a".to_owned(), ..HostSpec::default() },
        };
        let engine = Kubernetes { hosts: vec![host], context: options().context, job: None };
        let command = engine.command(&engine.hosts()[0], "true");
        let words: Vec<&str> = command.get_args().map(|a| a.to_str().unwrap()).collect();
        assert_eq!(
            words,
            ["--context=lab@east:1", "exec", "-i", "j-0-a", "-c", "vtax", "--", "sh", "-c", "true"]
        );
    }
}
