//! HTTP/2: what servers may send, what hostile ones do, and the examples of the standard for HPACK.

use proptest::prelude::*;
use vtax_wire::http2::hpack::{Decoder, HpackError, Indexing, Name, Writer};
use vtax_wire::http2::{
    CONTINUATIONS_MAX, Client, End, ErrorCode, FRAME_MAX, Http2Error, PREFACE, Prepared, STREAM_WINDOW, flag,
    kind,
};

#[path = "bodies/http2.rs"]
mod body;

use body::{Heard, SETTINGS, client, feed, frame};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn fields(decoder: &mut Decoder, block: &[u8]) -> String {
    let mut text = String::new();
    let text_of = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    decoder
        .decode(block, 10_000, |field| {
            text += &format!("{}: {}\n", text_of(field.name), text_of(field.value));
        })
        .unwrap();
    text
}

/// RFC 7541 appendix C.2.
#[test]
fn fields_of_the_standard_are_read_and_written() {
    let mut out = Vec::new();
    let mut writer = Writer { out: &mut out, huffman: false };
    writer.literal(Indexing::Incremental, Name::Text(b"custom-key"), b"custom-header");
    assert_eq!(out, bytes("400a637573746f6d2d6b65790d637573746f6d2d686561646572"));
    let mut decoder = Decoder::default();
    assert_eq!(fields(&mut decoder, &out), "custom-key: custom-header\n");
    assert_eq!(decoder.table_size(), 55);
    out.clear();
    Writer { out: &mut out, huffman: false }.literal(Indexing::Without, Name::of(":path"), b"/sample/path");
    assert_eq!(out, bytes("040c2f73616d706c652f70617468"));
    assert_eq!(fields(&mut decoder, &out), ":path: /sample/path\n");
    out.clear();
    Writer { out: &mut out, huffman: false }.literal(Indexing::Never, Name::Text(b"password"), b"secret");
    assert_eq!(out, bytes("100870617373776f726406736563726574"));
    assert_eq!(fields(&mut decoder, &out), "password: secret\n");
    assert_eq!(fields(&mut decoder, &[0x82]), ":method: GET\n");
    assert_eq!(decoder.table_size(), 55);
}

/// RFC 7541 appendices C.3 and C.4: requests, without and with Huffman code.
#[test]
fn requests_of_the_standard_are_read() {
    let plain = [
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ];
    let coded = [
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ];
    let told = [
        (":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n", 57),
        (
            ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n",
            110,
        ),
        (
            ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n",
            164,
        ),
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::default();
        for (block, (text, size)) in blocks.iter().zip(told) {
            assert_eq!(fields(&mut decoder, &bytes(block)), text);
            assert_eq!(decoder.table_size(), size);
        }
    }
    let mut out = Vec::new();
    let mut writer = Writer { out: &mut out, huffman: true };
    for index in [2, 6, 4] {
        writer.indexed(index);
    }
    writer.literal(Indexing::Incremental, Name::of(":authority"), b"www.example.com");
    assert_eq!(out, bytes(coded[0]));
}

/// RFC 7541 appendices C.5 and C.6: answers, which evict fields of a table of 256 bytes.
#[test]
fn answers_of_the_standard_are_read() {
    let plain = [
        "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e1768747470\
         733a2f2f7777772e6578616d706c652e636f6d",
        "4803333037c1c0bf",
        "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a4b\
         48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
    ];
    let coded = [
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82\
         ae43d3",
        "4883640effc1c0bf",
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960d5\
         af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
    ];
    let date = |second| format!("date: Mon, 21 Oct 2013 20:13:{second} GMT\n");
    let rest = "location: https://www.example.com\n";
    let cookie = "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1\n";
    let told = [
        (format!(":status: 302\ncache-control: private\n{}{rest}", date(21)), 222),
        (format!(":status: 307\ncache-control: private\n{}{rest}", date(21)), 222),
        (
            format!(
                ":status: 200\ncache-control: private\n{}{rest}content-encoding: gzip\n{cookie}",
                date(22)
            ),
            215,
        ),
    ];
    for blocks in [plain, coded] {
        let mut decoder = Decoder::new(256);
        for (block, (text, size)) in blocks.iter().zip(&told) {
            assert_eq!(fields(&mut decoder, &bytes(block)), *text);
            assert_eq!(decoder.table_size(), *size);
        }
    }
}

