//! A pair's disk while it is protected: the secondary's copy is made, kept and taken over by QMP commands (QEMU,
//! `docs/block-replication.txt`).

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::disk::{COPY, DISK};
use super::replica::Replica;
use crate::error::{Result, VmError};

/// Name of the node that sends the primary's writes to the secondary.
const SENDER: &str = "replication0";
/// How long copying the whole disk to a new secondary may take.
const COPY_WITHIN: Duration = Duration::from_secs(60);

/// A disk whose copy is kept the same by a job of the primary's.
pub(super) struct Copied {
    /// The secondary's disk as the primary reaches it.
    nbd: Value,
}

/// Copies the primary's disk to the secondary's while the guest runs. `address` is the secondary's on the link between
/// them.
pub(super) fn copy(primary: &Replica, secondary: &Replica, address: SocketAddr) -> Result<Copied> {
    let [host, port] = [address.ip().to_string(), address.port().to_string()];
    let place = json!({ "type": "inet", "host": host, "port": port });
    let open = json!({ "type": "inet", "data": { "host": host, "port": port } });
    secondary.execute("nbd-server-start", json!({ "addr": open }))?;
    secondary.execute("nbd-server-add", json!({ "device": COPY, "writable": true }))?;
    let nbd = json!({ "driver": "nbd", "export": COPY, "server": place });
    let mut target = nbd.clone();
    target["node-name"] = json!("copytarget");
    primary.execute("blockdev-add", target)?;
    let job = json!({ "job-id": "copy", "device": DISK, "target": "copytarget", "sync": "full" });
    primary.execute("blockdev-mirror", job)?;
    wait_for_job(primary, |state| state == Some("ready"))?;
    Ok(Copied { nbd })
}

/// Has every further write sent along. The guest must stand still; with the first checkpoint the copy is the disk's.
pub(super) fn join(primary: &Replica, Copied { nbd }: Copied) -> Result<()> {
    primary.execute("block-job-cancel", json!({ "device": "copy" }))?;
    wait_for_job(primary, |state| state.is_none())?;
    primary.execute("blockdev-del", json!({ "node-name": "copytarget" }))?;
    let sender = json!({ "driver": "replication", "mode": "primary", "node-name": SENDER, "file": nbd });
    primary.execute("blockdev-add", sender)?;
    primary.execute("x-blockdev-change", json!({ "parent": DISK, "node": SENDER })).map(drop)
}

/// Waits until the copying job's state is as wanted; `None`: there is no job any more.
fn wait_for_job(replica: &Replica, wanted: impl Fn(Option<&str>) -> bool) -> Result<()> {
    let started = Instant::now();
    loop {
        let jobs = replica.execute("query-jobs", Value::Null)?;
        let job = jobs.as_array().into_iter().flatten().find(|job| job["id"] == "copy");
        if let Some(reason) = job.and_then(|job| job.get("error")).and_then(Value::as_str) {
            return Err(VmError::Pair { operation: "copy the disk", reason: reason.to_owned() });
        }
        if wanted(job.and_then(|job| job["status"].as_str())) {
            return Ok(());
        }
        if started.elapsed() > COPY_WITHIN {
            let reason = format!("not done within {} s", COPY_WITHIN.as_secs());
            return Err(VmError::Pair { operation: "copy the disk", reason });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Takes the primary's end of the replication away; what isn't there is no error.
pub(super) fn part(primary: &Replica) {
    let child = json!({ "parent": DISK, "child": "children.1" });
    // Of a copy that was never joined.
    if primary.execute("block-job-cancel", json!({ "device": "copy", "force": true })).is_ok() {
        let _ = wait_for_job(primary, |state| state.is_none());
    }
    // Of a replication that never got that far there is nothing to take away.
    let _ = primary.execute("x-blockdev-change", child);
    let _ = primary.execute("blockdev-del", json!({ "node-name": SENDER }));
    let _ = primary.execute("blockdev-del", json!({ "node-name": "copytarget" }));
}

/// Lets the secondary's copy become its own disk.
pub(super) fn take_over(secondary: &Replica) {
    // The primary that was connected is dead; an error changes nothing.
    let _ = secondary.execute("nbd-server-stop", Value::Null);
}
