//! Virtual machines: accelerator proof, guest kernel and initrd, QEMU, QMP.