#[test]
fn blocks_that_cant_be_are_refused() {
    let refused = |block: &[u8]| Decoder::default().decode(block, 10_000, |_| {}).unwrap_err();
    assert_eq!(refused(&[0x80]), HpackError::Index);
    assert_eq!(refused(&[0xbe]), HpackError::Index);
    assert_eq!(refused(&[0x7f]), HpackError::Short);
    assert_eq!(refused(&[0x00, 0x05, b'a']), HpackError::Short);
    assert_eq!(refused(&[0x00, 0x81, 0x00, 0x00]), HpackError::Huffman);
    assert_eq!(refused(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff]), HpackError::Number);
    // The table's size after a field, and beyond what is allowed.
    assert_eq!(refused(&[0x82, 0x20]), HpackError::Resize);
    assert_eq!(refused(&[0x3f, 0xe2, 0x1f]), HpackError::Resize);
    assert_eq!(Decoder::default().decode(&[0x20, 0x3f, 0xe1, 0x1f, 0x82], 100, |_| {}), Ok(()));
}

/// A field of 4000 bytes goes into the table once and is named by one byte each time.
#[test]
fn a_bomb_of_fields_is_bounded() {
    let mut block = Vec::new();
    let mut writer = Writer { out: &mut block, huffman: false };
    writer.literal(Indexing::Incremental, Name::Text(b"a"), &[b'x'; 4000]);
    (0..16_000).for_each(|_| writer.indexed(62));
    let (mut decoder, mut seen) = (Decoder::default(), 0);
    let done = decoder.decode(&block, 64 * 1024, |field| seen += field.value.len());
    assert_eq!(done, Err(HpackError::List));
    assert!(seen <= 64 * 1024, "{seen}");
}

/// An answer's head with a length, and its body.
fn answer(stream: u32, body: &[u8], out: &mut Vec<u8>) {
    let mut block = Vec::new();
    let mut writer = Writer { out: &mut block, huffman: true };
    writer.indexed(8);
    writer.literal(Indexing::Without, Name::of("content-length"), body.len().to_string().as_bytes());
    frame(kind::HEADERS, flag::END_HEADERS, stream, &block, out);
    frame(kind::DATA, flag::END_STREAM, stream, body, out);
}

/// What comes behind SETTINGS on a connection with four streams.
fn after_settings(put: impl Fn(&mut Vec<u8>)) -> (Heard, Vec<u8>, Result<(), Http2Error>) {
    let mut input = SETTINGS.to_vec();
    put(&mut input);
    let whole = feed(&input, input.len());
    assert_eq!(whole, feed(&input, 1));
    whole
}

#[test]
fn answers_come_in_any_order() {
    let (heard, _, done) = after_settings(|out| {
        answer(5, b"five", out);
        frame(kind::PING, 0, 0, b"12345678", out);
        frame(kind::PRIORITY, 0, 3, &[0; 5], out);
        frame(0xbe, 0xff, 9, b"unknown", out);
        answer(1, b"", out);
        // Padding, a priority, and a head in pieces.
        frame(kind::HEADERS, flag::PADDED | flag::PRIORITY, 7, &[2, 0, 0, 0, 0, 9, 0x88, 0, 0], out);
        frame(kind::CONTINUATION, 0, 7, &[], out);
        frame(kind::CONTINUATION, flag::END_HEADERS, 7, &[0x0f, 0x0d, 1, b'2'], out);
        frame(kind::DATA, flag::PADDED, 7, &[3, b'o', 0, 0, 0], out);
        frame(kind::DATA, 0, 7, b"k", out);
        // Trailers.
        frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 7, &[0, 1, b't', 1, b'v'], out);
    });
    assert_eq!(done, Ok(()));
    assert_eq!(heard.heads, [(2, 200), (0, 200), (3, 200)]);
    assert_eq!(heard.bodies, [(2, b"five".to_vec()), (3, b"ok".to_vec())]);
    assert_eq!(heard.ends, [(2, End::Whole(200)), (0, End::Whole(200)), (3, End::Whole(200))]);
    assert!(heard.fields.contains(&(3, b"t".to_vec(), b"v".to_vec())));
}

