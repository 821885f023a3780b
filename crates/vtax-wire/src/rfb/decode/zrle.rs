//! ZRLE (RFC 6143 section 7.7.6): tiles of 64 by 64 with palettes and runs, compressed as one stream for the whole connection.

use super::super::input::{Input, be32};
use super::super::{Rect, RfbError, Screen};
use super::colours::{COLOUR, all_blue_first, are_known, blue_first, places};
use super::inflate::Inflate;

const NAME: &str = "ZRLE";
const TILE: u16 = 64;
const TILE_PIXELS: usize = TILE as usize * TILE as usize;
/// The kind of a tile whose pixels are sent as they are.
const RAW: u8 = 0;
/// Room for what is inflated. The longest tile is one of runs of one pixel each: 16,385 bytes. To inflate is slow at the end of the room.
const ROOM: usize = 64 * 1024;
/// Colours that a palette has at most, and one more: its places have seven bits.
const COLOURS: usize = 128;

/// A rectangle in ZRLE that is being read.
#[derive(Debug, Default)]
pub(super) struct Zrle {
    /// Begins with the first rectangle.
    stream: Option<Inflate>,
    plain: Vec<u8>,
    /// The pixels of a tile.
    pixels: Vec<u32>,
    /// What of `plain` is inflated and not yet drawn.
    from: usize,
    to: usize,
    /// Compressed bytes still to come, once their number is known.
    left: Option<u32>,
    /// Left upper corner of the next tile, within the rectangle.
    at: (u16, u16),
}

impl Zrle {
    pub(super) fn begin(&mut self, area: Rect) {
        if self.stream.is_none() {
            self.stream = Some(Inflate::new());
            self.plain = vec![0; ROOM];
            self.pixels = vec![0; TILE_PIXELS];
        }
        (self.from, self.to, self.left) = (0, 0, None);
        self.at = (0, if area.width == 0 { area.height } else { 0 });
    }

    pub(super) fn read(
        &mut self,
        screen: &mut Screen,
        area: Rect,
        input: &mut Input<'_>,
    ) -> Result<bool, RfbError> {
        if self.left.is_none() {
            let Some(length) = input.array::<4>() else { return Ok(false) };
            self.left = Some(checked(be32(length, 0), area)?);
        }
        loop {
            self.draw(screen, area)?;
            let whole = self.at.1 >= area.height;
            if whole && self.from < self.to {
                return Err(RfbError::Surplus(NAME));
            }
            if whole && self.left == Some(0) {
                return Ok(true);
            }
            if !self.inflate(input)? {
                return match self.left {
                    Some(0) => Err(RfbError::Short(NAME)),
                    _ => Ok(false),
                };
            }
        }
    }

    /// Inflates some more; false where nothing came of it.
    fn inflate(&mut self, input: &mut Input<'_>) -> Result<bool, RfbError> {
        self.plain.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let (Some(stream), Some(left)) = (&mut self.stream, &mut self.left) else { return Ok(false) };
        let bytes = input.rest();
        let bytes = &bytes[..bytes.len().min(*left as usize)];
        let (used, made) = stream.step(bytes, &mut self.plain[self.to..], NAME)?;
        input.up_to(used);
        *left -= used as u32;
        self.to += made;
        if used + made == 0 && !bytes.is_empty() {
            // Bytes, and room for what is in them, and nothing comes.
            return Err(RfbError::Zlib(NAME));
        }
        Ok(used + made > 0)
    }

    /// Draws the tiles that are whole.
    fn draw(&mut self, screen: &mut Screen, area: Rect) -> Result<(), RfbError> {
        while self.at.1 < area.height && self.from < self.to {
            let tile = area.tile(self.at.0, self.at.1, TILE);
            let bytes = &self.plain[self.from..self.to];
            let length = match bytes {
                [RAW, bytes @ ..] => raw(screen, tile, bytes).map(|length| 1 + length),
                _ => {
                    let pixels = &mut self.pixels[..tile.pixels() as usize];
                    let length = decode(bytes, tile, pixels)?;
                    if length.is_some() {
                        show(screen, tile, pixels);
                    }
                    length
                }
            };
            let Some(length) = length else { return Ok(()) };
            self.from += length;
            self.at.0 += tile.width;
            if self.at.0 >= area.width {
                self.at = (0, self.at.1 + tile.height);
            }
        }
        Ok(())
    }
}

/// Compressed data longer than what is in them, by much, are no encoder's.
fn checked(length: u32, area: Rect) -> Result<u32, RfbError> {
    let most = u32::try_from(area.pixels() * 6 + 1024).unwrap_or(u32::MAX);
    if length > most {
        return Err(RfbError::Length {
            what: "ZRLE rectangle",
            length: i64::from(length.cast_signed()),
            most,
        });
    }
    Ok(length)
}

fn refuse<T>(what: &'static str) -> Result<T, RfbError> {
    Err(RfbError::Content { encoding: NAME, what })
}

