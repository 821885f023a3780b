//! `vtax setup`: install and fetch what is missing.

use std::io::Write;

use anyhow::Context;
use vtax_lab::path::PathPackage;
use vtax_vm::setup::{Package, PrivateProgram, Report, SetupOptions};
use vtax_vm::{Cache, Qemu};

use crate::exit::{Classify, Exit, Outcome};
use crate::out;

/// What the tests and benchmarks need besides: each is run for real, beside or against vtax.
const FOR_TESTS: &[(&str, &[&str])] = &[
    ("openssh-server", &["sshd"]),
    ("wrk", &["wrk"]),
    ("httperf", &["httperf"]),
    ("nghttp2-client", &["h2load"]),
    ("openssl", &["openssl"]),
    ("websocketd", &["websocketd"]),
    ("python3-websockets", &["/usr/lib/python3/dist-packages/websockets/__init__.py"]),
    ("slurm-client", &["srun"]),
    ("sip-tester", &["sipp"]),
    ("cpio", &["cpio"]),
    ("tshark", &["tshark"]),
    ("tigervnc-viewer", &["xtigervncviewer"]),
    ("iperf3", &["iperf3"]),
    ("fio", &["fio"]),
    ("libiscsi-bin", &["iscsi-perf"]),
    ("libnfs-utils", &["nfs-cp"]),
    ("containernetworking-plugins", &["/usr/lib/cni/bridge"]),
    ("libseccomp-dev", &["/usr/include/seccomp.h"]),
    ("pkg-config", &["pkg-config"]),
    ("iproute2", &["ip"]),
    ("procps", &["ps"]),
    ("python3", &["python3"]),
    ("chromium", &["chromium"]),
    ("chromium-driver", &["chromedriver"]),
    ("tidy", &["tidy"]),
];

/// The same, with the unit that the package would start: a Slurm whose nodes are emulated.
const DAEMONS_FOR_TESTS: &[(&str, &str, &str)] = &[
    ("munge", "munged", "munge.service"),
    ("slurmctld", "slurmctld", "slurmctld.service"),
    ("slurmd", "slurmd", "slurmd.service"),
];

/// Install and fetch what is missing: QEMU and its disk tools, an OCI runtime, user-mode Linux, a kernel for guests.
///
/// Packages are installed where this user may (root, apt); otherwise the command that would is
/// printed, or, on a host without apt, their names; the rest is done all the same, as it is where a step fails. The exit code is 3 where
/// something is still missing at the end. Can be repeated and interrupted at any time.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also what the test suite and the benchmarks need, the services among it.
    #[arg(long)]
    tests: bool,
    /// Also the services of the catalogue: web servers and PHP, Kamailio with MariaDB, Redis, storage, FTP, remote desktops.
    #[arg(long)]
    services: bool,
    /// Also what paths are made of: Open vSwitch, OpenFlow controllers, Mininet, nftables, pasta, slirp4netns, WireGuard's
    /// tool, dnsmasq, an ssh client.
    #[arg(long)]
    paths: bool,
    /// Also what routed labs are made of: FRR.
    #[arg(long)]
    labs: bool,
    /// Leave out the newer QEMU that fault-tolerant pairs need where this host's is too old.
    #[arg(long)]
    no_fault_tolerance: bool,
    /// Fetch the distribution's present kernel even where a usable one is there.
    #[arg(long)]
    renew: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    // It needs nothing but the C library and one that apt itself needs.
    let runtime = Package::new(vtax_lab::CONTAINER_PACKAGE, &["crun", "runc"]).or_unpacked();
    let mut packages = vec![runtime];
    // Other hosts' archives may not even know these packages, and apt then installs none of those that it is told.
    if Qemu::check_host().is_ok() {
        packages.extend(of_machines());
        if !args.no_fault_tolerance {
            // Makes the images with the files of protected guests.
            packages.push(Package::new("e2fsprogs", &["mke2fs"]));
        }
    }
    if args.services || args.tests {
        let services = vtax_service::packages();
        packages.extend(services.iter().map(|p| Package::new(p.name, &[p.program]).with_unit(p.unit)));
    }
    if args.paths || args.tests {
        packages.extend(vtax_lab::path::packages().iter().map(of_path));
    }
    if args.labs || args.tests {
        packages.extend(vtax_lab::path::lab_packages().iter().map(of_path));
    }
    if args.tests {
        packages.extend(FOR_TESTS.iter().map(|(name, programs)| Package::new(name, programs)));
        let daemon =
            |(name, program, unit): &(&str, &str, &str)| Package::new(name, &[program]).with_unit(Some(unit));
        packages.extend(DAEMONS_FOR_TESTS.iter().map(daemon));
    }
    let private = if args.services || args.tests { private() } else { Vec::new() };
    let fault_tolerance = !args.no_fault_tolerance;
    let options =
        SetupOptions { cache: Cache::of_user(), packages, private, renew: args.renew, fault_tolerance };
    let mut err = std::io::stderr();
    let mut progress = |line: &str| drop(writeln!(err, "setup: {line}"));
    match vtax_vm::setup::run(&options, &mut progress) {
        Ok(report) => out::text(&render_report(&report)).map(|()| exit_of(&report)),
        Err(error) => Err(error).context("set up").host_cannot(),
    }
}

