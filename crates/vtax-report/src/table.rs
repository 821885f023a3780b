//! A table, written once: as a CSV file and as a sheet of the workbook.

use rust_xlsxwriter::{Worksheet, XlsxError};

use crate::sheet::{header, text as limited};

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
    text(if value { "yes" } else { "no" })
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

    /// Fills a sheet.
    ///
    /// # Errors
    ///
    /// The library's, where the sheet can't hold the table.
    pub(crate) fn write_to(&self, sheet: &mut Worksheet) -> Result<(), XlsxError> {
        for (column, name) in (0u16..).zip(&self.columns) {
            sheet.write_string_with_format(0, column, limited(name), &header())?;
        }
        for (row, cells) in (1u32..).zip(&self.rows) {
            for (column, cell) in (0u16..).zip(cells) {
                match (cell, in_workbook(cell)) {
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
        sheet.autofilter(0, 0, u32::try_from(self.rows.len()).unwrap_or(u32::MAX), last)?;
        sheet.autofit();
        Ok(())
    }
}

/// What a workbook takes for a number.
fn in_workbook(cell: &Cell) -> Option<f64> {
    let value = match cell {
        Cell::Number(value) => Some(*value),
        Cell::Fact(text) => text.parse().ok(),
        Cell::Missing | Cell::Text(_) => None,
    };
    value.filter(|value| value.is_finite())
}

/// What a file holds; a text must not be taken for a formula by a spreadsheet that opens it.
fn in_csv(cell: &Cell) -> String {
    match cell {
        Cell::Missing => String::new(),
        Cell::Number(value) if value.is_finite() => value.to_string(),
        Cell::Number(_) => String::new(),
        Cell::Text(text) | Cell::Fact(text) => match text.chars().next() {
            Some('=' | '+' | '-' | '@' | '\t' | '\r') => format!("'{text}"),
            _ => text.clone(),
        },
    }
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
        let expected = "a,b\r\nplain,0.5\r\n\"a,\"\"b\"\"\n\",\r\n'=1+1,\r\n";
        assert_eq!(String::from_utf8(table.csv()).unwrap(), expected);
    }

    #[test]
    fn only_numbers_are_numbers_in_a_workbook() {
        let found = [text("4"), number(4.0), Cell::Fact("4".to_owned()), Cell::Fact("4 s".to_owned())];
        assert_eq!(found.map(|cell| in_workbook(&cell)), [None, Some(4.0), Some(4.0), None]);
    }
}
