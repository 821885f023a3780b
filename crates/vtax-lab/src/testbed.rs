//! The testbed of one trial: a client, a system under test, and the path between them.

use std::net::{IpAddr, Ipv4Addr};

use vtax_plan::model::{Budget, Environment, EnvironmentKind, NetPath, PathKind};
use vtax_sys::sched;

use crate::budget::{Allocation, allocate};
use crate::error::{LabError, Result, While};
use crate::fabric::{Fabric, VmPort};
use crate::lab::{Lab, NodeSpec};
use crate::node::Node;
use crate::shape::Shape;

/// What a trial needs.
#[derive(Debug, Clone, PartialEq)]
pub struct TestbedSpec {
    /// How the system under test is hosted.
    pub environment: Environment,
    /// The network between client and system under test.
    pub path: NetPath,
    /// What each side gets.
    pub budget: Budget,
}

/// Which of the testbeds that stand at the same time one is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Seat {
    /// It is the only one and has all CPUs of the budget.
    #[default]
    Alone,
    /// One of two; each side has half of its CPUs, or shares the only one.
    Paired {
        /// True for the second, whose nodes and switch have names of their own.
        second: bool,
        /// True where it gets the upper half of the CPUs. Whoever compares the two changes halves from
        /// pair to pair, as no two CPUs are quite the same.
        upper: bool,
    },
}

impl Seat {
    const fn number(self) -> u16 {
        match self {
            Self::Alone | Self::Paired { second: false, .. } => 0,
            Self::Paired { second: true, .. } => 1,
        }
    }

    /// What node names end with, so that two testbeds don't share one.
    const fn suffix(self) -> &'static str {
        if self.number() == 0 { "" } else { "-b" }
    }
}

/// The testbed of one trial; taken down when dropped.
#[derive(Debug)]
pub struct Testbed {
    /// Where the load generator runs.
    pub client: Node,
    /// The system under test.
    pub sut: Node,
    /// Where the service must listen.
    pub service_address: IpAddr,
    /// Who got which CPUs.
    pub allocation: Allocation,
    /// What has to be said in a report about this testbed.
    pub notes: Vec<String>,
    fabric: Option<Fabric>,
}

impl Testbed {
    /// Takes it down. Goes on after an error and returns all of them.
    pub fn destroy(mut self) -> Vec<LabError> {
        let mut errors = self.client.destroy();
        errors.extend(self.sut.destroy());
        errors.extend(self.fabric.take().and_then(|f| f.destroy().err()));
        errors
    }
}

impl Lab {
    /// Builds the testbed of a trial. The nodes' agents are started (a virtual machine still
    /// boots); they have not been spoken to.
    ///
    /// # Errors
    ///
    /// Where something is refused; what was built until then is taken down.
    pub fn build(&mut self, spec: &TestbedSpec) -> Result<Testbed> {
        self.build_at(spec, Seat::Alone)
    }

    /// As [`build`](Self::build), beside another testbed.
    ///
    /// # Errors
    ///
    /// As [`build`](Self::build); on a shared loopback there is room for one only.
    pub fn build_at(&mut self, spec: &TestbedSpec, seat: Seat) -> Result<Testbed> {
        if seat != Seat::Alone && !self.has_namespaces() {
            return Err(LabError::OnlyNative { kind: "paired" });
        }
        let allowed = sched::allowed_cpus().during(|| "find this host's CPUs".to_owned())?;
        let mut allocation = allocate(&allowed, &spec.budget, sched::core_siblings);
        if let Seat::Paired { upper, .. } = seat {
            allocation = allocation.half(upper);
        }
        let name = |role: &str| format!("{role}{}", seat.suffix());
        let client = NodeSpec { name: name("client"), cpus: allocation.client.clone(), memory: None };
        let sut = NodeSpec {
            name: name("sut"),
            cpus: allocation.sut.clone(),
            memory: Some(match &spec.environment.kind {
                EnvironmentKind::Vm(vm) => vm.memory,
                _ => spec.budget.sut_memory,
            }),
        };
        let mut notes = self.notes().to_vec();
        notes.extend(allocation.notes.iter().cloned());
        if !self.has_namespaces() {
            return self.build_on_loopback(spec, [client, sut], allocation, notes);
        }
        let shape = Shape { mtu: spec.path.mtu, rate: spec.path.rate };
        let mut fabric = self.fabric()?.for_seat(seat.number());
        let mut client = self.add_native_node(&client)?;
        let (sut, service_address) =
            self.build_sut(spec, &sut, &mut fabric, &mut client, shape, &mut notes)?;
        notes.extend(limits_note(&sut));
        Ok(Testbed { client, sut, service_address, allocation, notes, fabric: Some(fabric) })
    }

