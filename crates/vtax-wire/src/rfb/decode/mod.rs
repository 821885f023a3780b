//! What a server says once the desktop is open (RFC 6143 section 7.6), drawn onto a screen.

mod colours;
mod hextile;
mod inflate;
mod rre;
mod tight;
mod zrle;

use std::ops::Range;

use super::input::{Input, be16, be32};
use super::screen::KNOWN;
use super::{Encoding, PIXEL_BYTES, Rect, RfbError, Screen, pseudo};
use hextile::Hextile;
use rre::Rre;
use tight::Tight;
use zrle::Zrle;

/// Longest text of a clipboard that is passed over.
const MOST_CLIPBOARD: u32 = 1 << 24;
/// Pixels of a cursor: those of X servers are far smaller.
const MOST_CURSOR: u32 = 1 << 20;
/// Longest payload of a fence, as its description says.
const MOST_FENCE: usize = 64;

/// What a client takes at most, and keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Pixels of a desktop.
    pub pixels: u32,
    /// Rows of it that are kept; the others' pixels are decoded and dropped.
    pub rows: Range<u16>,
}

impl Default for Limits {
    /// 16 Mi pixels (64 MiB), all rows.
    fn default() -> Self {
        Self { pixels: 1 << 24, rows: 0..u16::MAX }
    }
}

impl Limits {
    /// A screen of this size, of which nothing is known yet.
    ///
    /// # Errors
    /// [`RfbError::Desktop`] where it is empty or larger than is allowed.
    pub fn screen(&self, width: u16, height: u16) -> Result<Screen, RfbError> {
        let pixels = u32::from(width) * u32::from(height);
        if pixels == 0 || pixels > self.pixels {
            return Err(RfbError::Desktop { width, height, most: self.pixels });
        }
        Ok(Screen::new(width, height, self.rows.clone()))
    }
}

/// Something a server said, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// An update has ended: the screen is as the server had it.
    Update(Update),
    /// A mark in the stream, which may ask for an answer.
    Fence(Fence),
    /// Continuous updates are understood, or have ended.
    EndOfContinuousUpdates,
    /// A bell.
    Bell,
}

/// An update that has ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Update {
    /// Rectangles with pixels.
    pub rects: u32,
    /// Pixels in them.
    pub pixels: u64,
    /// Bytes of the whole message.
    pub bytes: u64,
    /// The desktop has another size now; nothing of it is known but what this update brought afterwards.
    pub resized: bool,
}

/// A mark in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// What is asked, as sent.
    pub flags: u32,
    payload: [u8; MOST_FENCE],
    length: u8,
}

impl Fence {
    /// An answer is asked for.
    pub const REQUEST: u32 = 1 << 31;
    /// Flags that an answer repeats: before it, after it, and in step with the next.
    pub const UNDERSTOOD: u32 = 0b111;

    /// What an answer repeats.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload[..usize::from(self.length)]
    }
}

/// What was read since the decoder was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Updates.
    pub updates: u64,
    /// Rectangles in the order of [`Encoding::ALL`].
    pub rects: [u64; Encoding::ALL.len()],
    /// Pixels in them.
    pub pixels: u64,
    /// Bytes of updates.
    pub bytes: u64,
}

/// A rectangle of which pixels are being read.
#[derive(Debug, Clone, Copy)]
enum Drawing {
    Raw { area: Rect, done: u32 },
    Copy { area: Rect },
    Rre { area: Rect },
    Hextile { area: Rect },
    Zrle { area: Rect },
    Tight { area: Rect },
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// Between messages.
    Message,
    /// So many bytes mean nothing here; then comes the next message.
    Skip(u64),
    /// Within an update, between rectangles.
    Rectangle,
    /// Within an update: so many bytes of a rectangle mean nothing here.
    SkipInUpdate(u64),
    Drawing(Drawing),
}

/// What a step came to.
enum Step {
    /// It goes on.
    On,
    /// More bytes must come.
    More,
    Said(Event),
}

/// Reads what a server says, and draws it.
#[derive(Debug)]
pub struct Decoder {
    limits: Limits,
    screen: Screen,
    state: State,
    /// Rectangles of the update that are still to come.
    left: u16,
    update: Update,
    tally: Tally,
    rre: Rre,
    hextile: Hextile,
    zrle: Zrle,
    tight: Tight,
}

impl Decoder {
    /// For a desktop of this size.
    ///
    /// # Errors
    /// [`RfbError::Desktop`] where it is empty or larger than is allowed.
    pub fn new(width: u16, height: u16, limits: Limits) -> Result<Self, RfbError> {
        Ok(Self {
            screen: limits.screen(width, height)?,
            limits,
            state: State::Message,
            left: 0,
            update: Update::default(),
            tally: Tally::default(),
            rre: Rre::default(),
            hextile: Hextile::default(),
            zrle: Zrle::default(),
            tight: Tight::default(),
        })
    }

