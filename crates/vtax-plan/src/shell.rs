//! Command lines, taken apart without a shell.

/// The words of a command line as a shell would take them apart: by blanks, with quotes and backslashes. Nothing is replaced.
///
/// # Errors
/// Where a quote isn't closed, or there is no word.
pub fn words(line: &str) -> Result<Vec<String>, String> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(open), letter) if letter == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                // Quotes with nothing between them are a word, too.
                word = Some(word.unwrap_or_default());
            }
            (None, letter) if letter.is_whitespace() => words.extend(word.take()),
            (None | Some('"'), '\\') => {
                let next = letters.next().ok_or("nothing comes after the last backslash")?;
                word.get_or_insert_default().push(next);
            }
            (_, letter) => word.get_or_insert_default().push(letter),
        }
    }
    if let Some(open) = quote {
        return Err(format!("a quote {open} is not closed"));
    }
    words.extend(word);
    if words.is_empty() { Err("there is no command".to_owned()) } else { Ok(words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_taken_apart_as_by_a_shell() {
        let split = |text: &str| words(text).unwrap_or_default();
        assert_eq!(split("ip  link set eth1 up"), ["ip", "link", "set", "eth1", "up"]);
        assert_eq!(split(r#"sh -c "echo 'a b' > /x""#), ["sh", "-c", "echo 'a b' > /x"]);
        assert_eq!(split(r#"a '' b\ c "d\"e""#), ["a", "", "b c", "d\"e"]);
        for torn in ["", "  ", "'a", "a \"b", "a\\"] {
            assert!(words(torn).is_err(), "{torn}");
        }
        assert_eq!(words("a 'b"), Err("a quote ' is not closed".to_owned()));
    }
}
