//! Which QEMU keeps pairs on this host, found out by keeping one.

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};
use vtax_sys::chain;
use vtax_sys::check::{Check, name};
use vtax_sys::controller::{ControllerOptions, start_controller};
use vtax_units::Bytes;
use vtax_vm::ft::{Mode, PairQemu, choose};
use vtax_vm::{Cache, GuestKernel, GuestRoot, GuestTemplate, GuestTemplateOptions, Qemu, VmError};

use crate::error::Result;
use crate::fabric::configure_from_outside;
use crate::ft::witness::Questioner;
use crate::ft::{PairEventKind, PairMode, PairSpec, PairTask, Side};
use crate::lab::{Isolation, Lab, LabOptions};
use crate::link::LinkProperties;
use crate::spec::NodeSpec;

/// How long the whole proof may take before the QEMU counts as one that hangs.
const PROOF_WITHIN: Duration = Duration::from_secs(60);
/// How long the guest may need to answer again after the kill.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// Enough for a kernel, the counter and this program with its symbols, which is unpacked into it; less
/// memory is copied faster.
const MEMORY: Bytes = Bytes::from_mib(256);

/// The QEMU that keeps pairs: the installed one where it passes a test, else the private copy where
/// that does. The test takes some seconds and is made once for each QEMU and kernel: a guest is armed,
/// its host is killed, and the counter in its memory and the connection to it must go on. Call it before
/// this process starts its first thread.
///
/// # Errors
///
/// [`VmError::NoPairQemu`] with the reason for each that was looked at, [`VmError::NoKernel`].
pub fn choose_qemu(cache: &Cache, refresh: bool) -> Result<PairQemu, VmError> {
    choose_qemu_as(cache, refresh, &own_program())
}

/// This program, as its guests' `/init`, its agents and its heartbeats.
fn own_program() -> PathBuf {
    PathBuf::from("/proc/self/exe")
}

/// As [`choose_qemu`], for a program that isn't vtax: `program` is.
///
/// # Errors
///
/// As [`choose_qemu`].
pub fn choose_qemu_as(cache: &Cache, refresh: bool, program: &Path) -> Result<PairQemu, VmError> {
    let kernel = GuestKernel::find(cache)?;
    choose(cache, &kernel, refresh, |qemu| prove(cache, qemu, program))
}

/// What `vtax doctor` says about fault-tolerant pairs. Call it before this process starts its first
/// thread.
#[must_use]
pub fn check(cache: &Cache, refresh: bool) -> Check {
    const NAME: &str = name::FAULT_TOLERANT_PAIRS;
    match choose_qemu(cache, refresh) {
        Ok(found) => Check::ok(NAME, format!("{}; a killed guest went on elsewhere", found.line())),
        // Of a plan with such pairs no virtual machine is measured.
        Err(e) => Check::missing(NAME, chain(&e), "vtax setup (plans without fault tolerance don't need it)"),
    }
}

/// Keeps a pair on this QEMU and kills one side.
fn prove(cache: &Cache, qemu: &Qemu, program: &Path) -> Result<(), String> {
    fn words(error: &(dyn std::error::Error + 'static)) -> String {
        chain(error)
    }
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| words(&e))?;
    let options = GuestTemplateOptions {
        cache: cache.clone(),
        init: program.to_owned(),
        refresh: false,
        root: GuestRoot::Nothing,
        qemu: Some(qemu.clone()),
        modules: Vec::new(),
    };
    let template = Arc::new(GuestTemplate::prepare(&options).map_err(|e| words(&e))?);
    let program = program.to_owned();
    let controller = start_controller(ControllerOptions::for_this_process(), move |inside| {
        // An interrupt of the front process ends everything.
        let _ = inside.end_with_front();
        let outcome = survive(template, program);
        let text = outcome.as_ref().err().map(|e| chain(e)).unwrap_or_default();
        let written = std::fs::File::from(write).write_all(text.as_bytes());
        u8::from(outcome.is_err() || written.is_err())
    });
    let controller = controller.map_err(|e| words(&e))?;
    if !controller.pidfd().ended_within(PROOF_WITHIN).map_err(|e| words(&e))? {
        controller.pidfd().kill().map_err(|e| words(&e))?;
        let _ = controller.wait();
        return Err(format!("nothing went on within {} s", PROOF_WITHIN.as_secs()));
    }
    let mut text = String::new();
    // An answer that was cut short is an answer all the same.
    let _ = std::fs::File::from(read).read_to_string(&mut text);
    match controller.wait().map_err(|e| words(&e))? {
        ended if ended.success() => Ok(()),
        ended if text.is_empty() => Err(ended.to_string()),
        _ => Err(text),
    }
}

fn survive(template: Arc<GuestTemplate>, program: PathBuf) -> Result<()> {
    let mut options = LabOptions::new(Isolation::Namespaces);
    options.guest_template = Some(template);
    options.agent_program = program;
    let mut lab = Lab::new(options)?;
    let mut fabric = lab.fabric()?;
    let mut switch = fabric.add_switch(1500)?;
    let mut client = lab.add_native_node(&NodeSpec::new("client"))?;
    fabric.plug(&mut client, &mut switch, LinkProperties::default())?;
    configure_from_outside(&[&client])?;
    fabric.start(&switch)?;
    let mut spec = PairSpec::new("proof", PairMode::Checkpoints(Mode::Kemari), PairTask::Witness);
    spec.memory = MEMORY;
    let pair = lab.add_pair(&mut fabric, &mut switch, spec)?;
    let Some(netns) = client.netns() else { return Ok(()) };
    let questioner = Questioner::start(netns, pair.address(), "proof")?;
    pair.arm()?;
    questioner.wait_answers(20, ANSWER_WITHIN)?;
    pair.kill_host(Side::Primary)?;
    let killed = Instant::now();
    pair.wait_for(ANSWER_WITHIN, |events, _| {
        events.iter().any(|e| matches!(e.kind, PairEventKind::Promoted { .. })).then_some(())
    });
    while questioner.first_after(killed).is_none() && killed.elapsed() < ANSWER_WITHIN {
        std::thread::sleep(Duration::from_millis(1));
    }
    questioner.wait_answers(20, ANSWER_WITHIN)?;
    questioner.finish().map(drop)
}
