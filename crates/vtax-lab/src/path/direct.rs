//! One virtual cable.

use vtax_plan::model::EnvironmentKind;

use super::bridge::Bridge;
use super::parts::PathParts;
use super::path_builder::{PathBuilder, one_system};
use super::routers::Row;
use super::site::newest_end;
use super::{Built, Cable, Placed, Site};
use crate::error::Result;
use crate::link::LinkProperties;
use crate::spec::TestbedSpec;

/// One cable from client to system under test; where a cable can't do, the smallest bridge that can.
pub(super) struct Direct;

impl PathBuilder for Direct {
    fn suits(&self, spec: &TestbedSpec) -> Result<(), String> {
        one_system(spec, "a cable has two ends")
    }

    fn build(&self, site: &mut Site<'_>) -> Result<Built> {
        if site.path().has_wire() {
            site.notes.push(
                "path direct: delay and loss need a link emulator of vtax's own, with a bridge at each end"
                    .to_owned(),
            );
            return Bridge.build(site);
        }
        if site.spec.guest_client.is_some() {
            site.notes.push("path direct: the client's virtual machine takes a bridge".to_owned());
            return Bridge.build(site);
        }
        let native = match site.spec.suts[0].environment.kind {
            EnvironmentKind::Native => true,
            EnvironmentKind::Container => false,
            EnvironmentKind::Uml => {
                site.notes.push(
                    "path direct: the tap of user-mode Linux is bridged to the client's cable".to_owned(),
                );
                return Bridge.build(site);
            }
            EnvironmentKind::Vm(_) => {
                site.notes.push(
                    "path direct: the virtual machine's tap is bridged to the client's cable".to_owned(),
                );
                return Bridge.build(site);
            }
        };
        let path = site.path();
        let properties = LinkProperties::of(path);
        let mut fabric = site.fabric()?;
        let mut parts = PathParts::default();
        parts.add_facts(site.prove(path)?.facts());
        let mut row = Row::start(site, &mut fabric)?;
        let sut = &site.suts[0];
        let mut sut =
            if native { site.lab.add_native_node(sut)? } else { site.lab.add_container_node(sut)? };
        let addresses = fabric.join(row.last(), &mut sut, properties)?;
        let newest = sut.attachment.interfaces.iter_mut().flatten().last();
        if let Some((mtu, setup)) = path.sut_mtu.zip(newest) {
            setup.mtu = mtu;
        }
        let end = newest_end(&sut)?;
        // An interface that is switched off loses its routes, so where there are some, the last router's end is
        // switched off: no route leads over it but that to its own network, which the kernel restores.
        let has_routers = !site.routers.is_empty();
        let cable = Some(if has_routers { Cable::of(&newest_end(row.last())?)? } else { Cable::of(&end)? });
        let (client, routers) = row.into_nodes();
        let client_end = Some(newest_end(&client)?);
        let suts = vec![Placed { node: sut, address: addresses[1], ends: vec![end] }];
        Ok(Built {
            client,
            client_end,
            generators: Vec::new(),
            routers,
            suts,
            cable,
            parts,
            fabric: Some(fabric),
        })
    }
}
