//! Requests (chapter 9 of the protocol's text), appended to a buffer.

/// A rectangle, within a window or a pixmap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Of its left edge.
    pub x: i16,
    /// Of its upper edge.
    pub y: i16,
    /// In pixels.
    pub width: u16,
    /// In pixels.
    pub height: u16,
}

/// What a graphics context draws with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GcValues {
    /// The pixels of a 1, `0xRRGGBB`.
    pub foreground: u32,
    /// The pixels of a 0.
    pub background: u32,
}

/// What a window wants to hear of.
pub mod events {
    /// Keys that are pressed.
    pub const KEY_PRESS: u32 = 1;
    /// Buttons that are pressed.
    pub const BUTTON_PRESS: u32 = 1 << 2;
    /// Buttons that are released.
    pub const BUTTON_RELEASE: u32 = 1 << 3;
    /// The pointer's motion.
    pub const MOTION: u32 = 1 << 6;
    /// Parts that have to be drawn again.
    pub const EXPOSURE: u32 = 1 << 15;
}

/// Appends a request: its code, a byte of its own, its length in words, and the words.
fn request(out: &mut Vec<u8>, code: u8, own: u8, words: &[u32]) {
    request_with(out, code, own, words, &[]);
}

fn request_with(out: &mut Vec<u8>, code: u8, own: u8, words: &[u32], data: &[u8]) {
    let length = 1 + words.len() + data.len().div_ceil(4);
    out.extend_from_slice(&[code, own]);
    out.extend_from_slice(&(length as u16).to_le_bytes());
    for word in words {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(4), 0);
}

const fn pair(low: u16, high: u16) -> u32 {
    low as u32 | (high as u32) << 16
}

const fn place(x: i16, y: i16) -> u32 {
    pair(x.cast_unsigned(), y.cast_unsigned())
}

/// A window on the desktop that no window manager touches, with these events.
pub fn create_window(out: &mut Vec<u8>, id: u32, parent: u32, at: Geometry, masks: u32) {
    const OVERRIDE_REDIRECT: u32 = 1 << 9;
    const EVENT_MASK: u32 = 1 << 11;
    let words = [
        id,
        parent,
        place(at.x, at.y),
        pair(at.width, at.height),
        // No border, the parent's class and visual.
        pair(0, 0),
        0,
        OVERRIDE_REDIRECT | EVENT_MASK,
        1,
        masks,
    ];
    request(out, 1, 0, &words);
}

/// Shows a window.
pub fn map_window(out: &mut Vec<u8>, id: u32) {
    request(out, 8, 0, &[id]);
}

/// Gives it the keyboard.
pub fn set_input_focus(out: &mut Vec<u8>, id: u32) {
    request(out, 42, 1, &[id, 0]);
}

/// A picture in the server's memory.
pub fn create_pixmap(out: &mut Vec<u8>, id: u32, like: u32, depth: u8, width: u16, height: u16) {
    request(out, 53, depth, &[id, like, pair(width, height)]);
}

/// What requests draw with. Copies don't ask for events.
pub fn create_gc(out: &mut Vec<u8>, id: u32, like: u32, values: GcValues) {
    const FOREGROUND: u32 = 1 << 2;
    const BACKGROUND: u32 = 1 << 3;
    const GRAPHICS_EXPOSURES: u32 = 1 << 16;
    let mask = FOREGROUND | BACKGROUND | GRAPHICS_EXPOSURES;
    request(out, 55, 0, &[id, like, mask, values.foreground, values.background, 0]);
}

/// Other colours for it.
pub fn change_gc(out: &mut Vec<u8>, id: u32, values: GcValues) {
    request(out, 56, 0, &[id, 1 << 2 | 1 << 3, values.foreground, values.background]);
}

/// Copies a rectangle from one drawable to another, or within one.
pub fn copy_area(out: &mut Vec<u8>, from: u32, to: u32, gc: u32, area: Geometry, target: (i16, i16)) {
    let words =
        [from, to, gc, place(area.x, area.y), place(target.0, target.1), pair(area.width, area.height)];
    request(out, 62, 0, &words);
}

/// Fills a rectangle with the foreground.
pub fn fill(out: &mut Vec<u8>, drawable: u32, gc: u32, area: Geometry) {
    request(out, 70, 0, &[drawable, gc, place(area.x, area.y), pair(area.width, area.height)]);
}

/// A picture of one bit for each pixel, drawn in the foreground and the background.
pub fn put_bitmap(out: &mut Vec<u8>, drawable: u32, gc: u32, area: Geometry, bits: &[u8]) {
    put_image(out, 0, 1, (drawable, gc), area, bits);
}

/// A picture of 32 bits for each pixel: blue, green, red and nothing.
pub fn put_pixels(out: &mut Vec<u8>, drawable: u32, gc: u32, area: Geometry, pixels: &[u8]) {
    put_image(out, 2, 24, (drawable, gc), area, pixels);
}

fn put_image(out: &mut Vec<u8>, form: u8, depth: u8, on: (u32, u32), area: Geometry, data: &[u8]) {
    let words =
        [on.0, on.1, pair(area.width, area.height), place(area.x, area.y), pair(u16::from(depth) << 8, 0)];
    request_with(out, 72, form, &words, data);
}

/// Asks for the pixels of a rectangle; the reply has them after its first 32 bytes.
pub fn get_image(out: &mut Vec<u8>, drawable: u32, area: Geometry) {
    request(out, 73, 2, &[drawable, place(area.x, area.y), pair(area.width, area.height), u32::MAX]);
}

/// Asks what these keys mean; the reply has its second byte of words for each after its first 32 bytes.
pub fn get_keyboard_mapping(out: &mut Vec<u8>, first: u8, count: u8) {
    request(out, 101, 0, &[pair(u16::from(first) | u16::from(count) << 8, 0)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_say_their_length() {
        let mut out = Vec::new();
        let area = Geometry { x: -1, y: 2, width: 8, height: 16 };
        create_window(&mut out, 1, 2, area, events::KEY_PRESS);
        put_bitmap(&mut out, 1, 2, area, &[7; 65]);
        get_keyboard_mapping(&mut out, 8, 248);
        let mut codes = Vec::new();
        let mut rest = &out[..];
        while let [code, _, low, high, ..] = *rest {
            codes.push(code);
            rest = &rest[usize::from(u16::from_le_bytes([low, high])) * 4..];
        }
        assert_eq!(codes, [1, 72, 101]);
        assert!(rest.is_empty());
        assert_eq!(out[12..14], [255, 255], "x is -1");
    }
}
