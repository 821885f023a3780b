//! The catalogue of services: configuration, start, readiness, stop.
//!
//! [`RunningService::start`] turns a plan's service into files in a private directory, a command
//! line and a condition for readiness, and runs it; what each entry of the catalogue sets and why
//! is in docs/services.md. [`missing`] says beforehand what a service needs that the host lacks.

mod apache;
mod catalogue;
mod command;
mod documents;
pub mod embedded;
mod error;
mod family;
mod identity;
mod kamailio;
mod lines;
mod mariadb;
mod nginx;
mod packages;
mod port;
mod prepared;
mod process;
mod provision;
mod ready;
mod running;
mod watch;

pub use catalogue::Place;
pub use documents::DOCUMENTS;
pub use error::ServiceError;
pub use packages::{Missing, Package, installed_files, missing, packages};
pub use prepared::{Prepared, prepare};
pub use provision::{ProvisionFormat, provision};
pub use running::{RunningService, Stopped};
pub use watch::Notice;
