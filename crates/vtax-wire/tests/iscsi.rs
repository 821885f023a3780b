//! iSCSI: PDUs torn anywhere, digests, and logins against a target that is written down here.

use proptest::prelude::*;
use vtax_wire::iscsi::{
    Chap, Command, Counters, DATA_BEFORE_LOGIN, DataOut, Digest, Digests, IscsiError, Item, Limits, Login,
    LoginAnswer, LoginError, LoginOptions, LoginStep, NO_TAG, Pairs, PduScanner, Residual, Secret, Session,
    TargetPdu, TaskFunction, Writer,
};

/// A PDU as a target sends it.
fn pdu(header: &[u8], segments: &[u8], data: &[u8], (headers, datas): (bool, bool)) -> Vec<u8> {
    let mut out = vec![0; 48];
    out[..header.len()].copy_from_slice(header);
    out[4] = (segments.len() / 4) as u8;
    out[5..8].copy_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(segments);
    if headers {
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
    }
    if data.is_empty() {
        return out;
    }
    let begin = out.len();
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(4), 0);
    if datas {
        let crc = crc32c::crc32c(&out[begin..]);
        out.extend_from_slice(&crc.to_le_bytes());
    }
    out
}

type Seen = (Vec<(TargetPdu, Vec<u8>)>, Option<IscsiError>);

fn scan(mut scanner: PduScanner, bytes: &[u8], piece: usize) -> Seen {
    let mut seen: Vec<(TargetPdu, Vec<u8>)> = Vec::new();
    let mut present = None;
    for part in bytes.chunks(piece) {
        let mut rest = part;
        loop {
            let scanned = match scanner.scan(rest) {
                Ok(scanned) => scanned,
                Err(error) => return (seen, Some(error)),
            };
            rest = &rest[scanned.consumed..];
            match scanned.item {
                Item::Incomplete => break,
                Item::Head(pdu, _) => present = Some((pdu, Vec::new())),
                Item::Data(data) => present.as_mut().expect("a head comes first").1.extend_from_slice(data),
                Item::End => seen.push(present.take().expect("a head comes first")),
            }
        }
        assert!(rest.is_empty());
    }
    (seen, None)
}

fn agreed(digests: (bool, bool)) -> PduScanner {
    let mut scanner = PduScanner::new();
    scanner.agree(Digests { header: digests.0, data: digests.1 }, 1 << 16);
    scanner
}

#[test]
fn headers_are_read_by_their_places() {
    let mut header = [0; 48];
    (header[0], header[1], header[3]) = (0x25, 0x83, 0x08);
    header[16..20].copy_from_slice(&7u32.to_be_bytes());
    header[24..28].copy_from_slice(&3u32.to_be_bytes());
    header[28..32].copy_from_slice(&4u32.to_be_bytes());
    header[32..36].copy_from_slice(&5u32.to_be_bytes());
    header[40..44].copy_from_slice(&4096u32.to_be_bytes());
    header[44..48].copy_from_slice(&512u32.to_be_bytes());
    let counters = Counters { stat_sn: 3, exp_cmd_sn: 4, max_cmd_sn: 5 };
    let expected = TargetPdu::DataIn {
        last: true,
        status: Some(8),
        residual: Residual::Underflow(512),
        tag: 7,
        data_sn: 0,
        offset: 4096,
        counters,
    };
    assert_eq!(TargetPdu::read(&header), Ok(expected));
    header[1] = 0x80;
    assert!(matches!(
        TargetPdu::read(&header),
        Ok(TargetPdu::DataIn { status: None, residual: Residual::None, .. })
    ));
    header[0] = 0x31;
    let Ok(TargetPdu::R2t { offset, length, tag, .. }) = TargetPdu::read(&header) else { panic!() };
    assert_eq!((offset, length, tag), (4096, 512, 7));
    header[0] = 0x01;
    assert_eq!(TargetPdu::read(&header), Err(IscsiError::Opcode(0x01)));
}