#[test]
fn a_connection_begins_as_the_standard_has_it_and_replies() {
    let (_, begun) = client(4);
    assert!(begun.starts_with(PREFACE) && begun[PREFACE.len() + 3] == kind::SETTINGS);
    let (_, out, done) = after_settings(|out| frame(kind::PING, 0, 0, b"12345678", out));
    assert_eq!(done, Ok(()));
    let mut replies = vec![0, 0, 0, 4, 1, 0, 0, 0, 0];
    frame(kind::PING, flag::ACK, 0, b"12345678", &mut replies);
    assert!(out.starts_with(&replies), "{out:?}");
}

#[test]
fn hostile_frames_end_the_connection() {
    let misplaced = |kind| Err(Http2Error::Misplaced(kind));
    let done = |put: &dyn Fn(&mut Vec<u8>)| after_settings(put).2;
    assert_eq!(feed(b"HTTP/1.1 400 Bad Request\r\n\r\n", 100).2, Err(Http2Error::Preface));
    assert_eq!(feed(&[0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8], 3).2, Err(Http2Error::Preface));
    assert_eq!(done(&|out| frame(kind::DATA, 0, 0, b"x", out)), misplaced(kind::DATA));
    // Streams that nobody opened.
    for stream in [2, 9, 0x7fff_ffff] {
        assert_eq!(done(&|out| frame(kind::DATA, 0, stream, b"x", out)), misplaced(kind::DATA));
        assert_eq!(
            done(&|out| frame(kind::RST_STREAM, 0, stream, &[0; 4], out)),
            misplaced(kind::RST_STREAM)
        );
    }
    assert_eq!(done(&|out| frame(kind::HEADERS, 4, 0, &[0x88], out)), misplaced(kind::HEADERS));
    assert_eq!(done(&|out| frame(kind::SETTINGS, 0, 1, &[], out)), misplaced(kind::SETTINGS));
    assert_eq!(done(&|out| frame(kind::PUSH_PROMISE, 4, 1, &[0; 5], out)), misplaced(kind::PUSH_PROMISE));
    assert_eq!(done(&|out| frame(kind::CONTINUATION, 4, 1, &[], out)), misplaced(kind::CONTINUATION));
    let size = |kind| Err(Http2Error::FrameSize(kind));
    assert_eq!(done(&|out| out.extend_from_slice(&[0, 0x40, 1, 0, 0, 0, 0, 0, 1])), size(kind::DATA));
    for (kind, length) in [(kind::PING, 7), (kind::RST_STREAM, 5), (kind::PRIORITY, 4), (kind::SETTINGS, 5)] {
        let stream = u32::from(matches!(kind, kind::RST_STREAM | kind::PRIORITY));
        assert_eq!(done(&|out| frame(kind, 0, stream, &vec![0; length], out)), size(kind));
    }
    assert_eq!(done(&|out| frame(kind::SETTINGS, flag::ACK, 0, &[0; 6], out)), size(kind::SETTINGS));
    assert_eq!(done(&|out| frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3], out)), size(kind::WINDOW_UPDATE));
    assert_eq!(done(&|out| frame(kind::GOAWAY, 0, 0, &[0; 7], out)), size(kind::GOAWAY));
    let padding = |kind| Err(Http2Error::Padding(kind));
    assert_eq!(done(&|out| frame(kind::DATA, 8, 1, &[3, 0, 0], out)), padding(kind::DATA));
    assert_eq!(done(&|out| frame(kind::HEADERS, 12, 1, &[3, 0, 0], out)), padding(kind::HEADERS));
    let bomb = done(&|out| frame(kind::HEADERS, 4, 1, &[0xff; 20], out));
    assert_eq!(bomb, Err(Http2Error::Hpack(HpackError::Number)));
}