    fn build_on_loopback(
        &self,
        spec: &TestbedSpec,
        [client, sut]: [NodeSpec; 2],
        allocation: Allocation,
        mut notes: Vec<String>,
    ) -> Result<Testbed> {
        match spec.environment.kind {
            EnvironmentKind::Native => {}
            EnvironmentKind::Container => return Err(LabError::OnlyNative { kind: "container" }),
            EnvironmentKind::Vm(_) => return Err(LabError::OnlyNative { kind: "vm" }),
        }
        if spec.path.rate.is_some() {
            notes.push(format!("path {}: loopback has no rate limit", spec.path.name));
        }
        let client = self.add_native_node(&client)?;
        let sut = self.add_native_node(&sut)?;
        notes.extend(limits_note(&sut));
        let service_address = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Ok(Testbed { client, sut, service_address, allocation, notes, fabric: None })
    }

    fn build_sut(
        &mut self,
        spec: &TestbedSpec,
        sut: &NodeSpec,
        fabric: &mut Fabric,
        client: &mut Node,
        shape: Shape,
        notes: &mut Vec<String>,
    ) -> Result<(Node, IpAddr)> {
        if let EnvironmentKind::Vm(vm) = &spec.environment.kind {
            if spec.path.kind == PathKind::Direct {
                notes.push(
                    "path direct: the virtual machine's tap is bridged to the client's cable".to_owned(),
                );
            }
            let (port, address) = bridged(fabric, client, shape)?;
            let vcpus = vm.vcpus.unwrap_or_else(|| u32::try_from(sut.cpus.len()).unwrap_or(1)).max(1);
            return Ok((self.add_vm_node(sut, vcpus, vec![port])?, address));
        }
        let mut node = match spec.environment.kind {
            EnvironmentKind::Container => self.add_container_node(sut)?,
            _ => self.add_native_node(sut)?,
        };
        let address = match spec.path.kind {
            PathKind::Direct => fabric.join(client, &mut node, shape)?[1],
            PathKind::Bridge => {
                let mut switch = fabric.add_switch(shape.mtu)?;
                fabric.plug(client, &mut switch, shape)?;
                let address = fabric.plug(&mut node, &mut switch, shape)?;
                fabric.start(&switch)?;
                address
            }
        };
        Ok((node, address))
    }
}

/// The client and a virtual machine's port on one switch.
fn bridged(fabric: &mut Fabric, client: &mut Node, shape: Shape) -> Result<(VmPort, IpAddr)> {
    let mut switch = fabric.add_switch(shape.mtu)?;
    fabric.plug(client, &mut switch, shape)?;
    let (port, address) = fabric.vm_port(&mut switch, shape)?;
    fabric.start(&switch)?;
    Ok((port, address))
}

/// What isn't held by a control group although it should be.
fn limits_note(sut: &Node) -> Vec<String> {
    let enforced = sut.enforced();
    let mut notes = Vec::new();
    if !enforced.cpus_by_group {
        notes.push(format!(
            "{} node: CPUs {} by affinity, not by a control group",
            sut.kind(),
            enforced.cpus
        ));
    }
    if enforced.memory.is_none() {
        notes.push(format!("{} node: its memory limit is not enforced by a control group", sut.kind()));
    }
    notes
}
