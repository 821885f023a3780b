//! What is drawn. Everything but the picture that is dragged is in a pixmap as well, from which the window is mended.

use vtax_units::random::SplitMix64;
use vtax_wire::desktop::{self, CELL, LEAST, MARKER_HEIGHT, MARKER_WIDTH, MOST, ONE, ZERO, button};
use vtax_wire::x11::{
    Event, EventKind, GcValues, Geometry, Setup, change_gc, copy_area, create_gc, create_pixmap,
    create_window, events, fill, get_keyboard_mapping, map_window, put_bitmap, put_pixels, set_input_focus,
};

use super::DesktopError;

/// A character's size, in pixels.
const GLYPH: (u16, u16) = (8, 16);
/// Characters there are; the first is blank.
const GLYPHS: usize = 64;
/// Left and upper edge of the text.
const TEXT: (i16, i16) = (16, 32);
/// Lines that a click of the wheel scrolls.
const LINES: u16 = 3;
/// Pictures of the film.
const FRAMES: usize = 8;
/// Size of the picture that is dragged.
const DRAGGED: (u16, u16) = (160, 120);
const PAPER: u32 = 0xf8_f8_f0;
const WRITING: u32 = 0x20_20_28;
/// The state of a motion with the first button down.
const FIRST_BUTTON: u16 = 1 << 8;
/// What a key types that has no tag.
const NO_TAG: u8 = 255;

/// Numbers of what is made on the server, within those it gave.
struct Ids {
    window: u32,
    page: u32,
    dragged: u32,
    frames: [u32; FRAMES],
    writing: u32,
    marker: u32,
}

pub(super) struct Scene {
    ids: Ids,
    root: u32,
    width: u16,
    height: u16,
    bitmap_pad: usize,
    most_request: usize,
    keycodes: (u8, u8),
    /// The tag of each key.
    tags: [u8; 256],
    glyphs: [[u8; GLYPH.1 as usize]; GLYPHS],
    random: Random,
    /// Number of the last input answered.
    count: u16,
    /// Column and line of the next character.
    caret: (u16, u16),
    frame: usize,
    /// Where the dragged picture is.
    dragged: Option<Geometry>,
    bits: Vec<u8>,
}

