//! What a server's certificate is checked for, where it is checked.

use std::net::Ipv4Addr;

use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use vtax_load::Model;
use vtax_load::ftp::{FtpSession, FtpVerify};
use vtax_plan::model::FtpRequests;
use vtax_service::embedded::ftp::FtpCertificate;

use super::{Server, all_right, requests, run, spec, tls};

/// A certificate for 127.0.0.1 whose time is over.
fn expired() -> FtpCertificate {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["127.0.0.1".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2021, 1, 1));
    let certificate = params.self_signed(&key).unwrap().der().to_vec();
    FtpCertificate { certificate, key: key.serialize_der() }
}

#[test]
fn an_expired_certificate_is_refused_only_where_it_is_checked() {
    let server = Server::with(Ipv4Addr::LOCALHOST.into(), false, expired());
    let mut spec = spec(server.address, FtpRequests { tls: Some(tls(true, true, None)), ..requests() });
    let (result, details) = run(&spec, Model::Closed);
    all_right(&result, &details);
    let name = "127.0.0.1".to_owned();
    spec.verify = FtpVerify::Authorities { name, roots: vec![server.root.clone()] };
    let error = FtpSession::open(&spec).map(drop).unwrap_err().to_string();
    assert!(error.contains("TLS") && error.contains("expired"), "{error}");
}

#[test]
fn a_stranger_s_signature_is_refused() {
    let server = Server::local();
    let mut spec = spec(server.address, FtpRequests { tls: Some(tls(true, true, None)), ..requests() });
    let name = "127.0.0.1".to_owned();
    spec.verify = FtpVerify::Authorities { name, roots: vec![expired().certificate] };
    let error = FtpSession::open(&spec).map(drop).unwrap_err().to_string();
    assert!(error.contains("certificate"), "{error}");
}
