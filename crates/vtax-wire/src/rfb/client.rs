//! What a client says (RFC 6143 section 7.5), appended to a buffer.

use super::{Encoding, Fence, Rect, pseudo};

/// Asks for pixels of 32 bits, little-endian, of which the low 24 are red, green and blue.
pub fn set_pixel_format(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0, 0, 0]);
    // Bits, depth, little-endian, true colour.
    out.extend_from_slice(&[32, 24, 0, 1]);
    // The most that each colour may be, and where its bits are.
    out.extend_from_slice(&[0, 255, 0, 255, 0, 255, 16, 8, 0, 0, 0, 0]);
}

/// What a server may do besides sending pixels in the encoding preferred.
#[derive(Debug, Clone, Copy)]
pub struct Extras {
    /// It may copy what was moved from elsewhere on the screen (CopyRect).
    pub copies: bool,
    /// It may send updates that weren't asked for one by one.
    pub continuous: bool,
}

/// Says which encodings are understood, the one preferred first. CopyRect and Raw may always come; the cursor's picture and the
/// desktop's size may, too.
pub fn set_encodings(out: &mut Vec<u8>, preferred: Encoding, extras: Extras) {
    let mut numbers = [0_i32; 8];
    let mut count = 0;
    let mut add = |number| {
        numbers[count] = number;
        count += 1;
    };
    // Servers take CopyRect for what was moved, wherever in the list it is.
    if extras.copies || preferred == Encoding::CopyRect {
        add(Encoding::CopyRect.number());
    }
    if preferred != Encoding::CopyRect {
        add(preferred.number());
    }
    for number in [pseudo::CURSOR, pseudo::DESKTOP_SIZE, pseudo::LAST_RECT, pseudo::FENCE] {
        add(number);
    }
    if extras.continuous {
        add(pseudo::CONTINUOUS_UPDATES);
    }
    out.extend_from_slice(&[2, 0]);
    out.extend_from_slice(&(count as u16).to_be_bytes());
    for number in &numbers[..count] {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Asks for an update: all of it, or what has changed since the last.
pub fn request_update(out: &mut Vec<u8>, incremental: bool, area: Rect) {
    out.extend_from_slice(&[3, u8::from(incremental)]);
    rectangle(out, area);
}

/// Presses or releases a key, named as X names it (`keysymdef.h`).
pub fn key(out: &mut Vec<u8>, down: bool, keysym: u32) {
    out.extend_from_slice(&[4, u8::from(down), 0, 0]);
    out.extend_from_slice(&keysym.to_be_bytes());
}

/// Moves the pointer there, with these buttons down: bit 0 is the left one.
pub fn pointer(out: &mut Vec<u8>, buttons: u8, x: u16, y: u16) {
    out.extend_from_slice(&[5, buttons]);
    out.extend_from_slice(&x.to_be_bytes());
    out.extend_from_slice(&y.to_be_bytes());
}

/// Asks for updates whenever something changes, or no longer for them.
pub fn continuous_updates(out: &mut Vec<u8>, enable: bool, area: Rect) {
    out.extend_from_slice(&[150, u8::from(enable)]);
    rectangle(out, area);
}

/// Answers a fence that asks for an answer; of its flags, those that are understood.
pub fn answer_fence(out: &mut Vec<u8>, fence: &Fence) {
    out.extend_from_slice(&[248, 0, 0, 0]);
    out.extend_from_slice(&(fence.flags & Fence::UNDERSTOOD).to_be_bytes());
    out.push(fence.payload().len() as u8);
    out.extend_from_slice(fence.payload());
}

fn rectangle(out: &mut Vec<u8>, area: Rect) {
    for value in [area.x, area.y, area.width, area.height] {
        out.extend_from_slice(&value.to_be_bytes());
    }
}