#[test]
fn more_data_than_agreed_is_refused_before_it_is_taken() {
    let header = [0x25, 0x80, 0, 0, 0, 1, 0, 1];
    let (seen, error) = scan(
        agreed((false, false)),
        &{
            let mut bytes = vec![0; 48];
            bytes[..8].copy_from_slice(&header);
            bytes
        },
        48,
    );
    assert!(seen.is_empty());
    assert_eq!(error, Some(IscsiError::LongData { got: 65537, most: 65536 }));
    assert_eq!(DATA_BEFORE_LOGIN, 8192);
}

#[test]
fn requests_have_their_fields_in_place() {
    let mut out = Vec::new();
    let writer = Writer { header_digest: true, data_digest: true };
    let command = Command {
        lun: 1 << 48,
        tag: 9,
        length: 5,
        reads: false,
        writes: true,
        unsolicited: false,
        attributes: vtax_wire::iscsi::Attributes::Simple,
        cmd_sn: 2,
        exp_stat_sn: 3,
        cdb: [0xaa; 16],
    };
    writer.command(&mut out, &command, b"abcde");
    assert_eq!(out.len(), 48 + 4 + 8 + 4);
    assert_eq!(out[..8], [0x01, 0xa1, 0, 0, 0, 0, 0, 5]);
    assert_eq!(out[8..16], [0, 1, 0, 0, 0, 0, 0, 0]);
    assert_eq!(out[32..48], [0xaa; 16]);
    assert_eq!(out[48..52], crc32c::crc32c(&out[..48]).to_le_bytes());
    assert_eq!(&out[52..60], b"abcde\0\0\0");
    assert_eq!(out[60..], crc32c::crc32c(b"abcde\0\0\0").to_le_bytes());
    out.clear();
    let data =
        DataOut { lun: 0, tag: 9, target_tag: NO_TAG, exp_stat_sn: 3, data_sn: 1, offset: 5, last: true };
    Writer::default().data_out(&mut out, &data, b"abcd");
    assert_eq!((out.len(), out[0], out[1], &out[48..]), (52, 0x05, 0x80, &b"abcd"[..]));
    out.clear();
    Writer::default().manage(&mut out, (TaskFunction::AbortTask, 1 << 48), 10, (9, 2), (4, 3));
    assert_eq!((out.len(), out[0], out[1]), (48, 0x42, 0x81));
    let words: Vec<u8> = [10u32, 9, 4, 3, 2, 0].into_iter().flat_map(u32::to_be_bytes).collect();
    assert_eq!(out[16..40], words[..], "tag, the task's tag, CmdSN, ExpStatSN, RefCmdSN, RefDataSN");
}

proptest! {
    #[test]
    fn pdus_are_the_same_wherever_they_are_torn(
        datas in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..6),
        segments in 0usize..4, piece in 1usize..400, headers: bool, data_digests: bool,
    ) {
        let digests = (headers, data_digests);
        let header = [0x25, 0x81];
        let bytes: Vec<u8> =
            datas.iter().flat_map(|data| pdu(&header, &vec![0; segments * 4], data, digests)).collect();
        let (seen, error) = scan(agreed(digests), &bytes, piece);
        prop_assert_eq!(error, None);
        let found: Vec<Vec<u8>> = seen.into_iter().map(|(_, data)| data).collect();
        prop_assert_eq!(found, datas);
    }

    #[test]
    fn a_changed_bit_is_found_by_a_digest(
        data in proptest::collection::vec(any::<u8>(), 1..100), place in any::<prop::sample::Index>(), bit in 0u8..8,
    ) {
        let mut bytes = pdu(&[0x25, 0x81], &[], &data, (true, true));
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        let (seen, error) = scan(agreed((true, true)), &bytes, 1000);
        // A length of header segments that was changed is waited for.
        prop_assert!(seen.is_empty());
        prop_assert!(error.is_some() || place == 4);
    }

    #[test]
    fn any_bytes_are_scanned_alike(
        bytes in proptest::collection::vec(any::<u8>(), 0..400), piece in 1usize..100, headers: bool, datas: bool,
    ) {
        let whole = scan(agreed((headers, datas)), &bytes, 400);
        prop_assert_eq!(scan(agreed((headers, datas)), &bytes, piece), whole);
    }

    #[test]
    fn a_login_survives_any_answers(
        answers in proptest::collection::vec((any::<[u8; 4]>(), "[A-Za-z_=0-9\0]{0,80}"), 1..30),
    ) {
        let mut login = Login::new(options(true));
        let mut sent = 0;
        for (bits, text) in answers {
            let mut out = Vec::new();
            login.request(&mut out);
            sent += out.len();
            let answer = LoginAnswer {
                transit: bits[0] & 1 != 0,
                more: bits[0] & 2 != 0,
                stage: bits[1] & 3,
                next: bits[2] & 3,
                status_class: bits[3] & 3,
                ..answer(0, 1)
            };
            if login.response(&answer, text.as_bytes()).is_err() {
                break;
            }
        }
        prop_assert!(sent < 200_000);
    }
}

