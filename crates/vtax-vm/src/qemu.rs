//! QEMU's command line.

mod program;

use std::ffi::OsString;
use std::os::fd::RawFd;
use std::path::Path;

use serde::{Deserialize, Serialize};
use vtax_units::Bytes;

pub use program::Qemu;

use crate::contract::{AGENT_PORT, DATA_DISK, ROOT_DISK, ROOT_TAG};

/// What executes the guest's instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Accelerator {
    /// The CPU itself.
    Kvm,
    /// Software: every instruction is translated. An order of magnitude slower.
    Tcg,
}

impl Accelerator {
    /// `kvm` or `tcg`, as reports name it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kvm => "kvm",
            Self::Tcg => "tcg",
        }
    }
}

impl std::fmt::Display for Accelerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.word())
    }
}

/// Name of QEMU's process: a private copy's would be its loader's.
const PROCESS: &str = "qemu-system-x86";
/// A thread per virtual CPU, and a bound (MiB) on the memory for translated code, which otherwise is
/// up to 1 GiB and no part of the guest's budget.
const TCG: &str = "tcg,thread=multi,tb-size=256";

/// The emulated CPU: all there is, but for what emulation makes slow. With ERMS or FSRM kernels and libraries copy by `rep movsb`, which TCG
/// carries out byte by byte: TCP over a bridge had a third of its rate. With SMAP each copy from or to a program ends two blocks of
/// translated code and fills the TLB for a mode of its own. A real CPU has all three at next to no cost.
const TCG_CPU: &str = "max,-erms,-fsrm,-smap";
/// What QEMU may not do once it runs. The guest runs nothing but what the host runs too, so this is
/// a second fence, and what production set-ups (libvirt) have as well.
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";

/// Everything that QEMU's command line depends on.
#[derive(Debug, Clone)]
pub(crate) struct Machine<'a> {
    pub(crate) name: &'a str,
    pub(crate) accelerator: Accelerator,
    pub(crate) memory: Bytes,
    pub(crate) vcpus: u32,
    pub(crate) sandbox: bool,
    pub(crate) kernel: &'a Path,
    pub(crate) command_line: &'a str,
    pub(crate) initrd: RawFd,
    pub(crate) console: RawFd,
    /// Whether it is one of a fault-tolerant pair.
    pub(crate) of_pair: bool,
    /// What a node has and a probe hasn't.
    pub(crate) node: Option<NodeDevices<'a>>,
}

/// How a guest sees its own disk, and how QEMU reads and writes the disk's file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VmDiskOptions {
    /// What it is attached to.
    pub bus: VmDiskBus,
    /// QEMU's word for the format of its file: `raw`, `qcow2`.
    pub format: &'static str,
    /// QEMU's word for what the host's page cache does: `none`, `writeback`, `writethrough`.
    pub cache: &'static str,
    /// QEMU's word for how it reads and writes: `threads`, `native`, `io_uring`.
    pub aio: &'static str,
}

/// What a guest's disk is attached to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VmDiskBus {
    /// virtio-blk.
    Virtio,
    /// virtio-scsi.
    Scsi,
    /// NVMe.
    Nvme,
    /// AHCI.
    Ide,
}

/// A network card as its guest sees it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum VmNicModel {
    /// virtio-net.
    #[default]
    Virtio,
    /// Intel 82574L.
    E1000e,
    /// Intel 82540EM.
    E1000,
    /// Realtek RTL8139C+.
    Rtl8139,
}