#[test]
fn settings_and_windows_that_cant_be_end_the_connection() {
    let done = |put: &dyn Fn(&mut Vec<u8>)| after_settings(put).2;
    for (name, value) in [(2, 1), (4, 1 << 31), (5, 100), (5, 1 << 24)] {
        let setting = [0, name as u8].iter().copied().chain(u32::to_be_bytes(value)).collect::<Vec<_>>();
        assert_eq!(done(&|out| frame(kind::SETTINGS, 0, 0, &setting, out)), Err(Http2Error::Setting(name)));
    }
    let all = 0x7fff_ffff_u32.to_be_bytes();
    assert_eq!(done(&|out| frame(kind::WINDOW_UPDATE, 0, 0, &all, out)), Err(Http2Error::Window));
    assert_eq!(done(&|out| frame(kind::WINDOW_UPDATE, 0, 0, &[0; 4], out)), Err(Http2Error::Window));
    // Of a stream they end the stream.
    for more in [all, [0; 4]] {
        let (heard, out, done) = after_settings(|out| frame(kind::WINDOW_UPDATE, 0, 5, &more, out));
        assert_eq!((done, heard.ends), (Ok(()), vec![(2, End::Malformed)]));
        assert!(out.windows(9).any(|head| head == [0, 0, 4, kind::RST_STREAM, 0, 0, 0, 0, 5]));
    }
}

#[test]
fn windows_are_given_back_and_replies_are_bounded() {
    let (mut client, mut out) = client(1);
    let mut heard = Heard::default();
    client.take(&SETTINGS, &mut out, &mut heard).unwrap();
    let mut input = Vec::new();
    frame(kind::HEADERS, flag::END_HEADERS, 1, &[0x88], &mut input);
    client.take(&input, &mut out, &mut heard).unwrap();
    input.clear();
    frame(kind::DATA, 0, 1, &vec![0; FRAME_MAX as usize], &mut input);
    out.clear();
    // A stream that is read gets its window back.
    for _ in 0..(3 * STREAM_WINDOW / FRAME_MAX) {
        client.take(&input, &mut out, &mut heard).unwrap();
        client.drained();
    }
    let updates = out.chunks(13).filter(|frame| frame[3] == kind::WINDOW_UPDATE).count();
    assert!(updates >= 4, "{updates}");
    // A peer that asks and doesn't read is not replied to for ever.
    let mut client = body::client(1).0;
    client.take(&SETTINGS, &mut out, &mut heard).unwrap();
    input.clear();
    (0..2000).for_each(|_| frame(kind::PING, 0, 0, &[0; 8], &mut input));
    assert_eq!(client.take(&input, &mut out, &mut heard), Err(Http2Error::Flood));
}

#[test]
fn endless_header_blocks_are_bounded() {
    let endless = |piece: &[u8]| {
        let piece = piece.to_vec();
        after_settings(move |out| {
            frame(kind::HEADERS, 0, 1, &[], out);
            (0..=CONTINUATIONS_MAX).for_each(|_| frame(kind::CONTINUATION, 0, 1, &piece, out));
        })
        .2
    };
    assert_eq!(endless(&[]), Err(Http2Error::Block));
    assert_eq!(endless(&[0x82; 2000]), Err(Http2Error::Block));
}

#[test]
fn a_server_that_goes_away_leaves_what_it_took() {
    let mut input = SETTINGS.to_vec();
    let (mut client, mut out) = client(4);
    let mut heard = Heard::default();
    frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0, b'b', b'y', b'e'], &mut input);
    answer(3, b"x", &mut input);
    client.take(&input, &mut out, &mut heard).unwrap();
    assert_eq!(heard.goaways, [ErrorCode::NO_ERROR]);
    assert_eq!(heard.ends, [(2, End::Refused), (3, End::Refused), (1, End::Whole(200))]);
    assert!(!client.can_open() && !client.is_lasting());
    assert_eq!(client.open_streams(), 1);
    // It may not take back what it said.
    input.clear();
    frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 5, 0, 0, 0, 0], &mut input);
    assert_eq!(client.take(&input, &mut out, &mut heard), Err(Http2Error::Misplaced(kind::GOAWAY)));
}

