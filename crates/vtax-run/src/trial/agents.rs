//! The agents of a trial's nodes: the first words with each, and the services that some of them start.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use vtax_agent::message::{CardFacts, InterfaceSetup, NodeFacts, Provisioning, ServiceId, ServiceReady};
use vtax_agent::{AgentError, Client, ClockOffset};
use vtax_lab::{Node, Sut, Testbed};
use vtax_plan::model::{Cell, Service, StartOrder};
use vtax_router::Raised;
use vtax_store::record::InvalidReason;
use vtax_sys::chain;
use vtax_sys::clock::unix_time;
use vtax_sys::cpu_clock::process_cpu;
use vtax_sys::sync::joined;
use vtax_units::{Nanos, fact};

use super::heard::Heard;
use super::setting::{Failed, Setting};
use crate::addresses::sources_of;
use crate::instrument::BOOT_WITHIN;
use crate::probes::role;
use crate::stop::Stop;

/// A testbed's agents, with their interfaces up.
pub(super) struct Agents {
    pub(super) client: Client,
    /// Of the other generators, where the load comes from hosts of their own.
    pub(super) generators: Vec<Client>,
    /// Those of the systems under test, in the testbed's order.
    pub(super) suts: Vec<Client>,
    /// Of the node that holds the path's routers, where it has any.
    pub(super) routers: Option<Client>,
    /// Addresses of the client, where the workload asks for more than one.
    pub(super) sources: Vec<IpAddr>,
    /// How each system came up.
    pub(super) boots: Vec<Boot>,
    /// The clock of each system that is a guest, when its agent had answered.
    clocks: Vec<Option<ClockSeen>>,
}

/// How a system came up.
pub(super) struct Boot {
    /// From its start until its agent had answered and its interfaces were up, without the time that it waited for this to be
    /// asked, such as for the others' boots.
    pub(super) took: Nanos,
    /// From the start of the first system until this one's interfaces were up.
    pub(super) up: Nanos,
    /// CPU time that its QEMU had used when all systems were up; `None` where it has none.
    pub(super) cpu: Option<Nanos>,
}

/// What an agent answered at first.
struct Greeted {
    node: NodeFacts,
    /// Its network cards, where it was told to bring up interfaces.
    cards: Vec<CardFacts>,
    /// When it was spoken to first.
    asked: Instant,
    /// When it was ready to be asked for more.
    ready: Instant,
    /// Its clock at that time, where it is a guest.
    clock: Option<ClockSeen>,
}

/// A guest's clock against this host's.
#[derive(Debug, Clone, Copy)]
struct ClockSeen {
    /// When, in nanoseconds since 1970 by the host's clock.
    at: u64,
    clock: ClockOffset,
}

impl ClockSeen {
    /// `None` where the agent doesn't say: it is asked for more after this, and that fails with the reason.
    fn of(agent: &Client) -> Option<Self> {
        let clock = agent.clock().ok()?;
        Some(Self { at: unix_time().0, clock })
    }
}