impl VmNicModel {
    /// QEMU's name of the device.
    pub(crate) const fn device(self) -> &'static str {
        match self {
            Self::Virtio => "virtio-net-pci",
            Self::E1000e => "e1000e",
            Self::E1000 => "e1000",
            Self::Rtl8139 => "rtl8139",
        }
    }

    /// Whether the host's kernel can move its packets (vhost-net): only virtio's rings are known to it.
    #[must_use]
    pub const fn suits_vhost(self) -> bool {
        matches!(self, Self::Virtio)
    }

    /// The device's options: what it is, how it is plugged in, and what `virtio` says about devices of that kind.
    fn options(self, plugged: &str, mac: [u8; 6], virtio: &str) -> String {
        let (device, mac) = (self.device(), mac_words(mac));
        let virtio = if self == Self::Virtio { format!(",{virtio}") } else { String::new() };
        format!("{device},{plugged},mac={mac},romfile={virtio}")
    }
}

/// What is unusual about a virtio card.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct VmNicOptions {
    /// Entries of each queue of received packets; `None`: QEMU's own choice.
    pub ring: Option<u32>,
    /// Whether the host's kernel moves its packets; `None`: where it can and the guest isn't emulated.
    pub vhost: Option<bool>,
}

/// A network card and the queues of the tap that it is wired to, at least one.
#[derive(Debug, Clone)]
pub(crate) struct Card {
    pub(crate) taps: Vec<RawFd>,
    pub(crate) mac: [u8; 6],
    pub(crate) model: VmNicModel,
    pub(crate) options: VmNicOptions,
}

impl Card {
    /// With one queue and nothing unusual.
    pub(crate) fn plain(tap: RawFd, mac: [u8; 6], model: VmNicModel) -> Self {
        Self { taps: vec![tap], mac, model, options: VmNicOptions::default() }
    }

    /// How its tap is named: by one descriptor, or by those of its queues.
    fn descriptors(&self) -> String {
        let all = self.taps.iter().map(ToString::to_string).collect::<Vec<_>>().join(":");
        if self.taps.len() > 1 { format!("fds={all}") } else { format!("fd={all}") }
    }

    /// What there is to say of its queues beside what it is.
    fn queues(&self) -> String {
        let mut words = String::new();
        if self.taps.len() > 1 {
            // An interrupt of each queue's own, one of the control queue's, one for changes.
            words.push_str(&format!(",mq=on,vectors={}", 2 * self.taps.len() + 2));
        }
        if let Some(ring) = self.options.ring {
            words.push_str(&format!(",rx_queue_size={ring}"));
        }
        words
    }
}

/// The devices of a guest that is a node.
#[derive(Debug, Clone)]
pub(crate) struct NodeDevices<'a> {
    pub(crate) root: &'a Path,
    pub(crate) agent: RawFd,
    pub(crate) qmp: RawFd,
    pub(crate) nics: &'a [Card],
    pub(crate) vhost: bool,
    /// Its own disk, or those that it makes one of.
    pub(crate) disk: Option<(&'a [RawFd], VmDiskOptions)>,
    /// A file as large as the guest's memory, which holds it.
    pub(crate) memory: Option<RawFd>,
    /// Whether there is a balloon.
    pub(crate) balloon: bool,
}

/// The devices of a guest that is one of a pair.
#[derive(Debug, Clone)]
pub(crate) struct PairDevices<'a> {
    pub(crate) agent: RawFd,
    pub(crate) qmp: RawFd,
    pub(crate) card: Card,
    /// The file system with the guest's files.
    pub(crate) image: Option<&'a Path>,
    /// Options of the replicated disk.
    pub(crate) disks: &'a [String],
    /// Whether it waits for the other's state.
    pub(crate) standby: bool,
}

/// Virtio 0.9 as it was before 1.0: of a newer device QEMU saves and loads the state of 1024 queues twice over,
/// which no guest has, and each device of a pair would add a millisecond to each checkpoint.
const PAIR_VIRTIO: &str = "disable-legacy=off,disable-modern=on";