fn options(mutual: bool) -> LoginOptions {
    let secret = |name: &str, secret: &str| Secret { name: name.into(), secret: secret.into() };
    let target = mutual.then(|| secret("disk", "disk's own secret"));
    LoginOptions {
        initiator: "iqn.2026-11.test:initiator".into(),
        session: Session::Normal("iqn.2026-11.test:disk".into()),
        chap: Some(Chap { own: secret("joe", "joe's secret"), target }),
        header_digest: Digest::Crc32c,
        data_digest: Digest::None,
        immediate_data: true,
        initial_r2t: false,
        limits: Limits::default(),
        isid: [0x80, 0, 0, 0, 0, 1],
        challenge: [3; 24],
    }
}

fn answer(stage: u8, next: u8) -> LoginAnswer {
    LoginAnswer {
        transit: next > stage,
        more: false,
        stage,
        next,
        version_max: 0,
        version: 0,
        tsih: 17,
        tag: 1,
        status_class: 0,
        status_detail: 0,
        counters: Counters { stat_sn: 40, exp_cmd_sn: 1, max_cmd_sn: 128 },
    }
}

/// The text of the next request.
fn asked(login: &mut Login) -> Vec<(String, String)> {
    let mut out = Vec::new();
    login.request(&mut out);
    let length = u32::from_be_bytes([0, out[5], out[6], out[7]]) as usize;
    let pairs = Pairs::of(&out[48..48 + length]);
    pairs.map(|pair| pair.unwrap()).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn value<'a>(pairs: &'a [(String, String)], key: &str) -> &'a str {
    pairs.iter().find(|pair| pair.0 == key).map_or("", |pair| &pair.1)
}

#[test]
fn a_login_with_chap_comes_to_parameters() {
    let mut login = Login::new(options(false));
    assert_eq!(value(&asked(&mut login), "AuthMethod"), "CHAP,None");
    assert_eq!(
        login.response(&answer(0, 0), b"AuthMethod=CHAP\0TargetPortalGroupTag=1\0"),
        Ok(LoginStep::Send)
    );
    assert_eq!(value(&asked(&mut login), "CHAP_A"), "5,7");
    let challenge = b"CHAP_A=5\0CHAP_I=1\0CHAP_C=0x0102\0";
    assert_eq!(login.response(&answer(0, 0), challenge), Ok(LoginStep::Send));
    let proof = asked(&mut login);
    assert_eq!((value(&proof, "CHAP_N"), value(&proof, "CHAP_R").len()), ("joe", 34));
    assert_eq!(login.response(&answer(0, 1), b""), Ok(LoginStep::Send));
    let parameters = asked(&mut login);
    assert_eq!(value(&parameters, "HeaderDigest"), "CRC32C");
    let last =
        b"HeaderDigest=CRC32C\0DataDigest=None\0InitialR2T=Yes\0ImmediateData=Yes\0MaxBurstLength=65536\0\
                 FirstBurstLength=8192\0MaxRecvDataSegmentLength=131072\0X-own=1\0";
    let Ok(LoginStep::Done(agreed)) = login.response(&answer(1, 3), last) else { panic!("it is over") };
    assert!(agreed.authenticated && agreed.header_digest && !agreed.data_digest && agreed.initial_r2t);
    assert_eq!((agreed.burst, agreed.first_burst, agreed.send_segment), (65536, 8192, 131_072));
    assert_eq!((agreed.tsih, agreed.exp_stat_sn, agreed.max_cmd_sn), (17, 41, 128));
}

