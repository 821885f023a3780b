//! A server's side of the encodings, for tests: small and slow, and every form is used.

use flate2::{Compress, Compression, FlushCompress};
use vtax_wire::rfb::{Encoding, Rect};

/// A picture, `0xRRGGBB` for each pixel.
#[derive(Debug, Clone)]
pub(super) struct Picture {
    pub(super) width: u16,
    pub(super) height: u16,
    pub(super) pixels: Vec<u32>,
}

impl Picture {
    pub(super) fn at(&self, x: u16, y: u16) -> u32 {
        self.pixels[usize::from(y) * usize::from(self.width) + usize::from(x)]
    }

    fn part(&self, area: Rect) -> Picture {
        let rows = area.y..area.y + area.height;
        let pixels =
            rows.flat_map(|y| (area.x..area.x + area.width).map(move |x| (x, y))).map(|(x, y)| self.at(x, y));
        Picture { width: area.width, height: area.height, pixels: pixels.collect() }
    }

    fn tiles(&self, size: u16) -> Vec<Picture> {
        let mut tiles = Vec::new();
        for y in (0..self.height).step_by(size.into()) {
            for x in (0..self.width).step_by(size.into()) {
                let (width, height) = (size.min(self.width - x), size.min(self.height - y));
                tiles.push(self.part(Rect { x, y, width, height }));
            }
        }
        tiles
    }

    fn palette(&self) -> Vec<u32> {
        let mut palette = self.pixels.clone();
        palette.sort_unstable();
        palette.dedup();
        palette
    }
}

/// The streams of a connection.
pub(super) struct Streams {
    zrle: Compress,
    tight: [Compress; 4],
}

impl Streams {
    pub(super) fn new() -> Self {
        let stream = || Compress::new(Compression::fast(), true);
        Self { zrle: stream(), tight: [stream(), stream(), stream(), stream()] }
    }
}

fn deflate(stream: &mut Compress, data: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(data.len() * 2 + 1024);
    let before = stream.total_in();
    stream.compress_vec(data, &mut out, FlushCompress::Sync).unwrap();
    assert_eq!(stream.total_in() - before, data.len() as u64);
    assert!(out.len() < out.capacity());
    out
}

pub(super) fn update(rects: &[Vec<u8>]) -> Vec<u8> {
    let mut out = vec![0, 0];
    out.extend_from_slice(&(rects.len() as u16).to_be_bytes());
    rects.iter().for_each(|rect| out.extend_from_slice(rect));
    out
}

pub(super) fn head(area: Rect, number: i32) -> Vec<u8> {
    let mut out = Vec::new();
    for value in [area.x, area.y, area.width, area.height] {
        out.extend_from_slice(&value.to_be_bytes());
    }
    out.extend_from_slice(&number.to_be_bytes());
    out
}

/// The rectangle of a picture that is drawn at a place. `form` chooses among the forms that an encoding has.
pub(super) fn rectangle(
    picture: &Picture,
    at: (u16, u16),
    encoding: Encoding,
    form: u8,
    to: &mut Streams,
) -> Vec<u8> {
    let area = Rect { x: at.0, y: at.1, width: picture.width, height: picture.height };
    let mut out = head(area, encoding.number());
    match encoding {
        Encoding::Raw => picture.pixels.iter().for_each(|p| out.extend_from_slice(&p.to_le_bytes())),
        Encoding::CopyRect => panic!("it has no pixels"),
        Encoding::Rre => rre(picture, &mut out),
        Encoding::Hextile => picture.tiles(16).iter().for_each(|tile| hextile(tile, form, &mut out)),
        Encoding::Zrle => {
            let mut plain = Vec::new();
            picture.tiles(64).iter().for_each(|tile| zrle(tile, form, &mut plain));
            let data = deflate(&mut to.zrle, &plain);
            out.extend_from_slice(&(data.len() as u32).to_be_bytes());
            out.extend_from_slice(&data);
        }
        Encoding::Tight => tight(picture, form, to, &mut out),
    }
    out
}

fn rre(picture: &Picture, out: &mut Vec<u8>) {
    let background = picture.pixels[0];
    let others: Vec<usize> = (0..picture.pixels.len()).filter(|i| picture.pixels[*i] != background).collect();
    out.extend_from_slice(&(others.len() as u32).to_be_bytes());
    out.extend_from_slice(&background.to_le_bytes());
    for i in others {
        out.extend_from_slice(&picture.pixels[i].to_le_bytes());
        let (x, y) = (i % usize::from(picture.width), i / usize::from(picture.width));
        for value in [x as u16, y as u16, 1, 1] {
            out.extend_from_slice(&value.to_be_bytes());
        }
    }
}

fn hextile(tile: &Picture, form: u8, out: &mut Vec<u8>) {
    let palette = tile.palette();
    let background = palette[0];
    let others: Vec<usize> = (0..tile.pixels.len()).filter(|i| tile.pixels[*i] != background).collect();
    if form == 0 || others.len() > 255 {
        out.push(1);
        tile.pixels.iter().for_each(|p| out.extend_from_slice(&p.to_le_bytes()));
        return;
    }
    let coloured = palette.len() != 2;
    out.push(2 | if others.is_empty() { 0 } else { 8 } | if coloured { 16 } else { 4 });
    out.extend_from_slice(&background.to_le_bytes());
    if !coloured {
        out.extend_from_slice(&palette[1].to_le_bytes());
    }
    if others.is_empty() {
        return;
    }
    out.push(others.len() as u8);
    for i in others {
        if coloured {
            out.extend_from_slice(&tile.pixels[i].to_le_bytes());
        }
        let (x, y) = (i % usize::from(tile.width), i / usize::from(tile.width));
        out.extend_from_slice(&[(x << 4 | y) as u8, 0]);
    }
}