/// The rest of a pair member's arguments. Every device has an id: both must be told apart by the same
/// name on both sides.
pub(crate) fn pair_arguments(pair: &PairDevices<'_>) -> Vec<OsString> {
    let mut out = Arguments::default();
    out.pair("-chardev", format!("socket,id=qmp,fd={}", pair.qmp))
        .pair("-mon", "chardev=qmp,mode=control")
        .pair("-chardev", format!("socket,id=agent,fd={}", pair.agent))
        .pair("-device", format!("virtio-serial-pci,id=serial,max_ports=2,{PAIR_VIRTIO}"))
        .pair("-device", format!("virtserialport,id=agent,bus=serial.0,chardev=agent,name={AGENT_PORT}"));
    // The host's kernel must not move the packets: they have to wait for a checkpoint.
    let Card { mac, model, .. } = &pair.card;
    out.pair("-netdev", format!("tap,id=net0,{},vhost=off", pair.card.descriptors()))
        .pair("-device", model.options("id=nic0,netdev=net0", *mac, PAIR_VIRTIO));
    if let Some(image) = pair.image {
        // Both open it, and neither writes.
        let mut drive =
            OsString::from("if=none,id=root,format=raw,readonly=on,file.locking=off,file.filename=");
        drive.push(escaped_path(image));
        out.pair("-drive", drive);
        let device = format!("virtio-blk-pci,id=rootdisk,drive=root,serial={ROOT_DISK},{PAIR_VIRTIO}");
        out.pair("-device", device);
    }
    for drive in pair.disks {
        out.pair("-drive", drive);
    }
    if !pair.disks.is_empty() {
        let device = format!("virtio-blk-pci,id=datadisk,drive=data,serial={DATA_DISK},{PAIR_VIRTIO}");
        out.pair("-device", device);
    }
    if pair.standby {
        out.pair("-incoming", "defer");
    }
    out.0
}

