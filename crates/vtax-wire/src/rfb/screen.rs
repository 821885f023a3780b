//! The pixels of a desktop as its client knows them.

use std::ops::Range;

/// A rectangle of pixels.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rect {
    /// Of its left edge.
    pub x: u16,
    /// Of its upper edge.
    pub y: u16,
    /// In pixels.
    pub width: u16,
    /// In pixels.
    pub height: u16,
}

impl Rect {
    /// Pixels in it.
    #[must_use]
    pub const fn pixels(&self) -> u64 {
        self.width as u64 * self.height as u64
    }

    /// True where it is within a desktop of this size.
    #[must_use]
    pub const fn fits(&self, width: u16, height: u16) -> bool {
        self.x as u32 + self.width as u32 <= width as u32
            && self.y as u32 + self.height as u32 <= height as u32
    }

    /// Its part in tiles of a size, beginning at a tile's left upper corner relative to it.
    pub(super) fn tile(&self, left: u16, top: u16, size: u16) -> Self {
        Self {
            x: self.x + left,
            y: self.y + top,
            width: size.min(self.width - left),
            height: size.min(self.height - top),
        }
    }
}

/// What a known pixel has beside its colour: one that was never sent is 0.
pub(super) const KNOWN: u32 = 0xff00_0000;

/// The pixels of a desktop, or of some of its rows: who only looks for a marker needs no more, and a hundred desktops are
/// many bytes.
#[derive(Debug)]
pub struct Screen {
    width: u16,
    height: u16,
    /// Rows that are kept.
    rows: Range<u16>,
    pixels: Vec<u32>,
}

impl Screen {
    /// A screen of which nothing is known yet. Rows beyond the desktop are no error.
    #[must_use]
    pub fn new(width: u16, height: u16, rows: Range<u16>) -> Self {
        let rows = rows.start.min(height)..rows.end.min(height).max(rows.start.min(height));
        let pixels = vec![0; usize::from(width) * rows.len()];
        Self { width, height, rows, pixels }
    }

    /// In pixels.
    #[must_use]
    pub const fn width(&self) -> u16 {
        self.width
    }

    /// In pixels.
    #[must_use]
    pub const fn height(&self) -> u16 {
        self.height
    }

    /// All of it.
    #[must_use]
    pub const fn area(&self) -> Rect {
        Rect { x: 0, y: 0, width: self.width, height: self.height }
    }

    /// The kept rows, one after the other: `0xffRRGGBB`, or 0 where nothing was ever sent.
    #[must_use]
    pub fn pixels(&self) -> &[u32] {
        &self.pixels
    }

    /// Which rows these are.
    #[must_use]
    pub fn rows(&self) -> Range<u16> {
        self.rows.clone()
    }

    /// The colour at a place, `0xRRGGBB`; `None` where it isn't known.
    #[must_use]
    pub fn pixel(&self, x: u16, y: u16) -> Option<u32> {
        if x >= self.width {
            return None;
        }
        let row = self.row(y)?;
        let pixel = row[usize::from(x)];
        (pixel != 0).then_some(pixel & !KNOWN)
    }

    fn start(&self, y: u16) -> Option<usize> {
        self.rows.contains(&y).then(|| usize::from(y - self.rows.start) * usize::from(self.width))
    }

    fn row(&self, y: u16) -> Option<&[u32]> {
        let start = self.start(y)?;
        self.pixels.get(start..start + usize::from(self.width))
    }

    /// A part of a row, where that row is kept and the part is within the desktop.
    #[inline]
    pub(super) fn part(&mut self, x: u16, y: u16, width: u16) -> Option<&mut [u32]> {
        let start = self.start(y)? + usize::from(x);
        if u32::from(x) + u32::from(width) > u32::from(self.width) {
            return None;
        }
        self.pixels.get_mut(start..start + usize::from(width))
    }

    pub(super) fn fill(&mut self, area: Rect, pixel: u32) {
        let top = area.y.max(self.rows.start);
        let end = (u32::from(area.y) + u32::from(area.height)).min(u32::from(self.rows.end)) as u16;
        for y in top..end.max(top) {
            if let Some(part) = self.part(area.x, y, area.width) {
                part.fill(pixel);
            }
        }
    }

    /// Copies from elsewhere on it. What comes from rows that aren't kept is not known any more.
    pub(super) fn copy(&mut self, from: (u16, u16), to: Rect) {
        let width = usize::from(to.width);
        for i in 0..to.height {
            // Downwards the last row first, or it would be overwritten before it is read.
            let i = if from.1 < to.y { to.height - 1 - i } else { i };
            let Some(target) = self.start(to.y + i) else { continue };
            let target = target + usize::from(to.x);
            match self.start(from.1 + i) {
                Some(source) => {
                    let source = source + usize::from(from.0);
                    self.pixels.copy_within(source..source + width, target);
                }
                None => self.pixels[target..target + width].fill(0),
            }
        }
    }
}
