//! RRE (RFC 6143 section 7.7.3): a background and rectangles on it.

use super::super::input::{Input, be16, be32};
use super::super::{Rect, RfbError, Screen};
use super::pixel;

/// A rectangle in RRE that is being read.
#[derive(Debug, Default)]
pub(super) struct Rre {
    /// Rectangles still to come, once the background is there.
    left: Option<u32>,
}

impl Rre {
    pub(super) fn begin(&mut self) {
        self.left = None;
    }

    pub(super) fn read(
        &mut self,
        screen: &mut Screen,
        area: Rect,
        input: &mut Input<'_>,
    ) -> Result<bool, RfbError> {
        let mut left = match self.left {
            Some(left) => left,
            None => {
                let Some(head) = input.array::<8>() else { return Ok(false) };
                let count = be32(head, 0);
                // More rectangles than pixels draw some for nothing: no encoder does, and a hostile one would without end.
                if u64::from(count) > area.pixels() {
                    let most = area.pixels() as u32;
                    let length = i64::from(count.cast_signed());
                    return Err(RfbError::Length { what: "list of rectangles", length, most });
                }
                screen.fill(area, pixel([head[4], head[5], head[6], head[7]]));
                count
            }
        };
        while left > 0 {
            let Some(b) = input.array::<12>() else { break };
            let within = Rect { x: be16(b, 4), y: be16(b, 6), width: be16(b, 8), height: be16(b, 10) };
            if !within.fits(area.width, area.height) {
                return Err(RfbError::Content { encoding: "RRE", what: "a rectangle outside its own" });
            }
            let place = Rect { x: area.x + within.x, y: area.y + within.y, ..within };
            screen.fill(place, pixel([b[0], b[1], b[2], b[3]]));
            left -= 1;
        }
        self.left = Some(left);
        Ok(left == 0)
    }
}
