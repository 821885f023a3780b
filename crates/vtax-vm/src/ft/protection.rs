//! Arming a running guest, letting the second go live, and going on alone.
//!
//! All by QMP on QEMU as it is (`docs/COLO-FT.txt` of QEMU): the migration stream of COLO makes a
//! checkpoint at a time. For [`Mode::Kemari`] and [`Mode::Remus`] nothing is compared: the comparer serves
//! only as the buffer that holds the guest's packets back until the checkpoint that contains their cause is
//! committed.
//!
//! In these two modes the second guest must not run, and QEMU starts it after each checkpoint: so it is
//! stopped again at once, and no checkpoint begins before it stands still ([`Gate`]). What it would do is thrown away by
//! the next checkpoint and takes CPU time, and now and then its memory and its registers were of two moments after
//! the third: its kernel panicked, and the guest was protected no more (`docs/fault-tolerance.md`).

use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use vtax_units::Nanos;

use super::gate::{self, Gate};
use super::replica::Replica;
use super::replication;
use crate::error::{Result, VmError};
use crate::qmp::Holder;

/// How a pair's state is kept the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A checkpoint whenever the guest has said something, which is held back until then.
    Kemari,
    /// A checkpoint at fixed intervals; what the guest says waits for the next.
    Remus {
        /// Time between two checkpoints.
        interval: Nanos,
    },
    /// Both guests run; a checkpoint where they say different things. Experimental: of 46 random kills
    /// one lost its connections.
    Colo,
}

impl Mode {
    /// Its name in plans and reports.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kemari => "kemari",
            Self::Remus { .. } => "remus",
            Self::Colo => "colo",
        }
    }

    /// Whether the second guest runs as well. One that must not is stopped whenever QEMU starts it, for which its events may not wait
    /// ([`crate::Vm::set_patient`]).
    #[must_use]
    pub const fn runs_both(self) -> bool {
        matches!(self, Self::Colo)
    }

    /// Milliseconds after which a checkpoint is made in any case.
    fn delay_ms(self) -> u64 {
        match self {
            Self::Kemari => 1000,
            Self::Remus { interval } => (interval.0 / 1_000_000).max(1),
            Self::Colo => 2000,
        }
    }
}

/// The connected streams between the two hosts.
#[derive(Debug)]
pub struct Links {
    /// For checkpoints: the primary's end and the secondary's.
    pub checkpoints: (OwnedFd, OwnedFd),
    /// Where the secondary's host can be reached for disk writes, where there is a disk.
    pub disk: Option<SocketAddr>,
    /// For packets in both directions ([`Mode::Colo`] only): to the secondary, and from it.
    pub packets: Option<[(OwnedFd, OwnedFd); 2]>,
}

/// How long the first copy of the guest may take.
const ARM_WITHIN: Duration = Duration::from_secs(30);
/// How long the secondary may take to load the last checkpoint and go live.
pub(super) const LIVE_WITHIN: Duration = Duration::from_secs(10);
/// How long the guest may stand still at the end of a copy, in milliseconds, as far as QEMU can tell.
pub(super) const STILL_MS: u64 = 20;
/// Where a guest changes its memory faster than that allows, it may stand still for longer after this time.
pub(super) const IMPATIENT_AFTER: Duration = Duration::from_secs(5);
pub(super) const IMPATIENT_MS: u64 = 1000;
const PAUSE: Duration = Duration::from_millis(2);
/// QEMU's default limits a stream to 1 Gbit/s; the link's own rate is limit enough.
pub(super) const UNLIMITED: u64 = 4 << 30;