/// Numbers that follow from a seed.
struct Random(SplitMix64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.bits()
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

fn rectangle(x: i16, y: i16, width: u16, height: u16) -> Geometry {
    Geometry { x, y, width, height }
}

impl Scene {
    pub(super) fn new(setup: &Setup, display: u32, seed: u64) -> Result<Self, DesktopError> {
        let (width, height) = (setup.width, setup.height);
        if width < LEAST.0 || height < LEAST.1 || width > MOST.0 || height > MOST.1 {
            return Err(DesktopError::Size { display, width, height });
        }
        // The lowest bit of the mask is the step from one number to the next.
        let step = setup.id_mask & setup.id_mask.wrapping_neg();
        let id = |n: u32| setup.id_base | ((n * step) & setup.id_mask);
        let frames = std::array::from_fn(|i| id(10 + i as u32));
        let ids = Ids { window: id(1), page: id(2), dragged: id(3), frames, writing: id(4), marker: id(5) };
        Ok(Self {
            ids,
            root: setup.root,
            width,
            height,
            bitmap_pad: setup.bitmap_pad,
            most_request: setup.most_request,
            keycodes: setup.keycodes,
            tags: [NO_TAG; 256],
            glyphs: glyphs(),
            random: Random(SplitMix64::new(seed)),
            count: 0,
            caret: (0, 0),
            frame: 0,
            dragged: None,
            bits: Vec::with_capacity(64 * 1024),
        })
    }

    /// Asks what the keys mean.
    pub(super) fn ask_keys(&self, out: &mut Vec<u8>) {
        let (first, last) = self.keycodes;
        get_keyboard_mapping(out, first, last.saturating_sub(first).saturating_add(1));
    }

    /// The answer to that.
    pub(super) fn keys(&mut self, reply: &[u8]) {
        let each = usize::from(reply[1]).max(1);
        let words = reply[32..].as_chunks::<4>().0;
        self.tags = [NO_TAG; 256];
        for (key, meanings) in words.chunks(each).enumerate() {
            let tag = meanings.iter().find_map(|word| desktop::tag_of_key(u32::from_le_bytes(*word)));
            if let (Some(tag), Some(place)) = (tag, self.tags.get_mut(usize::from(self.keycodes.0) + key)) {
                *place = tag as u8;
            }
        }
    }

    fn columns(&self) -> u16 {
        (self.width - 2 * TEXT.0.cast_unsigned()) / GLYPH.0
    }

    fn lines(&self) -> u16 {
        (self.height - TEXT.1.cast_unsigned() - GLYPH.1) / GLYPH.1
    }

    /// Where the film is: at the right, at the bottom.
    fn film(&self) -> Geometry {
        let (width, height) = ((self.width / 2).min(320), (self.height / 2).min(240));
        let of = |all: u16, own: u16| (all - own - 16).cast_signed();
        rectangle(of(self.width, width), of(self.height, height), width, height)
    }

    /// Makes everything and shows it.
    pub(super) fn build(&mut self, out: &mut Vec<u8>) {
        let all = rectangle(0, 0, self.width, self.height);
        let masks = events::KEY_PRESS
            | events::BUTTON_PRESS
            | events::BUTTON_RELEASE
            | events::MOTION
            | events::EXPOSURE;
        create_window(out, self.ids.window, self.root, all, masks);
        create_pixmap(out, self.ids.page, self.root, 24, self.width, self.height);
        let paper = GcValues { foreground: PAPER, background: PAPER };
        create_gc(out, self.ids.writing, self.root, paper);
        create_gc(out, self.ids.marker, self.root, GcValues { foreground: ONE, background: ZERO });
        fill(out, self.ids.page, self.ids.writing, all);
        change_gc(out, self.ids.writing, GcValues { foreground: WRITING, background: PAPER });
        for line in 0..self.lines() {
            self.write_line(line, out);
        }
        let film = self.film();
        for number in 0..FRAMES {
            self.make_picture(self.ids.frames[number], film.width, film.height, number as u64, out);
        }
        self.make_picture(self.ids.dragged, DRAGGED.0, DRAGGED.1, 99, out);
        map_window(out, self.ids.window);
        set_input_focus(out, self.ids.window);
        self.show(all, out);
        self.mark(out);
    }

    /// Answers an event.
    pub(super) fn event(&mut self, event: &Event, out: &mut Vec<u8>) {
        let at = event.x.max(0).cast_unsigned();
        match (event.kind, event.detail) {
            (EventKind::KeyPress, key) => {
                let tag = self.tags[usize::from(key)];
                if tag != NO_TAG && self.counts(tag.into()) {
                    self.put_back(out);
                    self.type_glyph(out);
                    self.mark(out);
                }
            }
            (EventKind::ButtonPress, button::DRAG) => self.drag(event, out),
            (EventKind::Motion, _) if event.state & FIRST_BUTTON != 0 => self.drag(event, out),
            (EventKind::ButtonPress, wheel @ (button::BACK | button::ON))
                if self.counts(desktop::tag(at)) =>
            {
                self.put_back(out);
                self.scroll(wheel == button::ON, out);
                self.mark(out);
            }
            (EventKind::ButtonPress, button::FILM) if self.counts(desktop::tag(at)) => {
                self.put_back(out);
                self.next_frame(out);
                self.mark(out);
            }
            (EventKind::Expose, _) => {
                self.show(rectangle(0, 0, self.width, self.height), out);
                self.mark(out);
            }
            _ => {}
        }
    }

    /// Counts an input; false where it was counted already.
    fn counts(&mut self, tag: u16) -> bool {
        let count = desktop::advance(self.count, tag);
        let new = count != self.count;
        self.count = count;
        new
    }

    /// The marker: drawn last, and at once.
    fn mark(&mut self, out: &mut Vec<u8>) {
        self.bits.clear();
        desktop::draw(self.count, self.bitmap_pad, &mut self.bits);
        let area = rectangle(0, 0, MARKER_WIDTH, MARKER_HEIGHT);
        put_bitmap(out, self.ids.window, self.ids.marker, area, &self.bits);
    }

    /// From the page to the window.
    fn show(&self, area: Geometry, out: &mut Vec<u8>) {
        copy_area(out, self.ids.page, self.ids.window, self.ids.writing, area, (area.x, area.y));
    }

    /// Takes the dragged picture away.
    fn put_back(&mut self, out: &mut Vec<u8>) {
        if let Some(area) = self.dragged.take() {
            self.show(area, out);
        }
    }

    /// The picture moves to the pointer, below the marker.
    fn drag(&mut self, event: &Event, out: &mut Vec<u8>) {
        if !self.counts(desktop::tag(event.x.max(0).cast_unsigned())) {
            return;
        }
        self.put_back(out);
        let (width, height) = DRAGGED;
        let x = event.x.max(0).min((self.width - width).cast_signed());
        let y = event.y.max(TEXT.1).min((self.height - height).cast_signed());
        let area = rectangle(x, y, width, height);
        let whole = rectangle(0, 0, width, height);
        copy_area(out, self.ids.dragged, self.ids.window, self.ids.writing, whole, (x, y));
        self.dragged = Some(area);
        self.mark(out);
    }

    fn type_glyph(&mut self, out: &mut Vec<u8>) {
        let (column, line) = self.caret;
        let glyph = self.glyphs[1 + self.random.below(GLYPHS as u64 - 1) as usize];
        self.bits.clear();
        for row in glyph {
            self.bits.push(row);
            self.bits.resize(self.bits.len().next_multiple_of(self.bitmap_pad), 0);
        }
        let (x, y) = (TEXT.0 + (column * GLYPH.0).cast_signed(), TEXT.1 + (line * GLYPH.1).cast_signed());
        let area = rectangle(x, y, GLYPH.0, GLYPH.1);
        for drawable in [self.ids.page, self.ids.window] {
            put_bitmap(out, drawable, self.ids.writing, area, &self.bits);
        }
        let next = column + 1;
        self.caret = if next < self.columns() { (next, line) } else { (0, (line + 1) % self.lines()) };
    }

    /// Text moves by some lines, as editors do it: most of it is copied.
    fn scroll(&mut self, on: bool, out: &mut Vec<u8>) {
        let width = self.columns() * GLYPH.0;
        let kept = (self.lines() - LINES) * GLYPH.1;
        let moved = (LINES * GLYPH.1).cast_signed();
        let (from, to) = if on { (TEXT.1 + moved, TEXT.1) } else { (TEXT.1, TEXT.1 + moved) };
        let area = rectangle(TEXT.0, from, width, kept);
        for drawable in [self.ids.page, self.ids.window] {
            copy_area(out, drawable, drawable, self.ids.writing, area, (TEXT.0, to));
        }
        let first = if on { self.lines() - LINES } else { 0 };
        for line in first..first + LINES {
            self.write_line(line, out);
        }
        let top = TEXT.1 + (first * GLYPH.1).cast_signed();
        self.show(rectangle(TEXT.0, top, width, LINES * GLYPH.1), out);
    }

    fn next_frame(&mut self, out: &mut Vec<u8>) {
        let film = self.film();
        let frame = self.ids.frames[self.frame];
        let whole = rectangle(0, 0, film.width, film.height);
        for drawable in [self.ids.page, self.ids.window] {
            copy_area(out, frame, drawable, self.ids.writing, whole, (film.x, film.y));
        }
        self.frame = (self.frame + 1) % FRAMES;
    }

    /// A new line of words, on the page.
    fn write_line(&mut self, line: u16, out: &mut Vec<u8>) {
        let columns = usize::from(self.columns());
        let mut text = vec![0_u8; columns];
        let end = columns * 2 / 3 + self.random.below(columns as u64 / 3) as usize;
        let mut column = 0;
        while column < end {
            let word = 2 + self.random.below(8) as usize;
            for place in text.iter_mut().take(end).skip(column).take(word) {
                *place = 1 + self.random.below(GLYPHS as u64 - 1) as u8;
            }
            column += word + 1;
        }
        self.bits.clear();
        for row in 0..usize::from(GLYPH.1) {
            self.bits.extend(text.iter().map(|glyph| self.glyphs[usize::from(*glyph)][row]));
            self.bits.resize(self.bits.len().next_multiple_of(self.bitmap_pad), 0);
        }
        let y = TEXT.1 + (line * GLYPH.1).cast_signed();
        let area = rectangle(TEXT.0, y, columns as u16 * GLYPH.0, GLYPH.1);
        put_bitmap(out, self.ids.page, self.ids.writing, area, &self.bits);
    }

    /// A picture like a photograph: colours that run into each other, with some noise.
    fn make_picture(&mut self, id: u32, width: u16, height: u16, phase: u64, out: &mut Vec<u8>) {
        create_pixmap(out, id, self.root, 24, width, height);
        let line = usize::from(width) * 4;
        let at_once = ((self.most_request - 64) / line).clamp(1, usize::from(height)) as u16;
        let mut pixels = Vec::with_capacity(line * usize::from(at_once));
        for top in (0..height).step_by(at_once.into()) {
            pixels.clear();
            let rows = at_once.min(height - top);
            for y in top..top + rows {
                for x in 0..width {
                    let noise = self.random.next();
                    let wave = |rate: u64, noise: u64| {
                        let slope = (u64::from(x) * rate + u64::from(y) * (7 - rate) + phase * 24) % 512;
                        (slope.min(511 - slope).min(247) + (noise & 7)) as u8
                    };
                    pixels.extend_from_slice(&[wave(1, noise), wave(2, noise >> 8), wave(3, noise >> 16), 0]);
                }
            }
            put_pixels(out, id, self.ids.writing, rectangle(0, top.cast_signed(), width, rows), &pixels);
        }
    }
}

/// Characters of no alphabet: strokes in a field of five by nine, the same everywhere.
fn glyphs() -> [[u8; GLYPH.1 as usize]; GLYPHS] {
    let mut random = Random(SplitMix64::new(CELL.into()));
    std::array::from_fn(|number| {
        let mut rows = [0; GLYPH.1 as usize];
        if number == 0 {
            return rows;
        }
        for row in &mut rows[3..12] {
            // Half of the rows have an upright, the others a stroke across.
            *row = if random.below(2) == 0 { 0b0100_0010 >> random.below(2) } else { 0b0111_1110 }
                & random.next() as u8
                & 0b0111_1110;
        }
        rows[3] |= 0b0011_1100;
        rows
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(seed: u64) -> (Scene, Vec<u8>) {
        let setup = Setup {
            id_base: 0x40_0000,
            id_mask: 0x1f_ffff,
            most_request: 65_535 * 4,
            bitmap_pad: 4,
            keycodes: (8, 255),
            root: 1,
            visual: 2,
            depth: 24,
            width: 640,
            height: 480,
        };
        let mut scene = Scene::new(&setup, 1, seed).unwrap_or_else(|e| panic!("{e}"));
        let mut out = Vec::new();
        scene.build(&mut out);
        (scene, out)
    }

    /// Codes of the requests; each must be whole and no longer than a server takes.
    fn codes(mut out: &[u8]) -> Vec<u8> {
        let mut codes = Vec::new();
        while let [code, _, low, high, ..] = *out {
            let length = usize::from(u16::from_le_bytes([low, high])) * 4;
            assert!(length >= 4 && length <= out.len(), "{code}");
            codes.push(code);
            out = &out[length..];
        }
        assert!(out.is_empty());
        codes
    }

    fn event(kind: EventKind, detail: u8, x: i16, state: u16) -> Event {
        Event { kind, detail, x, y: 100, state }
    }

    #[test]
    fn the_seed_decides_what_is_shown() {
        let (_, one) = scene(7);
        assert_eq!(one, scene(7).1);
        assert_ne!(one, scene(8).1);
        let codes = codes(&one);
        assert_eq!(codes.last(), Some(&72), "the marker comes last");
    }

    #[test]
    fn each_input_is_answered_once_and_the_marker_comes_last() {
        let (mut scene, _) = scene(7);
        let mut reply = vec![0_u8; 32];
        reply[1] = 1;
        (0..248_u32).for_each(|i| reply.extend_from_slice(&(0x40 + i).to_le_bytes()));
        scene.keys(&reply);
        // Key 8 + 34 means `b`, whose tag is 1.
        let inputs = [
            (event(EventKind::KeyPress, 8 + 34, 0, 0), 1, 72),
            (event(EventKind::KeyPress, 8 + 34, 0, 0), 1, 0),
            (event(EventKind::ButtonPress, button::ON, 34, 0), 2, 72),
            (event(EventKind::ButtonPress, button::FILM, 35, 0), 3, 72),
            (event(EventKind::Motion, 0, 36, 0), 3, 0),
            (event(EventKind::ButtonPress, button::DRAG, 36, 0), 4, 72),
            (event(EventKind::Motion, 0, 55, FIRST_BUTTON), 7, 72),
            (event(EventKind::ButtonRelease, button::DRAG, 56, FIRST_BUTTON), 7, 0),
            (event(EventKind::KeyPress, 200, 0, 0), 7, 0),
        ];
        for (number, (input, count, last)) in inputs.iter().enumerate() {
            let mut out = Vec::new();
            scene.event(input, &mut out);
            assert_eq!(scene.count, *count, "input {number}");
            assert_eq!(codes(&out).last().copied().unwrap_or(0), *last, "input {number}");
        }
    }
}
