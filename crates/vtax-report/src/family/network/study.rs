//! The study this repeats: B. Hartpence and A. Kwasinski, "Performance Evaluation of Networks with
//! Physical and Virtual Links", Rochester Institute of Technology; its tables II to VI as printed.

use vtax_plan::model::{Cell, EnvironmentKind, PathKind, SdnMode};

/// Windows of the study's rows, in bytes: iperf's `4K` is 4,096.
pub(crate) const WINDOWS: [u64; 4] = [4_096, 8_192, 16_384, 65_536];
/// Seconds of each of its tests.
pub(crate) const SECONDS: f64 = 30.0;
/// Bytes of what it calls a megabyte (section III.E).
pub(crate) const MEGABYTE: f64 = 1_048_576.0;
/// Repetitions of each of its tests.
pub(crate) const REPETITIONS: u32 = 10;

/// A mean of transfers in MB of 30 s, and their standard deviation where the study prints it.
pub(crate) type Printed = (f64, Option<f64>);

/// A column of a table.
#[derive(Debug)]
pub(crate) struct Column {
    /// As the study calls it.
    pub(crate) name: &'static str,
    /// By window.
    pub(crate) values: [Printed; 4],
}

/// What a table of the study is about, in the terms of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Two hosts and a physical Gigabit switch.
    Physical,
    /// Two virtual machines on one virtual switch.
    VmVm,
    /// Virtual nodes on a switch that an OpenFlow controller steers.
    Sdn,
    /// A physical host and a virtual machine.
    Bridged,
    /// Two hosts of Mininet's.
    Mininet,
}

impl Scenario {
    pub(crate) const ALL: [Self; 5] = [Self::Physical, Self::VmVm, Self::Sdn, Self::Bridged, Self::Mininet];

    /// As table VI calls it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Physical => "Baseline",
            Self::VmVm => "VMs",
            Self::Sdn => "SDN",
            Self::Bridged => "Bridged",
            Self::Mininet => "Mininet",
        }
    }

    /// Which of them a cell repeats, if one.
    pub(crate) fn of(cell: &Cell) -> Option<Self> {
        let native = matches!(cell.environment.kind, EnvironmentKind::Native);
        let gigabit = cell.path.rate.is_some_and(|r| r.0 == 1_000_000_000);
        match &cell.path.kind {
            // Its SDN is one whose controller sets flows up and is not asked again.
            PathKind::Sdn(sdn) if sdn.mode == SdnMode::Reactive => Some(Self::Sdn),
            PathKind::Bridged(_) => Some(Self::Bridged),
            PathKind::VmVm(_) => Some(Self::VmVm),
            PathKind::Mininet(_) => Some(Self::Mininet),
            PathKind::Nic(_) => Some(Self::Physical),
            PathKind::Bridge if native && gigabit => Some(Self::Physical),
            _ => None,
        }
    }
}

/// A table of transfers by window.
#[derive(Debug)]
pub(crate) struct Table {
    /// `II`.
    pub(crate) number: &'static str,
    /// Its caption.
    pub(crate) title: &'static str,
    pub(crate) columns: &'static [Column],
    /// What it is compared with.
    pub(crate) scenarios: &'static [Scenario],
    /// What of it can't be repeated here.
    pub(crate) missing: &'static str,
}

const fn sd(mean: f64, sd: f64) -> Printed {
    (mean, Some(sd))
}

const fn only(mean: f64) -> Printed {
    (mean, None)
}

/// Tables II to VI.
pub(crate) const TABLES: [Table; 5] = [
    Table {
        number: "II",
        title: "Baseline transfer values (MB) vs. window size",
        columns: &[
            Column {
                name: "Cisco",
                values: [sd(772.6, 16.85), sd(1798.0, 6.0), sd(1835.0, 5.0), sd(2793.0, 9.0)],
            },
            Column {
                name: "Juniper",
                values: [sd(788.5, 3.41), sd(1820.0, 30.66), sd(1820.0, 10.0), sd(2725.0, 33.54)],
            },
            Column {
                name: "D Link",
                values: [sd(814.9, 33.64), sd(1824.0, 23.75), sd(1831.0, 3.0), sd(2800.0, 16.73)],
            },
        ],
        scenarios: &[Scenario::Physical],
        missing: "Cisco 3560, Juniper EX-4200 and D-Link DGS-2205 with Windows 7 hosts",
    },
    Table {
        number: "III",
        title: "VM transfer values (MB)",
        columns: &[
            Column {
                name: "Linux 1GB",
                values: [sd(991.9, 18.9), sd(1700.0, 44.5), sd(4059.0, 109.3), sd(10980.0, 218.2)],
            },
            Column {
                name: "Linux 2GB",
                values: [sd(994.0, 12.6), sd(1779.0, 31.4), sd(4101.0, 85.5), sd(10800.0, 352.1)],
            },
            Column {
                name: "WinXP 1GB",
                values: [sd(2007.0, 7.8), sd(2014.0, 20.1), sd(2424.0, 14.3), sd(3612.0, 64.2)],
            },
            Column {
                name: "WinXP 2GB",
                values: [sd(2000.0, 28.3), sd(2013.0, 22.8), sd(2401.0, 8.3), sd(3609.0, 76.7)],
            },
        ],
        scenarios: &[Scenario::VmVm],
        missing: "virtual machines with Windows XP",
    },
    Table {
        number: "IV",
        title: "SDN transfer values (MB)",
        columns: &[
            Column {
                name: "SDN Linux",
                values: [sd(447.7, 13.6), sd(765.5, 13.7), sd(1646.0, 49.8), sd(4127.0, 64.8)],
            },
            Column {
                name: "SDN Win XP",
                values: [sd(1280.0, 31.9), sd(1281.0, 17.0), sd(1559.0, 16.4), sd(2259.0, 54.9)],
            },
        ],
        scenarios: &[Scenario::Sdn],
        missing: "SDN nodes with Windows XP",
    },
    Table {
        number: "V",
        title: "Bridged and Mininet transfer values (MB)",
        columns: &[
            Column {
                name: "Baseline AVG",
                values: [sd(792.0, 27.9), sd(1814.0, 25.4), sd(1829.0, 9.2), sd(2773.0, 40.5)],
            },
            Column {
                name: "Bridged Connection",
                values: [sd(949.1, 4.3), sd(952.0, 1.1), sd(1321.0, 15.1), sd(1768.0, 10.7)],
            },
            Column {
                name: "Mininet",
                values: [sd(2054.0, 8.0), sd(2244.0, 6.6), sd(2980.0, 242.4), sd(3284.0, 12.8)],
            },
        ],
        scenarios: &[Scenario::Physical, Scenario::Bridged, Scenario::Mininet],
        missing: "",
    },
    Table {
        number: "VI",
        title: "Scenario transfer values (MB)",
        columns: &[
            Column { name: "Baseline", values: [only(805.2), only(1527.7), only(1639.3), only(2515.8)] },
            Column { name: "VMs", values: [only(1498.2), only(1876.5), only(3246.3), only(7250.3)] },
            Column { name: "SDN", values: [only(863.9), only(1023.3), only(1602.5), only(3193.0)] },
            Column { name: "Bridged", values: [only(949.1), only(952.0), only(1321.0), only(1768.0)] },
            Column { name: "Mininet", values: [only(2054.0), only(2244.0), only(2982.0), only(3286.0)] },
        ],
        scenarios: &Scenario::ALL,
        missing: "",
    },
];

