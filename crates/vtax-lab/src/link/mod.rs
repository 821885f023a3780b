//! Links: how they behave, the emulator of delay and loss, and the proof that an emulated link is as asked for.

mod emulator;
mod proof;
mod properties;

pub(crate) use emulator::{Emulation, LinkEmulator, facts};
pub(crate) use proof::{Proof, Proofs, prove};
pub use properties::LinkProperties;
