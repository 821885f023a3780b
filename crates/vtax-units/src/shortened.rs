/// A text of at most `width` characters, one at least: what is longer is cut, and ends with `…`.
#[must_use]
pub fn shortened(text: &str, width: usize) -> String {
    match text.chars().nth(width) {
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::shortened;

    #[test]
    fn a_text_that_fits_stays() {
        assert_eq!(shortened("abc", 3), "abc");
        assert_eq!(shortened("", 0), "");
    }

    #[test]
    fn a_longer_one_is_cut_between_characters() {
        assert_eq!(shortened("abcd", 3), "ab…");
        assert_eq!(shortened("éèê", 2), "é…");
        assert_eq!(shortened("é", 0), "…");
    }
}