#[test]
fn streams_end_by_themselves() {
    let (heard, _, done) = after_settings(|out| {
        frame(kind::RST_STREAM, 0, 1, &[0, 0, 0, 7], out);
        frame(kind::RST_STREAM, 0, 3, &[0, 0, 0, 2], out);
        // A length that isn't that of the body; DATA before a head; nothing is heard of them again.
        frame(kind::HEADERS, flag::END_HEADERS, 5, &[0x88, 0x0f, 0x0d, 1, b'3'], out);
        frame(kind::DATA, flag::END_STREAM, 5, b"ab", out);
        frame(kind::DATA, 0, 7, b"ab", out);
        answer(7, b"late", out);
    });
    assert_eq!(done, Ok(()));
    let reset = End::Reset(ErrorCode(2));
    assert_eq!(heard.ends, [(0, End::Refused), (1, reset), (2, End::Malformed), (3, End::Malformed)]);
    assert_eq!(heard.heads, [(2, 200)]);
    assert_eq!(ErrorCode(2).to_string(), "INTERNAL_ERROR");
    assert_eq!(ErrorCode(99).to_string(), "error 0x63");
}

#[test]
fn interim_answers_come_before_others() {
    let (heard, _, done) = after_settings(|out| {
        let mut block = Vec::new();
        Writer { out: &mut block, huffman: false }.literal(Indexing::Without, Name::of(":status"), b"103");
        frame(kind::HEADERS, flag::END_HEADERS, 1, &block, out);
        answer(1, b"x", out);
        // One without an answer behind it isn't one.
        frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, 3, &block, out);
    });
    assert_eq!(done, Ok(()));
    assert_eq!(heard.ends, [(0, End::Whole(200)), (1, End::Malformed)]);
    assert_eq!(heard.heads, [(0, 200)]);
}

#[test]
fn bodies_are_sent_as_far_as_the_windows_allow() {
    let (mut client, mut out) = client(2);
    let mut heard = Heard::default();
    let sent = |client: &mut Client| {
        let mut out = Vec::new();
        let mut bytes = 0;
        client.body(1 << 20, &mut out, |place, _, length, out| {
            assert_eq!(place, 1);
            bytes += length;
            out.resize(out.len() + length, 0);
        });
        bytes
    };
    client.take(&SETTINGS, &mut out, &mut heard).unwrap();
    assert_eq!(sent(&mut client), 65_535);
    assert_eq!(sent(&mut client), 0);
    let mut input = Vec::new();
    frame(kind::WINDOW_UPDATE, 0, 0, &100_000_u32.to_be_bytes(), &mut input);
    client.take(&input, &mut out, &mut heard).unwrap();
    assert_eq!(sent(&mut client), 0);
    // The window of streams grows by 1,000, and that of this stream by 400 more.
    input.clear();
    frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 1, 3, 0xe7], &mut input);
    frame(kind::WINDOW_UPDATE, 0, 3, &400_u32.to_be_bytes(), &mut input);
    client.take(&input, &mut out, &mut heard).unwrap();
    assert_eq!(sent(&mut client), 1_400);
    input.clear();
    frame(kind::WINDOW_UPDATE, 0, 3, &100_000_u32.to_be_bytes(), &mut input);
    client.take(&input, &mut out, &mut heard).unwrap();
    assert_eq!(sent(&mut client), 100_000 - 65_535 - 1_400);
}

/// The second stream of [`client`] has a body that the server doesn't wait for (RFC 9113, section 8.1).
#[test]
fn a_stream_that_is_answered_early_is_the_servers_to_end() {
    const CANCEL: [u8; 13] = [0, 0, 4, kind::RST_STREAM, 0, 0, 0, 0, 3, 0, 0, 0, 8];
    let cancels = |out: &[u8]| out.windows(CANCEL.len()).filter(|part| *part == CANCEL).count();
    let pings = |count: usize, out: &mut Vec<u8>| {
        (0..count).for_each(|_| frame(kind::PING, flag::ACK, 0, &[0; 8], out));
    };
    let (heard, out, done) = after_settings(|out| {
        answer(3, b"early", out);
        pings(50, out);
        frame(kind::RST_STREAM, 0, 3, &[0; 4], out);
        pings(500, out);
    });
    assert_eq!((heard.ends, done, cancels(&out)), (vec![(1, End::Whole(200))], Ok(()), 0));
    // One that the server leaves open is ended, once.
    for (frames, ends) in [(100, 0), (101, 1), (500, 1)] {
        let (_, out, _) = after_settings(|out| {
            answer(3, b"early", out);
            pings(frames, out);
        });
        assert_eq!(cancels(&out), ends, "{frames}");
    }
    // It counts among those that the server takes, and makes room for another.
    let (mut client, mut out) = client(2);
    let mut input = Vec::new();
    frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 2], &mut input);
    answer(3, b"early", &mut input);
    client.take(&input, &mut out, &mut Heard::default()).unwrap();
    assert_eq!((client.open_streams(), cancels(&out)), (1, 0));
    let request = Prepared::new(("GET", "http", "/"), &[(":authority", "h")], &[]);
    out.clear();
    assert_eq!(client.open(&request, 0, &mut out), Some(1));
    assert!(out.starts_with(&CANCEL), "{out:?}");
}

