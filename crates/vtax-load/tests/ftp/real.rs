//! The generator against vsftpd.

use vtax_plan::model::{Backend, FtpServerOptions, Service, ServiceKind};
use vtax_service::{RunningService, StartContext, missing};

use super::*;

#[test]
fn vsftpd_takes_every_mode_of_data_connections_and_resumed_tls() {
    if !vtax_sys::require::installed(&["vsftpd"]) {
        return;
    }
    let port = vtax_sys::free_port();
    let kind = ServiceKind::Vsftpd(FtpServerOptions {
        port,
        implicit: false,
        require_reuse: true,
        backend: Backend::Files,
    });
    let timeout = Nanos::from_secs(30);
    let service = Service { name: "vsftpd".into(), kind, ready_timeout: timeout, stop_timeout: timeout };
    assert_eq!(missing(&service), None, "`vtax setup --tests` installs it");
    let directory = tempfile::tempdir().unwrap();
    let context = StartContext {
        address: Ipv4Addr::LOCALHOST.into(),
        directory: directory.path().join("service"),
        cpus: 1,
        vtax: PathBuf::from("/proc/self/exe"),
        die_with_starter: false,
        prepared: None,
        disk: None,
        call_off: None,
    };
    let running = RunningService::start(&service, None, &context, |_| {}).unwrap();
    let of = |data, tls| {
        let mut spec = spec(running.address(), FtpRequests { data, tls, ..requests() });
        spec.user = FtpServerOptions::USER.to_owned();
        spec.password = FtpServerOptions::PASSWORD.to_owned();
        spec
    };
    for data in [DataMode::Epsv, DataMode::Pasv, DataMode::Active] {
        for tls in [None, Some(tls(false, false, None)), Some(tls(true, true, None))] {
            let (result, details) = run(&of(data, tls), Model::Closed);
            all_right(&result, &details);
            assert_eq!(details.handshakes.data_full, 0);
        }
    }
    let error = FtpSession::open(&of(DataMode::Epsv, Some(tls(true, false, None)))).map(drop).unwrap_err();
    assert!(error.to_string().contains("522"), "{error}");
    let _ = running.stop();
}
