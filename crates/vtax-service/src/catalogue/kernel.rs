//! The kernel's own servers: a process of vtax's sets them up in a virtual machine. What they are told is in docs/storage.md.

use serde::Serialize;
use vtax_plan::model::{ChapMode, LioOptions, NfsdOptions, TgtOptions};

use super::entry::Entry;
use super::tgt::make_units;
use crate::documents::{make_directory, write_file};
use crate::embedded::kernel::{Account, Export, Target};
use crate::error::ServiceError;
use crate::recipe::{Condition, EntryContext, Recipe};

/// What the process says when the kernel serves.
const READY: &str = "listening on ";

pub(super) struct Nfsd<'a>(pub(super) &'a NfsdOptions);

impl Entry for Nfsd<'_> {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let root = context.served(self.0.backend)?;
        // Clients name the directory by its path below the root.
        let export = root.join(NfsdOptions::EXPORT.trim_start_matches('/'));
        match make_directory(&export) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(context.file("making", &export)(e));
            }
            _ => {}
        }
        let memory = context.directory.join("clients");
        make_directory(&memory).map_err(context.file("making", &memory))?;
        let export = Export { listen: context.address, root, memory, threads: self.0.threads };
        recipe(context, "nfsd", &export).map(|recipe| vec![recipe])
    }
}

pub(super) struct Lio<'a>(pub(super) &'a LioOptions);

impl Entry for Lio<'_> {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let directory = context.served(self.0.backend)?;
        let units = make_units(&directory, self.0.luns, self.0.size.0)
            .map_err(context.file("making the units in", &directory))?;
        let account =
            |(name, secret): (&str, &str)| Account { name: name.to_owned(), secret: secret.to_owned() };
        let initiators = match self.0.initiators.as_slice() {
            [] => vec![LioOptions::INITIATOR.to_owned()],
            names => names.to_vec(),
        };
        let target = Target {
            listen: context.address,
            name: TgtOptions::TARGET.to_owned(),
            units,
            size: self.0.size.0,
            visible: self.0.visible,
            write_cache: self.0.write_cache,
            initiators,
            initiator: (self.0.chap != ChapMode::None).then(|| account(TgtOptions::INITIATOR_CHAP)),
            target: (self.0.chap == ChapMode::Mutual).then(|| account(TgtOptions::TARGET_CHAP)),
        };
        recipe(context, "lio", &target).map(|recipe| vec![recipe])
    }
}

/// vtax itself, which sets this up and stays as long as it is served.
fn recipe(context: &EntryContext<'_>, kind: &str, what: &impl Serialize) -> Result<Recipe, ServiceError> {
    let path = context.directory.join("setup.json");
    let text = serde_json::to_vec(what).map_err(|e| context.file("writing", &path)(e.into()))?;
    write_file(&path, &text).map_err(context.file("writing", &path))?;
    Ok(context.own(&["service", kind, &context.path("setup.json")], Condition::Log(READY.to_owned())))
}
