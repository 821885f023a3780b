//! Hextile (RFC 6143 section 7.7.4): tiles of 16 by 16, each a background and rectangles on it.

use super::super::input::Input;
use super::super::{PIXEL_BYTES, Rect, RfbError, Screen};
use super::{pixel, pixels};

const TILE: u16 = 16;
const RAW: u8 = 1;
const BACKGROUND: u8 = 2;
const FOREGROUND: u8 = 4;
const RECTANGLES: u8 = 8;
const COLOURED: u8 = 16;

/// A rectangle in Hextile that is being read.
#[derive(Debug, Default)]
pub(super) struct Hextile {
    /// Left upper corner of the next tile, within the rectangle.
    at: (u16, u16),
    background: u32,
    foreground: u32,
}

impl Hextile {
    pub(super) fn begin(&mut self, area: Rect) {
        // Both are to be sent with the first tile; the RFC doesn't say what they are where they aren't.
        *self = Self { at: (0, if area.width == 0 { area.height } else { 0 }), ..Self::default() };
    }

    pub(super) fn read(
        &mut self,
        screen: &mut Screen,
        area: Rect,
        input: &mut Input<'_>,
    ) -> Result<bool, RfbError> {
        while self.at.1 < area.height {
            let tile = area.tile(self.at.0, self.at.1, TILE);
            let Some(length) = length(input.rest(), tile) else { return Ok(false) };
            let Some(bytes) = input.take(length) else { return Ok(false) };
            self.draw(screen, tile, bytes)?;
            // 65,535 is no multiple of a tile's size, so neither goes beyond what its type holds.
            self.at.0 += tile.width;
            if self.at.0 >= area.width {
                self.at = (0, self.at.1 + tile.height);
            }
        }
        Ok(true)
    }

    /// Draws a tile that is whole.
    fn draw(&mut self, screen: &mut Screen, tile: Rect, bytes: &[u8]) -> Result<(), RfbError> {
        let (mask, mut rest) = (bytes[0], &bytes[1..]);
        if mask & RAW != 0 {
            for (row, line) in rest.chunks_exact(usize::from(tile.width) * PIXEL_BYTES).enumerate() {
                if let Some(part) = screen.part(tile.x, tile.y + row as u16, tile.width) {
                    pixels(part, line);
                }
            }
            return Ok(());
        }
        let mut colour = |into: &mut u32| {
            if let Some((first, more)) = rest.split_first_chunk() {
                (*into, rest) = (pixel(*first), more);
            }
        };
        if mask & BACKGROUND != 0 {
            colour(&mut self.background);
        }
        if mask & FOREGROUND != 0 {
            colour(&mut self.foreground);
        }
        screen.fill(tile, self.background);
        if mask & RECTANGLES == 0 {
            return Ok(());
        }
        let coloured = mask & COLOURED != 0;
        for one in rest[1..].chunks_exact(if coloured { PIXEL_BYTES + 2 } else { 2 }) {
            let (colour, place) = one.split_at(one.len() - 2);
            let colour = match colour.first_chunk() {
                Some(own) => pixel(*own),
                None => self.foreground,
            };
            let within = Rect {
                x: u16::from(place[0] >> 4),
                y: u16::from(place[0] & 15),
                width: u16::from(place[1] >> 4) + 1,
                height: u16::from(place[1] & 15) + 1,
            };
            if !within.fits(tile.width, tile.height) {
                return Err(RfbError::Content { encoding: "Hextile", what: "a rectangle outside its tile" });
            }
            screen.fill(Rect { x: tile.x + within.x, y: tile.y + within.y, ..within }, colour);
        }
        Ok(())
    }
}

/// Bytes of the tile that these begin with; `None` where too few are there to tell.
fn length(bytes: &[u8], tile: Rect) -> Option<usize> {
    let mask = *bytes.first()?;
    if mask & RAW != 0 {
        return Some(1 + tile.pixels() as usize * PIXEL_BYTES);
    }
    let mut length = 1;
    for colour in [BACKGROUND, FOREGROUND] {
        if mask & colour != 0 {
            length += PIXEL_BYTES;
        }
    }
    if mask & RECTANGLES != 0 {
        let count = usize::from(*bytes.get(length)?);
        let each = if mask & COLOURED != 0 { PIXEL_BYTES + 2 } else { 2 };
        length += 1 + count * each;
    }
    Some(length)
}
