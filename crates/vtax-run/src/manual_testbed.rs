//! Testbeds to work in by hand: one stands until it is taken down.

use std::net::SocketAddr;
use std::sync::Arc;

use vtax_agent::message::{InterfaceSetup, Provisioning, ServiceId};
use vtax_agent::{AgentError, Client};
use vtax_lab::{Lab, LabError, Node, NodeSpec, PathSwitch, Testbed, TestbedSpec};
use vtax_plan::model::{Cell, Plan, ServiceKind};
use vtax_router::{CommandOutcome, Raised};
use vtax_sys::chain;
use vtax_topology::Blueprint;
use vtax_topology::event::Event;
use vtax_units::Nanos;

use crate::guests::loses_packets;
use crate::instrument::BOOT_WITHIN;
use crate::member::name;
use crate::observe::{Observer, RunEvent};
use crate::stop::Stop;
use crate::systems;
use crate::trial::enders;

/// How long routers have to agree.
const PATIENCE: Nanos = Nanos::from_secs(120);
/// Name of the node that holds a containerlab file's nodes.
const HOLDER: &str = "routers";
/// What is told when routers, and what else stands between the ends, are started.
const RAISING: &str = "building the topology, until its routers agree";
/// What the path between client and system under test is called where it is cut.
const PATH: &str = "path";

/// A testbed to work in by hand, with its agents.
pub struct ManualTestbed {
    handle: Arc<TestbedHandle>,
    nodes: Nodes,
}

/// What can be done in such a testbed, from any thread.
pub struct TestbedHandle {
    /// Name and agent of each node of the testbed; that of the routers is asked for all that is inside.
    agents: Vec<(String, Client)>,
    /// Which of them holds routers, and what is inside.
    holder: Option<(usize, Blueprint)>,
    /// What cuts the path at the client's end, where there is one.
    path: Option<PathSwitch>,
}

/// A testbed that was built, and what there is to say about it.
pub struct BuiltManualTestbed {
    /// The testbed.
    pub testbed: ManualTestbed,
    /// What there is to say about its routers, where it has any.
    pub raised: Option<Raised>,
    /// Where the services of its systems under test listen, by the systems' names, where they were asked for.
    pub services: Vec<(String, SocketAddr)>,
}

/// The nodes that are taken down.
enum Nodes {
    Holder(Box<Node>),
    Testbed(Box<Testbed>),
}

/// Why none can be had.
#[derive(Debug, thiserror::Error)]
pub enum ManualTestbedError {
    /// It could not be built.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// An agent refused something, or is gone.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// There is no such node, or what was asked for makes no sense.
    #[error("{0}")]
    Unknown(String),
}

fn talk(node: &mut Node) -> Result<Client, ManualTestbedError> {
    let name = node.name().to_owned();
    let failed = |why: &str| ManualTestbedError::Unknown(format!("node {name}: {why}"));
    let read = node.take_channel().ok_or_else(|| failed("no stream to its agent"))?;
    let write = read.try_clone().map_err(|e| failed(&e.to_string()))?;
    let mut client = Client::start(&name, read, write, Box::new(|_| {}))?;
    if !node.is_here() {
        client.renew_lease()?;
    }
    Ok(client)
}

fn greet(agent: &Client, interfaces: Option<&[InterfaceSetup]>) -> Result<(), AgentError> {
    agent.hello(BOOT_WITHIN)?;
    interfaces.map_or(Ok(()), |interfaces| agent.configure_network(interfaces.to_vec()).map(drop))
}

/// Starts the services of a cell, whose systems' agents come first; the node of each that has a server, and where that listens.
fn serve(
    agents: &[(String, Client)],
    testbed: &Testbed,
    cell: &Cell,
    provisioning: &Provisioning,
) -> Result<Vec<(String, SocketAddr)>, AgentError> {
    let mut listening = Vec::new();
    for (number, (((name, agent), sut), service)) in
        agents.iter().zip(&testbed.suts).zip(cell.services()).enumerate()
    {
        // A disk has no server.
        if matches!(service.kind, ServiceKind::Disk(_)) {
            continue;
        }
        let disk = sut.node.disk().map(|disk| disk.path().to_owned());
        let provisioning = Provisioning { disk, ..provisioning.clone() };
        let ready = agent.start_service(ServiceId::ONLY, service, sut.service_address, &provisioning)?;
        listening.push((name.clone(), testbed.reached_at(number, ready.address)));
    }
    Ok(listening)
}

