//! Plans of the family `ftp`: what their keys mean, and what is refused.

use vtax_plan::model::{
    DataMode, FileSizes, FtpArrivals, FtpMix, FtpTls, FtpTlsMode, FtpWorkload, Plan, ServiceKind, TlsVersion,
    Workload,
};
use vtax_plan::{PlanErrors, parse};
use vtax_units::{Bytes, Nanos};

const PLAN: &str = "\
vtax: 1
name: t
baseline: native
environments: [native, container]
services: ftp
workload: {ftp: {}}
measure: [capacity, {latency: {load: 100/s}}, throughput]
";

fn plan(overrides: &[&str]) -> Plan {
    parse("p", PLAN.as_bytes(), overrides).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(overrides: &[&str]) -> String {
    match parse("p", PLAN.as_bytes(), overrides) {
        Err(errors @ PlanErrors::Invalid(_)) => errors.to_string(),
        other => panic!("{overrides:?} is refused: {other:?}"),
    }
}

fn workloads(plan: &Plan) -> Vec<&FtpWorkload> {
    let cells = plan.cells.iter();
    cells
        .map(|cell| match &cell.workload {
            Workload::Ftp(ftp) => &**ftp,
            other => panic!("{other:?}"),
        })
        .collect()
}

#[test]
fn defaults_are_what_the_documentation_says() {
    let plan = plan(&[]);
    let ServiceKind::Ftp(ftp) = &plan.cells[0].service.kind else { panic!("{:?}", plan.cells[0]) };
    assert_eq!((ftp.port, ftp.implicit, ftp.require_reuse), (2121, false, false));
    let workload = workloads(&plan)[0];
    let requests = &workload.requests;
    assert_eq!(requests.mix, FtpMix { retr: 1, stor: 0, list: 0 });
    assert_eq!((requests.files, requests.size), (20, FileSizes::Fixed(Bytes(100 << 10))));
    assert_eq!((requests.transfers, requests.think, requests.read_back), (Some(10), Nanos::ZERO, 16));
    assert_eq!((requests.data, requests.arrivals_of), (DataMode::Epsv, FtpArrivals::Transfers));
    assert_eq!((&requests.tls, requests.rest), (&None, false));
    assert_eq!((workload.clients, workload.addresses, workload.timeout), (16, 1, Nanos::from_secs(30)));
}

#[test]
fn tls_and_sizes_are_made_of_several_keys() {
    let plan = plan(&[
        "workload.ftp.tls=explicit",
        "workload.ftp.protect=[control, all]",
        "workload.ftp.version=tls12",
        "workload.ftp.resume=false",
        "workload.ftp.distribution=log-normal",
        "workload.ftp.size=1KiB",
        "workload.ftp.transfers=0",
    ]);
    assert_eq!(plan.cells.len(), 4);
    let all = workloads(&plan);
    let tls = |protect| FtpTls {
        mode: FtpTlsMode::Explicit,
        protect,
        resume: false,
        version: Some(TlsVersion::V12),
        cipher: None,
    };
    for protect in [false, true] {
        assert_eq!(all.iter().filter(|w| w.requests.tls == Some(tls(protect))).count(), 2);
    }
    let sizes = FileSizes::LogNormal(Bytes(1 << 10), Bytes(10 << 10));
    assert!(all.iter().all(|w| w.requests.size == sizes && w.requests.transfers.is_none()));
}

#[test]
fn without_tls_its_keys_make_no_cells() {
    let plan = plan(&["workload.ftp.tls=[none, explicit]", "workload.ftp.protect=[control, all]"]);
    assert_eq!(plan.cells.len(), 6);
    let clear = plan.cells.iter().filter(|cell| !cell.parameters.contains_key("protect"));
    assert_eq!(clear.count(), 2);
    assert_eq!(workloads(&plan).iter().filter(|w| w.requests.tls.is_none()).count(), 2);
}

#[test]
fn what_makes_no_sense_is_refused() {
    for (overrides, word) in [
        (&["workload.ftp.retr=0"][..], "nothing"),
        (&["workload.ftp.files=0"], "file"),
        (&["workload.ftp.clients=20001"], "20000"),
        (&["workload.ftp.timeout=0s"], "timeout"),
        (&["workload.ftp.bytes=0B"], "nothing to do"),
        (&["workload.ftp.cipher=TLS_RSA_WITH_RC4_128_MD5"], "cipher suite"),
        (&["workload.ftp.cipher=TLS_AES_128_GCM_SHA256"], "`cipher` means nothing without TLS"),
        (&["workload.ftp.protect=[control, all]"], "`protect` means nothing without TLS"),
        (&["workload.ftp.resume=false"], "`resume` means nothing without TLS"),
        (&["workload.ftp.version=tls12"], "write `tls: explicit`"),
        (&["workload.ftp.tls=implicit"], "same time"),
        (&["services=[{ftp: {implicit: true}}]"], "same time"),
        (&["services=[{ftp: {implicit: [false, true]}}]", "workload.ftp.tls=[none, explicit]"], "same time"),
        (&["workload.ftp.tls=[explicit, implicit]"], "same time"),
        (
            &[
                "workload.ftp.tls=explicit",
                "workload.ftp.version=tls13",
                "workload.ftp.cipher=TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            ],
            "is of another version of TLS",
        ),
        (
            &["workload.ftp.tls=explicit", "workload.ftp.cipher=TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"],
            "needs a certificate with an RSA key",
        ),
        (&["services=redis"], "does not speak"),
        (&["services=[{ftp: {require_reuse: [false, true]}}]"], "means nothing to vtax's own server"),
        (&["workload.ftp.clients=[16, 4097]"], "`ftp` serves 4096 `clients` at once, and 4097 are to use it"),
    ] {
        let error = refused(overrides);
        assert!(error.contains(word), "{overrides:?}: {error}");
    }
    plan(&["services=[{vsftpd: {require_reuse: true}}]"]);
    plan(&["services=[vsftpd]", "workload.ftp.clients=20000"]);
    plan(&["workload.ftp.clients=4096"]);
    plan(&["workload.ftp.tls=implicit", "services=[{vsftpd: {implicit: true}}]"]);
    let both =
        plan(&["workload.ftp.tls=[explicit, implicit]", "services=[{vsftpd: {implicit: [false, true]}}]"]);
    assert_eq!(both.cells.len(), 2 * 2, "each takes what suits it");
    let suites = "workload.ftp.cipher=[TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256, TLS_AES_128_GCM_SHA256]";
    let own = plan(&["workload.ftp.tls=explicit", "workload.ftp.version=[tls12, tls13]", suites]);
    assert_eq!(own.cells.len(), 2 * 2, "each version has its own");
}
