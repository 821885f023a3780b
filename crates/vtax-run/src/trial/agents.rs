//! The agents of a trial's nodes: the first words with each, and the service that one of them starts.

use std::collections::BTreeMap;
use std::net::IpAddr;

use vtax_agent::message::{InterfaceSetup, NodeFacts, Provisioning, ServiceId, ServiceReady};
use vtax_agent::{AgentError, Client};
use vtax_lab::{Node, Testbed};
use vtax_plan::model::Service;
use vtax_router::Raised;
use vtax_store::record::InvalidReason;
use vtax_sys::chain;

use super::heard::Heard;
use super::setting::{Failed, Setting};
use crate::addresses::sources;
use crate::instrument::BOOT_WITHIN;
use crate::probes::role;

/// A testbed's agents, with their interfaces up.
pub(super) struct Agents {
    pub(super) client: Client,
    pub(super) sut: Client,
    /// Of the node that holds the path's routers, where it has any.
    pub(super) routers: Option<Client>,
    /// Addresses of the client, where the workload asks for more than one.
    pub(super) sources: Vec<IpAddr>,
}

impl Agents {
    /// Says hello to all agents and has them bring up their interfaces. `nodes` is told how each sees itself.
    pub(super) fn meet(
        testbed: &mut Testbed,
        setting: &Setting<'_>,
        heard: &Heard,
        nodes: &mut BTreeMap<String, NodeFacts>,
    ) -> Result<Self, Failed> {
        // The system under test first: a guest boots while the client is spoken to.
        let sut = talk(&mut testbed.the_sut_mut().node, heard)?;
        let client = talk(&mut testbed.client, heard)?;
        let routers = match testbed.routed() {
            Some((_, node)) => Some(talk(node, heard)?),
            None => None,
        };
        let cell = setting.order.cell;
        let name = |node: &Node| format!("{}/{}", cell.environment.name, role(node.name()));
        let mut interfaces = testbed.client.interfaces().map(<[InterfaceSetup]>::to_vec);
        let count = cell.workload.model().client_addresses();
        let sources = count.map(|count| sources(interfaces.as_deref_mut(), count)).unwrap_or_default();
        nodes.insert(name(&testbed.client), greet(&client, &testbed.client, interfaces)?);
        let there = &testbed.the_sut().node;
        if there.kind() == "vm" {
            setting.phase("booting the guest");
        }
        let interfaces = there.interfaces().map(<[InterfaceSetup]>::to_vec);
        nodes.insert(name(there), greet(&sut, there, interfaces)?);
        if let Some((routers, node)) = routers.as_ref().zip(testbed.between.first()) {
            setting.phase("starting the routers' node");
            // Its interfaces are the routers' own.
            nodes.insert(name(node), greet(routers, node, None)?);
        }
        Ok(Self { client, sut, routers, sources })
    }

    /// Starts the service on the system under test.
    pub(super) fn start_service(
        &self,
        testbed: &Testbed,
        service: &Service,
        provisioning: &Provisioning,
    ) -> Result<ServiceReady, Failed> {
        self.sut
            .start_service(ServiceId::ONLY, service, testbed.the_sut().service_address, provisioning)
            .map_err(|e| Failed::of(InvalidReason::ServiceFailed, &e))
    }

    /// Brings the path's routers up and waits until they agree; what there is to say about it, and `None` where the path has
    /// no routers.
    pub(super) fn raise_routers(&self, testbed: &mut Testbed) -> Result<Option<Raised>, Failed> {
        let Some((agent, (setup, _))) = self.routers.as_ref().zip(testbed.routed()) else { return Ok(None) };
        let raised = agent.raise_topology(setup.blueprint.clone(), setup.doors.clone(), setup.patience);
        raised.map(Some).map_err(|e| Failed::of(InvalidReason::TestbedFailed, &e))
    }

    /// Says goodbye. Both may be past saying anything; the tear-down ends them either way.
    pub(super) fn leave(&self, service: &Service) {
        let _ = self.sut.stop_service(ServiceId::ONLY, service.stop_timeout);
        let _ = self.sut.shutdown();
        let _ = self.client.shutdown();
        let _ = self.routers.as_ref().map(Client::shutdown);
    }
}

fn talk(node: &mut Node, heard: &Heard) -> Result<Client, Failed> {
    let testbed_failed = InvalidReason::TestbedFailed;
    let read = node.take_channel().ok_or_else(|| {
        Failed::new(testbed_failed, format!("node {}: no stream to its agent", node.name()))
    })?;
    let write = read.try_clone().map_err(|e| Failed::of(testbed_failed, &e))?;
    Client::start(node.name(), read, write, Box::new(heard.listener(role(node.name()))))
        .map_err(|e| Failed::of(testbed_failed, &e))
}

fn greet(agent: &Client, node: &Node, interfaces: Option<Vec<InterfaceSetup>>) -> Result<NodeFacts, Failed> {
    let meet = || -> Result<NodeFacts, AgentError> {
        let facts = agent.hello(BOOT_WITHIN)?;
        if let Some(interfaces) = interfaces {
            agent.configure_network(interfaces)?;
        }
        Ok(facts)
    };
    meet().map_err(|e| {
        let primary = node.pair().and_then(vtax_lab::ft::FtPair::primary);
        let detail = match (node.vm(), primary) {
            (Some(vm), _) => chain(&vm.failure(chain(&e))),
            (None, Some(primary)) => chain(&primary.failure(chain(&e))),
            (None, None) => format!("{}: {}", chain(&e), node.output()),
        };
        Failed::new(InvalidReason::TestbedFailed, detail)
    })
}