impl ManualTestbed {
    /// Everything of a blueprint in one node of the host's. It is given up where `stop` is asked meanwhile.
    ///
    /// # Errors
    ///
    /// Where something is refused or missing; what was built until then is taken down.
    pub fn of_blueprint(
        lab: &Lab,
        blueprint: Blueprint,
        stop: &Stop,
        observer: &dyn Observer,
    ) -> Result<(Self, Raised), ManualTestbedError> {
        let mut node = lab.add_native_node(&NodeSpec::new(HOLDER))?;
        stop.watch(node.ender().into_iter().collect());
        let agent = talk(&mut node)?;
        greet(&agent, Some(&[]))?;
        observer.observe(&RunEvent::Phase { what: RAISING });
        let raised = agent.raise_topology(blueprint.clone(), Vec::new(), PATIENCE, None)?;
        // What stands is taken down in order by who holds it.
        stop.watch(Vec::new());
        let agents = vec![(HOLDER.to_owned(), agent)];
        let handle = Arc::new(TestbedHandle { agents, holder: Some((0, blueprint)), path: None });
        Ok((Self { handle, nodes: Nodes::Holder(Box::new(node)) }, raised))
    }

    /// The testbed of a cell of a plan, as a trial has it; its services too, where there is something to start it with. It is given
    /// up where `stop` is asked meanwhile.
    ///
    /// # Errors
    ///
    /// As [`of_blueprint`](Self::of_blueprint).
    pub(crate) fn of_cell(
        lab: &mut Lab,
        plan: &Plan,
        cell: &Cell,
        provisioning: Option<Provisioning>,
        stop: &Stop,
        observer: &dyn Observer,
    ) -> Result<BuiltManualTestbed, ManualTestbedError> {
        let phase = |what| observer.observe(&RunEvent::Phase { what });
        phase("building the testbed");
        let lossy_links = loses_packets(&plan.measures, cell);
        let spec = TestbedSpec { lossy_links, ..systems::testbed(cell, &plan.budget) };
        let mut testbed = lab.build(&spec)?;
        stop.watch(enders(&testbed));
        let mut agents = vec![("client".to_owned(), talk(&mut testbed.client)?)];
        for (number, sut) in testbed.suts.iter_mut().enumerate() {
            agents.push((name(number), talk(&mut sut.node)?));
        }
        greet(&agents[0].1, testbed.client.interfaces())?;
        for ((_, agent), sut) in agents[1..].iter().zip(&testbed.suts) {
            greet(agent, sut.node.interfaces())?;
        }
        for (node, number) in testbed.generators.iter_mut().zip(2..) {
            let agent = talk(node)?;
            greet(&agent, None)?;
            agents.push((format!("client-{number}"), agent));
        }
        let mut holder = None;
        let mut raised = None;
        if let Some((setup, node)) = testbed.routed() {
            let agent = talk(node)?;
            greet(&agent, None)?;
            let (blueprint, doors) = (setup.blueprint.clone(), setup.doors.clone());
            let (patience, cpus) = (setup.patience, setup.cpus_kept());
            phase(RAISING);
            raised = Some(agent.raise_topology(blueprint.clone(), doors, patience, cpus)?);
            holder = Some((agents.len(), blueprint));
            agents.push((HOLDER.to_owned(), agent));
        }
        testbed.settle_routers()?;
        let services = match &provisioning {
            Some(provisioning) => {
                phase("starting the service");
                serve(&agents[1..], &testbed, cell, provisioning)?
            }
            None => Vec::new(),
        };
        stop.watch(Vec::new());
        let path = Some(testbed.path_switch());
        let handle = Arc::new(TestbedHandle { agents, holder, path });
        let testbed = Self { handle, nodes: Nodes::Testbed(Box::new(testbed)) };
        Ok(BuiltManualTestbed { testbed, raised, services })
    }

