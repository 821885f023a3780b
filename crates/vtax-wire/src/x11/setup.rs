//! The opening of a connection (chapter 8 of the protocol's text).

/// Longest answer to the opening that is taken, in bytes: four times what servers of many screens say.
pub const MOST_SETUP: usize = 64 * 1024;

/// Why a server can't be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SetupError {
    /// It declined.
    #[error("the X server declined: {0}")]
    Declined(String),
    /// What it said is no answer to the opening.
    #[error("what the X server said is no answer to the opening of a connection: {0}")]
    Damaged(&'static str),
    /// Pictures have another form there than this program makes.
    #[error("the X server's pictures have another form: {0}")]
    Form(&'static str),
}

/// What a program has to know of its server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setup {
    /// Numbers of what this program makes: the base, with the bits of the mask set as it likes.
    pub id_base: u32,
    /// See `id_base`.
    pub id_mask: u32,
    /// Longest request, in bytes.
    pub most_request: usize,
    /// Lines of pictures of one bit are as long as so many bytes divide.
    pub bitmap_pad: usize,
    /// The keyboard's first and last key.
    pub keycodes: (u8, u8),
    /// The window that is the desktop.
    pub root: u32,
    /// Its visual.
    pub visual: u32,
    /// Bits of its pixels.
    pub depth: u8,
    /// In pixels.
    pub width: u16,
    /// In pixels.
    pub height: u16,
}

/// The first bytes of a connection, without authorisation.
#[must_use]
pub const fn hello() -> [u8; 12] {
    [b'l', 0, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0]
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16, SetupError> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map(|b| u16::from_le_bytes(*b)).ok_or(SetupError::Damaged("it is too short"))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32, SetupError> {
    let found = bytes.get(at..).and_then(|rest| rest.first_chunk());
    found.map(|b| u32::from_le_bytes(*b)).ok_or(SetupError::Damaged("it is too short"))
}

/// Reads the answer to [`hello`]; `None` where more bytes must come.
///
/// # Errors
/// The server declined, the answer is damaged or too long, or pictures have a form that isn't made here.
pub fn parse(bytes: &[u8]) -> Result<Option<(usize, Setup)>, SetupError> {
    if bytes.len() < 8 {
        return Ok(None);
    }
    let length = 8 + usize::from(u16_at(bytes, 6)?) * 4;
    if length > MOST_SETUP {
        return Err(SetupError::Damaged("it is too long"));
    }
    let Some(answer) = bytes.get(..length) else { return Ok(None) };
    match answer[0] {
        1 => setup(&answer[8..]).map(|setup| Some((length, setup))),
        0 => {
            let reason = &answer[8..(8 + usize::from(answer[1])).min(length)];
            let reason = String::from_utf8_lossy(reason).chars().filter(|c| !c.is_control()).collect();
            Err(SetupError::Declined(reason))
        }
        _ => Err(SetupError::Declined("it asks for authorisation".to_owned())),
    }
}

fn setup(b: &[u8]) -> Result<Setup, SetupError> {
    if b.len() < 32 {
        return Err(SetupError::Damaged("it is too short"));
    }
    let vendor = usize::from(u16_at(b, 16)?).next_multiple_of(4);
    let (formats, screen) = (32 + vendor, 32 + vendor + 8 * usize::from(b[21]));
    if b[20] == 0 {
        return Err(SetupError::Damaged("there is no screen"));
    }
    if b[22] != 0 || b[23] != 0 {
        return Err(SetupError::Form("their bytes or bits are in another order"));
    }
    let depth = *b.get(screen + 38).ok_or(SetupError::Damaged("it is too short"))?;
    let format =
        b[formats.min(b.len())..].chunks_exact(8).take(b[21].into()).find(|format| format[0] == depth);
    if depth != 24 || format.is_none_or(|format| format[1] != 32) {
        return Err(SetupError::Form("pixels don't have 24 bits in 32"));
    }
    Ok(Setup {
        id_base: u32_at(b, 4)?,
        id_mask: u32_at(b, 8)?,
        most_request: usize::from(u16_at(b, 18)?) * 4,
        bitmap_pad: usize::from(b[25]).div_ceil(8).max(1),
        keycodes: (b[26], b[27]),
        root: u32_at(b, screen)?,
        visual: u32_at(b, screen + 32)?,
        depth,
        width: u16_at(b, screen + 20)?,
        height: u16_at(b, screen + 22)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer of a server with one screen of 1024 by 768.
    fn answer() -> Vec<u8> {
        let mut body = Vec::new();
        for word in [1_u32, 0x20_0000, 0x1f_ffff, 0] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        body.extend_from_slice(&[3, 0, 0xff, 0xff, 1, 1, 0, 0, 32, 32, 8, 255, 0, 0, 0, 0]);
        body.extend_from_slice(b"abc\0");
        body.extend_from_slice(&[24, 32, 32, 0, 0, 0, 0, 0]);
        for word in [0x123_u32, 0x20, 0xff_ffff, 0, 0] {
            body.extend_from_slice(&word.to_le_bytes());
        }
        for half in [1024_u16, 768, 300, 200, 1, 1] {
            body.extend_from_slice(&half.to_le_bytes());
        }
        body.extend_from_slice(&0x21_u32.to_le_bytes());
        body.extend_from_slice(&[0, 0, 24, 0]);
        let mut answer = vec![1, 0, 11, 0, 0, 0];
        answer.extend_from_slice(&((body.len() / 4) as u16).to_le_bytes());
        answer.extend_from_slice(&body);
        answer
    }

    #[test]
    fn a_screen_is_found() {
        let bytes = answer();
        let (used, setup) = parse(&bytes).unwrap().unwrap();
        assert_eq!((used, setup.root, setup.visual, setup.depth), (bytes.len(), 0x123, 0x21, 24));
        assert_eq!((setup.width, setup.height, setup.keycodes), (1024, 768, (8, 255)));
        assert_eq!((setup.bitmap_pad, setup.most_request), (4, 0xffff * 4));
    }

    #[test]
    fn whatever_is_missing_or_damaged_is_told() {
        let bytes = answer();
        for length in 0..bytes.len() {
            assert_eq!(parse(&bytes[..length]), Ok(None));
        }
        for at in 0..bytes.len() {
            for value in [0, 1, 2, 127, 255] {
                let mut bytes = bytes.clone();
                bytes[at] = value;
                // Anything but a panic.
                let _ = parse(&bytes);
            }
        }
        let declined = [&[0, 3, 11, 0, 0, 0, 1, 0][..], b"no!\0"].concat();
        assert_eq!(parse(&declined), Err(SetupError::Declined("no!".to_owned())));
    }
}
