//! What sheets of the workbook share.

use rust_xlsxwriter::{Color, Format};

/// Longest text a cell may hold.
const CELL_LIMIT: usize = 32_767;

/// How the head of a table looks.
pub(crate) fn header() -> Format {
    Format::new().set_bold().set_background_color(Color::RGB(0x00E8_ECE8))
}

/// As much of a text as a cell may hold.
pub(crate) fn text(text: &str) -> String {
    text.chars().take(CELL_LIMIT).collect()
}
