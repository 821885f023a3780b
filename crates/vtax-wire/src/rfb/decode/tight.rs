//! Tight (the community's description of RFB, 7.7.7), without JPEG: fills, palettes and filters, compressed in four streams.

use super::super::input::Input;
use super::super::{Rect, RfbError, Screen};
use super::colours::{COLOUR, all_red_first, are_known, places, red_first};
use super::inflate::Inflate;

const NAME: &str = "Tight";
/// Shorter data aren't compressed.
const LEAST_COMPRESSED: u64 = 12;
/// Room for what is inflated, unless a single row needs more. To inflate is slow at the end of the room.
const ROOM: usize = 64 * 1024;

#[derive(Debug, Clone, Copy, Default)]
enum Phase {
    #[default]
    Control,
    Fill,
    Filter,
    /// How many colours the palette has.
    Count,
    Palette,
    Length,
    Data,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Filter {
    #[default]
    Copy,
    Palette,
    Gradient,
}

/// A rectangle in Tight that is being read.
#[derive(Debug)]
pub(super) struct Tight {
    /// Each begins when it is first used.
    streams: [Option<Inflate>; 4],
    phase: Phase,
    stream: usize,
    filter: Filter,
    palette: [u32; 256],
    colours: usize,
    /// Compressed bytes still to come; `None`: they aren't compressed.
    left: Option<u32>,
    plain: Vec<u8>,
    /// What of it is inflated and not yet drawn.
    from: usize,
    to: usize,
    /// Rows drawn.
    row: u16,
    /// Colours of the row above, for the gradient.
    above: Vec<u8>,
}

impl Default for Tight {
    fn default() -> Self {
        Self {
            streams: [const { None }; 4],
            phase: Phase::Control,
            stream: 0,
            filter: Filter::Copy,
            palette: [0; 256],
            colours: 0,
            left: None,
            plain: Vec::new(),
            from: 0,
            to: 0,
            row: 0,
            above: Vec::new(),
        }
    }
}

fn refuse<T>(what: &'static str) -> Result<T, RfbError> {
    Err(RfbError::Content { encoding: NAME, what })
}

impl Tight {
    pub(super) fn begin(&mut self, area: Rect) {
        (self.phase, self.filter) = (Phase::Control, Filter::Copy);
        (self.from, self.to, self.row) = (0, 0, 0);
        let line = usize::from(area.width) * COLOUR;
        if self.plain.len() < line.max(ROOM) {
            self.plain.resize(line.max(ROOM), 0);
        }
    }

    pub(super) fn read(
        &mut self,
        screen: &mut Screen,
        area: Rect,
        input: &mut Input<'_>,
    ) -> Result<bool, RfbError> {
        loop {
            let next = match self.phase {
                Phase::Control => self.control(area, input)?,
                Phase::Fill => {
                    let Some(bytes) = input.array::<COLOUR>() else { return Ok(false) };
                    screen.fill(area, red_first(bytes));
                    return Ok(true);
                }
                Phase::Filter => self.filter(area, input)?,
                Phase::Count => input.array().map(|[count]| {
                    self.colours = usize::from(*count) + 1;
                    Phase::Palette
                }),
                Phase::Palette => self.palette(area, input),
                Phase::Length => self.length(input),
                Phase::Data => return self.data(screen, area, input),
            };
            match next {
                Some(phase) => self.phase = phase,
                None => return Ok(false),
            }
        }
    }

    fn control(&mut self, area: Rect, input: &mut Input<'_>) -> Result<Option<Phase>, RfbError> {
        let Some(&[control]) = input.array() else { return Ok(None) };
        for (number, stream) in self.streams.iter_mut().enumerate() {
            if let Some(stream) = stream.as_mut().filter(|_| control & (1 << number) != 0) {
                stream.reset();
            }
        }
        Ok(Some(match control >> 4 {
            8 => Phase::Fill,
            9 => return refuse("JPEG, which wasn't asked for"),
            kind @ 0..=7 => {
                self.stream = usize::from(kind & 3);
                if kind & 4 != 0 { Phase::Filter } else { self.sized(Filter::Copy, area) }
            }
            _ => return refuse("an unknown kind of compression"),
        }))
    }

    fn filter(&mut self, area: Rect, input: &mut Input<'_>) -> Result<Option<Phase>, RfbError> {
        let Some(&[filter]) = input.array() else { return Ok(None) };
        Ok(Some(match filter {
            0 => self.sized(Filter::Copy, area),
            1 => Phase::Count,
            2 => {
                self.above.clear();
                self.above.resize(usize::from(area.width) * COLOUR, 0);
                self.sized(Filter::Gradient, area)
            }
            _ => return refuse("an unknown filter"),
        }))
    }

    /// The filter is known; what follows is the length of the data, which short ones don't have.
    fn sized(&mut self, filter: Filter, area: Rect) -> Phase {
        self.filter = filter;
        if self.line(area) as u64 * u64::from(area.height) < LEAST_COMPRESSED {
            self.left = None;
            return Phase::Data;
        }
        Phase::Length
    }