/// What virtual machines and user-mode Linux are made of.
fn of_machines() -> [Package; 3] {
    // qemu-img makes disks of guests in the format qcow2.
    let disks = Package::new("qemu-utils", &["qemu-img"]);
    // It needs nothing but the C library.
    let uml = Package::new(vtax_vm::UML_PACKAGE, &[vtax_vm::UML_PROGRAM]).or_unpacked();
    [Package::qemu(), disks, uml]
}

fn of_path(package: &PathPackage) -> Package {
    let plain = Package::new(package.name, &[package.program]).with_unit(package.unit);
    if package.runs_unpacked { plain.or_unpacked() } else { plain }
}

/// Services whose packages exclude those of others.
fn private() -> Vec<PrivateProgram> {
    let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
    let of = |program: &vtax_service::PrivateProgram| PrivateProgram {
        packages: owned(program.packages),
        programs: owned(program.programs),
        place: program.place.to_owned(),
        list: vtax_service::PrivateProgram::LIST.to_owned(),
    };
    vtax_service::private_programs().iter().map(of).collect()
}

/// How a setup ends that came to this: done only where all that was asked for and can be here is there.
fn exit_of(report: &Report) -> Exit {
    let reasons = [&report.install_failed, &report.to_install, &report.no_kernel, &report.no_newer_qemu];
    let whole = reasons.iter().all(|reason| reason.is_none()) && report.not_unpacked.is_empty();
    if whole { Exit::Done } else { Exit::HostCannot }
}

/// What was done, and what is still missing.
fn render_report(report: &Report) -> String {
    let mut text = String::new();
    if !report.installed.is_empty() {
        text += &format!("installed {}\n", report.installed.join(" "));
    }
    if let Some(reason) = &report.install_failed {
        text += &format!("not all went well with the installation: {reason}\n");
    }
    for what in &report.unpacked {
        text += &format!("unpacked into the cache {what}\n");
    }
    for reason in &report.not_unpacked {
        text += &format!("not unpacked: {reason}\n");
    }
    text += &kernel_lines(report);
    if let Some(version) = &report.newer_qemu {
        text += &format!("QEMU for fault-tolerant pairs: a private copy of {version}\n");
    }
    if let Some(reason) = &report.no_newer_qemu {
        text += &format!("no fault-tolerant pairs: {reason} (--no-fault-tolerance leaves them out)\n");
    }
    if let Some(way) = &report.to_install {
        text += &format!("still missing, and {way}\n");
    }
    text
}

/// What guests will boot, or why they can't.
fn kernel_lines(report: &Report) -> String {
    let mut text = String::new();
    if let Some(kernel) = &report.kernel {
        let origin = match (report.kernel_of_host, report.kernel_fetched) {
            (true, _) => "the host's own",
            (false, true) => "fetched now",
            (false, false) => "in the cache",
        };
        text += &format!("guest kernel {kernel} ({origin})\n");
    }
    match (&report.no_kernel, &report.kernel) {
        (Some(reason), None) => text += &format!("no guest kernel: {reason}\n"),
        (Some(reason), Some(_)) => text += &format!("guest kernel not renewed: {reason}\n"),
        (None, _) => {}
    }
    if let Some(reason) = &report.no_virtual_machines {
        text += &format!("nothing was set up for virtual machines: {reason}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_missing_is_told_and_no_success() {
        let whole = Report {
            installed: vec!["nginx".into()],
            kernel: Some("6.1.0-1-amd64".into()),
            kernel_fetched: true,
            ..Report::default()
        };
        assert_eq!(exit_of(&whole), Exit::Done);
        assert_eq!(render_report(&whole), "installed nginx\nguest kernel 6.1.0-1-amd64 (fetched now)\n");
        let missing = [
            (
                Report { to_install: Some("by hand: x".into()), ..whole.clone() },
                "still missing, and by hand: x\n",
            ),
            (Report { not_unpacked: vec!["no archive".into()], ..whole.clone() }, "not unpacked: no archive"),
            (
                Report { install_failed: Some("why".into()), ..whole.clone() },
                "not all went well with the installation: why\n",
            ),
            (
                Report { no_newer_qemu: Some("none".into()), ..whole.clone() },
                "none (--no-fault-tolerance leaves",
            ),
            (Report { no_kernel: Some("why".into()), ..whole.clone() }, "\nguest kernel not renewed: why\n"),
            (
                Report { no_kernel: Some("why".into()), kernel: None, ..whole.clone() },
                "\nno guest kernel: why\n",
            ),
        ];
        for (report, words) in missing {
            assert_eq!(exit_of(&report), Exit::HostCannot, "{report:?}");
            let text = render_report(&report);
            assert!(text.contains(words) && text.contains("installed nginx\n"), "{text}");
        }
        // What no setup could bring is no failure of one.
        let other = Report { no_virtual_machines: Some("why".into()), kernel: None, ..whole };
        assert_eq!(exit_of(&other), Exit::Done);
        assert_eq!(render_report(&other), "installed nginx\nnothing was set up for virtual machines: why\n");
    }
}