impl Agents {
    /// Says hello to all agents and has them bring up their interfaces. `nodes` is told how each sees itself,
    /// `facts` what each says of its network cards.
    pub(super) fn meet(
        testbed: &mut Testbed,
        setting: &Setting<'_>,
        heard: &Heard,
        nodes: &mut BTreeMap<String, NodeFacts>,
        facts: &mut BTreeMap<String, String>,
    ) -> Result<Self, Failed> {
        let began = Instant::now();
        // The systems under test first: guests boot while the client is spoken to.
        let suts =
            testbed.suts.iter_mut().map(|sut| talk(&mut sut.node, heard)).collect::<Result<Vec<_>, _>>()?;
        let client = talk(&mut testbed.client, heard)?;
        let generators =
            testbed.generators.iter_mut().map(|node| talk(node, heard)).collect::<Result<Vec<_>, _>>()?;
        let routers = match testbed.routed() {
            Some((_, node)) => Some(talk(node, heard)?),
            None => None,
        };
        let cell = setting.request.cell;
        let name = |node: &Node| format!("{}/{}", cell.environment.name, role(node.name()));
        let mut interfaces = testbed.client.interfaces().map(<[InterfaceSetup]>::to_vec);
        let sources = sources_of(cell, testbed.the_sut().service_address, interfaces.as_deref_mut());
        let mut note = |node: &Node, greeted: &Greeted| {
            nodes.insert(name(node), greeted.node.clone());
            let words: Vec<String> = greeted.cards.iter().map(CardFacts::words).collect();
            if !words.is_empty() {
                facts.insert(fact::of_node(role(node.name()), fact::CARD), words.join("; "));
            }
            if !node.is_here() {
                facts.insert(fact::of_node(role(node.name()), fact::MACHINE), greeted.node.machine.clone());
            }
            for lease in greeted.cards.iter().filter_map(|card| card.lease) {
                facts.insert(fact::of_node(role(node.name()), fact::LEASE), lease.words());
                let took = fact::of_node(role(node.name()), fact::LEASE_TIME);
                facts.insert(took, lease.took.0.to_string());
            }
        };
        let greeted = greet(&client, interfaces).map_err(|e| refused(&e, &testbed.client))?;
        note(&testbed.client, &greeted);
        for (agent, node) in generators.iter().zip(&testbed.generators) {
            note(node, &greet(agent, None).map_err(|e| refused(&e, node))?);
        }
        match testbed.suts.iter().filter(|sut| sut.node.kind() == "vm").count() {
            0 => {}
            1 => setting.phase("booting the guest"),
            several => setting.phase(&format!("booting {several} guests")),
        }
        let mut boots = Vec::with_capacity(suts.len());
        let mut clocks = Vec::with_capacity(suts.len());
        let greeted = greet_all(&suts, testbed);
        let moments = testbed.suts.iter().map(|sut| sut.node.ask_vm(|vm| (vm.started(), vm.opened())));
        let moments: Vec<_> = moments.map(|moments| moments.unwrap_or((began, None))).collect();
        let first = moments.iter().map(|(started, _)| *started).min().unwrap_or(began);
        for ((greeted, sut), (started, opened)) in greeted.into_iter().zip(&testbed.suts).zip(moments) {
            let greeted = greeted.map_err(|e| refused(&e, &sut.node))?;
            boots.push(Boot {
                took: own_boot(started, opened, &greeted),
                up: greeted.ready.saturating_duration_since(first).into(),
                cpu: sut.node.vm().and_then(|vm| process_cpu(vm.pid())),
            });
            note(&sut.node, &greeted);
            clocks.push(greeted.clock);
        }
        if let Some((routers, node)) = routers.as_ref().zip(testbed.routers.first()) {
            setting.phase("starting the routers' node");
            // Its interfaces are the routers' own.
            note(node, &greet(routers, None).map_err(|e| refused(&e, node))?);
        }
        Ok(Self { client, generators, suts, routers, sources, boots, clocks })
    }

    /// The agent of the first system under test, for what measures only one.
    pub(super) fn sut(&self) -> &Client {
        // There is one in every testbed.
        &self.suts[0]
    }

