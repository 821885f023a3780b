//! The generator against a server that runs already.

use vtax_plan::model::{FtpServerOptions, Service, ServiceKind};
use vtax_service::{Place, RunningService, missing};

use super::*;

#[test]
fn a_server_that_runs_already() {
    let Ok(text) = std::env::var("VTAX_FTP_AT") else { return };
    let (at, login) = text.split_once('/').unwrap();
    let (user, password) = login.split_once(':').unwrap();
    let kinds = [
        None,
        Some(tls(false, false, None)),
        Some(tls(true, true, Some(TlsVersion::V12))),
        Some(tls(true, true, Some(TlsVersion::V13))),
        Some(tls(true, false, None)),
    ];
    for data in [DataMode::Epsv, DataMode::Pasv, DataMode::Active] {
        for tls in kinds.clone() {
            let mut spec = spec(at.parse().unwrap(), FtpRequests { data, tls: tls.clone(), ..requests() });
            (spec.user, spec.password) = (user.to_owned(), password.to_owned());
            let session = match FtpSession::open(&spec) {
                Ok(session) => session,
                Err(error) => {
                    eprintln!("{data:?} {tls:?}: {error}");
                    continue;
                }
            };
            let mut long = step(Model::Closed);
            long.duration = Nanos::from_secs(2);
            let mut result = session.run_step(&long, &Control::new()).unwrap();
            let Some(Details::Ftp(details)) = result.details.take() else { panic!("no details") };
            let short =
                |kind: &vtax_load::ftp::FtpTransfers| (kind.ok, kind.failed, kind.short, kind.corrupt);
            eprintln!(
                "{data:?} {tls:?}\n   {:?} {:?} {:?} logins {} broken {} {:?} {:?} unclean {} {:?} {:?}",
                short(&details.retr),
                short(&details.stor),
                short(&details.list),
                details.logins,
                details.broken_sessions,
                details.handshakes,
                details.tls,
                details.without_close_notify,
                details.refusals,
                details.first_failure
            );
        }
    }
}

#[test]
fn vsftpd_takes_every_mode_of_data_connections_and_resumed_tls() {
    let port = vtax_sys::free_port();
    let kind = ServiceKind::Vsftpd(FtpServerOptions { port, implicit: false, require_reuse: true });
    let timeout = Nanos::from_secs(30);
    let service = Service { name: "vsftpd".into(), kind, ready_timeout: timeout, stop_timeout: timeout };
    assert_eq!(missing(&service), None, "`vtax setup --tests` installs it");
    let directory = tempfile::tempdir().unwrap();
    let place = Place {
        address: Ipv4Addr::LOCALHOST.into(),
        directory: directory.path().join("service"),
        cpus: 1,
        vtax: PathBuf::from("/proc/self/exe"),
        die_with_starter: false,
        prepared: None,
        call_off: None,
    };
    let running = RunningService::start(&service, None, &place, |_| {}).unwrap();
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
