//! The X protocol, version 11, as far as a program needs it that draws a desktop's content: the opening of a connection, some requests, and
//! events, without I/O. Little-endian, core requests only ("X Window System Protocol", X Consortium Standard, release 6.8).

mod event;
mod request;
mod setup;

pub use event::{Event, EventKind, MOST_REPLY, Packet, scan};
pub use request::{
    GcValues, Geometry, change_gc, copy_area, create_gc, create_pixmap, create_window, events, fill,
    get_image, get_keyboard_mapping, map_window, put_bitmap, put_pixels, set_input_focus,
};
pub use setup::{MOST_SETUP, Setup, SetupError, hello, parse};
