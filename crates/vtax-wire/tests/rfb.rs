//! Golden and property tests of RFB: every encoding in all its forms, torn anywhere, and what hostile servers say.

mod encode;

use encode::{Picture, Streams, head, rectangle, update};
use proptest::prelude::*;
use vtax_wire::rfb::*;

const SIZE: (u16, u16) = (150, 90);

fn decoder() -> Decoder {
    Decoder::new(SIZE.0, SIZE.1, Limits::default()).unwrap()
}

/// Feeds bytes in pieces; the events, and the error if one came.
fn feed(decoder: &mut Decoder, bytes: &[u8], piece: usize) -> (Vec<Event>, Option<RfbError>) {
    let (mut events, mut unread) = (Vec::new(), Vec::new());
    for part in bytes.chunks(piece.max(1)) {
        unread.extend_from_slice(part);
        let mut at = 0;
        loop {
            match decoder.read(&unread[at..]) {
                Ok((used, event)) => {
                    at += used;
                    let Some(event) = event else { break };
                    events.push(event);
                }
                Err(error) => return (events, Some(error)),
            }
        }
        unread.drain(..at);
        assert!(unread.len() < MOST_UNREAD, "{} unread", unread.len());
    }
    (events, None)
}

fn error(bytes: &[u8]) -> RfbError {
    let (events, error) = feed(&mut decoder(), bytes, usize::MAX);
    error.unwrap_or_else(|| panic!("no error but {events:?}"))
}

/// Where a screen differs from a picture drawn at a place; everything else must be unknown.
fn wrong(screen: &Screen, picture: &Picture, at: (u16, u16)) -> usize {
    let of = |x: u16, y: u16| {
        let within = x >= at.0 && y >= at.1 && x - at.0 < picture.width && y - at.1 < picture.height;
        within.then(|| picture.at(x - at.0, y - at.1))
    };
    let places = (0..SIZE.1).flat_map(|y| (0..SIZE.0).map(move |x| (x, y)));
    places.filter(|(x, y)| screen.pixel(*x, *y) != of(*x, *y)).count()
}

/// A picture with so many colours, in runs.
fn picture() -> impl Strategy<Value = Picture> {
    let colours = prop_oneof![Just(1_usize), 2..5_usize, 5..18_usize, 100..300_usize];
    (1..=SIZE.0, 1..=SIZE.1, colours, any::<u64>()).prop_map(|(width, height, colours, seed)| {
        let mut state = seed | 1;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u32
        };
        let palette: Vec<u32> = (0..colours).map(|_| random() & 0xff_ffff).collect();
        let mut pixels = Vec::new();
        while pixels.len() < usize::from(width) * usize::from(height) {
            let length = 1 + random() as usize % if random() % 8 == 0 { 700 } else { 5 };
            pixels.extend(std::iter::repeat_n(palette[random() as usize % colours], length));
        }
        pixels.truncate(usize::from(width) * usize::from(height));
        Picture { width, height, pixels }
    })
}