    /// What the desktop looks like.
    #[must_use]
    pub const fn screen(&self) -> &Screen {
        &self.screen
    }

    /// What was read so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// True between two messages.
    #[must_use]
    pub const fn is_between(&self) -> bool {
        matches!(self.state, State::Message)
    }

    /// Reads what has come, up to the end of the next thing that is told; how many bytes were used.
    ///
    /// # Errors
    /// What came isn't RFB, wasn't asked for, or is more than is allowed. The connection can't go on.
    pub fn read(&mut self, bytes: &[u8]) -> Result<(usize, Option<Event>), RfbError> {
        let mut input = Input::new(bytes);
        loop {
            let before = input.used();
            let in_update = !matches!(self.state, State::Message | State::Skip(_));
            let step = self.step(&mut input)?;
            if in_update {
                self.update.bytes += (input.used() - before) as u64;
            }
            match step {
                Step::On => {}
                Step::More => return Ok((input.used(), None)),
                Step::Said(event) => return Ok((input.used(), Some(self.told(event)))),
            }
        }
    }

    /// Closes the accounts of an update.
    fn told(&mut self, event: Event) -> Event {
        let Event::Update(_) = event else { return event };
        let update = std::mem::take(&mut self.update);
        self.tally.updates += 1;
        self.tally.bytes += update.bytes;
        self.tally.pixels += update.pixels;
        Event::Update(update)
    }

    fn step(&mut self, input: &mut Input<'_>) -> Result<Step, RfbError> {
        Ok(match self.state {
            State::Message => return self.message(input),
            State::Skip(left) => match input.skip(left) {
                0 => self.go(State::Message),
                left => {
                    self.state = State::Skip(left);
                    Step::More
                }
            },
            State::SkipInUpdate(left) => match input.skip(left) {
                0 => self.next_rectangle(),
                left => {
                    self.state = State::SkipInUpdate(left);
                    Step::More
                }
            },
            State::Rectangle => return self.rectangle(input),
            State::Drawing(drawing) => {
                if self.draw(drawing, input)? {
                    self.next_rectangle()
                } else {
                    Step::More
                }
            }
        })
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::On
    }

    /// A message's first bytes.
    fn message(&mut self, input: &mut Input<'_>) -> Result<Step, RfbError> {
        let rest = input.rest();
        let Some(kind) = rest.first() else { return Ok(Step::More) };
        let head = match kind {
            0 => 4,
            1 => 6,
            2 | 150 => 1,
            3 => 8,
            248 => return fence(input),
            other => return Err(RfbError::Message(*other)),
        };
        let Some(head) = input.take(head) else { return Ok(Step::More) };
        Ok(match kind {
            0 => {
                self.left = be16(head, 2);
                self.update = Update { bytes: 4, ..Update::default() };
                if self.left == 0 {
                    return Ok(Step::Said(Event::Update(self.update)));
                }
                self.go(State::Rectangle)
            }
            // Colours of a map: none is used.
            1 => self.go(State::Skip(u64::from(be16(head, 4)) * 6)),
            2 => Step::Said(Event::Bell),
            3 => {
                let length = be32(head, 4);
                // A negative one means another form, which wasn't asked for.
                if length > MOST_CLIPBOARD {
                    let length = i64::from(length.cast_signed());
                    return Err(RfbError::Length { what: "clipboard", length, most: MOST_CLIPBOARD });
                }
                self.go(State::Skip(length.into()))
            }
            _ => Step::Said(Event::EndOfContinuousUpdates),
        })
    }

    fn next_rectangle(&mut self) -> Step {
        self.left -= 1;
        if self.left > 0 { self.go(State::Rectangle) } else { self.end_of_update() }
    }

    fn end_of_update(&mut self) -> Step {
        self.state = State::Message;
        Step::Said(Event::Update(self.update))
    }

