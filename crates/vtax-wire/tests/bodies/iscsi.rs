//! iSCSI PDUs, text and logins: any bytes, torn anywhere, give the same answer and never a panic.
//!
//! The first byte says in pieces of what size the rest is fed, the second which digests there are.

use vtax_wire::iscsi::{
    Digest, Digests, IscsiError, Item, Limits, Login, LoginOptions, PduScanner, Session, TargetPdu,
    discovered,
};
use vtax_wire::scsi;

type Found = (Vec<(TargetPdu, Vec<u8>)>, Option<IscsiError>);

fn pdus(input: &[u8], piece: usize, digests: u8) -> Found {
    let mut scanner = PduScanner::new();
    scanner.agree(Digests { header: digests & 1 != 0, data: digests & 2 != 0 }, 1 << 16);
    let (mut found, mut present) = (Vec::new(), None);
    for mut part in input.chunks(piece) {
        loop {
            let scanned = match scanner.scan(part) {
                Ok(scanned) => scanned,
                Err(error) => return (found, Some(error)),
            };
            part = &part[scanned.consumed..];
            match scanned.item {
                Item::Incomplete => break,
                Item::Head(pdu, _) => present = Some((pdu, Vec::new())),
                Item::Data(bytes) => present.as_mut().unwrap().1.extend_from_slice(bytes),
                Item::End => found.push(present.take().unwrap()),
            }
        }
    }
    (found, None)
}

fn log_in(found: &Found) {
    let mut login = Login::new(LoginOptions {
        initiator: "iqn.a".into(),
        session: Session::Discovery,
        chap: None,
        header_digest: Digest::None,
        data_digest: Digest::Crc32c,
        immediate_data: true,
        initial_r2t: false,
        limits: Limits::default(),
        isid: [0; 6],
        challenge: [0; 24],
    });
    for (pdu, data) in &found.0 {
        let mut out = Vec::new();
        login.request(&mut out);
        let TargetPdu::Login(answer) = pdu else { continue };
        if login.response(answer, data).is_err() {
            break;
        }
    }
}

/// Takes any bytes.
pub(crate) fn body(data: &[u8]) {
    let [piece, digests, input @ ..] = data else { return };
    let found = pdus(input, usize::from(*piece) + 1, *digests);
    assert_eq!(found, pdus(input, input.len().max(1), *digests));
    log_in(&found);
    let _ = (discovered(input), scsi::capacity_10(input), scsi::capacity_16(input), scsi::inquired(input));
    let _ = (scsi::caching(input), scsi::Sense::of_response(input), scsi::luns(input).count());
}