    fn palette(&mut self, area: Rect, input: &mut Input<'_>) -> Option<Phase> {
        let bytes = input.take(self.colours * COLOUR)?;
        // Places without a colour have 0, which no pixel is.
        self.palette = [0; 256];
        for (to, from) in self.palette.iter_mut().zip(bytes.as_chunks().0) {
            *to = red_first(from);
        }
        Some(self.sized(Filter::Palette, area))
    }

    /// Bytes of a row before compression.
    fn line(&self, area: Rect) -> usize {
        let width = usize::from(area.width);
        match self.filter {
            Filter::Palette if self.colours <= 2 => width.div_ceil(8),
            Filter::Palette => width,
            Filter::Copy | Filter::Gradient => width * COLOUR,
        }
    }

    /// Up to three bytes of seven, seven and eight bits, the least significant first.
    fn length(&mut self, input: &mut Input<'_>) -> Option<Phase> {
        let mut length = 0;
        for (i, byte) in input.rest().iter().take(3).enumerate() {
            let bits = if i < 2 { byte & 127 } else { *byte };
            length |= u32::from(bits) << (7 * i);
            if i == 2 || byte & 128 == 0 {
                input.up_to(i + 1);
                self.left = Some(length);
                return Some(Phase::Data);
            }
        }
        None
    }

    fn data(&mut self, screen: &mut Screen, area: Rect, input: &mut Input<'_>) -> Result<bool, RfbError> {
        let line = self.line(area);
        loop {
            self.draw(screen, area, line)?;
            let whole = self.row == area.height;
            if whole && self.from < self.to {
                return Err(RfbError::Surplus(NAME));
            }
            if whole && self.left.is_none_or(|left| left == 0) {
                return Ok(true);
            }
            if !self.fill(area, line, input)? {
                return match self.left {
                    Some(0) => Err(RfbError::Short(NAME)),
                    _ => Ok(false),
                };
            }
        }
    }

    /// Takes some more of the data; false where nothing came of it.
    fn fill(&mut self, area: Rect, line: usize, input: &mut Input<'_>) -> Result<bool, RfbError> {
        self.plain.copy_within(self.from..self.to, 0);
        (self.from, self.to) = (0, self.to - self.from);
        let Some(left) = &mut self.left else {
            let wanted = line * usize::from(area.height - self.row) - self.to;
            let bytes = input.up_to(wanted);
            self.plain[self.to..self.to + bytes.len()].copy_from_slice(bytes);
            self.to += bytes.len();
            return Ok(!bytes.is_empty());
        };
        let stream = self.streams[self.stream].get_or_insert_with(Inflate::new);
        let bytes = input.rest();
        let bytes = &bytes[..bytes.len().min(*left as usize)];
        let (used, made) = stream.step(bytes, &mut self.plain[self.to..], NAME)?;
        input.up_to(used);
        *left -= used as u32;
        self.to += made;
        if used + made == 0 && !bytes.is_empty() {
            return Err(RfbError::Zlib(NAME));
        }
        Ok(used + made > 0)
    }

    /// Draws the rows that are whole.
    fn draw(&mut self, screen: &mut Screen, area: Rect, line: usize) -> Result<(), RfbError> {
        while self.row < area.height && self.to - self.from >= line {
            let bytes = &self.plain[self.from..self.from + line];
            let y = area.y + self.row;
            if self.filter == Filter::Gradient {
                gradient(bytes, &mut self.above);
            }
            if let Some(part) = screen.part(area.x, y, area.width) {
                match self.filter {
                    Filter::Copy => all_red_first(part, bytes),
                    Filter::Gradient => all_red_first(part, &self.above),
                    Filter::Palette => indexed(part, bytes, &self.palette, self.colours)?,
                }
            }
            self.from += line;
            self.row += 1;
        }
        Ok(())
    }
}

fn indexed(part: &mut [u32], bytes: &[u8], palette: &[u32; 256], colours: usize) -> Result<(), RfbError> {
    if colours <= 2 {
        places::<1, 256>(part, bytes, palette);
    } else {
        for (to, place) in part.iter_mut().zip(bytes) {
            *to = palette[usize::from(*place)];
        }
    }
    match are_known(part) {
        true => Ok(()),
        false => refuse("a colour that isn't in the palette"),
    }
}

/// Adds to each colour what its neighbours foretell: left + above - above the left, within 0 and 255. `above` is the row before, and
/// becomes this one.
fn gradient(bytes: &[u8], above: &mut [u8]) {
    let (mut left, mut corner) = ([0_u8; COLOUR], [0_u8; COLOUR]);
    for (now, over) in bytes.chunks_exact(COLOUR).zip(above.chunks_exact_mut(COLOUR)) {
        for c in 0..COLOUR {
            let foretold = i16::from(left[c]) + i16::from(over[c]) - i16::from(corner[c]);
            let value = now[c].wrapping_add(foretold.clamp(0, 255) as u8);
            (corner[c], over[c], left[c]) = (over[c], value, value);
        }
    }
}
