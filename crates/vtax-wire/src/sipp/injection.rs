//! Injection files: lines of fields, of which each call has one.

use super::template::{Keyword, Names, Part, Reading};
use super::{Problem, Problems};

/// Longest injection file.
const BYTES_MAX: usize = 64 << 20;
/// Most lines and fields of one file.
const FIELDS_MAX: usize = 4_000_000;

/// Which line a call has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// One after the other, and again from the first.
    Sequential,
    /// Any.
    Random,
}

/// Why an injection file is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InjectionError {
    /// Longer than any that is read.
    #[error("it is longer than 64 MiB or has more than four million fields")]
    TooLarge,
    /// Its first line doesn't say in which order lines are used.
    #[error("line 1: `{0}` isn't supported; it must be SEQUENTIAL or RANDOM")]
    Order(String),
    /// There is no line of fields.
    #[error("there is no line of fields")]
    Empty,
    /// A keyword in a field is wrong.
    #[error("{0}")]
    Keyword(Problem),
}

impl std::error::Error for Problem {}

/// A field.
#[derive(Debug, Clone)]
enum Field {
    /// From there to there in the file's text.
    Text(u32, u32),
    /// With keywords.
    Parts(Vec<Part>),
}

/// An injection file.
#[derive(Debug, Clone)]
pub struct Injection {
    /// Which line a call has.
    pub order: Order,
    text: Vec<u8>,
    fields: Vec<Field>,
    /// Where each line's fields begin, and where the last one's end.
    lines: Vec<u32>,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Held<'a> {
    /// Text.
    Text(&'a [u8]),
    /// Text with keywords.
    Parts(&'a [Part]),
}

impl Injection {
    /// Reads a file, with the names of the scenario that it is for.
    ///
    /// # Errors
    /// It is too large, has no order or no lines, or a keyword in a field is wrong.
    pub fn read(bytes: &[u8], names: &mut Names, keys: &[(String, String)]) -> Result<Self, InjectionError> {
        if bytes.len() > BYTES_MAX {
            return Err(InjectionError::TooLarge);
        }
        let mut lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_end).zip(1_u32..);
        let first = lines.next().map(|(line, _)| line).unwrap_or_default();
        let order = match first.trim_ascii() {
            b"SEQUENTIAL" => Order::Sequential,
            b"RANDOM" => Order::Random,
            other => {
                return Err(InjectionError::Order(
                    String::from_utf8_lossy(&other[..other.len().min(80)]).into(),
                ));
            }
        };
        let mut problems = Problems::default();
        let mut reading = Reading { names, keys, problems: &mut problems };
        let mut injection = Self { order, text: Vec::new(), fields: Vec::new(), lines: vec![0] };
        for (line, number) in lines.filter(|(line, _)| !line.is_empty() && line[0] != b'#') {
            for field in line.split(|byte| *byte == b';') {
                injection.add(field, number, &mut reading);
            }
            injection.lines.push(injection.fields.len() as u32);
            if injection.fields.len() > FIELDS_MAX {
                return Err(InjectionError::TooLarge);
            }
        }
        if let Some(problem) = problems.0.into_iter().next() {
            return Err(InjectionError::Keyword(problem));
        }
        if injection.lines.len() == 1 { Err(InjectionError::Empty) } else { Ok(injection) }
    }

    fn add(&mut self, field: &[u8], line: u32, reading: &mut Reading<'_>) {
        let field = if memchr::memchr(b'[', field).is_some() {
            let parts = reading.parts(field, line);
            if parts.iter().any(|part| matches!(part, Part::Keyword(Keyword::Field(..)))) {
                reading.problems.add(line, "a field in a field isn't supported");
            }
            Field::Parts(parts)
        } else {
            let from = self.text.len() as u32;
            self.text.extend_from_slice(field);
            Field::Text(from, self.text.len() as u32)
        };
        self.fields.push(field);
    }

    /// How many lines it has; at least one.
    #[must_use]
    pub fn lines(&self) -> u32 {
        self.lines.len() as u32 - 1
    }

    /// A field of a line, which is counted modulo the lines there are; `None` where the line has fewer.
    #[must_use]
    pub fn get(&self, line: u32, field: u16) -> Option<Held<'_>> {
        let line = (line % self.lines()) as usize;
        let at = self.lines[line] as usize + usize::from(field);
        if at >= self.lines[line + 1] as usize {
            return None;
        }
        Some(match &self.fields[at] {
            Field::Text(from, to) => Held::Text(&self.text[*from as usize..*to as usize]),
            Field::Parts(parts) => Held::Parts(parts),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_has_its_fields() {
        let mut names = Names::default();
        let file = b"SEQUENTIAL\r\n# a comment\r\nsarah;sipphone32\r\n\r\nbob;[authentication username=bob password=x];3\n";
        let injection = Injection::read(file, &mut names, &[]).unwrap();
        assert_eq!((injection.order, injection.lines()), (Order::Sequential, 2));
        assert_eq!(injection.get(0, 0), Some(Held::Text(b"sarah")));
        assert_eq!(injection.get(2, 1), Some(Held::Text(b"sipphone32")));
        assert_eq!(injection.get(0, 2), None);
        assert!(matches!(
            injection.get(1, 1),
            Some(Held::Parts([Part::Keyword(Keyword::Authentication(..))]))
        ));
        assert_eq!(injection.get(1, 2), Some(Held::Text(b"3")));
    }

    #[test]
    fn what_is_no_injection_file_is_refused() {
        let read = |text: &str| {
            Injection::read(text.as_bytes(), &mut Names::default(), &[]).unwrap_err().to_string()
        };
        assert!(read("").contains("SEQUENTIAL"));
        assert!(read("USER\na").contains("`USER` isn't supported"));
        assert!(read("RANDOM\n#a\n\n").contains("no line"));
        assert_eq!(read("RANDOM\na\nb;[tdmmap]"), "line 3: the keyword [tdmmap] isn't supported");
        assert!(read("RANDOM\n[field1]").contains("a field in a field"));
    }
}
