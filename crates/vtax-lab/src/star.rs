//! A star of many nodes around one switch: how long the lab takes for N nodes.

use std::time::Instant;

use serde::Serialize;

use crate::error::{LabError, Result};
use crate::fabric::configure_from_outside;
use crate::lab::{Lab, NodeSpec};
use crate::node::Node;
use crate::shape::Shape;

/// How long a star took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
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
    let mut nodes = lab.add_native_nodes(&specs)?;
    fabric.plug_all(&mut nodes, &mut switch, Shape::default())?;
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
