//! A star of many nodes around one switch: how long the lab takes for N nodes.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

use rustix::pipe::{PipeFlags, pipe_with};
use serde::{Deserialize, Serialize};
use vtax_lab::{
    Isolation, Lab, LabError, LabOptions, LinkProperties, Node, NodeSpec, configure_from_outside,
};
use vtax_sys::cgroup::{RunGroups, sweep};
use vtax_sys::controller::ControllerOptions;
use vtax_sys::sync::joined;
use vtax_sys::{SysError, sched};

use crate::{Result, While};

/// How long a star took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StarTimes {
    /// Nodes around the switch.
    pub nodes: usize,
    /// Seconds until every node had its agent and its address.
    pub up_seconds: f64,
    /// Seconds until all of it was gone again.
    pub down_seconds: f64,
}

/// Builds and takes down a star of `count` native nodes with agents, cables and addresses.
///
/// # Errors
///
/// Where something is refused; more than 1,023 nodes are too many for one switch.
pub fn time_star(lab: &mut Lab, count: usize) -> Result<StarTimes> {
    let start = Instant::now();
    let mut fabric = lab.fabric()?;
    let mut switch = fabric.add_switch(1500)?;
    let specs: Vec<NodeSpec> = (0..count).map(|i| NodeSpec::new(format!("n{i}"))).collect();
    let mut nodes = add_nodes(lab, &specs)?;
    fabric.plug_all(&mut nodes, &mut switch, LinkProperties::default())?;
    configure_from_outside(&nodes.iter().collect::<Vec<_>>())?;
    fabric.start(&switch)?;
    let up_seconds = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let mut errors: Vec<LabError> = Vec::new();
    // The cables first: one deletion for all of them, instead of one for each namespace that ends.
    errors.extend(fabric.destroy().err());
    // All at once, so that one dies while the next is waited for.
    nodes.iter().for_each(Node::kill);
    errors.extend(nodes.iter_mut().flat_map(Node::destroy));
    errors.into_iter().next().map_or(Ok(()), Err)?;
    Ok(StarTimes { nodes: count, up_seconds, down_seconds: start.elapsed().as_secs_f64() })
}

/// Builds many native nodes, several at a time. The first error ends it, and with it the nodes that were built.
fn add_nodes(lab: &Lab, specs: &[NodeSpec]) -> Result<Vec<Node>> {
    let workers = sched::allowed_cpus().map_or(1, |c| c.len()).clamp(1, 8);
    let share = specs.len().div_ceil(workers).max(1);
    let build = |part: &[NodeSpec]| part.iter().map(|s| lab.add_native_node(s)).collect::<Result<Vec<_>>>();
    let parts: Vec<Result<Vec<Node>>> = std::thread::scope(|scope| {
        let running: Vec<_> = specs.chunks(share).map(|part| scope.spawn(move || build(part))).collect();
        running.into_iter().map(joined).collect()
    });
    let mut nodes = Vec::with_capacity(specs.len());
    for part in parts {
        nodes.extend(part?);
    }
    Ok(nodes)
}

/// Times a star in a run of its own: control groups, controller, lab, and every node up; then the
/// time to take the star down. `agent` is the vtax program. Call
/// it from a process with one thread.
///
/// # Errors
///
/// Where the controller can't be started or the star can't be built.
pub fn measure_star(agent: &Path, count: usize) -> Result<StarTimes> {
    let what = || format!("time a star of {count} nodes");
    let (read, write) =
        pipe_with(PipeFlags::CLOEXEC).map_err(|e| SysError::call("open", "pipe", e)).during(what)?;
    let start = Instant::now();
    // As every run does before its controller starts.
    sweep().during(what)?;
    let mut groups = RunGroups::of_this_process();
    let keeper = groups.make().during(what)?;
    let mut options = LabOptions::new(Isolation::Namespaces);
    options.groups = Some(groups.clone());
    // Held open: a node has a `/tmp` of its own, and the program may lie there.
    let open = File::open(agent).map_err(|e| SysError::call("open", agent.display().to_string(), e));
    let program = open.during(what)?;
    options.agent_program = format!("/proc/self/fd/{}", program.as_raw_fd()).into();
    let controller = keeper.start_controller(ControllerOptions::for_this_process(), move |_| {
        let _held = &program;
        let timed = Lab::new(options).and_then(|mut lab| {
            let before = start.elapsed().as_secs_f64();
            let times = time_star(&mut lab, count)?;
            Ok(StarTimes { up_seconds: before + times.up_seconds, ..times })
        });
        let text = match &timed {
            Ok(times) => serde_json::to_string(times).unwrap_or_default(),
            Err(e) => vtax_sys::chain(e),
        };
        let written = std::io::Write::write_all(&mut File::from(write), text.as_bytes());
        u8::from(timed.is_err() || written.is_err())
    });
    let mut text = String::new();
    let ended = controller.and_then(|controller| {
        // An answer cut short is no answer.
        let _ = File::from(read).read_to_string(&mut text);
        controller.wait()
    });
    groups.finish(keeper).during(what)?;
    ended.during(what)?;
    serde_json::from_str(&text)
        .map_err(|_| SysError::Unexpected { operation: "build a star", what: text })
        .during(what)
}