    /// What can be done in it.
    #[must_use]
    pub fn handle(&self) -> Arc<TestbedHandle> {
        Arc::clone(&self.handle)
    }

    /// Takes it down; what went wrong with that.
    #[must_use]
    pub fn down(self) -> Vec<String> {
        let Self { handle, nodes } = self;
        for (_, agent) in &handle.agents {
            // What an agent leaves goes with its node.
            let _ = agent.shutdown();
        }
        drop(handle);
        let errors = match nodes {
            Nodes::Holder(mut node) => node.destroy(),
            Nodes::Testbed(testbed) => testbed.destroy(),
        };
        errors.iter().map(|error| chain(error)).collect()
    }
}

impl TestbedHandle {
    /// Names of everything in which commands can be run.
    pub fn names(&self) -> Vec<String> {
        let own = self.agents.iter().map(|(name, _)| name.clone());
        let inside = self.holder.iter().flat_map(|(_, blueprint)| &blueprint.nodes);
        own.chain(inside.map(|node| node.name.clone())).collect()
    }

    fn holder(&self) -> Result<(&Client, &Blueprint), ManualTestbedError> {
        let found = self.holder.as_ref().and_then(|(index, blueprint)| {
            let (_, agent) = self.agents.get(*index)?;
            Some((agent, blueprint))
        });
        found.ok_or_else(|| ManualTestbedError::Unknown("this testbed has no routers".to_owned()))
    }

    /// The agent of a node, and the node's name inside the one that holds routers; empty for one of the testbed itself.
    fn agent<'a>(&'a self, node: &'a str) -> Result<(&'a Client, &'a str), ManualTestbedError> {
        if let Ok((agent, blueprint)) = self.holder()
            && blueprint.node(node).is_some()
        {
            return Ok((agent, node));
        }
        let own = self.agents.iter().find(|(name, _)| name == node);
        own.map(|(_, agent)| (agent, "")).ok_or_else(|| {
            let names = self.names().join(", ");
            ManualTestbedError::Unknown(format!("there is no node `{node}`; there are {names}"))
        })
    }

    /// Runs a command in a node, of the testbed or inside the one that holds routers.
    ///
    /// # Errors
    ///
    /// [`ManualTestbedError::Unknown`] where there is no such node.
    pub fn execute(&self, node: &str, command: &[String]) -> Result<CommandOutcome, ManualTestbedError> {
        let (agent, inside) = self.agent(node)?;
        Ok(agent.execute(inside, command)?)
    }

    /// Captures packets at an interface of a node, of the testbed or inside the one that holds routers; the bytes of a file
    /// of libpcap's.
    ///
    /// # Errors
    ///
    /// Where there is no such node or interface.
    pub fn capture(
        &self,
        node: &str,
        interface: &str,
        duration: Nanos,
    ) -> Result<Vec<u8>, ManualTestbedError> {
        let (agent, inside) = self.agent(node)?;
        Ok(agent.capture(inside, interface, duration)?)
    }

    /// Does something to the topology, or cuts and restores the path at the client's end, which is the link `path`.
    ///
    /// # Errors
    ///
    /// Where there is none, or it can't happen to it.
    pub fn inject(&self, event: Event) -> Result<(), ManualTestbedError> {
        match (&event, &self.path) {
            (Event::Cut { link }, Some(path)) if link == PATH => path.cut()?,
            (Event::RestoreLink { link }, Some(path)) if link == PATH => path.restore()?,
            (_, Some(_)) if self.holder.is_none() => {
                let what = format!(
                    "this testbed has no routers; what can be cut and restored here is the link `{PATH}`"
                );
                return Err(ManualTestbedError::Unknown(what));
            }
            _ => drop(self.holder()?.0.inject_event(event)?),
        }
        Ok(())
    }
}
