//! A table, written once: as a CSV file and as a sheet of the workbook.

use rust_xlsxwriter::{Format, Worksheet, XlsxError};

use crate::sheet::{header, text as limited};

/// The most rows that a sheet has room for below its head.
const MOST_ROWS: usize = (1 << 20) - 1;

/// Rows under named columns; units are in the columns' names or in a column of their own.
#[derive(Debug)]
pub(crate) struct Table {
    /// Name of its file, without `.csv`.
    pub(crate) name: &'static str,
    /// Name of its sheet.
    pub(crate) sheet: &'static str,
    columns: Vec<String>,
    rows: Vec<Vec<Cell>>,
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Cell {
    /// Not known, or nothing to tell.
    Missing,
    Text(String),
    /// A text from elsewhere that a workbook takes for a number where it is one.
    Fact(String),
    /// At full precision; one that isn't finite is missing.
    Number(f64),
    /// `yes` or `no` in a file, true or false in a workbook.
    Flag(bool),
    /// Milliseconds since 1970, in a workbook a date.
    Moment(u64),
}

/// A text.
pub(crate) fn text(text: impl Into<String>) -> Cell {
    Cell::Text(text.into())
}

/// A text, or nothing.
pub(crate) fn text_or_none(text: Option<&str>) -> Cell {
    text.map_or(Cell::Missing, |text| Cell::Text(text.to_owned()))
}

/// `yes` or `no`.
pub(crate) fn yes_no(value: bool) -> Cell {
    Cell::Flag(value)
}

/// A moment, in milliseconds since 1970.
pub(crate) fn moment(unix_ms: u64) -> Cell {
    Cell::Moment(unix_ms)
}

/// A number.
pub(crate) fn number(value: impl Into<f64>) -> Cell {
    Cell::Number(value.into())
}

/// A count, whose digits beyond the sixteenth may be lost.
pub(crate) fn count(value: impl TryInto<u64>) -> Cell {
    value.try_into().map_or(Cell::Missing, |value| Cell::Number(value as f64))
}

/// A number, or nothing.
pub(crate) fn number_or_none(value: Option<f64>) -> Cell {
    value.map_or(Cell::Missing, Cell::Number)
}

impl Table {
    /// An empty table; `columns` are names separated by commas.
    pub(crate) fn new(name: &'static str, sheet: &'static str, columns: &str) -> Self {
        Self { name, sheet, columns: columns.split(',').map(str::to_owned).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, cells: impl Into<Vec<Cell>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.columns.len(), "{}", self.name);
        self.rows.push(cells);
    }

    /// As CSV (RFC 4180), at full precision.
    pub(crate) fn csv(&self) -> Vec<u8> {
        let terminator = csv::Terminator::CRLF;
        let mut writer = csv::WriterBuilder::new().terminator(terminator).from_writer(Vec::new());
        let lines = [self.columns.clone()].into_iter();
        let rows = self.rows.iter().map(|row| row.iter().map(in_csv).collect());
        for line in lines.chain(rows) {
            // Can't fail: memory takes all, and every row has as many cells as there are columns.
            let _ = writer.write_record(&line);
        }
        writer.into_inner().unwrap_or_default()
    }

    /// Fills a sheet, with the first rows where it has no room for all.
    ///
    /// # Errors
    ///
    /// The library's, where the sheet can't hold the table.
    pub(crate) fn write_to(&self, sheet: &mut Worksheet) -> Result<(), XlsxError> {
        self.write_first(MOST_ROWS, sheet)
    }