fn cpixel(pixel: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(&pixel.to_le_bytes()[..3]);
}

fn place(palette: &[u32], pixel: u32) -> u8 {
    palette.binary_search(&pixel).unwrap() as u8
}

/// Runs of equal pixels: the pixel and the run's length.
fn runs(pixels: &[u32]) -> Vec<(u32, usize)> {
    let mut runs: Vec<(u32, usize)> = Vec::new();
    for pixel in pixels {
        match runs.last_mut() {
            Some((last, length)) if last == pixel => *length += 1,
            _ => runs.push((*pixel, 1)),
        }
    }
    runs
}

fn length(mut length: usize, out: &mut Vec<u8>) {
    length -= 1;
    while length >= 255 {
        out.push(255);
        length -= 255;
    }
    out.push(length as u8);
}

fn zrle(tile: &Picture, form: u8, out: &mut Vec<u8>) {
    let palette = tile.palette();
    match (form, palette.len()) {
        (1, 1) => {
            out.push(1);
            cpixel(palette[0], out);
        }
        (1, 2..=16) => {
            out.push(palette.len() as u8);
            palette.iter().for_each(|p| cpixel(*p, out));
            let bits = match palette.len() {
                2 => 1,
                3..=4 => 2,
                _ => 4,
            };
            for row in tile.pixels.chunks(tile.width.into()) {
                let mut line = vec![0_u8; (row.len() * bits).div_ceil(8)];
                for (x, pixel) in row.iter().enumerate() {
                    line[x * bits / 8] |= place(&palette, *pixel) << (8 - bits - x * bits % 8);
                }
                out.extend_from_slice(&line);
            }
        }
        (2, 2..=127) => {
            out.push(128 + palette.len() as u8);
            palette.iter().for_each(|p| cpixel(*p, out));
            for (pixel, count) in runs(&tile.pixels) {
                let place = place(&palette, pixel);
                if count == 1 {
                    out.push(place);
                } else {
                    out.push(place | 128);
                    length(count, out);
                }
            }
        }
        (3, _) => {
            out.push(128);
            for (pixel, count) in runs(&tile.pixels) {
                cpixel(pixel, out);
                length(count, out);
            }
        }
        _ => {
            out.push(0);
            tile.pixels.iter().for_each(|p| cpixel(*p, out));
        }
    }
}

fn rgb(pixel: u32) -> [u8; 3] {
    let [_, r, g, b] = pixel.to_be_bytes();
    [r, g, b]
}

fn tight(picture: &Picture, form: u8, to: &mut Streams, out: &mut Vec<u8>) {
    let palette = picture.palette();
    let stream = form & 3;
    let mut plain = Vec::new();
    match (form % 4, palette.len()) {
        (1, 1) => {
            out.push(0x80);
            out.extend_from_slice(&rgb(palette[0]));
            return;
        }
        (1, 2..=256) => {
            out.extend_from_slice(&[(4 | stream) << 4, 1, (palette.len() - 1) as u8]);
            palette.iter().for_each(|p| out.extend_from_slice(&rgb(*p)));
            for row in picture.pixels.chunks(picture.width.into()) {
                if palette.len() > 2 {
                    plain.extend(row.iter().map(|p| place(&palette, *p)));
                    continue;
                }
                let mut line = vec![0_u8; row.len().div_ceil(8)];
                for (x, pixel) in row.iter().enumerate() {
                    line[x / 8] |= place(&palette, *pixel) << (7 - x % 8);
                }
                plain.extend_from_slice(&line);
            }
        }
        (2, _) => {
            out.extend_from_slice(&[(4 | stream) << 4, 2]);
            gradient(picture, &mut plain);
        }
        (3, _) => {
            // The filter said although it is the usual one, and the stream begun anew.
            to.tight[usize::from(stream)].reset();
            out.extend_from_slice(&[(4 | stream) << 4 | 1 << stream, 0]);
            picture.pixels.iter().for_each(|p| plain.extend_from_slice(&rgb(*p)));
        }
        _ => {
            out.push(stream << 4);
            picture.pixels.iter().for_each(|p| plain.extend_from_slice(&rgb(*p)));
        }
    }
    if plain.len() < 12 {
        out.extend_from_slice(&plain);
        return;
    }
    let data = deflate(&mut to.tight[usize::from(stream)], &plain);
    let mut left = data.len();
    for i in 0..3 {
        let (bits, more) = if i < 2 { (left & 127, left > 127) } else { (left, false) };
        out.push(bits as u8 | if more { 128 } else { 0 });
        left >>= 7;
        if !more {
            break;
        }
    }
    out.extend_from_slice(&data);
}

fn gradient(picture: &Picture, out: &mut Vec<u8>) {
    let at = |x: i32, y: i32, c: usize| {
        if x < 0 || y < 0 { 0 } else { i16::from(rgb(picture.at(x as u16, y as u16))[c]) }
    };
    for y in 0..i32::from(picture.height) {
        for x in 0..i32::from(picture.width) {
            for c in 0..3 {
                let foretold = (at(x - 1, y, c) + at(x, y - 1, c) - at(x - 1, y - 1, c)).clamp(0, 255);
                out.push((at(x, y, c) - foretold) as u8);
            }
        }
    }
}
