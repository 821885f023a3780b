//! vtax's own server of network tests: what `vtax load tcp` is at the other end of a link.

use super::entry::Entry;
use crate::error::ServiceError;
use crate::recipe::{Condition, EntryContext, Recipe};

pub(super) struct NetworkServer;

impl Entry for NetworkServer {
    fn is_own(&self) -> bool {
        true
    }

    fn recipes(&self, context: &EntryContext<'_>) -> Result<Vec<Recipe>, ServiceError> {
        let arguments = ["load", "tcp", "--server", "--listen", &context.address.to_string()];
        Ok(vec![context.own(&arguments, Condition::Port)])
    }
}