/// Longer than an end of the checkpoints can take, in milliseconds.
const NEVER_MS: u32 = 3_600_000;
/// The primary's objects that lead packets to the comparer: deleted first, so that it is idle when it goes. Its thread reads
/// packets without a lock, and must not while another deletes it.
const FEEDERS: [&str; 2] = ["redire1", "m0"];
/// The others: what deletes them deletes them in this order. What the comparer still holds leaves by the last one.
const OBJECTS: [&str; 3] = ["comp0", "iothread1", "redire0"];
/// The primary's character devices.
const STREAMS: [&str; 7] =
    ["mirror0", "compare1", "compare0", "compare0-0", "compare_out", "compare_out0", "waits0"];

/// Arms a running primary with a secondary that waits, and returns when the copy is complete: the time that took. The
/// guest runs while it is copied, and only at the end stands still: what it says from then on waits for a checkpoint.
///
/// # Errors
///
/// [`VmError::Pair`] or [`VmError::Qmp`]; the primary is left as it was, the secondary is of no use any more.
pub fn protect(primary: &Replica, secondary: &Replica, mode: Mode, links: &Links) -> Result<Nanos> {
    let started = Instant::now();
    let armed = arm(primary, secondary, mode, links);
    if armed.is_err() {
        drop_protection(primary);
    }
    armed.map(|()| started.elapsed().into())
}

fn arm(primary: &Replica, secondary: &Replica, mode: Mode, links: &Links) -> Result<()> {
    let gate = (!mode.runs_both()).then(|| Gate::new(primary.orders(), gate::delay(mode.delay_ms())));
    primary.set_gate(gate.clone());
    secondary.set_holder(gate.clone().map(|gate| gate as Arc<dyn Holder>));
    set_capabilities(primary, true)?;
    set_capabilities(secondary, true)?;
    pause_before_switchover(primary)?;
    let mut parameters = gate::delay(mode.delay_ms());
    parameters["max-bandwidth"] = json!(UNLIMITED);
    parameters["downtime-limit"] = json!(STILL_MS);
    primary.execute("migrate-set-parameters", parameters)?;
    if let (Mode::Colo, Some([to, from])) = (mode, &links.packets) {
        add_secondary_filters(secondary, &to.1, &from.1)?;
    }
    let (to, from) = match (mode, &links.packets) {
        (Mode::Colo, Some([to, from])) => (Some(&to.0), Some(&from.0)),
        _ => (None, None),
    };
    add_comparer(primary, mode, gate.as_ref(), [to, from])?;
    let disk = links.disk.map(|address| replication::copy(primary, secondary, address)).transpose()?;
    listen(secondary, &links.checkpoints.1)?;
    connect(primary, &links.checkpoints.0)?;
    wait_for_status(primary, secondary, "pre-switchover")?;
    // The guest stands still until it is told to go on below.
    if let Some(disk) = disk {
        replication::join(primary, disk)?;
    }
    hold_packets_back(primary, mode)?;
    primary.execute("migrate-continue", json!({ "state": "pre-switchover" }))?;
    wait_for_status(primary, secondary, "colo")?;
    if let Some(gate) = gate {
        gate.begin();
    }
    Ok(())
}

/// The next migration stops the guest before its end, and waits to be told to go on.
fn pause_before_switchover(source: &Replica) -> Result<()> {
    let pause = json!([{ "capability": "pause-before-switchover", "state": true }]);
    source.execute("migrate-set-capabilities", json!({ "capabilities": pause })).map(drop)
}

fn set_capabilities(replica: &Replica, colo: bool) -> Result<()> {
    let state = |name: &str, on: bool| json!({ "capability": name, "state": on });
    let capabilities = [state("return-path", true), state("x-colo", colo)];
    replica.execute("migrate-set-capabilities", json!({ "capabilities": capabilities })).map(drop)
}

/// A migration to a QEMU that doesn't answer, or to none.
pub(super) fn set_plain(replica: &Replica) -> Result<()> {
    let off = |name: &str| json!({ "capability": name, "state": false });
    let capabilities = [off("return-path"), off("x-colo"), off("pause-before-switchover")];
    replica.execute("migrate-set-capabilities", json!({ "capabilities": capabilities })).map(drop)
}