    /// Fills a sheet with so many rows at most.
    fn write_first(&self, most: usize, sheet: &mut Worksheet) -> Result<(), XlsxError> {
        let rows = &self.rows[..self.rows.len().min(most)];
        let date = Format::new().set_num_format("yyyy-mm-dd hh:mm:ss.000");
        for (column, name) in (0u16..).zip(&self.columns) {
            let dates = rows.iter().any(|row| matches!(row.get(usize::from(column)), Some(Cell::Moment(_))));
            // A date isn't a number of milliseconds.
            let name = if dates { name.replace("_unix_ms", "_utc") } else { name.clone() };
            sheet.write_string_with_format(0, column, limited(&name), &header())?;
        }
        for (row, cells) in (1u32..).zip(rows) {
            for (column, cell) in (0u16..).zip(cells) {
                match (cell, in_workbook(cell)) {
                    (Cell::Moment(at), _) => sheet.write_number_with_format(row, column, days(*at), &date)?,
                    (Cell::Flag(value), _) => sheet.write_boolean(row, column, *value)?,
                    (_, Some(value)) => sheet.write_number(row, column, value)?,
                    (Cell::Text(text) | Cell::Fact(text), None) if !text.is_empty() => {
                        sheet.write_string(row, column, limited(text))?
                    }
                    _ => continue,
                };
            }
        }
        sheet.set_freeze_panes(1, 0)?;
        let last = u16::try_from(self.columns.len().saturating_sub(1)).unwrap_or(u16::MAX);
        sheet.autofilter(0, 0, u32::try_from(rows.len()).unwrap_or(u32::MAX), last)?;
        sheet.autofit();
        Ok(())
    }
}

/// A moment as a workbook counts it: days since the last of 1899, in UTC.
fn days(unix_ms: u64) -> f64 {
    25_569.0 + unix_ms as f64 / 86_400_000.0
}

/// What a workbook takes for a number.
fn in_workbook(cell: &Cell) -> Option<f64> {
    let value = match cell {
        Cell::Number(value) => Some(*value),
        Cell::Fact(text) => text.parse().ok(),
        Cell::Missing | Cell::Text(_) | Cell::Flag(_) | Cell::Moment(_) => None,
    };
    value.filter(|value| value.is_finite())
}

/// What a file holds; a text must not be taken for a formula by a spreadsheet that opens it.
fn in_csv(cell: &Cell) -> String {
    match cell {
        Cell::Missing => String::new(),
        Cell::Number(value) if value.is_finite() => value.to_string(),
        Cell::Number(_) => String::new(),
        Cell::Flag(value) => if *value { "yes" } else { "no" }.to_owned(),
        Cell::Moment(unix_ms) => unix_ms.to_string(),
        Cell::Text(text) | Cell::Fact(text) => no_formula(text),
    }
}

/// A text with an apostrophe before whatever a spreadsheet would take for a formula: at its start, and where one that
/// separates cells by semicolons or tabs would begin another cell. Quotes around the text wouldn't keep such a one from it.
fn no_formula(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 1);
    // Some leave these out before they look for a formula.
    if text.starts_with(['\t', '\r']) {
        out.push('\'');
    }
    for part in text.split_inclusive([';', '\t', '\r', '\n']) {
        if part.trim_start_matches([' ', '"']).starts_with(['=', '+', '-', '@']) {
            out.push('\'');
        }
        out.push_str(part);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_and_no_formula() {
        let mut table = Table::new("t", "T", "a,b");
        table.push([text("plain"), number(0.5)]);
        table.push([text("a,\"b\"\n"), number_or_none(None)]);
        table.push([text("=1+1"), number(f64::NAN)]);
        table.push([yes_no(true), moment(1_709_208_000_500)]);
        let expected = "a,b\r\nplain,0.5\r\n\"a,\"\"b\"\"\n\",\r\n'=1+1,\r\nyes,1709208000500\r\n";
        assert_eq!(String::from_utf8(table.csv()).unwrap(), expected);
    }

    #[test]
    fn no_part_of_a_text_is_a_formula() {
        assert_eq!(no_formula("a;=1+1; b;\" @c\n-d"), "a;'=1+1; b;'\" @c\n'-d");
        assert_eq!(no_formula("\t=1"), "'\t'=1");
        for plain in ["", "a=b; c-d, e@f", "1 - 2;3"] {
            assert_eq!(no_formula(plain), plain);
        }
    }

    #[test]
    fn only_numbers_are_numbers_in_a_workbook() {
        let found = [text("4"), number(4.0), Cell::Fact("4".to_owned()), Cell::Fact("4 s".to_owned())];
        assert_eq!(found.map(|cell| in_workbook(&cell)), [None, Some(4.0), Some(4.0), None]);
    }

    /// A row too many cost the whole workbook, and the files with it.
    #[test]
    fn a_sheet_holds_as_many_rows_as_it_has_room_for() {
        let mut table = Table::new("t", "T", "a");
        for value in 0..5u32 {
            table.push([number(value)]);
        }
        let mut book = rust_xlsxwriter::Workbook::new();
        table.write_first(3, book.add_worksheet()).unwrap();
        let mut book = zip::ZipArchive::new(std::io::Cursor::new(book.save_to_buffer().unwrap())).unwrap();
        let sheet = std::io::read_to_string(book.by_name("xl/worksheets/sheet1.xml").unwrap()).unwrap();
        assert!(sheet.contains("<c r=\"A4\"") && !sheet.contains("<c r=\"A5\""), "{sheet}");
        assert!(sheet.contains("<autoFilter ref=\"A1:A4\""), "{sheet}");
        assert_eq!(String::from_utf8(table.csv()).unwrap(), "a\r\n0\r\n1\r\n2\r\n3\r\n4\r\n");
        // The last that the library takes.
        let last = u32::try_from(MOST_ROWS).unwrap();
        let mut sheet = Worksheet::new();
        assert!(sheet.write_number(last, 0, 1.0).is_ok());
        assert!(sheet.write_number(last + 1, 0, 1.0).is_err());
    }

    #[test]
    fn a_workbook_has_dates_and_truth_values() {
        // 2024-02-29, 12:00 UTC.
        assert!((days(1_709_208_000_000) - 45_351.5).abs() < 1e-9);
        let mut table = Table::new("t", "T", "started_unix_ms,valid");
        table.push([moment(1_709_208_000_000), yes_no(true)]);
        let mut book = rust_xlsxwriter::Workbook::new();
        table.write_to(book.add_worksheet()).unwrap();
        let mut book = zip::ZipArchive::new(std::io::Cursor::new(book.save_to_buffer().unwrap())).unwrap();
        let mut part = |name: &str| std::io::read_to_string(book.by_name(name).unwrap()).unwrap();
        let (sheet, texts) = (part("xl/worksheets/sheet1.xml"), part("xl/sharedStrings.xml"));
        assert!(sheet.contains("<v>45351.5</v>") && sheet.contains("t=\"b\"><v>1</v>"), "{sheet}");
        assert!(texts.contains(">started_utc<") && !texts.contains("unix_ms"), "{texts}");
    }
}
