//! A testbed to work in by hand: it stands until it is taken down.

use std::sync::Arc;

use vtax_agent::message::InterfaceSetup;
use vtax_agent::{AgentError, Client};
use vtax_lab::{Lab, LabError, Node, NodeSpec, Testbed, TestbedSpec};
use vtax_plan::model::{Cell, Plan};
use vtax_router::Raised;
use vtax_sys::chain;
use vtax_topology::Blueprint;
use vtax_topology::event::Event;
use vtax_units::Nanos;

use crate::instrument::BOOT_WITHIN;

/// How long routers have to agree.
const PATIENCE: Nanos = Nanos::from_secs(120);
/// Name of the node that holds a containerlab file's nodes.
const HOLDER: &str = "routers";

/// A testbed that stands, with its agents.
pub struct Standing {
    reach: Arc<Reach>,
    what: What,
}

/// What can be done in a testbed that stands; from any thread.
pub struct Reach {
    /// Name and agent of each node of the testbed; that of the routers is asked for all that is inside.
    agents: Vec<(String, Client)>,
    /// Which of them holds routers, and what is inside.
    holder: Option<(usize, Blueprint)>,
}

/// What is taken down.
enum What {
    Holder(Box<Node>),
    Testbed(Box<Testbed>),
}

/// Why none can be had.
#[derive(Debug, thiserror::Error)]
pub enum StandingError {
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

/// What a command in a node came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// Whether it ended well.
    pub well: bool,
    /// How it ended: `exit code 1`.
    pub how: String,
    /// What it printed, both streams.
    pub output: String,
}

fn talk(node: &mut Node) -> Result<Client, StandingError> {
    let name = node.name().to_owned();
    let failed = |why: &str| StandingError::Unknown(format!("node {name}: {why}"));
    let read = node.take_channel().ok_or_else(|| failed("no stream to its agent"))?;
    let write = read.try_clone().map_err(|e| failed(&e.to_string()))?;
    Ok(Client::start(&name, read, write, Box::new(|_| {}))?)
}

fn greet(agent: &Client, interfaces: Option<&[InterfaceSetup]>) -> Result<(), AgentError> {
    agent.hello(BOOT_WITHIN)?;
    interfaces.map_or(Ok(()), |interfaces| agent.configure_network(interfaces.to_vec()).map(drop))
}

impl Standing {
    /// Everything of a blueprint in one node of the host's.
    ///
    /// # Errors
    ///
    /// Where something is refused or missing; what was built until then is taken down.
    pub fn of_blueprint(lab: &Lab, blueprint: Blueprint) -> Result<(Self, Raised), StandingError> {
        let mut node = lab.add_native_node(&NodeSpec::new(HOLDER))?;
        let agent = talk(&mut node)?;
        greet(&agent, Some(&[]))?;
        let raised = agent.raise_topology(blueprint.clone(), Vec::new(), PATIENCE)?;
        let agents = vec![(HOLDER.to_owned(), agent)];
        let reach = Arc::new(Reach { agents, holder: Some((0, blueprint)) });
        Ok((Self { reach, what: What::Holder(Box::new(node)) }, raised))
    }

    /// The testbed of a cell of a plan, without its service.
    ///
    /// # Errors
    ///
    /// As [`of_blueprint`](Self::of_blueprint).
    pub fn of_cell(lab: &mut Lab, plan: &Plan, cell: &Cell) -> Result<(Self, Option<Raised>), StandingError> {
        let spec = TestbedSpec::of_one(cell.environment.clone(), cell.path.clone(), plan.budget.clone());
        let spec = TestbedSpec { guest_client: cell.mounting_client(), ..spec };
        let mut testbed = lab.build(&spec)?;
        let mut agents = vec![("client".to_owned(), talk(&mut testbed.client)?)];
        agents.push(("sut".to_owned(), talk(&mut testbed.the_sut_mut().node)?));
        greet(&agents[0].1, testbed.client.interfaces())?;
        greet(&agents[1].1, testbed.the_sut().node.interfaces())?;
        let mut holder = None;
        let mut raised = None;
        if let Some((setup, node)) = testbed.routed() {
            let agent = talk(node)?;
            greet(&agent, None)?;
            let (blueprint, doors) = (setup.blueprint.clone(), setup.doors.clone());
            raised = Some(agent.raise_topology(blueprint.clone(), doors, setup.patience)?);
            holder = Some((agents.len(), blueprint));
            agents.push((HOLDER.to_owned(), agent));
        }
        let reach = Arc::new(Reach { agents, holder });
        Ok((Self { reach, what: What::Testbed(Box::new(testbed)) }, raised))
    }

    /// What can be done in it.
    #[must_use]
    pub fn reach(&self) -> Arc<Reach> {
        Arc::clone(&self.reach)
    }

    /// Takes it down; what went wrong with that.
    #[must_use]
    pub fn down(self) -> Vec<String> {
        let Self { reach, what } = self;
        for (_, agent) in &reach.agents {
            // What an agent leaves goes with its node.
            let _ = agent.shutdown();
        }
        drop(reach);
        let errors = match what {
            What::Holder(mut node) => node.destroy(),
            What::Testbed(testbed) => testbed.destroy(),
        };
        errors.iter().map(|error| chain(error)).collect()
    }
}

impl Reach {
    /// Names of everything in which commands can be run.
    pub fn names(&self) -> Vec<String> {
        let own = self.agents.iter().map(|(name, _)| name.clone());
        let inside = self.holder.iter().flat_map(|(_, blueprint)| &blueprint.nodes);
        own.chain(inside.map(|node| node.name.clone())).collect()
    }

    fn holder(&self) -> Result<(&Client, &Blueprint), StandingError> {
        let found = self.holder.as_ref().and_then(|(index, blueprint)| {
            let (_, agent) = self.agents.get(*index)?;
            Some((agent, blueprint))
        });
        found.ok_or_else(|| StandingError::Unknown("this testbed has no routers".to_owned()))
    }

    /// Runs a command in a node, of the testbed or inside the one that holds routers.
    ///
    /// # Errors
    ///
    /// [`StandingError::Unknown`] where there is no such node.
    pub fn execute(&self, node: &str, command: &[String]) -> Result<Executed, StandingError> {
        let (agent, inside) = match self.holder() {
            Ok((agent, blueprint)) if blueprint.node(node).is_some() => (agent, node),
            _ => match self.agents.iter().find(|(name, _)| name == node) {
                Some((_, agent)) => (agent, ""),
                None => {
                    let names = self.names().join(", ");
                    return Err(StandingError::Unknown(format!(
                        "there is no node `{node}`; there are {names}"
                    )));
                }
            },
        };
        let (well, how, output) = agent.execute(inside, command)?;
        Ok(Executed { well, how, output })
    }

    /// Captures packets at an interface of a node inside the one that holds routers; the bytes of a file of libpcap's.
    ///
    /// # Errors
    ///
    /// Where there is no such node or interface.
    pub fn capture(&self, node: &str, interface: &str, duration: Nanos) -> Result<Vec<u8>, StandingError> {
        Ok(self.holder()?.0.capture(node, interface, duration)?)
    }

    /// Does something to the topology.
    ///
    /// # Errors
    ///
    /// Where there is none, or it can't happen to it.
    pub fn inject(&self, event: Event) -> Result<(), StandingError> {
        self.holder()?.0.inject_event(event)?;
        Ok(())
    }
}