pub(super) fn listen(secondary: &Replica, stream: &OwnedFd) -> Result<()> {
    secondary.pass("link", stream)?;
    secondary.execute("migrate-incoming", json!({ "uri": "fd:link" })).map(drop)
}

pub(super) fn connect(primary: &Replica, stream: &OwnedFd) -> Result<()> {
    primary.pass("link", stream)?;
    primary.execute("migrate", json!({ "uri": "fd:link" })).map(drop)
}

fn wait_for_status(primary: &Replica, secondary: &Replica, wanted: &'static str) -> Result<()> {
    let started = Instant::now();
    let mut patient = true;
    loop {
        if patient && started.elapsed() > IMPATIENT_AFTER {
            patient = false;
            primary.execute("migrate-set-parameters", json!({ "downtime-limit": IMPATIENT_MS }))?;
        }
        let answer = primary.execute("query-migrate", Value::Null)?;
        let status = answer.get("status").and_then(Value::as_str).unwrap_or("none");
        if status == wanted {
            return Ok(());
        }
        let late = started.elapsed() > ARM_WITHIN;
        if late
            || matches!(status, "failed" | "cancelled" | "completed")
            || secondary.ended_within(Duration::ZERO)
        {
            let why = answer.get("error-desc").and_then(Value::as_str).unwrap_or("no reason given");
            let reason = if secondary.ended_within(Duration::ZERO) {
                secondary.failure("ended").to_string()
            } else {
                format!(
                    "migration is {status:?} instead of {wanted:?} after {:.1} s: {why}",
                    started.elapsed().as_secs_f64()
                )
            };
            return Err(VmError::Pair { operation: "copy the guest to the other host", reason });
        }
        std::thread::sleep(PAUSE);
    }
}

/// A character device that is an end of a stream we made.
fn add_stream(replica: &Replica, id: &str, stream: &OwnedFd) -> Result<()> {
    replica.pass(id, stream)?;
    let address = json!({ "type": "fd", "data": { "str": id } });
    let backend = json!({ "type": "socket", "data": { "addr": address, "server": false } });
    replica.execute("chardev-add", json!({ "id": id, "backend": backend })).map(drop)
}

/// Two character devices of one QEMU that are joined.
fn add_loop(replica: &Replica, ids: [&str; 2]) -> Result<()> {
    let (one, other) = UnixStream::pair().map_err(VmError::io("create", "socket"))?;
    add_stream(replica, ids[0], &one.into())?;
    add_stream(replica, ids[1], &other.into())
}

fn add_object(replica: &Replica, object: Value) -> Result<()> {
    replica.execute("object-add", object).map(drop)
}

/// Everything that holds packets back but what leads them there. `streams` are those to the secondary and from it, where
/// that runs.
fn add_comparer(
    primary: &Replica,
    mode: Mode,
    gate: Option<&Arc<Gate>>,
    [mirror, from_secondary]: [Option<&OwnedFd>; 2],
) -> Result<()> {
    match from_secondary {
        Some(stream) => add_stream(primary, "compare1", stream)?,
        // Nothing ever comes from a secondary that doesn't run.
        None => {
            let (silent, other) = UnixStream::pair().map_err(VmError::io("create", "socket"))?;
            add_stream(primary, "compare1", &silent.into())?;
            drop(other);
        }
    }
    add_loop(primary, ["compare0", "compare0-0"])?;
    add_loop(primary, ["compare_out", "compare_out0"])?;
    if let Some(stream) = mirror {
        add_stream(primary, "mirror0", stream)?;
    }
    add_object(primary, json!({ "qom-type": "iothread", "id": "iothread1" }))?;
    let mut compare = json!({
        "qom-type": "colo-compare", "id": "comp0", "iothread": "iothread1",
        "primary_in": "compare0-0", "secondary_in": "compare1", "outdev": "compare_out0",
    });
    if let (Mode::Kemari, Some(gate)) = (mode, gate) {
        // A packet that has waited for 1 ms asks for a checkpoint; every 2 ms that is looked at.
        compare["compare_timeout"] = json!(1);
        compare["expired_scan_cycle"] = json!(2);
        // It asks here, not QEMU itself.
        let (waits, theirs) = UnixStream::pair().map_err(VmError::io("create", "socket"))?;
        add_stream(primary, "waits0", &theirs.into())?;
        compare["notify_dev"] = json!("waits0");
        gate.listen(waits)?;
    }
    add_object(primary, compare)
}

