//! A desktop as a PNG (RFC 2083), for the report: proof of what was on it.

use std::io::Write;

use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use vtax_wire::rfb::Screen;

/// Widest picture; larger desktops are shown with every second or third pixel.
const MOST_WIDTH: u16 = 640;

/// The desktop's pixels as a PNG of at most 640 pixels' width; `None` where not all rows are kept.
pub(super) fn png(screen: &Screen) -> Option<Vec<u8>> {
    if screen.rows() != (0..screen.height()) {
        return None;
    }
    let step = screen.width().div_ceil(MOST_WIDTH).max(1);
    let (width, height) = (screen.width().div_ceil(step), screen.height().div_ceil(step));
    let mut plain = Vec::with_capacity((usize::from(width) * 3 + 1) * usize::from(height));
    for y in (0..screen.height()).step_by(step.into()) {
        // Each row begins with the number of its filter: none.
        plain.push(0);
        for x in (0..screen.width()).step_by(step.into()) {
            let [_, r, g, b] = screen.pixel(x, y).unwrap_or(0).to_be_bytes();
            plain.extend_from_slice(&[r, g, b]);
        }
    }
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&plain).ok()?;
    let data = encoder.finish().ok()?;
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    let mut head = Vec::new();
    head.extend_from_slice(&u32::from(width).to_be_bytes());
    head.extend_from_slice(&u32::from(height).to_be_bytes());
    // Eight bits for each colour, three colours, the usual methods, not interlaced.
    head.extend_from_slice(&[8, 2, 0, 0, 0]);
    chunk(&mut out, *b"IHDR", &head);
    chunk(&mut out, *b"IDAT", &data);
    chunk(&mut out, *b"IEND", &[]);
    Some(out)
}

fn chunk(out: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    let mut crc = Crc::new();
    for part in [&name[..], data] {
        crc.update(part);
        out.extend_from_slice(part);
    }
    out.extend_from_slice(&crc.sum().to_be_bytes());
}
