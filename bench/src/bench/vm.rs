//! How long a guest needs to become a node, beside what its kernel alone needs.
//!
//! The peer is the same QEMU with the same kernel, machine and command line, but with nothing in
//! its initrd except a program of 200 bytes that says it runs. So the ratio is what vtax adds:
//! devices, modules, the host's root, its own start and the agent's first answer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use vtax_agent::Client;
use vtax_units::{Bytes, CpuSet};
use vtax_vm::{GuestTemplate, GuestTemplateOptions, Vm, VmConfig, accel};

use crate::place::vtax;
use crate::program::median;
use crate::sheet::{Row, Sheet};

/// Pairs of boots; the two of a pair follow each other, so that a busy host slows both.
const PAIRS: usize = 5;
const GOAL: f64 = 1.5;
const PATIENCE: Duration = Duration::from_secs(60);

/// The rows of this bench.
pub(crate) fn rows(sheet: &mut Sheet) -> Result<()> {
    let init = vtax();
    ensure!(init.exists(), "{} is missing; run `make build`", init.display());
    let template = GuestTemplate::prepare(&GuestTemplateOptions { init, ..GuestTemplateOptions::of_user() })?;
    let mut bare = Vec::new();
    let mut ready = Vec::new();
    for _ in 0..PAIRS {
        let time = accel::boot_bare(template.qemu(), template.kernel(), template.accelerator())?;
        bare.push(time.map_err(|reason| anyhow!("bare kernel: {reason}"))?.as_secs_f64());
        ready.push(boot_to_ready(&template)?);
    }
    let (ours, peer) = (median(ready), median(bare));
    let ratio = ours / peer;
    sheet.add(Row {
        name: format!("guest ready / bare kernel at init ({})", template.accelerator()),
        ours,
        peer: Some(peer),
        unit: "s".to_owned(),
        ratio: Some(ratio),
        goal: format!("<= {GOAL}"),
        ok: ratio <= GOAL,
    })
}

/// Seconds from QEMU's start to the agent's answer.
fn boot_to_ready(template: &GuestTemplate) -> Result<f64> {
    let config = VmConfig {
        name: "bench".to_owned(),
        memory: Bytes::from_mib(256),
        vcpus: 1,
        nics: Vec::new(),
        cpus: CpuSet::default(),
        control_groups: Vec::new(),
        root: PathBuf::from("/"),
        disk: None,
        memory_file: None,
        balloon: false,
    };
    let started = Instant::now();
    let vm = Vm::start(template, config)?;
    let stream = vm.agent_stream()?;
    let client = Client::start("bench", stream.try_clone()?.into(), stream.into(), Box::new(|_| {}))?;
    client.hello(PATIENCE).with_context(|| vm.failure("its agent did not answer"))?;
    let seconds = started.elapsed().as_secs_f64();
    vm.quit();
    Ok(seconds)
}