/// From now on the guest's packets go through the comparer, and what comes for it to the secondary too, where that runs.
fn hold_packets_back(primary: &Replica, mode: Mode) -> Result<()> {
    if mode == Mode::Colo {
        let mirror = json!({ "qom-type": "filter-mirror", "id": "m0", "netdev": "net0", "queue": "tx", "outdev": "mirror0" });
        add_object(primary, mirror)?;
    }
    let redirector = |id: &str, key: &str, device: &str| json!({ "qom-type": "filter-redirector", "id": id, "netdev": "net0", "queue": "rx", key: device });
    add_object(primary, redirector("redire0", "indev", "compare_out"))?;
    add_object(primary, redirector("redire1", "outdev", "compare0"))
}

fn add_secondary_filters(secondary: &Replica, from_primary: &OwnedFd, to_primary: &OwnedFd) -> Result<()> {
    add_stream(secondary, "red0", from_primary)?;
    add_stream(secondary, "red1", to_primary)?;
    let redirector = |id: &str, queue: &str, key: &str, device: &str| json!({ "qom-type": "filter-redirector", "id": id, "netdev": "net0", "queue": queue, key: device });
    add_object(secondary, redirector("f1", "tx", "indev", "red0"))?;
    add_object(secondary, redirector("f2", "rx", "outdev", "red1"))?;
    add_object(
        secondary,
        json!({ "qom-type": "filter-rewriter", "id": "rew0", "netdev": "net0", "queue": "all" }),
    )
}

/// Has a primary go on alone: ends the checkpoints, lets waiting packets go, and takes away what arming
/// put there. What isn't there is no error: the secondary may have died at any moment.
pub fn drop_protection(primary: &Replica) {
    primary.set_gate(None);
    let left = primary.migration_status().is_ok_and(|status| status == "colo");
    if left {
        // The checkpoints' thread frees its timer as it ends, and looks at nobody who uses it then: QEMU was seen to crash here.
        // So it doesn't fire any more, and no packet whose time is over sets it; what waits is let go with the end.
        let _ = primary.execute("migrate-set-parameters", gate::delay(NEVER_MS.into()));
        let quiet = json!({ "path": "/objects/comp0", "property": "compare_timeout", "value": NEVER_MS });
        let _ = primary.execute("qom-set", quiet);
        // Refused where QEMU noticed the other's end by itself.
        let _ = primary.execute("x-colo-lost-heartbeat", Value::Null);
    } else {
        let _ = primary.execute("migrate_cancel", Value::Null);
    }
    let until = Instant::now() + LIVE_WITHIN;
    while Instant::now() < until {
        match primary.migration_status().as_deref() {
            Ok("colo" | "active" | "setup" | "cancelling" | "device") => std::thread::sleep(PAUSE),
            _ => break,
        }
    }
    replication::part(primary);
    let delete = |object: &str| drop(primary.execute("object-del", json!({ "id": object })));
    FEEDERS.into_iter().for_each(delete);
    std::thread::sleep(PAUSE);
    OBJECTS.into_iter().for_each(delete);
    for stream in STREAMS {
        let _ = primary.execute("chardev-remove", json!({ "id": stream }));
    }
    if primary.is_running().is_ok_and(|running| !running) {
        let _ = primary.execute("cont", Value::Null);
    }
}