    /// Starts the services, in the order that the plan gives, until one fails; what each said, in the testbed's order.
    pub(super) fn start_services(
        &self,
        testbed: &Testbed,
        cell: &Cell,
        provisioning: &Provisioning,
        stop: &Stop,
    ) -> Result<Vec<ServiceReady>, Failed> {
        type One<'a> = (((&'a Client, &'a Sut), &'a Service), &'a Option<ClockSeen>);
        let start = |(((agent, sut), service), clock): One<'_>| {
            // Each has a disk of its own.
            let disk = sut.node.disk().map(|disk| disk.path().to_owned());
            let provisioning = Provisioning { disk, ..provisioning.clone() };
            let ready = agent.start_service(ServiceId::ONLY, service, sut.service_address, &provisioning);
            // First: with a wrong clock a service's time to start is over too early, which isn't the service's failure.
            if let Some(why) =
                clock.zip(ClockSeen::of(agent).filter(|_| clock.is_some())).and_then(wrong_clock)
            {
                return Err(Failed::new(
                    InvalidReason::ClockWrong,
                    format!("{}: {why}", role(sut.node.name())),
                ));
            }
            ready.map_err(|e| Failed::of(InvalidReason::ServiceFailed, &e))
        };
        let all: Vec<_> =
            self.suts.iter().zip(&testbed.suts).zip(cell.services()).zip(&self.clocks).collect();
        match cell.systems.start {
            StartOrder::Together if all.len() > 1 => thread::scope(|scope| {
                let start = &start;
                let threads: Vec<_> = all.into_iter().map(|one| scope.spawn(move || start(one))).collect();
                let found: Vec<_> = threads.into_iter().map(joined).collect();
                found.into_iter().collect()
            }),
            StartOrder::Together | StartOrder::OneByOne => all.into_iter().map(start).collect(),
            StartOrder::Gap(gap) => {
                let later = |(number, one): (usize, _)| {
                    if number > 0 {
                        stop.pause(gap.into());
                    }
                    start(one)
                };
                all.into_iter().enumerate().map(later).collect()
            }
        }
    }

    /// Brings the path's routers up and waits until they agree; what there is to say about it, and `None` where the path has
    /// no routers.
    pub(super) fn raise_routers(&self, testbed: &mut Testbed) -> Result<Option<Raised>, Failed> {
        let Some((agent, (setup, _))) = self.routers.as_ref().zip(testbed.routed()) else { return Ok(None) };
        let (blueprint, doors) = (setup.blueprint.clone(), setup.doors.clone());
        let raised = agent.raise_topology(blueprint, doors, setup.patience, setup.cpus_kept());
        let raised = raised.map_err(|e| Failed::of(InvalidReason::TestbedFailed, &e))?;
        testbed.settle_routers().map_err(|e| Failed::of(InvalidReason::TestbedFailed, &e))?;
        Ok(Some(raised))
    }

    /// Says goodbye. All may be past saying anything; the tear-down ends them either way.
    pub(super) fn leave(&self, cell: &Cell) {
        thread::scope(|scope| {
            for (agent, service) in self.suts.iter().zip(cell.services()) {
                scope.spawn(move || {
                    let _ = agent.stop_service(ServiceId::ONLY, service.stop_timeout);
                    let _ = agent.shutdown();
                });
            }
        });
        for generator in std::iter::once(&self.client).chain(&self.generators) {
            let _ = generator.shutdown();
        }
        let _ = self.routers.as_ref().map(Client::shutdown);
    }
}

/// Where a service without a server of its own would listen.
pub(super) fn without_server(testbed: &Testbed) -> SocketAddr {
    SocketAddr::new(testbed.the_sut().service_address, 0)
}

fn talk(node: &mut Node, heard: &Heard) -> Result<Client, Failed> {
    let testbed_failed = InvalidReason::TestbedFailed;
    let read = node.take_channel().ok_or_else(|| {
        Failed::new(testbed_failed, format!("node {}: no stream to its agent", node.name()))
    })?;
    let write = read.try_clone().map_err(|e| Failed::of(testbed_failed, &e))?;
    let started = Client::start(node.name(), read, write, Box::new(heard.listener(role(node.name()))));
    let mut client = started.map_err(|e| Failed::of(testbed_failed, &e))?;
    if !node.is_here() {
        client.renew_lease().map_err(|e| Failed::of(testbed_failed, &e))?;
    }
    Ok(client)
}

fn greet(agent: &Client, interfaces: Option<Vec<InterfaceSetup>>) -> Result<Greeted, AgentError> {
    let asked = Instant::now();
    let mut node = agent.hello(BOOT_WITHIN)?;
    let mut cards = Vec::new();
    if let Some(interfaces) = interfaces {
        let configured = agent.configure_network(interfaces)?;
        (cards, node.sockets) = (configured.cards, configured.sockets);
    }
    Ok(Greeted { node, cards, asked, ready: Instant::now(), clock: None })
}

/// What a system took to come up, without the time between its agent's opening of its stream and the first question: those that
/// are started before others have to wait for them.
fn own_boot(started: Instant, opened: Option<Instant>, greeted: &Greeted) -> Nanos {
    let waited = opened.map_or(Duration::ZERO, |opened| greeted.asked.saturating_duration_since(opened));
    greeted.ready.saturating_duration_since(started).saturating_sub(waited).into()
}