/// Columns of tables II to V as rows of figure 5, with what each repeats.
pub(crate) fn figure_5() -> impl Iterator<Item = (Scenario, &'static Column)> {
    let of = |table: usize, scenario: Scenario| TABLES[table].columns.iter().map(move |c| (scenario, c));
    let last = &TABLES[3].columns;
    of(0, Scenario::Physical)
        .chain(of(1, Scenario::VmVm))
        .chain(of(2, Scenario::Sdn))
        .chain([(Scenario::Bridged, &last[1]), (Scenario::Mininet, &last[2])])
}

/// What of the study isn't repeated, why, and what stands for it: scenario, reason, stand-in.
pub(crate) const NOT_REPEATED: [[&str; 3]; 7] = [
    [
        "Tables II and V: switches of Cisco (3560), Juniper (EX-4200) and D-Link (DGS-2205)",
        "Hardware of three vendors, which a program can't bring along.",
        "An emulated Gigabit link that has proved its rate. Whoever has a switch measures over it: path nic.",
    ],
    [
        "Tables III and IV, figures 5 and 6: Windows XP, as host and as virtual machine",
        "No free image of it may be distributed, and its support ended in 2014.",
        "Other kernels and congestion controls, as the modern form of the question (plans/tcp-stacks.yaml).",
    ],
    [
        "Tables II and V, figure 6: Windows 7 hosts with 4 and 8 GB",
        "No free image of it may be distributed.",
        "Native Linux at both ends of the emulated Gigabit link.",
    ],
    [
        "Figure 6: Ubuntu 14 hosts with 4 and 8 GB, Windows XP laptops with 1 GB",
        "The study prints the figure without its numbers, and a native end has the host's memory.",
        "Virtual machines with 1 and 2 GiB, and kernels by congestion control.",
    ],
    [
        "Tables III to V: VMware ESXi with an emulated Intel network card",
        "Not free software, and it needs a machine of its own.",
        "QEMU with a virtio network card; the accelerator stands beside each figure of a VM.",
    ],
    [
        "All: iperf 1.7 and 2.0.5",
        "Two versions on two systems made the study's own figures hard to compare.",
        "One program at both ends, vtax, compared with iperf3 in the test suite and by make bench.",
    ],
    [
        "Section II.A.2: jitter and packet loss",
        "The study measured them and left its figures out.",
        "Both are here, over every path.",
    ],
];

#[cfg(test)]
mod tests {
    use super::*;

    /// Table V's first column is printed as the mean of table II's rows, and so are others of VI.
    #[test]
    fn the_tables_agree_with_each_other() {
        for (row, expected) in TABLES[3].columns[0].values.iter().enumerate() {
            let mean = TABLES[0].columns.iter().map(|c| c.values[row].0).sum::<f64>() / 3.0;
            assert!((mean - expected.0).abs() < 1.0, "{mean} {expected:?}");
        }
        for (row, expected) in TABLES[4].columns[1].values.iter().enumerate() {
            let mean = TABLES[1].columns.iter().map(|c| c.values[row].0).sum::<f64>() / 4.0;
            assert!((mean - expected.0).abs() < 0.01 * mean, "{mean} {expected:?}");
        }
        for (row, expected) in TABLES[4].columns[2].values.iter().enumerate() {
            let mean = TABLES[2].columns.iter().map(|c| c.values[row].0).sum::<f64>() / 2.0;
            assert!((mean - expected.0).abs() < 1.0, "{mean} {expected:?}");
        }
        assert_eq!(figure_5().count(), 11);
    }
}