fn mac_words(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// QEMU's arguments, program name excluded.
pub(crate) fn arguments(machine: &Machine<'_>) -> Vec<OsString> {
    let mut out = Arguments::default();
    // Controllers that nothing is attached to only cost probing time in the guest.
    // One of a pair loads its devices' state at each checkpoint, so it has none that Linux does without.
    let fewer = if machine.of_pair { ",smm=off,hpet=off" } else { "" };
    // Pages of a file can be written back to it where there is too little memory, as others go to swap.
    let file = machine.node.as_ref().and_then(|node| node.memory);
    let backend = if file.is_some() { ",memory-backend=ram" } else { "" };
    out.pair("-machine", format!("q35,i8042=off,sata=off,smbus=off,vmport=off{fewer}{backend}"));
    if let Some(file) = file {
        let size = machine.memory.mib();
        let object =
            format!("memory-backend-file,id=ram,size={size}M,mem-path=/proc/self/fd/{file},share=on");
        out.pair("-object", object);
    }
    match machine.accelerator {
        Accelerator::Kvm => out.pair("-accel", "kvm").pair("-cpu", "host"),
        Accelerator::Tcg => out.pair("-accel", TCG).pair("-cpu", TCG_CPU),
    };
    if machine.of_pair {
        // Speeds up the task priority register of 32-bit Windows; to load its state takes 0.6 ms.
        out.pair("-global", "apic-common.vapic=off");
    }
    out.pair("-name", format!("vtax-{},process={PROCESS}", escaped(machine.name)))
        .pair("-smp", machine.vcpus.max(1).to_string())
        .pair("-m", format!("{}M", machine.memory.mib()))
        .flag("-nodefaults")
        .flag("-no-user-config")
        .flag("-no-reboot")
        .pair("-display", "none");
    if machine.sandbox {
        out.pair("-sandbox", SANDBOX);
    }
    out.pair("-kernel", machine.kernel)
        .pair("-initrd", format!("/proc/self/fd/{}", machine.initrd))
        .pair("-append", machine.command_line)
        .pair("-chardev", format!("socket,id=console,fd={}", machine.console))
        .pair("-serial", "chardev:console");
    if let Some(node) = &machine.node {
        node_devices(&mut out, node);
    }
    out.0
}

fn node_devices(out: &mut Arguments, node: &NodeDevices<'_>) {
    let mut root = OsString::from("local,id=root,security_model=none,readonly=on,multidevs=remap,path=");
    root.push(escaped_path(node.root));
    out.pair("-chardev", format!("socket,id=qmp,fd={}", node.qmp))
        .pair("-mon", "chardev=qmp,mode=control")
        .pair("-chardev", format!("socket,id=agent,fd={}", node.agent))
        .pair("-device", "virtio-serial-pci,id=serial,max_ports=2,disable-legacy=on")
        .pair("-device", format!("virtserialport,id=agent,bus=serial.0,chardev=agent,name={AGENT_PORT}"))
        .pair("-fsdev", root)
        .pair("-device", format!("virtio-9p-pci,fsdev=root,mount_tag={ROOT_TAG},disable-legacy=on"));
    for (index, card) in node.nics.iter().enumerate() {
        let moved = card.options.vhost.unwrap_or(node.vhost) && card.model.suits_vhost();
        let vhost = if moved { "on" } else { "off" };
        let virtio = format!("disable-legacy=on{}", card.queues());
        out.pair("-netdev", format!("tap,id=net{index},{},vhost={vhost}", card.descriptors()))
            .pair("-device", card.model.options(&format!("netdev=net{index}"), card.mac, &virtio));
    }
    if let Some((files, options)) = node.disk {
        own_disks(out, files, options);
    }
    if node.balloon {
        out.pair("-device", "virtio-balloon-pci,id=balloon,disable-legacy=on");
    }
}

/// A guest's own disks, on one controller. Their files may have no names any more, so they are named by their descriptors.
fn own_disks(out: &mut Arguments, files: &[RawFd], options: VmDiskOptions) {
    let VmDiskOptions { bus, format, cache, aio } = options;
    match bus {
        VmDiskBus::Scsi => {
            out.pair("-device", "virtio-scsi-pci,id=scsi,disable-legacy=on");
        }
        VmDiskBus::Ide => {
            out.pair("-device", "ich9-ahci,id=ahci");
        }
        VmDiskBus::Virtio | VmDiskBus::Nvme => {}
    }
    for (number, file) in files.iter().enumerate() {
        let id = format!("disk{number}");
        out.pair(
            "-drive",
            format!("if=none,id={id},file.filename=/proc/self/fd/{file},file.locking=off,format={format},cache={cache},file.aio={aio}"),
        );
        let device = match bus {
            VmDiskBus::Virtio => format!("virtio-blk-pci,drive={id},disable-legacy=on"),
            VmDiskBus::Scsi => format!("scsi-hd,bus=scsi.0,drive={id}"),
            VmDiskBus::Nvme => format!("nvme,drive={id},serial=vtax{number}"),
            VmDiskBus::Ide => format!("ide-hd,bus=ahci.{number},drive={id}"),
        };
        out.pair("-device", device);
    }
}

#[derive(Debug, Default)]
struct Arguments(Vec<OsString>);

impl Arguments {
    fn flag(&mut self, flag: &str) -> &mut Self {
        self.0.push(flag.into());
        self
    }

    fn pair(&mut self, option: &str, value: impl Into<OsString>) -> &mut Self {
        self.0.push(option.into());
        self.0.push(value.into());
        self
    }
}

/// In QEMU's option lists a comma is written twice.
fn escaped(value: &str) -> String {
    value.replace(',', ",,")
}

fn escaped_path(path: &Path) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut bytes = Vec::new();
    for &byte in path.as_os_str().as_bytes() {
        bytes.extend(std::iter::repeat_n(byte, if byte == b',' { 2 } else { 1 }));
    }
    OsString::from_vec(bytes)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::command_line::KernelArgs;

    fn shown(machine: &Machine<'_>) -> String {
        let arguments: Vec<_> = arguments(machine).into_iter().map(|a| a.into_string().unwrap()).collect();
        arguments.iter().fold(String::new(), |text, argument| match argument.starts_with('-') {
            true if text.is_empty() => argument.clone(),
            true => format!("{text}\n{argument}"),
            false => format!("{text} {argument}"),
        })
    }

    #[test]
    fn golden_node_under_emulation() {
        let card = |tap, last| Card::plain(tap, [0x52, 0x54, 0, 0, 0, last], VmNicModel::Virtio);
        let nics = [card(7, 1), card(8, 0xff)];
        let node = NodeDevices {
            root: Path::new("/a,b"),
            agent: 5,
            qmp: 6,
            nics: &nics,
            vhost: false,
            disk: None,
            memory: None,
            balloon: false,
        };
        let mitigations = "mitigations=off".to_owned();
        let args = KernelArgs { mitigations, counter_khz: Some(2_500_000), files: Some(1_048_576) };
        let command_line = args.node("sut one");
        let machine = Machine {
            name: "sut,1",
            accelerator: Accelerator::Tcg,
            memory: Bytes::from_mib(256),
            vcpus: 2,
            sandbox: true,
            kernel: Path::new("/cache/vmlinux"),
            command_line: &command_line,
            initrd: 3,
            console: 4,
            of_pair: false,
            node: Some(node),
        };
        let expected = "\
-machine q35,i8042=off,sata=off,smbus=off,vmport=off
-accel tcg,thread=multi,tb-size=256
-cpu max,-erms,-fsrm,-smap
-name vtax-sut,,1,process=qemu-system-x86
-smp 2
-m 256M
-nodefaults
-no-user-config
-no-reboot
-display none
-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny
-kernel /cache/vmlinux
-initrd /proc/self/fd/3
-append console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check 8250.nr_uarts=1 cryptomgr.notests rootfstype=ramfs \
mitigations=off tsc_early_khz=2500000 vtax.role=agent vtax.hostname=sutone vtax.files=1048576 HOME=/root \
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
-chardev socket,id=console,fd=4
-serial chardev:console
-chardev socket,id=qmp,fd=6
-mon chardev=qmp,mode=control
-chardev socket,id=agent,fd=5
-device virtio-serial-pci,id=serial,max_ports=2,disable-legacy=on
-device virtserialport,id=agent,bus=serial.0,chardev=agent,name=vtax.agent
-fsdev local,id=root,security_model=none,readonly=on,multidevs=remap,path=/a,,b
-device virtio-9p-pci,fsdev=root,mount_tag=vtax.root,disable-legacy=on
-netdev tap,id=net0,fd=7,vhost=off
-device virtio-net-pci,netdev=net0,mac=52:54:00:00:00:01,romfile=,disable-legacy=on
-netdev tap,id=net1,fd=8,vhost=off
-device virtio-net-pci,netdev=net1,mac=52:54:00:00:00:ff,romfile=,disable-legacy=on";
        assert_eq!(shown(&machine), expected);
    }

    /// The arguments of one card in a node on KVM with vhost-net.
    fn card_arguments(card: Card) -> String {
        let nics = [card];
        let root = Path::new("/");
        let node = NodeDevices {
            root,
            agent: 5,
            qmp: 6,
            nics: &nics,
            vhost: true,
            disk: None,
            memory: None,
            balloon: false,
        };
        let mut out = Arguments::default();
        node_devices(&mut out, &node);
        let words: Vec<_> = out.0.into_iter().map(|word| word.into_string().unwrap()).collect();
        let at = words.iter().position(|word| word == "-netdev").unwrap();
        words[at..].join(" ")
    }

    #[test]
    fn a_card_is_what_was_asked_for_and_only_virtio_is_moved_by_the_hosts_kernel() {
        for (model, vhost, device) in [
            (
                VmNicModel::Virtio,
                "on",
                "virtio-net-pci,netdev=net0,mac=52:54:00:00:00:01,romfile=,disable-legacy=on",
            ),
            (VmNicModel::E1000e, "off", "e1000e,netdev=net0,mac=52:54:00:00:00:01,romfile="),
            (VmNicModel::E1000, "off", "e1000,netdev=net0,mac=52:54:00:00:00:01,romfile="),
            (VmNicModel::Rtl8139, "off", "rtl8139,netdev=net0,mac=52:54:00:00:00:01,romfile="),
        ] {
            let expected = format!("-netdev tap,id=net0,fd=7,vhost={vhost} -device {device}");
            assert_eq!(card_arguments(Card::plain(7, [0x52, 0x54, 0, 0, 0, 1], model)), expected);
        }
    }

    #[test]
    fn disks_are_named_by_their_descriptors_on_the_bus_asked_for() {
        let drive = |number: u32, file: u32| {
            format!(
                "-drive if=none,id=disk{number},file.filename=/proc/self/fd/{file},file.locking=off,format=raw,cache=none,\
                 file.aio=native"
            )
        };
        for (bus, controller, devices) in [
            (
                VmDiskBus::Virtio,
                "",
                [
                    "virtio-blk-pci,drive=disk0,disable-legacy=on",
                    "virtio-blk-pci,drive=disk1,disable-legacy=on",
                ],
            ),
            (
                VmDiskBus::Scsi,
                "-device virtio-scsi-pci,id=scsi,disable-legacy=on ",
                ["scsi-hd,bus=scsi.0,drive=disk0", "scsi-hd,bus=scsi.0,drive=disk1"],
            ),
            (VmDiskBus::Nvme, "", ["nvme,drive=disk0,serial=vtax0", "nvme,drive=disk1,serial=vtax1"]),
            (
                VmDiskBus::Ide,
                "-device ich9-ahci,id=ahci ",
                ["ide-hd,bus=ahci.0,drive=disk0", "ide-hd,bus=ahci.1,drive=disk1"],
            ),
        ] {
            let mut out = Arguments::default();
            own_disks(&mut out, &[9, 12], VmDiskOptions { bus, format: "raw", cache: "none", aio: "native" });
            let words: Vec<_> = out.0.into_iter().map(|word| word.into_string().unwrap()).collect();
            let [first, second] = devices;
            let expected =
                format!("{controller}{} -device {first} {} -device {second}", drive(0, 9), drive(1, 12));
            assert_eq!(words.join(" "), expected);
        }
    }

    #[test]
    fn a_tuned_card_has_its_queues_and_who_moves_them() {
        let card = Card {
            taps: vec![7, 9],
            options: VmNicOptions { ring: Some(1024), vhost: Some(false) },
            ..Card::plain(7, [2; 6], VmNicModel::Virtio)
        };
        assert_eq!(
            card_arguments(card),
            "-netdev tap,id=net0,fds=7:9,vhost=off -device virtio-net-pci,netdev=net0,mac=02:02:02:02:02:02,romfile=,\
             disable-legacy=on,mq=on,vectors=6,rx_queue_size=1024"
        );
    }

    #[test]
    fn a_balloon_is_there_where_it_is_asked_for() {
        let node = |balloon| NodeDevices {
            root: Path::new("/"),
            agent: 5,
            qmp: 6,
            nics: &[],
            vhost: false,
            disk: None,
            memory: None,
            balloon,
        };
        for (balloon, devices) in [(false, 0), (true, 1)] {
            let mut out = Arguments::default();
            node_devices(&mut out, &node(balloon));
            let words: Vec<_> = out.0.into_iter().map(|word| word.into_string().unwrap()).collect();
            let found = words.iter().filter(|word| word.starts_with("virtio-balloon-pci,id=balloon")).count();
            assert_eq!(found, devices, "{words:?}");
        }
    }

    #[test]
    fn memory_in_a_file_is_named_by_its_descriptor() {
        let node = NodeDevices {
            root: Path::new("/"),
            agent: 5,
            qmp: 6,
            nics: &[],
            vhost: false,
            disk: None,
            memory: Some(9),
            balloon: false,
        };
        let machine = Machine {
            name: "sut",
            accelerator: Accelerator::Kvm,
            memory: Bytes::from_mib(256),
            vcpus: 1,
            sandbox: false,
            kernel: Path::new("/boot/vmlinuz"),
            command_line: "",
            initrd: 3,
            console: 4,
            of_pair: false,
            node: Some(node),
        };
        let expected = "\
-machine q35,i8042=off,sata=off,smbus=off,vmport=off,memory-backend=ram
-object memory-backend-file,id=ram,size=256M,mem-path=/proc/self/fd/9,share=on
-accel kvm";
        let shown = shown(&machine);
        assert!(shown.starts_with(expected), "{shown}");
    }

    #[test]
    fn golden_probe_under_kvm() {
        let machine = Machine {
            name: "probe",
            accelerator: Accelerator::Kvm,
            memory: Bytes::from_mib(256),
            vcpus: 1,
            sandbox: false,
            kernel: Path::new("/boot/vmlinuz"),
            command_line: &KernelArgs::default().probe(),
            initrd: 10,
            console: 11,
            of_pair: false,
            node: None,
        };
        let expected = "\
-machine q35,i8042=off,sata=off,smbus=off,vmport=off
-accel kvm
-cpu host
-name vtax-probe,process=qemu-system-x86
-smp 1
-m 256M
-nodefaults
-no-user-config
-no-reboot
-display none
-kernel /boot/vmlinuz
-initrd /proc/self/fd/10
-append console=ttyS0 quiet panic=-1 tsc=reliable no_timer_check 8250.nr_uarts=1 cryptomgr.notests rootfstype=ramfs
-chardev socket,id=console,fd=11
-serial chardev:console";
        assert_eq!(shown(&machine), expected);
    }

    #[test]
    fn both_of_a_pair_have_the_same_devices_and_one_waits() {
        let shown = |model, standby| -> Vec<String> {
            let image = Some(Path::new("/cache/a,b.ext4"));
            let disks = ["if=none,id=data".to_owned()];
            let card = Card::plain(7, [2; 6], model);
            let pair = PairDevices { agent: 5, qmp: 6, card, image, disks: &disks, standby };
            pair_arguments(&pair).into_iter().map(|a| a.into_string().unwrap()).collect()
        };
        let (primary, secondary) = (shown(VmNicModel::Virtio, false), shown(VmNicModel::Virtio, true));
        assert_eq!(secondary[..primary.len()], primary);
        assert_eq!(secondary[primary.len()..], ["-incoming", "defer"]);
        let devices = primary.iter().filter(|word| word.contains("-pci,"));
        assert_eq!(devices.filter(|word| word.ends_with("disable-modern=on")).count(), 4);
        assert!(primary.iter().any(|word| word.ends_with("file.locking=off,file.filename=/cache/a,,b.ext4")));
        let other = shown(VmNicModel::E1000, true);
        assert!(other.contains(&"e1000,id=nic0,netdev=net0,mac=02:02:02:02:02:02,romfile=".to_owned()));
    }

    #[test]
    fn versions_are_read_as_distributions_write_them() {
        let number = |version: &str| {
            Qemu { program: PathBuf::new(), version: version.to_owned(), sandbox: true, unpacked_in: None }
                .number()
        };
        assert_eq!(number("7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)"), Some((7, 2)));
        assert_eq!(number("11.1.0"), Some((11, 1)));
        assert_eq!(number("custom"), None);
    }

    #[test]
    fn a_program_that_is_no_qemu_is_named() {
        let error = Qemu::at(PathBuf::from("/bin/false")).unwrap_err().to_string();
        assert!(error.starts_with("QEMU can't be used: /bin/false: exit status: 1"), "{error}");
    }
}