#[test]
fn as_many_streams_are_opened_as_the_server_takes() {
    let request = Prepared::new(("GET", "http", "/"), &[(":authority", "h")], &[]);
    let (mut client, mut out, mut heard) = (Client::new(1000), Vec::new(), Heard::default());
    let mut open = |client: &mut Client| {
        let mut count = 0;
        while client.open(&request, 0, &mut out).is_some() {
            count += 1;
        }
        count
    };
    // Nothing was said yet.
    assert_eq!(open(&mut client), 100);
    let mut input = Vec::new();
    frame(kind::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 128], &mut input);
    client.take(&input, &mut Vec::new(), &mut heard).unwrap();
    assert_eq!((client.allowed(), open(&mut client)), (Some(128), 28));
    input.clear();
    answer(1, b"x", &mut input);
    client.take(&input, &mut Vec::new(), &mut heard).unwrap();
    assert_eq!(open(&mut client), 1);
    // One of which nothing was heard since it was opened isn't given up alone.
    let place = heard.ends[0].0;
    assert!(!client.give_up(place, &mut Vec::new()));
    input.clear();
    frame(kind::PING, flag::ACK, 0, &[0; 8], &mut input);
    client.take(&input, &mut Vec::new(), &mut heard).unwrap();
    assert!(client.give_up(place, &mut Vec::new()));
    assert_eq!(open(&mut client), 1);
}

#[test]
fn a_smaller_table_is_not_used() {
    let shared = [(":authority", "host"), ("user-agent", "vtax")];
    let request = Prepared::new(("GET", "http", "/"), &shared, &[]);
    let (mut client, mut out, mut heard) = (Client::new(10), Vec::new(), Heard::default());
    let mut decoder = Decoder::default();
    let mut read = |client: &mut Client, resized| {
        out.clear();
        client.open(&request, 0, &mut out).unwrap();
        let (head, block) = out.split_at(9);
        assert_eq!(head[3], kind::HEADERS);
        assert_eq!(block[0] == 0x20, resized);
        fields(&mut decoder, block)
    };
    client.greet(&mut Vec::new());
    let first = read(&mut client, false);
    let mut input = Vec::new();
    frame(kind::SETTINGS, 0, 0, &[0, 1, 0, 0, 0, 0], &mut input);
    client.take(&input, &mut Vec::new(), &mut heard).unwrap();
    assert_eq!(read(&mut client, true), first);
    assert_eq!(read(&mut client, false), first);
}

/// Frames that can be, and some that can't, of streams that there are and others.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    let payload = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..20),
        Just(vec![0x88]),
        Just(vec![0x88, 0x0f, 0x0d, 1, b'2']),
        Just(vec![0, 0, 0, 7]),
        Just(vec![0; 8]),
        Just(vec![b'x'; 300]),
    ];
    let stream = prop_oneof![Just(0_u32), Just(1), Just(3), Just(5), Just(7), 0_u32..12];
    (0_u8..11, any::<u8>(), stream, payload).prop_map(|(kind, flags, stream, payload)| {
        let mut out = Vec::new();
        frame(kind, flags & 0x2d, stream, &payload, &mut out);
        out
    })
}

proptest! {
    #[test]
    fn any_frames_mean_the_same_torn_anywhere(
        piece in any::<u8>(),
        all in proptest::collection::vec(any_frame(), 0..12),
        cut in 0_usize..40,
    ) {
        let mut input = [vec![piece], all.concat()].concat();
        body::frames(&input);
        input.truncate(input.len().saturating_sub(cut).max(1));
        body::frames(&input);
    }

    #[test]
    fn any_bytes_are_taken(input in proptest::collection::vec(any::<u8>(), 0..300)) {
        body::frames(&input);
        body::hpack(&input);
    }
}
