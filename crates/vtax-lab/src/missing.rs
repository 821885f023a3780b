//! What a plan needs and this host hasn't installed.

use vtax_plan::estimate::Requirement;
use vtax_plan::model::Controller;
use vtax_vm::{Cache, GuestKernel, Qemu, Uml, VmError};

use crate::{container, ovs, path};

/// What of it isn't installed here, with the way to it; `None` where all is there, or where it is nothing that can be installed.
/// Builds nothing and needs no privileges; QEMU is asked for its version, and Python for os-ken. Whether what is there works, only the
/// doctor and a run find out.
#[must_use]
pub fn missing(needed: Requirement) -> Option<String> {
    let why = match needed {
        Requirement::Container => container::missing(),
        Requirement::Uml => Uml::find(&Cache::of_user()).err().map(|error| error.to_string()),
        Requirement::Vm => guests(&Cache::of_user()).err().map(|error| error.to_string()),
        Requirement::OsKen => ovs::controller_obstacle(Controller::OsKen),
        Requirement::Routers => vtax_router::missing(),
        other => path::program_of(other)?.find().err().map(|error| error.to_string()),
    }?;
    let text = needed.text();
    let subject = text.split_once(':').map_or(&*text, |(subject, _)| subject);
    Some(format!("{subject}: {why}"))
}

fn guests(cache: &Cache) -> Result<(), VmError> {
    Qemu::find_any(cache)?;
    GuestKernel::find(cache).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_installs_is_not_missing() {
        for needed in [Requirement::Namespaces, Requirement::Kvm, Requirement::Vxlan, Requirement::Cgroups] {
            assert_eq!(missing(needed), None, "{needed:?}");
        }
    }
}