/// Draws a tile of pixels as they are; their length, or `None` where it isn't whole.
fn raw(screen: &mut Screen, tile: Rect, bytes: &[u8]) -> Option<usize> {
    let bytes = bytes.get(..tile.pixels() as usize * COLOUR)?;
    for (row, line) in bytes.chunks_exact(usize::from(tile.width) * COLOUR).enumerate() {
        if let Some(part) = screen.part(tile.x, tile.y + row as u16, tile.width) {
            all_blue_first(part, line);
        }
    }
    Some(bytes.len())
}

/// Draws a tile that is decoded.
fn show(screen: &mut Screen, tile: Rect, pixels: &[u32]) {
    for (row, line) in pixels.chunks_exact(usize::from(tile.width)).enumerate() {
        if let Some(part) = screen.part(tile.x, tile.y + row as u16, tile.width) {
            part.copy_from_slice(line);
        }
    }
}

/// Decodes the tile that these bytes begin with, which has palettes or runs; its length, or `None` where it isn't whole.
fn decode(bytes: &[u8], tile: Rect, pixels: &mut [u32]) -> Result<Option<usize>, RfbError> {
    let Some((kind, rest)) = bytes.split_first() else { return Ok(None) };
    let count = match kind {
        1..=16 => *kind,
        128 => return Ok(runs(rest, pixels)?.map(|length| 1 + length)),
        130..=255 => kind - 128,
        0 | 17..=127 | 129 => return refuse("an unknown kind of tile"),
    };
    let (listed, rest) = rest
        .as_chunks::<COLOUR>()
        .0
        .split_at_checked(count.into())
        .map_or_else(|| (None, rest), |(colours, _)| (Some(colours), &rest[usize::from(count) * COLOUR..]));
    let Some(listed) = listed else { return Ok(None) };
    // Places without a colour keep 0, which no pixel is.
    let mut palette = [0; COLOURS];
    for (to, from) in palette.iter_mut().zip(listed) {
        *to = blue_first(from);
    }
    let length = match kind {
        1 => {
            pixels.fill(palette[0]);
            Some(0)
        }
        2 => packed::<1>(rest, &palette, tile, pixels),
        3..=4 => packed::<2>(rest, &palette, tile, pixels),
        5..=16 => packed::<4>(rest, &palette, tile, pixels),
        _ => palette_runs(rest, &palette, pixels)?,
    };
    if length.is_some() && !are_known(pixels) {
        return refuse("a colour that isn't in the palette");
    }
    Ok(length.map(|length| 1 + usize::from(count) * COLOUR + length))
}

/// Places in the palette of so many bits each; each row begins with a byte.
fn packed<const BITS: usize>(
    bytes: &[u8],
    palette: &[u32; COLOURS],
    tile: Rect,
    pixels: &mut [u32],
) -> Option<usize> {
    let width = usize::from(tile.width);
    let line = (width * BITS).div_ceil(8);
    let bytes = bytes.get(..line * usize::from(tile.height))?;
    for (row, line) in pixels.chunks_exact_mut(width).zip(bytes.chunks_exact(line)) {
        places::<BITS, COLOURS>(row, line, palette);
    }
    Some(bytes.len())
}

/// The length of a run, one more than the sum of its bytes, of which the last is less than 255; and their number.
fn run(bytes: &[u8], room: usize) -> Result<Option<(usize, usize)>, RfbError> {
    let mut length = 1;
    for (count, byte) in bytes.iter().enumerate() {
        length += usize::from(*byte);
        if length > room {
            return refuse("a run beyond its tile");
        }
        if *byte < 255 {
            return Ok(Some((length, count + 1)));
        }
    }
    Ok(None)
}

fn runs(bytes: &[u8], pixels: &mut [u32]) -> Result<Option<usize>, RfbError> {
    let (mut at, mut done) = (0, 0);
    while done < pixels.len() {
        let Some(first) = bytes.get(at..).and_then(<[u8]>::first_chunk) else { return Ok(None) };
        let Some((length, used)) = run(&bytes[at + COLOUR..], pixels.len() - done)? else { return Ok(None) };
        pixels[done..done + length].fill(blue_first(first));
        done += length;
        at += COLOUR + used;
    }
    Ok(Some(at))
}

fn palette_runs(
    bytes: &[u8],
    palette: &[u32; COLOURS],
    pixels: &mut [u32],
) -> Result<Option<usize>, RfbError> {
    let (mut at, mut done) = (0, 0);
    while done < pixels.len() {
        let Some(byte) = bytes.get(at) else { return Ok(None) };
        at += 1;
        let colour = palette[usize::from(byte & 127)];
        if byte & 128 == 0 {
            pixels[done] = colour;
            done += 1;
            continue;
        }
        let Some((length, used)) = run(&bytes[at..], pixels.len() - done)? else { return Ok(None) };
        pixels[done..done + length].fill(colour);
        at += used;
        done += length;
    }
    Ok(Some(at))
}