/// Lets the secondary go live from the last committed checkpoint. The primary must be known to be dead.
///
/// # Errors
///
/// [`VmError::Pair`] where its guest doesn't run in time.
pub fn promote(secondary: &Replica) -> Result<()> {
    replication::take_over(secondary);
    secondary.set_holder(None);
    secondary.execute("x-colo-lost-heartbeat", Value::Null)?;
    let until = Instant::now() + LIVE_WITHIN;
    while !secondary.is_running()? {
        if Instant::now() > until {
            let reason = secondary.failure(format!("it does not run within {} s", LIVE_WITHIN.as_secs()));
            return Err(VmError::Pair { operation: "go live", reason: reason.to_string() });
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    for object in ["f2", "f1"] {
        let _ = secondary.execute("object-del", json!({ "id": object }));
    }
    for stream in ["red1", "red0"] {
        let _ = secondary.execute("chardev-remove", json!({ "id": stream }));
    }
    announce(secondary);
    Ok(())
}

/// Has the guest's card say where it is now, several times in case a packet is lost.
pub(super) fn announce(replica: &Replica) {
    let times = json!({ "initial": 50, "max": 550, "rounds": 3, "step": 100 });
    // The switch learns the place from the guest's next packet as well.
    let _ = replica.execute("announce-self", times);
}

/// Moves a running guest to a waiting replica while it runs (live migration), and returns once it runs
/// there. `source_stopped` is called at the moment when the guest runs nowhere; where that fails, the guest
/// stays.
///
/// # Errors
///
/// [`VmError::Pair`] where it doesn't get there; the source then runs on.
pub fn hand_over(
    source: &Replica,
    target: &Replica,
    streams: &(OwnedFd, OwnedFd),
    source_stopped: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let moved = move_to(source, target, streams, source_stopped);
    match &moved {
        Ok(()) => announce(target),
        Err(_) => {
            // Refused where it didn't get that far.
            let _ = source.execute("migrate_cancel", Value::Null);
            let until = Instant::now() + LIVE_WITHIN;
            while source.migration_status().is_ok_and(|s| s == "cancelling") && Instant::now() < until {
                std::thread::sleep(PAUSE);
            }
            let _ = set_plain(source);
            if source.is_running().is_ok_and(|running| !running) {
                let _ = source.execute("cont", Value::Null);
            }
        }
    }
    moved
}

fn move_to(
    source: &Replica,
    target: &Replica,
    streams: &(OwnedFd, OwnedFd),
    source_stopped: impl FnOnce() -> Result<()>,
) -> Result<()> {
    set_capabilities(source, false)?;
    set_capabilities(target, false)?;
    pause_before_switchover(source)?;
    source.execute(
        "migrate-set-parameters",
        json!({ "max-bandwidth": UNLIMITED, "downtime-limit": STILL_MS }),
    )?;
    listen(target, &streams.1)?;
    connect(source, &streams.0)?;
    wait_for_status(source, target, "pre-switchover")?;
    source_stopped()?;
    source.execute("migrate-continue", json!({ "state": "pre-switchover" }))?;
    wait_for_status(source, target, "completed")?;
    let until = Instant::now() + LIVE_WITHIN;
    while !target.is_running()? {
        if Instant::now() > until {
            let reason = target.failure("the guest arrived but does not run").to_string();
            return Err(VmError::Pair { operation: "hand over", reason });
        }
        std::thread::sleep(PAUSE);
    }
    set_plain(target)
}

/// Asks for a checkpoint that begins as soon as one may.
///
/// # Errors
///
/// [`VmError::Qmp`].
pub fn checkpoint_now(primary: &Replica, mode: Mode) -> Result<()> {
    match primary.gate() {
        Some(gate) => {
            gate.demand();
            Ok(())
        }
        None => primary.execute("migrate-set-parameters", gate::delay(mode.delay_ms())).map(drop),
    }
}