#[test]
fn refusals_have_words() {
    let refused = |class, detail, text: &[u8]| {
        let mut login = Login::new(options(false));
        asked(&mut login);
        let answer = LoginAnswer { status_class: class, status_detail: detail, ..answer(0, 0) };
        login.response(&answer, text).unwrap_err().to_string()
    };
    assert_eq!(refused(2, 1, b""), "the target refused the login: authentication failure");
    assert_eq!(refused(2, 3, b""), "the target refused the login: there is no such target");
    assert_eq!(refused(3, 1, b""), "the target refused the login: service unavailable");
    assert_eq!(refused(1, 1, b"TargetAddress=10.0.0.1:3260,1\0"), "the target has moved to 10.0.0.1:3260,1");
}

#[test]
fn a_target_that_is_to_prove_itself_must() {
    let mut login = Login::new(options(true));
    assert_eq!(value(&asked(&mut login), "AuthMethod"), "CHAP");
    assert_eq!(login.response(&answer(0, 1), b"AuthMethod=None\0"), Err(LoginError::NotAuthenticating));
    let mut login = Login::new(options(true));
    asked(&mut login);
    login.response(&answer(0, 0), b"AuthMethod=CHAP\0").unwrap();
    asked(&mut login);
    login.response(&answer(0, 0), b"CHAP_A=5\0CHAP_I=1\0CHAP_C=0x0102\0").unwrap();
    asked(&mut login);
    let wrong = login.response(&answer(0, 1), b"CHAP_N=disk\0CHAP_R=0x00\0").unwrap_err();
    assert!(wrong.to_string().contains("doesn't know its secret"), "{wrong}");
}

#[test]
fn what_was_not_offered_is_not_agreed_on() {
    let none = LoginOptions { chap: None, ..options(false) };
    let parameters = |text: &[u8]| {
        let mut login = Login::new(none.clone());
        asked(&mut login);
        login.response(&answer(0, 1), b"AuthMethod=None\0").unwrap();
        asked(&mut login);
        login.response(&answer(1, 3), text)
    };
    let Ok(LoginStep::Done(silent)) = parameters(b"") else { panic!("it is over") };
    // RFC 7143 section 13.14: without data that no R2T asks for, there is no first burst.
    let unasked = b"InitialR2T=Yes\0ImmediateData=No\0FirstBurstLength=Irrelevant\0";
    let Ok(LoginStep::Done(agreed)) = parameters(unasked) else { panic!("it is over") };
    assert_eq!((agreed.first_burst, agreed.immediate_data), (silent.first_burst, false));
    for wrong in [
        "HeaderDigest=None",
        "MaxBurstLength=99999999",
        "MaxOutstandingR2T=8",
        "DataPDUInOrder=No",
        "ImmediateData=Maybe",
        "MaxRecvDataSegmentLength=1",
    ] {
        let error = parameters(format!("{wrong}\0").as_bytes()).unwrap_err();
        assert!(error.to_string().contains(wrong.split_once('=').unwrap().0), "{error}");
    }
    let mut login = Login::new(none.clone());
    asked(&mut login);
    assert_eq!(login.response(&answer(0, 0), b"AuthMethod=CHAP\0"), Err(LoginError::NoSecret));
}

#[test]
fn text_in_pieces_is_put_together_and_bounded() {
    let mut login = Login::new(LoginOptions { chap: None, ..options(false) });
    asked(&mut login);
    let more = LoginAnswer { more: true, ..answer(0, 0) };
    assert_eq!(login.response(&more, b"AuthMeth"), Ok(LoginStep::Send));
    assert_eq!(asked(&mut login), []);
    assert_eq!(login.response(&answer(0, 1), b"od=None\0"), Ok(LoginStep::Send));
    let mut login = Login::new(options(false));
    asked(&mut login);
    let mut last = Ok(LoginStep::Send);
    for _ in 0..30 {
        last = login.response(&more, &[b'a'; 8192]);
        if last.is_err() {
            break;
        }
    }
    assert_eq!(last, Err(LoginError::Wire(IscsiError::LongText)));
}
