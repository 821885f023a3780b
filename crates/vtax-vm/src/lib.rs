//! Virtual machines: accelerator proof, guest kernel and initrd, QEMU, QMP.
//!
//! [`GuestTemplate::prepare`] finds out once per run what guests are started from; [`Vm::start`] starts
//! one. The other half, what happens inside, is `vtax_agent::guest`; what both agree on is in
//! [`contract`]. `docs/vm.md` tells the whole story.

pub mod accel;
mod bzimage;
mod cache;
pub mod checks;
mod command_line;
pub mod contract;
mod cpio;
mod decompress;
mod elf;
mod error;
pub mod ft;
mod guest;
mod image;
mod initrd;
mod kernel;
mod modules;
mod process;
mod qemu;
mod qmp;
pub mod setup;
mod tool;
mod uml;
mod vm;

pub use accel::Proof;
pub use cache::Cache;
pub use error::{Evidence, Result, VmError};
pub use guest::{GuestRoot, GuestTemplate, GuestTemplateOptions};
pub use image::{ImageContents, RootImage, root_image};
pub use kernel::{GuestKernel, Origin};
pub use modules::NEEDED as NEEDED_MODULES;
pub use process::CpuMeter;
pub use qemu::{Accelerator, Qemu, VmDiskBus, VmDiskOptions, VmNicModel, VmNicOptions};
pub use qmp::{EventHandler, Qmp, QmpEvent};
pub use uml::{
    PACKAGE as UML_PACKAGE, PROGRAM as UML_PROGRAM, Uml, UmlConfig, panic_of as uml_panic_of,
    proof as uml_proof,
};
pub use vm::{ThreadRole, Vm, VmConfig, VmDisk, VmNic};
