//! Digest authentication: the vectors of the standards, and what is refused.

use proptest::prelude::*;
use vtax_wire::sip::{Algorithm, Answer, Challenge, Credentials, Hex, QopAuth, SipError, ha1, nonce_count};

/// RFC 2617 section 3.5.
const RFC_2617: &[u8] = br#"Digest username="Mufasa", realm="testrealm@host.com",
    nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", uri="/dir/index.html", qop=auth, nc=00000001,
    cnonce="0a4f113b", response="6629fae49393a05397450978507c4ef1", opaque="5ccc069c403ebaf9f0171e9517f40e41""#;

#[test]
fn the_example_of_rfc_2617() {
    let challenge = Challenge::parse(
        br#"Digest realm="testrealm@host.com", qop="auth,auth-int",
            nonce="dcd98b7102dd2f0e8b11d0f600bfb0c093", opaque="5ccc069c403ebaf9f0171e9517f40e41""#,
    )
    .unwrap();
    assert!(challenge.qop_auth && !challenge.stale && challenge.algorithm.is_none());
    assert_eq!(challenge.opaque, Some(&b"5ccc069c403ebaf9f0171e9517f40e41"[..]));
    let secret = ha1(Algorithm::Md5, b"Mufasa", challenge.realm, b"Circle Of Life");
    assert_eq!(secret.text(), "939e7578ed9e3c518a452acee763bce9");
    let credentials = Credentials::parse(RFC_2617).unwrap();
    assert!(credentials.is_answer_of(&secret, b"GET"));
    assert!(!credentials.is_answer_of(&secret, b"PUT"));
    assert_eq!(credentials.nonce_count(), Some(1));
    let wrong = ha1(Algorithm::Md5, b"Mufasa", challenge.realm, b"circle of life");
    assert!(!credentials.is_answer_of(&wrong, b"GET"));
}

#[test]
fn the_examples_of_rfc_7616() {
    // Section 3.9.1: the same request, answered by either hash.
    for (algorithm, response) in [
        (Algorithm::Md5, "8ca523f5e9506fed4657c9700eebdbec"),
        (Algorithm::Sha256, "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ] {
        let secret = ha1(algorithm, b"Mufasa", b"http-auth@example.org", b"Circle of Life");
        let answer = Answer {
            algorithm,
            ha1: &secret,
            method: b"GET",
            uri: b"/dir/index.html",
            nonce: b"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v",
            qop: Some(QopAuth {
                nc: &nonce_count(1),
                cnonce: b"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
            }),
        };
        assert_eq!(answer.response().text(), response);
    }
}

#[test]
fn without_qop_as_in_rfc_2069() {
    // The example of RFC 2069 section 2.4 with the response of its erratum 749.
    let secret = ha1(Algorithm::Md5, b"Mufasa", b"testrealm@host.com", b"CircleOfLife");
    let answer = Answer {
        algorithm: Algorithm::Md5,
        ha1: &secret,
        method: b"GET",
        uri: b"/dir/index.html",
        nonce: b"dcd98b7102dd2f0e8b11d0f600bfb0c093",
        qop: None,
    };
    assert_eq!(answer.response().text(), "1949323746fe6a43ef61f9606e7febea");
}

#[test]
fn what_is_wrong_is_refused() {
    let text = std::str::from_utf8(RFC_2617).unwrap();
    for (change, into, error) in [
        ("Digest", "Basic", SipError::DigestUnsupported),
        ("Digest ", "Digest", SipError::DigestUnsupported),
        ("qop=auth", "qop=auth-int", SipError::DigestUnsupported),
        ("qop=auth", "algorithm=MD4, qop=auth", SipError::DigestUnsupported),
        ("nc=00000001", "nc=1", SipError::Digest),
        ("nc=00000001,", "", SipError::Digest),
        ("username=\"Mufasa\"", "username=\"Mufasa", SipError::Digest),
        ("username=", "username", SipError::Digest),
        ("uri=\"/dir/index.html\"", "uri=\"\"", SipError::Digest),
        ("0a4f113b\",", "0a4f113b\"", SipError::Digest),
    ] {
        let changed = text.replacen(change, into, 1);
        assert_eq!(Credentials::parse(changed.as_bytes()), Err(error), "{changed}");
    }
    assert_eq!(Challenge::parse(b"NoOneKnowsThisScheme opaque-data=here"), Err(SipError::DigestUnsupported));
    assert_eq!(Challenge::parse(b"Digest realm=\"a\""), Err(SipError::Digest));
    assert_eq!(Challenge::parse(b"Digest nonce=\"a\""), Err(SipError::Digest));
    let only_int = Challenge::parse(b"Digest realm=\"a\", nonce=\"b\", qop=\"auth-int\"");
    assert_eq!(only_int, Err(SipError::DigestUnsupported));
    assert_eq!(Hex::of(&[0; 40]).bytes().len(), 64);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_is_written_is_read(
        user in "[ -!#-\\[\\]-~]{1,20}", nonce in "[a-zA-Z0-9+/=]{1,40}", realm in "[a-z.@, ]{0,20}",
        count in any::<u32>(), with_qop in any::<bool>(), sha in any::<bool>(), stale in any::<bool>(),
    ) {
        let algorithm = if sha { Algorithm::Sha256 } else { Algorithm::Md5 };
        let challenge = Challenge {
            realm: realm.as_bytes(), nonce: nonce.as_bytes(), opaque: None,
            algorithm: sha.then_some(algorithm), qop_auth: with_qop, stale,
        };
        let mut out = Vec::new();
        challenge.write(&mut out);
        prop_assert_eq!(Challenge::parse(&out), Ok(challenge));
        let secret = ha1(algorithm, user.as_bytes(), realm.as_bytes(), b"secret");
        let nc = nonce_count(count);
        let qop = with_qop.then_some(QopAuth { nc: &nc, cnonce: b"c" });
        let answer = Answer {
            algorithm, ha1: &secret, method: b"REGISTER", uri: b"sip:a", nonce: nonce.as_bytes(), qop,
        };
        let response = answer.response();
        let credentials = Credentials {
            username: user.as_bytes(), realm: realm.as_bytes(), nonce: nonce.as_bytes(), uri: b"sip:a",
            response: response.bytes(), algorithm: challenge.algorithm, opaque: Some(b""), qop,
        };
        out.clear();
        credentials.write(&mut out);
        let read = Credentials::parse(&out).unwrap();
        prop_assert_eq!(read, credentials);
        prop_assert!(read.is_answer_of(&secret, b"REGISTER"));
        prop_assert_eq!(read.nonce_count(), with_qop.then_some(count));
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0..RFC_2617.len()) {
        let value = [b"Digest ", &bytes[..]].concat();
        let _ = (Challenge::parse(&value), Credentials::parse(&value));
        let _ = (Challenge::parse(&RFC_2617[..cut]), Credentials::parse(&RFC_2617[..cut]));
    }
}