fn encoding() -> impl Strategy<Value = Encoding> {
    prop::sample::select(vec![
        Encoding::Raw,
        Encoding::Rre,
        Encoding::Hextile,
        Encoding::Zrle,
        Encoding::Tight,
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn what_a_server_draws_is_what_is_seen(
        pictures in prop::collection::vec((picture(), encoding(), 0..4_u8), 1..4),
        piece in prop_oneof![1..40_usize, 1000..70_000_usize],
    ) {
        let mut streams = Streams::new();
        let mut decoder = decoder();
        for (picture, encoding, form) in &pictures {
            let at = ((SIZE.0 - picture.width) / 2, SIZE.1 - picture.height);
            let rect = rectangle(picture, at, *encoding, *form, &mut streams);
            let bytes = update(&[rect]);
            let (events, error) = feed(&mut decoder, &bytes, piece);
            prop_assert_eq!(error, None);
            let pixels = picture.pixels.len() as u64;
            let whole = Update { rects: 1, pixels, bytes: bytes.len() as u64, resized: false };
            prop_assert_eq!(events, vec![Event::Update(whole)]);
            for y in 0..picture.height {
                for x in 0..picture.width {
                    prop_assert_eq!(decoder.screen().pixel(at.0 + x, at.1 + y), Some(picture.at(x, y)));
                }
            }
        }
        prop_assert_eq!(decoder.tally().updates, pictures.len() as u64);
        prop_assert!(decoder.is_between());
    }

    #[test]
    fn rows_that_are_not_kept_change_nothing_else(
        picture in picture(), encoding in encoding(), form in 0..4_u8, from in 0..90_u16, count in 0..30_u16,
    ) {
        let rect = rectangle(&picture, (0, 0), encoding, form, &mut Streams::new());
        let limits = Limits { rows: from..from + count, ..Limits::default() };
        let mut decoder = Decoder::new(SIZE.0, SIZE.1, limits).unwrap();
        let (events, error) = feed(&mut decoder, &update(&[rect]), 999);
        prop_assert_eq!((events.len(), error), (1, None));
        for y in 0..picture.height {
            for x in 0..picture.width {
                let kept = (from..from + count).contains(&y).then(|| picture.at(x, y));
                prop_assert_eq!(decoder.screen().pixel(x, y), kept);
            }
        }
    }

    #[test]
    fn anything_at_all_is_read_the_same_in_pieces(
        bytes in prop::collection::vec(prop_oneof![0..9_u8, any::<u8>()], 0..3000), piece in 1..50_usize,
    ) {
        let (mut whole, mut torn) = (decoder(), decoder());
        let (at_once, in_pieces) = (feed(&mut whole, &bytes, usize::MAX), feed(&mut torn, &bytes, piece));
        prop_assert_eq!(&at_once.0, &in_pieces.0);
        // Which error of compressed data comes first, and what was drawn by then, depends on the pieces.
        prop_assert_eq!(at_once.1.is_some(), in_pieces.1.is_some());
        if at_once.1.is_none() {
            prop_assert_eq!(whole.screen().pixels(), torn.screen().pixels());
        }
    }

    #[test]
    fn damage_is_an_error_or_another_picture_and_never_a_panic(
        picture in picture(), encoding in encoding(), form in 0..4_u8,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = update(&[rectangle(&picture, (0, 0), encoding, form, &mut Streams::new())]);
        for (place, value) in damage {
            let place = place.index(bytes.len());
            bytes[place] = value;
        }
        feed(&mut decoder(), &bytes, 512);
    }

    #[test]
    fn any_opening_ends_in_bounds(bytes in prop::collection::vec(any::<u8>(), 0..200), piece in 1..20_usize) {
        for start in [&b""[..], b"RFB 003.008\n", b"RFB 003.008\n\x01\x02", b"RFB 003.008\n\x01\x13\0\x02\0"] {
            let bytes = [start, &bytes].concat();
            for security in [Security::None, Security::Vnc, Security::X509Vnc] {
                open(security, &bytes, piece).ok();
            }
        }
    }
}

/// Feeds an opening in pieces; what was reached and what was said.
fn open(security: Security, bytes: &[u8], piece: usize) -> Result<(Reached, Vec<u8>, usize), RfbError> {
    let login = Login { security, password: Some("secret".to_owned()), shared: true };
    let (mut handshake, mut out, mut unread, mut all) = (Handshake::new(login), Vec::new(), Vec::new(), 0);
    for part in bytes.chunks(piece) {
        unread.extend_from_slice(part);
        let (used, reached) = handshake.read(&unread, &mut out)?;
        unread.drain(..used);
        all += used;
        assert!(unread.len() < MOST_UNREAD);
        if reached != Reached::More {
            return Ok((reached, out, all));
        }
    }
    Ok((Reached::More, out, all))
}

const INIT: &[u8] = b"\x04\0\x03\0\x20\x18\0\x01\0\xff\0\xff\0\xff\x10\x08\0\0\0\0\0\0\0\x05hello";

#[test]
fn openings_lead_to_a_desktop() {
    let opened = Reached::Open(ServerInit { width: 1024, height: 768, name: "hello".to_owned() });
    for piece in [1, 3, 1000] {
        let none = [b"RFB 003.008\n\x02\x02\x01\0\0\0\0", INIT].concat();
        let said = b"RFB 003.008\n\x01\x01".to_vec();
        assert_eq!(open(Security::None, &none, piece), Ok((opened.clone(), said, none.len())));
        let password = [b"RFB 003.008\n\x01\x020123456789abcdef\0\0\0\0", INIT].concat();
        let (reached, said, _) = open(Security::Vnc, &password, piece).unwrap();
        assert_eq!((reached, said.len()), (opened.clone(), 12 + 1 + 16 + 1));
        let tls = [b"RFB 003.008\n\x01\x13\0\x02\0\x02\0\0\x01\x04\0\0\x01\x05\x01", INIT].concat();
        let said = b"RFB 003.008\n\x13\0\x02\0\0\x01\x04".to_vec();
        let end = tls.len() - INIT.len();
        assert_eq!(open(Security::X509None, &tls, piece), Ok((Reached::Tls, said, end)));
    }
}

#[test]
fn a_server_that_says_no_is_quoted() {
    let of = |bytes: &[u8]| open(Security::Vnc, bytes, 1000).unwrap_err().to_string();
    assert!(of(b"SSH-2.0-OpenSSH").contains("doesn't speak RFB"));
    assert!(of(b"HT").contains("doesn't speak RFB"));
    assert_eq!(of(b"RFB 003.003\n"), "the server speaks RFB 3.3; 3.8 is needed");
    assert_eq!(of(b"RFB 003.003\n\0\0\0\0\0\0\0\x04many"), "the server declined: many");
    assert_eq!(of(b"RFB 003.008\n\0\0\0\0\x04full"), "the server declined: full");
    assert!(of(b"RFB 003.008\n\0\xff\xff\xff\xff").contains("a reason of -1: at most 1024 is allowed"));
    assert_eq!(of(b"RFB 003.008\n\x01\x01"), "the server offers None, none of which is VncAuth");
    let refused = of(b"RFB 003.008\n\x01\x020123456789abcdef\0\0\0\x01\0\0\0\x05wrong");
    assert_eq!(refused, "the server refused the login: wrong");
}

/// The response that TigerVNC's and LibVNCServer's clients give.
#[test]
fn the_challenge_is_answered_as_others_do() {
    // DES with a key of zeros: a published vector (NBS 500-20).
    assert_eq!(vnc_auth_response("", &[0; 16])[..8], [0x8c, 0xa6, 0x4d, 0xe9, 0xc1, 0xb1, 0x23, 0xa7]);
    // Only eight bytes count.
    assert_eq!(vnc_auth_response("12345678", &[9; 16]), vnc_auth_response("123456789", &[9; 16]));
}

#[test]
fn copies_overlap_as_they_should() {
    let picture = Picture { width: 20, height: 20, pixels: (1..=400).collect() };
    let mut streams = Streams::new();
    let mut decoder = decoder();
    let mut copy = head(Rect { x: 3, y: 2, width: 20, height: 20 }, 1);
    copy.extend_from_slice(&[0, 0, 0, 0]);
    let mut back = head(Rect { x: 0, y: 0, width: 20, height: 20 }, 1);
    back.extend_from_slice(&[0, 3, 0, 2]);
    let rects = [rectangle(&picture, (0, 0), Encoding::Raw, 0, &mut streams), copy];
    assert_eq!(feed(&mut decoder, &update(&rects), 7).1, None);
    let seen = |decoder: &Decoder, x, y| decoder.screen().pixel(x, y).unwrap();
    assert!((0..20).all(|y| (0..20).all(|x| seen(&decoder, x + 3, y + 2) == picture.at(x, y))));
    assert_eq!(feed(&mut decoder, &update(&[back]), 7).1, None);
    assert!((0..20).all(|y| (0..20).all(|x| seen(&decoder, x, y) == picture.at(x, y))));
    // Nothing else is known than the two places, of which 17 by 18 pixels are both.
    let first = Picture { width: 1, height: 1, pixels: vec![1] };
    assert_eq!(wrong(decoder.screen(), &first, (0, 0)), 2 * 400 - 17 * 18 - 1);
}

#[test]
fn messages_that_are_no_updates_are_passed_or_told() {
    let mut bytes = vec![2];
    bytes.extend_from_slice(&[1, 0, 0, 0, 0, 2]);
    bytes.extend_from_slice(&[9; 12]);
    bytes.extend_from_slice(b"\x03\0\0\0\0\0\0\x04text");
    bytes.push(150);
    bytes.extend_from_slice(b"\xf8\0\0\0\x80\0\0\x07\x02ab");
    let mut cursor = head(Rect { x: 1, y: 1, width: 9, height: 3 }, -239);
    cursor.extend_from_slice(&[0; 9 * 3 * 4 + 2 * 3]);
    bytes.extend_from_slice(&update(&[cursor, head(Rect { x: 0, y: 0, width: 30, height: 40 }, -223)]));
    bytes.extend_from_slice(&[0, 0, 0xff, 0xff]);
    bytes.extend_from_slice(&head(Rect::default(), -224));
    for piece in [1, 5, 1000] {
        let mut decoder = decoder();
        let (events, error) = feed(&mut decoder, &bytes, piece);
        assert_eq!(error, None);
        let [
            Event::Bell,
            Event::EndOfContinuousUpdates,
            Event::Fence(fence),
            Event::Update(one),
            Event::Update(two),
        ] = &events[..]
        else {
            panic!("{events:?}")
        };
        assert_eq!((fence.flags, fence.payload()), (Fence::REQUEST | 7, &b"ab"[..]));
        assert!(one.resized && one.rects == 0 && !two.resized && two.bytes == 16);
        assert_eq!((decoder.screen().width(), decoder.screen().height()), (30, 40));
        let mut answer = Vec::new();
        client::answer_fence(&mut answer, fence);
        assert_eq!(answer, b"\xf8\0\0\0\0\0\0\x07\x02ab");
    }
}

#[test]
fn what_is_too_much_is_named() {
    let small = Limits { pixels: 1000, ..Limits::default() };
    let huge = Decoder::new(65_535, 65_535, Limits::default()).unwrap_err();
    assert_eq!(huge.to_string(), "a desktop of 65535x65535: there may be 1 to 16777216 pixels");
    assert!(matches!(Decoder::new(0, 5, small), Err(RfbError::Desktop { .. })));
    let area = |x, width| Rect { x, y: 0, width, height: 64 };
    let one = |rect: Vec<u8>| error(&update(&[rect]));
    assert!(matches!(
        one(head(Rect { x: 0, y: 0, width: 65_535, height: 65_535 }, -223)),
        RfbError::Desktop { width: 65_535, .. }
    ));
    assert!(matches!(one(head(area(100, 51), 0)), RfbError::Outside { x: 100, .. }));
    assert_eq!(one(head(area(0, 64), 21)), RfbError::Encoding(21));
    assert!(matches!(one(head(area(0, 65_535), -239)), RfbError::Length { what: "cursor", .. }));
    assert_eq!(error(&[77]), RfbError::Message(77));
    assert!(matches!(error(b"\x03\0\0\0\xff\xff\xff\xff"), RfbError::Length { length: -1, .. }));
    assert!(matches!(error(b"\xf8\0\0\0\0\0\0\0\x41"), RfbError::Length { what: "fence", .. }));
    let with = |number, tail: &[u8]| one([head(area(0, 64), number), tail.to_vec()].concat());
    assert!(matches!(with(2, &[255; 8]), RfbError::Length { length: -1, .. }), "RRE without end");
    assert!(matches!(with(16, &[255; 4]), RfbError::Length { length: -1, .. }), "ZRLE without end");
    assert!(matches!(with(1, &[0, 100, 0, 0]), RfbError::Outside { .. }), "a copy from outside");
    assert!(with(7, &[0x90]).to_string().contains("JPEG"));
    assert!(with(16, &[0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9]) == RfbError::Zlib("ZRLE"));
}

/// A few bytes that inflate to a thousand times as many.
#[test]
fn a_bomb_of_zlib_is_told_at_its_first_byte_too_many() {
    let mut stream = flate2::Compress::new(flate2::Compression::best(), true);
    let mut data = Vec::with_capacity(1 << 20);
    let plain = vec![0; 1 << 26];
    stream.compress_vec(&plain, &mut data, flate2::FlushCompress::Sync).unwrap();
    assert_eq!(stream.total_in(), 1 << 26);
    data.truncate(20_000);
    let area = Rect { x: 0, y: 0, width: 64, height: 64 };
    let mut zrle = head(area, 16);
    zrle.extend_from_slice(&(data.len() as u32).to_be_bytes());
    zrle.extend_from_slice(&data);
    assert_eq!(error(&update(&[zrle])), RfbError::Surplus("ZRLE"));
    let mut tight = head(area, 7);
    let length = data.len() as u32;
    tight.extend_from_slice(&[
        0,
        (length & 127 | 128) as u8,
        (length >> 7 & 127 | 128) as u8,
        (length >> 14) as u8,
    ]);
    tight.extend_from_slice(&data);
    assert_eq!(error(&update(&[tight])), RfbError::Surplus("Tight"));
    let mut short = head(area, 16);
    let mut data = Vec::with_capacity(1000);
    flate2::Compress::new(flate2::Compression::best(), true)
        .compress_vec(&[0; 99], &mut data, flate2::FlushCompress::Sync)
        .unwrap();
    short.extend_from_slice(&(data.len() as u32).to_be_bytes());
    short.extend_from_slice(&data);
    assert_eq!(error(&update(&[short])), RfbError::Short("ZRLE"));
}
