//! The catalogue of services: configuration, start, readiness, stop.
//!
//! [`RunningService::start`] turns a plan's service into files in a private directory, a command
//! line and a condition for readiness, and runs it; what each entry of the catalogue sets and why
//! is in docs/services.md. [`missing`] says beforehand what a service needs that the host lacks.

mod catalogue;
mod certificate;
mod documents;
pub mod embedded;
mod error;
mod hidden;
mod identity;
mod lines;
mod own;
mod packages;
mod port;
mod private;
mod process;
mod process_tree;
mod provision;
mod ready;
mod recipe;
mod running;
mod watch;

pub use catalogue::{
    checks, hidden, installed_files, missing, missing_beside, missing_for_raid, missing_to_mount, packages,
    prepare,
};
pub use certificate::Certificate;
pub use documents::DOCUMENTS;
pub use error::ServiceError;
pub use hidden::Hidden;
pub use own::own_files;
pub use packages::{Missing, Package, find_program};
pub use private::{PrivateProgram, private_programs};
pub use provision::{ProvisionFormat, provision};
pub use recipe::{Prepared, StartContext};
pub use running::RunningService;
pub use watch::Notice;