/// Greets the agents of all systems at the same time, so that none is kept waiting by another that still boots.
fn greet_all(suts: &[Client], testbed: &Testbed) -> Vec<Result<Greeted, AgentError>> {
    let one = |agent: &Client, node: &Node| {
        let greeted = greet(agent, node.interfaces().map(<[InterfaceSetup]>::to_vec))?;
        let is_guest = node.vm().is_some() || node.pair().is_some();
        let clock = is_guest.then(|| ClockSeen::of(agent)).flatten();
        Ok(Greeted { clock, ..greeted })
    };
    thread::scope(|scope| {
        let one = &one;
        let all = suts.iter().zip(&testbed.suts);
        let threads: Vec<_> = all.map(|(agent, sut)| scope.spawn(move || one(agent, &sut.node))).collect();
        threads.into_iter().map(joined).collect()
    })
}

/// Why a node's agent didn't come up, with what the node said at last.
fn refused(error: &AgentError, node: &Node) -> Failed {
    let primary = node.pair().and_then(vtax_lab::ft::FtPair::primary);
    let detail = match (node.vm(), primary) {
        (Some(vm), _) => chain(&vm.failure(chain(error))),
        (None, Some(primary)) => chain(&primary.failure(chain(error))),
        (None, None) => {
            let output = node.output();
            let said = if output.is_empty() { String::new() } else { format!(": {output}") };
            chain(error) + &said
        }
    };
    Failed::new(InvalidReason::TestbedFailed, detail)
}

/// Why a guest's clock can't be right, from what it said at first and later: it went on by a tenth more or less than the host's, and
/// by more than the two exchanges leave open. A guest's kernel may get its clock's rate wrong while it boots beside others, and
/// figures that it takes of itself, and the times that its programs wait, would be wrong with it.
fn wrong_clock((first, later): (ClockSeen, ClockSeen)) -> Option<String> {
    let passed = later.at.saturating_sub(first.at);
    let open = first.clock.uncertainty_ns.saturating_add(later.clock.uncertainty_ns);
    let gained = i128::from(later.clock.offset_ns) - i128::from(first.clock.offset_ns);
    (gained.unsigned_abs() > u128::from(passed / 10) + u128::from(open)).then(|| {
        let times = (passed as f64 + gained as f64) / passed.max(1) as f64;
        format!(
            "its clock is wrong: it ran {times:.2} times as fast as the host's for {}; fewer guests that boot at once \
             (`consolidation.start: one-by-one`) help its kernel to measure it",
            Nanos(passed)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_is_without_those_of_the_systems_after_it() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let took = |started, opened: Option<u64>, asked, ready| {
            let (asked, ready) = (at(asked), at(ready));
            let greeted =
                Greeted { node: NodeFacts::default(), cards: Vec::new(), asked, ready, clock: None };
            own_boot(at(started), opened.map(at), &greeted)
        };
        // Three that boot for 4 s in a row are spoken to when the last is started; each needs 1 s to be brought up.
        assert_eq!(took(0, Some(4), 8, 9), Nanos::from_secs(5));
        assert_eq!(took(4, Some(8), 8, 9), Nanos::from_secs(5));
        assert_eq!(took(8, Some(12), 8, 13), Nanos::from_secs(5));
        // What is no virtual machine is up at once.
        assert_eq!(took(8, None, 8, 9), Nanos::from_secs(1));
    }

    #[test]
    fn a_clock_that_runs_too_fast_or_too_slow_is_found_beyond_what_exchanges_leave_open() {
        let seen = |at_ms: u64, offset_ms: i64, within_ms: u64| ClockSeen {
            at: at_ms * 1_000_000,
            clock: ClockOffset { offset_ns: offset_ms * 1_000_000, uncertainty_ns: within_ms * 1_000_000 },
        };
        let of = |passed: u64, gained: i64, within| {
            wrong_clock((seen(1000, -7, 1), seen(1000 + passed, gained - 7, within)))
        };
        assert_eq!(
            (of(4000, 0, 1), of(4000, 400, 1), of(4000, -400, 1), of(10, 50, 60)),
            (None, None, None, None)
        );
        assert!(of(4000, 12_000, 1).is_some_and(|why| why.contains("ran 4.00 times as fast")));
        assert!(of(4000, -2000, 1).is_some_and(|why| why.contains("ran 0.50 times as fast")));
        assert!(of(10, 50, 1).is_some());
    }
}
