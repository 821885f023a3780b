//! What vtax's own program on a desktop and its load generator agree on: which input is which, and the marker that answers it.
//!
//! The program counts the inputs that it has answered, and shows the count as a strip of cells. Every input has its number's last four
//! bits with it: as the key, or as the pointer's place. So the program knows which one it is also where some before it were lost, and
//! one that is told twice counts once.

use crate::rfb::Screen;

/// Width and height of a cell of the marker, in pixels.
pub const CELL: u16 = 8;
/// Bits before and after the count: a strip without them isn't the marker.
const BEFORE: [bool; 3] = [true, false, true];
const AFTER: [bool; 3] = [false, true, false];
/// Cells of a row.
const CELLS: u16 = 22;
/// Width of the marker, in pixels. It is in the left upper corner of the desktop.
pub const MARKER_WIDTH: u16 = CELLS * CELL;
/// Height of the marker: a row of cells, and below it the same with the colours exchanged.
pub const MARKER_HEIGHT: u16 = 2 * CELL;
/// Colour of a bit that is 1, `0xRRGGBB`.
pub const ONE: u32 = 0x10_f0_a0;
/// Colour of a bit that is 0.
pub const ZERO: u32 = 0x40_10_60;
/// The least that a desktop may be, in pixels: there is room for a picture beside the text.
pub const LEAST: (u16, u16) = (400, 300);
/// The most that it may be: what a key and a place of the pointer are for is the same then.
pub const MOST: (u16, u16) = (8192, 8192);

/// Numbers of inputs repeat their tags after so many.
pub const TAGS: u16 = 16;

/// Buttons of the pointer, as X counts them.
pub mod button {
    /// Drags the picture.
    pub const DRAG: u8 = 1;
    /// Shows the next picture of the film.
    pub const FILM: u8 = 3;
    /// Scrolls back.
    pub const BACK: u8 = 4;
    /// Scrolls on.
    pub const ON: u8 = 5;
}

/// The tag of an input.
#[must_use]
pub const fn tag(number: u16) -> u16 {
    number % TAGS
}

/// The key that types the input with this tag: `a` to `p`, as X names keys.
#[must_use]
pub const fn keysym(tag: u16) -> u32 {
    0x61 + (tag % TAGS) as u32
}

/// The tag that a key has, if it is one of those; capitals count, too.
#[must_use]
pub const fn tag_of_key(keysym: u32) -> Option<u16> {
    match keysym {
        0x61..=0x70 => Some((keysym - 0x61) as u16),
        0x41..=0x50 => Some((keysym - 0x41) as u16),
        _ => None,
    }
}

/// The place nearest to `x`, to its left, that has this tag.
#[must_use]
pub const fn tagged(x: u16, tag: u16) -> u16 {
    x / TAGS * TAGS + tag % TAGS
}

/// The count after an input with this tag.
#[must_use]
pub const fn advance(count: u16, tag: u16) -> u16 {
    count.wrapping_add(tag.wrapping_sub(count) % TAGS)
}

/// Whether the cell in this column of the upper row is a 1.
fn bit(count: u16, column: u16) -> bool {
    let column = usize::from(column);
    match column {
        0..3 => BEFORE[column],
        3..19 => count >> (18 - column) & 1 == 1,
        _ => AFTER[column - 19],
    }
}

/// The marker as a picture of one bit for each pixel: a row after the other, eight pixels to a byte, the first one its least significant,
/// each row as long as `pad` bytes divide.
pub fn draw(count: u16, pad: usize, out: &mut Vec<u8>) {
    let line = usize::from(CELLS).next_multiple_of(pad.max(1));
    for y in 0..MARKER_HEIGHT {
        for column in 0..line {
            let one = column < usize::from(CELLS) && bit(count, column as u16) == (y < CELL);
            out.push(if one { 0xff } else { 0 });
        }
    }
}

/// The count that the marker shows; `None` where there is none, or it isn't whole.
#[must_use]
pub fn read(screen: &Screen) -> Option<u16> {
    let mut count = 0;
    for column in 0..CELLS {
        let x = column * CELL + CELL / 2;
        let upper = screen.pixel(x, CELL / 2)?;
        let lower = screen.pixel(x, CELL + CELL / 2)?;
        let one = match (upper, lower) {
            (ONE, ZERO) => true,
            (ZERO, ONE) => false,
            _ => return None,
        };
        let place = usize::from(column);
        match place {
            0..3 if one != BEFORE[place] => return None,
            3..19 => count = count << 1 | u16::from(one),
            19.. if one != AFTER[place - 19] => return None,
            _ => {}
        }
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rfb::{Decoder, Limits};

    /// A screen that shows the marker, by way of a Raw rectangle.
    fn shown(count: u16, spoil: Option<(u16, u16)>) -> Option<u16> {
        let mut bits = Vec::new();
        draw(count, 4, &mut bits);
        let mut message = vec![0, 0, 0, 1, 0, 0, 0, 0];
        message.extend_from_slice(&MARKER_WIDTH.to_be_bytes());
        message.extend_from_slice(&MARKER_HEIGHT.to_be_bytes());
        message.extend_from_slice(&[0; 4]);
        for y in 0..MARKER_HEIGHT {
            for x in 0..MARKER_WIDTH {
                let byte = bits[usize::from(y) * 24 + usize::from(x) / 8];
                let one = byte >> (x % 8) & 1 == 1;
                let colour = if spoil == Some((x, y)) {
                    0x12_34_56
                } else if one {
                    ONE
                } else {
                    ZERO
                };
                message.extend_from_slice(&colour.to_le_bytes());
            }
        }
        let mut decoder = Decoder::new(MARKER_WIDTH, MARKER_HEIGHT, Limits::default()).unwrap();
        assert_eq!(decoder.read(&message).unwrap().0, message.len());
        read(decoder.screen())
    }

    #[test]
    fn every_count_is_read_as_it_was_drawn() {
        for count in (0..=u16::MAX).step_by(257).chain([1, 2, 0x8000, 0x7fff]) {
            assert_eq!(shown(count, None), Some(count));
        }
    }

    #[test]
    fn a_marker_that_is_not_whole_is_none() {
        assert_eq!(shown(7, Some((4, 4))), None);
        assert_eq!(shown(7, Some((100, 12))), None);
        assert_eq!(read(&Screen::new(200, 100, 0..100)), None, "nothing is known");
        assert_eq!(read(&Screen::new(10, 10, 0..10)), None, "too small for it");
    }

    #[test]
    fn inputs_are_known_by_their_tags_also_where_some_are_lost() {
        let mut count = 65_530;
        for number in [65_531, 65_532, 65_532, 65_535, 3, 18] {
            count = advance(count, tag(number));
            assert_eq!(count, number);
        }
        for number in 0..40 {
            assert_eq!(tag_of_key(keysym(tag(number))), Some(tag(number)));
            assert_eq!(tagged(333, tag(number)) % TAGS, tag(number));
        }
        assert_eq!(tag_of_key(0x71), None);
    }
}