    /// The head of a rectangle.
    fn rectangle(&mut self, input: &mut Input<'_>) -> Result<Step, RfbError> {
        let Some(head) = input.array::<12>() else { return Ok(Step::More) };
        let area = Rect { x: be16(head, 0), y: be16(head, 2), width: be16(head, 4), height: be16(head, 6) };
        let number = be32(head, 8).cast_signed();
        match number {
            pseudo::LAST_RECT => return Ok(self.end_of_update()),
            pseudo::DESKTOP_SIZE => {
                self.screen = self.limits.screen(area.width, area.height)?;
                self.update.resized = true;
                return Ok(self.next_rectangle());
            }
            pseudo::CURSOR => {
                if area.pixels() > u64::from(MOST_CURSOR) {
                    let length = area.pixels() as i64;
                    return Err(RfbError::Length { what: "cursor", length, most: MOST_CURSOR });
                }
                let mask = u64::from(area.width).div_ceil(8) * u64::from(area.height);
                return Ok(self.go(State::SkipInUpdate(area.pixels() * PIXEL_BYTES as u64 + mask)));
            }
            _ => {}
        }
        let Some(encoding) = Encoding::ALL.into_iter().find(|e| e.number() == number) else {
            return Err(RfbError::Encoding(number));
        };
        if !area.fits(self.screen.width(), self.screen.height()) {
            let Rect { x, y, width, height } = area;
            return Err(RfbError::Outside { x, y, width, height });
        }
        self.update.rects += 1;
        self.update.pixels += area.pixels();
        if let Some(place) = Encoding::ALL.iter().position(|e| *e == encoding) {
            self.tally.rects[place] += 1;
        }
        let drawing = match encoding {
            Encoding::Raw => Drawing::Raw { area, done: 0 },
            Encoding::CopyRect => Drawing::Copy { area },
            Encoding::Rre => {
                self.rre.begin();
                Drawing::Rre { area }
            }
            Encoding::Hextile => {
                self.hextile.begin(area);
                Drawing::Hextile { area }
            }
            Encoding::Zrle => {
                self.zrle.begin(area);
                Drawing::Zrle { area }
            }
            Encoding::Tight => {
                self.tight.begin(area);
                Drawing::Tight { area }
            }
        };
        Ok(self.go(State::Drawing(drawing)))
    }

    /// Draws what has come of a rectangle; true where that was all of it.
    fn draw(&mut self, drawing: Drawing, input: &mut Input<'_>) -> Result<bool, RfbError> {
        let screen = &mut self.screen;
        match drawing {
            Drawing::Raw { area, done } => {
                let done = raw(screen, area, done, input);
                self.state = State::Drawing(Drawing::Raw { area, done });
                Ok(u64::from(done) == area.pixels())
            }
            Drawing::Copy { area } => {
                let Some(from) = input.array::<4>() else { return Ok(false) };
                let (x, y) = (be16(from, 0), be16(from, 2));
                if !(Rect { x, y, ..area }).fits(screen.width(), screen.height()) {
                    return Err(RfbError::Outside { x, y, width: area.width, height: area.height });
                }
                screen.copy((x, y), area);
                Ok(true)
            }
            Drawing::Rre { area } => self.rre.read(screen, area, input),
            Drawing::Hextile { area } => self.hextile.read(screen, area, input),
            Drawing::Zrle { area } => self.zrle.read(screen, area, input),
            Drawing::Tight { area } => self.tight.read(screen, area, input),
        }
    }
}

fn fence(input: &mut Input<'_>) -> Result<Step, RfbError> {
    let Some(length) = input.rest().get(8) else { return Ok(Step::More) };
    let length = usize::from(*length);
    if length > MOST_FENCE {
        return Err(RfbError::Length { what: "fence", length: length as i64, most: MOST_FENCE as u32 });
    }
    let Some(message) = input.take(9 + length) else { return Ok(Step::More) };
    let mut fence = Fence { flags: be32(message, 4), payload: [0; MOST_FENCE], length: length as u8 };
    fence.payload[..length].copy_from_slice(&message[9..]);
    Ok(Step::Said(Event::Fence(fence)))
}

/// Pixels as they are; how many are done then.
fn raw(screen: &mut Screen, area: Rect, mut done: u32, input: &mut Input<'_>) -> u32 {
    let width = u32::from(area.width);
    let all = area.pixels() as u32;
    while done < all {
        let column = done % width;
        let whole = (width - column).min((input.rest().len() / PIXEL_BYTES) as u32);
        if whole == 0 {
            break;
        }
        let bytes = input.up_to(whole as usize * PIXEL_BYTES);
        // Both fit: they are of the rectangle, which is within the desktop.
        let (x, y) = (area.x + column as u16, area.y + (done / width) as u16);
        if let Some(part) = screen.part(x, y, whole as u16) {
            pixels(part, bytes);
        }
        done += whole;
    }
    done
}

/// A pixel of four bytes.
#[inline]
fn pixel(bytes: [u8; PIXEL_BYTES]) -> u32 {
    u32::from_le_bytes(bytes) | KNOWN
}

fn pixels(part: &mut [u32], bytes: &[u8]) {
    for (to, from) in part.iter_mut().zip(bytes.as_chunks().0) {
        *to = pixel(*from);
    }
}
